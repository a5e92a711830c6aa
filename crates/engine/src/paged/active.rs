//! The transactions that have written and have not ended, and the sessions through which their
//! records get into the log.
//!
//! Transaction threads run this code. The thread that takes a checkpoint reads the table.
//! Invariants:
//!
//! 1. A thread takes a slot's latch (rank 5) before it appends a record of the slot's transaction,
//!    and releases the latch after it has updated the slot. A checkpoint appends its begin record,
//!    passes a barrier of the log, and then captures the slots. Records that are appended after the
//!    barrier lie above the begin record. So the capture misses no record below the begin record:
//!    the writer of such a record either has updated its slot already, or holds the latch, for
//!    which the capture waits.
//! 2. A transaction whose commit record lies below the begin record is never captured as active,
//!    because its writer has updated the slot before the capture (invariant 1).
//! 3. `first` of an occupied slot is at or below every record of its transaction. So undo finds all
//!    it needs in a log that begins at or below the least `first`.
//! 4. Records that one thread appends are in the log in the order of the appends, because a thread
//!    always appends through the same session. With fewer sessions than shards, several shards
//!    share a session, and a thread waits while another thread appends through the shared session.
//!    No thread is ever refused a session.
//! 5. A slot is free exactly when its `txn` is `TxnId::NONE`. Slots are never removed, only reused.
//!
//! Log sessions and free slots are sharded by thread. Nothing here survives a crash; analysis
//! rebuilds the slots.

use crate::Lsn;
use crate::fullness::no_room;
use crate::ids::TxnId;
use crate::latch::Mutex;
use crate::lock::TxnLocks;
use crate::paged::log_record::{ActiveEntry, State};
use crate::paged::writer::Writer;
use crate::pause::{self, PausePoint};
use crate::shard::{SHARDS, shard_of_thread};
use crossbeam_utils::CachePadded;
use katydid_wal as wal;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of empty lock lists that a shard retains.
const IDLE_LOCKS: usize = 64;

/// State of a slot's transaction.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    pub(crate) txn: TxnId,
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    pub(crate) committed: bool,
    /// First pages of the overflow chains and trees that a committed transaction has not freed yet.
    pub(crate) chains: Vec<u64>,
}

impl SlotState {
    /// Frees the slot, because recovery needs nothing more of the transaction.
    pub(crate) fn clear(&mut self) {
        self.txn = TxnId::NONE;
        self.first = Lsn::ZERO;
        self.last = Lsn::ZERO;
        self.committed = false;
        self.chains.clear();
    }
}

/// The entry of one writing transaction.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
}

impl Slot {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }
}

#[derive(Debug)]
struct Shard {
    /// The next transaction id of this shard is `next * SHARDS + shard`. The shard's threads
    /// increment it, and a checkpoint reads it. The accesses are Relaxed: no two increments get the
    /// same value. A checkpoint reads it after the capture, whose latches make the ids of all
    /// records below the begin record visible (invariant 1). Analysis counts the ids of the records
    /// above.
    next: AtomicU64,
    #[expect(clippy::vec_box, reason = "a writer goes to its transaction and back without being copied")]
    idle: Mutex<Vec<Box<Writer>>>,
    /// Empty lists of locks, for reuse.
    locks: Mutex<Vec<TxnLocks>>,
    /// Log session, opened by the first append. Only the first `ActiveTable::sessions` shards use
    /// their session.
    session: Mutex<Option<wal::Session>>,
}

/// All slots, and the log sessions of the threads that write.
#[derive(Debug)]
pub(crate) struct ActiveTable {
    shards: Box<[CachePadded<Shard>]>,
    /// Number of shards whose sessions are used: all, or as many as the log allows.
    sessions: usize,
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl ActiveTable {
    /// A table whose transaction ids start above `after`, with at most `sessions_max` sessions of
    /// the log.
    pub(crate) fn new(after: TxnId, sessions_max: usize) -> Self {
        let next = after.get() / SHARDS as u64 + 1;
        let shard = || Shard {
            next: AtomicU64::new(next),
            idle: Mutex::new(Vec::new()),
            locks: Mutex::new(Vec::new()),
            session: Mutex::new(None),
        };
        ActiveTable {
            shards: (0..SHARDS).map(|_| CachePadded::new(shard())).collect(),
            sessions: sessions_max.clamp(1, SHARDS),
            slots: Mutex::new(Vec::new()),
        }
    }

    /// An id that no other transaction has had since the database was opened.
    pub(crate) fn next_txn(&self) -> TxnId {
        let shard = shard_of_thread();
        let next = self.shards[shard].next.fetch_add(1, Ordering::Relaxed);
        TxnId::new(next * SHARDS as u64 + shard as u64)
    }

    /// An id above the ids of all transactions that have a record below the checkpoint's begin
    /// record. The caller has captured the slots.
    pub(crate) fn txn_limit(&self) -> u64 {
        let next = self.shards.iter().map(|shard| shard.next.load(Ordering::Relaxed)).max().unwrap_or(1);
        (next + 1) * SHARDS as u64
    }

    /// Returns a writer with a free slot. The slot is occupied from the transaction's first record
    /// on.
    pub(crate) fn take_writer(&self, txn: TxnId) -> Box<Writer> {
        let idle = self.shards[shard_of_thread()].idle.lock().pop();
        let mut writer = idle.unwrap_or_else(|| {
            let slot = Arc::new(Slot::default());
            self.slots.lock().push(slot.clone());
            Box::new(Writer::new(slot))
        });
        writer.txn = txn;
        writer
    }

    /// Gives back a writer whose slot is free again.
    pub(crate) fn give_writer(&self, mut writer: Box<Writer>) {
        writer.reset();
        self.shards[shard_of_thread()].idle.lock().push(writer);
    }

    /// Returns an empty list of locks, for `txn`.
    pub(crate) fn take_locks(&self, txn: TxnId) -> TxnLocks {
        match self.shards[shard_of_thread()].locks.lock().pop() {
            Some(mut locks) => {
                locks.reuse(txn);
                locks
            }
            None => TxnLocks::new(txn),
        }
    }

    /// Takes back a list whose locks are all released.
    pub(crate) fn give_locks(&self, locks: TxnLocks) {
        let mut idle = self.shards[shard_of_thread()].locks.lock();
        if idle.len() < IDLE_LOCKS {
            idle.push(locks);
        }
    }

    /// The slot of a transaction that recovery found unfinished.
    pub(crate) fn restore_slot(&self, entry: &ActiveEntry) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        {
            let mut state = slot.lock();
            state.txn = entry.txn;
            state.first = entry.first;
            state.last = entry.last;
            state.committed = entry.state == State::Committed;
            state.chains.clone_from(&entry.chains);
        }
        self.slots.lock().push(slot.clone());
        slot
    }

    /// Appends through the calling thread's log session. Waits while another thread appends through
    /// the same session.
    pub(crate) fn append(
        &self,
        log: &wal::Stream,
        append: &wal::Append<'_>,
    ) -> Result<wal::Appended, crate::Error> {
        pause::at(PausePoint::Append);
        let shard = shard_of_thread();
        let shard = if shard < self.sessions { shard } else { shard % self.sessions };
        let mut session = self.shards[shard].session.lock();
        let session = match &mut *session {
            Some(session) => session,
            none => none.insert(log.session().map_err(crate::Error::from)?),
        };
        let appended = session.append(append);
        pause::at(PausePoint::Appended);
        appended.map_err(|error| match error {
            wal::AppendError::NoSpace if log.is_bounded() => no_room(log),
            error => error.into(),
        })
    }

    /// Returns the occupied slots. The caller has appended the checkpoint's begin record and has
    /// passed the log's barrier (invariant 1).
    pub(crate) fn capture(&self) -> Vec<ActiveEntry> {
        // The list is copied first, so that its latch is not held while this thread waits for
        // slots. The holder of a slot's latch may be waiting for log space, and a thread that only
        // needs a new slot must not wait for that holder. A slot pushed after the copy has no
        // record below the begin record.
        let slots = self.slots.lock().clone();
        let mut entries = Vec::new();
        for slot in slots {
            let state = slot.lock();
            if state.txn != TxnId::NONE {
                entries.push(ActiveEntry {
                    txn: state.txn,
                    state: if state.committed { State::Committed } else { State::Active },
                    first: state.first,
                    last: state.last,
                    chains: state.chains.clone(),
                });
            }
        }
        entries
    }

    /// Returns the number of occupied slots and the transaction with the oldest first record. Waits
    /// for no slot's latch: a slot whose latch is held counts as occupied, but the search for the
    /// oldest leaves it out.
    pub(crate) fn oldest(&self) -> (u64, Option<(TxnId, Lsn)>) {
        let slots = self.slots.lock().clone();
        let mut count = 0;
        let mut oldest: Option<(TxnId, Lsn)> = None;
        for slot in slots {
            let Some(state) = slot.state.try_lock() else {
                count += 1;
                continue;
            };
            if state.txn != TxnId::NONE {
                count += 1;
                if oldest.is_none_or(|(_, first)| state.first < first) {
                    oldest = Some((state.txn, state.first));
                }
            }
        }
        (count, oldest)
    }

    /// The transaction with the oldest first record. Waits for the latch of each slot whose
    /// transaction is appending, so the caller must hold no latch.
    pub(crate) fn oldest_of_all(&self) -> Option<(TxnId, Lsn)> {
        let slots = self.slots.lock().clone();
        let firsts = slots.iter().map(|slot| {
            let state = slot.lock();
            (state.txn, state.first)
        });
        firsts.filter(|(txn, _)| *txn != TxnId::NONE).min_by_key(|(_, first)| *first)
    }

    /// Drops the log sessions, before the log is closed.
    pub(crate) fn drop_sessions(&self) {
        for shard in &self.shards {
            shard.session.lock().take();
        }
    }
}
