//! Named consumers: readers of the log whose positions are stored from one opening to the next.
//!
//! Any thread may call this code. A consumer has a pin (`retention`) and a file `consumer.NAME` in
//! the log's folder. The file has two slots, which are written in turn; a slot has one sealed block
//! for each 480 streams:
//!
//! ```text
//! block: 12 .. 16 number in its slot u32 | 16 log id u128 | 32 seq u64 | 40 most bytes u64 | 48 mark u64 | 56 streams u32 | zeros
//!        64 .. 3904 positions of 480 streams, u64 each | zeros
//! ```
//!
//! Rules:
//!
//! 1. The file gets its name when one of its slots is durable. A file without a whole slot is
//!    damaged, and the log refuses to open.
//! 2. A position is durable in the file before the pin moves to it. After a crash the consumer is
//!    at a position that it has acknowledged, and the log has everything from that position on.
//! 3. A consumer's position never falls.
//! 4. A consumer is lost when a trim has passed its position. That position is then below the start
//!    of the log, so after a crash the file and the start of the log show whether the consumer is
//!    lost.
//!
//! A crash leaves the position that was acknowledged last, or the position before it if the crash
//! interrupted the write.

use crate::control::FORMAT_VERSION;
use crate::error::OpenError;
use crate::retention::{Pin, Retention};
use crate::seal::{self, SEALED_BYTES, SealFault};
use katydid_device::{self as device, Create, Directory, File, Id, Method, WriteMode};
use katydid_kernels::checksum::{read_u32, read_u64, read_u128};
use katydid_kernels::lsn::Lsn;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

pub(crate) const MAGIC: &[u8; 8] = b"KATYDCON";
/// Prefix of the names of consumers' files.
pub(crate) const PREFIX: &str = "consumer.";
const NEW_SUFFIX: &str = ".new";
const SLOTS: u64 = 2;
const PLACES_AT: usize = 64;
const PLACES_PER_BLOCK: usize = 480;

/// Contents of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerPlace {
    pub(crate) seq: u64,
    pub(crate) bytes_max: u64,
    pub(crate) mark: u64,
    pub(crate) from: Vec<Lsn>,
}

fn slot_bytes(streams: usize) -> usize {
    streams.div_ceil(PLACES_PER_BLOCK) * SEALED_BYTES
}

impl ConsumerPlace {
    /// Encodes a slot for a log with this id.
    pub(crate) fn encode(&self, id: Id) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(slot_bytes(self.from.len()));
        for (number, places) in self.from.chunks(PLACES_PER_BLOCK).enumerate() {
            let mut block = Box::new([0; SEALED_BYTES]);
            block[12..16].copy_from_slice(&(number as u32).to_le_bytes());
            block[16..32].copy_from_slice(&id.to_le_bytes());
            block[32..40].copy_from_slice(&self.seq.to_le_bytes());
            block[40..48].copy_from_slice(&self.bytes_max.to_le_bytes());
            block[48..56].copy_from_slice(&self.mark.to_le_bytes());
            block[56..60].copy_from_slice(&(self.from.len() as u32).to_le_bytes());
            for (nth, place) in places.iter().enumerate() {
                let at = PLACES_AT + 8 * nth;
                block[at..at + 8].copy_from_slice(&place.get().to_le_bytes());
            }
            seal::seal(&mut block, MAGIC, FORMAT_VERSION);
            bytes.extend_from_slice(&block[..]);
        }
        bytes
    }

    /// Decodes a consumer's slot in a log with this id and this number of streams. Bytes whose
    /// length is not that of a slot for this number of streams are [`SealFault::Broken`]; no input
    /// causes a panic.
    pub(crate) fn decode(bytes: &[u8], id: Id, streams: usize) -> Result<ConsumerPlace, SealFault> {
        let mut place: Option<ConsumerPlace> = None;
        if bytes.len() != slot_bytes(streams) {
            return Err(SealFault::Broken);
        }
        for (number, block) in bytes.as_chunks::<SEALED_BYTES>().0.iter().enumerate() {
            seal::check_seal(block, MAGIC, FORMAT_VERSION)?;
            let count = PLACES_PER_BLOCK.min(streams - number * PLACES_PER_BLOCK);
            let from = (0..count).map(|nth| Lsn::new(read_u64(block, PLACES_AT + 8 * nth)));
            let from: Vec<Lsn> = from.collect();
            let is_ours = read_u32(block, 12) as usize == number
                && read_u128(block, 16) == id.get()
                && read_u32(block, 56) as usize == streams
                && from.iter().all(|from| *from <= Lsn::LIMIT);
            let here = (read_u64(block, 32), read_u64(block, 40), read_u64(block, 48));
            match &mut place {
                // Every write adds 1 to `seq`, which never reaches the greatest value. A slot with
                // that value is therefore damaged.
                _ if !is_ours || here.0 == u64::MAX => return Err(SealFault::Broken),
                None => {
                    let (seq, bytes_max, mark) = here;
                    place = Some(ConsumerPlace { seq, bytes_max, mark, from });
                }
                Some(place) if here == (place.seq, place.bytes_max, place.mark) => place.from.extend(from),
                Some(_) => return Err(SealFault::Broken),
            }
        }
        place.ok_or(SealFault::Broken)
    }
}

/// A consumer of an open log.
#[derive(Debug)]
pub(crate) struct OpenConsumer {
    pub(crate) file: Arc<dyn File>,
    pub(crate) place: ConsumerPlace,
    pub(crate) pin: Pin,
}

/// The consumers of an open log.
#[derive(Debug)]
pub(crate) struct Consumers {
    directory: Arc<dyn Directory>,
    id: Id,
    streams: usize,
    /// A thread holds this latch across device calls: while it makes a consumer's pin, and while it
    /// writes or removes a consumer's file. Taken before the latches of the streams and of
    /// `retention`.
    pub(crate) kept: Mutex<BTreeMap<String, OpenConsumer>>,
}

impl Consumers {
    /// Reads the files of all consumers in the log's folder, and pins the log for each consumer.
    pub(crate) fn open(
        directory: &Arc<dyn Directory>,
        id: Id,
        streams: usize,
        retention: &Arc<Retention>,
    ) -> Result<Consumers, OpenError> {
        let mut kept = BTreeMap::new();
        for name in directory.list()? {
            let Some(consumer) = name.strip_prefix(PREFIX) else { continue };
            if consumer.ends_with(NEW_SUFFIX) {
                directory.remove(&name)?;
                continue;
            }
            let file = directory.open(&name, Create::Never, Method::Buffered)?;
            file.sync()?;
            file.drop_cache()?;
            let place = read(directory.as_ref(), &name, file.as_ref(), id, streams)?;
            let pin = retention.restore(&place.from, place.bytes_max);
            kept.insert(consumer.to_owned(), OpenConsumer { file, place, pin });
        }
        Ok(Consumers { directory: directory.clone(), id, streams, kept: Mutex::new(kept) })
    }

    pub(crate) fn create(&self, name: &str, place: &ConsumerPlace) -> device::Result<Arc<dyn File>> {
        let (made, unfinished) = (format!("{PREFIX}{name}"), format!("{PREFIX}{name}{NEW_SUFFIX}"));
        let file = self.directory.open(&unfinished, Create::IfMissing, Method::Buffered)?;
        file.truncate(0)?;
        file.prepare(0, SLOTS * slot_bytes(self.streams) as u64)?;
        self.write(file.as_ref(), place)?;
        self.directory.rename(&unfinished, &made)?;
        self.directory.sync()?;
        self.directory.open(&made, Create::Never, Method::Buffered)
    }

    pub(crate) fn remove(&self, name: &str) -> device::Result<()> {
        self.directory.remove(&format!("{PREFIX}{name}"))?;
        self.directory.sync()
    }

    pub(crate) fn write(&self, file: &dyn File, place: &ConsumerPlace) -> device::Result<()> {
        let offset = place.seq % SLOTS * slot_bytes(self.streams) as u64;
        file.write_at(&[IoSlice::new(&place.encode(self.id))], offset, WriteMode::Durable)
    }
}

/// Reads the newest whole slot.
fn read(
    directory: &dyn Directory,
    name: &str,
    file: &dyn File,
    id: Id,
    streams: usize,
) -> Result<ConsumerPlace, OpenError> {
    let mut newest: Option<ConsumerPlace> = None;
    for slot in 0..SLOTS {
        let mut bytes = vec![0; slot_bytes(streams)];
        let got = file.read_at(&mut bytes, slot * slot_bytes(streams) as u64)?;
        if got < bytes.len() {
            continue;
        }
        match ConsumerPlace::decode(&bytes, id, streams) {
            Ok(place) if newest.as_ref().is_none_or(|newest| newest.seq < place.seq) => newest = Some(place),
            Err(SealFault::OtherVersion(found)) => {
                return Err(OpenError::other_version(directory, name, found));
            }
            Ok(_) | Err(SealFault::Blank | SealFault::Broken) => {}
        }
    }
    newest.ok_or_else(|| OpenError::CorruptControl {
        file: name.to_owned(),
        reason: "the place of this consumer cannot be read; without the file the consumer is forgotten",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_damage_noticed() {
        for streams in [1, 480, 481, 1024] {
            let from = (0..streams as u64).map(|nth| Lsn::new((1 << 61) + 8 * nth)).collect();
            let place = ConsumerPlace { seq: 7, bytes_max: u64::MAX, mark: 1 << 63, from };
            let id = Id::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
            let bytes = place.encode(id);
            assert_eq!(bytes.len(), slot_bytes(streams));
            assert_eq!(ConsumerPlace::decode(&bytes, id, streams), Ok(place.clone()));
            let last = ConsumerPlace { seq: u64::MAX, ..place.clone() }.encode(id);
            assert_eq!(ConsumerPlace::decode(&last, id, streams), Err(SealFault::Broken));
            ConsumerPlace::decode(&bytes, Id::new(1), streams).unwrap_err();
            for at in (0..80).chain(bytes.len() - 8..bytes.len()) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert_eq!(ConsumerPlace::decode(&damaged, id, streams), Err(SealFault::Broken), "byte {at}");
            }
            if streams > PLACES_PER_BLOCK {
                let mut torn = ConsumerPlace { seq: 9, ..place }.encode(id);
                torn[SEALED_BYTES..].copy_from_slice(&bytes[SEALED_BYTES..]);
                ConsumerPlace::decode(&torn, id, streams).unwrap_err();
            }
        }
    }
}
