//! Cached point reads of the paged engine.
//!
//! No code of the engine runs here. The following words are modelled. Words that lie in one line of
//! the engine lie in one line here. The originals are in `crates/engine/src`:
//!
//! - A frame's line has the count of the latch's `Arc`, the latch, and the beginning of the body:
//!   `paged/pool/frame.rs`, `paged/pool/guard.rs`.
//! - A page table's line has the latch and the table's header: `Pool::try_read` and `Pool::read` in
//!   `paged/pool/mod.rs`, `Shard::with` in `paged/pool/shard.rs`.
//! - The latch of a thread shard's routes: `Shard::route` in `paged/tree/shortcuts.rs`. The descent
//!   from the root: `paged/tree/descend.rs`.
//! - The slot of a view, `clock` and `read`, and the latch of all images: `Views::open` and
//!   `Views::close` in `paged/views/mod.rs`, `Slots` in `paged/views/slots.rs`. The registry of
//!   views, its list, `clock`, `count` and `newest`: the same functions before decision 91.
//! - The number of the next transaction, a list of locks, and the locks' owner: `paged/active.rs`,
//!   `lock/owner.rs`.
//! - The shards of a lock space, with the entries under their latches: `LockSpace::try_point` in
//!   `lock/space.rs`, `Locks::release_all` in `lock/release.rs`.
//!
//! The mutexes are those of the virtual machine, which work like `std`'s; the engine has
//! `parking_lot`'s. The registry's list has more lines the more views are open. Here it has one,
//! which is the fewest that it can have. In the engine a frame's count and latch may also lie in
//! two lines.

use super::opening::{Listed, Opening};
use super::parts::{Isolation, Latches, PagedParts, Path, Tables};
use super::plan::{Model, ReadPlan};
use super::words::{Bytes, Count, ReadLatch, SHARDS, each, hash};
use crossbeam_utils::CachePadded;
use katydid_virtual_machine::sync_shim::Mutex;
use katydid_virtual_machine::vm;
use std::collections::HashSet;

/// Number of page tables of the pool.
const TABLES: usize = 64;
/// Number of shards of a lock space.
const LOCK_SHARDS: usize = 32;
/// Number of stripes of a table lock.
const STRIPES: usize = 8;
/// Number of children of an inner page of 8 KiB.
const FANOUT: usize = 256;
/// Picoseconds of the search in an inner page. With two inner pages above a leaf, decision 84
/// measured 0.2 to 0.4 us for all that a descent does in them.
const INNER_SEARCH: u64 = 80_000;

/// The line in which a frame's count and latch lie.
#[derive(Debug, Default)]
#[repr(C)]
struct Frame {
    pins: Count,
    latch: ReadLatch,
    body: Bytes,
}

#[derive(Debug, Default)]
#[repr(C)]
struct PageTable {
    latch: ReadLatch,
    header: Bytes,
}

#[derive(Debug)]
struct Pool {
    tables: Box<[CachePadded<PageTable>]>,
    own_tables: Box<[CachePadded<ReadLatch>]>,
    frames: Box<[CachePadded<Frame>]>,
    /// The pages that threads announce as read, with biased latches.
    announced: Box<[CachePadded<Bytes>]>,
}

#[derive(Debug, Default)]
#[repr(C)]
struct ViewNumbers {
    clock: Bytes,
    count: Bytes,
    newest: Bytes,
}

#[derive(Debug)]
struct Views {
    registry: Mutex<()>,
    list: CachePadded<Bytes>,
    numbers: CachePadded<ViewNumbers>,
    all: CachePadded<ReadLatch>,
    slots: Box<[CachePadded<Slot>]>,
}

#[derive(Debug, Default)]
#[repr(C)]
struct Slot {
    taken: Bytes,
    stamp: Bytes,
    lists: Bytes,
    opened: Bytes,
}

#[derive(Debug, Default)]
struct LockShard {
    latch: CachePadded<Mutex<()>>,
    entries: CachePadded<Bytes>,
}

/// The words of one shard of threads.
#[derive(Debug, Default)]
struct ThreadShard {
    routes: CachePadded<ReadLatch>,
    images: CachePadded<ReadLatch>,
    next_txn: CachePadded<Bytes>,
    lock_lists: CachePadded<Mutex<()>>,
}

/// The paged engine with one table.
#[derive(Debug)]
pub(super) struct Paged {
    parts: PagedParts,
    opening: Opening,
    pool: Pool,
    /// Number of the first page of each level, the leaves first; then the number of all pages.
    levels: Vec<usize>,
    views: Views,
    table_locks: Box<[LockShard]>,
    key_locks: Box<[LockShard]>,
    shards: Box<[ThreadShard]>,
    owners: Box<[CachePadded<Bytes>]>,
    rows_per_leaf: usize,
    value: u64,
    work: u64,
}

/// An open transaction.
#[derive(Debug)]
pub(super) struct PagedTxn {
    listed: Listed,
    /// Rows whose keys are locked, in the order of the grants.
    locked: Vec<usize>,
    is_locked: HashSet<usize>,
}

fn critical(latch: &Mutex<()>, work: impl FnOnce()) {
    let _held = latch.lock();
    work();
}

impl Pool {
    fn latch_table(&self, own: bool, page: usize, me: usize) -> &ReadLatch {
        if own { &self.own_tables[me % SHARDS] } else { &self.table(page).latch }
    }

    fn table(&self, page: usize) -> &PageTable {
        &self.tables[(hash(page as u64) >> 40) as usize % TABLES]
    }
}

impl Paged {
    pub(super) fn new(parts: PagedParts, plan: &ReadPlan) -> Paged {
        let mut levels = vec![0];
        let mut pages = plan.rows.div_ceil(plan.rows_per_leaf);
        let mut end = pages;
        while pages > 1 {
            levels.push(end);
            pages = pages.div_ceil(FANOUT);
            end += pages;
        }
        levels.push(end);
        Paged {
            parts,
            opening: Opening::new(plan.threads),
            pool: Pool {
                tables: each(TABLES),
                own_tables: each(SHARDS),
                frames: each(end),
                announced: each(plan.threads),
            },
            levels,
            views: Views {
                registry: Mutex::default(),
                list: CachePadded::default(),
                numbers: CachePadded::default(),
                all: CachePadded::default(),
                slots: each(plan.threads),
            },
            table_locks: each(LOCK_SHARDS),
            key_locks: each(LOCK_SHARDS),
            shards: each(SHARDS),
            owners: each(plan.threads),
            rows_per_leaf: plan.rows_per_leaf,
            value: plan.value_bytes as u64,
            work: (plan.work_ns * 1e3) as u64,
        }
    }

    // ---- views

    fn open_view(&self, me: usize) {
        let (views, numbers) = (&self.views, &self.views.numbers);
        match self.parts.isolation {
            Isolation::Locks => {}
            Isolation::Registry => {
                critical(&views.registry, || {
                    let stamp = numbers.clock.value();
                    vm::Instant::now();
                    views.list.edit();
                    numbers.newest.publish(stamp);
                    numbers.count.publish(1);
                    numbers.clock.publish(stamp + 1);
                });
                views.all.read();
                views.all.unlock();
            }
            Isolation::OwnSlot => {
                let slot = &views.slots[me];
                slot.taken.exchange(0, 1);
                slot.lists.exchange(0, 1);
                vm::Instant::now();
                slot.opened.note(1);
                numbers.clock.look();
                slot.stamp.publish(1);
                numbers.clock.look();
                slot.lists.exchange(1, 0);
                self.shards[me % SHARDS].images.read();
                self.shards[me % SHARDS].images.unlock();
            }
        }
    }

    fn close_view(&self, me: usize) {
        match self.parts.isolation {
            Isolation::Locks => {}
            Isolation::Registry => critical(&self.views.registry, || {
                self.views.list.edit();
                self.views.numbers.newest.publish(0);
                self.views.numbers.count.publish(0);
            }),
            Isolation::OwnSlot => {
                let slot = &self.views.slots[me];
                slot.lists.exchange(0, 1);
                slot.stamp.publish(0);
                slot.lists.exchange(1, 0);
                slot.taken.note(0);
            }
        }
    }

    // ---- locks

    fn visit_lock(shards: &[LockShard], hashed: u64) {
        let shard = &shards[(hashed >> 59) as usize % LOCK_SHARDS];
        critical(&shard.latch, || shard.entries.edit());
    }

    /// The stripes of the table lie in different shards, which is the best case.
    fn visit_stripe(&self, me: usize) {
        let stripe = me % SHARDS % STRIPES;
        Self::visit_lock(&self.table_locks, (stripe as u64) << 59);
    }

    fn lock(&self, txn: &mut PagedTxn, me: usize, row: usize) {
        if txn.locked.is_empty() {
            self.visit_stripe(me);
        }
        if txn.is_locked.insert(row) {
            txn.locked.push(row);
            Self::visit_lock(&self.key_locks, hash(row as u64));
        }
    }

    fn release(&self, txn: &PagedTxn, me: usize) {
        if !txn.locked.is_empty() {
            self.visit_stripe(me);
        }
        txn.locked.iter().for_each(|row| Self::visit_lock(&self.key_locks, hash(*row as u64)));
    }

    // ---- pages

    /// Latches a page shared, as `Pool::read` and `Pool::try_read` do while no writer comes.
    fn pin(&self, page: usize, me: usize) {
        let (pool, frame) = (&self.pool, &self.pool.frames[page]);
        let table = pool.latch_table(self.parts.tables == Tables::Own, page, me);
        table.read();
        pool.table(page).header.look();
        match self.parts.latches {
            Latches::InFrame => {
                frame.latch.try_read();
                frame.pins.take();
            }
            Latches::Biased => {
                pool.announced[me].publish(page as u64 + 1);
                frame.body.look();
            }
        }
        table.unlock();
        frame.body.look();
    }

    fn unpin(&self, page: usize, me: usize) {
        match self.parts.latches {
            Latches::InFrame => {
                self.pool.frames[page].latch.unlock();
                self.pool.frames[page].pins.give();
            }
            Latches::Biased => self.pool.announced[me].note(0),
        }
    }

    /// Latches the leaf of a row, and returns its page.
    fn leaf(&self, me: usize, row: usize) -> usize {
        let leaf = row / self.rows_per_leaf;
        if self.parts.path == Path::Route {
            let routes = &self.shards[me % SHARDS].routes;
            routes.try_read();
            routes.unlock();
            self.pin(leaf, me);
            return leaf;
        }
        let mut above = None;
        for level in (0..self.levels.len() - 1).rev() {
            let page = self.levels[level] + leaf / FANOUT.pow(level as u32);
            self.pin(page, me);
            if let Some(above) = above.replace(page) {
                self.unpin(above, me);
            }
            if level > 0 {
                vm::work(INNER_SEARCH);
            }
        }
        leaf
    }
}

impl Model for Paged {
    type Txn = PagedTxn;

    /// Takes a thread's share of the frames into the cache of the thread's core.
    fn warm(&self, me: usize, threads: usize) {
        let own = self.pool.frames.iter().skip(me).step_by(threads);
        own.for_each(|frame| frame.body.count());
    }

    fn begin(&self, me: usize) -> PagedTxn {
        let shard = &self.shards[me % SHARDS];
        self.opening.refer(me);
        shard.next_txn.count();
        if self.parts.isolation == Isolation::Locks {
            critical(&shard.lock_lists, || {});
            self.owners[me].note(1);
        }
        self.open_view(me);
        PagedTxn { listed: self.opening.begins(me), locked: Vec::new(), is_locked: HashSet::new() }
    }

    fn read(&self, txn: &mut PagedTxn, me: usize, row: usize) {
        if self.parts.isolation == Isolation::Locks {
            self.lock(txn, me, row);
        }
        vm::work(self.work / 2);
        let page = self.leaf(me, row);
        vm::work(self.work - self.work / 2);
        vm::copy(self.value);
        self.unpin(page, me);
    }

    fn end(&self, txn: PagedTxn, me: usize) {
        self.close_view(me);
        if self.parts.isolation == Isolation::Locks {
            self.release(&txn, me);
            self.owners[me].note(0);
            critical(&self.shards[me % SHARDS].lock_lists, || {});
        }
        self.opening.ends(txn.listed);
        self.opening.leave(me);
    }
}
