//! Frames: four bytes of length, little-endian, and this number of bytes of JSON.
//!
//! The thread of a connection runs this code, at the client and at the server. Invariants:
//!
//! 1. A length is compared with the limit before it is used, and memory is allocated as the bytes
//!    arrive, not by the length.
//! 2. A frame that has begun must be completely read or written by a deadline, even if the other
//!    side is slow.

use crate::protocol::PROTOCOL;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum length of a request in bytes: a table's name and two keys in hexadecimal digits.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a reply in bytes: the longest value plus a former value of that length, in
/// hexadecimal digits, plus a page of a scan or feed.
pub(crate) const REPLY_BYTES_MAX: usize = 4 * katydid::VALUE_BYTES_MAX + (8 << 20);
/// Maximum time for the rest of a frame that has begun.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// Contents of a frame.
#[derive(Serialize, Deserialize)]
struct Framed<T> {
    protocol: u32,
    body: T,
}

/// Reason why a frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The other side has ended the connection between two frames.
    #[error("the connection was ended")]
    Ended,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a frame of {0} bytes, more than {1}")]
    TooLong(usize, usize),
    #[error("protocol {0}")]
    Protocol(u32),
    #[error("{0}")]
    Json(String),
}

/// Reads a frame of at most `max` bytes that begins within `patience`.
pub(crate) fn read<T: DeserializeOwned>(
    stream: &mut UnixStream,
    max: usize,
    patience: Duration,
) -> Result<T, FrameError> {
    let mut length = [0; 4];
    stream.set_read_timeout(Some(patience))?;
    let first = loop {
        match stream.read(&mut length) {
            Ok(0) => return Err(FrameError::Ended),
            Ok(count) => break count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    };
    let deadline = Instant::now() + FRAME_TIME;
    fill(stream, &mut length[first..], deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > max {
        return Err(FrameError::TooLong(length, max));
    }
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let from = bytes.len();
        bytes.resize(length.min(from + (64 << 10)), 0);
        fill(stream, &mut bytes[from..], deadline)?;
    }
    decode(&bytes)
}

/// Decodes the body of a frame. Returns an error for any bytes that are no frame.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    /// The field that frames of every protocol version have.
    #[derive(Deserialize)]
    struct ProtocolNumber {
        protocol: u32,
    }
    let json = |error: serde_json::Error| FrameError::Json(error.to_string());
    let number: ProtocolNumber = serde_json::from_slice(bytes).map_err(json)?;
    if number.protocol != PROTOCOL {
        return Err(FrameError::Protocol(number.protocol));
    }
    let framed: Framed<T> = serde_json::from_slice(bytes).map_err(json)?;
    Ok(framed.body)
}

/// Writes a frame.
pub(crate) fn write<T: Serialize>(stream: &mut UnixStream, body: &T) -> Result<(), FrameError> {
    let json = |error: serde_json::Error| FrameError::Json(error.to_string());
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, &Framed { protocol: PROTOCOL, body }).map_err(json)?;
    let length = bytes.len() - 4;
    let prefix = u32::try_from(length).map_err(|_| FrameError::TooLong(length, u32::MAX as usize))?;
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    let deadline = Instant::now() + FRAME_TIME;
    let mut left = &bytes[..];
    while !left.is_empty() {
        stream.set_write_timeout(Some(until(deadline)?))?;
        match stream.write(left) {
            Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
            Ok(count) => left = &left[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads until `bytes` is full or the deadline is over.
fn fill(stream: &mut UnixStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(until(deadline)?))?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the time until the deadline.
fn until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    // The system treats a timeout of zero as no timeout.
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Request;

    #[test]
    fn bytes_of_any_kind_are_refused_and_never_believed() {
        assert!(matches!(decode::<Request>(b""), Err(FrameError::Json(_))));
        assert!(matches!(decode::<Request>(b"\xff\xff"), Err(FrameError::Json(_))));
        assert!(matches!(
            decode::<Request>(br#"{"protocol":2,"body":["new"]}"#),
            Err(FrameError::Protocol(2))
        ));
        assert!(matches!(decode::<Request>(br#"{"protocol":1,"body":"drop"}"#), Err(FrameError::Json(_))));
        assert!(matches!(decode::<Request>(br#"{"protocol":1,"body":"stat"}"#), Ok(Request::Stat)));
    }

    #[test]
    fn a_long_frame_is_refused_before_it_is_read() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let refused = read::<Request>(&mut other, REQUEST_BYTES_MAX, FRAME_TIME);
        assert!(matches!(refused, Err(FrameError::TooLong(..))), "{refused:?}");
    }
}
