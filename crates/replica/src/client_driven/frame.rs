//! Frames: a message with its length, the protocol's version and a checksum.
//!
//! ```text
//! 0        4         6      8          12         16
//! | magic  | version | kind | length   | checksum | body: `length` bytes, postcard |
//! ```
//!
//! All numbers are little-endian. `kind` is 1 for a request and 2 for a reply. The checksum is
//! CRC-32C of the first 12 bytes and the body.
//!
//! The thread of a connection runs this code, at the client and at the replica. Invariants:
//!
//! 1. A length is compared with the limit before it is used, and memory is allocated as the bytes
//!    arrive, not by the length.
//! 2. A frame that is damaged anywhere is refused. Then the caller of [`read`] gives up the
//!    connection, because it is not known where the next frame begins.

use super::message::{Reply, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};

/// Version of the protocol, in each frame.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"KdCd";
const HEADER_BYTES: usize = 16;
/// Bytes of the header that the checksum covers.
const SUMMED_BYTES: usize = 12;

/// Maximum length of a body in bytes. It limits the operations of one transaction, and the values
/// that the transaction's reads found. A page of rows is shorter: it ends with the row that reaches
/// 1 MiB.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Reason why a frame was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The other side ended the connection between two frames.
    #[error("the other side ended the connection")]
    Ended,
    /// The connection failed, or ended inside a frame.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first bytes are not those of a frame.
    #[error("a frame cannot begin with the bytes {0:02x?}")]
    Magic([u8; 4]),
    /// The other side speaks another version of the protocol.
    #[error("a frame of protocol version {0}, not {VERSION}")]
    Version(u16),
    /// The frame is a request where a reply was due, or a reply where a request was due.
    #[error("a frame of unexpected kind {0}")]
    Kind(u16),
    /// The body is longer than allowed.
    #[error("a frame of {0} bytes, more than {BODY_BYTES_MAX}")]
    TooLong(usize),
    /// The checksum of the frame is wrong.
    #[error("a frame whose checksum is wrong")]
    Checksum,
    /// A message cannot be encoded, or the body of a frame with a right checksum is not an encoded
    /// message.
    #[error("the body of a frame is no message: {0}")]
    Message(postcard::Error),
}

/// A type of messages that frames carry.
pub trait Message: Serialize + DeserializeOwned {
    /// Number of the type in the header.
    const KIND: u16;
}

impl Message for Request {
    const KIND: u16 = 1;
}

impl Message for Reply {
    const KIND: u16 = 2;
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    digest.update(body);
    // The digest is a 64-bit number that holds a 32-bit checksum.
    digest.finalize() as u32
}

/// Encodes a message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`]. [`FrameError::Message`] if the message cannot be encoded.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = postcard::to_extend(message, vec![0; HEADER_BYTES]).map_err(FrameError::Message)?;
    let length = frame.len() - HEADER_BYTES;
    if length > BODY_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    seal::<M>(&mut frame);
    Ok(frame)
}

/// Writes the header of a frame whose body is in place.
fn seal<M: Message>(frame: &mut [u8]) {
    let length = frame.len() - HEADER_BYTES;
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..6].copy_from_slice(&VERSION.to_le_bytes());
    frame[6..8].copy_from_slice(&M::KIND.to_le_bytes());
    frame[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    let (header, body) = frame.split_at(HEADER_BYTES);
    let sum = checksum(&header[..SUMMED_BYTES], body);
    frame[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// Returns a copy of `frame` in which a valid header replaces the old one. If `frame` is shorter
/// than a header, the copy is a frame with an empty body.
pub(super) fn mended<M: Message>(frame: &[u8]) -> Vec<u8> {
    let mut mended = frame.to_vec();
    mended.resize(frame.len().max(HEADER_BYTES), 0);
    seal::<M>(&mut mended);
    mended
}

/// A checked header: the bytes that the checksum covers, the length of the body, and the checksum.
struct Header {
    bytes: [u8; SUMMED_BYTES],
    length: usize,
    checksum: u32,
}

impl Header {
    fn decode(header: &[u8; HEADER_BYTES], kind: u16) -> Result<Header, FrameError> {
        let two = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let four = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        if four(0) != MAGIC {
            return Err(FrameError::Magic(four(0)));
        }
        if two(4) != VERSION {
            return Err(FrameError::Version(two(4)));
        }
        if two(6) != kind {
            return Err(FrameError::Kind(two(6)));
        }
        let length = u32::from_le_bytes(four(8)) as usize;
        if length > BODY_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        let mut bytes = [0; SUMMED_BYTES];
        bytes.copy_from_slice(&header[..SUMMED_BYTES]);
        Ok(Header { bytes, length, checksum: u32::from_le_bytes(four(12)) })
    }

    fn message<M: Message>(&self, body: &[u8]) -> Result<M, FrameError> {
        if checksum(&self.bytes, body) != self.checksum {
            return Err(FrameError::Checksum);
        }
        match postcard::take_from_bytes(body).map_err(FrameError::Message)? {
            (message, []) => Ok(message),
            _ => Err(FrameError::Message(postcard::Error::DeserializeBadEncoding)),
        }
    }
}

/// Reads one message.
///
/// # Errors
/// [`FrameError::Ended`] if the other side ended the connection before the frame. After any other
/// error the caller must give up the connection.
pub fn read<M: Message>(from: &mut impl Read) -> Result<M, FrameError> {
    let mut header = [0; HEADER_BYTES];
    let first = loop {
        match from.read(&mut header) {
            Ok(0) => return Err(FrameError::Ended),
            Ok(count) => break count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    };
    from.read_exact(&mut header[first..])?;
    let header = Header::decode(&header, M::KIND)?;
    let mut body = Vec::new();
    from.take(header.length as u64).read_to_end(&mut body)?;
    if body.len() < header.length {
        return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
    }
    header.message(&body)
}

/// Writes one message.
///
/// # Errors
/// Those of [`encode`], before anything is written; [`FrameError::Io`].
pub fn write<M: Message>(to: &mut impl Write, message: &M) -> Result<(), FrameError> {
    Ok(to.write_all(&encode(message)?)?)
}

#[cfg(test)]
mod tests;
