//! The release queue of CDME (Aether, Algorithm 4 and A.3): a range may be left to the owner of the one before it.
//!
//! The paper uses linked nodes after Scott's abortable queue lock. Ranges enter in the order of their positions, under the latch,
//! so a circle of nodes numbered by tickets does the same without a list: the successor of ticket `k` is `k + 1`, come or not.
//!
//! Each node is one word, a ticket and its state:
//!
//! | state | meaning | next, and who does it |
//! |---|---|---|
//! | VACANT | ticket `k` is not taken | WAITING: who enters; GRANTED: the owner before, who leaves |
//! | WAITING | entered; something before it is not released | DELEGATED: its owner, after copying; GRANTED: the owner before |
//! | GRANTED | everything before it is released | VACANT for `k + nodes`: its owner, having released it |
//! | DELEGATED | copied and left to the owner before | GRANTED: that owner, who goes on with this one |
//!
//! Invariants:
//!
//! 1. Exactly one ticket that is not released is granted, or will be by whoever is releasing: the lowest. So `filled` is stored by
//!    one thread at a time, in order.
//! 2. WAITING is left by a compare-and-swap of its owner or a swap of the one before, never by both: either the owner has
//!    delegated and the other goes on, or the owner was granted and releases.
//! 3. A node is vacant for `k + nodes` only after `k` was released. Whoever enters waits for that before it reserves.
//!
//! One in [`KEEPS`] owners does not delegate and waits for its turn, so that no thread releases for others without end (the
//! treadmill). The paper draws that at random; here it follows from a hash of the ticket.

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
    // By the owner, the entering thread and the owner before: see the table. Read-modify-writes are AcqRel: what was copied goes with
    // a delegation, the order of `filled` with a grant.
    word: AtomicU64,
    // Written under the latch by who enters; read by who releases, after the owner's delegation or its own entering.
    end: AtomicU64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct ReleaseQueue {
    nodes: Box<[CachePadded<Node>]>,
    /// The next ticket. Under the latch only.
    next: CachePadded<AtomicU64>,
    keeps: u64,
    built: Built,
}

impl ReleaseQueue {
    /// A circle of `nodes`, at least 2; one owner in `keeps` waits for its turn.
    pub fn new(nodes: usize, keeps: u64, built: Built) -> Self {
        assert!(nodes >= 2 && keeps > 0, "a node and its successor differ");
        let node = |ticket: u64| {
            let state = if ticket == 0 { GRANTED } else { VACANT };
            CachePadded::new(Node { word: AtomicU64::new(word(ticket, state)), end: AtomicU64::new(0) })
        };
        ReleaseQueue {
            nodes: (0..nodes as u64).map(node).collect(),
            next: CachePadded::new(AtomicU64::new(0)),
            keeps,
            built,
        }
    }

    fn node(&self, ticket: u64) -> &Node {
        &self.nodes[(ticket % self.nodes.len() as u64) as usize]
    }

    fn keeps(&self, ticket: u64) -> bool {
        (ticket.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(self.keeps)
    }

    /// Whether the ticket was left to the owner before it.
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

    /// Grants `ticket`; whether its owner has left it to the caller.
    fn grant(&self, ticket: u64) -> bool {
        let old = self.node(ticket).word.swap(word(ticket, GRANTED), Ordering::AcqRel);
        old == word(ticket, DELEGATED)
    }
}

impl Order for ReleaseQueue {
    fn make_room(&self) {
        let ticket = self.next.load(Ordering::Relaxed);
        let mut step = 0;
        loop {
            let now = self.node(ticket).word.load(Ordering::Acquire);
            if now == word(ticket, VACANT) || now == word(ticket, GRANTED) {
                return;
            }
            pause(step);
            step += 1;
        }
    }

    fn enter(&self, latch: &Latch, end: u64) -> u64 {
        let ticket = self.next.load(Ordering::Relaxed);
        let node = self.node(ticket);
        node.end.store(end, Ordering::Relaxed);
        // Fails if the owner before has left meanwhile, or had when this was vacant: then it is granted already.
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
