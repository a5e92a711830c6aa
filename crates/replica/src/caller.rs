//! Calls of a client: finding the leader, sending the call, and sending it again after a failure.
//!
//! This code runs in tasks of a runtime that the client or a simulation owns. All calls to a
//! replica share one connection. A call whose connection fails, or that gets no reply in time,
//! makes later calls use a new connection; the calls that are under way on the old one keep it
//! until they end. Invariants:
//!
//! 1. A write is sent again only under its id, so it is applied at most once, however often it is
//!    sent.
//! 2. A failed write is reported as not committed only in two cases: no try was sent, or each try
//!    that was sent was answered with an error that excludes a commit. In both cases no replica can
//!    have the write's entry in its log. Any other failure is [`Error::Unknown`].

use crate::client_message::{ClientCall, ClientHello, ClientReply, Key, ReadAt};
use crate::error::{Error, Result, UnknownReason};
use crate::frame::FrameCodec;
use crate::ids::RequestId;
use crate::message::{Greeting, PROTOCOL};
use crate::options::{Replicated, WriteOptions};
use crate::peer::{LinkError, next, send};
use crate::runtime::WAIT_MAX;
use crate::shared_connection::SharedConnection;
use crate::status::Status;
use crate::transport::Transport;
use crate::write_set::WriteSet;
use crate::writing::{Committed, Outcome};
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::codec::Framed;

/// Least pause between two tries of a call; the longest pause is twice as long. There is no pause
/// before a try at a leader that a replica has just named.
const PAUSE: Duration = Duration::from_millis(20);
/// Margin by which a replica stops waiting for a write's commit before the client stops waiting for
/// the answer, so that the answer arrives in time. The margin is at most a quarter of the client's
/// wait.
const ANSWER: Duration = Duration::from_millis(250);

/// Time between two tries.
fn pause() -> Duration {
    PAUSE.mul_f64(1.0 + fastrand::f64())
}

/// Sends the calls of a client: finds the leader, and sends a call again after a failure.
pub(crate) struct Caller {
    transport: Arc<dyn Transport>,
    cluster: Option<[u8; 16]>,
    patience: Duration,
    inside: Mutex<Inside>,
}

struct Inside {
    /// Addresses to try: those that were given, and those that replicas have named.
    addresses: Vec<String>,
    /// The address to try first.
    leader: Option<String>,
    connections: Vec<(String, Arc<OnceCell<SharedConnection>>)>,
}

/// A try that got no reply.
struct Unanswered {
    address: String,
    error: LinkError,
    /// True if the call was sent: the replica may then have received it.
    sent: bool,
}

impl From<Unanswered> for Error {
    fn from(Unanswered { address, error, .. }: Unanswered) -> Self {
        let source = match error {
            LinkError::Connect(source) => source,
            error => io::Error::other(error),
        };
        Error::io(format!("the replica at {address}"), source)
    }
}

impl Caller {
    pub(crate) fn new(
        addresses: Vec<String>,
        cluster: Option<[u8; 16]>,
        transport: Arc<dyn Transport>,
        patience: Duration,
    ) -> Self {
        let inside = Inside { addresses, leader: None, connections: Vec::new() };
        Caller { transport, cluster, patience, inside: Mutex::new(inside) }
    }

    // No code that panics runs under the latch.
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, address: &str) -> Result<SharedConnection, LinkError> {
        let connection = self.transport.connect(address).await.map_err(LinkError::Connect)?;
        let mut wire = Framed::new(connection, FrameCodec::default());
        send(&mut wire, &ClientHello { protocol: PROTOCOL, cluster: self.cluster }).await?;
        match next(&mut wire).await? {
            Greeting::Welcome => Ok(SharedConnection::new(wire)),
            Greeting::Refused(reason) => Err(LinkError::Refused(reason)),
        }
    }

    /// Returns the connection to the replica at `address`. It may not be made yet.
    fn connection(&self, address: &str) -> Arc<OnceCell<SharedConnection>> {
        let mut inside = self.inside();
        // A replica may have ended a connection that no call uses.
        inside.connections.retain(|(_, made)| !made.get().is_some_and(SharedConnection::is_closed));
        if let Some((_, connection)) = inside.connections.iter().find(|(of, _)| of == address) {
            return connection.clone();
        }
        let connection = Arc::<OnceCell<_>>::default();
        inside.connections.push((address.to_owned(), connection.clone()));
        connection
    }

    /// Sends a call to the replica at `address` once.
    async fn ask(
        &self,
        address: &str,
        call: &ClientCall,
        deadline: Instant,
    ) -> Result<ClientReply, Unanswered> {
        let mut sent = false;
        let connection = self.connection(address);
        let asked = async {
            let made = connection.get_or_try_init(|| self.connect(address)).await?;
            sent = true;
            made.call(call).await
        };
        let asked = tokio::time::timeout_at(deadline, asked).await;
        asked.unwrap_or(Err(LinkError::TimedOut)).map_err(|error| {
            self.inside().connections.retain(|(_, other)| !Arc::ptr_eq(other, &connection));
            Unanswered { address: address.to_owned(), error, sent }
        })
    }

    /// Sends a call to the replica at `address` and no other. Sends it a second time if the
    /// connection was closed or broke.
    pub(crate) async fn call_at(
        &self,
        address: &str,
        call: &ClientCall,
        wait: Duration,
    ) -> Result<ClientReply> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let first = self.ask(address, call, deadline).await;
        let reply = match first {
            Err(Unanswered { error: LinkError::Closed | LinkError::Frame(_), .. }) => {
                self.ask(address, call, deadline).await?
            }
            first => first?,
        };
        match reply {
            ClientReply::Refused(refusal) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }

    /// Address for the next try: the leader's if one is known, otherwise the next of the list.
    /// `nth` is the number of tries so far that took their address from the list. Tries at a named
    /// leader do not count, because a replica that names a wrong leader must not keep other
    /// addresses from their turn.
    fn address(&self, nth: &mut usize) -> String {
        let inside = self.inside();
        if let Some(leader) = &inside.leader {
            return leader.clone();
        }
        let address = inside.addresses.get(*nth % inside.addresses.len().max(1)).cloned();
        *nth += 1;
        address.unwrap_or_default()
    }

    /// Stores the address of the leader that a replica has named, or forgets the old one. Returns
    /// whether a leader is known.
    fn hear(&self, leader: Option<String>) -> bool {
        let mut inside = self.inside();
        if let Some(address) = &leader
            && !inside.addresses.contains(address)
        {
            inside.addresses.push(address.clone());
        }
        inside.leader = leader;
        inside.leader.is_some()
    }

    /// Repeats a call until a replica has carried it out or refused it for good, or until `wait` is
    /// over. An error comes with true if a replica may have an entry of the call in its log, and
    /// otherwise with false.
    async fn call(&self, call: &mut ClientCall, wait: Duration) -> Result<ClientReply, (Error, bool)> {
        let deadline = Instant::now() + wait.min(WAIT_MAX);
        let (mut maybe, mut redirected) = (false, false);
        // These two calls are answered only after another replica has caught up.
        let is_long = matches!(call, ClientCall::AddLearner { .. } | ClientCall::ChangeVoters { .. });
        let patience = if is_long { wait } else { self.patience };
        let mut nth = 0;
        loop {
            let address = self.address(&mut nth);
            let limit = deadline.min(Instant::now() + patience.min(WAIT_MAX));
            if let ClientCall::Write { wait_ms, .. } = call {
                let left = limit.duration_since(Instant::now());
                *wait_ms = (left - ANSWER.min(left / 4)).as_millis().try_into().unwrap_or(u64::MAX);
            }
            let (error, named) = match self.ask(&address, call, limit).await {
                Ok(ClientReply::Refused(refusal)) => match Error::from(refusal) {
                    Error::NotLeader { replica, leader } => {
                        let other =
                            leader.as_ref().map(|(_, other)| other).filter(|other| **other != address);
                        let named = self.hear(other.cloned());
                        (Error::NotLeader { replica, leader }, named)
                    }
                    error @ (Error::NoQuorum { .. }
                    | Error::TooStale { .. }
                    | Error::Stopped { .. }
                    | Error::Closed) => {
                        self.hear(None);
                        (error, false)
                    }
                    error @ Error::Unknown { .. } => {
                        self.hear(None);
                        maybe = true;
                        (error, false)
                    }
                    error => return Err((error, maybe)),
                },
                Ok(reply) => {
                    if !matches!(call, ClientCall::Get { .. } | ClientCall::Range { .. }) {
                        self.inside().leader = Some(address);
                    }
                    return Ok(reply);
                }
                Err(Unanswered { error: LinkError::Refused(reason), address, .. }) => {
                    // The replica belongs to another cluster or has another protocol version, so a
                    // further try would fail, too.
                    let source = io::Error::new(io::ErrorKind::ConnectionRefused, reason);
                    return Err((Error::io(format!("the replica at {address}"), source), maybe));
                }
                Err(unanswered) => {
                    self.hear(None);
                    maybe |= unanswered.sent;
                    (unanswered.into(), false)
                }
            };
            // A named leader is asked without a pause, unless the previous try was at a named
            // leader as well.
            redirected = named && !redirected;
            let pause = match redirected {
                true => Duration::ZERO,
                false => pause(),
            };
            if Instant::now() + pause >= deadline {
                return Err((error, maybe));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Repeats a call that replicas may carry out more than once without harm.
    pub(crate) async fn repeat(&self, mut call: ClientCall, wait: Duration) -> Result<ClientReply> {
        self.call(&mut call, wait).await.map_err(|(error, _)| error)
    }

    pub(crate) async fn open_client(&self, wait: Duration) -> Result<u64> {
        match self.repeat(ClientCall::OpenClient, wait).await? {
            ClientReply::Client(client) => Ok(client),
            reply => Err(unexpected(&reply)),
        }
    }

    pub(crate) async fn write(
        &self,
        id: RequestId,
        set: WriteSet,
        options: WriteOptions,
    ) -> Result<Committed> {
        set.check()?;
        let deadline = Instant::now() + options.wait.min(WAIT_MAX);
        let all = options.durability == Replicated::All;
        let mut call = ClientCall::Write { id, set, all, wait_ms: 0 };
        let mut before: Option<Committed> = None;
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            let committed = match (self.call(&mut call, wait).await, before) {
                // A voter that has the entry of a later try has the entries before it as well.
                (Ok(ClientReply::Committed { unconfirmed, .. }), Some(before)) => {
                    Committed { unconfirmed: &before.unconfirmed & &unconfirmed, ..before }
                }
                (Ok(ClientReply::Committed { index, unconfirmed }), None) => {
                    Committed { value: (), index, unconfirmed }
                }
                (Ok(reply), _) => return Err(unexpected(&reply)),
                (Err(_), Some(before)) => return Ok(before),
                // Invariant 2: these errors are true of all tries of the write. Any other error is
                // true only of the last try, because the replicas may have applied an earlier try
                // and forgotten it.
                (Err((error @ (Error::Cancelled { .. } | Error::Unknown { .. }), _)), None) => {
                    return Err(error);
                }
                (Err((_, true)), None) => return Err(Error::Unknown { id, reason: UnknownReason::TimedOut }),
                (Err((error, false)), None) => return Err(error),
            };
            let pause = pause();
            if committed.unconfirmed.is_empty() || Instant::now() + pause >= deadline {
                return Ok(committed);
            }
            // The replica stopped waiting for these voters at the end of the try. The next try
            // waits for them again.
            before = Some(committed);
            tokio::time::sleep(pause).await;
        }
    }

    pub(crate) async fn resolve(&self, id: RequestId, wait: Duration) -> Result<Outcome> {
        match self.repeat(ClientCall::Resolve { id }, wait).await? {
            ClientReply::Resolved(true) => Ok(Outcome::Committed),
            ClientReply::Resolved(false) => Ok(Outcome::NotCommitted),
            reply => Err(unexpected(&reply)),
        }
    }

    pub(crate) async fn get(
        &self,
        table: &str,
        key: &[u8],
        at: ReadAt,
        wait: Duration,
    ) -> Result<Option<Vec<u8>>> {
        let call = ClientCall::Get { table: table.to_owned(), key: Key(key.to_vec()), at };
        match self.repeat(call, wait).await? {
            ClientReply::Value(value) => Ok(value.map(|value| value.into_vec())),
            reply => Err(unexpected(&reply)),
        }
    }

    pub(crate) async fn status(&self, address: &str, wait: Duration) -> Result<Status> {
        match self.call_at(address, &ClientCall::Status, wait).await? {
            ClientReply::Status(status) => Ok(status),
            reply => Err(unexpected(&reply)),
        }
    }
}

/// Rows that a call returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Keys and values, in the order of the keys.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// True if the range has no more rows than these.
    pub is_whole: bool,
}

/// Makes the call that reads a range of rows.
pub(crate) fn range(
    table: &str,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    limit: u32,
    at: ReadAt,
) -> ClientCall {
    ClientCall::Range { table: table.to_owned(), low: low.map(Key), high: high.map(Key), limit, at }
}

/// Takes the rows out of a reply.
pub(crate) fn rows(reply: ClientReply) -> Result<Rows> {
    match reply {
        ClientReply::Rows { rows, is_whole } => {
            Ok(Rows { rows: rows.into_iter().map(|row| (row.0, row.1)).collect(), is_whole })
        }
        reply => Err(unexpected(&reply)),
    }
}

/// Checks that a reply is [`ClientReply::Done`].
pub(crate) fn done(reply: &ClientReply) -> Result<()> {
    if *reply == ClientReply::Done { Ok(()) } else { Err(unexpected(reply)) }
}

fn unexpected(reply: &ClientReply) -> Error {
    let kind = match reply {
        ClientReply::Status(_) => "a status",
        ClientReply::Client(_) => "a client",
        ClientReply::Committed { .. } => "a commit",
        ClientReply::Resolved(_) => "an outcome",
        ClientReply::Value(_) => "a value",
        ClientReply::Rows { .. } => "rows",
        ClientReply::Done | ClientReply::Refused(_) => "no content",
    };
    Error::io("a replica", io::Error::other(format!("it sent {kind}, which answers another call")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_message::{NumberedCall, NumberedReply, Refusal};
    use crate::peer::Wire;
    use crate::transport::{Connection, Listener};
    use futures_util::future::BoxFuture;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A replica that closes the first `lost` connections when it has received the call, and
    /// refuses each later call.
    struct Refusing {
        lost: AtomicUsize,
        refusal: Refusal,
    }

    impl Transport for Refusing {
        fn connect(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
            let (near, far) = tokio::io::duplex(1 << 16);
            let lost = self.lost.load(Ordering::Relaxed);
            self.lost.store(lost.saturating_sub(1), Ordering::Relaxed);
            let refusal = self.refusal.clone();
            tokio::spawn(async move {
                let mut wire: Wire = Framed::new(Box::new(far) as Box<dyn Connection>, FrameCodec::default());
                let _hello: ClientHello = next(&mut wire).await?;
                send(&mut wire, &Greeting::Welcome).await?;
                let NumberedCall { number, .. } = next(&mut wire).await?;
                let reply = ClientReply::Refused(refusal);
                match lost {
                    0 => send(&mut wire, &NumberedReply { number, reply }).await,
                    _ => Ok(()),
                }
            });
            Box::pin(async { Ok(Box::new(near) as Box<dyn Connection>) })
        }

        fn listen(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    #[test]
    fn a_forgotten_write_may_have_committed_by_an_earlier_try() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let id = RequestId { client: 1, sequence: 2 };
        let write = |lost, refusal: &Refusal| {
            let refusing = Refusing { lost: AtomicUsize::new(lost), refusal: refusal.clone() };
            let patience = Duration::from_secs(3);
            let caller = Caller::new(vec!["a".to_owned()], None, Arc::new(refusing), patience);
            let set = WriteSet::default().put("t", "k", "v");
            let outcome = runtime.block_on(caller.write(id, set, WriteOptions::default()));
            outcome.expect_err("it is refused")
        };
        for forgotten in [Refusal::TooOld { id }, Refusal::UnknownClient { id }] {
            let error = write(0, &forgotten);
            assert_eq!(Refusal::from(error), forgotten, "the only try was refused");
            let error = write(1, &forgotten);
            assert!(error.is_unknown(), "the replica may have applied the first try: {error}");
        }
        let cancelled = Refusal::Cancelled { id };
        assert_eq!(Refusal::from(write(1, &cancelled)), cancelled, "no try can have committed");
    }

    /// A leader to which a message takes 40 ms. Voter 3 has no entry before the call number `all`.
    struct Distant {
        all: usize,
        calls: Arc<AtomicUsize>,
    }

    impl Transport for Distant {
        fn connect(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
            let (near, far) = tokio::io::duplex(1 << 16);
            let (travel, all, calls) = (Duration::from_millis(40), self.all, self.calls.clone());
            tokio::spawn(async move {
                let mut wire: Wire = Framed::new(Box::new(far) as Box<dyn Connection>, FrameCodec::default());
                let _hello: ClientHello = next(&mut wire).await?;
                send(&mut wire, &Greeting::Welcome).await?;
                loop {
                    let NumberedCall { number, call: ClientCall::Write { wait_ms, .. } } =
                        next(&mut wire).await?
                    else {
                        panic!("a write")
                    };
                    let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
                    tokio::time::sleep(travel).await;
                    if call < all {
                        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                    }
                    tokio::time::sleep(travel).await;
                    let unconfirmed = if call < all { [3].into() } else { [].into() };
                    let reply = ClientReply::Committed { index: 10 + call as u64, unconfirmed };
                    if let Err(error) = send(&mut wire, &NumberedReply { number, reply }).await {
                        break Err::<(), LinkError>(error);
                    }
                }
            });
            Box::pin(async { Ok(Box::new(near) as Box<dyn Connection>) })
        }

        fn listen(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    #[test]
    fn a_write_to_all_voters_waits_as_long_as_it_may_and_names_the_missing_voter() {
        let id = RequestId { client: 1, sequence: 2 };
        let write = |all, wait| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let calls = Arc::new(AtomicUsize::new(0));
            let distant = Distant { all, calls: calls.clone() };
            let caller = Caller::new(vec!["a".to_owned()], None, Arc::new(distant), Duration::from_secs(3));
            let set = WriteSet::default().put("t", "k", "v");
            let options = WriteOptions { durability: Replicated::All, wait };
            runtime.expect("a runtime").block_on(async {
                let begun = Instant::now();
                let committed = caller.write(id, set, options).await.expect("it is committed");
                (committed, begun.elapsed(), calls.load(Ordering::Relaxed))
            })
        };
        let wait = Duration::from_secs(10);
        let (late, took, calls) = write(usize::MAX, wait);
        assert_eq!((late.unconfirmed, late.index), ([3].into(), 11));
        assert!(calls > 1 && took <= wait && took > wait - Duration::from_secs(2), "{calls} calls, {took:?}");
        let (all, _, calls) = write(3, wait);
        assert_eq!((all.unconfirmed, calls), ([].into(), 3));
        let (short, took, _) = write(usize::MAX, Duration::from_secs(1));
        assert_eq!(short.unconfirmed, [3].into());
        assert!(took <= Duration::from_secs(1), "{took:?}");
    }

    /// A group of three replicas: `a` has left it and still names the former leader `c`, which has
    /// gone, and `b` leads.
    struct Left;

    impl Transport for Left {
        fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
            if address == "c" {
                return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
            }
            let (near, far) = tokio::io::duplex(1 << 16);
            let reply = match address {
                "b" => ClientReply::Client(7),
                _ => {
                    let leader = Some((3, "c".to_owned()));
                    ClientReply::Refused(Refusal::NotLeader { replica: 1, leader })
                }
            };
            tokio::spawn(async move {
                let mut wire: Wire = Framed::new(Box::new(far) as Box<dyn Connection>, FrameCodec::default());
                let _hello: ClientHello = next(&mut wire).await?;
                send(&mut wire, &Greeting::Welcome).await?;
                loop {
                    let NumberedCall { number, .. } = next(&mut wire).await?;
                    let reply = reply.clone();
                    if let Err(error) = send(&mut wire, &NumberedReply { number, reply }).await {
                        break Err::<(), LinkError>(error);
                    }
                }
            });
            Box::pin(async { Ok(Box::new(near) as Box<dyn Connection>) })
        }

        fn listen(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    #[test]
    fn each_address_is_tried_even_if_a_replica_names_a_leader_that_has_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let addresses = ["a", "b"].map(str::to_owned).to_vec();
        let caller = Caller::new(addresses, None, Arc::new(Left), Duration::from_secs(3));
        let opened = runtime.expect("a runtime").block_on(caller.open_client(Duration::from_secs(10)));
        assert_eq!(opened.expect("replica b leads"), 7);
    }

    /// A replica whose first connection is dead after the handshake: nothing that is sent arrives.
    struct Dead {
        connections: AtomicUsize,
    }

    impl Transport for Dead {
        fn connect(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
            let (near, far) = tokio::io::duplex(1 << 16);
            let is_dead = self.connections.fetch_add(1, Ordering::Relaxed) == 0;
            tokio::spawn(async move {
                let mut wire: Wire = Framed::new(Box::new(far) as Box<dyn Connection>, FrameCodec::default());
                let _hello: ClientHello = next(&mut wire).await?;
                send(&mut wire, &Greeting::Welcome).await?;
                loop {
                    let NumberedCall { number, .. } = next(&mut wire).await?;
                    let reply = NumberedReply { number, reply: ClientReply::Client(7) };
                    if is_dead {
                        continue;
                    }
                    if let Err(error) = send(&mut wire, &reply).await {
                        break Err::<(), LinkError>(error);
                    }
                }
            });
            Box::pin(async { Ok(Box::new(near) as Box<dyn Connection>) })
        }

        fn listen(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    #[test]
    fn a_call_without_a_reply_makes_the_next_try_use_a_new_connection() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let dead = Arc::new(Dead { connections: AtomicUsize::new(0) });
        let caller = Caller::new(vec!["a".to_owned()], None, dead.clone(), Duration::from_secs(3));
        runtime.expect("a runtime").block_on(async {
            let calls = (0..3).map(|_| caller.open_client(Duration::from_secs(10)));
            for opened in futures_util::future::join_all(calls).await {
                assert_eq!(opened.expect("the second connection is sound"), 7);
            }
        });
        // The calls shared each of the two connections.
        assert_eq!(dead.connections.load(Ordering::Relaxed), 2);
    }
}
