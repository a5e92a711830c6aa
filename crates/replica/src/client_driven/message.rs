//! Requests of a client and replies of a replica.
//!
//! These are plain types; [`frame`](super::frame) turns messages into bytes.

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
    /// Session that made the transaction.
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
    /// Sets the value of a key that is absent (the paper's INSERT). The replica answers
    /// [`Refusal::KeyExists`] if the key is present.
    Insert(Vec<u8>),
    /// Sets the value of a key, present or not (the paper's UPDATE).
    Put(Vec<u8>),
    /// Removes a key that is present (the paper's DELETE). The replica answers
    /// [`Refusal::NoSuchKey`] if the key is absent.
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
    /// Name of the table. The table is created if it is missing. A transaction that names the table
    /// "katydid client-driven answers" is refused: each replica keeps its answers there.
    pub table: String,
    /// Key in that table, at most [`katydid::KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
    /// Action on the key.
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
    /// One complete transaction. Answered by [`Reply::Answered`].
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
        /// Key in that table.
        key: Vec<u8>,
    },
    /// Reads at most `limit` rows of a table, in key order. Answered by [`Reply::Rows`].
    Rows {
        /// Name of the table.
        table: String,
        /// Only rows after this key are returned. `None`: from the table's beginning.
        after: Option<Vec<u8>>,
        /// Only rows before this key are returned. `None`: up to the table's end.
        before: Option<Vec<u8>>,
        /// Maximum number of rows.
        limit: u32,
    },
    /// Asks for the numbers of rows and the checksums of all tables. Answered by
    /// [`Reply::Contents`].
    Contents,
    /// Asks for the replica's counters. Answered by [`Reply::Stat`].
    Stat,
    /// Ends the session; the replica removes its entry from the table of answers. Answered by
    /// [`Reply::Forgotten`].
    Forget,
}

/// Reason why a replica did not commit a transaction. The transaction changed nothing at that
/// replica.
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
    /// The transaction conflicted with another one at the replica. The same transaction may succeed
    /// later.
    #[error("conflict: {0}")]
    Conflict(String),
    /// At present the replica has no space for the transaction. The same transaction may succeed
    /// later.
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
    /// The transaction is committed and durable at the replica.
    Committed {
        /// The value found by each [`Action::Read`], in order; `None` for a key that is absent.
        found: Vec<Option<Vec<u8>>>,
    },
    /// The transaction changed nothing at the replica.
    Refused(Refusal),
    /// The replica does not know the outcome, because its log failed during the commit, the session
    /// has a newer connection, or the replica has answered a later transaction of the session.
    InDoubt(String),
}

/// An outcome, and the server's own time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The transaction.
    pub id: TransactionId,
    /// Outcome at the replica.
    pub outcome: Outcome,
    /// True if an earlier request with the same identity had this outcome.
    pub repeated: bool,
    /// Nanoseconds from decoding the request until the outcome was known: the paper's trx(s).
    pub server_ns: u64,
}

/// Number of rows of a table, and a checksum of all rows.
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
    /// Transactions committed, without repeated answers.
    pub committed: u64,
    /// Transactions refused.
    pub refused: u64,
    /// Transactions answered again from the table of answers.
    pub repeated: u64,
    /// Time of committed transactions, from decoding the request until the commit: the paper's
    /// trx(s).
    pub server_ns: u64,
    /// Time that threads waited for the sync lock, if they then synced or found nothing to sync:
    /// the paper's Synclock.
    pub lock_ns: u64,
    /// Time in writes and syncs of the log: the paper's fsync.
    pub sync_ns: u64,
    /// Time that threads waited for another thread's sync: the paper's Flushwait.
    pub wait_ns: u64,
    /// Number of times that the sync lock was taken.
    pub locks: u64,
    /// Syncs.
    pub syncs: u64,
    /// Slots in which committers met before the write.
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
    /// Returns the counts since `earlier`.
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

    /// Returns a sum in nanoseconds as mean microseconds per committed transaction.
    pub fn us_per_commit(&self, nanoseconds: u64) -> f64 {
        nanoseconds as f64 / 1e3 / self.committed.max(1) as f64
    }

    /// Returns the mean number of threads in a slot; 0 if there were no slots.
    pub fn threads_per_slot(&self) -> f64 {
        self.slot_threads as f64 / self.slots.max(1) as f64
    }

    /// Returns the mean number of requests in a queue; 0 if the protocol has no queues.
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
    /// Answers [`Request::Rows`]. Only an empty page means that there are no more rows; a page with
    /// fewer than `limit` rows does not.
    Rows(Vec<Row>),
    /// Answers [`Request::Contents`] with the tables that have rows, in the order of their names.
    Contents(Vec<TableContents>),
    /// Answers [`Request::Stat`].
    Stat(ReplicaStat),
    /// Answers [`Request::Forget`].
    Forgotten,
    /// The replica could not serve the request, for this reason. A [`Request::Transact`] never gets
    /// this reply.
    Unserved(String),
}
