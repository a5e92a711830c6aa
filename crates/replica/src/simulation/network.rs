//! A simulated network: connections between hosts, which delay bytes and may break.
//!
//! The simulation has one thread. A connection is a stream like TCP's: it delivers the sent bytes
//! in order. Each write has a random delay of its own, so messages of different connections
//! overtake each other. Bytes in flight on an abandoned connection still arrive, late. Because
//! clients and replicas send messages again, late bytes make duplicates.
//!
//! | fault | effect |
//! |---|---|
//! | cut from A to B | nothing that A sends arrives at B until the cut is healed; then the bytes sent meanwhile arrive, or the connection breaks |
//! | reset | both sides fail at their next use; bytes in flight are lost |
//! | crash of a host | its connections are reset, or, if the crash is silent, its peers get nothing more |
//! | slow link | everything between two hosts takes longer |

use crate::frame::FrameCodec;
use crate::message::{Message, Reply};
use crate::transport::{Connection, Listener, Transport};
use crate::types::Vote;
use bytes::BytesMut;
use fastrand::Rng;
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::codec::Decoder;

/// Number of a host. A replica's host has the replica's number; clients and the operator have
/// larger ones.
pub type Host = u64;

/// Microseconds since the simulation began.
pub type Micros = u64;

/// Bytes in flight after which a writer waits.
const IN_FLIGHT_MAX: usize = 256 << 10;

/// Address of a replica.
pub fn address(host: Host) -> String {
    format!("host-{host}")
}

/// The simulated network between all hosts.
pub struct Network(Mutex<Inside>);

struct Inside {
    now: Micros,
    random: Rng,
    /// The longest usual delay.
    delay_max: Micros,
    next: u64,
    pipes: BTreeMap<u64, Pipe>,
    listeners: BTreeMap<String, Waiting>,
    arriving: Vec<(Micros, String, End)>,
    cut: BTreeSet<(Host, Host)>,
    slow: BTreeMap<(Host, Host), Micros>,
    /// The greatest vote that each host has sent to a candidate.
    given: BTreeMap<Host, Vote>,
    network: std::sync::Weak<Network>,
}

/// A listener, with the connections that have arrived and are not accepted yet.
#[derive(Default)]
struct Waiting {
    arrived: VecDeque<End>,
    waker: Option<Waker>,
}

/// One direction of a connection.
struct Pipe {
    from: Host,
    to: Host,
    in_flight: VecDeque<(Micros, Vec<u8>)>,
    bytes: usize,
    /// Arrival time of the last write. No later write arrives before it.
    last_at: Micros,
    /// Time at which the reader sees the end of the stream.
    ends_at: Option<Micros>,
    state: State,
    writer_gone: bool,
    reader_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Sound,
    Reset,
    /// Nothing arrives any more, and the reader gets no error.
    Silent,
}

impl Network {
    pub fn new(seed: u64, delay_max: Micros) -> Arc<Network> {
        Arc::new_cyclic(|network| {
            Network(Mutex::new(Inside {
                now: 0,
                random: Rng::with_seed(seed),
                delay_max,
                next: 0,
                pipes: BTreeMap::new(),
                listeners: BTreeMap::new(),
                arriving: Vec::new(),
                cut: BTreeSet::new(),
                slow: BTreeMap::new(),
                given: BTreeMap::new(),
                network: network.clone(),
            }))
        })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time to `now`, and wakes the tasks that have something to read or accept.
    pub fn advance(&self, now: Micros) {
        let mut inside = self.inside();
        inside.now = now;
        let mut wakers = Vec::new();
        let arriving = std::mem::take(&mut inside.arriving);
        let (due, later): (Vec<_>, Vec<_>) = arriving
            .into_iter()
            .partition(|(at, _, end)| *at <= now && !inside.cut.contains(&(end.peer, end.host)));
        inside.arriving = later;
        let mut refused = Vec::new();
        for (_, to, end) in due {
            match inside.listeners.get_mut(&to) {
                Some(listener) => {
                    listener.arrived.push_back(end);
                    wakers.extend(listener.waker.take());
                }
                None => refused.push(end),
            }
        }
        let Inside { pipes, cut, .. } = &mut *inside;
        for pipe in pipes.values_mut() {
            if pipe.is_ready(now, cut) {
                wakers.extend(pipe.reader.take());
            }
        }
        pipes.retain(|_, pipe| !(pipe.writer_gone && pipe.reader_gone));
        drop(inside);
        drop(refused);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Cuts the direction from one host to another.
    pub fn cut(&self, from: Host, to: Host) {
        self.inside().cut.insert((from, to));
    }

    /// Adds a delay in the direction from one host to another.
    pub fn slow(&self, from: Host, to: Host, by: Micros) {
        self.inside().slow.insert((from, to), by);
    }

    /// Returns the greatest vote that a host has sent to a candidate.
    pub fn given_vote(&self, host: Host) -> Option<Vote> {
        self.inside().given.get(&host).copied()
    }

    /// Ends all cuts and slow links. Half of the connections that were cut break.
    pub fn heal(&self) {
        let mut inside = self.inside();
        let Inside { pipes, cut, random, .. } = &mut *inside;
        let was_cut = std::mem::take(cut);
        let broken: Vec<u64> = pipes
            .iter()
            .filter(|(_, pipe)| was_cut.contains(&(pipe.from, pipe.to)))
            .map(|(id, _)| *id & !1)
            .filter(|_| random.bool())
            .collect();
        inside.slow.clear();
        let wakers = inside.break_all(&broken, State::Reset);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Breaks the connections between two hosts.
    pub fn reset(&self, a: Host, b: Host) {
        self.break_where(State::Reset, |pipe| {
            (pipe.from, pipe.to) == (a, b) || (pipe.from, pipe.to) == (b, a)
        });
    }

    /// Breaks the connections of a host that crashes.
    pub fn crash(&self, host: Host, is_silent: bool) {
        let state = if is_silent { State::Silent } else { State::Reset };
        self.break_where(state, |pipe| pipe.from == host || pipe.to == host);
        let mut inside = self.inside();
        let arriving = std::mem::take(&mut inside.arriving);
        let (gone, stay): (Vec<_>, Vec<_>) = arriving.into_iter().partition(|(_, _, end)| end.host == host);
        inside.arriving = stay;
        let listener = inside.listeners.remove(&address(host));
        drop(inside);
        drop((gone, listener));
    }

    fn break_where(&self, state: State, which: impl Fn(&Pipe) -> bool) {
        let mut inside = self.inside();
        let ids: Vec<u64> =
            inside.pipes.iter().filter(|(_, pipe)| which(pipe)).map(|(id, _)| *id & !1).collect();
        let wakers = inside.break_all(&ids, state);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Inside {
    /// Breaks both directions of connections. Each number in `ids` is even, and is one pipe of a
    /// connection; the other pipe has the next number.
    fn break_all(&mut self, ids: &[u64], state: State) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for id in ids.iter().flat_map(|id| [*id, *id + 1]) {
            let Some(pipe) = self.pipes.get_mut(&id) else { continue };
            pipe.state = state;
            if state == State::Reset {
                pipe.in_flight.clear();
                wakers.extend(pipe.reader.take());
                wakers.extend(pipe.writer.take());
            }
        }
        wakers
    }

    fn delay(&mut self, from: Host, to: Host) -> Micros {
        let usual = self.random.u64(100..=self.delay_max.max(101));
        let rare = if self.random.u8(..50) == 0 { self.random.u64(..300_000) } else { 0 };
        usual + rare + self.slow.get(&(from, to)).copied().unwrap_or(0)
    }

    fn pipe(&mut self, from: Host, to: Host) -> u64 {
        let id = self.next;
        self.next += 1;
        let pipe = Pipe {
            from,
            to,
            in_flight: VecDeque::new(),
            bytes: 0,
            last_at: 0,
            ends_at: None,
            state: State::Sound,
            writer_gone: false,
            reader_gone: false,
            reader: None,
            writer: None,
        };
        self.pipes.insert(id, pipe);
        id
    }
}

impl Pipe {
    fn is_ready(&self, now: Micros, cut: &BTreeSet<(Host, Host)>) -> bool {
        match self.state {
            State::Reset => true,
            State::Silent => false,
            State::Sound if cut.contains(&(self.from, self.to)) => false,
            State::Sound => match self.in_flight.front() {
                Some((at, _)) => *at <= now,
                None => self.ends_at.is_some_and(|at| at <= now),
            },
        }
    }
}

/// Returns the vote in `bytes` if they are a reply that gives a vote to a candidate. A replica
/// sends each reply in one write, so `bytes` are a whole frame.
fn given_vote(bytes: &[u8]) -> Option<Vote> {
    let frame = FrameCodec::default().decode(&mut BytesMut::from(bytes)).ok().flatten()?;
    match Reply::from_frame(&frame).ok()? {
        Reply::Vote(reply) if reply.vote_granted => Some(reply.vote),
        _ => None,
    }
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// One end of a connection.
struct End {
    network: Arc<Network>,
    host: Host,
    peer: Host,
    reads: u64,
    writes: u64,
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inside = self.network.inside();
        let Inside { pipes, cut, now, .. } = &mut *inside;
        let Some(pipe) = pipes.get_mut(&self.reads) else { return Poll::Ready(Err(reset())) };
        if !pipe.is_ready(*now, cut) {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if pipe.state == State::Reset {
            return Poll::Ready(Err(reset()));
        }
        while buf.remaining() > 0
            && let Some((at, bytes)) = pipe.in_flight.front_mut()
            && *at <= *now
        {
            let count = bytes.len().min(buf.remaining());
            buf.put_slice(&bytes[..count]);
            bytes.drain(..count);
            pipe.bytes -= count;
            if bytes.is_empty() {
                pipe.in_flight.pop_front();
            }
        }
        let writer = pipe.writer.take();
        drop(inside);
        writer.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut inside = self.network.inside();
        let delay = inside.delay(self.host, self.peer);
        let now = inside.now;
        let Some(pipe) = inside.pipes.get_mut(&self.writes) else { return Poll::Ready(Err(reset())) };
        if pipe.state == State::Reset || pipe.reader_gone {
            return Poll::Ready(Err(reset()));
        }
        if pipe.bytes >= IN_FLIGHT_MAX {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.last_at = pipe.last_at.max(now + delay);
        pipe.in_flight.push_back((pipe.last_at, buf.to_vec()));
        pipe.bytes += buf.len();
        if let Some(vote) = given_vote(buf) {
            let given = inside.given.entry(self.host).or_insert(vote);
            if vote > *given {
                *given = vote;
            }
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl End {
    fn end(&self) {
        let mut inside = self.network.inside();
        let delay = inside.delay(self.host, self.peer);
        let now = inside.now;
        if let Some(pipe) = inside.pipes.get_mut(&self.writes)
            && pipe.ends_at.is_none()
        {
            pipe.last_at = pipe.last_at.max(now + delay);
            pipe.ends_at = Some(pipe.last_at);
        }
    }
}

impl Drop for End {
    /// Ends the stream. Bytes in flight still arrive.
    fn drop(&mut self) {
        self.end();
        let mut inside = self.network.inside();
        if let Some(pipe) = inside.pipes.get_mut(&self.writes) {
            pipe.writer_gone = true;
        }
        let writer = inside.pipes.get_mut(&self.reads).and_then(|pipe| {
            pipe.reader_gone = true;
            pipe.writer.take()
        });
        drop(inside);
        writer.into_iter().for_each(Waker::wake);
    }
}

/// One host's access to the network.
pub struct Port {
    pub network: Arc<Network>,
    pub host: Host,
}

impl Transport for Port {
    fn connect(&self, to: &str) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let connected = self.open(to);
        Box::pin(async move { connected.map(|end| Box::new(end) as Box<dyn Connection>) })
    }

    fn listen(&self, at: &str) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        self.network.inside().listeners.insert(at.to_owned(), Waiting::default());
        let listener = Listening { network: self.network.clone(), address: at.to_owned() };
        Box::pin(async move { Ok(Box::new(listener) as Box<dyn Listener>) })
    }
}

impl Port {
    fn open(&self, to: &str) -> io::Result<End> {
        let peer = to.strip_prefix("host-").and_then(|host| host.parse().ok());
        let peer = peer.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut inside = self.network.inside();
        // Half of the attempts at a host without a replica are refused at once. Each other attempt
        // fails on arrival, or reaches a replica that has started meanwhile.
        if !inside.listeners.contains_key(to) && inside.random.bool() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (there, back) = (inside.pipe(self.host, peer), inside.pipe(peer, self.host));
        let at = inside.now + inside.delay(self.host, peer);
        let network = inside.network.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let end = |host, peer, reads, writes| End { network: network.clone(), host, peer, reads, writes };
        let (near, far) = (end(self.host, peer, back, there), end(peer, self.host, there, back));
        inside.arriving.push((at, to.to_owned(), far));
        Ok(near)
    }
}

struct Listening {
    network: Arc<Network>,
    address: String,
}

impl Listener for Listening {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        Box::pin(std::future::poll_fn(|cx| {
            let mut inside = self.network.inside();
            let Some(waiting) = inside.listeners.get_mut(&self.address) else { return Poll::Pending };
            match waiting.arrived.pop_front() {
                Some(end) => Poll::Ready(Ok(Box::new(end) as Box<dyn Connection>)),
                None => {
                    waiting.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}
