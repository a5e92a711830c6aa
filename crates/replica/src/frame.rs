//! Frames: the encoding of messages between replicas as bytes.
//!
//! Any thread may use the codec. The decoder never panics. It allocates memory as the bytes of a
//! payload arrive, not by the length in the header.
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | length of the payload, little-endian |
//! | 4 | version of the format: 1 |
//! | 5 | kind of the message |
//! | 6..8 | zero |
//! | 8..12 | CRC-32C of bytes 0..8 and of the payload, little-endian |
//! | 12.. | the payload |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use tokio_util::codec::{Decoder, Encoder};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 12;
/// Maximum bytes of a payload: room for the largest write set and a batch of smaller entries before
/// it.
pub const PAYLOAD_BYTES_MAX: usize = 40 << 20;
const VERSION: u8 = 1;

/// A message's kind and its encoded content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the message.
    pub kind: u8,
    /// The content.
    pub payload: Bytes,
}

/// Reason why no frame could be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The version is unknown.
    #[error("a frame has version {found}; this program reads version 1")]
    Version {
        /// The version.
        found: u8,
    },
    /// The payload is longer than [`PAYLOAD_BYTES_MAX`].
    #[error("a frame has {length} bytes of payload; at most {PAYLOAD_BYTES_MAX} are allowed")]
    TooLong {
        /// Length of the payload in bytes.
        length: usize,
    },
    /// The checksum is wrong, or a field that must be zero is not.
    #[error("a frame of {length} bytes does not match its checksum")]
    Damaged {
        /// Length of the payload.
        length: usize,
    },
}

/// Encodes and decodes frames.
#[derive(Debug, Default)]
pub struct FrameCodec(());

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    digest.update(payload);
    digest.finalize() as u32
}

impl Encoder<Frame> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, to: &mut BytesMut) -> Result<(), FrameError> {
        let length = frame.payload.len();
        if length > PAYLOAD_BYTES_MAX {
            return Err(FrameError::TooLong { length });
        }
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(length as u32).to_le_bytes());
        (head[4], head[5]) = (VERSION, frame.kind);
        to.reserve(HEADER_BYTES + length);
        to.put_slice(&head);
        to.put_u32_le(checksum(&head, &frame.payload));
        to.put_slice(&frame.payload);
        Ok(())
    }
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, from: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some((head, rest)) = from.split_first_chunk::<8>() else { return Ok(None) };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if head[4] != VERSION {
            return Err(FrameError::Version { found: head[4] });
        }
        if length > PAYLOAD_BYTES_MAX {
            return Err(FrameError::TooLong { length });
        }
        let Some((sum, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        if [head[6], head[7]] != [0, 0] || checksum(head, payload) != u32::from_le_bytes(*sum) {
            return Err(FrameError::Damaged { length });
        }
        let kind = head[5];
        from.advance(HEADER_BYTES);
        Ok(Some(Frame { kind, payload: from.split_to(length).freeze() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(frames: &[Frame]) -> BytesMut {
        let mut bytes = BytesMut::new();
        for frame in frames {
            FrameCodec::default().encode(frame.clone(), &mut bytes).expect("encode");
        }
        bytes
    }

    fn frames() -> [Frame; 3] {
        let frame = |kind, payload: &'static [u8]| Frame { kind, payload: Bytes::from_static(payload) };
        [frame(1, b""), frame(2, b"a payload"), frame(255, &[0; 300])]
    }

    #[test]
    fn frames_arrive_however_their_bytes_are_cut() {
        let whole = encoded(&frames());
        for step in [1, 5, 13, whole.len()] {
            let (mut bytes, mut found) = (BytesMut::new(), Vec::new());
            for piece in whole.chunks(step) {
                bytes.extend_from_slice(piece);
                while let Some(frame) = FrameCodec::default().decode(&mut bytes).expect("decode") {
                    found.push(frame);
                }
            }
            assert_eq!(found, frames());
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn a_changed_byte_is_found_or_asks_for_more_bytes() {
        let whole = encoded(&frames()[1..2]);
        for at in 0..whole.len() {
            for flip in 1..=u8::MAX {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let decoded = FrameCodec::default().decode(&mut bytes);
                // A length that grew makes the decoder wait for more bytes, which then fail the
                // checksum.
                assert!(!matches!(decoded, Ok(Some(_))), "byte {at} changed by {flip}");
                assert!(at < 4 || decoded.is_err(), "byte {at} changed by {flip}");
            }
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
        let mut bytes = BytesMut::from(&[0xff, 0xff, 0xff, 0xff, VERSION, 1, 0, 0][..]);
        assert!(matches!(FrameCodec::default().decode(&mut bytes), Err(FrameError::TooLong { .. })));
        let payload = Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]);
        let too_long = FrameCodec::default().encode(Frame { kind: 1, payload }, &mut bytes);
        assert!(matches!(too_long, Err(FrameError::TooLong { .. })));
    }
}
