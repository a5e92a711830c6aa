//! The store of an open log in NVRAM, in the place of segments: its memory, its start, and the
//! control file that stores the start.
//!
//! Any thread may call this code. A thread takes the lock `control` before the lock `start`. Rules:
//!
//! 1. The new start is durable in the control file (in `nv_logging`, in the head in NVRAM) before
//!    any thread sees it. After that, positions above the old end of the ring are admitted, and the
//!    memory of records below the new start is used again. So if a crash comes within a trim, the
//!    log is untrimmed or trimmed, and no byte of it is overwritten.
//! 2. Bytes are copied out under `start`, which trimming takes exclusively: no append overwrites
//!    bytes that are being read.
//! 3. Readers see `[start, readable)`, all of which is persisted and stays as it is. Other
//!    positions read as zeros in a ring, and have no bytes in a log with entries.

use super::apart::Apart;
use super::entries::ENTRY;
use super::ring::{NvRing, RING_AT};
use crate::control::{Control, ControlState};
use crate::core::{Use, locked};
use crate::error::{Error, Result};
use crate::medium_options::LogKind;
use crate::options::Options;
use crate::seal::SEALED_BYTES;
use crate::segment::{Source, incarnation_at};
use katydid_device as device;
use katydid_device::nvram::{Form, NvRegion};
use katydid_kernels::insert::{BufferSizes, PhysicalRecord};
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use katydid_kernels::nvram::arena::Full;
use katydid_kernels::record::Layout;
use katydid_kernels::ring::RecordMemory;
use katydid_kernels::sync_shim::{AtomicU64, Ordering, raise};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Bytes of the ring that only openings may use, for their Restart records, so that a full log can
/// be opened and then trimmed.
const HEADROOM: u64 = BLOCK_BYTES;

/// The memory of the records.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    /// Records lie at their positions.
    Ring(NvRing),
    /// Records lie apart from their positions.
    Apart(Arc<Apart>),
}

impl Memory {
    pub(super) fn region(&self) -> &NvRegion {
        match self {
            Memory::Ring(ring) => ring.region(),
            Memory::Apart(apart) => apart.entries.region(),
        }
    }

    /// Returns the sizes of the log buffer of a log in this memory, and the place of its records.
    pub(crate) fn arrange(&self, options: &Options) -> (BufferSizes, RecordMemory) {
        match self {
            Memory::Ring(ring) => {
                (options.nvram_sizes(ring.bytes()), RecordMemory::Nvram(Arc::new(ring.clone())))
            }
            Memory::Apart(apart) => {
                let entries = &apart.entries;
                let sizes = options.entry_sizes(entries.bytes() / ENTRY, entries.heap_bytes());
                (sizes, RecordMemory::Apart)
            }
        }
    }

    /// Puts one of the log's own records at `at`, and persists it, while the log is opened.
    ///
    /// # Safety
    /// The caller has the region alone, and no valid record is there.
    pub(super) unsafe fn put_own(
        &self,
        at: Lsn,
        record: &PhysicalRecord<'_>,
    ) -> std::result::Result<(), Full> {
        match self {
            Memory::Ring(ring) => {
                // SAFETY: follows from this function's contract.
                unsafe { record.copy_to_nvram(ring, at) };
                ring.persist(at, at.plus(record.bytes()));
                Ok(())
            }
            // SAFETY: follows from this function's contract.
            Memory::Apart(apart) => unsafe { apart.put_own(at, record) },
        }
    }

    /// Persists the filled positions `[from, to)`, or moves the tail over them if appenders have
    /// persisted them. Returns whether all of them are durable now. Called by one thread at a time,
    /// on an open log.
    pub(crate) fn persist(&self, from: Lsn, to: Lsn) -> bool {
        match self {
            Memory::Ring(ring) => ring.persist(from, to),
            Memory::Apart(apart) => match apart.entries.pointers() {
                Some(pointers) => return apart.entries.move_tail(pointers, from, to),
                // SAFETY: `[from, to)` is filled, and records that are not persisted are not
                // trimmed.
                None => unsafe { apart.entries.persist(from, to) },
            },
        }
        true
    }

    pub(crate) fn layout(&self) -> Layout {
        match self {
            Memory::Ring(_) => Layout::InMemory,
            Memory::Apart(_) => Layout::Apart,
        }
    }

    /// Returns the number of positions from the start on that may be reserved.
    fn positions(&self) -> u64 {
        match self {
            Memory::Ring(ring) => ring.bytes() - HEADROOM,
            Memory::Apart(apart) => apart.positions(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Memory::Ring(ring) => ring.bytes(),
            Memory::Apart(apart) => apart.entries.bytes() + apart.entries.heap_bytes(),
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct NvStore {
    memory: Memory,
    kind: LogKind,
    /// A thread holds this lock shared to read records, and exclusively to move the start.
    start: RwLock<Lsn>,
    /// Raised (Release) by threads that trim, and by threads that ask how far they may read; read
    /// (Acquire) by readers.
    readable: AtomicU64,
    control: Mutex<Control>,
}

impl NvStore {
    /// Makes the store of the log that opening has found and repaired, up to `end`.
    pub(crate) fn new(memory: Memory, control: Control, end: Lsn) -> Self {
        let ControlState { start, log, .. } = *control.state();
        NvStore {
            memory,
            kind: log,
            start: RwLock::new(start),
            readable: AtomicU64::new(end.get()),
            control: Mutex::new(control),
        }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the heap and entries, if records lie apart. An append asks them for a place, in
    /// addition to asking the admission.
    pub(crate) fn apart(&self) -> Option<&Arc<Apart>> {
        match &self.memory {
            Memory::Ring(_) => None,
            Memory::Apart(apart) => Some(apart),
        }
    }

    pub(crate) fn kind(&self) -> LogKind {
        self.kind
    }

    /// Returns whether this is `nv_direct`, where an append persists its record before the record
    /// counts as filled.
    pub(crate) fn is_direct(&self) -> bool {
        self.kind == LogKind::NvDirect
    }

    pub(crate) fn form(&self) -> Form {
        *self.memory.region().form()
    }

    /// Returns an error if the memory is simulated and has crashed, because such memory persists
    /// nothing any more. Memory that is not simulated does not fail.
    pub(crate) fn crash(&self) -> Option<device::Error> {
        let crashed =
            || device::Error::new(device::Verb::Sync, crate::control::REGION_NAME, device::Cause::Crashed);
        self.memory.region().is_crashed().then(crashed)
    }

    pub(crate) fn start(&self) -> Lsn {
        *self.start.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first position that may not be reserved (rule 3 of the ring).
    pub(crate) fn prepared_end(&self) -> Lsn {
        self.start().plus(self.memory.positions()).min(Lsn::LIMIT)
    }

    /// Returns the maximum number of bytes of records that the memory holds at once, when neither
    /// `lost` positions nor the heap's chunks kept for `reserve` bytes can be used.
    pub(crate) fn capacity(&self, lost: u64, reserve: u64) -> u64 {
        match &self.memory {
            Memory::Ring(_) => self.memory.positions().saturating_sub(lost),
            Memory::Apart(apart) => apart.capacity(lost, reserve),
        }
    }

    /// Returns the maximum bytes of a reserve, if `slack` positions cannot be used.
    pub(crate) fn reserve_bytes_max(&self, slack: u64) -> u64 {
        match &self.memory {
            Memory::Ring(_) => self.memory.positions().saturating_sub(slack),
            Memory::Apart(apart) => apart.reserve_bytes_max(slack),
        }
    }

    /// Returns the use of the memory by a log that ends at `reserved`.
    pub(crate) fn space(&self, reserved: Lsn) -> Use {
        match &self.memory {
            Memory::Ring(_) => {
                Use { live: reserved.since(self.start()), prepared: self.prepared_end().since(reserved) }
            }
            Memory::Apart(apart) => {
                let (live, prepared) = apart.taken_and_free();
                Use { live, prepared }
            }
        }
    }

    /// Returns the used part of the space for normal appends, in per mille. This is the larger of
    /// two shares: `live` as a share of all positions but the `lost` ones, and the used chunks as a
    /// share of the heap without `reserve` bytes.
    pub(crate) fn fullness(&self, live: u64, lost: u64, reserve: u64) -> u32 {
        let most = self.memory.positions().saturating_sub(lost).max(1);
        let share = u128::from(live) * 1000 / u128::from(most);
        let heap = self.apart().map_or(0, |apart| apart.fullness(reserve));
        u32::try_from(share.max(heap.into())).unwrap_or(u32::MAX)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.memory.bytes() + RING_AT + 2 * SEALED_BYTES as u64
    }

    /// Lets readers read up to `persisted`, below which everything is persisted.
    pub(crate) fn let_read(&self, persisted: Lsn) {
        raise(&self.readable, persisted.get(), Ordering::Release);
    }

    /// Drops the log below `to`, as [`SegmentStore::trim`](crate::segment::SegmentStore::trim)
    /// does.
    pub(crate) fn trim(&self, to: Lsn, durable: Lsn) -> Result<()> {
        if to > durable {
            return Err(Error::BeyondEnd { at: to, end: durable });
        }
        let mut control = locked(&self.control);
        if to <= self.start() {
            return Ok(());
        }
        self.let_read(durable);
        let state = *control.state();
        let start_incarnation = if to == durable { state.incarnation } else { incarnation_at(self, to)? };
        let pointers = self.apart().and_then(|apart| apart.entries.pointers());
        match pointers {
            None => control.update(ControlState { start: to, start_incarnation, durable, ..state })?,
            Some(pointers) => {
                pointers.move_head(to, start_incarnation);
                if let Some(crash) = self.crash() {
                    return Err(crash.into());
                }
            }
        }
        {
            let mut start = self.start.write().unwrap_or_else(PoisonError::into_inner);
            if let (Some(apart), Some(_)) = (self.apart(), pointers) {
                // No reader is below the new start, and no appender is admitted there before the
                // start has moved.
                apart.entries.reset_passed(*start, to);
            }
            *start = to;
        }
        if let Some(apart) = self.apart() {
            apart.arenas.release(to.get());
        }
        Ok(())
    }

    /// Stores durably that the log is durable up to `durable`. Called when the log closes.
    pub(crate) fn note_durable(&self, durable: Lsn) -> device::Result<()> {
        let mut control = locked(&self.control);
        let state = *control.state();
        control.update(ControlState { durable, ..state })
    }
}

impl Source for NvStore {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let start = self.start.read().unwrap_or_else(PoisonError::into_inner);
        let readable = Lsn::new(self.readable.load(Ordering::Acquire));
        match &self.memory {
            Memory::Ring(ring) => {
                let end = at.plus(buffer.len() as u64);
                let (from, to) = (at.max(*start), end.min(readable));
                buffer.fill(0);
                if from < to {
                    let into = &mut buffer[from.since(at) as usize..to.since(at) as usize];
                    // SAFETY: the bytes are filled, and not below the start, which does not move
                    // meanwhile (rules 2 and 3).
                    unsafe { ring.copy_out(from, into) };
                }
                Ok(buffer.len())
            }
            Memory::Apart(apart) if (*start..readable).contains(&at) && at.get().is_multiple_of(ENTRY) => {
                // SAFETY: `start` is held, so the bytes read are neither trimmed nor overwritten.
                Ok(unsafe { apart.entries.read(at, buffer) })
            }
            Memory::Apart(_) => Ok(0),
        }
    }

    fn prepared_end(&self) -> Lsn {
        NvStore::prepared_end(self)
    }

    fn file_name(&self, _: Lsn) -> String {
        crate::control::REGION_NAME.to_owned()
    }

    fn layout(&self) -> Layout {
        self.memory.layout()
    }
}
