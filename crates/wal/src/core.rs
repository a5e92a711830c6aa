//! The inside of an open stream: the log buffer, the medium, and the steps that connect them.
//!
//! All handles, sessions and background threads of a stream share one [`Core`]. The hot path is
//! [`Core::append`]. A leader or a waiting thread calls the [`Medium`] to make filled bytes
//! durable.
//!
//! Invariants:
//!
//! 1. `written` moves only after the medium has taken the bytes, and `durable` only after the
//!    medium keeps them. Both move over a write only when this write and all earlier ones have
//!    ended.
//! 2. After a failed write or sync, `cause` is set, nothing more is admitted or written, neither
//!    `written` nor `durable` moves, and every waiter is released. A panic in a step of a leader or
//!    in a background thread counts as such a failure.
//! 3. A durable write needs no sync if everything before it is durable, or is part of a durable
//!    write under way. Otherwise a sync follows.
//!
//! The medium determines what a crash leaves (`files`, `nvram`).

#[cfg(test)]
mod checks;
mod medium;
mod rounds;
mod threads;

pub(crate) use medium::{Medium, Parts, Use};

use crate::append::{Append, Appended};
use crate::counters::{Counters, Tally};
use crate::error::{AppendError, Error, Result};
use crate::maintenance::Maintenance;
use crate::options::{Background, Options};
use crate::segment::Extent;
use crate::truncated::{Range, Ranges, Truncations};
use crate::wakers::Wakers;
use katydid_device::{self as device, Cause, Gate, Verb};
use katydid_kernels::dependencies::StreamId;
use katydid_kernels::durability::Durability;
use katydid_kernels::frontier::Frontiers;
use katydid_kernels::insert::{AppendClass, Inserter, LogBuffer, PhysicalRecord, Stalled, Tracker};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{
    HEADER_BYTES, HeaderFields, Kind, Layout, Part, RECORD_BYTES_MAX, prepare_header, split,
};
use katydid_kernels::ring::RecordMemory;
use katydid_kernels::sync::SyncProtocol;
use katydid_kernels::sync_shim::{AtomicBool, Ordering, rest};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;

/// The slot of the log's own records.
pub(crate) const OWN_SLOT: usize = 0;

/// Number of times that appends to a whole ring look whether to request a write
/// ([`Core::write_behind`]).
const WRITE_BEHIND_STEPS: u64 = 8;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Core {
    /// The stream's number.
    pub(crate) stream: StreamId,
    pub(crate) buffer: LogBuffer,
    pub(crate) medium: Box<dyn Medium>,
    pub(crate) maintenance: Maintenance,
    pub(crate) wakers: Wakers,
    pub(crate) tally: Tally,
    pub(crate) truncations: Arc<Truncations>,
    pub(crate) inserter: Box<dyn Inserter>,
    pub(crate) protocol: Box<dyn SyncProtocol>,
    pub(crate) background: Background,
    /// True if records lie in the order of their appends.
    pub(crate) in_order: bool,
    /// True if an append alone makes its record durable. In such a log there may be no leader that
    /// moves the frontiers.
    is_direct: bool,
    /// Layout of the records that are appended.
    layout: Layout,
    incarnation: u32,
    pub(crate) physical_bytes_max: usize,
    /// An append that crosses a multiple of this power of two looks whether to request a write
    /// ([`Core::write_behind`]). `u64::MAX` in a log in NVRAM, where no append does.
    write_behind_step: u64,
    slots: Mutex<Slots>,
    /// Guards slot [`OWN_SLOT`].
    own: Mutex<()>,
    cause: OnceLock<device::Error>,
    // Set (Release, after `cause` if there is one) when no frontier moves any more: the log has
    // failed or ended. Read (Acquire) by threads that find a frontier standing still.
    over: AtomicBool,
    closed: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    me: Weak<Core>,
}

#[derive(Debug)]
struct Slots {
    free: Vec<usize>,
    next: usize,
    most: usize,
}

/// A stream as recovery leaves it.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) stream: StreamId,
    pub(crate) parts: Parts,
    pub(crate) incarnation: u32,
    pub(crate) end: Lsn,
    pub(crate) truncated: Ranges,
}

impl Core {
    pub(crate) fn new(options: &Options, start: Start) -> Arc<Core> {
        let Parts { medium, memory, admission, inserter, protocol, in_order, physical_bytes_max } =
            start.parts;
        let layout = memory.layout();
        let write_behind_step = match &memory {
            RecordMemory::Ring(ring) => ring.size() / WRITE_BEHIND_STEPS,
            RecordMemory::Nvram(_) | RecordMemory::Apart => u64::MAX,
        };
        let core = Arc::new_cyclic(|me| Core {
            stream: start.stream,
            buffer: LogBuffer { frontiers: Frontiers::at(start.end), memory, admission },
            layout,
            is_direct: !medium.kind().waits_for_holes(),
            medium,
            maintenance: Maintenance::default(),
            wakers: Wakers::new(options.background),
            tally: Tally::default(),
            truncations: Arc::new(Truncations::new(start.truncated)),
            in_order,
            inserter,
            protocol,
            background: options.background,
            incarnation: start.incarnation,
            physical_bytes_max,
            write_behind_step,
            slots: Mutex::new(Slots { free: Vec::new(), next: OWN_SLOT + 1, most: options.sessions_max }),
            own: Mutex::new(()),
            cause: OnceLock::new(),
            over: AtomicBool::new(false),
            closed: AtomicBool::new(false),
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

    /// Appends `kept`, and then the record that drops the records starting in `range`. Returns the
    /// positions of `kept`, and the end of the last appended record. If the range is empty, appends
    /// only `kept`.
    pub(crate) fn append_truncation(
        &self,
        range: Range,
        kept: &[Append<'_>],
    ) -> std::result::Result<(Vec<Appended>, Lsn), AppendError> {
        if let Some(own) = kept.iter().find(|kept| !kept.kind.is_user()) {
            return Err(AppendError::ReservedKind { kind: own.kind.get() });
        }
        let _turn = locked(&self.own);
        let keep = |kept: &Append<'_>| self.append_any(OWN_SLOT, kept);
        let kept: Vec<Appended> = kept.iter().map(keep).collect::<std::result::Result<_, _>>()?;
        let mut end = kept.last().map_or(range.to, |last| last.end);
        if range.from < range.to {
            let body = range.encode();
            // The record that drops others lies above the kept records, even if appends and
            // positions have different orders.
            let above = kept.last().map_or(Lsn::ZERO, |last| last.lsn);
            let payload: [&[u8]; 1] = [&body];
            let append = Append::new(Kind::TRUNCATE, &payload).class(AppendClass::Critical).depends_on(above);
            end = self.append_any(OWN_SLOT, &append)?.end;
        }
        Ok((kept, end))
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
        self.has_appended();
        let bytes = record.bytes();
        let end = start.plus(self.layout.positions(bytes));
        Ok(Appended { stream: self.stream, first: start, lsn: start, end, bytes })
    }

    /// Moves the frontiers after an append that made its record durable, if a waker is registered.
    /// Either the appending thread finds the waker, or the thread that registers the waker finds
    /// the record filled (`wakers`, invariant 1).
    #[inline]
    fn has_appended(&self) {
        if self.is_direct && self.wakers.are_waiting() {
            self.look();
        }
    }

    /// Returns whether everything below `end` is durable. The frontiers may not say so yet.
    pub(crate) fn is_kept(&self, end: Lsn) -> bool {
        self.frontiers().durable() >= end
            || self.is_direct && self.inserter.scan(&self.buffer).filled >= end.get()
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
        // A header, a fragment's link and padding together take fewer bytes than this.
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
        // Space for all fragments is prepared before the first byte is appended, so that a refusal
        // leaves no fragment. Other appends may still use that space, so the later fragments may
        // use the reserve.
        let bytes = self.record_bytes((total - HEADER_BYTES) as u64);
        let limit = self.medium.record_bytes_max(&self.buffer.admission, append.class);
        if bytes > limit {
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
        self.has_appended();
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
            // SAFETY: a slot is used by one thread at a time. `open_slot` gives the slot to one
            // `Session`, which is not `Sync`; a dropped session gives its slot back under the latch
            // of `slots`. `own` guards `OWN_SLOT`. The buffer is this log's, made together with the
            // inserter. Records of more than `physical_bytes_max` bytes are split (`append_any`).
            let inserted = unsafe { self.inserter.insert(&self.buffer, slot, record, class) };
            match inserted {
                Ok(start) => {
                    self.write_behind(start, start.plus(self.layout.positions(record.bytes())));
                    return Ok(start);
                }
                Err(Stalled) => self.make_room(record.bytes(), class, step)?,
            }
            step += 1;
        }
    }

    /// Requests a write if a quarter of the ring is not written after a record was put at `[start,
    /// end)`; only a record that crosses a multiple of the step looks. So a write is under way
    /// before appenders find the ring full, even if no thread waits for a record. The caller may
    /// hold latches of pages: if no syncer thread can be started, it leads itself, as it may in
    /// `make_room`.
    #[inline]
    fn write_behind(&self, start: Lsn, end: Lsn) {
        if start.get() ^ end.get() >= self.write_behind_step {
            self.request_write_behind(end);
        }
    }

    #[cold]
    fn request_write_behind(&self, end: Lsn) {
        if end.get().saturating_sub(self.frontiers().written().get()) >= 2 * self.write_behind_step {
            self.request(end, Durability::Written);
        }
    }

    /// Does, or waits for, the work that must be done before `bytes` can be admitted.
    #[cold]
    fn make_room(&self, bytes: u64, class: AppendClass, step: u32) -> std::result::Result<(), AppendError> {
        self.check_appendable()?;
        if step == 0 {
            self.tally.stalls.add(1);
        }
        self.medium.make_room(self, bytes, class, step)?;
        self.check_appendable()
    }

    /// Waits until there is prepared space for `bytes` more. Returns an error if no more space can
    /// be prepared.
    pub(crate) fn make_prepared(
        &self,
        bytes: u64,
        class: AppendClass,
    ) -> std::result::Result<(), AppendError> {
        self.medium.make_prepared(self, bytes, class)
    }

    pub(crate) fn check_appendable(&self) -> std::result::Result<(), AppendError> {
        if let Some(cause) = self.failure() {
            return Err(AppendError::Poisoned { cause });
        }
        if self.closed.load(Ordering::Acquire) { Err(AppendError::Closed) } else { Ok(()) }
    }

    pub(crate) fn refresh(&self) {
        self.buffer.admission.refresh(&self.buffer.frontiers, self.medium.prepared_end());
    }

    /// See [`Stream::barrier`](crate::Stream::barrier). Waits only for threads that copy records
    /// into memory. Such threads do not wait themselves, so the wait is short.
    pub(crate) fn barrier(&self) -> Lsn {
        let end = self.buffer.frontiers.reserved();
        let mut step = 0;
        // Once the log is filled up to `end`, no chunk below `end` is open, and every later record
        // lies at `end` or above.
        while !self.in_order && self.inserter.scan(&self.buffer).filled < end.get() {
            rest(step);
            step += 1;
        }
        end
    }

    // ---- waiting

    /// Returns the outcome if `end` is at `level`, or will never be; otherwise `None`.
    #[inline]
    pub(crate) fn poll(&self, end: Lsn, level: Durability) -> Option<Result<()>> {
        if self.buffer.frontiers.reached(end, level) {
            return Some(Ok(()));
        }
        if self.medium.is_settled(self, end, level) {
            return Some(Ok(()));
        }
        if !self.is_over() {
            return None;
        }
        Some(Err(self.failure().map_or(Error::Closed, |cause| Error::Poisoned { cause })))
    }

    pub(crate) fn wait(&self, end: Lsn, level: Durability) -> Result<()> {
        if self.protocol.looks_at_frontiers()
            && let Some(outcome) = self.poll(end, level)
        {
            return outcome;
        }
        self.check_reserved(end)?;
        self.protocol.wait(self, end, level);
        self.poll(end, level).unwrap_or(Err(Error::Closed))
    }

    /// Requests `level` for `end`, without waiting.
    #[inline]
    pub(crate) fn request(&self, end: Lsn, level: Durability) {
        if !self.buffer.frontiers.reached(end, level) && !self.medium.try_here(self, end, level) {
            // In `wait` a position beyond the end of the log is an error. Here it is no error: the
            // request is for the log's present end.
            self.protocol.request(self, end.min(self.buffer.frontiers.reserved()), level);
        }
    }

    /// See [`SyncProtocol::offer`](katydid_kernels::sync::SyncProtocol::offer).
    #[inline]
    pub(crate) fn offer(&self) {
        self.protocol.offer(self);
    }

    pub(crate) fn check_reserved(&self, end: Lsn) -> Result<()> {
        let reserved = self.buffer.frontiers.reserved();
        if end > reserved { Err(Error::BeyondEnd { at: end, end: reserved }) } else { Ok(()) }
    }

    /// See [`Medium::look`].
    pub(crate) fn look(&self) {
        self.medium.look(self);
    }

    /// See [`Medium::settle`].
    pub(crate) fn settle(&self, end: Lsn) {
        self.medium.settle(self, end);
    }

    // ---- failure and end

    /// Returns the first failure, if there was one.
    #[inline]
    pub(crate) fn failure(&self) -> Option<device::Error> {
        if self.is_over() { self.cause.get().cloned() } else { None }
    }

    /// Returns whether the frontiers have stopped for good.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Shuts the log: invariant 2.
    #[cold]
    pub(crate) fn fail(&self, error: device::Error) {
        // Only the first failure counts. If the device's gate has refused this call, the first
        // failure is the one that shut the gate. A closed gate is no failure: the log has ended
        // regularly.
        if !matches!(error.cause, Cause::Closed) {
            let _first = self.cause.set(error.into_first());
        }
        self.over.store(true, Ordering::Release);
        self.buffer.admission.shut(&self.buffer.frontiers);
        self.maintenance.stop();
        self.stop_tracker();
        self.wakers.release(|_, _| true);
        // Queued waiters need no call here. The holder of the baton releases them, and there is a
        // holder while a waiter is queued.
    }

    /// Runs a step of one of the log's own threads or of a leader. Returns `None` if the step
    /// panics. The log has then failed, with the panic as the cause. A panic of the device's code
    /// does not reach this function, because the gate turns the panic into an error.
    pub(crate) fn guarded<T>(&self, verb: Verb, step: impl FnOnce() -> T) -> Option<T> {
        // Nothing that the step has left half done is used after the failure: the frontiers stand
        // still.
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

    /// Ends the log. When this returns, nothing is written any more, neither by a leader nor by an
    /// append that was admitted before [`Core::shut`]. Other calls, such as a trim, end when the
    /// gate is closed; after that the directory may be given to another opening.
    pub(crate) fn end(&self, gate: &Gate) {
        self.over.store(true, Ordering::Release);
        // A thread inside a write would wait for itself here. The gate waits for that write
        // instead.
        if !gate.is_inside() {
            self.medium.wait_for_writes();
        }
        self.wakers.end();
    }

    // ---- space

    /// Returns the maximum number of bytes between the start and the reserved frontier, if the
    /// medium's size is fixed.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.medium.capacity(self.buffer.admission.slack())
    }

    /// See [`Stream::fullness`](crate::Stream::fullness).
    pub(crate) fn fullness(&self) -> Option<u32> {
        self.medium.fullness(self)
    }

    /// See [`Stream::trim`](crate::Stream::trim).
    pub(crate) fn trim(&self, to: Lsn) -> Result<()> {
        let trimmed = self.medium.trim(self, to);
        self.refresh();
        trimmed
    }

    /// Notifies wakers and the maintenance thread after a frontier has moved.
    pub(crate) fn after_progress(&self) {
        self.wakers.release(|end, level| self.is_settled(end, level));
        self.nudge_maintenance();
    }

    /// See [`Medium::nudge_maintenance`].
    pub(crate) fn nudge_maintenance(&self) {
        self.medium.nudge_maintenance(self);
    }

    /// Returns whether a wait for `end` at `level` is over: the position is reached, or never will
    /// be.
    pub(crate) fn is_settled(&self, end: Lsn, level: Durability) -> bool {
        self.buffer.frontiers.reached(end, level) || self.is_over()
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
            sync_queues: tally.sync.queues.get(),
            sync_queued: tally.sync.queued.get(),
            slots: tally.sync.slots.get(),
            slot_threads: tally.sync.slot_threads.get(),
            slot_wait_ns: tally.sync.slot_wait_ns.get(),
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
        self.medium.start()
    }

    fn written(&self) -> Lsn {
        self.medium.readable(self)
    }

    fn truncations(&self) -> Option<Arc<Truncations>> {
        Some(self.truncations.clone())
    }
}

/// Takes a latch, poisoned or not: a panic while one of the log's latches is held leaves nothing
/// half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
