//! The state that all handles of a table share.
//!
//! A table is dropped only when no transaction uses it. A transaction increments the count of users
//! before it reads the table's state. The dropper sets the state before it reads the counts. So the
//! transaction finds the new state, or the dropper finds the transaction's count.

use super::store::{Deadline, Table};
use crate::contested::{Contested, ContestedKeys};
use crate::engine::EngineTable;
use crate::error::{ConflictKind, Error, Result};
use crate::events;
use crate::ids::{TableId, TxnId};
use crate::shard::{SHARDS, shard_of_thread, thread_number};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

const USED: u8 = 0;
const DROPPING: u8 = 1;
const DROPPED: u8 = 2;

/// A table of an open database.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    pub(crate) rows: Arc<Table>,
    /// Counts of the transactions that use the table, by the shard in which they began to use it.
    /// The counts and `state` are sequentially consistent (see the head of this file).
    users: Box<[Arc<CachePadded<Users>>]>,
    /// The table's state. Only the thread that drops the table writes this field; there is one such
    /// thread at a time.
    state: AtomicU8,
}

/// The transactions of one shard's threads that use a table.
#[derive(Debug, Default)]
struct Users {
    count: AtomicU64,
    /// The transaction that was counted last. Its thread writes `last` and `thread`, and a dropper
    /// reads both, relaxed. The two values decide only whether a dropper on the same thread refuses
    /// to drop the table. They may belong to two transactions, or to one that has ended or moved to
    /// another thread; the dropper then refuses without need.
    last: AtomicU64,
    thread: AtomicUsize,
}

impl Users {
    fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// The transaction that was counted last, if the calling thread counted it and at least one
    /// transaction of the shard still uses the table.
    fn of_this_thread(&self) -> Option<TxnId> {
        let is_own = self.count() > 0 && self.thread.load(Relaxed) == thread_number();
        is_own.then(|| TxnId::new(self.last.load(Relaxed)))
    }
}

/// Outcome of [`MemoryTable::close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// No transaction uses the table, and none can begin to use it.
    Closed,
    /// The transactions did not end in time, another thread was trying to drop the table, or the
    /// database is being closed. The table stays open.
    Busy,
    /// This transaction uses the table, and began to do so on the dropper's own thread.
    Own(TxnId),
    /// Another call has dropped the table.
    Dropped,
}

/// A transaction's use of a table, which ends when this value is dropped. A `Use` refers to a count
/// that only the threads of one shard share.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) table: TableId,
    users: Arc<CachePadded<Users>>,
}

impl Drop for Use {
    fn drop(&mut self) {
        self.users.count.fetch_sub(1, SeqCst);
    }
}

/// Yields in the first 100 steps of a wait, and sleeps for 100 us in each later step.
fn rest(step: u32) {
    if step < 100 {
        std::thread::yield_now();
    } else {
        // A park with a time limit might consume an unpark token of the program's own executor.
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl MemoryTable {
    pub(crate) fn new(name: &str, rows: Arc<Table>) -> Arc<Self> {
        rows.set_name(name);
        let users = (0..SHARDS).map(|_| Arc::default()).collect();
        Arc::new(MemoryTable { rows, users, state: AtomicU8::new(USED) })
    }

    /// Counts a transaction as a user of the table. Waits while another thread tries to drop the
    /// table.
    pub(crate) fn enter(&self, victim: TxnId, at_most: Duration) -> Result<Use> {
        let users = &self.users[shard_of_thread()];
        let mut until = None;
        for step in 0.. {
            users.count.fetch_add(1, SeqCst);
            let entered = Use { table: self.rows.id(), users: users.clone() };
            match self.state.load(SeqCst) {
                USED => {
                    users.last.store(victim.get(), Relaxed);
                    users.thread.store(thread_number(), Relaxed);
                    return Ok(entered);
                }
                DROPPING => drop(entered),
                _ => return Err(Error::TableDropped { name: self.rows.name().to_string() }),
            }
            if until.get_or_insert_with(|| Deadline::after(at_most)).is_over() {
                break;
            }
            rest(step);
        }
        Err(self.busy(victim))
    }

    /// Prevents new users of the table, and waits until no transaction uses it. A caller that gets
    /// `Closed` calls `reopen` or `dropped` afterwards. The call gives up and returns `Busy` as
    /// soon as `is_closing` says that the database is being closed.
    pub(crate) fn close(&self, at_most: Duration, is_closing: impl Fn() -> bool) -> Closing {
        let until = Deadline::after(at_most);
        let mut is_ours = false;
        for step in 0.. {
            if !is_ours {
                match self.state.compare_exchange(USED, DROPPING, SeqCst, SeqCst) {
                    Ok(_) => is_ours = true,
                    Err(DROPPED) => return Closing::Dropped,
                    Err(_) => {}
                }
            }
            if is_ours && self.users.iter().all(|users| users.count() == 0) {
                return Closing::Closed;
            }
            if is_ours && let Some(own) = self.users[shard_of_thread()].of_this_thread() {
                self.reopen();
                return Closing::Own(own);
            }
            if is_closing() || until.is_over() {
                break;
            }
            rest(step);
        }
        if is_ours {
            self.reopen();
        }
        Closing::Busy
    }

    /// The error if the table did not become free in time.
    pub(crate) fn busy(&self, victim: TxnId) -> Error {
        let contested = Contested { table: self.rows.name(), keys: ContestedKeys::All, holder_open: None };
        let contested = Some(Box::new(contested));
        events::conflict(Error::Conflict { victim, holder: None, kind: ConflictKind::Timeout, contested })
    }

    /// Allows new users again, because the table was not dropped.
    pub(crate) fn reopen(&self) {
        self.state.store(USED, SeqCst);
    }

    /// Notes that the table was dropped.
    pub(crate) fn dropped(&self) {
        self.state.store(DROPPED, SeqCst);
    }
}

impl EngineTable for Arc<MemoryTable> {
    fn name(&self) -> Arc<str> {
        self.rows.name()
    }

    fn id(&self) -> TableId {
        self.rows.id()
    }
}
