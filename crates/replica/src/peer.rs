//! The calling side of the connections between replicas: openraft's network, over the transport.
//!
//! This code runs in tasks of the group. A replica has separate connections to each other replica
//! for replication, heartbeats and snapshots, so that no message waits behind a message of another
//! kind. Appends are pipelined: an append is sent before the previous one is answered. After the
//! last answer of a stream of appends the connection is kept for the next stream; each heartbeat is
//! a stream of its own. A connection that fails is dropped, and openraft tries again after a pause.

use crate::confirmations::Confirmations;
use crate::frame::{Frame, FrameCodec, FrameError};
use crate::freshness::Freshness;
use crate::ids::ReplicaId;
use crate::machine::{Machine, Snapshot};
use crate::message::{
    Append, Appended, Call, Greeting, Hello, Malformed, Message, PROTOCOL, Purpose, Reply, SnapshotBegin,
    SnapshotEnd, SnapshotReply, SnapshotRows,
};
use crate::runtime::blocking;
use crate::store::{Identity, Row, View};
use crate::transport::{Connection, Transport};
use crate::types::{Types, Vote};
use futures_util::{SinkExt, Stream, StreamExt};
use openraft::alias::SnapshotOf;
use openraft::async_runtime::WatchReceiver;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::v2::RaftNetworkV2;
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Instant as _, OptionalSend, Raft, RaftMetrics};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::codec::Framed;

/// Additional time to wait for the answer to an append, for each byte of the append. This time
/// allows for a slow network and a slow device. An append that times out is sent again as a whole,
/// so without this time the group would be stuck at a large entry.
const PER_BYTE: Duration = Duration::from_micros(1);
/// Approximate bytes of rows in one message of a snapshot.
const SNAPSHOT_BYTES: usize = 256 << 10;

pub(crate) type Wire = Framed<Box<dyn Connection>, FrameCodec>;

/// State that all connections of a replica share.
pub(crate) struct Links {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) identity: Identity,
    /// Maximum time to wait for an answer.
    pub(crate) patience: Duration,
    /// Time that the other side may take to install a snapshot that it has received.
    pub(crate) install_patience: Duration,
    /// Age of this replica's state. A leader notes the reports that it sends to others.
    pub(crate) freshness: Arc<Freshness>,
    /// Judges the confirmations of this replica's leadership.
    pub(crate) confirmations: Confirmations,
    /// Set when the group runs.
    pub(crate) raft: OnceLock<Raft<Types, Machine>>,
}

/// Makes connections to other replicas.
pub(crate) struct Peers(pub(crate) Arc<Links>);

/// Access to another replica, for one kind of messages.
pub(crate) struct Peer {
    links: Arc<Links>,
    target: ReplicaId,
    /// Address of the target when this value was made.
    first_address: String,
    /// Connection for calls. Only one task uses it; the latch makes the type `Sync`.
    calls: Mutex<Option<Wire>>,
    /// Connection for appends, kept while no stream of appends uses it. The latch makes the type
    /// `Sync`, and lets a stream give the connection back.
    appends: Mutex<Kept>,
}

/// A connection for the next stream of appends.
#[derive(Default)]
enum Kept {
    #[default]
    None,
    /// The connection is being made. The attempt goes on even if openraft drops the stream that
    /// needed the connection: openraft drops a heartbeat after one interval, which may be shorter
    /// than a handshake.
    Coming(AbortOnDrop<Result<Wire, LinkError>>),
    Here(Wire),
}

/// Reason why a message did not get an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("cannot be reached: {0}")]
    Connect(io::Error),
    #[error("refused the connection: {0}")]
    Refused(String),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("closed the connection")]
    Closed,
    #[error("did not answer in time")]
    TimedOut,
    #[error("failed: {0}")]
    Failed(String),
}

/// Reads the next message.
pub(crate) async fn next<M: Message>(wire: &mut Wire) -> Result<M, LinkError> {
    match wire.next().await {
        Some(frame) => Ok(M::from_frame(&frame?)?),
        None => Err(LinkError::Closed),
    }
}

/// Sends a message at once.
pub(crate) async fn send(wire: &mut Wire, message: &impl Message) -> Result<(), LinkError> {
    Ok(wire.send(message.to_frame()?).await?)
}

impl Links {
    pub(crate) async fn within<T>(
        limit: Duration,
        step: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, LinkError> {
        tokio::time::timeout(limit, step).await.unwrap_or(Err(LinkError::TimedOut))
    }

    pub(crate) async fn connect(
        &self,
        to: ReplicaId,
        address: &str,
        purpose: Purpose,
    ) -> Result<Wire, LinkError> {
        Self::within(self.patience, async {
            let connection = self.transport.connect(address).await.map_err(LinkError::Connect)?;
            let mut wire = Framed::new(connection, FrameCodec::default());
            let Identity { cluster, replica: from } = self.identity;
            send(&mut wire, &Hello { protocol: PROTOCOL, cluster, from, to, purpose }).await?;
            match next(&mut wire).await? {
                Greeting::Welcome => Ok(wire),
                Greeting::Refused(reason) => Err(LinkError::Refused(reason)),
            }
        })
        .await
    }

    fn append(&self, request: AppendEntriesRequest<Types>) -> Append {
        let metrics = self.raft.get().map(Raft::metrics);
        let metrics = metrics.as_ref().map(|metrics| metrics.borrow_watched());
        let latest = metrics.as_ref().and_then(|metrics| *metrics.membership_config.log_id());
        for entry in request.entries.iter().filter(|entry| Some(entry.log_id) >= latest) {
            if let openraft::EntryPayload::Membership(members) = &entry.payload {
                self.send_members(members);
            }
        }
        let age_ms = metrics.and_then(|metrics| age_ms(&metrics, &request));
        if let (Some(age), Some(committed)) = (age_ms, request.leader_commit) {
            self.freshness.hear(Instant::now(), Duration::from_millis(age), committed.index);
        }
        Append { request, age_ms }
    }

    /// Notes that this replica is about to send its latest members.
    fn send_members(&self, members: &openraft::Membership<ReplicaId, openraft::BasicNode>) {
        let voters = members.get_joint_config().last();
        if voters.is_some_and(|voters| !voters.contains(&self.identity.replica)) {
            self.confirmations.leave();
        }
    }
}

/// Returns the age of the state at the request's committed index: the milliseconds since a majority
/// last confirmed the leader. Returns `None` if that state may lack a write that was acknowledged
/// before the majority confirmed the leader.
fn age_ms(metrics: &RaftMetrics<Types>, request: &AppendEntriesRequest<Types>) -> Option<u64> {
    let committed = request.leader_commit?;
    // A new leader does not know what an earlier leader has committed, until an entry of its own is
    // committed.
    let is_own = request.vote == metrics.vote && committed.leader_id == metrics.vote.leader_id;
    // The request may have waited, and entries may have been committed meanwhile.
    let is_latest = metrics.cluster_committed.is_none_or(|known| known.index <= committed.index);
    let confirmed = metrics.last_quorum_acked.filter(|_| is_own && is_latest)?;
    confirmed.into_inner().elapsed().as_millis().try_into().ok()
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: ReplicaId, node: &BasicNode) -> Peer {
        Peer {
            links: self.0.clone(),
            target,
            first_address: node.addr.clone(),
            calls: Mutex::default(),
            appends: Mutex::default(),
        }
    }
}

impl Peer {
    fn error(&self, error: LinkError, action: RPCTypes) -> RPCError<Types> {
        match error {
            LinkError::Connect(_) | LinkError::Refused(_) => Unreachable::new(&error).into(),
            LinkError::TimedOut => {
                let (id, target, timeout) = (self.links.identity.replica, self.target, self.links.patience);
                Timeout { action, id, target, timeout }.into()
            }
            error => NetworkError::new(&error).into(),
        }
    }

    /// Returns the address of the target. openraft keeps this [`Peer`] when the address of the
    /// member is corrected, so each attempt to connect looks the address up.
    fn address(&self) -> String {
        let corrected = self.links.raft.get().and_then(|raft| {
            let metrics = raft.metrics();
            let now = metrics.borrow_watched();
            now.membership_config.membership().get_node(&self.target).map(|node| node.addr.clone())
        });
        corrected.unwrap_or_else(|| self.first_address.clone())
    }

    async fn connect(&self, purpose: Purpose) -> Result<Wire, LinkError> {
        self.links.connect(self.target, &self.address(), purpose).await
    }

    /// Returns a connection for a stream of appends: the kept one, or a new one.
    async fn appends(&mut self) -> Result<Wire, LinkError> {
        let address = self.address();
        let kept = self.appends.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Kept::None = kept {
            let (links, to) = (self.links.clone(), self.target);
            let connecting = async move { links.connect(to, &address, Purpose::Appends).await };
            *kept = Kept::Coming(AbortOnDrop(tokio::spawn(connecting)));
        }
        if let Kept::Coming(connecting) = kept {
            let connected = (&mut connecting.0).await.unwrap_or(Err(LinkError::Closed));
            *kept = Kept::None;
            return connected;
        }
        match std::mem::take(kept) {
            Kept::Here(wire) => Ok(wire),
            _ => Err(LinkError::Closed),
        }
    }

    async fn call(
        &mut self,
        call: Call,
        action: RPCTypes,
        option: &RPCOption,
    ) -> Result<Reply, RPCError<Types>> {
        let limit = option.hard_ttl().max(self.links.patience);
        let kept = self.calls.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let answered = Links::within(limit, async {
            if let Some(mut wire) = kept
                && let Ok(reply) = Self::exchange(&mut wire, &call).await
            {
                return Ok((wire, reply));
            }
            // No connection was kept, or the other side has closed it. The call may be repeated
            // without harm.
            let mut wire = self.connect(Purpose::Calls).await?;
            let reply = Self::exchange(&mut wire, &call).await?;
            Ok((wire, reply))
        })
        .await;
        match answered {
            Ok((_, Reply::Failed(reason))) => Err(self.error(LinkError::Failed(reason), action)),
            Ok((wire, reply)) => {
                *self.calls.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(wire);
                Ok(reply)
            }
            Err(error) => Err(self.error(error, action)),
        }
    }

    async fn exchange(wire: &mut Wire, call: &Call) -> Result<Reply, LinkError> {
        send(wire, call).await?;
        next(wire).await
    }

    fn unexpected(&self, action: RPCTypes) -> RPCError<Types> {
        self.error(LinkError::Failed("it sent the answer to another call".to_owned()), action)
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: SnapshotOf<Types, Snapshot>,
    ) -> Result<SnapshotReply, LinkError> {
        let patience = self.links.patience;
        let Snapshot::View(mut view) = snapshot.snapshot else {
            return Err(LinkError::Failed("a received snapshot is not sent on".to_owned()));
        };
        let mut wire = self.connect(Purpose::Snapshot).await?;
        let mut sent = 0;
        self.links.send_members(snapshot.meta.last_membership.membership());
        send(&mut wire, &SnapshotBegin { vote, meta: snapshot.meta }).await?;
        let read = |error: crate::Error| LinkError::Failed(format!("the snapshot cannot be read: {error}"));
        for table in blocking(|| view.tables()).map_err(read)? {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let rows = rows(&mut view, &table, after.as_deref()).map_err(read)?;
                let last = rows.last().map(|Row(key, _)| key.clone());
                sent += rows.len() as u64;
                let message = SnapshotRows { table: table.clone(), rows };
                Links::within(patience.max(self.links.install_patience), send(&mut wire, &message)).await?;
                // The last message of a table has no rows. It makes the receiver create the table
                // even if the table is empty.
                let Some(last) = last else { break };
                after = Some(last);
            }
        }
        send(&mut wire, &SnapshotEnd { rows: sent }).await?;
        Links::within(self.links.install_patience, next(&mut wire)).await
    }
}

/// Reads the next rows. The exclusive borrow ensures that one task at a time uses the view.
fn rows(view: &mut View, table: &str, after: Option<&[u8]>) -> crate::Result<Vec<Row>> {
    blocking(|| view.rows(table, after, SNAPSHOT_BYTES))
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = Snapshot;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let call = Call::Append(self.links.append(rpc));
        match self.call(call, RPCTypes::AppendEntries, &option).await? {
            Reply::Append(reply) => Ok(reply),
            _ => Err(self.unexpected(RPCTypes::AppendEntries)),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>, RPCError<Types>>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            let wire = self.appends().await;
            let wire = wire.map_err(|error| self.error(error, RPCTypes::AppendEntries))?;
            let (mut to, from) = wire.split();
            let (links, unanswered) = (self.links.clone(), Unanswered::default());
            let sent = unanswered.clone();
            let mut input = input;
            let sender = tokio::spawn(async move {
                while let Some(request) = input.next().await {
                    let frame = links.append(request).to_frame().ok()?;
                    // The limit is noted before the append is sent, so that the reader stops
                    // waiting at the limit even if the append cannot be sent.
                    let bytes = u32::try_from(frame.payload.len()).unwrap_or(u32::MAX);
                    let now = Instant::now();
                    let times = (now, now + links.patience + PER_BYTE * bytes);
                    sent.lock().unwrap_or_else(PoisonError::into_inner).push_back(times);
                    to.send(frame).await.ok()?;
                }
                Some(to)
            });
            let state = Answers {
                peer: self,
                from: Some(from),
                unanswered,
                sender: AbortOnDrop(sender),
                sent_all: None,
                failed: false,
            };
            let answers = futures_util::stream::unfold(state, |mut answers| async move {
                let answer = answers.next().await?;
                Some((answer, answers))
            });
            Ok(Box::pin(answers) as BoxStream<'s, _>)
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.call(Call::Vote(rpc), RPCTypes::Vote, &option).await? {
            Reply::Vote(reply) => Ok(reply),
            _ => Err(self.unexpected(RPCTypes::Vote)),
        }
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.call(Call::PreVote(rpc), RPCTypes::Vote, &option).await? {
            Reply::PreVote(reply) => Ok(reply),
            _ => Err(self.unexpected(RPCTypes::Vote)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<Types, Snapshot>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sent = tokio::select! {
            biased;
            sent = self.send_snapshot(vote, snapshot) => sent,
            closed = cancel => return Err(closed.into()),
        };
        let error = match sent {
            Ok(SnapshotReply::Installed(response)) => return Ok(response),
            Ok(SnapshotReply::Failed(reason)) => LinkError::Failed(reason),
            Err(error) => error,
        };
        match self.error(error, RPCTypes::InstallSnapshot) {
            RPCError::Timeout(error) => Err(error.into()),
            RPCError::Unreachable(error) => Err(error.into()),
            RPCError::Network(error) => Err(error.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        match self.call(Call::TransferLeader(req), RPCTypes::TransferLeader, &option).await? {
            Reply::TransferLeader(reply) => Ok(reply),
            _ => Err(self.unexpected(RPCTypes::TransferLeader)),
        }
    }
}

/// The times at which the unanswered appends were sent, and at which their answers are due, in the
/// order of the appends.
type Unanswered = Arc<Mutex<VecDeque<(Instant, Instant)>>>;

/// The sending half of a connection.
type Sink = futures_util::stream::SplitSink<Wire, Frame>;

/// The answers to pipelined appends.
struct Answers<'p> {
    peer: &'p Peer,
    /// `None` once the connection is given back.
    from: Option<futures_util::stream::SplitStream<Wire>>,
    unanswered: Unanswered,
    /// The task that sends; it is aborted with this stream.
    sender: AbortOnDrop<Option<Sink>>,
    /// Set when the sender has ended: the sending half, or `None` if sending has failed.
    sent_all: Option<Option<Sink>>,
    failed: bool,
}

pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        self.peer.links.confirmations.counted(self.peer.target);
    }
}

impl Answers<'_> {
    fn oldest(&self) -> Option<Instant> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).front().map(|(_, limit)| *limit)
    }

    async fn next(&mut self) -> Option<Result<StreamAppendResult<Types>, RPCError<Types>>> {
        self.peer.links.confirmations.counted(self.peer.target);
        if self.failed {
            return None;
        }
        let answer = self.answer().await?;
        // The other side ends the stream after a refusal.
        self.failed = !matches!(answer, Ok(Ok(_)));
        Some(answer.map_err(|error| self.peer.error(error, RPCTypes::AppendEntries)))
    }

    async fn answer(&mut self) -> Option<Result<StreamAppendResult<Types>, LinkError>> {
        loop {
            let oldest = self.oldest();
            if self.sent_all.is_some() && oldest.is_none() {
                self.give_back();
                return None;
            }
            let patience = self.peer.links.patience;
            let limit = oldest.unwrap_or_else(|| Instant::now() + patience);
            let from = self.from.as_mut()?;
            tokio::select! {
                biased;
                frame = from.next() => {
                    let oldest = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    if let Some((sent, _)) = oldest {
                        self.peer.links.confirmations.hand_over(self.peer.target, sent);
                    }
                    return Some(match frame {
                        None => Err(LinkError::Closed),
                        Some(Err(error)) => Err(error.into()),
                        Some(Ok(frame)) => Appended::from_frame(&frame).map(|answer| answer.0).map_err(Into::into),
                    });
                }
                sink = &mut self.sender.0, if self.sent_all.is_none() => {
                    self.sent_all = Some(sink.ok().flatten());
                }
                // The oldest append may have been sent after `limit` was read. In that case it has
                // time left.
                () = tokio::time::sleep_until(limit) => {
                    if self.oldest().is_some_and(|oldest| oldest <= Instant::now()) {
                        return Some(Err(LinkError::TimedOut));
                    }
                }
            }
        }
    }

    /// Keeps the connection, on which all appends are answered, for the next stream.
    fn give_back(&mut self) {
        if let (Some(from), Some(Some(sink))) = (self.from.take(), self.sent_all.take())
            && let Ok(wire) = from.reunite(sink)
        {
            *self.peer.appends.lock().unwrap_or_else(PoisonError::into_inner) = Kept::Here(wire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::transport::Listener;
    use crate::types::{Entry, Leadership, LogId, Request};
    use crate::write_set::WriteSet;
    use bytes::BytesMut;
    use openraft::EntryPayload;
    use openraft::alias::InstantOf;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::codec::{Decoder, Encoder};

    type FutureOf<T> = futures_util::future::BoxFuture<'static, io::Result<T>>;

    /// A replica behind a slow network: 64 KiB arrive in 10 ms. The replica answers an append when
    /// the whole append has arrived.
    struct Slow;

    impl Transport for Slow {
        fn connect(&self, _: &str) -> FutureOf<Box<dyn Connection>> {
            let (near, mut far) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move {
                let (mut arrived, mut part) = (BytesMut::new(), vec![0; 64 << 10]);
                loop {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let count = far.read(&mut part).await.expect("the other end is open");
                    arrived.extend_from_slice(&part[..count]);
                    while let Some(frame) = FrameCodec::default().decode(&mut arrived).expect("a frame") {
                        let reply = match Append::from_frame(&frame) {
                            Ok(_) => Appended(Ok(None)).to_frame(),
                            Err(_) => Greeting::Welcome.to_frame(),
                        };
                        let mut bytes = BytesMut::new();
                        FrameCodec::default().encode(reply.expect("encode"), &mut bytes).expect("encode");
                        far.write_all(&bytes).await.expect("the other end is open");
                    }
                    if count == 0 {
                        break;
                    }
                }
            });
            Box::pin(async { Ok(Box::new(near) as Box<dyn Connection>) })
        }

        fn listen(&self, _: &str) -> FutureOf<Box<dyn Listener>> {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    #[test]
    fn a_large_append_gets_the_time_that_it_needs() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let patience = Duration::from_millis(500);
        let links = Links {
            transport: Arc::new(Slow),
            identity: Identity { cluster: [1; 16], replica: 1 },
            patience,
            install_patience: patience,
            freshness: Arc::default(),
            confirmations: Confirmations::new(Duration::from_secs(1)),
            raft: OnceLock::new(),
        };
        let log_id = LogId::new(Leadership { term: 5, node_id: 1 }, 7);
        let id = RequestId { client: 1, sequence: 1 };
        let set = WriteSet::default().put("t", "k", vec![1; 8 << 20]);
        let request = AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(5, 1),
            prev_log_id: None,
            leader_commit: None,
            entries: vec![Entry { log_id, payload: EntryPayload::Normal(Request::Write { id, set }) }],
        };
        let answer = runtime.expect("a runtime").block_on(async {
            let mut peer = Peers(Arc::new(links)).new_client(2, &BasicNode::new("b")).await;
            let input = Box::pin(futures_util::stream::iter([request]));
            let option = RPCOption::new(patience);
            let mut answers = peer.stream_append(input, option).await.expect("a connection");
            answers.next().await
        });
        // At this speed the append takes 1.3 s.
        assert!(matches!(answer, Some(Ok(Ok(None)))), "{answer:?}");
    }

    #[test]
    fn a_leader_states_no_age_of_a_state_that_may_lack_acknowledged_writes() {
        let log_id = |term, index| LogId::new(Leadership { term, node_id: 1 }, index);
        let vote = Vote::new_committed(5, 1);
        let request = |vote: Vote, term, index| AppendEntriesRequest::<Types> {
            vote,
            prev_log_id: None,
            leader_commit: Some(log_id(term, index)),
            entries: Vec::new(),
        };
        let mut metrics = RaftMetrics::<Types>::new_initial(1);
        metrics.vote = vote;
        metrics.cluster_committed = Some(log_id(5, 9));
        assert_eq!(age_ms(&metrics, &request(vote, 5, 9)), None, "no majority has confirmed the leader");
        metrics.last_quorum_acked = Some(InstantOf::<Types>::now().into());
        assert!(age_ms(&metrics, &request(vote, 5, 9)).is_some());
        assert!(age_ms(&metrics, &request(vote, 5, 10)).is_some());
        assert_eq!(age_ms(&metrics, &request(vote, 5, 8)), None, "entry 9 is committed");
        assert_eq!(age_ms(&metrics, &request(Vote::new_committed(4, 1), 4, 9)), None, "an old leadership");
        metrics.cluster_committed = Some(log_id(4, 7));
        assert_eq!(age_ms(&metrics, &request(vote, 4, 7)), None, "the leader before may have committed more");
    }
}
