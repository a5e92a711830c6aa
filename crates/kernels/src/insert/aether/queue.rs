//! The release queue of CDME (Aether, Algorithm 4 and A.3): an owner may leave its range to the
//! owner of the previous range.
//!
//! The paper uses linked nodes, as in Scott's abortable queue lock. Here ranges enter in the order
//! of their positions, under the latch. So a circular array of nodes, numbered by tickets, replaces
//! the list: the successor of ticket `k` is `k + 1`, whether it has entered or not.
//!
//! The *releaser* of a range advances `filled` over it: its owner or, if the owner has delegated
//! the range, the releaser of the previous range. The word of a node is a ticket `k` and its state:
//!
//! | state | meaning | next state, and the thread that changes it |
//! |---|---|---|
//! | VACANT | not taken | WAITING: an entering thread; GRANTED: the releaser of `k - 1` |
//! | WAITING | entered | DELEGATED: the owner, after copying; GRANTED: the releaser of `k - 1` |
//! | GRANTED | all earlier ranges are released | VACANT for `k + nodes`: the releaser of `k` |
//! | DELEGATED | copied, left to the releaser of `k - 1` | GRANTED: that releaser, to release it |
//!
//! Invariants:
//!
//! 1. Only the lowest ticket that is not released is granted, or is about to be granted by the
//!    thread that is releasing the previous ticket. So one thread at a time stores `filled`, in
//!    order.
//! 2. Either the owner ends WAITING by a compare-and-swap, or the releaser of the previous range
//!    does by a swap. In the first case the owner has delegated the range to that releaser. In the
//!    second case the owner was granted its ticket, and releases the range itself.
//! 3. A node is vacant for `k + nodes` only after `k` was released. A thread whose node is not
//!    vacant waits before it reserves. The thread waits without the latch, so that it does not
//!    block threads that need no node.
//!
//! The paper's list has no maximum length. If the run-ahead limit is at most 48 MiB, the array of a
//! log has more nodes than there can be ranges within that limit ([`ReleaseQueue::for_run_ahead`]).
//! The wait of invariant 3 then does not occur: admission bounds how far other threads get ahead of
//! a slow owner.
//!
//! One in [`KEEPS`] owners does not delegate and waits for its turn, so that no thread releases
//! ranges of other threads without end (the paper's treadmill). The paper chooses these owners at
//! random; here a hash of the ticket chooses them.

use super::super::mutants::{Built, Mutant};
use super::latch::Latch;
use super::order::Order;
use super::{BufferAccess, Range};
use crate::sync_shim::{AtomicU64, Ordering, pause};
use crossbeam_utils::CachePadded;

const VACANT: u64 = 0;
const WAITING: u64 = 1;
const GRANTED: u64 = 2;
const DELEGATED: u64 = 3;

/// One in this number of owners does not delegate, as in the paper.
pub const KEEPS: u64 = 32;

#[inline]
fn word(ticket: u64, state: u64) -> u64 {
    ticket << 2 | state
}

#[derive(Debug)]
struct Node {
    // Written by the threads that the table in the head names. Read-modify-writes are AcqRel: a
    // delegation publishes the owner's copy, and a grant passes on the order of the stores to
    // `filled`.
    word: AtomicU64,
    // End of the range. Written under the latch by the thread that enters. Read by the thread that
    // releases the range, which is the owner, or has seen the owner's delegation.
    end: AtomicU64,
}

impl Node {
    fn new(ticket: u64, state: u64) -> Self {
        Node { word: AtomicU64::new(word(ticket, state)), end: AtomicU64::new(0) }
    }
}

/// Number of nodes in two cache lines, because processors fetch two lines together.
const BESIDE: usize = 8;
/// Maximum number of nodes. They take 16 MiB, and are enough for a run-ahead limit of 48 MiB.
const NODES_MAX: usize = 1 << 20;

/// Returns the index of a ticket's node among `nodes`. The nodes of consecutive tickets are `1 <<
/// spread` places apart.
#[inline]
fn place_of(ticket: u64, nodes: usize, spread: u32) -> usize {
    let at = ticket as usize & (nodes - 1);
    let rows = nodes >> spread;
    ((at & (rows - 1)) << spread) | (at >> rows.trailing_zeros())
}

/// See the head of this file.
#[derive(Debug)]
pub struct ReleaseQueue {
    /// The nodes; their number is a power of two. If there are enough nodes, those of consecutive
    /// tickets are [`BESIDE`] places apart, and so on different cache lines.
    nodes: Box<[Node]>,
    /// Binary logarithm of the distance between the nodes of consecutive tickets.
    spread: u32,
    /// The next ticket. Accessed only under the latch.
    next: CachePadded<AtomicU64>,
    keeps: u64,
    built: Built,
}

impl ReleaseQueue {
    /// Makes a queue for a log whose ranges have at least `least` bytes. When a range enters, all
    /// earlier ranges lie within `run_ahead` bytes of the filled frontier.
    pub fn for_run_ahead(run_ahead: usize, least: usize) -> Self {
        // Two more nodes: one range is entering, and the node of one released range may not be
        // vacant yet.
        let nodes = (run_ahead / least + 2).next_power_of_two().min(NODES_MAX);
        ReleaseQueue::new(nodes, KEEPS, Built::default())
    }

    /// Makes a queue of `nodes` nodes, a power of two and at least 2. One owner in `keeps` waits
    /// for its turn.
    pub fn new(nodes: usize, keeps: u64, built: Built) -> Self {
        assert!(nodes >= 2 && nodes.is_power_of_two() && keeps > 0, "a node and its successor differ");
        let spread = if nodes > BESIDE * BESIDE { BESIDE.trailing_zeros() } else { 0 };
        let mut all: Vec<Node> = (0..nodes).map(|_| Node::new(0, VACANT)).collect();
        for ticket in 0..nodes as u64 {
            let state = if ticket == 0 { GRANTED } else { VACANT };
            all[place_of(ticket, nodes, spread)] = Node::new(ticket, state);
        }
        ReleaseQueue { nodes: all.into(), spread, next: CachePadded::new(AtomicU64::new(0)), keeps, built }
    }

    fn node(&self, ticket: u64) -> &Node {
        &self.nodes[place_of(ticket, self.nodes.len(), self.spread)]
    }

    fn keeps(&self, ticket: u64) -> bool {
        (ticket.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(self.keeps)
    }

    /// Tries to delegate `ticket` to the previous owner. Returns whether it did.
    fn delegates(&self, ticket: u64) -> bool {
        if self.keeps(ticket) {
            return false;
        }
        let word_of = &self.node(ticket).word;
        let (waiting, delegated) = (word(ticket, WAITING), word(ticket, DELEGATED));
        if self.built.is(Mutant::DelegatedUnasked) {
            let waits = word_of.load(Ordering::Acquire) == waiting;
            if waits {
                word_of.store(delegated, Ordering::Release);
            }
            return waits;
        }
        let success = self.built.order(Mutant::RelaxedDelegation, Ordering::AcqRel);
        word_of.compare_exchange(waiting, delegated, success, Ordering::Acquire).is_ok()
    }

    /// Grants `ticket`. Returns true if the owner of `ticket` has delegated it to the caller.
    fn grant(&self, ticket: u64) -> bool {
        let old = self.node(ticket).word.swap(word(ticket, GRANTED), Ordering::AcqRel);
        old == word(ticket, DELEGATED)
    }
}

impl Order for ReleaseQueue {
    fn has_room(&self) -> bool {
        let ticket = self.next.load(Ordering::Relaxed);
        let now = self.node(ticket).word.load(Ordering::Acquire);
        now == word(ticket, VACANT) || now == word(ticket, GRANTED)
    }

    fn enter(&self, latch: &Latch, end: u64) -> u64 {
        let ticket = self.next.load(Ordering::Relaxed);
        let node = self.node(ticket);
        node.end.store(end, Ordering::Relaxed);
        // The exchange fails if the previous owner has already left: it has then granted this
        // ticket.
        let _entered = node.word.compare_exchange(
            word(ticket, VACANT),
            word(ticket, WAITING),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        self.next.store(ticket + 1, Ordering::Relaxed);
        latch.give();
        ticket
    }

    fn release(&self, buffer: &impl BufferAccess, _: &Latch, range: Range) {
        let mut ticket = range.ticket;
        if self.delegates(ticket) {
            return;
        }
        let mut step = 0;
        while self.node(ticket).word.load(Ordering::Acquire) != word(ticket, GRANTED) {
            pause(step);
            step += 1;
        }
        loop {
            let node = self.node(ticket);
            let end = node.end.load(Ordering::Relaxed);
            if self.built.is(Mutant::GrantedEarly) {
                let left_to_us = self.grant(ticket + 1);
                buffer.advance_filled(end);
                node.word.store(word(ticket + self.nodes.len() as u64, VACANT), Ordering::Release);
                if !left_to_us {
                    return;
                }
            } else {
                buffer.advance_filled(end);
                node.word.store(word(ticket + self.nodes.len() as u64, VACANT), Ordering::Release);
                if !self.grant(ticket + 1) {
                    return;
                }
            }
            ticket += 1;
        }
    }
}
