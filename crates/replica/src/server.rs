//! The answering side of connections.
//!
//! One task accepts connections, and one task serves each connection. A connection begins with a
//! handshake, which refuses another version of the protocol, another cluster, and messages for
//! another replica. After the handshake a replica's connection carries the messages of the
//! [`Purpose`] that its [`Hello`] has named. A client's connection carries [`ClientCall`]s. No
//! input makes the server panic. Memory for messages is bounded for each connection. The decoder
//! buffers at most about one frame ([`PAYLOAD_BYTES_MAX`]). A connection for calls of a replica or
//! for a snapshot has one decoded message at a time. A client's connection runs many calls at a
//! time. The calls that are not answered have at most [`CALLS_BYTES_MAX`] bytes, as [`call_bytes`]
//! counts them, and one more call waits for room. A connection for appends decodes appends ahead of
//! Raft. The payloads of the appends that Raft has not answered have at most [`APPENDS_BYTES_MAX`]
//! bytes. At most 131 appends are unanswered: 1 waits for the channel, 64 are in the channel, and
//! openraft has taken at most 66. When the accepting task ends, all connections end.

use crate::client_message::{ClientCall, ClientHello, ClientReply, NumberedCall, NumberedReply, ROWS_BYTES};
use crate::frame::{Frame, FrameCodec, PAYLOAD_BYTES_MAX};
use crate::freshness::Freshness;
use crate::machine::{Machine, Snapshot};
use crate::message::{
    Append, Appended, Call, Greeting, Hello, Message, PROTOCOL, Purpose, Reply, SnapshotBegin, SnapshotEnd,
    SnapshotReply, SnapshotRows,
};
use crate::peer::{LinkError, Links, Wire, next, send};
use crate::runtime::blocking;
use crate::shared_connection::send_queued;
use crate::store::{Identity, Store};
use crate::transport::{Connection, Listener};
use crate::types::Types;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{SinkExt, Stream, StreamExt};
use openraft::Raft;
use openraft::alias::SnapshotOf;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::codec::Framed;

/// Maximum time for the first message of a connection.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum bytes of the unanswered appends of one connection. The payload of an append's frame
/// counts until Raft has answered the append. The longest append fits into this limit.
const APPENDS_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;
/// Maximum bytes of the unanswered calls of one client's connection, as [`call_bytes`] counts them.
/// The longest call fits into this limit.
const CALLS_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;
/// Minimum bytes that [`call_bytes`] counts for a call, so that a connection has at most 5,120
/// calls at a time.
const CALL_BYTES_MIN: usize = 8 << 10;
/// Pause after a failed accept, for example because too many files are open.
const PAUSE: Duration = Duration::from_millis(50);
/// Answer to a request to vote that comes too soon after a restart.
const TOO_EARLY: &str = "the replica has just started, and may not vote yet";

/// Parts of the replica that connections use.
pub(crate) struct Service {
    pub(crate) raft: Raft<Types, Machine>,
    pub(crate) store: Arc<Store>,
    pub(crate) identity: Identity,
    pub(crate) freshness: Arc<Freshness>,
    /// Maximum time until the next message of a snapshot.
    pub(crate) patience: Duration,
    /// Until this time the replica refuses requests to vote. See `group::hold_back`.
    pub(crate) votes_from: Instant,
    /// Set when the replica runs.
    pub(crate) clients: OnceLock<Weak<dyn Clients>>,
}

/// Carries out calls of clients.
pub(crate) trait Clients: Send + Sync {
    /// Answers one call. Dropping the future changes no outcome of a write.
    fn call(self: Arc<Self>, call: ClientCall) -> BoxFuture<'static, ClientReply>;
}

/// Accepts and serves connections until the future is dropped.
pub(crate) async fn serve(mut listener: Box<dyn Listener>, service: Arc<Service>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(connection) => {
                    let service = service.clone();
                    // The error of a connection is not reported here: the other side sees that the
                    // connection ends.
                    connections.spawn(async move { service.connection(connection).await.is_ok() });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}

impl Service {
    async fn connection(&self, connection: Box<dyn Connection>) -> Result<(), LinkError> {
        let mut wire = Framed::new(connection, FrameCodec::default());
        let first = tokio::time::timeout(HANDSHAKE, wire.next()).await.map_err(|_| LinkError::TimedOut)?;
        let first = first.ok_or(LinkError::Closed)??;
        if first.kind == ClientHello::KIND {
            return self.client(wire, &first).await;
        }
        let hello = Hello::from_frame(&first)?;
        if let Some(reason) = self.refusal(&hello) {
            return send(&mut wire, &Greeting::Refused(reason)).await;
        }
        send(&mut wire, &Greeting::Welcome).await?;
        match hello.purpose {
            Purpose::Calls => self.calls(wire).await,
            Purpose::Appends => self.appends(wire).await,
            Purpose::Snapshot => self.snapshot(wire).await,
        }
    }

    fn refusal(&self, hello: &Hello) -> Option<String> {
        let replica = self.identity.replica;
        let stranger = self.stranger(hello.protocol, hello.cluster);
        let misled = || (hello.to != replica).then(|| format!("it is replica {replica}, not {}", hello.to));
        stranger.or_else(misled)
    }

    fn stranger(&self, protocol: u16, cluster: [u8; 16]) -> Option<String> {
        if protocol != PROTOCOL {
            return Some(format!("it speaks version {PROTOCOL} of the protocol, not {protocol}"));
        }
        (cluster != self.identity.cluster).then(|| "it belongs to another cluster".to_owned())
    }

    /// Serves a client. Its calls run at the same time, and each is answered when it has ended.
    /// When the connection ends, so do the calls that are not answered.
    async fn client(&self, mut wire: Wire, first: &Frame) -> Result<(), LinkError> {
        let hello = ClientHello::from_frame(first)?;
        let cluster = hello.cluster.unwrap_or(self.identity.cluster);
        if let Some(reason) = self.stranger(hello.protocol, cluster) {
            return send(&mut wire, &Greeting::Refused(reason)).await;
        }
        send(&mut wire, &Greeting::Welcome).await?;
        serve_calls(wire, CALLS_BYTES_MAX, |call| Some(self.clients.get()?.upgrade()?.call(call))).await
    }

    fn may_not_vote(&self) -> bool {
        Instant::now() < self.votes_from
    }

    fn hear(&self, append: &Append) {
        if let (Some(age), Some(committed)) = (append.age_ms, &append.request.leader_commit) {
            self.freshness.hear(Instant::now(), Duration::from_millis(age), committed.index);
        }
    }

    async fn calls(&self, mut wire: Wire) -> Result<(), LinkError> {
        loop {
            let reply = match next(&mut wire).await? {
                Call::Append(append) => {
                    self.hear(&append);
                    self.raft
                        .append_entries(append.request)
                        .await
                        .map(Reply::Append)
                        .map_err(|e| e.to_string())
                }
                Call::Vote(vote) if !vote.leadership_transfer && self.may_not_vote() => Err(TOO_EARLY.into()),
                Call::PreVote(_) if self.may_not_vote() => Err(TOO_EARLY.into()),
                Call::Vote(vote) => self.raft.vote(vote).await.map(Reply::Vote).map_err(|e| e.to_string()),
                Call::PreVote(vote) => {
                    self.raft.pre_vote(vote).await.map(Reply::PreVote).map_err(|e| e.to_string())
                }
                Call::TransferLeader(request) => {
                    let handled = self.raft.handle_transfer_leader(request).await;
                    handled.map(Reply::TransferLeader).map_err(|e| e.to_string())
                }
            };
            send(&mut wire, &reply.unwrap_or_else(Reply::Failed)).await?;
        }
    }

    async fn appends(&self, wire: Wire) -> Result<(), LinkError> {
        pass_appends(
            wire,
            APPENDS_BYTES_MAX,
            |append| self.hear(append),
            |requests| self.raft.stream_append(requests),
        )
        .await
    }

    async fn snapshot(&self, mut wire: Wire) -> Result<(), LinkError> {
        let reply = match self.receive(&mut wire).await {
            Ok(installed) => SnapshotReply::Installed(installed),
            Err(error) => SnapshotReply::Failed(error.to_string()),
        };
        send(&mut wire, &reply).await
    }

    async fn receive(&self, wire: &mut Wire) -> Result<openraft::raft::SnapshotResponse<Types>, LinkError> {
        let failed = |error: crate::Error| LinkError::Failed(error.to_string());
        // A sender that has lost its power does not end the connection. Without these limits, each
        // such sender would leave an open database and its files here.
        let SnapshotBegin { vote, meta } = Links::within(self.patience, next(wire)).await?;
        let mut received = blocking(|| self.store.receive()).map_err(failed)?;
        loop {
            let frame = async { wire.next().await.ok_or(LinkError::Closed)?.map_err(LinkError::from) };
            let frame = Links::within(self.patience, frame).await?;
            if frame.kind == SnapshotEnd::KIND {
                let SnapshotEnd { rows } = SnapshotEnd::from_frame(&frame)?;
                if rows != received.rows() {
                    let reason = format!("{} rows of {rows} have arrived", received.rows());
                    return Err(LinkError::Failed(reason));
                }
                break;
            }
            let SnapshotRows { table, rows } = SnapshotRows::from_frame(&frame)?;
            blocking(|| received.add(&table, &rows)).map_err(failed)?;
        }
        let snapshot = SnapshotOf::<Types, Snapshot> { meta, snapshot: Snapshot::Received(received) };
        let installed = self.raft.install_full_snapshot(vote, snapshot).await;
        installed.map_err(|fatal| LinkError::Failed(fatal.to_string()))
    }
}

/// Returns the number of bytes as which a call counts until it is answered. A call counts as
/// `frame` bytes, the length of its frame's payload, but as at least [`CALL_BYTES_MIN`]. A range
/// counts as at least [`ROWS_BYTES`], because its reply may have about that size.
fn call_bytes(call: &ClientCall, frame: usize) -> usize {
    match call {
        ClientCall::Range { .. } => frame.max(ROWS_BYTES),
        _ => frame.max(CALL_BYTES_MIN),
    }
}

/// Runs the calls of a connection at the same time, as long as the unanswered calls have at most
/// `bytes_max` bytes, as [`call_bytes`] counts them. Each call is answered when it has ended. When
/// the connection ends, so do the calls that are not answered. `run` returns `None` if the replica
/// is closed.
async fn serve_calls(
    wire: Wire,
    bytes_max: usize,
    run: impl Fn(ClientCall) -> Option<BoxFuture<'static, ClientReply>>,
) -> Result<(), LinkError> {
    let (mut to, mut from) = wire.split();
    let room = Arc::new(Semaphore::new(bytes_max));
    let (replies, mut queue) = mpsc::unbounded_channel();
    let read = async {
        let mut running = JoinSet::new();
        loop {
            let frame = tokio::select! {
                biased;
                // A call that cannot be answered, or that panicked, ends the connection, so that
                // the client does not wait for it.
                Some(ended) = running.join_next() => match ended {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => return Err::<(), LinkError>(error),
                    Err(_) => return Err(LinkError::Closed),
                },
                frame = from.next() => frame.ok_or(LinkError::Closed)??,
            };
            let NumberedCall { number, call } = NumberedCall::from_frame(&frame)?;
            let bytes = call_bytes(&call, frame.payload.len()).min(bytes_max);
            drop(frame);
            // Nothing closes the semaphore, so there is always a permit in the end.
            let permit = room.clone().acquire_many_owned(bytes as u32).await;
            let answer = run(call).ok_or(LinkError::Closed)?;
            let replies = replies.clone();
            running.spawn(async move {
                let frame = NumberedReply { number, reply: answer.await }.to_frame()?;
                replies.send((frame, permit)).map_err(|_| LinkError::Closed)
            });
        }
    };
    let write = async {
        loop {
            // Dropping a permit makes room.
            if let Err(error) = send_queued(&mut to, &mut queue, |(frame, _permit)| frame).await {
                break Err::<(), LinkError>(error);
            }
        }
    };
    let ended: Result<((), ()), LinkError> = tokio::try_join!(read, write);
    ended.map(|_| ())
}

/// Passes each append of a connection to Raft without waiting for the answers to earlier ones, as
/// long as the unanswered appends have at most `bytes_max` bytes. An append longer than `bytes_max`
/// is passed once all earlier appends are answered. The answers come in the order of the appends,
/// each after its entries are durable.
async fn pass_appends<A, E>(
    wire: Wire,
    bytes_max: usize,
    hear: impl Fn(&Append),
    raft: impl FnOnce(BoxStream<'static, AppendEntriesRequest<Types>>) -> A,
) -> Result<(), LinkError>
where
    A: Stream<Item = Result<StreamAppendResult<Types>, E>>,
    E: fmt::Display,
{
    let (mut to, mut from) = wire.split();
    let (heard, requests) = mpsc::channel(64);
    let room = Arc::new(Semaphore::new(bytes_max));
    // The room that each unanswered append takes, in the order of the appends.
    let (taken, mut unanswered) = mpsc::unbounded_channel();
    let read = async {
        let (heard, taken) = (heard, taken);
        while let Some(frame) = from.next().await {
            let frame = frame?;
            let bytes = u32::try_from(frame.payload.len().min(bytes_max)).unwrap_or(u32::MAX);
            // Nothing closes the semaphore, so there is always a permit in the end.
            let Ok(permit) = room.clone().acquire_many_owned(bytes).await else { break };
            let append = Append::from_frame(&frame)?;
            drop(frame);
            hear(&append);
            if taken.send(permit).is_err() || heard.send(append.request).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let answer = async {
        let requests = futures_util::stream::unfold(requests, |mut requests| async move {
            let request = requests.recv().await?;
            Some((request, requests))
        });
        let mut answers = std::pin::pin!(raft(Box::pin(requests)));
        while let Some(answer) = answers.next().await {
            let answer = answer.map_err(|fatal| LinkError::Failed(fatal.to_string()))?;
            // Dropping the permit makes room.
            drop(unanswered.try_recv());
            to.send(Appended(answer).to_frame()?).await?;
        }
        // After a refusal the answers end, and so does the connection. The other side connects
        // again.
        Err(LinkError::Closed)
    };
    let ended: Result<((), ()), LinkError> = tokio::try_join!(read, answer);
    ended.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::types::{Entry, Leadership, LogId, Request, Vote};
    use crate::write_set::WriteSet;
    use futures_util::stream::unfold;
    use openraft::EntryPayload;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn append(bytes: usize) -> Append {
        let log_id = LogId::new(Leadership { term: 5, node_id: 1 }, 7);
        let id = RequestId { client: 1, sequence: 1 };
        let set = WriteSet::default().put("t", "k", vec![1; bytes]);
        let request = AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(5, 1),
            prev_log_id: None,
            leader_commit: None,
            entries: vec![Entry { log_id, payload: EntryPayload::Normal(Request::Write { id, set }) }],
        };
        Append { request, age_ms: None }
    }

    /// Lets all tasks run until each of them waits: the paused clock moves only then.
    async fn idle() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    fn wires() -> [Wire; 2] {
        let (near, far) = tokio::io::duplex(1 << 20);
        [near, far].map(|end| Framed::new(Box::new(end) as Box<dyn Connection>, FrameCodec::default()))
    }

    #[test]
    fn unanswered_calls_of_a_client_have_a_bounded_number_of_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let [near, mut far] = wires();
            // Calls run until the test lets one of them end.
            let (running, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
            let (count, end) = (running.clone(), ends.clone());
            let run = move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                let end = end.clone();
                Some(Box::pin(async move {
                    end.acquire().await.expect("open").forget();
                    ClientReply::Done
                }) as BoxFuture<'static, ClientReply>)
            };
            let serving = tokio::spawn(serve_calls(near, 3 * CALL_BYTES_MIN, run));
            let id = RequestId { client: 1, sequence: 1 };
            let large = WriteSet::default().put("t", "k", vec![1; 4 * CALL_BYTES_MIN]);
            let large = ClientCall::Write { id, set: large, all: false, wait_ms: 1 };
            let small = || ClientCall::Status;
            let calls = [small(), small(), small(), small(), large, small(), small()];
            for (call, number) in calls.into_iter().zip(0..) {
                send(&mut far, &NumberedCall { number, call }).await.expect("send");
            }
            // Numbers of calls that run or have ended, after 0, 1, 2 ... replies. The large call
            // runs alone.
            for expected in [3, 4, 4, 4, 5, 7, 7] {
                idle().await;
                assert_eq!(running.load(Ordering::Relaxed), expected);
                ends.add_permits(1);
                let NumberedReply { reply, .. } = next(&mut far).await.expect("a reply");
                assert_eq!(reply, ClientReply::Done);
            }
            drop(far);
            assert!(matches!(serving.await, Ok(Err(LinkError::Closed))));
        });
    }

    #[test]
    fn a_call_that_panics_ends_the_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let [near, mut far] = wires();
            let run = |call| {
                let answer = async move {
                    assert_ne!(call, ClientCall::Status, "a planted panic");
                    ClientReply::Done
                };
                Some(Box::pin(answer) as BoxFuture<'static, ClientReply>)
            };
            let serving = tokio::spawn(serve_calls(near, CALLS_BYTES_MAX, run));
            send(&mut far, &NumberedCall { number: 1, call: ClientCall::Status }).await.expect("send");
            assert!(matches!(next::<NumberedReply>(&mut far).await, Err(LinkError::Closed)));
            assert!(matches!(serving.await, Ok(Err(LinkError::Closed))));
        });
    }

    #[test]
    fn unanswered_appends_have_a_bounded_number_of_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let [near, far] = wires();
            // Raft takes each append at once, and answers when the test says so.
            let (answer, answers) = mpsc::unbounded_channel();
            let taken = Arc::new(AtomicUsize::new(0));
            let count = taken.clone();
            let raft = move |mut requests: BoxStream<'static, AppendEntriesRequest<Types>>| {
                tokio::spawn(async move {
                    while requests.next().await.is_some() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
                unfold(answers, |mut answers| async move {
                    let answer: Result<StreamAppendResult<Types>, Infallible> = Ok(answers.recv().await?);
                    Some((answer, answers))
                })
            };
            let frame = |bytes| append(bytes).to_frame().expect("encode");
            let bytes_max = 3 * frame(1_000).payload.len() + 500;
            let passing = tokio::spawn(pass_appends(near, bytes_max, |_| {}, raft));
            let (mut to, mut from) = far.split();
            // The second append is longer than all bytes that may be unanswered.
            for bytes in [1_000, 20_000, 1_000, 1_000, 1_000, 1_000, 1_000] {
                to.send(frame(bytes)).await.expect("send");
            }
            // Numbers of appends that Raft has taken after 0, 1, 2 ... answers.
            for expected in [1, 2, 5, 6, 7, 7, 7] {
                idle().await;
                assert_eq!(taken.load(Ordering::Relaxed), expected);
                answer.send(Ok(None)).expect("the connection is open");
                let answered = from.next().await.expect("open").expect("a frame");
                assert!(Appended::from_frame(&answered).expect("an answer").0.is_ok());
            }
            drop((to, from));
            drop(answer);
            assert!(matches!(passing.await, Ok(Err(LinkError::Closed))));
        });
    }
}
