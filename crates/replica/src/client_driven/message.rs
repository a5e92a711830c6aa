//! Requests of a client and replies of a replica.
//!
//! Pure. [`frame`](super::frame) turns them into bytes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Identity of one client session: 128 random bits, drawn by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(pub u128);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Identity of a transaction, the same at all replicas and in all its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransactionId {
    /// The session that made it.
    pub client: ClientId,
    /// Number in the session, counted from 1. Later transactions of a session have greater numbers.
    pub sequence: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.sequence)
    }
}

/// The action of an operation on its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Sets the value of a key that has none (the paper's INSERT); [`Refusal::KeyExists`] if it has
    /// one.
    Insert(Vec<u8>),
    /// Sets the value of a key, present or not (the paper's UPDATE).
    Put(Vec<u8>),
    /// Removes a key that is present (the paper's DELETE); [`Refusal::NoSuchKey`] if it is not.
    Delete,
    /// Reads the value of a key, within the transaction.
    Read,
}

impl Action {
    /// Returns whether the action changes the key.
    pub fn writes(&self) -> bool {
        !matches!(self, Action::Read)
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Name of the table. It is created if there is none.
    pub table: String,
    /// Key in that table, at most [`katydid::KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    /// The action on it.
    pub action: Action,
}

/// A message of a client to a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Begins a connection. Answered by [`Reply::Welcome`].
    Hello {
        /// The session that the connection belongs to.
        client: ClientId,
    },
    /// One transaction, whole. Answered by [`Reply::Answered`].
    Transact {
        /// Identity of the transaction.
        id: TransactionId,
        /// Operations, in the order in which they are run.
        operations: Vec<Operation>,
    },
    /// Reads a key outside of any transaction. Answered by [`Reply::Value`].
    Read {
        /// Name of the table.
        table: String,
        /// Key in it.
        key: Vec<u8>,
    },
    /// At most `limit` rows from a key on. Answered by [`Reply::Rows`].
    Rows {
        /// Name of the table.
        table: String,
        /// The last key that was seen: rows after it are meant. None: all rows.
        after: Option<Vec<u8>>,
        /// No rows at this key or after it. None: up to the table's end.
        before: Option<Vec<u8>>,
        /// Maximum number of rows.
        limit: u32,
    },
    /// Numbers and sums of all tables. Answered by [`Reply::Contents`].
    Contents,
    /// Counters. Answered by [`Reply::Stat`].
    Stat,
    /// Ends the session: its entry in the table of answers is removed. Answered by
    /// [`Reply::Forgotten`].
    Forget,
}

/// Reason why a replica did not run a transaction. It left nothing behind there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// An insert found its key present.
    #[error("operation {operation}: the key exists already")]
    KeyExists {
        /// The operation, counted from 0.
        operation: u32,
    },
    /// A delete did not find its key.
    #[error("operation {operation}: there is no such key")]
    NoSuchKey {
        /// The operation, counted from 0.
        operation: u32,
    },
    /// Another transaction of the replica was in the way. The same transaction may succeed later.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The replica has no room, or no place for another session, at present. The same transaction
    /// may succeed later.
    #[error("no room: {0}")]
    NoRoom(String),
    /// The request breaks a limit; every replica with the same options refuses it.
    #[error("not allowed: {0}")]
    NotAllowed(String),
}

impl Refusal {
    /// Returns whether the same transaction, sent again, may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Refusal::Conflict(_) | Refusal::NoRoom(_))
    }
}

/// The result of a transaction at one replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is committed and durable there.
    Committed {
        /// The value found by each [`Action::Read`], in order; none for a key that has no value.
        found: Vec<Option<Vec<u8>>>,
    },
    /// It left nothing behind there.
    Refused(Refusal),
    /// The replica cannot tell: its log failed while the transaction was committed, or it has
    /// answered a later transaction of the session.
    InDoubt(String),
}

/// An outcome, and the server's own times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The transaction.
    pub id: TransactionId,
    /// Outcome at the replica.
    pub outcome: Outcome,
    /// True if the outcome is of an earlier request with the same identity.
    pub repeated: bool,
    /// Nanoseconds from the decoded request until the outcome was known: the papers' trx(s).
    pub server_ns: u64,
}

/// Number of rows of a table, and a checksum of them in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableContents {
    /// Name of the table.
    pub table: String,
    /// Number of rows.
    pub rows: u64,
    /// CRC-64/NVME of the length-prefixed keys and values, in key order.
    pub checksum: u64,
}

/// Counters of a replica since it was started. Times are sums in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReplicaStat {
    /// Transactions committed, repeated answers not counted.
    pub committed: u64,
    /// Transactions refused.
    pub refused: u64,
    /// Transactions answered again from the table of answers.
    pub repeated: u64,
    /// From a decoded request until the transaction was committed, of those that were: the papers'
    /// trx(s).
    pub server_ns: u64,
    /// Waiting for the sync lock, of threads that then synced or found nothing to sync: Synclock.
    pub lock_ns: u64,
    /// In writes and syncs of the log: fsync.
    pub sync_ns: u64,
    /// Waiting for another thread's sync: Flushwait.
    pub wait_ns: u64,
    /// Times the sync lock was taken.
    pub locks: u64,
    /// Syncs.
    pub syncs: u64,
    /// Slots that committers met in before the write.
    pub slots: u64,
    /// Threads in those slots.
    pub slot_threads: u64,
    /// Queues of requests that one thread synced for.
    pub queues: u64,
    /// Requests in those queues.
    pub queued: u64,
    /// Committers that another thread's sync covered.
    pub released: u64,
}

impl ReplicaStat {
    /// The counts between `earlier` and this.
    pub fn since(&self, earlier: &ReplicaStat) -> ReplicaStat {
        let of = |field: fn(&ReplicaStat) -> u64| field(self).saturating_sub(field(earlier));
        ReplicaStat {
            committed: of(|stat| stat.committed),
            refused: of(|stat| stat.refused),
            repeated: of(|stat| stat.repeated),
            server_ns: of(|stat| stat.server_ns),
            lock_ns: of(|stat| stat.lock_ns),
            sync_ns: of(|stat| stat.sync_ns),
            wait_ns: of(|stat| stat.wait_ns),
            locks: of(|stat| stat.locks),
            syncs: of(|stat| stat.syncs),
            slots: of(|stat| stat.slots),
            slot_threads: of(|stat| stat.slot_threads),
            queues: of(|stat| stat.queues),
            queued: of(|stat| stat.queued),
            released: of(|stat| stat.released),
        }
    }

    /// Mean microseconds a committed transaction of a sum in nanoseconds; 0 without transactions.
    pub fn us_per_commit(&self, nanoseconds: u64) -> f64 {
        nanoseconds as f64 / 1e3 / self.committed.max(1) as f64
    }

    /// Mean number of threads in a slot; 0 if none met in one.
    pub fn threads_per_slot(&self) -> f64 {
        self.slot_threads as f64 / self.slots.max(1) as f64
    }

    /// Mean number of requests in a queue; 0 if the protocol has no queues.
    pub fn requests_per_queue(&self) -> f64 {
        self.queued as f64 / self.queues.max(1) as f64
    }
}

/// A row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A message of a replica to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Answers [`Request::Hello`].
    Welcome {
        /// The last transaction of the session that this replica has committed and remembers.
        last: Option<u64>,
    },
    /// Answers [`Request::Transact`].
    Answered(Answer),
    /// Answers [`Request::Read`].
    Value(Option<Vec<u8>>),
    /// Answers [`Request::Rows`]: fewer than `limit` rows are the last ones only if there are none.
    Rows(Vec<Row>),
    /// Answers [`Request::Contents`]: tables that have rows, by name.
    Contents(Vec<TableContents>),
    /// Answers [`Request::Stat`].
    Stat(ReplicaStat),
    /// Answers [`Request::Forget`].
    Forgotten,
    /// The request could not be served, and was no transaction.
    Unserved(String),
}
