//! The file that counts the streams of a log that has several. The file is written twice: before
//! the streams are made, and when all of them exist.
//!
//! One thread runs this code, when a log is opened. `docs/log-format.md` shows the format. Rules:
//!
//! 1. The file is replaced as a whole, by a rename, and its content is made durable before it is
//!    used.
//! 2. No opening makes a stream before the file exists. Copying a log is the exception: the copy
//!    gets the file after its streams (`copy.rs`). If there are streams and no file, the file was
//!    therefore removed, or a copying was interrupted.
//! 3. While the file says that the log is being made, no record was appended to any stream: missing
//!    streams are made, and their number may change. Once the file says that the log is complete, a
//!    missing stream is an error.

use crate::control::FORMAT_VERSION;
use crate::error::OpenError;
use crate::seal::{self, Block, SEALED_BYTES, SealFault};
use katydid_device::{self as device, Create, Directory, File, Id, Method, WriteMode};
use katydid_kernels::checksum::read_u128;
use std::io::IoSlice;

/// Name of the file. A log of one stream that lies in the log's own folder has no such file.
pub(crate) const STREAMS_NAME: &str = "streams.control";
/// Name of the file while it is made.
const STREAMS_NEW_NAME: &str = "streams.control.new";
pub(crate) const MAGIC: &[u8; 8] = b"KATYDSTR";

/// Progress of making the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreationState {
    /// Streams may be missing.
    UnderWay,
    /// All streams exist.
    Done,
}

/// Contents of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamsState {
    pub id: Id,
    pub streams: u16,
    pub making: CreationState,
}

impl StreamsState {
    /// Returns the log id of a stream: all ids differ, so that no stream is taken for another.
    pub(crate) fn stream_id(&self, index: usize) -> Id {
        Id::new(self.id.get().wrapping_add(index as u128))
    }

    pub(crate) fn encode(&self) -> Box<Block> {
        let mut block = Box::new([0; SEALED_BYTES]);
        block[12..14].copy_from_slice(&self.streams.to_le_bytes());
        block[14] = u8::from(self.making == CreationState::Done);
        block[16..32].copy_from_slice(&self.id.to_le_bytes());
        seal::seal(&mut block, MAGIC, FORMAT_VERSION);
        block
    }

    pub(crate) fn decode(block: &Block) -> Result<Self, SealFault> {
        seal::check_seal(block, MAGIC, FORMAT_VERSION)?;
        let making = match block[14] {
            0 => CreationState::UnderWay,
            1 => CreationState::Done,
            _ => return Err(SealFault::Broken),
        };
        let streams = u16::from_le_bytes([block[12], block[13]]);
        if streams == 0 {
            return Err(SealFault::Broken);
        }
        Ok(StreamsState { id: Id::new(read_u128(block, 16)), streams, making })
    }

    /// Reads the file without changing anything; `None` if it does not exist.
    pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Self>, OpenError> {
        if !directory.list()?.iter().any(|name| name == STREAMS_NAME) {
            return Ok(None);
        }
        Self::read_file(directory, directory.open_read_only(STREAMS_NAME)?.as_ref()).map(Some)
    }

    /// Makes the file durable, and reads it from the device; `None` if it does not exist.
    pub(crate) fn open(directory: &dyn Directory) -> Result<Option<Self>, OpenError> {
        if !directory.list()?.iter().any(|name| name == STREAMS_NAME) {
            return Ok(None);
        }
        directory.sync()?;
        let file = directory.open(STREAMS_NAME, Create::Never, Method::Buffered)?;
        file.sync()?;
        file.drop_cache()?;
        Self::read_file(directory, file.as_ref()).map(Some)
    }

    fn read_file(directory: &dyn Directory, file: &dyn File) -> Result<Self, OpenError> {
        let mut block = Box::new([0; SEALED_BYTES]);
        let got = file.read_at(&mut block[..], 0)?;
        let state = if got == SEALED_BYTES { Self::decode(&block) } else { Err(SealFault::Broken) };
        state.map_err(|fault| {
            let file = STREAMS_NAME.to_owned();
            match fault {
                SealFault::OtherVersion(found) => OpenError::other_version(directory, STREAMS_NAME, found),
                SealFault::Blank => OpenError::CorruptControl { file, reason: "it is blank" },
                SealFault::Broken => {
                    OpenError::CorruptControl { file, reason: "its checksum does not match" }
                }
            }
        })
    }

    /// Replaces the file, durably.
    pub(crate) fn write(&self, directory: &dyn Directory) -> device::Result<()> {
        let file = directory.open(STREAMS_NEW_NAME, Create::IfMissing, Method::Buffered)?;
        file.truncate(0)?;
        file.prepare(0, SEALED_BYTES as u64)?;
        file.write_at(&[IoSlice::new(&self.encode()[..])], 0, WriteMode::Durable)?;
        directory.rename(STREAMS_NEW_NAME, STREAMS_NAME)?;
        directory.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_damage_noticed() {
        for making in [CreationState::UnderWay, CreationState::Done] {
            let state = StreamsState { id: Id::new(u128::MAX - 1), streams: 513, making };
            let block = state.encode();
            assert_eq!(StreamsState::decode(&block), Ok(state));
            for at in (0..40).chain(4090..4096) {
                let mut damaged = block.clone();
                damaged[at] ^= 4;
                assert_eq!(StreamsState::decode(&damaged), Err(SealFault::Broken), "byte {at}");
            }
        }
        let none = StreamsState { id: Id::new(1), streams: 0, making: CreationState::Done };
        assert_eq!(StreamsState::decode(&none.encode()), Err(SealFault::Broken));
    }
}
