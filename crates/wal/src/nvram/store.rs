//! What an open log in NVRAM has in the place of segments: its ring, where it starts, and the control file that remembers that.
//!
//! Any thread. Locks: `control` before `start`.
//!
//! 1. The new start is durable in the control file before it is told to anybody, and only then are positions above the old end of the ring
//!    admitted. So a crash within a trim leaves the log untrimmed or trimmed, and no byte of it overwritten.
//! 2. Bytes are copied out under `start`, which trimming takes exclusively: nobody overwrites what is being read.
//! 3. Readers see `[start, readable)`, all of which is filled and stays as it is; other positions read as zeros.

use super::ring::{NvRing, RING_AT};
use crate::checksum::SEALED_BYTES;
use crate::control::{Control, ControlState};
use crate::core::locked;
use crate::error::{Error, Result};
use crate::lsn::{BLOCK_BYTES, Lsn};
use crate::options::LogKind;
use crate::segment::{Source, incarnation_at};
use crate::sync_shim::{AtomicU64, Ordering};
use katydid_device as device;
use katydid_device::nvram::Form;
use std::sync::{Mutex, PoisonError, RwLock};

/// Bytes of the ring that only openings may use, for their Restart records: a full log can be opened, to be trimmed then.
const HEADROOM: u64 = BLOCK_BYTES;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct NvStore {
    ring: NvRing,
    kind: LogKind,
    /// Held to read the ring, and exclusively to move the start.
    start: RwLock<Lsn>,
    /// Written by whoever finds out what is filled, by `fetch_max` (Release); read by readers (Acquire).
    readable: AtomicU64,
    control: Mutex<Control>,
}

impl NvStore {
    /// A store over what opening found and mended, up to `end`.
    pub(crate) fn new(ring: NvRing, control: Control, end: Lsn) -> Self {
        let ControlState { start, log, .. } = *control.state();
        NvStore {
            ring,
            kind: log,
            start: RwLock::new(start),
            readable: AtomicU64::new(end.get()),
            control: Mutex::new(control),
        }
    }

    pub(crate) fn ring(&self) -> &NvRing {
        &self.ring
    }

    pub(crate) fn kind(&self) -> LogKind {
        self.kind
    }

    /// Whether whoever appended a record need not wait for those below it.
    pub(crate) fn is_direct(&self) -> bool {
        self.kind == LogKind::NvDirect
    }

    pub(crate) fn form(&self) -> Form {
        *self.ring.region().form()
    }

    /// The error of a simulated memory that has crashed, for nothing is persisted any more then. Memory that is not simulated does
    /// not fail.
    pub(crate) fn crash(&self) -> Option<device::Error> {
        let crashed = || device::Error::new(device::Verb::Sync, super::REGION_NAME, device::Cause::Crashed);
        self.ring.region().is_crashed().then(crashed)
    }

    pub(crate) fn start(&self) -> Lsn {
        *self.start.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where reservations may end (rule 3 of the ring).
    pub(crate) fn prepared_end(&self) -> Lsn {
        self.start().plus(self.ring.bytes() - HEADROOM)
    }

    /// Most bytes of the log at once.
    pub(crate) fn capacity(&self) -> u64 {
        self.ring.bytes() - HEADROOM
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ring.bytes() + RING_AT + 2 * SEALED_BYTES as u64
    }

    /// Everything below is filled, hence persisted.
    pub(crate) fn let_read(&self, filled: Lsn) {
        self.readable.fetch_max(filled.get(), Ordering::Release);
    }

    /// Drops the log below `to`, as [`SegmentStore::trim`](crate::segment::SegmentStore::trim) does.
    pub(crate) fn trim(&self, to: Lsn, durable: Lsn) -> Result<()> {
        if to > durable {
            return Err(Error::BeyondEnd { at: to, end: durable });
        }
        let mut control = locked(&self.control);
        if to <= self.start() {
            return Ok(());
        }
        let state = *control.state();
        let start_incarnation = if to == durable { state.incarnation } else { incarnation_at(self, to)? };
        control.update(ControlState { start: to, start_incarnation, durable, ..state })?;
        *self.start.write().unwrap_or_else(PoisonError::into_inner) = to;
        Ok(())
    }

    /// Remembers durably that the log is durable up to here. For closing.
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
        let end = at.plus(buffer.len() as u64);
        let (from, to) = (at.max(*start), end.min(readable));
        buffer.fill(0);
        if from < to {
            let into = &mut buffer[from.since(at) as usize..to.since(at) as usize];
            // SAFETY: filled, and not below the start, which does not move meanwhile (invariants 2 and 3).
            unsafe { self.ring.copy_out(from, into) };
        }
        Ok(buffer.len())
    }

    fn prepared_end(&self) -> Lsn {
        NvStore::prepared_end(self)
    }

    fn file_name(&self, _: Lsn) -> String {
        super::REGION_NAME.to_owned()
    }
}
