//! The baton, the leader and the syncer under the checkers: no thread waits for ever, no two lead
//! at once, and no request is lost.
//!
//! The model's "device" is a counter: a write makes everything reserved written, and a sync makes
//! everything written durable. Every plan and every sync writes a plain cell, so two leaders at
//! once are a data race, which the checkers find.

use super::*;

use crate::checked;
use crate::checking::{JoinHandle, spawn};
use crate::durability::Durability::{self, Durable, Written};
use crate::insert::{Admitted, Marks, Stalled};
use crate::lsn::Lsn;
use crate::sync_shim::{AtomicU64, Ordering, PlainAccess, yield_now};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

/// A log of records of one block each.
struct Model {
    reserved: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    /// Marked by each thread that plans; `syncs` is marked by each thread that syncs.
    plans: PlainAccess,
    syncs: PlainAccess,
    /// Writes in flight, each with a flag that says whether it has ended. The number is the end of
    /// the last planned write. The latch is one of `std`, which checkers do not see, because no
    /// thread takes a checked step while it holds the latch.
    flights: std::sync::Mutex<(VecDeque<(Planned, bool)>, u64)>,
    /// True if a write is durable without a sync, as with direct I/O.
    direct: bool,
    protocol: Box<dyn SyncProtocol>,
    /// True if a syncer can be started.
    threads: bool,
    syncers: std::sync::Mutex<Vec<JoinHandle<()>>>,
    tally: SyncTally,
    me: OnceLock<Weak<Model>>,
}

impl Model {
    fn new(sync: SyncKind, direct: bool, threads: bool) -> Arc<Model> {
        Model::with_depth(sync, direct, threads, 1)
    }

    fn with_depth(sync: SyncKind, direct: bool, threads: bool, depth: u32) -> Arc<Model> {
        let design = match sync {
            SyncKind::Adaptive => SyncDesign::adaptive(depth),
            other => other.into(),
        };
        Model::with(design.protocol(), direct, threads)
    }

    /// Makes a model in which the syncer leads while at least `many` committers are active.
    fn with_many(many: u64, threads: bool) -> Arc<Model> {
        let mut protocol = adaptive::Adaptive::new(Heuristics::ALL, 1);
        protocol.stage.pace = protocol.stage.pace.with_many(many);
        Model::with(Box::new(protocol), true, threads)
    }

    fn with(protocol: Box<dyn SyncProtocol>, direct: bool, threads: bool) -> Arc<Model> {
        let model = Arc::new(Model {
            reserved: AtomicU64::new(0),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            plans: PlainAccess::new(),
            syncs: PlainAccess::new(),
            flights: std::sync::Mutex::new((VecDeque::new(), 0)),
            direct,
            protocol,
            threads,
            syncers: std::sync::Mutex::new(Vec::new()),
            tally: SyncTally::default(),
            me: OnceLock::new(),
        });
        model.me.set(Arc::downgrade(&model)).expect("set once");
        model
    }

    fn reserve(&self) -> Lsn {
        Lsn::new(self.reserved.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn commit(&self, level: Durability) {
        let end = self.reserve();
        self.protocol.wait(self, end, level);
        assert!(self.settled(end, level), "acknowledged too early");
    }

    fn ask(&self, level: Durability) {
        let end = self.reserve();
        self.protocol.request(self, end, level);
    }

    /// Ends the syncers, and asserts that every request was served.
    fn finish(&self, reserved: u64) {
        self.protocol.stop();
        let syncers = std::mem::take(&mut *self.syncers.lock().expect("not poisoned"));
        for syncer in syncers {
            syncer.join().expect("syncer");
        }
        assert_eq!(self.durable.load(Ordering::Acquire), reserved, "a request was forgotten");
    }
}

impl Rounds for Model {
    fn plan(&self, ask: Ask) -> Plan {
        self.plans.write();
        let cutoff = self.reserved.load(Ordering::SeqCst);
        let durable_to = self.durable.load(Ordering::Acquire);
        let mut state = self.flights.lock().expect("not poisoned");
        let (flights, planned) = &mut *state;
        let under_way = !flights.is_empty();
        let end = if ask.only_own { cutoff.min(ask.own.get()) } else { cutoff };
        if end <= *planned {
            let needs_sync = ask.level == Durable && !under_way && durable_to < *planned;
            return Plan::Nothing { all: *planned >= cutoff, under_way, needs_sync };
        }
        let durable = self.direct && (ask.level == Durable || under_way);
        if flights.len() as u32 >= ask.depth || (under_way && !durable) {
            return Plan::Blocked;
        }
        let parallel = durable && (flights.len() as u32 + 1) < ask.depth;
        let (from, to) = (Lsn::new(*planned), Lsn::new(end));
        let write = Planned { from, to, filled: to, all: end >= cutoff, durable, parallel };
        *planned = end;
        flights.push_back((write, false));
        Plan::Write(write)
    }

    fn perform(&self, write: &Planned) {
        let (mut written, mut durable) = (0, 0);
        {
            let mut state = self.flights.lock().expect("not poisoned");
            let flights = &mut state.0;
            flights.iter_mut().find(|flight| flight.0 == *write).expect("under way").1 = true;
            for (write, _) in flights.iter().take_while(|flight| flight.1) {
                written = write.to.get();
                durable = if write.durable { written } else { durable };
            }
        }
        if written > 0 {
            self.written.fetch_max(written, Ordering::AcqRel);
        }
        if durable > 0 {
            self.durable.fetch_max(durable, Ordering::AcqRel);
        }
        let mut state = self.flights.lock().expect("not poisoned");
        state.0.retain(|flight| flight.0.to.get() > written);
    }

    fn sync(&self, _again: bool) {
        self.syncs.write();
        let written = self.written.load(Ordering::Acquire);
        self.durable.fetch_max(written, Ordering::AcqRel);
    }

    fn settled(&self, end: Lsn, level: Durability) -> bool {
        let frontier = if level == Durable { &self.durable } else { &self.written };
        frontier.load(Ordering::Acquire) >= end.get()
    }

    fn ended(&self, to: Lsn) -> bool {
        self.durable.load(Ordering::Acquire) >= to.get()
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(self.reserved.load(Ordering::SeqCst))
    }

    fn written(&self) -> Lsn {
        Lsn::new(self.written.load(Ordering::Acquire))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn start_syncer(&self, number: usize) -> bool {
        if self.threads {
            let model = self.me.get().and_then(Weak::upgrade).expect("alive");
            let syncer = spawn(move || model.protocol.serve(&*model, number));
            self.syncers.lock().expect("not poisoned").push(syncer);
        }
        self.threads
    }

    fn tally(&self) -> &SyncTally {
        &self.tally
    }
}

/// Runs one committer for each of `levels`, each on a thread of its own.
fn committers<const N: usize>(model: &Arc<Model>, levels: [Durability; N]) {
    let threads = levels.map(|level| {
        let model = model.clone();
        spawn(move || model.commit(level))
    });
    for thread in threads {
        thread.join().expect("committer");
    }
}

checked!(
    /// Two committers: one leads. The other one is covered, is appointed, or leads later.
    loom_two_lead_and_hand_over explore_two_lead_and_hand_over miri_two_lead_and_hand_over,
    Some(3),
    || {
        let model = Model::new(SyncKind::Adaptive, true, false);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.commit(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// Three committers: the stack, the pending list and an appointed waiter are all in use.
    loom_three_hand_over explore_three_hand_over miri_three_hand_over,
    Some(2),
    || {
        let model = Model::new(SyncKind::Adaptive, true, false);
        committers(&model, [Durable, Durable, Durable]);
        model.finish(3);
    }
);

checked!(
    /// The syncer leads from one committer on: a later committer gives the baton to the syncer
    /// instead of taking it, while the first one may still lead.
    loom_very_many explore_very_many miri_very_many,
    Some(1),
    || {
        let model = Model::with_many(1, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.commit(Durable);
        model.commit(Durable);
        other.join().expect("committer");
        model.finish(3);
    }
);

checked!(
    /// The syncer should lead but cannot be started: the thread that would give it the baton stands
    /// in for it.
    loom_very_many_without_a_syncer explore_very_many_without_a_syncer miri_very_many_without_a_syncer,
    Some(2),
    || {
        let model = Model::with_many(1, false);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.commit(Durable);
        model.commit(Durable);
        other.join().expect("committer");
        model.finish(3);
    }
);

checked!(
    /// With a page cache, a thread that waits only for the write may leave the sync to another
    /// thread.
    loom_a_written_and_a_durable_commit explore_a_written_and_a_durable_commit miri_a_written_and_a_durable_commit,
    Some(3),
    || {
        let model = Model::new(SyncKind::Adaptive, false, false);
        committers(&model, [Written, Durable]);
        assert!(model.durable.load(Ordering::Acquire) >= 1);
    }
);

checked!(
    /// A request and a committer: the request is served by the leader, the syncer, or both
    /// together.
    loom_a_request_and_a_commit explore_a_request_and_a_commit miri_a_request_and_a_commit,
    Some(2),
    || {
        let model = Model::new(SyncKind::Adaptive, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.ask(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// Two requests: the second caller may find the first request and make none.
    loom_two_requests explore_two_requests miri_two_requests,
    Some(2),
    || {
        let model = Model::new(SyncKind::Adaptive, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.ask(Durable));
        model.ask(Durable);
        other.join().expect("asker");
        model.finish(2);
    }
);

checked!(
    /// A request when no syncer can be started: the requesting thread serves.
    loom_a_request_without_a_syncer explore_a_request_without_a_syncer miri_a_request_without_a_syncer,
    Some(3),
    || {
        let model = Model::new(SyncKind::Adaptive, true, false);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.ask(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// `pipelined`: the syncer serves a waiter and a request.
    loom_the_syncer_serves_all explore_the_syncer_serves_all miri_the_syncer_serves_all,
    Some(2),
    || {
        let model = Model::new(SyncKind::Pipelined, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.ask(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// Two writes in flight: if the lower write ends last, its thread also releases the waiters and
    /// the leader of the other write.
    loom_two_writes_under_way explore_two_writes_under_way miri_two_writes_under_way,
    Some(2),
    || {
        let model = Model::with_depth(SyncKind::Adaptive, true, false, 2);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.commit(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// Two writes in flight, and a third thread that waits until one of them ends.
    loom_a_third_waits_for_an_end explore_a_third_waits_for_an_end miri_a_third_waits_for_an_end,
    Some(1),
    || {
        let model = Model::with_depth(SyncKind::Adaptive, true, false, 2);
        committers(&model, [Durable, Durable, Durable]);
        model.finish(3);
    }
);

checked!(
    /// Two writes under way, one of them for a request.
    loom_a_request_beside_a_write explore_a_request_beside_a_write miri_a_request_beside_a_write,
    Some(1),
    || {
        let model = Model::with_depth(SyncKind::Adaptive, true, true, 2);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.ask(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// `aggregated`: one thread wins and syncs for the queue; the other may come after the swap.
    loom_a_winner_syncs_for_all explore_a_winner_syncs_for_all miri_a_winner_syncs_for_all,
    Some(2),
    || {
        let model = Model::new(SyncKind::Aggregated, false, false);
        committers(&model, [Durable, Durable]);
        model.finish(2);
    }
);

checked!(
    /// `aggregated` with slots: the last thread of a slot makes the request for both, or each makes
    /// its own.
    loom_a_slot_makes_one_request explore_a_slot_makes_one_request miri_a_slot_makes_one_request,
    Some(2),
    || {
        let model = Model::with(SyncDesign::Aggregated { flush_slots: 2 }.protocol(), false, false);
        committers(&model, [Durable, Durable]);
        model.finish(2);
    }
);

checked!(
    /// `slotted`: two committers are alone, or meet in a slot whose last thread syncs for both.
    loom_a_slot_is_flushed explore_a_slot_is_flushed miri_a_slot_is_flushed,
    Some(2),
    || {
        let model = Model::with(SyncDesign::Slotted { flush_slots: 2 }.protocol(), false, false);
        committers(&model, [Durable, Durable]);
        model.finish(2);
    }
);

checked!(
    /// `slotted`: a lone thread and a slot of two threads, or two slots, compete for the sync lock.
    loom_slots_compete_for_the_sync_lock explore_slots_compete_for_the_sync_lock miri_slots_compete_for_the_sync_lock,
    Some(1),
    || {
        let model = Model::with(SyncDesign::Slotted { flush_slots: 2 }.protocol(), false, false);
        committers(&model, [Durable, Durable, Durable]);
        model.finish(3);
    }
);

checked!(
    /// `grouped`: a thread that gets the sync lock checks whether it must still sync.
    loom_the_sync_lock_in_turn explore_the_sync_lock_in_turn miri_the_sync_lock_in_turn,
    Some(2),
    || {
        let model = Model::new(SyncKind::Grouped, false, false);
        committers(&model, [Durable, Durable]);
        model.finish(2);
    }
);

checked!(
    /// `per_commit`: a request is made while a committer waits.
    loom_each_for_itself explore_each_for_itself miri_each_for_itself,
    Some(2),
    || {
        let model = Model::new(SyncKind::PerCommit, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.ask(Durable);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// `per_commit`: the serving thread syncs for two requests, one after the other.
    loom_each_request_for_itself explore_each_request_for_itself miri_each_request_for_itself,
    Some(2),
    || {
        let model = Model::new(SyncKind::PerCommit, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.ask(Durable));
        model.ask(Durable);
        other.join().expect("asker");
        model.finish(2);
    }
);

checked!(
    /// `inline`: two committers. One of them writes; the other one finds its commit covered, or
    /// writes later.
    loom_a_worker_writes_for_both explore_a_worker_writes_for_both miri_a_worker_writes_for_both,
    Some(2),
    || {
        let model = Model::new(SyncKind::Inline, false, false);
        committers(&model, [Durable, Durable]);
        model.finish(2);
    }
);

checked!(
    /// `inline`: a worker that offers to write its request, a worker that waits, and the carrier.
    loom_an_offer_and_a_carrier explore_an_offer_and_a_carrier miri_an_offer_and_a_carrier,
    Some(1),
    || {
        let model = Model::new(SyncKind::Inline, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.commit(Durable));
        model.ask(Durable);
        model.protocol.offer(&*model);
        other.join().expect("committer");
        model.finish(2);
    }
);

checked!(
    /// `inline`: two requests that no worker offers to write. The carrier takes both, or is woken
    /// again for the second.
    loom_requests_are_carried explore_requests_are_carried miri_requests_are_carried,
    Some(2),
    || {
        let model = Model::new(SyncKind::Inline, true, true);
        let theirs = model.clone();
        let other = spawn(move || theirs.ask(Durable));
        model.ask(Durable);
        other.join().expect("asker");
        model.finish(2);
    }
);

/// A model with the real marks, in which a session requests a sync of a record above another
/// session's hole. A caller that finds a request makes no further one, which is sound only because
/// of the marks' cutoff.
struct Marked {
    reserved: AtomicU64,
    marks: Marks,
    durable: AtomicU64,
    plans: PlainAccess,
    protocol: Box<dyn SyncProtocol>,
    syncer: std::sync::Mutex<Option<JoinHandle<()>>>,
    tally: SyncTally,
    me: OnceLock<Weak<Marked>>,
}

impl Rounds for Marked {
    fn plan(&self, _ask: Ask) -> Plan {
        self.plans.write();
        let scan = self.marks.scan(&self.reserved);
        let durable = self.durable.load(Ordering::Relaxed);
        let all = scan.filled >= scan.cutoff;
        if scan.filled > durable {
            let to = Lsn::new(scan.filled);
            let from = Lsn::new(durable);
            return Plan::Write(Planned { from, to, filled: to, all, durable: true, parallel: false });
        }
        if !all {
            yield_now();
        }
        Plan::Nothing { all, under_way: false, needs_sync: false }
    }

    fn perform(&self, write: &Planned) {
        self.durable.store(write.to.get(), Ordering::Release);
    }

    fn sync(&self, _again: bool) {}

    fn settled(&self, end: Lsn, _level: Durability) -> bool {
        self.durable.load(Ordering::Acquire) >= end.get()
    }

    fn ended(&self, to: Lsn) -> bool {
        self.durable.load(Ordering::Acquire) >= to.get()
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(self.reserved.load(Ordering::SeqCst))
    }

    fn written(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn start_syncer(&self, number: usize) -> bool {
        let model = self.me.get().and_then(Weak::upgrade).expect("alive");
        let syncer = spawn(move || model.protocol.serve(&*model, number));
        *self.syncer.lock().expect("not poisoned") = Some(syncer);
        true
    }

    fn tally(&self) -> &SyncTally {
        &self.tally
    }
}

/// Every reservation is admitted, and may be made by an addition.
impl Admitted for Marked {
    fn reserved(&self) -> &AtomicU64 {
        &self.reserved
    }

    fn may_add(&self, _bytes: u64) -> bool {
        true
    }

    fn admit(&self, _start: u64, _bytes: u64) -> std::result::Result<(), Stalled> {
        Ok(())
    }
}

impl Marked {
    fn append_and_ask(&self, slot: usize) {
        let start = self.marks.reserve(self, slot, 1).expect("admitted");
        self.marks.finish(slot, start + 1);
        self.protocol.request(self, Lsn::new(start + 1), Durable);
    }
}

checked!(
    /// Two sessions append and make requests. Both records are durable when the syncer has ended.
    loom_requests_behind_holes explore_requests_behind_holes miri_requests_behind_holes,
    Some(2),
    || {
        let model = Arc::new(Marked {
            reserved: AtomicU64::new(0),
            marks: Marks::new(2),
            durable: AtomicU64::new(0),
            plans: PlainAccess::new(),
            protocol: Box::new(adaptive::Adaptive::new(Heuristics::ALL, 1)),
            syncer: std::sync::Mutex::new(None),
            tally: SyncTally::default(),
            me: OnceLock::new(),
        });
        model.me.set(Arc::downgrade(&model)).expect("set once");
        model.marks.open(0);
        model.marks.open(1);
        let theirs = model.clone();
        let other = spawn(move || theirs.append_and_ask(1));
        model.append_and_ask(0);
        other.join().expect("asker");
        model.protocol.stop();
        let syncer = model.syncer.lock().expect("not poisoned").take();
        syncer.expect("somebody asked").join().expect("syncer");
        assert_eq!(model.durable.load(Ordering::Acquire), 2, "a wish was forgotten");
    }
);
