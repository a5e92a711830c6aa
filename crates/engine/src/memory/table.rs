//! State that the handles on one table share.
//!
//! A table is dropped only when no transaction uses it. A transaction counts itself in before it
//! looks whether the table is being dropped, and the dropper says so before it counts them: one of
//! the two sees the other.

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
    /// Transactions that use it, by the shard they began to in. Sequentially consistent, as is
    /// `state`: see the head of this file.
    users: Box<[Arc<CachePadded<Users>>]>,
    /// Written by the dropper, one at a time.
    state: AtomicU8,
}

/// The transactions of one shard's threads that use a table.
#[derive(Debug, Default)]
struct Users {
    count: AtomicU64,
    /// The one that was counted in last, and its thread: written by that thread, read by a dropper,
    /// relaxed. A dropper that reads a pair of two transactions, or of one that has ended, or that
    /// was moved to another thread, refuses to drop the table; nothing else depends on it.
    last: AtomicU64,
    thread: AtomicUsize,
}

impl Users {
    fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// The one that was counted in last, if the calling thread did it and not all have ended.
    fn of_this_thread(&self) -> Option<TxnId> {
        let is_own = self.count() > 0 && self.thread.load(Relaxed) == thread_number();
        is_own.then(|| TxnId::new(self.last.load(Relaxed)))
    }
}

/// Outcome of an attempt to keep transactions out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// No transaction uses it, and none can begin to.
    Closed,
    /// They did not end in time; all goes on as before.
    Busy,
    /// This transaction uses it, and was begun on the dropper's own thread.
    Own(TxnId),
    /// Another transaction has dropped it.
    Dropped,
}

/// A transaction's use of a table, until dropped. It refers to what threads of a shard share, not
/// to what all share.
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

/// One step of waiting for what other threads are about to do: short at first.
fn rest(step: u32) {
    if step < 100 {
        std::thread::yield_now();
    } else {
        // Not a park with a limit, which would take a token of the program's own executor.
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl MemoryTable {
    pub(crate) fn new(name: &str, rows: Arc<Table>) -> Arc<Self> {
        rows.set_name(name);
        let users = (0..SHARDS).map(|_| Arc::default()).collect();
        Arc::new(MemoryTable { rows, users, state: AtomicU8::new(USED) })
    }

    /// Counts a transaction in. Waits while another one tries to drop the table.
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

    /// Keeps new transactions out and waits for those that use the table. A caller that gets
    /// `Closed` calls `reopen` or `dropped` afterwards. Gives up at once when `is_closing`.
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

    /// The table as a whole was not to be had in time.
    pub(crate) fn busy(&self, victim: TxnId) -> Error {
        let contested = Contested { table: self.rows.name(), keys: ContestedKeys::All, holder_open: None };
        let contested = Some(Box::new(contested));
        events::conflict(Error::Conflict { victim, holder: None, kind: ConflictKind::Timeout, contested })
    }

    /// It was not dropped after all.
    pub(crate) fn reopen(&self) {
        self.state.store(USED, SeqCst);
    }

    /// It was.
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
