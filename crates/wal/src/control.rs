//! The control file: which log this is, where it starts, and how often it was opened.
//!
//! Two kinds of threads write this file, one thread at a time: those that open, close, trim or
//! truncate the log, and those that prepare a segment. No commit writes it.
//!
//! ```text
//! log.control: | slot 0, 4 KiB | slot 1, 4 KiB |      slots are sealed blocks (see `seal`), magic "KATYDCTL"
//! slot: 12 .. 16 incarnation u32 | 16 log id u128 | 32 seq u64 | 40 start u64 | 48 start incarnation u32 | 52 kind u32
//!       56 durable u64 | 64 segment bytes u64 | 72 prepared end u64 | 80 entries u64 | 88 first segment bytes u64 | zeros
//! ```
//!
//! Rules:
//!
//! 1. Slots are written in turn, durably, and the sound slot with the larger `seq` is valid. A
//!    write torn by a crash damages only the older slot: the log is then as it was before.
//! 2. The file is created under another name and renamed when it is complete, so an opening never
//!    finds it half made.
//! 3. An incarnation is the number of an opening of the log. Incarnation 0 means that nothing was
//!    ever written: creation may not have finished, so the opening makes the missing segments.
//! 4. `start incarnation` is the incarnation of the record at `start`, by which recovery recognises
//!    bytes that an older incarnation left there.
//! 5. `durable` is a lower bound of the durable frontier, like the field `durable` of records.
//! 6. In a log in NVRAM, `segment bytes` is the size of its ring or, in `nv_entries` and
//!    `nv_logging`, of its heap; no space is prepared. Only logs of these two kinds have entries.
//! 7. `first segment bytes` is 0, unless the segments grow. The number in `kind` also says whether
//!    they grow. A program that knows only segments of one size does not know this number, and
//!    refuses the log as one of another version.
//! 8. For `nv_logging`, `start` and `durable` have the values of the last opening or closing. The
//!    valid values are the head and tail in NVRAM (`nvram/pointers.rs`).
//! 9. The number in `kind` also says whether the log may have records that truncate. Before the
//!    first such record is appended, the control file durably has a number that allows these
//!    records. Afterwards the file never has another number. So a program that does not know these
//!    records refuses the log.
//! 10. Every segment from `start` to `prepared end` exists: `prepared end` covers a segment before
//!     anything is written into the segment, so recovery notices if the last segments are missing.

use crate::geometry::Geometry;
use crate::medium_options::{LogKind, entries_valid};
use crate::options::segment_bytes_valid;
use crate::seal::{self, Block, SEALED_BYTES, SealFault};
use katydid_device::{self as device, Create, Directory, File, Id, Method, WriteMode};
use katydid_kernels::checksum::{read_u32, read_u64, read_u128};
use katydid_kernels::lsn::Lsn;
use std::io::IoSlice;
use std::sync::Arc;

/// The version of the log's files that this program reads and writes. The program refuses files of
/// every other version.
pub const FORMAT_VERSION: u32 = 2;
/// The name of the NVRAM region in the log's directory.
pub(crate) const REGION_NAME: &str = "log.nvram";
/// Name of the control file.
pub(crate) const CONTROL_NAME: &str = "log.control";
/// Name of the control file while it is made.
pub(crate) const CONTROL_NEW_NAME: &str = "log.control.new";
const MAGIC: &[u8; 8] = b"KATYDCTL";
const SLOTS: u64 = 2;
const CONTROL_BYTES: u64 = SLOTS * SEALED_BYTES as u64;

/// Contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControlState {
    pub seq: u64,
    pub log_id: Id,
    pub log: LogKind,
    /// Number of times the log was opened for writing.
    pub incarnation: u32,
    /// Start of the log, up to which it was trimmed.
    pub start: Lsn,
    pub start_incarnation: u32,
    pub durable: Lsn,
    pub segment_bytes: u64,
    /// Size of the first segment; less than `segment_bytes` if segments grow, otherwise equal to
    /// `segment_bytes`.
    pub first_segment_bytes: u64,
    /// Position up to which segments are known to have been made.
    pub prepared_end: Lsn,
    /// Number of entries of a log whose records lie apart; otherwise 0.
    pub entries: u64,
    /// True if the log may have records that truncate.
    pub truncates: bool,
}

impl ControlState {
    /// Returns the state of a log that is being created.
    pub(crate) fn new(log_id: Id, log: LogKind, segment_bytes: u64) -> Self {
        ControlState {
            seq: 1,
            log_id,
            log,
            incarnation: 0,
            start: Lsn::ZERO,
            start_incarnation: 0,
            durable: Lsn::ZERO,
            segment_bytes,
            first_segment_bytes: segment_bytes,
            prepared_end: Lsn::ZERO,
            entries: 0,
            truncates: false,
        }
    }

    /// Returns the state of a log in files that is being created, with segments of these sizes.
    pub(crate) fn in_files(log_id: Id, geometry: Geometry) -> Self {
        let (first_segment_bytes, segment_bytes) = geometry.sizes();
        ControlState { first_segment_bytes, ..Self::new(log_id, LogKind::Disk, segment_bytes) }
    }

    /// Returns the segment sizes of a log in files. The sizes map positions to files.
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry::growing(self.first_segment_bytes, self.segment_bytes)
    }

    fn kind_number(&self) -> u32 {
        kind_number(self.log, self.grows(), self.truncates)
    }

    fn grows(&self) -> bool {
        self.first_segment_bytes < self.segment_bytes
    }

    pub(crate) fn encode(&self) -> Box<Block> {
        let mut block = Box::new([0; SEALED_BYTES]);
        block[12..16].copy_from_slice(&self.incarnation.to_le_bytes());
        block[16..32].copy_from_slice(&self.log_id.to_le_bytes());
        block[32..40].copy_from_slice(&self.seq.to_le_bytes());
        block[40..48].copy_from_slice(&self.start.get().to_le_bytes());
        block[48..52].copy_from_slice(&self.start_incarnation.to_le_bytes());
        block[52..56].copy_from_slice(&self.kind_number().to_le_bytes());
        block[56..64].copy_from_slice(&self.durable.get().to_le_bytes());
        block[64..72].copy_from_slice(&self.segment_bytes.to_le_bytes());
        block[72..80].copy_from_slice(&self.prepared_end.get().to_le_bytes());
        block[80..88].copy_from_slice(&self.entries.to_le_bytes());
        let first = if self.grows() { self.first_segment_bytes } else { 0 };
        block[88..96].copy_from_slice(&first.to_le_bytes());
        seal::seal(&mut block, MAGIC, FORMAT_VERSION);
        block
    }

    pub(crate) fn decode(block: &Block) -> Result<Self, SealFault> {
        seal::check_seal(block, MAGIC, FORMAT_VERSION)?;
        let Some((log, grows, truncates)) = kind_of_number(read_u32(block, 52)) else {
            return Err(SealFault::OtherVersion(FORMAT_VERSION + 1));
        };
        let (segment_bytes, first) = (read_u64(block, 64), read_u64(block, 88));
        let state = ControlState {
            seq: read_u64(block, 32),
            log_id: Id::new(read_u128(block, 16)),
            log,
            incarnation: read_u32(block, 12),
            start: Lsn::new(read_u64(block, 40)),
            start_incarnation: read_u32(block, 48),
            durable: Lsn::new(read_u64(block, 56)),
            segment_bytes,
            first_segment_bytes: if grows { first } else { segment_bytes },
            prepared_end: Lsn::new(read_u64(block, 72)),
            entries: read_u64(block, 80),
            truncates,
        };
        let entries_good = match log {
            LogKind::NvEntries | LogKind::NvLogging => entries_valid(state.entries),
            LogKind::Disk | LogKind::NvDirect | LogKind::NvRing => state.entries == 0,
        };
        let first_good = match grows {
            true => segment_bytes_valid(first) && first < segment_bytes,
            false => first == 0,
        };
        let sensible = segment_bytes_valid(segment_bytes)
            && first_good
            && (!log.in_nvram() || state.segment_bytes.is_power_of_two() && state.segment_bytes >= 16 << 10)
            && entries_good
            && state.start <= Lsn::LIMIT
            && state.start.get().is_multiple_of(8)
            && state.durable <= Lsn::LIMIT
            && state.prepared_end <= Lsn::LIMIT
            && state.start_incarnation <= state.incarnation
            && state.seq < u64::MAX;
        if sensible { Ok(state) } else { Err(SealFault::Broken) }
    }
}

fn kind_number(log: LogKind, grows: bool, truncates: bool) -> u32 {
    match log {
        LogKind::Disk if truncates => 7 + u32::from(grows),
        LogKind::Disk if grows => 5,
        LogKind::Disk => 0,
        LogKind::NvDirect => 2,
        LogKind::NvRing => 3,
        LogKind::NvEntries => 4,
        LogKind::NvLogging => 6,
    }
}

/// Returns the kind, whether segments grow, and whether there may be records that truncate; `None`
/// for a number that only a newer program can have written.
fn kind_of_number(number: u32) -> Option<(LogKind, bool, bool)> {
    let kinds = LogKind::ALL.into_iter().flat_map(|log| {
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(grows, truncates)| (log, grows, truncates))
    });
    kinds.into_iter().find(|&(log, grows, truncates)| kind_number(log, grows, truncates) == number)
}

/// Returns the newer of the sound slots, or [`SealFault::Broken`] if neither is sound. If either
/// slot has another version, returns the fault that names this version.
pub(crate) fn choose(slots: [Result<ControlState, SealFault>; 2]) -> Result<ControlState, SealFault> {
    match slots {
        [Err(SealFault::OtherVersion(version)), _] | [_, Err(SealFault::OtherVersion(version))] => {
            Err(SealFault::OtherVersion(version))
        }
        [Ok(first), Ok(second)] => Ok(if first.seq > second.seq { first } else { second }),
        [Ok(state), Err(_)] | [Err(_), Ok(state)] => Ok(state),
        [Err(_), Err(_)] => Err(SealFault::Broken),
    }
}

/// Reads the control file without changing it.
pub(crate) fn read(file: &dyn File) -> device::Result<Result<ControlState, SealFault>> {
    let mut slots = [Err(SealFault::Broken); 2];
    for (index, slot) in slots.iter_mut().enumerate() {
        let mut block = Box::new([0; SEALED_BYTES]);
        let got = file.read_at(&mut block[..], index as u64 * SEALED_BYTES as u64)?;
        if got == SEALED_BYTES {
            *slot = ControlState::decode(&block);
        }
    }
    Ok(choose(slots))
}

/// The open control file.
#[derive(Debug)]
pub(crate) struct Control {
    file: Arc<dyn File>,
    state: ControlState,
}

impl Control {
    /// Makes the control file of a new log. A crash leaves no control file, or a complete one.
    pub(crate) fn create(directory: &dyn Directory, state: ControlState) -> device::Result<Self> {
        let unfinished = directory.open(CONTROL_NEW_NAME, Create::IfMissing, Method::Buffered)?;
        // Bytes that a crashed attempt left must not remain in the other slot.
        unfinished.truncate(0)?;
        unfinished.prepare(0, CONTROL_BYTES)?;
        write_slot(unfinished.as_ref(), &state)?;
        directory.rename(CONTROL_NEW_NAME, CONTROL_NAME)?;
        directory.sync()?;
        let file = directory.open(CONTROL_NAME, Create::Never, Method::Buffered)?;
        Ok(Control { file, state })
    }

    /// Opens an existing control file. Its content is made durable before it is used.
    pub(crate) fn open(directory: &dyn Directory) -> device::Result<Result<Self, SealFault>> {
        let file = directory.open(CONTROL_NAME, Create::Never, Method::Buffered)?;
        file.sync()?;
        file.drop_cache()?;
        Ok(read(file.as_ref())?.map(|state| Control { file, state }))
    }

    pub(crate) fn state(&self) -> &ControlState {
        &self.state
    }

    /// Replaces the state, durably, by `state` with the next `seq`. On failure the state is as
    /// before.
    pub(crate) fn update(&mut self, state: ControlState) -> device::Result<()> {
        let next = ControlState { seq: self.state.seq + 1, ..state };
        write_slot(self.file.as_ref(), &next)?;
        self.state = next;
        Ok(())
    }
}

fn write_slot(file: &dyn File, state: &ControlState) -> device::Result<()> {
    let offset = state.seq % SLOTS * SEALED_BYTES as u64;
    file.write_at(&[IoSlice::new(&state.encode()[..])], offset, WriteMode::Durable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::{SimDevice, Survival};

    fn state(seq: u64) -> ControlState {
        ControlState {
            seq,
            incarnation: 3,
            start: Lsn::new(4711 * 8),
            start_incarnation: 2,
            durable: Lsn::new(1 << 40),
            prepared_end: Lsn::new(1 << 41),
            ..ControlState::new(Id::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677), LogKind::Disk, 1 << 20)
        }
    }

    #[test]
    fn a_slot_is_read_back_and_damage_noticed() {
        let block = state(9).encode();
        assert_eq!(ControlState::decode(&block), Ok(state(9)));
        for at in (0..108).chain(4080..4096) {
            let mut damaged = block.clone();
            damaged[at] ^= 0x10;
            assert_eq!(ControlState::decode(&damaged), Err(SealFault::Broken), "byte {at}");
        }
    }

    #[test]
    fn a_control_file_that_was_made_survives_a_crash_of_the_machine() {
        let device = SimDevice::new(1);
        Control::create(device.directory().as_ref(), state(1)).expect("create");
        let device = device.reopen_with(1, Survival::DropAll);
        let found = Control::open(device.directory().as_ref()).expect("it is there").expect("it is sound");
        assert_eq!(found.state(), &state(1));
    }

    #[test]
    fn a_slot_holds_high_positions() {
        let high = |nth: u64| Lsn::new((1 << 61) + 8 * nth);
        let state = ControlState { start: high(1), durable: high(2), prepared_end: high(3), ..state(9) };
        assert_eq!(ControlState::decode(&state.encode()), Ok(state));
    }

    #[test]
    fn every_kind_of_log_is_read_back_and_an_unknown_one_is_of_another_version() {
        for log in LogKind::ALL {
            let entries = if log.lies_apart() { 1 << 10 } else { 0 };
            let state = ControlState { log, entries, ..state(9) };
            assert_eq!(ControlState::decode(&state.encode()), Ok(state));
        }
        let growing = ControlState { first_segment_bytes: 64 << 10, ..state(9) };
        let block = growing.encode();
        assert_eq!(ControlState::decode(&block), Ok(growing));
        // Older programs compare these numbers with the kinds that they know.
        assert_eq!((read_u32(&state(9).encode()[..], 52), read_u32(&block[..], 52)), (0, 5));
        for (state, number) in [(state(9), 7), (growing, 8)] {
            let truncating = ControlState { truncates: true, ..state };
            let block = truncating.encode();
            assert_eq!((read_u32(&block[..], 52), ControlState::decode(&block)), (number, Ok(truncating)));
        }
        let mut block = state(9).encode();
        block[52] = 99;
        seal::seal(&mut block, MAGIC, FORMAT_VERSION);
        assert_eq!(ControlState::decode(&block), Err(SealFault::OtherVersion(FORMAT_VERSION + 1)));
    }

    #[test]
    fn nonsense_under_a_good_sum_is_refused() {
        for bad in [
            ControlState { segment_bytes: 0, ..state(1) },
            ControlState { segment_bytes: 8 << 10, log: LogKind::NvRing, ..state(1) },
            ControlState { segment_bytes: 20 << 10, log: LogKind::NvDirect, ..state(1) },
            ControlState { log: LogKind::NvLogging, ..state(1) },
            ControlState { log: LogKind::NvLogging, entries: 100, ..state(1) },
            ControlState { log: LogKind::NvRing, entries: 1 << 10, ..state(1) },
            ControlState { segment_bytes: u64::MAX, ..state(1) },
            ControlState { first_segment_bytes: 0, ..state(1) },
            ControlState { first_segment_bytes: (64 << 10) + 8, ..state(1) },
            ControlState { start: Lsn::new(u64::MAX), ..state(1) },
            ControlState { durable: Lsn::new(u64::MAX), ..state(1) },
            ControlState { prepared_end: Lsn::new(u64::MAX), ..state(1) },
            ControlState { start: Lsn::new(4), ..state(1) },
            ControlState { start_incarnation: 4, ..state(1) },
            ControlState { seq: u64::MAX, ..state(1) },
        ] {
            assert_eq!(ControlState::decode(&bad.encode()), Err(SealFault::Broken), "{bad:?}");
        }
    }

    #[test]
    fn the_newer_sound_slot_counts() {
        use SealFault::{Blank, Broken, OtherVersion};
        let (old, new) = (state(4), state(5));
        assert_eq!(choose([Ok(old), Ok(new)]), Ok(new));
        assert_eq!(choose([Ok(new), Ok(old)]), Ok(new));
        for fault in [Blank, Broken] {
            assert_eq!(choose([Ok(old), Err(fault)]), Ok(old));
            assert_eq!(choose([Err(fault), Ok(old)]), Ok(old));
            assert_eq!(choose([Err(fault), Err(fault)]), Err(Broken));
        }
        assert_eq!(choose([Ok(old), Err(OtherVersion(1))]), Err(OtherVersion(1)));
        assert_eq!(choose([Err(OtherVersion(1)), Ok(old)]), Err(OtherVersion(1)));
    }
}
