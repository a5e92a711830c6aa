//! A session of the client library: transactions that are sent to all replicas at once.
//!
//! One thread at a time uses a session. Invariants:
//!
//! 1. The request of a transaction is written to the sockets of all connected replicas before any
//!    answer is read.
//! 2. The keys that a transaction writes are locked, among the sessions of this client's
//!    [`Cluster`](super::Cluster), from before the transaction is sent until its outcome is known.
//!    Replicas and other clients do not see these locks.
//! 3. While the outcome of its last transaction is unknown, a session sends no other transaction.
//!
//! A crash of the client between the answers leaves its last transaction at some, all or none of
//! the replicas. Nothing completes the transaction; a comparison of the replicas finds the
//! difference.

use super::cluster::SharedCluster;
use super::error::{Error, Result};
use super::frame::{self, FrameError};
use super::link::{Link, unexpected};
use super::message::{
    Action, Answer, ClientId, Operation, ReplicaStat, Reply, Request, Row, TableContents, TransactionId,
};
use super::order::{HeldKeys, NotLocked, TableKey};
use super::verdict::{ReplicaAnswer, Verdict, judge};
use std::sync::Arc;
use std::time::Instant;

/// A transaction whose outcome is not known yet.
#[derive(Debug)]
struct Unresolved {
    id: TransactionId,
    frame: Vec<u8>,
    held: HeldKeys,
}

/// An acknowledged transaction: durable at every replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Identity of the transaction.
    pub id: TransactionId,
    /// The values that the transaction's reads found, equal at every replica.
    pub found: Vec<Option<Vec<u8>>>,
}

/// A session of the client library. It sends each transaction to all replicas at once, one
/// transaction after the other.
#[derive(Debug)]
pub struct Session {
    shared: Arc<SharedCluster>,
    client: ClientId,
    links: Vec<Option<Link>>,
    /// Number of the last transaction that was sent; 0 before the first.
    sequence: u64,
    /// Number of the last transaction that was acknowledged; 0 before the first.
    acknowledged: u64,
    unresolved: Option<Unresolved>,
}

impl Session {
    pub(super) fn open(shared: &Arc<SharedCluster>, client: ClientId) -> Result<Session> {
        let links = shared.options.replicas.iter().map(|_| None).collect();
        let shared = Arc::clone(shared);
        let mut session = Session { shared, client, links, sequence: 0, acknowledged: 0, unresolved: None };
        session.connect()?;
        Ok(session)
    }

    /// Returns the identity of the session.
    pub fn id(&self) -> ClientId {
        self.client
    }

    /// Returns the transaction whose outcome is unknown, if there is one.
    pub fn unresolved(&self) -> Option<TransactionId> {
        self.unresolved.as_ref().map(|unresolved| unresolved.id)
    }

    /// Runs the operations as one transaction at every replica, in one message to each.
    ///
    /// # Errors
    /// [`Error::Refused`]: no replica has the transaction. [`Error::Unknown`]: some replicas may
    /// have it; call [`Session::resolve`] next. [`Error::Diverged`]: some replicas have it and
    /// others never will, or its reads found unequal values. After any other error nothing was
    /// sent.
    pub fn transact(&mut self, operations: Vec<Operation>) -> Result<Committed> {
        let mut draft = self.begin()?;
        let mut keys: Vec<TableKey> = operations
            .iter()
            .filter(|operation| operation.action.writes())
            .map(|operation| (operation.table.clone(), operation.key.clone()))
            .collect();
        keys.sort();
        keys.dedup();
        for (table, key) in keys {
            draft.lock(&table, &key)?;
        }
        for operation in operations {
            draft.add(operation)?;
        }
        draft.commit()
    }

    /// Begins a transaction. Its operations are collected at the client, and sent when it commits.
    ///
    /// # Errors
    /// [`Error::Unresolved`]; [`Error::Replica`] or [`Error::ReplicaBehind`] if a lost connection
    /// cannot be made again.
    pub fn begin(&mut self) -> Result<Draft<'_>> {
        if let Some(unresolved) = &self.unresolved {
            return Err(Error::Unresolved { id: unresolved.id });
        }
        self.connect()?;
        let held = HeldKeys::none(&self.shared.locks);
        Ok(Draft { session: self, held, operations: Vec::new() })
    }

    /// Sends the unresolved transaction to all replicas again. Replicas that have committed the
    /// transaction answer from their tables; the others run it. Returns `None` if there is no such
    /// transaction.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Diverged`], as from [`Session::transact`].
    /// [`Error::Unknown`] or [`Error::ReplicaBehind`] if the outcome is still unknown.
    pub fn resolve(&mut self) -> Result<Option<Committed>> {
        let Some(Unresolved { id, frame, held }) = self.unresolved.take() else { return Ok(None) };
        if let Err(error) = self.connect() {
            let answers = vec![ReplicaAnswer::Missing(error.to_string()); self.links.len()];
            self.unresolved = Some(Unresolved { id, frame, held });
            return match error {
                Error::ReplicaBehind { .. } => Err(error),
                _ => Err(Error::Unknown { id, answers }),
            };
        }
        self.send(id, frame, held).map(Some)
    }

    /// Returns the value of a key at replica number [`Session::reads_at`]. The read is not part of
    /// a transaction: it may return a write that is not acknowledged yet.
    ///
    /// # Errors
    /// [`Error::Replica`], [`Error::ReplicaBehind`], [`Error::Unserved`].
    pub fn read(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let replica = self.reads_at();
        let request = Request::Read { table: table.to_owned(), key: key.to_vec() };
        match self.call(replica, &request)? {
            Reply::Value(value) => Ok(value),
            other => Err(self.failed(replica, unexpected(&other))),
        }
    }

    /// Returns the number of the replica at which this session reads. The session's id chooses the
    /// replica, so sessions are spread over all replicas.
    pub fn reads_at(&self) -> usize {
        (self.client.0 % self.links.len() as u128) as usize
    }

    /// Returns a page of rows of a table at one replica: at most `limit` rows after the key `after`
    /// and before the key `before`, where given. A page may have fewer rows; only an empty page
    /// means the end.
    ///
    /// # Errors
    /// [`Error::Replica`], [`Error::ReplicaBehind`], [`Error::Unserved`].
    pub fn rows(
        &mut self,
        replica: usize,
        table: &str,
        after: Option<Vec<u8>>,
        before: Option<Vec<u8>>,
        limit: u32,
    ) -> Result<Vec<Row>> {
        match self.call(replica, &Request::Rows { table: table.to_owned(), after, before, limit })? {
            Reply::Rows(rows) => Ok(rows),
            other => Err(self.failed(replica, unexpected(&other))),
        }
    }

    /// Returns the numbers of rows and the checksums of the tables of one replica.
    ///
    /// # Errors
    /// [`Error::Replica`], [`Error::ReplicaBehind`], [`Error::Unserved`].
    pub fn contents(&mut self, replica: usize) -> Result<Vec<TableContents>> {
        match self.call(replica, &Request::Contents)? {
            Reply::Contents(contents) => Ok(contents),
            other => Err(self.failed(replica, unexpected(&other))),
        }
    }

    /// Returns the counters of one replica.
    ///
    /// # Errors
    /// [`Error::Replica`], [`Error::ReplicaBehind`], [`Error::Unserved`].
    pub fn stat(&mut self, replica: usize) -> Result<ReplicaStat> {
        match self.call(replica, &Request::Stat)? {
            Reply::Stat(stat) => Ok(stat),
            other => Err(self.failed(replica, unexpected(&other))),
        }
    }

    /// Number of replicas.
    pub fn replicas(&self) -> usize {
        self.links.len()
    }

    /// Ends the session. The replicas remove the session's last answer, so its last transaction can
    /// no longer be retried. A session that is dropped without this call keeps its entry in the
    /// replicas' tables.
    ///
    /// # Errors
    /// [`Error::Unresolved`]; [`Error::Replica`], [`Error::ReplicaBehind`] or [`Error::Unserved`]
    /// for the first replica that failed.
    pub fn end(mut self) -> Result<()> {
        if let Some(id) = self.unresolved() {
            return Err(Error::Unresolved { id });
        }
        for replica in 0..self.links.len() {
            match self.call(replica, &Request::Forget)? {
                Reply::Forgotten => {}
                other => return Err(self.failed(replica, unexpected(&other))),
            }
        }
        Ok(())
    }

    /// Makes the missing connections.
    fn connect(&mut self) -> Result<()> {
        for replica in 0..self.links.len() {
            if self.links[replica].is_none() {
                self.connect_to(replica)?;
            }
        }
        Ok(())
    }

    fn connect_to(&mut self, replica: usize) -> Result<()> {
        let options = &self.shared.options;
        let address = options.replicas[replica];
        let opened = Link::open(address, self.client, options.connect_timeout, options.answer_timeout);
        let (link, last) = opened.map_err(|source| Error::Replica { replica, address, source })?;
        if last.unwrap_or(0) < self.acknowledged {
            return Err(Error::ReplicaBehind { replica, address, sequence: self.acknowledged, last });
        }
        self.links[replica] = Some(link);
        Ok(())
    }

    /// Drops the connection to a replica, and returns the error that says so.
    fn failed(&mut self, replica: usize, source: FrameError) -> Error {
        self.links[replica] = None;
        Error::Replica { replica, address: self.shared.options.replicas[replica], source }
    }

    /// Sends one replica a request other than a transaction, and returns the reply.
    fn call(&mut self, replica: usize, request: &Request) -> Result<Reply> {
        if self.links[replica].is_none() {
            self.connect_to(replica)?;
        }
        let Some(link) = &mut self.links[replica] else { return Err(Error::NoReplicas) };
        match link.call(request) {
            Ok(Reply::Unserved(why)) => {
                Err(Error::Unserved { replica, address: self.shared.options.replicas[replica], why })
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.failed(replica, error)),
        }
    }

    /// Sends a transaction to all replicas and waits for their answers.
    fn send(&mut self, id: TransactionId, frame: Vec<u8>, held: HeldKeys) -> Result<Committed> {
        let begun = Instant::now();
        let sent: Vec<_> = self
            .links
            .iter_mut()
            .map(|link| link.as_mut().ok_or(FrameError::Ended).and_then(|link| link.send(&frame)))
            .collect();
        let answers: Vec<Result<Answer, FrameError>> = self
            .links
            .iter_mut()
            .zip(sent)
            .map(|(link, sent)| {
                sent?;
                match link.as_mut().ok_or(FrameError::Ended)?.receive()? {
                    Reply::Answered(answer) if answer.id == id => Ok(answer),
                    other => Err(unexpected(&other)),
                }
            })
            .collect();
        let client_ns = begun.elapsed().as_nanos() as u64;
        let times: Vec<u64> =
            answers.iter().filter_map(|answer| Some(answer.as_ref().ok()?.server_ns)).collect();
        let answers: Vec<ReplicaAnswer> = answers
            .into_iter()
            .enumerate()
            .map(|(replica, answer)| match answer {
                Ok(answer) => answer.outcome.into(),
                Err(error) => {
                    self.links[replica] = None;
                    ReplicaAnswer::Missing(error.to_string())
                }
            })
            .collect();
        match judge(&answers) {
            Verdict::Committed(found) => {
                self.acknowledged = id.sequence;
                let slowest = times.iter().copied().max().unwrap_or_default();
                let mean = times.iter().sum::<u64>() / times.len().max(1) as u64;
                self.shared.times.add(client_ns, slowest, mean);
                drop(held);
                Ok(Committed { id, found })
            }
            Verdict::Refused(refusal) => Err(Error::Refused { id, refusal }),
            Verdict::Diverged => Err(Error::Diverged { id, answers }),
            Verdict::Unknown => {
                held.mark_unknown(id);
                self.unresolved = Some(Unresolved { id, frame, held });
                Err(Error::Unknown { id, answers })
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(unresolved) = self.unresolved.take() {
            unresolved.held.abandon();
        }
    }
}

/// A transaction whose operations are collected at the client. Dropping it discards the operations;
/// none of them was sent.
#[derive(Debug)]
pub struct Draft<'s> {
    session: &'s mut Session,
    held: HeldKeys,
    operations: Vec<Operation>,
}

impl Draft<'_> {
    /// Locks a key, among the sessions of this client's `Cluster`, until the outcome of the
    /// transaction is known or the draft is dropped. Until then no other transaction of these
    /// sessions writes the key.
    ///
    /// # Errors
    /// [`Error::KeyBusy`], [`Error::KeyUnknown`].
    pub fn lock(&mut self, table: &str, key: &[u8]) -> Result<()> {
        self.held.lock((table.to_owned(), key.to_vec())).map_err(|not| match not {
            NotLocked::Busy => Error::KeyBusy,
            NotLocked::Unknown(id) => Error::KeyUnknown { id },
        })
    }

    /// Adds an operation. If the operation writes, its key is locked.
    ///
    /// # Errors
    /// [`Error::KeyBusy`], [`Error::KeyUnknown`].
    pub fn add(&mut self, operation: Operation) -> Result<()> {
        if operation.action.writes() {
            self.lock(&operation.table, &operation.key)?;
        }
        self.operations.push(operation);
        Ok(())
    }

    /// Returns the value of a key at one replica. The operations collected so far have no effect on
    /// the value. If the key was locked before, and only sessions of this client's `Cluster` write
    /// it, the value is that of their last acknowledged write. A transaction that failed with
    /// [`Error::Diverged`] may have left another value.
    ///
    /// # Errors
    /// Those of [`Session::read`].
    pub fn read(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.session.read(table, key)
    }

    /// Returns the action of the last collected operation that writes this key.
    pub fn written(&self, table: &str, key: &[u8]) -> Option<&Action> {
        let of = |operation: &&Operation| {
            operation.action.writes() && operation.table == table && operation.key == key
        };
        self.operations.iter().rev().find(of).map(|operation| &operation.action)
    }

    /// Returns rows like [`Session::rows`], at the replica at which the session reads. The
    /// operations collected so far have no effect on these rows.
    ///
    /// # Errors
    /// Those of [`Session::rows`].
    pub fn rows(
        &mut self,
        table: &str,
        after: Option<Vec<u8>>,
        before: Option<Vec<u8>>,
        limit: u32,
    ) -> Result<Vec<Row>> {
        let replica = self.session.reads_at();
        self.session.rows(replica, table, after, before, limit)
    }

    /// Returns the operations collected so far, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Sends the transaction to all replicas and waits until all have committed it.
    ///
    /// # Errors
    /// Those of [`Session::transact`].
    pub fn commit(self) -> Result<Committed> {
        let Draft { session, held, operations } = self;
        let id = TransactionId { client: session.client, sequence: session.sequence + 1 };
        let frame = frame::encode(&Request::Transact { id, operations }).map_err(Error::TooLong)?;
        session.sequence += 1;
        session.send(id, frame, held)
    }
}
