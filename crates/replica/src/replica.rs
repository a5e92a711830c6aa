//! The handle of a replica.
//!
//! Any thread. The group, the transport and the engine run on a runtime of the replica's own, so the handle is used the same inside and outside of programs with a runtime. Closing ends
//! the group first, then what it writes to.

use crate::certifier::{Certifier, Refusal};
use crate::error::{Error, Result};
use crate::freshness::Freshness;
use crate::ids::{ReplicaId, RequestId};
use crate::machine::Machine;
use crate::options::{ReplicaOptions, Replicated, WriteOptions};
use crate::peer::{Links, Peers};
use crate::server::{Service, serve};
use crate::store::{Identity, Store};
use crate::transaction::{ReadView, Transaction};
use crate::types::{Applied, Request, Types};
use crate::write_set::WriteSet;
use crate::writing::{
    Answer, CONFLICT_WAIT, Committed, Outcome, Queue, Waiting, Written, committed, propose, queue,
};
use katydid_raft_log::RaftLog;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::{BasicNode, Raft, ReadPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// How often a transaction runs again after conflicts.
const TRIES: u32 = 100;

/// A replica of a database that is open. Clones share it. It is closed by [`Replica::close`], or when the last clone is dropped.
#[derive(Clone)]
pub struct Replica {
    shared: Arc<Shared>,
    /// Closes with the last handle. Tasks hold `shared` alone, so the end never falls to one of them.
    _closer: Arc<Closer>,
}

struct Closer(Arc<Shared>);

struct Shared {
    waiting: Waiting,
    store: Arc<Store>,
    log: RaftLog<Types>,
    freshness: Arc<Freshness>,
    /// Certifier of the latest leadership of this replica.
    certifier: Mutex<Option<Arc<Certifier>>>,
    queue: Queue,
    permits: Arc<Semaphore>,
    address: String,
    server: tokio::task::JoinHandle<()>,
    handle: Handle,
    /// `None` once it is closed.
    runtime: Mutex<Option<Runtime>>,
}

/// State of a replica and of its group, as the replica knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The replica.
    pub id: ReplicaId,
    /// Term of the replica.
    pub term: u64,
    /// The leader, where known.
    pub leader: Option<ReplicaId>,
    /// Index of the last entry of its Raft log.
    pub last_index: u64,
    /// Index of the last entry that is applied.
    pub applied: u64,
    /// Index of the last entry that is purged from its log.
    pub purged: u64,
    /// Voters of the group.
    pub voters: BTreeSet<ReplicaId>,
    /// All members and their addresses.
    pub members: BTreeMap<ReplicaId, String>,
    /// At the leader: up to which index each member has the log on its device.
    pub matched: BTreeMap<ReplicaId, u64>,
    /// The failure that stopped the replica.
    pub stopped: Option<String>,
}

/// A write on its way, as a future. Dropping it does not change the outcome.
#[derive(Debug)]
pub struct WriteFuture(oneshot::Receiver<Result<Committed>>);

impl Future for WriteFuture {
    type Output = Result<Committed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|told| told.unwrap_or(Err(Error::Closed)))
    }
}

impl Replica {
    /// Opens the replica in its folder, and takes part in its group from then on. A new replica waits until it is added to a group, or [`Replica::initialize`] makes one.
    ///
    /// # Errors
    /// [`Error::Option`], [`Error::Identity`], [`Error::Engine`], [`Error::Log`], [`Error::Io`], and [`Error::Stopped`] if log and state do not belong together.
    pub fn open(options: ReplicaOptions) -> Result<Replica> {
        options.validate()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name(format!("katydid-replica-{}", options.id))
            .enable_all()
            .build()
            .map_err(|error| Error::io("the runtime of the replica", error))?;
        let handle = runtime.handle().clone();
        match run(&handle, Self::start(options, handle.clone())) {
            Ok(shared) => {
                *shared.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
                let shared = Arc::new(shared);
                Ok(Replica { _closer: Arc::new(Closer(shared.clone())), shared })
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    async fn start(options: ReplicaOptions, handle: Handle) -> Result<Shared> {
        let group = Arc::new(options.group()?);
        let identity = Identity { cluster: options.cluster, replica: options.id };
        let io = |error| Error::io(options.folder.display().to_string(), error);
        std::fs::create_dir_all(&options.folder).map_err(io)?;
        let store = Store::open(&options.folder.join("state"), options.engine.clone(), identity)?;
        let store = Arc::new(store);
        let log = RaftLog::open(options.folder.join("log"), options.log.clone())?;
        let listening = options.transport.listen(&options.address).await;
        let listener = listening.map_err(|error| Error::io(options.address.clone(), error))?;
        let address = listener.address();
        let links = Arc::new(Links {
            transport: options.transport.clone(),
            identity,
            patience: options.election,
            install_patience: options.install_wait,
            raft: OnceLock::new(),
        });
        let machine = Machine::new(store.clone())?;
        let raft = Raft::new(options.id, group, Peers(links.clone()), log.clone(), machine).await;
        let raft = raft.map_err(|fatal| Error::Stopped { reason: fatal.to_string() })?;
        links.raft.get_or_init(|| raft.clone());
        let freshness = Arc::new(Freshness::default());
        let service =
            Service { raft: raft.clone(), store: store.clone(), identity, freshness: freshness.clone() };
        let server = tokio::spawn(serve(listener, Arc::new(service)));
        let (queue, queued) = mpsc::unbounded_channel();
        tokio::spawn(propose(raft.clone(), queued));
        Ok(Shared {
            waiting: Waiting { raft, replica: options.id },
            store,
            log,
            freshness,
            certifier: Mutex::default(),
            queue,
            permits: Arc::new(Semaphore::new(options.in_flight_max)),
            address,
            server,
            handle,
            runtime: Mutex::default(),
        })
    }

    /// Address at which this replica takes connections.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Makes a group of these members, numbers and addresses, this replica among them. To be called once, at one of them; the others are open with empty folders.
    ///
    /// # Errors
    /// [`Error::Members`] if the replica belongs to a group already.
    pub fn initialize(&self, members: &BTreeMap<ReplicaId, String>) -> Result<()> {
        let nodes: BTreeMap<_, _> =
            members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
        let raft = self.raft().clone();
        self.run(async move { raft.initialize(nodes).await.map_err(members_failed) })
    }

    /// Adds a member that does not vote, and waits until it has the log. Then [`Replica::change_voters`] may make it a voter.
    ///
    /// # Errors
    /// [`Error::Members`], also at a replica that is not the leader.
    pub fn add_learner(&self, id: ReplicaId, address: &str) -> Result<()> {
        let (raft, node) = (self.raft().clone(), BasicNode::new(address));
        self.run(async move { raft.add_learner(id, node, true).await.map(drop).map_err(members_failed) })
    }

    /// Makes these members the voters, in two steps that each need a majority (joint consensus). Former voters that are not among them leave the group.
    ///
    /// # Errors
    /// [`Error::Members`], also at a replica that is not the leader.
    pub fn change_voters(&self, voters: &BTreeSet<ReplicaId>) -> Result<()> {
        let (raft, voters) = (self.raft().clone(), voters.clone());
        self.run(async move { raft.change_membership(voters, false).await.map(drop).map_err(members_failed) })
    }

    /// Asks another voter to lead, and returns at once. It leads when it has the whole log. Nothing changes if the voter leads already, or this replica does not.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn transfer_leader(&self, to: ReplicaId) -> Result<()> {
        if to == self.shared.waiting.replica {
            // openraft would refuse writes until the transfer ends, which never happens.
            return Ok(());
        }
        let raft = self.raft().clone();
        self.run(async move { raft.trigger().transfer_leader(to).await.map_err(stopped) })
    }

    /// Syncs the engine, and lets the Raft log be purged up to here but for [`ReplicaOptions::kept_entries`]. It happens by itself every
    /// [`ReplicaOptions::snapshot_entries`]. Returns before it is done.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn snapshot(&self) -> Result<()> {
        let raft = self.raft().clone();
        self.run(async move { raft.trigger().snapshot().await.map_err(stopped) })
    }

    /// Opens a session for a client, whose number it returns. All replicas remember it, until 4,096 others were used later.
    ///
    /// # Errors
    /// [`Error::NotLeader`], [`Error::NoQuorum`], [`Error::Stopped`], [`Error::Closed`]. After [`Error::NoQuorum`] a session may have been opened; open another.
    pub fn open_client(&self) -> Result<u64> {
        match self.control(Request::OpenClient, None)? {
            Applied::Client(client) => Ok(client),
            other => Err(Error::Stopped { reason: format!("opening a client was answered by {other}") }),
        }
    }

    /// The outcome of a request. If it has none yet it is cancelled: it will not commit later, either.
    ///
    /// # Errors
    /// [`Error::UnknownClient`] and [`Error::TooOld`] if the replicas have forgotten; [`Error::Unknown`] if the question itself did not commit: ask again.
    /// [`Error::NotLeader`], [`Error::NoQuorum`], [`Error::Stopped`], [`Error::Closed`].
    pub fn resolve(&self, id: RequestId) -> Result<Outcome> {
        match self.control(Request::Cancel { id }, Some(id))? {
            Applied::Written => Ok(Outcome::Committed),
            Applied::UnknownClient => Err(Error::UnknownClient { id }),
            Applied::TooOld => Err(Error::TooOld { id }),
            _ => Ok(Outcome::NotCommitted),
        }
    }

    /// Commits an entry that writes no keys.
    fn control(&self, request: Request, id: Option<RequestId>) -> Result<Applied> {
        let shared = self.shared.clone();
        self.run(async move {
            let certifier = shared.certifier(WriteOptions::default().wait).await?;
            let written = shared.queue(&certifier, request, &WriteSet::default());
            let (told, answer) = oneshot::channel();
            let tell = move |outcome| drop(told.send(outcome));
            shared.waiting.clone().follow(written, id, WriteOptions::default(), None, tell).await;
            Ok(answer.await.map_err(|_| Error::Closed)??.0)
        })
    }

    /// Writes without reading: all of the set or nothing, in the order of the log. Returns when it is acknowledged.
    ///
    /// # Errors
    /// Those of [`Replica::write_with`].
    pub fn write(&self, id: RequestId, set: WriteSet, options: WriteOptions) -> Result<Committed> {
        let (told, answer) = std::sync::mpsc::channel();
        self.write_with(id, set, options, move |outcome| drop(told.send(outcome)));
        answer.recv().unwrap_or(Err(Error::Closed))
    }

    /// Writes as [`Replica::write`] does, as a future, which any executor may poll.
    pub fn write_async(&self, id: RequestId, set: WriteSet, options: WriteOptions) -> WriteFuture {
        let (told, answer) = oneshot::channel();
        self.write_with(id, set, options, move |outcome| drop(told.send(outcome)));
        WriteFuture(answer)
    }

    /// Writes as [`Replica::write`] does, and calls `done` with the outcome, on a thread of the replica, which `done` must not block. Writes that are in flight at once have no order.
    ///
    /// # Errors
    /// `done` is given them. Nothing was written: [`Error::Inadmissible`], [`Error::NotLeader`], [`Error::NoQuorum`], [`Error::Cancelled`]. Nothing was written now, and replicas have
    /// forgotten about before: [`Error::UnknownClient`], [`Error::TooOld`]. [`Error::Unknown`]. `done` is dropped if the replica is closed meanwhile.
    pub fn write_with(
        &self,
        id: RequestId,
        set: WriteSet,
        options: WriteOptions,
        done: impl FnOnce(Result<Committed>) + Send + 'static,
    ) {
        let shared = self.shared.clone();
        self.shared.handle.spawn(async move {
            let prepared = async {
                set.check()?;
                let certifier = shared.certifier(options.wait).await?;
                let permit = shared.permit(options.wait).await?;
                Ok((certifier, permit))
            };
            let (certifier, permit) = match prepared.await {
                Ok(prepared) => prepared,
                Err(error) => return done(Err(error)),
            };
            let mut written = None;
            certifier.propose(&set.clone(), |number| {
                let answer = shared.enqueue(&certifier, Request::Write { id, set });
                written = Some(Written { certifier: certifier.clone(), number, answer });
            });
            let Some(written) = written else { return };
            let waiting = shared.waiting.clone();
            // What is open must not stay so for a write that waits.
            drop(shared);
            let tell = move |outcome| done(committed(id, outcome));
            waiting.follow(written, Some(id), options, Some(permit), tell).await;
        });
    }

    /// Runs a transaction at the leader. `body` reads the applied state, and its writes commit if what it has read has not changed before its place in the log; otherwise it runs
    /// again. Transactions are serializable, in the order of the log, which is also the order in which they are acknowledged. A body that writes nothing commits nothing, and what it has read was current when it began or later.
    ///
    /// A retry with the same id, after [`Error::Unknown`], runs the body again, and its writes are dropped if those of an earlier try were applied.
    ///
    /// # Errors
    /// The error of `body`. Those of [`Replica::write_with`], and [`Error::Conflict`].
    pub fn transact<T, E: From<Error>>(
        &self,
        id: RequestId,
        options: WriteOptions,
        mut body: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        for _ in 0..TRIES {
            let shared = self.shared.clone();
            let certifier = self.run(async move { shared.certifier(options.wait).await })?;
            let guard = certifier.view();
            let view = self.shared.store.view()?;
            let index = view.applied.index();
            let transaction = Transaction::new(view);
            let ran = body(&transaction);
            let (reads, set) = transaction.end();
            let value = match ran {
                Ok(value) if !set.writes.is_empty() => value,
                ran => {
                    // What was read, also by a body that fails, was the leader's state if it leads still.
                    self.confirm(&certifier, options.wait)?;
                    return ran.map(|value| Committed { value, index, reached: Replicated::Quorum });
                }
            };
            set.check()?;
            let shared = self.shared.clone();
            let permit = self.run(async move { shared.permit(options.wait).await })?;
            let mut answer = None;
            let request = Request::Write { id, set: set.clone() };
            let certified = certifier.certify(index, &reads, &set, |number| {
                answer = Some((number, self.shared.enqueue(&certifier, request)));
            });
            drop(guard);
            match (certified, answer) {
                (Ok(()), Some((number, answer))) => {
                    let written = Written { certifier, number, answer };
                    let (told, outcome) = std::sync::mpsc::channel();
                    let tell = move |answer| drop(told.send(committed(id, answer)));
                    let waiting = self.shared.waiting.clone();
                    self.shared.handle.spawn(waiting.follow(written, Some(id), options, Some(permit), tell));
                    let Committed { index, reached, .. } = outcome.recv().unwrap_or(Err(Error::Closed))?;
                    return Ok(Committed { value, index, reached });
                }
                (Err(Refusal::Conflict(number)), _) => certifier.wait(number, CONFLICT_WAIT),
                _ => {}
            }
        }
        Err(Error::Conflict { tries: TRIES }.into())
    }

    /// Reads at the leader: the state that `body` sees has every write that was acknowledged before the call, by any replica. The leader confirms by a majority that it leads.
    ///
    /// # Errors
    /// The error of `body`; [`Error::NotLeader`], [`Error::NoQuorum`], [`Error::Engine`], [`Error::Stopped`], [`Error::Closed`].
    pub fn read<T, E: From<Error>>(&self, body: impl FnOnce(&ReadView) -> Result<T, E>) -> Result<T, E> {
        let (raft, waiting) = (self.raft().clone(), self.shared.waiting.clone());
        self.run(async move {
            let linearizer = raft.get_read_linearizer(ReadPolicy::ReadIndex).await;
            let linearizer = linearizer.map_err(|error| read_failed(&waiting, error))?;
            linearizer.await_ready(&raft).await.map_err(stopped)
        })?;
        body(&ReadView::new(self.shared.store.view()?))
    }

    /// Reads at any replica, without asking another: a state that was current, as far as this replica knows, at most `max` before the call. The age is that of the leader's last word, and does not
    /// include the time that the word travelled. At the leader use [`Replica::read`].
    ///
    /// # Errors
    /// The error of `body`; [`Error::TooStale`], [`Error::Engine`], [`Error::Closed`].
    pub fn read_stale<T, E: From<Error>>(
        &self,
        max: Duration,
        body: impl FnOnce(&ReadView) -> Result<T, E>,
    ) -> Result<T, E> {
        let view = self.shared.store.view()?;
        let age = self.shared.freshness.age(Instant::now(), view.applied.index());
        if age.is_none_or(|age| age > max) {
            return Err(Error::TooStale { age, max }.into());
        }
        body(&ReadView::new(view))
    }

    /// Reads at any replica the state that it has applied, however old that is.
    ///
    /// # Errors
    /// The error of `body`; [`Error::Engine`], also if a snapshot took the place of the state meanwhile; read again then.
    pub fn read_applied<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&ReadView) -> Result<T, E>,
    ) -> Result<T, E> {
        body(&ReadView::new(self.shared.store.view()?))
    }

    /// State of the replica now.
    pub fn status(&self) -> Status {
        status_of(&self.raft().metrics().borrow_watched())
    }

    /// Waits, for at most `wait`, until the status is as wanted; the last status.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] if it was not in time, [`Error::Closed`].
    pub fn wait_until(
        &self,
        wait: Duration,
        wanted: impl Fn(&Status) -> bool + Send + 'static,
    ) -> Result<Status> {
        let (mut metrics, replica) = (self.raft().metrics(), self.shared.waiting.replica);
        self.run(async move {
            let deadline = tokio::time::Instant::now() + wait;
            loop {
                let status = status_of(&metrics.borrow_and_update());
                if wanted(&status) {
                    return Ok(status);
                }
                match tokio::time::timeout_at(deadline, metrics.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(Error::Closed),
                    Err(_) => {
                        let reason =
                            format!("the state waited for did not come within {} ms", wait.as_millis());
                        return Err(Error::NoQuorum { replica, reason });
                    }
                }
            }
        })
    }

    /// Leaves the group as a replica that stops does, and closes log and engine. Writes in flight have an unknown outcome. Later calls fail.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Engine`].
    pub fn close(&self) -> Result<()> {
        self.shared.close()
    }

    fn raft(&self) -> &Raft<Types, Machine> {
        &self.shared.waiting.raft
    }

    /// Runs a step on the runtime, and waits for it.
    fn run<T: Send + 'static>(&self, step: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        if self.shared.runtime.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Err(Error::Closed);
        }
        run(&self.shared.handle, step)
    }

    /// Confirms by a majority that the leadership goes on.
    fn confirm(&self, certifier: &Certifier, wait: Duration) -> Result<()> {
        let (raft, waiting, leadership) =
            (self.raft().clone(), self.shared.waiting.clone(), *certifier.leadership());
        self.run(async move {
            let confirmed = tokio::time::timeout(wait, raft.get_read_linearizer(ReadPolicy::ReadIndex)).await;
            let no_quorum =
                |reason: &str| Error::NoQuorum { replica: waiting.replica, reason: reason.to_owned() };
            let linearizer = confirmed.map_err(|_| no_quorum("a majority did not answer in time"))?;
            let linearizer = linearizer.map_err(|error| read_failed(&waiting, error))?;
            match linearizer.read_log_id().log_id().leader_id == leadership {
                true => Ok(()),
                false => Err(no_quorum("its leadership has ended, and another has begun")),
            }
        })
    }
}

impl Shared {
    async fn permit(&self, wait: Duration) -> Result<OwnedSemaphorePermit> {
        let replica = self.waiting.replica;
        match tokio::time::timeout(wait, self.permits.clone().acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Error::Closed),
            Err(_) => Err(Error::NoQuorum { replica, reason: "too many writes are in flight".to_owned() }),
        }
    }

    fn enqueue(&self, certifier: &Certifier, request: Request) -> Answer {
        queue(&self.queue, request, *certifier.leadership())
    }

    fn queue(&self, certifier: &Arc<Certifier>, request: Request, set: &WriteSet) -> Written {
        let mut given = None;
        certifier.propose(set, |number| given = Some((number, self.enqueue(certifier, request))));
        let (number, answer) = given.expect("propose hands over");
        Written { certifier: certifier.clone(), number, answer }
    }

    /// The certifier of this replica's leadership.
    async fn certifier(&self, wait: Duration) -> Result<Arc<Certifier>> {
        let (raft, waiting) = (&self.waiting.raft, &self.waiting);
        let replica = waiting.replica;
        loop {
            let leader = raft.as_leader().map_err(|forward| waiting.not_leader(forward))?;
            let leadership = leader.to_committed_leader_id();
            {
                let certifier = self.certifier.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(certifier) = certifier.as_ref().filter(|of| *of.leadership() == leadership) {
                    return Ok(certifier.clone());
                }
            }
            // The first write of a leadership: everything before its first entry must be applied.
            let linearizer = raft.get_read_linearizer(ReadPolicy::ReadIndex).await;
            let linearizer = linearizer.map_err(|error| read_failed(waiting, error))?;
            let ready = linearizer.try_await_ready(raft, Some(wait)).await.map_err(stopped)?;
            let Ok(ready) = ready else {
                let reason = "the log before its leadership is not applied yet".to_owned();
                return Err(Error::NoQuorum { replica, reason });
            };
            let read = ready.read_log_id().log_id();
            if read.leader_id != leadership {
                continue;
            }
            let mut certifier = self.certifier.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(certifier) = certifier.as_ref().filter(|of| *of.leadership() == leadership) {
                return Ok(certifier.clone());
            }
            return Ok(certifier.insert(Arc::new(Certifier::new(leadership, read.index))).clone());
        }
    }

    fn close(&self) -> Result<()> {
        let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        self.server.abort();
        let raft = self.waiting.raft.clone();
        // A task that has panicked has stopped.
        let _stopped = run(&self.handle, async move { Ok(raft.shutdown().await.is_ok()) });
        let log = self.log.close();
        let store = self.store.close();
        runtime.shutdown_background();
        log?;
        store
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        // What could not be made durable was not acknowledged.
        let _closed = self.0.close();
    }
}

/// Runs a step on a runtime and waits for it, on a thread that may belong to any runtime.
fn run<T: Send + 'static>(
    handle: &Handle,
    step: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (told, outcome) = std::sync::mpsc::channel();
    handle.spawn(async move { drop(told.send(step.await)) });
    outcome.recv().unwrap_or(Err(Error::Closed))
}

fn stopped(fatal: impl fmt::Display) -> Error {
    Error::Stopped { reason: fatal.to_string() }
}

fn members_failed(error: impl fmt::Display) -> Error {
    Error::Members { reason: error.to_string() }
}

fn read_failed(waiting: &Waiting, error: RaftError<Types, LinearizableReadError<Types>>) -> Error {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => waiting.not_leader(forward),
        RaftError::APIError(error) => Error::NoQuorum { replica: waiting.replica, reason: error.to_string() },
        RaftError::Fatal(fatal) => stopped(fatal),
    }
}

fn status_of(metrics: &openraft::RaftMetrics<Types>) -> Status {
    let index = |id: Option<crate::types::LogId>| id.map_or(0, |id| id.index);
    let membership = metrics.membership_config.membership();
    let matched = metrics.replication.iter().flatten().map(|(id, matched)| (*id, index(*matched)));
    Status {
        id: metrics.id,
        term: metrics.current_term,
        leader: metrics.current_leader,
        last_index: metrics.last_log_index.unwrap_or(0),
        applied: index(metrics.last_applied),
        purged: index(metrics.purged),
        voters: membership.voter_ids().collect(),
        members: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
        matched: matched.collect(),
        stopped: metrics.running_state.as_ref().err().map(ToString::to_string),
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("id", &self.shared.waiting.replica)
            .field("address", &self.shared.address)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Purpose;
    use crate::peer::LinkError;
    use crate::transport::Tcp;

    #[test]
    fn strangers_are_refused_in_the_handshake() {
        let folder = tempfile::tempdir().expect("a folder");
        let replica =
            Replica::open(ReplicaOptions::new(folder.path(), [1; 16], 7, "127.0.0.1:0")).expect("open");
        let connect = |cluster, to| {
            let links = Links {
                transport: Arc::new(Tcp),
                identity: Identity { cluster, replica: 8 },
                patience: Duration::from_secs(60),
                install_patience: Duration::from_secs(60),
                raft: OnceLock::new(),
            };
            let address = replica.address().to_owned();
            replica
                .run(async move { Ok(links.connect(to, &address, Purpose::Calls).await.map(drop)) })
                .expect("it ran")
        };
        assert!(matches!(connect([2; 16], 7), Err(LinkError::Refused(_))), "another cluster");
        assert!(matches!(connect([1; 16], 6), Err(LinkError::Refused(_))), "another addressee");
        assert!(connect([1; 16], 7).is_ok());
        replica.close().expect("close");
    }
}
