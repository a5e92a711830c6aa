//! The inside of an open stream: the log buffer, the segments, and what ties the stages together.
//!
//! Shared by all handles, sessions and background threads. The hot path is [`Core::append`]; whoever holds the baton runs
//! `leader`.
//!
//! Invariants:
//!
//! 1. `written` moves only after the device took the bytes, `durable` only after it keeps them, and both only over writes that have
//!    ended without a gap.
//! 2. After a failed write or sync, `cause` is set, nothing more is admitted or written, neither frontier moves, and
//!    everybody who waits is released.
//!    A panic in a step of a leader or in a background thread counts as such a failure.
//! 3. A durable write is used alone only if everything before it is durable already, or in such a write that is under way; otherwise a
//!    sync follows.
//!
//! A crash at any point leaves a prefix of whole blocks, then blocks of the writes under way in any order, possibly torn;
//! recovery keeps what is valid and contiguous.

#[cfg(test)]
mod checks;
mod in_nvram;
mod leader;
mod store;
mod threads;

pub(crate) use store::Store;

use crate::counters::{Counters, Tally};
use crate::error::{AppendError, Error, Result};
use crate::maintenance::{Maintenance, Refusal};
use crate::nvram::apart::ApartInserter;
use crate::nvram::store::NvStore;
use crate::options::Background;
use crate::options::Options;
use crate::reader::Extent;
use crate::segment::SegmentStore;
use crate::session::{Append, Appended};
use crate::wakers::Wakers;
use katydid_device::{self as device, AlignedBuffer, Cause, Gate, Verb};
use katydid_kernels::dependencies::StreamId;
use katydid_kernels::durability::Durability;
use katydid_kernels::frontier::Frontiers;
use katydid_kernels::insert::{
    Admission, AppendClass, Inserter, LogBuffer, PhysicalRecord, Stalled, Tracker,
};
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use katydid_kernels::nvram::commit::Committer;
use katydid_kernels::record::{
    HEADER_BYTES, HeaderFields, Kind, Layout, Part, RECORD_BYTES_MAX, prepare_header, split,
};
use katydid_kernels::ring::Ring;
use katydid_kernels::sync::{Persisted, SyncProtocol};
use katydid_kernels::sync_shim::{AtomicBool, AtomicU64, Ordering, rest};
use leader::LeaderState;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;

/// The slot of the log's own records.
pub(crate) const OWN_SLOT: usize = 0;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Core {
    /// The stream's number.
    pub(crate) stream: StreamId,
    pub(crate) buffer: LogBuffer,
    pub(crate) store: Store,
    pub(crate) maintenance: Maintenance,
    pub(crate) wakers: Wakers,
    pub(crate) tally: Tally,
    inserter: Box<dyn Inserter>,
    protocol: Box<dyn SyncProtocol>,
    background: Background,
    /// Whether order of appends is order of LSNs.
    in_order: bool,
    /// Where the records that are appended lie.
    layout: Layout,
    incarnation: u32,
    physical_bytes_max: usize,
    spare_segments: u64,
    /// Which writes are under way. Held for a moment when one is planned or has ended. A leaf latch.
    leader: Mutex<LeaderState>,
    /// What the block is written from that holds the filled frontier. Held through such a write, of which there is one at a time. Before `leader`.
    tail: Mutex<AlignedBuffer>,
    /// Held through a sync. Before `leader`.
    syncing: Mutex<()>,
    committer: Committer,
    write_bytes_max: u64,
    slots: Mutex<Slots>,
    /// Guards slot [`OWN_SLOT`].
    own: Mutex<()>,
    cause: OnceLock<device::Error>,
    // Set (Release, after `cause` if there is one) when no frontier moves any more: the log has failed or ended. Read (Acquire) by
    // whoever wonders why a frontier stands still.
    over: AtomicBool,
    closed: AtomicBool,
    /// Written up to the end of a record. Stored (Release) by the holder of the baton, read (Acquire) by readers.
    readable: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    me: Weak<Core>,
}

#[derive(Debug)]
struct Slots {
    free: Vec<usize>,
    next: usize,
    most: usize,
}

/// What recovery found, as far as this file cares.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) stream: StreamId,
    pub(crate) store: Store,
    pub(crate) incarnation: u32,
    pub(crate) end: Lsn,
    /// The bytes of the block that holds `end`, up to `end`.
    pub(crate) tail: Vec<u8>,
}

impl Core {
    pub(crate) fn new(options: &Options, start: Start) -> Arc<Core> {
        let effective;
        let (options, ring, protocol) = match &start.store {
            Store::Disk(_) => {
                let ring = Ring::new(options.ring_bytes);
                // SAFETY: nobody else has the ring yet.
                unsafe { ring.fill(start.end.floor_block(), &[&start.tail], 0) };
                (
                    options,
                    ring,
                    options.background.arrange(options.background.limit(options).sync_design().protocol()),
                )
            }
            Store::Nvram(store) => {
                let (of_memory, ring) = store.memory().arrange(options);
                effective = of_memory;
                (&effective, ring, options.background.arrange(Box::new(Persisted::new())))
            }
        };
        let sizes = options.buffer_sizes();
        let apart = start.store.nvram().and_then(NvStore::apart);
        let (admission, inserter, physical_bytes_max) = match apart {
            None => {
                let inserter = options.design().inserter(&sizes, start.incarnation, start.end);
                (Admission::new(&sizes), inserter, options.physical_bytes_max())
            }
            Some(apart) => {
                // One more for the log's own records.
                let inserter: Box<dyn Inserter> =
                    Box::new(ApartInserter::new(options.sessions_max + 1, apart.clone()));
                (Admission::of_entries(&sizes), inserter, apart.entries.physical_bytes_max())
            }
        };
        let layout = start.store.layout();
        let core = Arc::new_cyclic(|me| Core {
            stream: start.stream,
            buffer: LogBuffer { frontiers: Frontiers::at(start.end), ring, admission },
            layout,
            store: start.store,
            maintenance: Maintenance::default(),
            wakers: Wakers::new(options.background),
            tally: Tally::default(),
            in_order: layout == Layout::Apart || options.inserter.keeps_order(),
            inserter,
            protocol,
            background: options.background,
            incarnation: start.incarnation,
            physical_bytes_max,
            spare_segments: options.spare_segments as u64,
            leader: Mutex::new(LeaderState::new(start.end)),
            tail: Mutex::new(AlignedBuffer::new_zeroed(BLOCK_BYTES as usize)),
            syncing: Mutex::new(()),
            committer: Committer::new(),
            // So that one half can be filled while the other is written.
            write_bytes_max: (options.write_bytes_max as u64).min(options.ring_bytes as u64 / 2),
            slots: Mutex::new(Slots { free: Vec::new(), next: OWN_SLOT + 1, most: options.sessions_max }),
            own: Mutex::new(()),
            cause: OnceLock::new(),
            over: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            readable: AtomicU64::new(start.end.get()),
            threads: Mutex::new(Vec::new()),
            me: me.clone(),
        });
        core.inserter.open(OWN_SLOT);
        core.refresh();
        core
    }

    pub(crate) fn frontiers(&self) -> &Frontiers {
        &self.buffer.frontiers
    }

    // ---- sessions

    pub(crate) fn open_slot(&self) -> Result<usize> {
        let mut slots = locked(&self.slots);
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None if slots.next > slots.most => return Err(Error::SessionsExhausted { limit: slots.most }),
            None => {
                slots.next += 1;
                slots.next - 1
            }
        };
        self.inserter.open(slot);
        Ok(slot)
    }

    pub(crate) fn close_slot(&self, slot: usize) {
        locked(&self.slots).free.push(slot);
    }

    // ---- appending

    #[inline]
    pub(crate) fn append(
        &self,
        slot: usize,
        append: &Append<'_>,
    ) -> std::result::Result<Appended, AppendError> {
        if !append.kind.is_user() {
            return Err(AppendError::ReservedKind { kind: append.kind.get() });
        }
        self.append_any(slot, append)
    }

    /// Appends one of the log's own records.
    pub(crate) fn append_own(&self, kind: Kind) -> std::result::Result<Appended, AppendError> {
        let _turn = locked(&self.own);
        let append = Append::new(kind, &[]).class(AppendClass::Critical);
        self.append_any(OWN_SLOT, &append)
    }

    #[inline]
    fn append_any(&self, slot: usize, append: &Append<'_>) -> std::result::Result<Appended, AppendError> {
        let total = append.payload.iter().fold(HEADER_BYTES, |sum, part| sum.saturating_add(part.len()));
        if total > self.physical_bytes_max {
            return self.append_fragments(slot, append, total);
        }
        let prepared =
            prepare_header(&self.fields(append), Part::Whole, None, append.payload.iter().copied());
        let mut record =
            PhysicalRecord { prepared: &prepared, payload: append.payload, after: append.above() };
        let start = self.insert(slot, &mut record, append.class)?;
        let bytes = record.bytes();
        let end = start.plus(self.layout.positions(bytes));
        Ok(Appended { stream: self.stream, first: start, lsn: start, end, bytes })
    }

    #[inline]
    fn fields(&self, append: &Append<'_>) -> HeaderFields {
        HeaderFields {
            incarnation: self.incarnation,
            kind: append.kind,
            txn: append.txn,
            chain: append.chain,
            durable: self.buffer.frontiers.durable(),
            layout: self.layout,
        }
    }

    /// See [`Stream::record_bytes`](crate::Stream::record_bytes).
    pub(crate) fn record_bytes(&self, payload: u64) -> u64 {
        // A header, a fragment's link and padding are together less.
        const HEADS: u64 = 2 * HEADER_BYTES as u64;
        let pieces = payload.div_ceil((self.physical_bytes_max as u64).saturating_sub(HEADS).max(1)).max(1);
        payload.saturating_add(pieces.saturating_mul(HEADS))
    }

    #[cold]
    fn append_fragments(
        &self,
        slot: usize,
        append: &Append<'_>,
        total: usize,
    ) -> std::result::Result<Appended, AppendError> {
        let fragments = split(append.payload, self.physical_bytes_max).map_err(|oversized| {
            AppendError::TooLarge { bytes: oversized.0, limit: RECORD_BYTES_MAX as u64 }
        })?;
        // Room for all of it is made sure of before the first byte, so that a refusal leaves nothing behind. Others may
        // still take it away: then the rest may use the reserve.
        let bytes = self.record_bytes((total - HEADER_BYTES) as u64);
        if let Some(limit) = self.capacity()
            && bytes > limit
        {
            return Err(AppendError::TooLarge { bytes, limit });
        }
        self.make_prepared(bytes, append.class)?;
        let mut class = append.class;
        let mut appended: Option<Appended> = None;
        for fragment in fragments {
            let previous = appended.map_or(Lsn::ZERO, |appended| appended.lsn);
            let slices: Vec<&[u8]> = fragment.slices().collect();
            let prepared = fragment.prepare(&self.fields(append), previous);
            let mut record = PhysicalRecord { prepared: &prepared, payload: &slices, after: append.above() };
            let start = self.insert(slot, &mut record, class)?;
            class = AppendClass::Critical;
            let (first, before) = appended.map_or((start, 0), |appended| (appended.first, appended.bytes));
            let bytes = record.bytes();
            let end = start.plus(self.layout.positions(bytes));
            appended = Some(Appended { stream: self.stream, first, lsn: start, end, bytes: before + bytes });
        }
        appended.ok_or(AppendError::TooLarge { bytes, limit: RECORD_BYTES_MAX as u64 })
    }

    #[inline]
    fn insert(
        &self,
        slot: usize,
        record: &mut PhysicalRecord<'_>,
        class: AppendClass,
    ) -> std::result::Result<Lsn, AppendError> {
        let mut step = 0;
        loop {
            // SAFETY: a slot is used by one thread at a time: `open_slot` gives it to one `Session`, which is not `Sync` and gives it back when it is
            // dropped, under the lock of `slots`; `own` guards `OWN_SLOT`. The buffer is this log's, made together with the inserter. Larger
            // records are split (`append_any`).
            let inserted = unsafe { self.inserter.insert(&self.buffer, slot, record, class) };
            match inserted {
                Ok(start) => return Ok(start),
                Err(Stalled) => self.make_room(record.bytes(), class, step)?,
            }
            step += 1;
        }
    }

    /// Does, or waits for, what keeps `bytes` from being admitted.
    #[cold]
    fn make_room(&self, bytes: u64, class: AppendClass, step: u32) -> std::result::Result<(), AppendError> {
        self.check_appendable()?;
        if step == 0 {
            self.tally.stalls.add(1);
        }
        self.look();
        if let Some(apart) = self.store.nvram().and_then(NvStore::apart) {
            self.make_room_apart(apart, bytes, class, step)?;
            return self.check_appendable();
        }
        let LogBuffer { frontiers, admission, .. } = &self.buffer;
        let reserved = frontiers.reserved().get();
        let needed = admission.written_needed(reserved, bytes);
        if frontiers.written() < needed {
            self.protocol.wait(self, needed, Durability::Written);
        } else if admission.ran_ahead(reserved, Lsn::new(self.inserter.scan(&self.buffer).filled)) {
            rest(step);
        } else {
            self.make_prepared(bytes, class)?;
        }
        self.refresh();
        self.check_appendable()
    }

    /// Waits until there is prepared space for `bytes` more, or there is none to be had.
    pub(crate) fn make_prepared(
        &self,
        bytes: u64,
        class: AppendClass,
    ) -> std::result::Result<(), AppendError> {
        if let Some(apart) = self.store.nvram().and_then(NvStore::apart) {
            return self.make_sure_of(apart, bytes, class);
        }
        let LogBuffer { frontiers, admission, .. } = &self.buffer;
        let fits =
            || admission.fits_prepared(frontiers.reserved().get(), bytes, self.store.prepared_end(), class);
        while !fits() {
            if self.store.nvram().is_some() {
                self.refresh();
                return Err(AppendError::NoSpace);
            }
            let reach = frontiers.reserved().get() + bytes + admission.slack() + admission.reserve();
            let ticket = self.maintenance.ask(reach);
            self.maintain_here();
            let asked = self.maintenance.wait(ticket, fits);
            self.refresh();
            match asked {
                Ok(()) => self.check_appendable()?,
                Err(Refusal::NoSpace) => return Err(AppendError::NoSpace),
                Err(Refusal::Over) => {
                    self.check_appendable()?;
                    return Err(AppendError::Closed);
                }
            }
        }
        Ok(())
    }

    fn check_appendable(&self) -> std::result::Result<(), AppendError> {
        if let Some(cause) = self.failure() {
            return Err(AppendError::Poisoned { cause });
        }
        if self.closed.load(Ordering::Acquire) { Err(AppendError::Closed) } else { Ok(()) }
    }

    pub(crate) fn refresh(&self) {
        self.buffer.admission.refresh(&self.buffer.frontiers, self.store.prepared_end());
    }

    /// See [`Stream::barrier`](crate::Stream::barrier). Waits only for copies that are being made, hence not for long, nor for anybody who
    /// waits.
    pub(crate) fn barrier(&self) -> Lsn {
        let end = self.buffer.frontiers.reserved();
        let mut step = 0;
        // What is filled is below all that is reserved later, and no chunk below is open any more.
        while !self.in_order && self.inserter.scan(&self.buffer).filled < end.get() {
            rest(step);
            step += 1;
        }
        end
    }

    // ---- waiting

    /// Whether `end` is at `level`; an error if it never will be.
    #[inline]
    pub(crate) fn poll(&self, end: Lsn, level: Durability) -> Option<Result<()>> {
        if self.buffer.frontiers.reached(end, level) {
            return Some(Ok(()));
        }
        if let Store::Nvram(store) = &self.store {
            return self.poll_in(store, end, level);
        }
        if !self.is_over() {
            return None;
        }
        Some(Err(self.failure().map_or(Error::Closed, |cause| Error::Poisoned { cause })))
    }

    pub(crate) fn wait(&self, end: Lsn, level: Durability) -> Result<()> {
        if let Some(outcome) = self.poll(end, level) {
            return outcome;
        }
        self.check_reserved(end)?;
        self.protocol.wait(self, end, level);
        self.poll(end, level).unwrap_or(Err(Error::Closed))
    }

    /// Makes sure that `end` gets to `level` without anybody waiting for it.
    #[inline]
    pub(crate) fn request(&self, end: Lsn, level: Durability) {
        if !self.buffer.frontiers.reached(end, level) && !self.met_here(end, level) {
            self.protocol.request(self, level);
        }
    }

    pub(crate) fn check_reserved(&self, end: Lsn) -> Result<()> {
        let reserved = self.buffer.frontiers.reserved();
        if end > reserved { Err(Error::BeyondEnd { at: end, end: reserved }) } else { Ok(()) }
    }

    // ---- failure and end

    /// The first failure, if there was one.
    #[inline]
    pub(crate) fn failure(&self) -> Option<device::Error> {
        if self.is_over() { self.cause.get().cloned() } else { None }
    }

    /// Whether no frontier moves any more.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Shuts the log: invariant 2.
    #[cold]
    pub(crate) fn fail(&self, error: device::Error) {
        // Only the first counts, also of those that the device's gate has refused. A gate that was closed is no failure: the log
        // has ended without one.
        if !matches!(error.cause, Cause::Closed) {
            let _first = self.cause.set(error.into_first());
        }
        self.over.store(true, Ordering::Release);
        self.buffer.admission.shut(&self.buffer.frontiers);
        self.maintenance.stop();
        self.stop_tracker();
        self.wakers.release(|_, _| true);
        // Whoever is queued is released by the holder of the baton, and while somebody is queued there is one.
    }

    /// Runs a step of one of the log's own threads or of a leader; `None` if it panics, and then the log has failed with that as the cause. A
    /// panic of the device's code does not come so far: the gate has made an error of it.
    pub(crate) fn guarded<T>(&self, verb: Verb, step: impl FnOnce() -> T) -> Option<T> {
        // Nothing that the step has left half done is used after the failure: the frontiers stand still.
        match catch_unwind(AssertUnwindSafe(step)) {
            Ok(value) => Some(value),
            Err(payload) => {
                self.fail(device::Error::new(verb, "the log", Cause::from_panic(payload)));
                None
            }
        }
    }

    /// Refuses appends from now on.
    pub(crate) fn shut(&self) {
        self.closed.store(true, Ordering::Release);
        self.buffer.admission.shut(&self.buffer.frontiers);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// After this nothing is written any more: not by a leader that was under way, nor by an append that was let in
    /// before [`Core::shut`]. Other calls, as one that trims, end with the gate, and then the directory may be given to another opening.
    pub(crate) fn end(&self, gate: &Gate) {
        self.over.store(true, Ordering::Release);
        // A thread that is inside a write would wait for itself: the gate waits for that write instead.
        if !gate.is_inside() {
            self.wait_for_writes();
        }
        self.wakers.end();
    }

    // ---- space

    /// Most bytes between the start and what is reserved, if that is fixed.
    pub(crate) fn capacity(&self) -> Option<u64> {
        Some(self.store.nvram()?.capacity(self.buffer.admission.slack()))
    }

    /// See [`Stream::fullness`](crate::Stream::fullness).
    pub(crate) fn fullness(&self) -> Option<u32> {
        let LogBuffer { frontiers, admission, .. } = &self.buffer;
        let store = self.store.nvram()?;
        // In this order: the start never passes what is reserved.
        let start = store.start();
        let live = frontiers.reserved().since(start);
        Some(store.fullness(
            live,
            admission.slack().saturating_add(admission.reserve_positions()),
            admission.reserve(),
        ))
    }

    /// See [`Stream::trim`](crate::Stream::trim).
    pub(crate) fn trim(&self, to: Lsn) -> Result<()> {
        self.settle(to);
        let trimmed = self.store.trim(to, self.buffer.frontiers.durable());
        if let (Err(Error::Device(error) | Error::Poisoned { cause: error }), Some(_)) =
            (&trimmed, self.store.nvram())
        {
            // The gate is shut, and no write comes that would meet it.
            self.fail(error.clone());
        }
        self.refresh();
        trimmed
    }

    /// How far segments should be prepared now.
    fn wanted_end(&self, store: &SegmentStore) -> Lsn {
        let capacity = store.capacity();
        let LogBuffer { frontiers, admission, ring } = &self.buffer;
        let reserved = frontiers.reserved();
        let spare = (reserved.get() / capacity + 1 + self.spare_segments).saturating_mul(capacity);
        Lsn::new(spare).max(reserved.plus(admission.reserve() + admission.slack() + ring.size()))
    }

    fn prepare_if_wanted(&self, reach: u64) -> device::Result<bool> {
        let Store::Disk(store) = &self.store else { return Ok(false) };
        if store.prepared_end() >= self.wanted_end(store).max(Lsn::new(reach)) {
            return Ok(false);
        }
        store.prepare_next()?;
        self.refresh();
        Ok(true)
    }

    /// Wakes the maintenance thread if segments run short.
    pub(crate) fn nudge_maintenance(&self) {
        if let Store::Disk(store) = &self.store
            && store.prepared_end() < self.wanted_end(store)
        {
            self.maintenance.nudge();
        }
    }

    // ---- counters

    pub(crate) fn counters(&self) -> Counters {
        let tally = &self.tally;
        let effort = self.inserter.effort();
        Counters {
            writes: tally.writes.get(),
            syncs: tally.syncs.get(),
            bytes_written: tally.bytes_written.get(),
            bytes_synced: tally.sync.durable_bytes.get(),
            released: tally.sync.released.get(),
            sync_locks: tally.sync.locks.get(),
            sync_lock_ns: tally.sync.lock_ns.get(),
            completion_ns: tally.sync.completion_ns.get(),
            sync_ns: tally.sync.sync_ns.get(),
            byte_ns: tally.sync.byte_ns.get(),
            depth: self.protocol.depth(),
            callbacks: tally.callbacks.get(),
            stalls: tally.stalls.get(),
            padding: effort.padding,
            crawled: effort.crawled,
            hopped: effort.hopped,
            syncer_wakeups: self.protocol.syncer_wakeups(),
            maintenance_wakeups: self.maintenance.wakeups(),
            tracker_wakeups: self.inserter.tracker().map_or(0, Tracker::wakeups),
        }
    }
}

impl Extent for Core {
    fn start(&self) -> Lsn {
        self.store.start()
    }

    fn written(&self) -> Lsn {
        match &self.store {
            Store::Disk(_) => Lsn::new(self.readable.load(Ordering::Acquire)),
            Store::Nvram(store) => {
                self.look_in(store);
                let written = self.buffer.frontiers.written();
                // Who was told of it may read it.
                store.let_read(written);
                written
            }
        }
    }
}

/// A panic while one of this file's locks is held leaves nothing half changed, so a poisoned lock is taken as it is.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
