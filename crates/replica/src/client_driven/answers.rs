//! The table of answers. A replica stores each session's last committed transaction in this table.
//! When a client sends that transaction again, the replica answers from the table and does not run
//! the transaction a second time.
//!
//! Each connection's thread uses the table, and holds the lock of its session's entry while it runs
//! a transaction. Invariants:
//!
//! 1. A session has at most one transaction in flight. So its last answer is enough, and a request
//!    with a number below the last one is out of date.
//! 2. Only the newest connection of a session runs its transactions. A request that is left in the
//!    buffer of a broken connection is never run, because the session may have learned on a newer
//!    connection that the transaction was refused.
//! 3. With [`AnswerTable::Durable`] each transaction writes its session's row: after a crash the
//!    row and the transaction are both there or both missing.
//! 4. The number of sessions is bounded. At the bound a new session is refused until another ends
//!    by [`Request::Forget`](super::message::Request::Forget).
//!
//! | lock | guards | order |
//! |---|---|---|
//! | `sessions` | the map, while an entry is looked up | last; taken also under an `Entry` |
//! | an `Entry` | a session's last answer, while its transaction runs | before the engine's locks |

use katydid::{Database, Error, Table, Transaction};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

use super::message::ClientId;

/// Storage of the last answer of each session at a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerTable {
    /// Each transaction writes its session's answer into a table of the database. The replica
    /// answers a retry even after a restart.
    #[default]
    Durable,
    /// The answers are in memory only. A session that a replica has served before does not accept
    /// the replica after its restart (`ReplicaBehind` at the client). This variant is for
    /// measurements of the paper's replication, which does not store answers.
    Volatile,
}

/// Name of the table with a row for each session.
pub(super) const TABLE: &str = "katydid client-driven answers";

/// Maximum bytes of values in a session's recorded answer. A transaction that reads more is
/// refused.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The last answer of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastAnswer {
    pub sequence: u64,
    pub found: Vec<Option<Vec<u8>>>,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub last: Option<LastAnswer>,
    /// Number of connections that have begun the session. Only the last of them may run
    /// transactions.
    pub connections: u64,
    /// True if the session has ended: its connections then run no further transaction.
    pub ended: bool,
}

/// The table of answers, with the last committed transaction of each session.
#[derive(Debug)]
pub(super) struct Answers {
    sessions: Mutex<HashMap<ClientId, Arc<Mutex<Entry>>>>,
    sessions_max: usize,
    /// `None` for [`AnswerTable::Volatile`].
    table: Option<Table>,
}

impl Answers {
    /// Opens the table of answers of a database, and loads its sessions.
    pub fn open(database: &Database, kept: AnswerTable, sessions_max: usize) -> Result<Answers, Error> {
        let mut sessions = HashMap::new();
        let table = match kept {
            AnswerTable::Volatile => None,
            AnswerTable::Durable => {
                let table = database.table(TABLE)?;
                let view = database.begin_read_only()?;
                let mut rows = view.range(&table, ..);
                while let Some((key, value)) = rows.next_ref()? {
                    let client = key.try_into().map(|key| ClientId(u128::from_be_bytes(key)));
                    let last = postcard::from_bytes::<LastAnswer>(value);
                    let (Ok(client), Ok(last)) = (client, last) else {
                        return Err(Error::Internal("a row of the table of answers cannot be decoded"));
                    };
                    let entry = Entry { last: Some(last), ..Entry::default() };
                    sessions.insert(client, Arc::new(Mutex::new(entry)));
                }
                drop(rows);
                Some(table)
            }
        };
        Ok(Answers { sessions: Mutex::new(sessions), sessions_max, table })
    }

    /// Returns the entry of a session. The entry is made if the session is new. Returns `None` if
    /// there are too many sessions.
    pub fn entry(&self, client: ClientId) -> Option<Arc<Mutex<Entry>>> {
        let mut sessions = self.sessions.lock();
        if let Some(entry) = sessions.get(&client) {
            return Some(Arc::clone(entry));
        }
        if sessions.len() >= self.sessions_max {
            return None;
        }
        let entry = Arc::<Mutex<Entry>>::default();
        sessions.insert(client, Arc::clone(&entry));
        Some(entry)
    }

    /// Writes a session's row in the session's transaction.
    pub fn record(
        &self,
        transaction: &Transaction,
        client: ClientId,
        answer: &LastAnswer,
    ) -> Result<(), Error> {
        let Some(table) = &self.table else { return Ok(()) };
        let row = postcard::to_stdvec(answer).map_err(|_| Error::Internal("an answer cannot be encoded"))?;
        transaction.put(table, client.0.to_be_bytes(), row)
    }

    /// Removes a session. The caller holds the lock of its entry.
    pub fn forget(&self, database: &Database, client: ClientId, entry: &mut Entry) -> Result<(), Error> {
        if let Some(table) = self.table.as_ref().filter(|_| entry.last.is_some()) {
            database.transact(|transaction| transaction.delete(table, client.0.to_be_bytes()))?;
        }
        *entry = Entry { ended: true, ..Entry::default() };
        self.sessions.lock().remove(&client);
        Ok(())
    }
}
