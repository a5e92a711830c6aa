//! A client of a group in another process.
//!
//! Any thread may use a client. The client has a runtime of one thread for its connections; a call
//! blocks the calling thread. Calls of several threads run in parallel, on one connection to each
//! replica.

use crate::caller::{Caller, Rows, done, range, rows};
use crate::client_message::{ClientCall, ReadAt};
use crate::error::{Error, Result, UnknownReason};
use crate::ids::{ReplicaId, RequestId};
use crate::options::WriteOptions;
use crate::runtime::is_thread_of;
use crate::status::Status;
use crate::transport::{Tcp, Transport};
use crate::write_set::WriteSet;
use crate::writing::{Committed, Outcome, PendingCallback};
use katydid::KeyRange;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Options for a client. Take [`ClientOptions::new`] and change what you need.
#[derive(Clone)]
pub struct ClientOptions {
    /// Addresses of replicas. The address of one running replica is enough, because it names the
    /// leader.
    pub addresses: Vec<String>,
    /// Id of the cluster. Replicas of other clusters are refused. Default: none, which accepts any
    /// cluster.
    pub cluster: Option<[u8; 16]>,
    /// Transport of the connections. Default: [`Tcp`], without encryption.
    pub transport: Arc<dyn Transport>,
    /// Time after which the client stops waiting for a replica's answer and sends the call to
    /// another replica. Default: 3 s.
    pub patience: Duration,
    /// Time after which a call other than a write fails. Default: 10 s. A write has
    /// [`WriteOptions::wait`] instead.
    pub wait: Duration,
}

impl ClientOptions {
    /// Makes the default options, for replicas at these addresses.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        ClientOptions {
            addresses: addresses.into_iter().map(Into::into).collect(),
            cluster: None,
            transport: Arc::new(Tcp),
            patience: Duration::from_secs(3),
            wait: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// A client of a group whose replicas run in other processes. A call finds the leader, and goes on
/// at the new leader when the old one fails. Clones share the connections.
///
/// Each call has the meaning of the call of [`Replica`](crate::Replica) with the same name. The
/// client sends a write again under the same id until a replica answers or the time is over; the
/// group applies the write once. In a callback of [`Client::write_with`], each call that waits for
/// a replica fails with [`Error::InCallback`].
///
/// ```no_run
/// use katydid_replica::{Client, ClientOptions, ReadAt, RequestId, WriteOptions, WriteSet};
/// # fn main() -> katydid_replica::Result<()> {
/// let client = Client::new(ClientOptions::new(["10.0.0.1:7101", "10.0.0.2:7101", "10.0.0.3:7101"]))?;
/// let session = client.open_client()?;
/// let set = WriteSet::default().put("stock", "apples", "12");
/// client.write(RequestId { client: session, sequence: 1 }, set, WriteOptions::default())?;
/// assert_eq!(client.get("stock", "apples", ReadAt::Leader)?, Some(b"12".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    caller: Arc<Caller>,
    addresses: Vec<String>,
    wait: Duration,
    /// `None` while the client is being dropped.
    runtime: Option<Runtime>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Makes a client. The client connects at its first call.
    ///
    /// # Errors
    /// [`Error::Option`] if no address is given; [`Error::Io`] if the system cannot start the
    /// client's thread.
    pub fn new(options: ClientOptions) -> Result<Client> {
        if options.addresses.is_empty() {
            let reason = "must name at least one replica".to_owned();
            return Err(Error::Option { option: "addresses", reason });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("katydid-client")
            .enable_all()
            .build()
            .map_err(|error| Error::io("the runtime of the client", error))?;
        let addresses = options.addresses.clone();
        let caller = Caller::new(options.addresses, options.cluster, options.transport, options.patience);
        let (caller, wait) = (Arc::new(caller), options.wait);
        Ok(Client { shared: Arc::new(Shared { caller, addresses, wait, runtime: Some(runtime) }) })
    }

    /// Runs a step on the client's runtime, and waits until the step has ended. The calling thread
    /// may belong to any runtime.
    fn run<T, F>(&self, step: impl FnOnce(Arc<Caller>, Duration) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let runtime = self.shared.runtime.as_ref().ok_or(Error::Closed)?;
        if is_thread_of(runtime.handle()) {
            return Err(Error::InCallback);
        }
        let (told, outcome) = std::sync::mpsc::channel();
        let step = step(self.shared.caller.clone(), self.shared.wait);
        runtime.spawn(async move { drop(told.send(step.await)) });
        outcome.recv().unwrap_or(Err(Error::Closed))
    }

    /// Returns the addresses that the client was made with.
    pub fn addresses(&self) -> &[String] {
        &self.shared.addresses
    }

    /// Returns the state of the replica at `address`, and of the group as that replica knows it.
    ///
    /// # Errors
    /// [`Error::Io`] if the replica does not answer, or refuses the client.
    pub fn status(&self, address: &str) -> Result<Status> {
        let address = address.to_owned();
        self.run(|caller, wait| async move { caller.status(&address, wait).await })
    }

    /// Opens a session, and returns its number: see
    /// [`Replica::open_client`](crate::Replica::open_client).
    ///
    /// # Errors
    /// [`Error::Io`] at once if the replica refuses the client, because it belongs to another
    /// cluster or has another version of the protocol; otherwise the error of the last try when
    /// [`ClientOptions::wait`] is over. Each try may have opened a session.
    pub fn open_client(&self) -> Result<u64> {
        self.run(|caller, wait| async move { caller.open_client(wait).await })
    }

    /// Writes a set, all of it or nothing. Returns when the write is acknowledged.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the write may have committed or may commit later. After any other
    /// error this call has not committed the write. These errors are [`Error::Inadmissible`],
    /// [`Error::Cancelled`], [`Error::UnknownClient`], [`Error::TooOld`], and the error of the last
    /// try.
    pub fn write(&self, id: RequestId, set: WriteSet, options: WriteOptions) -> Result<Committed> {
        self.run(|caller, _| async move { caller.write(id, set, options).await })
    }

    /// Writes like [`Client::write`], and calls `done` with the outcome, on the client's own
    /// thread, which carries out all calls of the client. So `done` must not block. A call of this
    /// client that waits, such as [`Client::write`] or [`Client::get`], fails in `done` with
    /// [`Error::InCallback`]; `write_with` may be called there. If the last clone of the client is
    /// dropped before the answer, the outcome is [`Error::Unknown`].
    pub fn write_with(
        &self,
        id: RequestId,
        set: WriteSet,
        options: WriteOptions,
        done: impl FnOnce(Result<Committed>) + Send + 'static,
    ) {
        let Some(runtime) = &self.shared.runtime else { return done(Err(Error::Closed)) };
        let caller = self.shared.caller.clone();
        let callback = PendingCallback::new(done, Error::Unknown { id, reason: UnknownReason::Stopped });
        runtime.spawn(async move {
            let outcome = caller.write(id, set, options).await;
            callback.call(outcome);
        });
    }

    /// Returns the final outcome of a request: see [`Replica::resolve`](crate::Replica::resolve).
    ///
    /// # Errors
    /// [`Error::UnknownClient`] and [`Error::TooOld`] if the replicas have forgotten the request.
    /// Any other error is that of the last try; call again.
    pub fn resolve(&self, id: RequestId) -> Result<Outcome> {
        self.run(|caller, wait| async move { caller.resolve(id, wait).await })
    }

    /// Returns the value of `key`. A table that does not exist has no keys.
    ///
    /// # Errors
    /// [`Error::Io`] at once if the replica refuses the client, because it belongs to another
    /// cluster or has another version of the protocol; otherwise the error of the last try when
    /// [`ClientOptions::wait`] is over.
    pub fn get(&self, table: &str, key: impl AsRef<[u8]>, at: ReadAt) -> Result<Option<Vec<u8>>> {
        let (table, key) = (table.to_owned(), key.as_ref().to_vec());
        self.run(|caller, wait| async move { caller.get(&table, &key, at, wait).await })
    }

    /// Returns the first rows of a range, in order, of one state: at most `limit` rows, at most
    /// 10,000 rows, and at most about 4 MiB. For further rows, ask for the keys after the last one;
    /// those rows may be of another state.
    ///
    /// # Errors
    /// [`Error::Io`] at once if the replica refuses the client, because it belongs to another
    /// cluster or has another version of the protocol; otherwise the error of the last try when
    /// [`ClientOptions::wait`] is over.
    pub fn range(&self, table: &str, keys: impl KeyRange, limit: u32, at: ReadAt) -> Result<Rows> {
        let (low, high) = keys.into_bounds();
        let call = range(table, low, high, limit, at);
        self.run(|caller, wait| async move { rows(caller.repeat(call, wait).await?) })
    }

    /// Returns the first rows of a range like [`Client::range`], from the replica at `address`.
    ///
    /// # Errors
    /// [`Error::Io`] if the replica does not answer; otherwise the error that the replica answers,
    /// such as [`Error::TooStale`] or [`Error::NotLeader`].
    pub fn range_at(
        &self,
        address: &str,
        table: &str,
        keys: impl KeyRange,
        limit: u32,
        at: ReadAt,
    ) -> Result<Rows> {
        let (low, high) = keys.into_bounds();
        let (call, address) = (range(table, low, high, limit, at), address.to_owned());
        self.run(|caller, wait| async move { rows(caller.call_at(&address, &call, wait).await?) })
    }

    /// Makes a group of these members: see [`Replica::initialize`](crate::Replica::initialize). The
    /// replica at `address` is one of them.
    ///
    /// # Errors
    /// [`Error::Members`] if the group cannot be made, for example because the replica belongs to
    /// one already; [`Error::Io`] if the replica does not answer, or refuses the client.
    pub fn initialize(&self, address: &str, members: &BTreeMap<ReplicaId, String>) -> Result<()> {
        let (call, address) = (ClientCall::Initialize { members: members.clone() }, address.to_owned());
        self.run(|caller, wait| async move { done(&caller.call_at(&address, &call, wait).await?) })
    }

    /// Adds a member that does not vote, and waits for at most `wait` until the member has the log:
    /// see [`Replica::add_learner`](crate::Replica::add_learner).
    ///
    /// # Errors
    /// [`Error::Members`]; otherwise the error of the last try. The member may have been added
    /// despite an error; adding it again does no harm.
    pub fn add_learner(&self, id: ReplicaId, address: &str, wait: Duration) -> Result<()> {
        let call = ClientCall::AddLearner { id, address: address.to_owned() };
        self.run(|caller, _| async move { done(&caller.repeat(call, wait).await?) })
    }

    /// Makes these members the voters: see
    /// [`Replica::change_voters`](crate::Replica::change_voters).
    ///
    /// # Errors
    /// [`Error::Members`]; otherwise the error of the last try. Despite an error the change may
    /// have been made or be under way; asking for it again does no harm.
    pub fn change_voters(&self, voters: &BTreeSet<ReplicaId>) -> Result<()> {
        let call = ClientCall::ChangeVoters { voters: voters.clone() };
        self.run(|caller, wait| async move { done(&caller.repeat(call, wait).await?) })
    }

    /// Asks a voter to lead, and returns at once: see
    /// [`Replica::transfer_leader`](crate::Replica::transfer_leader).
    ///
    /// # Errors
    /// [`Error::Members`] if the member is not a voter; otherwise the error of the last try.
    pub fn transfer_leader(&self, to: ReplicaId) -> Result<()> {
        self.run(|caller, wait| async move {
            done(&caller.repeat(ClientCall::TransferLeader { to }, wait).await?)
        })
    }

    /// Lets the replica at `address` purge its log: see
    /// [`Replica::snapshot`](crate::Replica::snapshot).
    ///
    /// # Errors
    /// [`Error::Io`] if the replica does not answer, or refuses the client; [`Error::Stopped`].
    pub fn snapshot(&self, address: &str) -> Result<()> {
        let address = address.to_owned();
        self.run(
            |caller, wait| async move { done(&caller.call_at(&address, &ClientCall::Snapshot, wait).await?) },
        )
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("addresses", &self.shared.addresses).finish_non_exhaustive()
    }
}
