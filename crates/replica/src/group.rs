//! A running replica. It takes part in the Raft group, and carries out the calls of its handle and
//! of its clients.
//!
//! The replica runs as tasks of one tokio runtime, which the handle or a simulation owns. Steps
//! that may wait for a device run under [`blocking`]. Closing the group stops Raft first, and then
//! closes the log and the store.

use crate::certifier::Certifier;
use crate::client_message::{ClientCall, ClientReply, Key, ROWS_BYTES, ROWS_MAX, ReadAt};
use crate::confirmations::Confirmations;
use crate::error::{Error, Result, UnknownReason};
use crate::freshness::Freshness;
use crate::ids::{ReplicaId, RequestId};
use crate::machine::Machine;
use crate::options::{ReplicaOptions, Replicated, WriteOptions};
use crate::peer::{Links, Peers};
use crate::place::Place;
use crate::runtime::{WAIT_MAX, blocking};
use crate::server::{Clients, Service, serve};
use crate::status::Status;
use crate::store::{Identity, Row, Store, View};
use crate::types::{Applied, Request, Types};
use crate::write_set::WriteSet;
use crate::writing::{
    Answer, Committed, Outcome, PendingCallback, Queue, Waiting, Written, committed, propose, queue,
};
use futures_util::future::BoxFuture;
use katydid_raft_log::RaftLog;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, LinearizableReadError, RaftError};
use openraft::raft::ClientWriteResponse;
use openraft::raft::linearizable_read::{Linearizer, LinearizerOption};
use openraft::{BasicNode, ChangeMembers, Raft, RaftLogReader};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

/// Maximum time that a read at the leader waits for a majority.
const READ_WAIT: Duration = Duration::from_secs(10);
/// Maximum time that a change of members waits for an earlier change to be committed.
const CHANGE_WAIT: Duration = Duration::from_secs(10);
/// Pause between two tries of a change of members.
const CHANGE_PAUSE: Duration = Duration::from_millis(10);

/// A running replica: its part in the Raft group, its log and its store.
pub(crate) struct Group {
    pub(crate) waiting: Waiting,
    pub(crate) store: Arc<Store>,
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) address: String,
    log: RaftLog<Types>,
    /// Certifier of the latest leadership of this replica.
    certifier: Mutex<Option<Arc<Certifier>>>,
    queue: Queue,
    permits: Arc<Semaphore>,
    /// The task that accepts connections; `None` once the group is closed.
    server: Mutex<Option<tokio::task::JoinHandle<()>>>,
    /// Maximum age of a majority's confirmation for a read by lease.
    lease: Duration,
    links: Arc<Links>,
}

impl Group {
    /// Opens the replica that is stored at `place`, and joins its group.
    pub(crate) async fn start(options: ReplicaOptions, place: Arc<dyn Place>) -> Result<Arc<Group>> {
        let mut config = options.group()?;
        let identity = Identity { cluster: options.cluster, replica: options.id };
        let opened = blocking(|| {
            let store = Arc::new(Store::open(place.clone(), options.engine.clone(), identity)?);
            let machine = Machine::new(store.clone())?;
            Ok::<_, Error>((store, machine, place.open_log(options.log.clone())?))
        });
        let (store, machine, mut log) = opened?;
        let vote = log.read_vote().await.map_err(stopped)?;
        if let (Some(applied), None) = (machine.applied(), vote) {
            // A replica saves a vote before it applies its first entry. It must not vote again in a
            // term in which it may have voted.
            let reason =
                format!("its state has entry {}, and its log is empty: the log was lost", applied.index);
            return Err(Error::Stopped { reason });
        }
        let listening = options.transport.listen(&options.address).await;
        let listener = listening.map_err(|error| Error::io(options.address.clone(), error))?;
        let address = listener.address();
        let freshness = Arc::new(Freshness::default());
        let links = Arc::new(Links {
            transport: options.transport.clone(),
            identity,
            patience: options.election,
            install_patience: options.install_wait,
            freshness: freshness.clone(),
            confirmations: Confirmations::new(options.voters_refuse()),
            raft: OnceLock::new(),
        });
        // The latest vote is for another replica if this one may have confirmed that replica's
        // leadership before it was closed.
        let confirmed = vote.is_some_and(|vote| vote.leader_id.node_id != options.id);
        let votes_from = Instant::now() + if confirmed { options.election } else { Duration::ZERO };
        config.enable_elect = !confirmed;
        let raft = Raft::new(options.id, Arc::new(config), Peers(links.clone()), log.clone(), machine).await;
        let raft = raft.map_err(|fatal| Error::Stopped { reason: fatal.to_string() })?;
        links.raft.get_or_init(|| raft.clone());
        let service = Arc::new(Service {
            raft: raft.clone(),
            store: store.clone(),
            identity,
            freshness: freshness.clone(),
            patience: options.install_wait,
            votes_from,
            clients: OnceLock::new(),
        });
        let voting = hold_back(raft.clone(), votes_from);
        let serving = serve(listener, service.clone());
        let server = tokio::spawn(async { _ = tokio::join!(voting, serving) });
        let (queue, queued) = mpsc::unbounded_channel();
        tokio::spawn(propose(raft.clone(), queued));
        let group = Arc::new(Group {
            waiting: Waiting { raft, replica: options.id },
            store,
            freshness,
            address,
            log,
            certifier: Mutex::default(),
            queue,
            permits: Arc::new(Semaphore::new(options.in_flight_max)),
            lease: options.lease(),
            links,
            server: Mutex::new(Some(server)),
        });
        let weak = Arc::downgrade(&group);
        service.clients.get_or_init(|| weak as Weak<dyn Clients>);
        Ok(group)
    }

    pub(crate) fn raft(&self) -> &Raft<Types, Machine> {
        &self.waiting.raft
    }

    fn no_quorum(&self, reason: &str) -> Error {
        Error::NoQuorum { replica: self.waiting.replica, reason: reason.to_owned() }
    }

    /// Returns the vote in the log.
    #[cfg(test)]
    pub(crate) async fn saved_vote(&self) -> Option<crate::types::Vote> {
        let mut log = self.log.clone();
        RaftLogReader::read_vote(&mut log).await.expect("the vote is in memory")
    }

    pub(crate) fn status(&self) -> Status {
        Status::of(&self.raft().metrics().borrow_watched())
    }

    pub(crate) async fn initialize(&self, members: BTreeMap<ReplicaId, String>) -> Result<()> {
        let nodes: BTreeMap<_, _> =
            members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
        let made = self.raft().initialize(nodes).await;
        made.map_err(|error| Error::Members { reason: error.to_string() })
    }

    pub(crate) async fn add_learner(&self, id: ReplicaId, address: &str) -> Result<()> {
        let known = self.status().members.get(&id).cloned();
        let added = match known.is_some_and(|known| known != address) {
            // `add_learner` would leave the address of an existing member as it is. A wrong address
            // does no harm: a connection begins with the number of the wanted replica, so another
            // replica refuses it.
            true => {
                let corrected = BTreeMap::from([(id, BasicNode::new(address))]);
                let change = ChangeMembers::SetNodes(corrected);
                self.change_members(|| self.raft().change_membership(change.clone(), true)).await?
            }
            // openraft's own wait reports success if the leadership is lost, so it is not used.
            false => {
                self.change_members(|| self.raft().add_learner(id, BasicNode::new(address), false)).await?
            }
        };
        self.waiting.member_has(id, added.log_id.index).await
    }

    pub(crate) async fn change_voters(&self, voters: BTreeSet<ReplicaId>) -> Result<()> {
        self.change_members(|| self.raft().change_membership(voters.clone(), false)).await.map(drop)
    }

    /// Makes a change of members. openraft refuses a change while an earlier one is not committed,
    /// and the members that a new group begins with are such a change. So a refused change is tried
    /// again, until [`CHANGE_WAIT`] has passed.
    async fn change_members<F>(&self, change: impl Fn() -> F) -> Result<ClientWriteResponse<Types>>
    where
        F: Future<
            Output = std::result::Result<
                ClientWriteResponse<Types>,
                RaftError<Types, ClientWriteError<Types>>,
            >,
        >,
    {
        let deadline = Instant::now() + CHANGE_WAIT;
        loop {
            match change().await {
                Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
                    ChangeMembershipError::InProgress(_),
                ))) if Instant::now() < deadline => tokio::time::sleep(CHANGE_PAUSE).await,
                changed => return changed.map_err(|error| self.members_failed(error)),
            }
        }
    }

    fn members_failed(&self, error: RaftError<Types, ClientWriteError<Types>>) -> Error {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
                self.waiting.not_leader(forward)
            }
            RaftError::APIError(error) => Error::Members { reason: error.to_string() },
            RaftError::Fatal(fatal) => stopped(fatal),
        }
    }

    pub(crate) async fn transfer_leader(&self, to: ReplicaId) -> Result<()> {
        if to == self.waiting.replica {
            // A transfer from this replica to itself never ends, and openraft would refuse writes
            // until it ends.
            return Ok(());
        }
        // A replica that does not vote never takes the leadership. After a transfer to such a
        // replica openraft would refuse writes until another voter is elected, or for ever if there
        // is no other voter.
        if !self.status().voters.contains(&to) {
            return Err(Error::Members { reason: format!("replica {to} is no voter") });
        }
        self.raft().trigger().transfer_leader(to).await.map_err(stopped)
    }

    pub(crate) async fn snapshot(&self) -> Result<()> {
        self.raft().trigger().snapshot().await.map_err(stopped)
    }

    pub(crate) async fn open_client(&self) -> Result<u64> {
        match self.control(Request::OpenClient, None, WriteOptions::default()).await? {
            Applied::Client(client) => Ok(client),
            other => Err(Error::Stopped { reason: format!("opening a client was answered by {other}") }),
        }
    }

    pub(crate) async fn resolve(&self, id: RequestId) -> Result<Outcome> {
        match self.control(Request::Cancel { id }, Some(id), WriteOptions::default()).await? {
            Applied::Written => Ok(Outcome::Committed),
            Applied::UnknownClient => Err(Error::UnknownClient { id }),
            Applied::TooOld => Err(Error::TooOld { id }),
            _ => Ok(Outcome::NotCommitted),
        }
    }

    /// Commits an entry that writes no keys.
    async fn control(
        &self,
        request: Request,
        id: Option<RequestId>,
        options: WriteOptions,
    ) -> Result<Applied> {
        let certifier = self.certifier(options.wait).await?;
        let written = self.propose(&certifier, request, &WriteSet::default());
        let (told, answer) = oneshot::channel();
        let tell = move |outcome| drop(told.send(outcome));
        // A separate task follows the write to its end, even if the caller stops waiting.
        tokio::spawn(self.waiting.clone().follow(written, id, options, None, tell));
        Ok(answer.await.map_err(|_| Error::Closed)??.applied)
    }

    /// Writes a set, and passes the outcome to the callback. If the task is dropped before the
    /// entry is queued, the callback gets [`Error::Closed`]. If the task is dropped afterwards, the
    /// callback gets [`Error::Unknown`].
    pub(crate) async fn write(
        self: Arc<Self>,
        id: RequestId,
        set: WriteSet,
        options: WriteOptions,
        mut callback: PendingCallback<impl FnOnce(Result<Committed>) + Send + 'static>,
    ) {
        let prepared = async {
            set.check()?;
            let certifier = self.certifier(options.wait).await?;
            let permit = self.permit(options.wait).await?;
            Ok((certifier, permit))
        };
        let (certifier, permit) = match prepared.await {
            Ok(prepared) => prepared,
            Err(error) => return callback.call(Err(error)),
        };
        callback.set_dropped(Error::Unknown { id, reason: UnknownReason::Stopped });
        let written = self.propose(&certifier, Request::Write { id, set: set.clone() }, &set);
        let waiting = self.waiting.clone();
        // Release this handle of the group: a write that waits must not keep the replica open.
        drop(self);
        let tell = move |outcome| callback.call(committed(id, outcome));
        waiting.follow(written, Some(id), options, Some(permit), tell).await;
    }

    /// Confirms by a majority that this replica leads, and waits until it has applied all that was
    /// committed when the call began. Returns the index up to which the replica has applied. After
    /// [`READ_WAIT`] the error is [`Error::NoQuorum`]. Without this limit the read could wait for
    /// ever, because a majority whose disks do not respond confirms the leader, but commits
    /// nothing.
    pub(crate) async fn linearize(&self) -> Result<u64> {
        self.linearize_by(Duration::ZERO).await
    }

    /// Does what [`Group::linearize`] does, without asking a majority if one has confirmed this
    /// replica's leadership within the lease.
    pub(crate) async fn linearize_by_lease(&self) -> Result<u64> {
        self.linearize_by(self.lease).await
    }

    async fn linearize_by(&self, lease: Duration) -> Result<u64> {
        within(self.waiting.replica, READ_WAIT, async {
            let linearizer = self.read_linearizer(lease, READ_WAIT).await?;
            let ready = linearizer.await_ready(self.raft()).await.map_err(stopped)?;
            Ok(ready.read_log_id().log_id().index)
        })
        .await
    }

    /// Asks a majority whether this replica leads, unless a majority has confirmed it within
    /// `lease`.
    async fn read_linearizer(&self, mut lease: Duration, wait: Duration) -> Result<Linearizer<Types>> {
        let confirmations = &self.links.confirmations;
        within(self.waiting.replica, wait, async {
            loop {
                let began = Instant::now();
                let option = LinearizerOption::new(Some(lease), true);
                let linearizer = self.raft().get_read_linearizer(option).await;
                let linearizer = linearizer.map_err(|error| self.read_failed(error))?;
                let may_answer = lease.is_zero() || confirmations.has_lease(began);
                if may_answer && confirmations.is_confirmed(began) {
                    return Ok(linearizer);
                }
                lease = Duration::ZERO;
            }
        })
        .await
    }

    /// Returns a view of the applied state if this replica knows that the state is at most `max`
    /// old.
    pub(crate) fn stale_view(&self, max: Duration) -> Result<View> {
        let view = self.store.view()?;
        let age = match self.leads_alone(&view) {
            true => Some(Duration::ZERO),
            false => self.freshness.age(Instant::now(), view.applied.index()),
        };
        match age {
            Some(age) if age <= max => Ok(view),
            _ => Err(Error::TooStale { age, max }),
        }
    }

    /// Returns true if this replica leads and is the only voter, and the view has an entry of this
    /// leadership. No other replica can then have committed a write, and this replica applies each
    /// write before it acknowledges the write. So the view has all acknowledged writes.
    fn leads_alone(&self, view: &View) -> bool {
        let metrics = self.raft().metrics();
        let now = metrics.borrow_watched();
        let is_own = view.applied.log_id.is_some_and(|id| id.leader_id == now.vote.leader_id);
        let voters = now.membership_config.membership().voter_ids();
        is_own
            && now.vote.committed
            && now.vote.leader_id.node_id == self.waiting.replica
            && voters.eq([self.waiting.replica])
    }

    /// Confirms by a majority that the leadership of a certifier has not ended.
    pub(crate) async fn confirm(&self, certifier: &Certifier, wait: Duration) -> Result<()> {
        let linearizer = self.read_linearizer(Duration::ZERO, wait).await?;
        match linearizer.read_log_id().log_id().leader_id == *certifier.leadership() {
            true => Ok(()),
            false => Err(self.no_quorum("its leadership has ended, and another has begun")),
        }
    }

    pub(crate) async fn permit(&self, wait: Duration) -> Result<OwnedSemaphorePermit> {
        match tokio::time::timeout(wait, self.permits.clone().acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Error::Closed),
            Err(_) => Err(self.no_quorum("too many writes are in flight")),
        }
    }

    pub(crate) fn enqueue(&self, certifier: &Certifier, request: Request) -> Answer {
        queue(&self.queue, request, *certifier.leadership())
    }

    fn propose(&self, certifier: &Arc<Certifier>, request: Request, set: &WriteSet) -> Written {
        let mut given = None;
        certifier.propose(set, |number| given = Some((number, self.enqueue(certifier, request))));
        let (number, answer) = given.expect("the certifier has called the closure");
        Written { certifier: certifier.clone(), number, answer }
    }

    /// Returns the certifier of this replica's current leadership. The certifier is made if it is
    /// missing.
    pub(crate) async fn certifier(&self, wait: Duration) -> Result<Arc<Certifier>> {
        let (raft, waiting) = (self.raft(), &self.waiting);
        loop {
            let leader = raft.as_leader().map_err(|forward| waiting.not_leader(forward))?;
            let leadership = leader.to_committed_leader_id();
            {
                let certifier = self.certifier.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(certifier) = certifier.as_ref().filter(|of| *of.leadership() == leadership) {
                    return Ok(certifier.clone());
                }
            }
            // A new leadership needs a new certifier. Before the certifier is made, the state must
            // have all entries up to the leadership's first entry, that entry included.
            let linearizer = self.read_linearizer(Duration::ZERO, wait).await?;
            let ready = linearizer.try_await_ready(raft, Some(wait.min(WAIT_MAX))).await.map_err(stopped)?;
            let Ok(ready) = ready else {
                return Err(self.no_quorum("it has not applied the entries before its election yet"));
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

    fn read_failed(&self, error: RaftError<Types, LinearizableReadError<Types>>) -> Error {
        match error {
            RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => {
                self.waiting.not_leader(forward)
            }
            RaftError::APIError(error) => self.no_quorum(&error.to_string()),
            RaftError::Fatal(fatal) => stopped(fatal),
        }
    }

    /// Stops Raft, and closes log and engine. The replica stays a member of its group. Afterwards
    /// its address is free, and its folder can be opened again.
    pub(crate) async fn close(&self) -> Result<()> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            server.abort();
            // The only errors are that the task was aborted, or has panicked.
            let _ended = server.await;
        }
        // Writes that wait for a permit fail, and leave nothing in the log.
        self.permits.close();
        // The only error is a panic of Raft's task, which has then stopped, too.
        let _stopped = self.raft().shutdown().await;
        // Connections and Raft's tasks drop the snapshots that they were receiving.
        blocking(|| self.store.refuse_snapshots());
        self.store.received_ended().await;
        blocking(|| {
            let log = self.log.close();
            let store = self.store.close();
            log?;
            store
        })
    }

    /// Carries out a call of a client.
    async fn answer(self: Arc<Self>, call: ClientCall) -> Result<ClientReply> {
        match call {
            ClientCall::Status => Ok(ClientReply::Status(self.status())),
            ClientCall::OpenClient => Ok(ClientReply::Client(self.open_client().await?)),
            ClientCall::Write { id, set, all, wait_ms } => {
                let durability = if all { Replicated::All } else { Replicated::Quorum };
                let options = WriteOptions { durability, wait: Duration::from_millis(wait_ms) };
                let (sender, outcome) = oneshot::channel();
                let callback = PendingCallback::new(move |outcome| drop(sender.send(outcome)), Error::Closed);
                // A task of its own follows the write to its end, even if the client disconnects.
                tokio::spawn(self.write(id, set, options, callback));
                let Committed { index, unconfirmed, .. } = outcome.await.expect("the callback is called")?;
                Ok(ClientReply::Committed { index, unconfirmed })
            }
            ClientCall::Resolve { id } => {
                Ok(ClientReply::Resolved(self.resolve(id).await? == Outcome::Committed))
            }
            ClientCall::Get { table, key: Key(key), at } => {
                let index = self.confirmed(at).await?;
                let value = blocking(|| self.view(at, index)?.get(&table, &key))?;
                Ok(ClientReply::Value(value.map(Into::into)))
            }
            ClientCall::Range { table, low, high, limit, at } => {
                let index = self.confirmed(at).await?;
                let bound = |bound: Bound<Key>| bound.map(|Key(key)| key);
                blocking(|| rows(&self.view(at, index)?, &table, bound(low), bound(high), limit))
            }
            ClientCall::Initialize { members } => self.initialize(members).await.map(|()| ClientReply::Done),
            ClientCall::AddLearner { id, address } => {
                self.add_learner(id, &address).await.map(|()| ClientReply::Done)
            }
            ClientCall::ChangeVoters { voters } => {
                // A task of its own makes both steps of the change, even if the client disconnects.
                let changing = tokio::spawn(async move { self.change_voters(voters).await });
                changing.await.unwrap_or(Err(Error::Closed)).map(|()| ClientReply::Done)
            }
            ClientCall::TransferLeader { to } => {
                self.raft().as_leader().map_err(|forward| self.waiting.not_leader(forward))?;
                self.transfer_leader(to).await.map(|()| ClientReply::Done)
            }
            ClientCall::Snapshot => self.snapshot().await.map(|()| ClientReply::Done),
        }
    }

    /// Confirms what a read needs to be confirmed. Returns the index up to which the state of the
    /// read must have the entries.
    async fn confirmed(&self, at: ReadAt) -> Result<u64> {
        match at {
            ReadAt::Leader => self.linearize().await,
            ReadAt::Lease => self.linearize_by_lease().await,
            ReadAt::Stale(_) | ReadAt::Applied => Ok(0),
        }
    }

    /// Returns the view of a read that is confirmed. The call may wait for a device.
    fn view(&self, at: ReadAt, index: u64) -> Result<View> {
        if let ReadAt::Stale(max) = at {
            return self.stale_view(max);
        }
        let view = self.store.view()?;
        debug_assert!(view.applied.index() >= index, "the view misses what it must show");
        Ok(view)
    }
}

/// Lets the replica stand for elections from `votes_from` on.
///
/// A voter that has confirmed a leader votes for no other replica for the time of
/// [`ReplicaOptions::election`], so the leader may answer reads by lease. openraft forgets this
/// time at a restart. So after a restart a replica that may have confirmed a leader waits for that
/// time before it stands for election, and before it votes for another replica
/// (`Service::votes_from`). In a transfer of the leadership the replica votes at once, because
/// openraft's leader answers no read any more after it has asked another replica to take the
/// leadership.
async fn hold_back(raft: Raft<Types, Machine>, votes_from: Instant) {
    tokio::time::sleep_until(votes_from).await;
    raft.runtime_config().elect(true);
}

impl Clients for Group {
    fn call(self: Arc<Self>, call: ClientCall) -> BoxFuture<'static, ClientReply> {
        Box::pin(
            async move { self.answer(call).await.unwrap_or_else(|error| ClientReply::Refused(error.into())) },
        )
    }
}

/// Reads the first rows between two bounds: at most `limit`, and at most [`ROWS_MAX`].
fn rows(
    view: &View,
    table: &str,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    limit: u32,
) -> Result<ClientReply> {
    if limit == 0 || crate::transaction::is_empty(&low, &high) {
        return Ok(ClientReply::Rows { rows: Vec::new(), is_whole: limit > 0 });
    }
    let limit = limit.min(ROWS_MAX) as usize;
    let (mut rows, mut bytes, mut is_whole) = (Vec::new(), 0, true);
    view.range(table, low, high, |key, value| {
        is_whole = rows.len() < limit && bytes < ROWS_BYTES;
        if is_whole {
            bytes += key.len() + value.len();
            rows.push(Row(key, value));
        }
        is_whole
    })?;
    Ok(ClientReply::Rows { rows, is_whole })
}

pub(crate) fn stopped(fatal: impl fmt::Display) -> Error {
    Error::Stopped { reason: fatal.to_string() }
}

/// Returns the outcome of `confirming`, or the error [`Error::NoQuorum`] after `wait`.
async fn within<T>(
    replica: ReplicaId,
    wait: Duration,
    confirming: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(wait.min(WAIT_MAX), confirming).await.unwrap_or_else(|_| {
        let reason = format!("a majority did not confirm it within {} ms", wait.as_millis());
        Err(Error::NoQuorum { replica, reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[test]
    fn a_read_that_no_majority_confirms_ends_with_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let begun = Instant::now();
            let confirmed = within(2, READ_WAIT, ready(Ok(7))).await;
            assert_eq!((confirmed.expect("it is confirmed"), begun.elapsed()), (7, Duration::ZERO));
            let error = within(2, READ_WAIT, pending::<Result<()>>()).await;
            assert_eq!(begun.elapsed().as_secs(), READ_WAIT.as_secs());
            let text = error.expect_err("nothing confirms it").to_string();
            assert!(text.starts_with("replica 2 could not confirm that it leads"), "{text}");
            assert!(text.ends_with("within 10000 ms"), "{text}");
        });
    }
}
