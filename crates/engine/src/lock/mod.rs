//! The lock manager: strict two-phase locking of keys, intervals of keys, and tables.
//!
//! Locks are logical: a point lock is on a key, present or not; an interval lock is on all keys
//! between two bounds. A scan locks the intervals that it passes over, a writer locks the keys that
//! it writes. An exclusive point lock inside an interval conflicts with the interval's lock. So
//! there are no phantoms, and no locks on neighbours ("next keys") that no transaction touched.
//!
//! The thread of a transaction runs this code. The lock manager has no threads of its own, and no
//! time-out except the bound on each wait. Locks do not survive a crash; recovery runs before the
//! first lock.
//!
//! | file | idea |
//! |---|---|
//! | `mode` | modes and their matrix |
//! | `resource` | the resource of a lock as errors show it; `Conflict` |
//! | `entry` | holders and queue of one key |
//! | `range` | intervals, and the interval locks of one table |
//! | `space` | shards and ranges of a table; fast paths; why a range and a point find each other |
//! | `point`, `interval` | the slow paths: waiting for a point, for a range |
//! | `release` | releasing all locks of a transaction |
//! | `wait` | waits-for graph, victims, sleeping and waking |
//! | `owner` | the thread that used a transaction last, to find a thread that waits for itself |
//! | `held` | the locks that a transaction holds |
//! | `dependence` | the commits on which readers of early-released locks depend |
//!
//! Latches in the order of their ranks: a table's range mutex, one shard of the table, the
//! waits-for graph, a parker. A thread takes only latches of a higher rank than those it holds. The
//! caller holds no latch, because acquiring a lock may sleep.
//!
//! Invariants:
//!
//! 1. Two transactions never hold conflicting locks. For two locks on one key this follows from
//!    rule 1 of `entry`; for an interval and an exclusive point from rules 1 and 2 of `space` and
//!    rule 2 of `range`.
//! 2. All locks of a transaction are released together, by [`Locks::release_all`]; rolling back to
//!    a savepoint keeps them. So an ended transaction never waits again, and the graph may keep
//!    edges to it.
//! 3. Waits are first come, first served, also between points and ranges: a waiting range blocks
//!    later writers inside it, and a waiting writer blocks later ranges around its key. If a
//!    request would close a cycle by waiting for an earlier waiter, the request goes before that
//!    waiter. So fairness alone causes no deadlock.
//! 4. Every wait is in the waits-for graph. So every deadlock is found, and ends with exactly one
//!    victim (rule 4 of `wait`).
//! 5. Memory is bounded by the number of locks held and waited for, plus about 4 KiB per table
//!    used, and 16 KiB more for commit ends (`dependence`).

mod dependence;
mod entry;
mod held;
mod interval;
mod locked_keys;
mod mode;
mod owner;
mod point;
mod range;
mod release;
mod resource;
mod space;
#[cfg(test)]
mod tests;
mod wait;

pub(crate) use held::TxnLocks;
pub(crate) use mode::{PointMode, TableMode};
pub(crate) use resource::{Conflict, Resource};
pub(crate) use space::LockSpace;
pub(crate) use wait::LockStat;

use crate::Lsn;
use crate::body::{self, DatabaseKey};
use crate::body_threads::while_blocked;
use crate::contested::Contested;
use crate::error::ConflictKind;
use crate::ids::{TableId, TxnId};
use crate::latch::Mutex;
use owner::Owners;
use space::{Keys, STRIPES};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wait::{Graph, Node, Outcome, Parker};

/// Time after which a waiter checks whether it waits for its own thread. A transaction that is
/// passed between threads is rarely idle for 100 ms, and a program that waits for itself gets its
/// error soon enough.
pub(crate) const OWN_AFTER: Duration = Duration::from_millis(100);

/// A granted lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockGrant {
    /// Position up to which the log must be durable before the holder is acknowledged, because of
    /// the values that the lock lets it see. Zero if a point was already held, because its first
    /// grant has returned the position. A request inside a held range returns the range's position
    /// each time: the request that extended the range may have failed after a part was granted, and
    /// then has not returned that part's position.
    pub(crate) depends_on: Lsn,
}

impl LockGrant {
    const HELD: LockGrant = LockGrant { depends_on: Lsn::ZERO };
}

/// All locks of one database.
pub(crate) struct Locks {
    lock_wait: Duration,
    seed: u64,
    /// The lock space of the tables: a lock of a table is a point in this space.
    tables: Arc<LockSpace>,
    spaces: Mutex<HashMap<TableId, Arc<LockSpace>>>,
    graph: Mutex<Graph>,
    owners: Owners,
    /// `shut` stores true (Release) before it takes the graph's mutex. A waiter loads the flag
    /// (Acquire) after the waiter has added its wait under that mutex. So `shut` finds the wait, or
    /// the waiter loads true.
    is_shut: AtomicBool,
}

impl Locks {
    /// A lock manager without locks. A wait for one lock ends with a timeout after `lock_wait`.
    pub(crate) fn new(lock_wait: Duration) -> Self {
        Self::seeded(lock_wait, RandomState::new().hash_one("lock"))
    }

    /// A lock manager that spreads keys over the shards by this seed, for tests that must repeat
    /// exactly.
    pub(crate) fn seeded(lock_wait: Duration, seed: u64) -> Self {
        Locks {
            lock_wait,
            seed,
            tables: Arc::new(LockSpace::new(Keys::Tables, seed)),
            spaces: Mutex::default(),
            graph: Mutex::default(),
            owners: Owners::default(),
            is_shut: AtomicBool::new(false),
        }
    }

    /// The lock space of a table. Until [`Locks::forget`] each call returns the same space, so
    /// handles may keep it.
    pub(crate) fn space(&self, table: TableId) -> Arc<LockSpace> {
        let mut spaces = self.spaces.lock();
        spaces.entry(table).or_insert_with(|| Arc::new(LockSpace::new(Keys::Of(table), self.seed))).clone()
    }

    /// Removes the lock space of a dropped table. The drop must be durable, because the space has
    /// the commit ends on which readers of the table depend.
    pub(crate) fn forget(&self, table: TableId) {
        self.spaces.lock().remove(&table);
    }

    /// Returns the key under which a call of `transact` counts its waits in this database.
    pub(crate) fn key(&self) -> DatabaseKey {
        DatabaseKey::of(self)
    }

    /// Notes that a transaction begins on the calling thread, so that a waiter of the same thread
    /// can find out that it waits for itself.
    pub(crate) fn begin(&self, txn: &mut TxnLocks) {
        txn.begin(|| self.owners.enlist());
    }

    /// Locks a table. The exclusive mode is only for dropping, checking or bulk-loading the table.
    /// The call is cheap if `txn` already holds the lock.
    pub(crate) fn acquire_table(
        &self,
        txn: &mut TxnLocks,
        table: TableId,
        mode: TableMode,
    ) -> Result<LockGrant, Conflict> {
        let mut key = [0; 5];
        key[..4].copy_from_slice(&table.get().to_be_bytes());
        let (stripes, mode) = match mode {
            TableMode::Shared => {
                let mine = (txn.id().get() % u64::from(STRIPES)) as u8;
                (mine..mine + 1, PointMode::Shared)
            }
            TableMode::Exclusive => {
                txn.ask_at_once();
                (0..STRIPES, PointMode::Exclusive)
            }
        };
        let mut grant = LockGrant::HELD;
        for stripe in stripes {
            key[4] = stripe;
            let stripe = self.acquire_point(txn, &self.tables, &key, mode)?;
            grant.depends_on = grant.depends_on.max(stripe.depends_on);
        }
        Ok(grant)
    }

    /// Locks a key, present or not, or raises the mode in which `txn` holds it. May wait; the
    /// caller holds no latch. The caller has checked the length of the key, and holds the table's
    /// lock.
    pub(crate) fn acquire_point(
        &self,
        txn: &mut TxnLocks,
        space: &Arc<LockSpace>,
        key: &[u8],
        mode: PointMode,
    ) -> Result<LockGrant, Conflict> {
        let at = txn.enter(space);
        let hash = space.hash(key);
        let known = txn.find(at, hash, key);
        match known {
            Some((_, held)) if held >= mode => return Ok(LockGrant::HELD),
            None if mode == PointMode::Shared => {
                if let Some(range) = txn.covering(at, key) {
                    return Ok(LockGrant { depends_on: range.depends_on });
                }
            }
            _ => {}
        }
        let depends_on = match space.try_point(txn.id(), hash, key, mode, known.is_some()) {
            Some(depends_on) => depends_on,
            None => self.wait_for_point(txn, space, hash, key, mode, known.is_some())?,
        };
        txn.note(known.map(|(place, _)| place), at, hash, key, mode);
        Ok(LockGrant { depends_on })
    }

    /// Locks a key as [`Locks::acquire_point`] does, but never waits. Returns `None` if the lock
    /// cannot be granted at once: a holder or waiter of the key is in the way, or the mode is
    /// exclusive while the table has a granted or waiting range.
    pub(crate) fn try_point(
        &self,
        txn: &mut TxnLocks,
        space: &Arc<LockSpace>,
        key: &[u8],
        mode: PointMode,
    ) -> Option<LockGrant> {
        let at = txn.enter(space);
        let hash = space.hash(key);
        let known = txn.find(at, hash, key);
        if known.is_some_and(|(_, held)| held >= mode) {
            return Some(LockGrant::HELD);
        }
        let depends_on = space.try_point(txn.id(), hash, key, mode, known.is_some())?;
        txn.note(known.map(|(place, _)| place), at, hash, key, mode);
        Some(LockGrant { depends_on })
    }

    /// The table and keys of a conflict, for users. Takes latches, so the caller holds none.
    pub(crate) fn contested(&self, wanted: Resource, holder: Option<TxnId>) -> Contested {
        let mut contested = wanted.contested(|table| {
            let space = self.spaces.lock().get(&table).cloned();
            space.map(|space| space.name()).unwrap_or_default()
        });
        contested.holder_open = holder.and_then(|holder| self.owners.age_of(holder));
        contested
    }

    /// Counters for the database's `stat`.
    pub(crate) fn stat(&self) -> LockStat {
        self.graph.lock().stat()
    }

    /// Each waiting transaction, the resource that it waits for, and the transactions that block
    /// it.
    pub(crate) fn waits(&self) -> Vec<(TxnId, Resource, Vec<TxnId>)> {
        let graph = self.graph.lock();
        graph.waiting().map(|(txn, node)| (txn, node.wanted.clone(), node.blockers.clone())).collect()
    }

    /// Returns whether `from` waits for `to`, directly or through other waiting transactions.
    pub(crate) fn leads_to(&self, from: TxnId, to: TxnId) -> bool {
        self.graph.lock().leads_to(from, to)
    }

    /// Ends every present and later wait with a timeout. Called after the database has failed,
    /// because transactions that the failure has interrupted never release their locks, and while
    /// the database is being closed. Free locks are granted as before.
    pub(crate) fn shut(&self) {
        self.is_shut.store(true, Ordering::Release);
        let mut wakes = wait::Wakes::default();
        self.graph.lock().end_all(&mut wakes);
        wakes.send();
    }

    /// Sleeps until the wait that `txn` has begun is over. From time to time the thread checks
    /// whether it was the last to use a transaction for which `txn` waits, directly or through
    /// others. If so, that transaction is idle while this thread sleeps, and the wait is in vain if
    /// only this thread can end it.
    fn sleep(&self, txn: &TxnLocks, parker: &Parker) -> Result<(), Conflict> {
        let me = txn.id();
        let patience = body::patience(self.key(), self.lock_wait);
        let limit = if self.is_shut.load(Ordering::Acquire) { Duration::ZERO } else { patience };
        let begun = Instant::now();
        let deadline = begun.checked_add(limit);
        let mut look_after = txn.asks_after();
        let outcome = while_blocked(|| {
            loop {
                let look_at = begun.checked_add(look_after);
                let is_last =
                    deadline.is_some_and(|deadline| look_at.is_none_or(|look_at| deadline <= look_at));
                if let Some(outcome) = parker.park(if is_last { deadline } else { look_at }) {
                    break outcome;
                }
                if let Some(conflict) = self.give_up(me, is_last) {
                    break Outcome::Victim(conflict);
                }
                look_after = (look_after * 2).max(OWN_AFTER);
            }
        });
        body::has_waited(self.key(), begun.elapsed());
        match outcome {
            Outcome::Granted => Ok(()),
            Outcome::Victim(conflict) => Err(conflict),
        }
    }

    /// Ends the caller's wait if the wait's time is over or if the caller waits for its own thread.
    /// Returns `None` if the wait continues, or if another thread has already ended the wait. In
    /// the second case the outcome is in the parker (rule 1 of `wait`).
    fn give_up(&self, me: TxnId, is_time_over: bool) -> Option<Conflict> {
        let own = self.owners.of_this_thread(me);
        if own.is_empty() && !is_time_over {
            return None;
        }
        let mut graph = self.graph.lock();
        let own = graph.first_waited_for(me, &own);
        if own.is_none() && !is_time_over {
            return None;
        }
        let Node { blockers, wanted, .. } = graph.give_up(me)?;
        Some(Conflict { victim: me, blockers, wanted, kind: ConflictKind::Timeout, own })
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("stat", &self.stat())
            .field("waits", &self.waits())
            .finish_non_exhaustive()
    }
}
