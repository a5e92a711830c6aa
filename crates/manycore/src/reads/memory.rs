//! Point reads of the memory engine.
//!
//! The clock and the slots of transactions are the engine's own code (`crates/kernels/src/txn`).
//! The following words are modelled. The originals are in `crates/engine/src/memory`:
//!
//! - The word by which a slot is taken: `Slots::take` of the kernels. Its hint is a variable of the
//!   operating system's thread, so all virtual threads would share it.
//! - The count of a table's users, and the `Arc` around it: `MemoryTable::enter` in `table.rs`.
//! - A shard of the hash table, with its latch and its header: `Points::get` in
//!   `store/index/points.rs`.
//! - A record, with the count of its `Arc`, the mutex of its versions, and the count of its value:
//!   `store/record.rs`, `store/value.rs`. A value of more than 22 bytes has a count.
//! - The bytes left of the memory limit, and the number of commits: `Limit::release` in
//!   `store/limit.rs`, `Backoff::count` in `store/backoff.rs`.
//!
//! A read timestamp is a plain word under the mutex of the versions, so validation writes no other
//! line. A record and its value are made at their first read. Until then their lines are in no
//! cache, because a core seldom reads one of a million rows twice.

use super::opening::{Listed, Opening};
use super::parts::{Begin, MemoryParts, Points, Records};
use super::plan::{Model, ReadPlan};
use super::words::{Bytes, Count, ReadLatch, SHARDS, each, hash};
use crate::txn::NoWaits;
use crossbeam_utils::CachePadded;
use katydid_kernels_simulated::txn::{Clock, Slots, Source, Timestamp};
use katydid_virtual_machine::sync_shim::Mutex;
use katydid_virtual_machine::vm;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Number of shards of the points.
const POINT_SHARDS: usize = 64;
/// Number of shards of the memory limit and of the count of commits.
const LIMIT_SHARDS: usize = 16;
/// Maximum bytes of a value that lies in its version.
const SHORT_MAX: usize = 22;

#[derive(Debug, Default)]
#[repr(C)]
struct PointShard {
    latch: ReadLatch,
    header: Bytes,
}

#[derive(Debug, Default)]
#[repr(C)]
struct RecordHead {
    references: Count,
    key: Bytes,
}

#[derive(Debug, Default)]
#[repr(C)]
struct ValueHead {
    references: Count,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct Record {
    head: CachePadded<RecordHead>,
    versions: CachePadded<Mutex<()>>,
    version: CachePadded<Bytes>,
    value: CachePadded<ValueHead>,
}

#[derive(Debug, Default)]
#[repr(C)]
struct Users {
    count: Bytes,
    last: Bytes,
    thread: Bytes,
}

/// The words of one shard of threads.
#[derive(Debug, Default)]
struct ThreadShard {
    store: CachePadded<Count>,
    users: CachePadded<Users>,
    users_references: CachePadded<Count>,
    points: CachePadded<ReadLatch>,
}

/// The words of one thread.
#[derive(Debug, Default)]
struct Own {
    taken: CachePadded<Bytes>,
    reads_at: CachePadded<Bytes>,
    epoch: CachePadded<Bytes>,
}

/// The memory engine with one table.
#[derive(Debug)]
pub(super) struct Memory {
    parts: MemoryParts,
    opening: Opening,
    clock: Clock,
    slots: Slots,
    slot_of: Vec<usize>,
    own: Box<[Own]>,
    /// With [`Begin::OwnLine`], the words of writers.
    writers: Box<[CachePadded<Bytes>]>,
    shards: Box<[ThreadShard]>,
    limit: Box<[CachePadded<Bytes>]>,
    commits: Box<[CachePadded<Bytes>]>,
    points: Box<[CachePadded<PointShard>]>,
    records: RefCell<HashMap<usize, Rc<Record>>>,
    value: usize,
    work: u64,
}

/// An open transaction.
#[derive(Debug)]
pub(super) struct MemoryTxn {
    listed: Listed,
    timestamp: Timestamp,
    bound: Timestamp,
    has_entered: bool,
    /// Records to validate.
    reads: Vec<Rc<Record>>,
}

impl Memory {
    pub(super) fn new(parts: MemoryParts, plan: &ReadPlan) -> Memory {
        let slots = Slots::new(plan.threads);
        let slot_of = (0..plan.threads).filter_map(|_| slots.take(Duration::ZERO, &NoWaits)).collect();
        Memory {
            parts,
            opening: Opening::new(plan.threads),
            clock: Clock::new(Source::monotonic()),
            slots,
            slot_of,
            own: each(plan.threads),
            writers: each(plan.threads),
            shards: each(SHARDS),
            limit: each(LIMIT_SHARDS),
            commits: each(LIMIT_SHARDS),
            points: each(POINT_SHARDS),
            records: RefCell::default(),
            value: plan.value_bytes,
            work: (plan.work_ns * 1e3) as u64,
        }
    }

    fn record(&self, row: usize) -> Rc<Record> {
        self.records.borrow_mut().entry(row).or_default().clone()
    }

    /// Begins in the thread's slot, and returns the timestamp and the bound.
    fn begin_in_slot(&self, me: usize) -> (Timestamp, Timestamp) {
        let slot = self.slot_of[me];
        match self.parts.begin {
            Begin::Write => {
                let timestamp = self.slots.begin_write(slot, &self.clock);
                (timestamp, timestamp)
            }
            Begin::View | Begin::Seen => {
                let begun = self.slots.begin_read(slot, &self.clock, Duration::ZERO, &NoWaits);
                begun.expect("there is no writer to wait for")
            }
            Begin::OwnLine => {
                let own = &self.own[me].reads_at;
                own.publish(1);
                self.writers.iter().for_each(|writer| writer.look());
                let tick = self.clock.now();
                own.publish(tick);
                self.writers.iter().for_each(|writer| writer.look());
                own.publish(tick);
                (Timestamp::of(tick, slot), Timestamp::of(tick, 0))
            }
        }
    }

    fn enter(&self, me: usize) {
        let shard = &self.shards[me % SHARDS];
        shard.users.count.count();
        shard.users_references.take();
        shard.users.last.note(1);
        shard.users.thread.note(1);
    }

    fn leave(&self, me: usize) {
        let shard = &self.shards[me % SHARDS];
        shard.users.count.count();
        shard.users_references.give();
    }

    /// Looks the record up, and takes a reference to it unless readers announce epochs.
    fn find(&self, me: usize, row: usize) -> Rc<Record> {
        let point = &self.points[(hash(row as u64) >> 40) as usize % POINT_SHARDS];
        let latch = match self.parts.points {
            Points::Shared => &point.latch,
            Points::Own => &self.shards[me % SHARDS].points,
        };
        latch.read();
        point.header.look();
        let record = self.record(row);
        if self.parts.records == Records::Counted {
            record.head.references.take();
        }
        latch.unlock();
        record.head.key.look();
        record
    }

    /// Copies the value. The version is a plain read under the mutex, and in the mutex's line.
    fn copy_counted(&self, record: &Record) {
        {
            let _held = record.versions.lock();
            if self.value > SHORT_MAX {
                record.value.references.take();
            }
        }
        vm::copy(self.value as u64);
        if self.value > SHORT_MAX {
            record.value.references.give();
        }
    }

    fn validate(&self, txn: &MemoryTxn) {
        for record in &txn.reads {
            drop(record.versions.lock());
            record.head.references.give();
        }
        self.clock.after(txn.timestamp.tick());
    }
}

impl Model for Memory {
    type Txn = MemoryTxn;

    fn warm(&self, _me: usize, _threads: usize) {}

    fn begin(&self, me: usize) -> MemoryTxn {
        self.opening.refer(me);
        self.shards[me % SHARDS].store.take();
        self.own[me].taken.exchange(0, 1);
        let (timestamp, bound) = self.begin_in_slot(me);
        let listed = self.opening.begins(me);
        MemoryTxn { listed, timestamp, bound, has_entered: false, reads: Vec::new() }
    }

    fn read(&self, txn: &mut MemoryTxn, me: usize, row: usize) {
        if !txn.has_entered {
            self.enter(me);
            txn.has_entered = true;
        }
        vm::work(self.work);
        if self.parts.records == Records::Epochs {
            self.own[me].epoch.publish(1);
            let record = self.find(me, row);
            record.version.look();
            record.value.bytes.look();
            vm::copy(self.value as u64);
            self.own[me].epoch.note(0);
            return;
        }
        let record = self.find(me, row);
        self.copy_counted(&record);
        match self.parts.begin {
            Begin::Write => txn.reads.push(record),
            Begin::View | Begin::Seen | Begin::OwnLine => record.head.references.give(),
        }
    }

    fn end(&self, txn: MemoryTxn, me: usize) {
        let slot = self.slot_of[me];
        if self.parts.begin == Begin::Write {
            self.validate(&txn);
        }
        // A release when the transaction is validated, another one when its slot is given back.
        self.limit[me % LIMIT_SHARDS].count();
        match self.parts.begin {
            Begin::Write | Begin::View | Begin::Seen => self.slots.read_all(slot),
            Begin::OwnLine => self.own[me].reads_at.publish(u64::MAX),
        }
        self.commits[me % LIMIT_SHARDS].count();
        if txn.has_entered {
            self.leave(me);
        }
        self.limit[me % LIMIT_SHARDS].count();
        self.own[me].taken.publish(0);
        self.shards[me % SHARDS].store.give();
        match self.parts.begin {
            Begin::Write => self.slots.acknowledge(txn.timestamp),
            Begin::View => self.slots.acknowledge(txn.bound.before()),
            Begin::Seen | Begin::OwnLine => {}
        }
        self.opening.ends(txn.listed);
        self.opening.leave(me);
    }
}
