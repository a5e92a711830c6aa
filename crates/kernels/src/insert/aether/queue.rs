//! The release queue of CDME (Aether, Algorithm 4 and A.3): a range may be left to the owner of the
//! one before it.
//!
//! The paper uses linked nodes after Scott's abortable queue lock. Ranges enter in the order of
//! their positions, under the latch, so a circle of nodes numbered by tickets does the same without
//! a list: the successor of ticket `k` is `k + 1`, come or not.
//!
//! Each node is one word, a ticket and its state:
//!
//! | state | meaning | next state, and the thread that changes it |
//! |---|---|---|
//! | VACANT | ticket `k` is not taken | WAITING: an entering thread; GRANTED: the owner before, when it leaves |
//! | WAITING | entered; something before it is not released | DELEGATED: its owner, after copying; GRANTED: the owner before |
//! | GRANTED | everything before it is released | VACANT for `k + nodes`: its owner, having released it |
//! | DELEGATED | copied and left to the owner before | GRANTED: that owner, who goes on with this one |
//!
//! Invariants:
//!
//! 1. Exactly one ticket that is not released is granted, or will be by the thread that is
//!    releasing: the lowest. So `filled` is stored by one thread at a time, in order.
//! 2. WAITING is left by a compare-and-swap of its owner or a swap of the one before, never by
//!    both: either the owner has delegated and the other goes on, or the owner was granted and
//!    releases.
//! 3. A node is vacant for `k + nodes` only after `k` was released. A thread whose node is not
//!    vacant waits before it reserves, without the latch, so that no other thread waits behind it
//!    for anything but the node.
//!
//! The paper's list has no length. A log's circle has more nodes than its run-ahead limit admits
//! ranges ([`ReleaseQueue::for_run_ahead`]): there the wait of rule 3 does not occur, and admission
//! limits how far a slow owner lets others go.
//!
//! One in [`KEEPS`] owners does not delegate and waits for its turn, so that no thread releases for
//! others without end (the treadmill). The paper draws that at random; here it follows from a hash
//! of the ticket.

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

/// The paper's 32.
pub const KEEPS: u64 = 32;

#[inline]
fn word(ticket: u64, state: u64) -> u64 {
    ticket << 2 | state
}

#[derive(Debug)]
struct Node {
    // By the owner, the entering thread and the owner before: see the table. Read-modify-writes are
    // AcqRel: what was copied goes with a delegation, the order of `filled` with a grant.
    word: AtomicU64,
    // Written under the latch by the thread that enters; read by the thread that releases, after
    // the owner's delegation or its own entering.
    end: AtomicU64,
}

impl Node {
    fn new(ticket: u64, state: u64) -> Self {
        Node { word: AtomicU64::new(word(ticket, state)), end: AtomicU64::new(0) }
    }
}

/// Nodes of two cache lines, which processors fetch together.
const BESIDE: usize = 8;
/// 16 MiB of nodes: enough for a run-ahead limit of 48 MiB.
const NODES_MAX: usize = 1 << 20;

/// Index of a ticket's node among `nodes`: neighbours in time are `1 << spread` places apart.
#[inline]
fn place_of(ticket: u64, nodes: usize, spread: u32) -> usize {
    let at = ticket as usize & (nodes - 1);
    let rows = nodes >> spread;
    ((at & (rows - 1)) << spread) | (at >> rows.trailing_zeros())
}

/// See the head of this file.
#[derive(Debug)]
pub struct ReleaseQueue {
    /// A power of two of them. Consecutive tickets are [`BESIDE`] nodes apart, if there are that
    /// many: on lines of their own.
    nodes: Box<[Node]>,
    /// Distance of neighbours, as a power of two.
    spread: u32,
    /// The next ticket. Under the latch only.
    next: CachePadded<AtomicU64>,
    keeps: u64,
    built: Built,
}

impl ReleaseQueue {
    /// Makes a queue for a log in which ranges of at least `least` bytes lie within `run_ahead`
    /// bytes of the filled frontier when another range enters.
    pub fn for_run_ahead(run_ahead: usize, least: usize) -> Self {
        // One more is entering, and one more may be released but not vacant yet.
        let nodes = (run_ahead / least + 2).next_power_of_two().min(NODES_MAX);
        ReleaseQueue::new(nodes, KEEPS, Built::default())
    }

    /// Makes a circle of `nodes`, a power of two from 2. One owner in `keeps` waits for its turn.
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

    /// Returns whether the ticket was left to the owner before it.
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

    /// Grants `ticket`. Returns whether its owner has left it to the caller.
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
        // Fails if the owner before has left meanwhile, or had when this was vacant: then it is
        // granted already.
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
