//! The baton, the leader and the syncer under the checkers: nobody waits for ever, nobody leads beside another, no wish is lost.
//!
//! The model's "device" is a counter: a write makes everything reserved written, a sync makes that durable. A plain cell that
//! every round writes shows two leaders at once as a race.

use super::*;
use crate::insert::Marks;
use crate::options::Durability::{Durable, Written};
use crate::sync_shim::checking::{JoinHandle, checked, spawn};
use crate::sync_shim::{AtomicU64, Ordering, PlainAccess, yield_now};
use std::sync::{Arc, Mutex, OnceLock, Weak};

struct Model {
    reserved: AtomicU64,
    written: AtomicU64,
    durable: AtomicU64,
    rounds: PlainAccess,
    /// Whether a write is durable by itself, as with direct files.
    direct: bool,
    protocol: Box<dyn SyncProtocol>,
    /// Whether a syncer can be started.
    threads: bool,
    syncer: Mutex<Option<JoinHandle<()>>>,
    me: OnceLock<Weak<Model>>,
}

impl Model {
    fn new(sync: SyncKind, direct: bool, threads: bool) -> Arc<Model> {
        let model = Arc::new(Model {
            reserved: AtomicU64::new(0),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            rounds: PlainAccess::new(),
            direct,
            protocol: choose(&Options { sync, ..Options::default() }),
            threads,
            syncer: Mutex::new(None),
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
        assert!(self.settled(end, level), "told too early");
    }

    fn ask(&self, level: Durability) {
        self.reserve();
        self.protocol.request(self, level);
    }

    /// Ends the syncer; everything asked for must then have been done.
    fn finish(&self, reserved: u64) {
        self.protocol.stop();
        let syncer = self.syncer.lock().expect("not poisoned").take();
        if let Some(syncer) = syncer {
            syncer.join().expect("syncer");
        }
        assert_eq!(self.durable.load(Ordering::Acquire), reserved, "a request was forgotten");
    }
}

impl Rounds for Model {
    fn write(&self, level: Durability, _own: Lsn) -> Wrote {
        self.rounds.write();
        let cutoff = self.reserved.load(Ordering::SeqCst);
        self.written.store(cutoff, Ordering::Release);
        if self.direct && level == Durable {
            self.durable.store(cutoff, Ordering::Release);
        }
        Wrote { all: true, needs_sync: !self.direct && level == Durable }
    }

    fn sync(&self) {
        self.rounds.write();
        self.durable.store(self.written.load(Ordering::Relaxed), Ordering::Release);
    }

    fn settled(&self, end: Lsn, level: Durability) -> bool {
        let frontier = if level == Durable { &self.durable } else { &self.written };
        frontier.load(Ordering::Acquire) >= end.get()
    }

    fn start_syncer(&self) -> bool {
        if self.threads {
            let model = self.me.get().and_then(Weak::upgrade).expect("alive");
            let syncer = spawn(move || model.protocol.serve(&*model));
            *self.syncer.lock().expect("not poisoned") = Some(syncer);
        }
        self.threads
    }

    fn released(&self, _waiters: u64) {}
}

/// Each of `levels` commits on a thread of its own.
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
    /// Two committers: one leads, the other is covered, appointed, or leads after it.
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
    /// Three committers: the stack, the pending list and the appointed one are all in use.
    loom_three_hand_over explore_three_hand_over miri_three_hand_over,
    Some(2),
    || {
        let model = Model::new(SyncKind::Adaptive, true, false);
        committers(&model, [Durable, Durable, Durable]);
        model.finish(3);
    }
);

checked!(
    /// With a page cache: who asked only for the write may leave the sync to another.
    loom_a_written_and_a_durable_commit explore_a_written_and_a_durable_commit miri_a_written_and_a_durable_commit,
    Some(3),
    || {
        let model = Model::new(SyncKind::Adaptive, false, false);
        committers(&model, [Written, Durable]);
        assert!(model.durable.load(Ordering::Acquire) >= 1);
    }
);

checked!(
    /// A wish and a committer: the wish is served by the leader, the syncer, or both together.
    loom_a_wish_and_a_commit explore_a_wish_and_a_commit miri_a_wish_and_a_commit,
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
    /// Two wishes: the second may find the first one's and leave it at that.
    loom_two_wishes explore_two_wishes miri_two_wishes,
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
    /// A wish when no syncer can be had: whoever wishes serves.
    loom_a_wish_without_a_syncer explore_a_wish_without_a_syncer miri_a_wish_without_a_syncer,
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
    /// `pipelined`: the syncer serves a waiter and a wish.
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

/// The wish of a session whose record lies above another session's hole; with the real marks, whose cutoff the soundness
/// of leaving a wish alone depends on.
struct Marked {
    reserved: AtomicU64,
    marks: Marks,
    durable: AtomicU64,
    rounds: PlainAccess,
    protocol: Box<dyn SyncProtocol>,
    syncer: Mutex<Option<JoinHandle<()>>>,
    me: OnceLock<Weak<Marked>>,
}

impl Rounds for Marked {
    fn write(&self, _level: Durability, _own: Lsn) -> Wrote {
        self.rounds.write();
        let scan = self.marks.scan(&self.reserved);
        if scan.filled > self.durable.load(Ordering::Relaxed) {
            self.durable.store(scan.filled, Ordering::Release);
        } else if scan.filled < scan.cutoff {
            yield_now();
        }
        Wrote { all: scan.filled >= scan.cutoff, needs_sync: false }
    }

    fn sync(&self) {}

    fn settled(&self, end: Lsn, _level: Durability) -> bool {
        self.durable.load(Ordering::Acquire) >= end.get()
    }

    fn start_syncer(&self) -> bool {
        let model = self.me.get().and_then(Weak::upgrade).expect("alive");
        let syncer = spawn(move || model.protocol.serve(&*model));
        *self.syncer.lock().expect("not poisoned") = Some(syncer);
        true
    }

    fn released(&self, _waiters: u64) {}
}

impl Marked {
    fn append_and_ask(&self, slot: usize) {
        let bound = self.reserved.load(Ordering::Acquire);
        self.marks.announce(slot, bound);
        let start = self.marks.reserve(slot, bound, &self.reserved, 1);
        self.marks.finish(slot, start + 1);
        self.protocol.request(self, Durable);
    }
}

checked!(
    /// Two sessions append and ask; what both asked for is durable when the syncer has ended.
    loom_wishes_behind_holes explore_wishes_behind_holes miri_wishes_behind_holes,
    Some(2),
    || {
        let model = Arc::new(Marked {
            reserved: AtomicU64::new(0),
            marks: Marks::new(2),
            durable: AtomicU64::new(0),
            rounds: PlainAccess::new(),
            protocol: choose(&Options::default()),
            syncer: Mutex::new(None),
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
