//! The handle of a replica.
//!
//! Any thread may use the handle. Group, transport and engine run on a runtime that the replica
//! owns, so programs with and without a runtime use the handle in the same way. Closing ends the
//! group first, then the log and the engine.

use crate::certifier::Refusal;
use crate::error::{Error, Result, UnknownReason};
use crate::group::Group;
use crate::ids::{ReplicaId, RequestId};
use crate::options::{ReplicaOptions, WriteOptions};
use crate::place::Folder;
use crate::runtime::{WAIT_MAX, is_thread_of};
use crate::status::Status;
use crate::transaction::{ReadView, Transaction};
use crate::types::Request;
use crate::write_set::WriteSet;
use crate::writing::{CONFLICT_WAIT, Committed, Outcome, PendingCallback, Written, committed};
use openraft::async_runtime::WatchReceiver;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

/// Maximum number of times that a transaction runs if it meets conflicts.
const TRIES: u32 = 100;

/// An open replica of a database. Clones share one replica. [`Replica::close`] closes it, and so
/// does dropping the last clone.
#[derive(Clone)]
pub struct Replica {
    shared: Arc<Shared>,
    /// Closes the replica when the last handle is dropped. The replica's own tasks hold only the
    /// group, but a callback may own the last handle.
    _closer: Arc<Closer>,
}

struct Closer(Arc<Shared>);

struct Shared {
    group: Arc<Group>,
    handle: Handle,
    /// `None` once the replica is closed.
    runtime: Mutex<Option<Runtime>>,
}

/// The outcome of a write in flight, as a future. Dropping it does not change the outcome.
#[derive(Debug)]
pub struct WriteFuture(oneshot::Receiver<Result<Committed>>);

impl Future for WriteFuture {
    type Output = Result<Committed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| outcome.expect(CALLED))
    }
}

/// The callback of a write is called even if the write's task is dropped.
const CALLED: &str = "the callback of the write is called";

impl Replica {
    /// Opens the replica in its folder. From then on the replica takes part in its group. A new
    /// replica waits until it is added to a group, or [`Replica::initialize`] makes a group.
    ///
    /// # Errors
    /// [`Error::Option`], [`Error::Identity`], [`Error::Engine`], [`Error::Row`], [`Error::Log`],
    /// [`Error::Io`], and [`Error::Stopped`] if log and state do not belong together.
    pub fn open(options: ReplicaOptions) -> Result<Replica> {
        options.validate()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name(format!("katydid-replica-{}", options.id))
            .enable_all()
            .build()
            .map_err(|error| Error::io("the runtime of the replica", error))?;
        let handle = runtime.handle().clone();
        let place = Folder { path: options.folder.clone(), log: options.log_directory.clone() };
        let place = Arc::new(place);
        match run(&handle, Group::start(options, place)) {
            Ok(group) => {
                let shared = Arc::new(Shared { group, handle, runtime: Mutex::new(Some(runtime)) });
                Ok(Replica { _closer: Arc::new(Closer(shared.clone())), shared })
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Returns the address at which this replica accepts connections.
    pub fn address(&self) -> &str {
        &self.shared.group.address
    }

    /// Makes a group of these members, given by numbers and addresses; this replica must be among
    /// them. Call it once for a group, at one member, while the other members are open and new.
    ///
    /// # Errors
    /// [`Error::Members`] if the replica belongs to a group already; [`Error::Closed`].
    pub fn initialize(&self, members: &BTreeMap<ReplicaId, String>) -> Result<()> {
        let (group, members) = (self.group(), members.clone());
        self.run(async move { group.initialize(members).await })
    }

    /// Adds a member that does not vote, and waits until the member has the log. After that
    /// [`Replica::change_voters`] can make it a voter. If the replica is a member already, with
    /// another address, this corrects the address. If another change of members is under way, the
    /// call waits for its end, for at most 10 seconds.
    ///
    /// # Errors
    /// [`Error::NotLeader`], [`Error::Members`], [`Error::Stopped`], [`Error::Closed`].
    pub fn add_learner(&self, id: ReplicaId, address: &str) -> Result<()> {
        let (group, address) = (self.group(), address.to_owned());
        self.run(async move { group.add_learner(id, &address).await })
    }

    /// Makes these members the voters, in two steps that each need a majority (joint consensus). A
    /// former voter that is not among them leaves the group. If another change of members is under
    /// way, the call waits for its end, for at most 10 seconds.
    ///
    /// # Errors
    /// [`Error::NotLeader`], [`Error::Members`], [`Error::Stopped`], [`Error::Closed`].
    pub fn change_voters(&self, voters: &BTreeSet<ReplicaId>) -> Result<()> {
        let (group, voters) = (self.group(), voters.clone());
        self.run(async move { group.change_voters(voters).await })
    }

    /// Asks another voter to lead, and returns at once. The voter becomes leader when it has the
    /// whole log. The call does nothing if the voter leads already, or if this replica does not
    /// lead.
    ///
    /// # Errors
    /// [`Error::Members`] if the member is not a voter; [`Error::Stopped`], [`Error::Closed`].
    pub fn transfer_leader(&self, to: ReplicaId) -> Result<()> {
        let group = self.group();
        self.run(async move { group.transfer_leader(to).await })
    }

    /// Asks for a snapshot, and returns at once. A snapshot syncs the engine, and lets the applied
    /// entries of the Raft log be purged except for the last [`ReplicaOptions::kept_entries`]. The
    /// replica makes a snapshot by itself every [`ReplicaOptions::snapshot_entries`] entries.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Closed`].
    pub fn snapshot(&self) -> Result<()> {
        let group = self.group();
        self.run(async move { group.snapshot().await })
    }

    /// Opens a session for a client, and returns its number. The replicas remember the 4,096
    /// sessions that were used last.
    ///
    /// # Errors
    /// [`Error::NotLeader`], [`Error::NoQuorum`], [`Error::Stopped`], [`Error::Closed`]. After
    /// [`Error::NoQuorum`] a session may have been opened; call again for another one.
    pub fn open_client(&self) -> Result<u64> {
        let group = self.group();
        self.run(async move { group.open_client().await })
    }

    /// Returns the outcome of a request. A request without an outcome is cancelled, so that it
    /// never commits.
    ///
    /// # Errors
    /// [`Error::UnknownClient`] and [`Error::TooOld`] if the replicas have forgotten the request.
    /// [`Error::Unknown`] if this call itself did not commit: call it again. [`Error::NotLeader`],
    /// [`Error::NoQuorum`], [`Error::Stopped`], [`Error::Closed`].
    pub fn resolve(&self, id: RequestId) -> Result<Outcome> {
        let group = self.group();
        self.run(async move { group.resolve(id).await })
    }

    /// Writes a set, all of it or nothing, in the order of the log. Returns when the write is
    /// acknowledged.
    ///
    /// # Errors
    /// Those of [`Replica::write_with`].
    pub fn write(&self, id: RequestId, set: WriteSet, options: WriteOptions) -> Result<Committed> {
        self.may_wait()?;
        let (sender, outcome) = std::sync::mpsc::channel();
        self.write_with(id, set, options, move |outcome| drop(sender.send(outcome)));
        outcome.recv().expect(CALLED)
    }

    /// Writes like [`Replica::write`], as a future that any executor may poll. The future returns
    /// the errors of [`Replica::write`].
    pub fn write_async(&self, id: RequestId, set: WriteSet, options: WriteOptions) -> WriteFuture {
        let (sender, outcome) = oneshot::channel();
        self.write_with(id, set, options, move |outcome| drop(sender.send(outcome)));
        WriteFuture(outcome)
    }

    /// Writes like [`Replica::write`], and calls `done` with the outcome on a thread of the
    /// replica, which `done` must not block. A call of this replica that waits for its group, such
    /// as [`Replica::write`] or [`Replica::transact`], fails in `done` with [`Error::InCallback`].
    /// Writes that are in flight at the same time may be applied in any order.
    ///
    /// # Errors
    /// `done` gets the error. If the write has not committed: [`Error::Inadmissible`],
    /// [`Error::NotLeader`], [`Error::NoQuorum`], [`Error::Stopped`], [`Error::Cancelled`]. If this
    /// call has not committed the write, and the replicas have forgotten whether an earlier call
    /// committed it: [`Error::UnknownClient`], [`Error::TooOld`]. If the outcome is not known:
    /// [`Error::Unknown`].
    ///
    /// `done` is called exactly once. If the replica is closed before the outcome, the error is
    /// [`Error::Unknown`] if the write's entry may be in the log, and [`Error::Closed`] otherwise.
    /// A thread of the replica or the closing thread then calls `done`.
    pub fn write_with(
        &self,
        id: RequestId,
        set: WriteSet,
        options: WriteOptions,
        done: impl FnOnce(Result<Committed>) + Send + 'static,
    ) {
        let callback = PendingCallback::new(done, Error::Closed);
        self.shared.handle.spawn(self.group().write(id, set, options, callback));
    }

    /// Runs a transaction at the leader. `body` reads the applied state. The transaction's writes
    /// commit if no entry between that state and the transaction's own entry has changed a key that
    /// the transaction has read; otherwise `body` runs again. Transactions are serializable in the
    /// order of the log, and are acknowledged in that order. A body that writes nothing adds no
    /// entry, and has read a state that was current when it began, or a later one.
    ///
    /// A retry with the same id after [`Error::Unknown`] runs the body again. The replicas drop its
    /// writes if those of an earlier try were applied.
    ///
    /// # Errors
    /// The error of `body`; those of [`Replica::write`]; [`Error::Conflict`]; [`Error::Engine`] or
    /// [`Error::Row`] if the applied state cannot be read.
    pub fn transact<T, E: From<Error>>(
        &self,
        id: RequestId,
        options: WriteOptions,
        mut body: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<Committed<T>, E> {
        for _ in 0..TRIES {
            let group = self.group();
            let certifier = self.run(async move { group.certifier(options.wait).await })?;
            let guard = certifier.view();
            let view = self.shared.group.store.view()?;
            let index = view.applied.index();
            let transaction = Transaction::new(view);
            let ran = body(&transaction);
            let (reads, set) = transaction.end();
            let value = match ran {
                Ok(value) if !set.writes.is_empty() => value,
                ran => {
                    // The reads, even those of a body that failed, are current if this replica
                    // still leads.
                    let group = self.group();
                    self.run(async move { group.confirm(&certifier, options.wait).await })?;
                    return ran.map(|value| Committed { value, index, unconfirmed: BTreeSet::new() });
                }
            };
            set.check()?;
            let group = self.group();
            let permit = self.run(async move { group.permit(options.wait).await })?;
            let mut answer = None;
            let request = Request::Write { id, set: set.clone() };
            let certified = certifier.certify(index, &reads, &set, |number| {
                answer = Some((number, self.shared.group.enqueue(&certifier, request)));
            });
            drop(guard);
            match (certified, answer) {
                (Ok(()), Some((number, answer))) => {
                    let written = Written { certifier, number, answer };
                    let (sender, outcome) = std::sync::mpsc::channel();
                    let unknown = Error::Unknown { id, reason: UnknownReason::Stopped };
                    let callback = PendingCallback::new(move |outcome| drop(sender.send(outcome)), unknown);
                    let tell = move |answer| callback.call(committed(id, answer));
                    let waiting = self.shared.group.waiting.clone();
                    self.shared.handle.spawn(waiting.follow(written, Some(id), options, Some(permit), tell));
                    let Committed { index, unconfirmed, .. } = outcome.recv().expect(CALLED)?;
                    return Ok(Committed { value, index, unconfirmed });
                }
                (Err(Refusal::Conflict(number)), _) => certifier.wait(number, CONFLICT_WAIT),
                _ => {}
            }
        }
        Err(Error::Conflict { tries: TRIES }.into())
    }

    /// Reads at the leader. `body` reads a state with every write that any replica acknowledged
    /// before the call. The leader confirms by a majority that it leads.
    ///
    /// # Errors
    /// The error of `body`; [`Error::NotLeader`], [`Error::NoQuorum`] after at most 10 seconds,
    /// [`Error::Engine`], [`Error::Row`], [`Error::Stopped`], [`Error::Closed`].
    pub fn read<T, E: From<Error>>(&self, body: impl FnOnce(&ReadView) -> Result<T, E>) -> Result<T, E> {
        let group = self.group();
        self.run(async move { group.linearize().await })?;
        body(&ReadView::new(self.shared.group.store.view()?))
    }

    /// Reads at the leader as [`Replica::read`] does, if no replica's clock runs twice as fast as
    /// another's. The leader asks no other replica if a majority has confirmed it recently. See
    /// [`ReadAt::Lease`](crate::ReadAt::Lease).
    ///
    /// # Errors
    /// Those of [`Replica::read`].
    pub fn read_by_lease<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&ReadView) -> Result<T, E>,
    ) -> Result<T, E> {
        let group = self.group();
        self.run(async move { group.linearize_by_lease().await })?;
        body(&ReadView::new(self.shared.group.store.view()?))
    }

    /// Reads at any replica, without asking another one. The state was current at most `max` before
    /// the call, according to the reports of the leader that have arrived. The age does not include
    /// the time that a report travelled. A replica that has just begun to lead refuses the read
    /// until a majority has confirmed that it leads.
    ///
    /// # Errors
    /// The error of `body`; [`Error::TooStale`], [`Error::Engine`], [`Error::Row`].
    pub fn read_stale<T, E: From<Error>>(
        &self,
        max: Duration,
        body: impl FnOnce(&ReadView) -> Result<T, E>,
    ) -> Result<T, E> {
        body(&ReadView::new(self.shared.group.stale_view(max)?))
    }

    /// Reads at any replica the state that it has applied, of any age.
    ///
    /// # Errors
    /// The error of `body`; [`Error::Engine`], [`Error::Row`]. If a snapshot replaced the state
    /// during the read, the error is [`katydid::Error::Closed`] in [`Error::Engine`]; read again.
    pub fn read_applied<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&ReadView) -> Result<T, E>,
    ) -> Result<T, E> {
        body(&ReadView::new(self.shared.group.store.view()?))
    }

    /// Returns the current status of the replica.
    pub fn status(&self) -> Status {
        self.shared.group.status()
    }

    /// Waits for at most `wait` until `wanted` returns true for the status, and returns that
    /// status.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] after a time-out; [`Error::Closed`].
    pub fn wait_until(
        &self,
        wait: Duration,
        wanted: impl Fn(&Status) -> bool + Send + 'static,
    ) -> Result<Status> {
        let (mut metrics, replica) = (self.shared.group.raft().metrics(), self.shared.group.waiting.replica);
        self.run(async move {
            let deadline = tokio::time::Instant::now() + wait.min(WAIT_MAX);
            loop {
                let status = Status::of(&metrics.borrow_and_update());
                if wanted(&status) {
                    return Ok(status);
                }
                match tokio::time::timeout_at(deadline, metrics.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(Error::Closed),
                    Err(_) => {
                        let reason =
                            format!("the awaited status did not come within {} ms", wait.as_millis());
                        return Err(Error::NoQuorum { replica, reason });
                    }
                }
            }
        })
    }

    /// Closes the replica with its log and engine. The replica stays a member of its group. Writes
    /// in flight have an unknown outcome. Later calls that need the group, the log or the engine
    /// fail; a second `close` returns `Ok`.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Engine`]. In a callback of [`Replica::write_with`] the call fails
    /// with [`Error::InCallback`], and the replica stays open. A callback may drop the last handle:
    /// another thread then closes the replica.
    pub fn close(&self) -> Result<()> {
        self.may_wait()?;
        self.shared.close()
    }

    fn group(&self) -> Arc<Group> {
        self.shared.group.clone()
    }

    /// Runs a step on the replica's runtime, and waits for its result.
    fn run<T: Send + 'static>(&self, step: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.check()?;
        self.may_wait()?;
        run(&self.shared.handle, step)
    }

    /// Fails on a thread of the replica, which must not wait for the replica.
    fn may_wait(&self) -> Result<()> {
        if is_thread_of(&self.shared.handle) { Err(Error::InCallback) } else { Ok(()) }
    }

    /// Fails if the replica is closed.
    fn check(&self) -> Result<()> {
        let is_closed = self.shared.runtime.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if is_closed { Err(Error::Closed) } else { Ok(()) }
    }
}

impl Shared {
    /// Ends the runtime without waiting for its tasks.
    fn shut_down(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }

    fn close(&self) -> Result<()> {
        let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let group = self.group.clone();
        let closed = run(&self.handle, async move { group.close().await });
        runtime.shutdown_background();
        closed
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        // An error can be ignored here: a write that is not durable was not acknowledged.
        if !is_thread_of(&self.0.handle) {
            let _closed = self.0.close();
            return;
        }
        // A callback has dropped the last handle. The callback's thread has to run the tasks that
        // close the replica, so this thread must not wait for them.
        let shared = self.0.clone();
        let close = move || drop(shared.close());
        if std::thread::Builder::new().name("katydid-replica-close".to_owned()).spawn(close).is_err() {
            // Without a thread, log and engine close when the tasks that use them are dropped.
            self.0.shut_down();
        }
    }
}

/// Runs a step on a runtime and waits for its result. The calling thread may belong to any runtime.
fn run<T: Send + 'static>(
    handle: &Handle,
    step: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (told, outcome) = std::sync::mpsc::channel();
    handle.spawn(async move { drop(told.send(step.await)) });
    outcome.recv().unwrap_or(Err(Error::Closed))
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("id", &self.shared.group.waiting.replica)
            .field("address", &self.shared.group.address)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Purpose, SnapshotBegin, SnapshotReply, SnapshotRows};
    use crate::peer::{LinkError, Links, next, send};
    use crate::store::{Identity, Row};
    use crate::transport::Tcp;
    use crate::types::{SnapshotMeta, Vote};
    use std::sync::OnceLock;

    #[test]
    fn a_snapshot_whose_next_part_does_not_come_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = ReplicaOptions::new(folder.path(), [1; 16], 7, "127.0.0.1:0");
        options.install_wait = Duration::from_millis(20);
        let replica = Replica::open(options).expect("open");
        let links = links([1; 16]);
        let address = replica.address().to_owned();
        let silent = async move {
            let mut wire = links.connect(7, &address, Purpose::Snapshot).await.expect("a connection");
            let begin = SnapshotBegin { vote: Vote::new_committed(1, 8), meta: SnapshotMeta::default() };
            send(&mut wire, &begin).await.expect("send");
            Ok(next(&mut wire).await.expect("a reply"))
        };
        let SnapshotReply::Failed(reason) = replica.run(silent).expect("it ran") else {
            panic!("it is not installed")
        };
        assert_eq!(reason, LinkError::TimedOut.to_string());
        assert!(!folder.path().join("state/store-2").exists());
        replica.close().expect("close");
    }

    #[test]
    fn a_replica_that_is_closed_while_it_receives_a_snapshot_can_be_opened_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = ReplicaOptions::new(folder.path(), [1; 16], 7, "127.0.0.1:0");
        for _ in 0..5 {
            let replica = Replica::open(options.clone()).expect("open");
            replica.address().clone_into(&mut options.address);
            let address = replica.address().to_owned();
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let mut wire = runtime.block_on(async {
                let mut wire =
                    links([1; 16]).connect(7, &address, Purpose::Snapshot).await.expect("a connection");
                let begin = SnapshotBegin { vote: Vote::new_committed(1, 8), meta: SnapshotMeta::default() };
                send(&mut wire, &begin).await.expect("send");
                wire
            });
            let rows = SnapshotRows { table: "t".to_owned(), rows: vec![Row(vec![1; 9], vec![2; 90_000])] };
            while !folder.path().join("state/store-2/katydid.control").exists() {
                std::thread::yield_now();
            }
            runtime.block_on(async { send(&mut wire, &rows).await.expect("send") });
            replica.close().expect("close");
        }
    }

    fn links(cluster: [u8; 16]) -> Links {
        Links {
            transport: Arc::new(Tcp),
            identity: Identity { cluster, replica: 8 },
            patience: Duration::from_secs(60),
            install_patience: Duration::from_secs(60),
            freshness: Arc::default(),
            confirmations: crate::confirmations::Confirmations::new(Duration::from_secs(1)),
            raft: OnceLock::new(),
        }
    }

    #[test]
    fn strangers_are_refused_in_the_handshake() {
        let folder = tempfile::tempdir().expect("a folder");
        let replica =
            Replica::open(ReplicaOptions::new(folder.path(), [1; 16], 7, "127.0.0.1:0")).expect("open");
        let connect = |cluster, to| {
            let links = links(cluster);
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
