//! Waiting: the waits-for graph, which also decides how each wait ends, and the parkers on which
//! threads sleep.
//!
//! The thread of a transaction runs this code only when a lock cannot be granted at once, or when
//! it grants a lock to another transaction.
//!
//! Rules:
//!
//! 1. A wait lasts as long as its node is in the graph. The wait ends exactly once, when a thread
//!    removes the node under the graph's mutex: the thread that grants the request (granted), the
//!    thread that finds a deadlock (victim), the waiter that gives up (timeout), or the thread that
//!    ends all waits (timeout). Each of these threads, except a waiter that gives up, stores the
//!    outcome in the parker before it unlocks the graph. So a waiter that finds its node gone finds
//!    its outcome.
//! 2. No wake-up is lost: the outcome is stored under the parker's mutex, and the waiter checks for
//!    it under that mutex before it sleeps. The notification itself is sent later, by
//!    [`Wakes::send`], with no latch held.
//! 3. Edges lead, directly or over other nodes, from a transaction to every other transaction for
//!    which it really waits. The exception is the time in which a victim has left the graph but not
//!    yet its queue. When the victim leaves the queue, the edges of the waiters behind it are
//!    recomputed and searched again. An edge to a transaction without a node ends there, so edges
//!    to ended transactions may stay.
//! 4. Every cycle is found when its last edge appears: when a wait begins, or when edges are
//!    recomputed. Exactly one transaction of the cycle is the victim: the youngest, which has the
//!    largest id and so probably the least work to lose.
//!
//! Latches are taken in this order: range mutex of a table, shard, graph, parker.

use super::resource::{Conflict, Resource};
use crate::error::ConflictKind;
use crate::ids::TxnId;
use crate::latch::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Outcome of a wait, as it is stored in the waiter's parker.
#[derive(Debug)]
pub(super) enum Outcome {
    Granted,
    Victim(Conflict),
}

/// The place where the thread of one transaction sleeps. All waits of the transaction use it, one
/// after another.
#[derive(Debug, Default)]
pub(super) struct Parker {
    outcome: Mutex<Option<Outcome>>,
    has_outcome: Condvar,
}

impl Parker {
    /// Sleeps until there is an outcome, and takes it. Returns `None` at the deadline.
    pub(super) fn park(&self, deadline: Option<Instant>) -> Option<Outcome> {
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            match deadline {
                None => self.has_outcome.wait(&mut outcome),
                Some(deadline) => {
                    if self.has_outcome.wait_until(&mut outcome, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        outcome.take()
    }

    fn store(&self, outcome: Outcome) {
        let before = self.outcome.lock().replace(outcome);
        debug_assert!(before.is_none(), "a wait ended twice");
    }
}

/// Threads whose outcome is stored, to be woken after the calling thread has released its latches.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Wakes(Vec<Arc<Parker>>);

impl Wakes {
    /// Wakes the threads. There is no `Drop` that wakes them: the order in which variables are
    /// declared would decide which latches the thread still holds at the wake-up.
    pub(super) fn send(self) {
        for parker in self.0 {
            parker.has_outcome.notify_one();
        }
    }
}

/// A transaction that waits.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) blockers: Vec<TxnId>,
    pub(super) wanted: Resource,
    parker: Arc<Parker>,
    /// Serial number of the last search that visited this node.
    seen: u64,
}

/// Counters since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LockStat {
    /// Number of requests that had to wait.
    pub(crate) waits: u64,
    /// Number of waits ended to break a deadlock.
    pub(crate) deadlocks: u64,
    /// Number of waits that ended with a timeout: they took longer than the limit, the thread
    /// waited for itself, or the database failed or was closed.
    pub(crate) timeouts: u64,
    /// Transactions that wait now.
    pub(crate) waiting: usize,
}

/// The waits-for graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<TxnId, Node>,
    /// Number of searches so far.
    searches: u64,
    stat: LockStat,
}

impl Graph {
    /// Starts a wait and breaks the cycles that it closes, perhaps by making `txn` itself a victim.
    pub(super) fn begin(
        &mut self,
        txn: TxnId,
        blockers: Vec<TxnId>,
        wanted: Resource,
        parker: Arc<Parker>,
        wakes: &mut Wakes,
    ) {
        let before = self.nodes.insert(txn, Node { blockers, wanted, parker, seen: 0 });
        debug_assert!(before.is_none(), "transaction {txn} waits twice");
        self.stat.waits += 1;
        self.break_cycles(txn, wakes);
    }

    /// Returns whether `to` is reachable from `from`.
    pub(super) fn leads_to(&mut self, from: TxnId, to: TxnId) -> bool {
        self.reaches(vec![from], to)
    }

    /// Ends all waits with a timeout.
    pub(super) fn end_all(&mut self, wakes: &mut Wakes) {
        for (victim, Node { blockers, wanted, parker, .. }) in std::mem::take(&mut self.nodes) {
            self.stat.timeouts += 1;
            let kind = ConflictKind::Timeout;
            parker.store(Outcome::Victim(Conflict { victim, blockers, wanted, kind, own: None }));
            wakes.0.push(parker);
        }
    }

    /// Replaces the blockers of `txn`, if it waits. The caller breaks cycles when all edges are in
    /// place.
    pub(super) fn redirect(&mut self, txn: TxnId, blockers: Vec<TxnId>) {
        if let Some(node) = self.nodes.get_mut(&txn) {
            node.blockers = blockers;
        }
    }

    /// Ends a wait by granting the request. Returns false if the wait had already ended.
    pub(super) fn grant(&mut self, txn: TxnId, wakes: &mut Wakes) -> bool {
        let Some(node) = self.nodes.remove(&txn) else { return false };
        node.parker.store(Outcome::Granted);
        wakes.0.push(node.parker);
        true
    }

    /// The first of `own` for which `txn` waits, directly or through other transactions. `None` if
    /// `txn` does not wait for any of them.
    pub(super) fn first_waited_for(&mut self, txn: TxnId, own: &[TxnId]) -> Option<TxnId> {
        let blockers = self.nodes.get(&txn)?.blockers.clone();
        own.iter().copied().find(|own| self.reaches(blockers.clone(), *own))
    }

    /// Ends the caller's own wait and returns its node. `None` if another thread has already ended
    /// the wait.
    pub(super) fn give_up(&mut self, txn: TxnId) -> Option<Node> {
        let node = self.nodes.remove(&txn)?;
        self.stat.timeouts += 1;
        Some(node)
    }

    /// Returns whether one of `from` waits for `txn`, directly or through other transactions.
    pub(super) fn any_reaches(&mut self, from: &[TxnId], txn: TxnId) -> bool {
        !from.is_empty() && self.is_waited_for(txn) && self.reaches(from.to_vec(), txn)
    }

    /// Returns whether `txn` is one of `open` or reachable from one of them. Each node is marked,
    /// so that it is visited only once: with hundreds of waits the queues of hot keys are long, and
    /// the search runs under one mutex.
    fn reaches(&mut self, mut open: Vec<TxnId>, txn: TxnId) -> bool {
        self.searches += 1;
        while let Some(next) = open.pop() {
            if next == txn {
                return true;
            }
            if let Some(node) = self.nodes.get_mut(&next)
                && node.seen != self.searches
            {
                node.seen = self.searches;
                open.extend_from_slice(&node.blockers);
            }
        }
        false
    }

    /// Picks victims until `txn` is in no cycle.
    pub(super) fn break_cycles(&mut self, txn: TxnId, wakes: &mut Wakes) {
        if !self.is_waited_for(txn) {
            return;
        }
        while let Some(cycle) = self.cycle_through(txn) {
            let Some(at) = (0..cycle.len()).max_by_key(|at| cycle[*at]) else { return };
            let victim = cycle[at];
            let Some(node) = self.nodes.remove(&victim) else { return };
            let Node { mut blockers, wanted, parker, .. } = node;
            // The victim's error names first the blocker that is in the cycle.
            let next = cycle[(at + 1) % cycle.len()];
            blockers.sort_by_key(|blocker| *blocker != next);
            self.stat.deadlocks += 1;
            let kind = ConflictKind::Deadlock;
            parker.store(Outcome::Victim(Conflict { victim, blockers, wanted, kind, own: None }));
            wakes.0.push(parker);
        }
    }

    /// Returns whether any transaction waits for `txn`. Mostly no transaction does, and one pass
    /// over the nodes is cheaper than a search.
    fn is_waited_for(&self, txn: TxnId) -> bool {
        self.nodes.values().any(|node| node.blockers.contains(&txn))
    }

    /// A cycle that contains `txn`, in the order of the waits. The search is depth-first without
    /// recursion, because the depth may be the number of waiting threads.
    fn cycle_through(&mut self, txn: TxnId) -> Option<Vec<TxnId>> {
        // In most calls there is no cycle, which a plain search finds out faster.
        if !self.reaches(self.nodes.get(&txn)?.blockers.clone(), txn) {
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut path = vec![(txn, self.nodes.get(&txn)?, 0)];
        while let Some((_, node, edge)) = path.last_mut() {
            let Some(next) = node.blockers.get(*edge).copied() else {
                path.pop();
                continue;
            };
            *edge += 1;
            if next == txn {
                return Some(path.into_iter().map(|(txn, _, _)| txn).collect());
            }
            if seen.insert(next)
                && let Some(node) = self.nodes.get(&next)
            {
                path.push((next, node, 0));
            }
        }
        None
    }

    pub(super) fn stat(&self) -> LockStat {
        LockStat { waiting: self.nodes.len(), ..self.stat }
    }

    /// Transactions that wait now.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = (TxnId, &Node)> {
        self.nodes.iter().map(|(txn, node)| (*txn, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TableId;

    fn id(id: u64) -> TxnId {
        TxnId::new(id)
    }

    fn begin(graph: &mut Graph, txn: u64, blockers: &[u64]) -> Arc<Parker> {
        let parker = Arc::new(Parker::default());
        let mut wakes = Wakes::default();
        let blockers = blockers.iter().map(|b| id(*b)).collect();
        graph.begin(id(txn), blockers, Resource::Table(TableId::new(1)), parker.clone(), &mut wakes);
        parker
    }

    fn waiting(graph: &Graph) -> Vec<u64> {
        graph.waiting().map(|(txn, _)| txn.get()).collect()
    }

    #[test]
    fn the_youngest_of_the_cycle_and_nobody_else_gives_way() {
        let mut graph = Graph::default();
        begin(&mut graph, 9, &[2]);
        begin(&mut graph, 1, &[5]);
        begin(&mut graph, 5, &[3, 2]);
        begin(&mut graph, 2, &[1]);
        assert_eq!(waiting(&graph), [1, 2, 9], "9 is younger but only waits for the cycle");
        assert_eq!(graph.stat.deadlocks, 1);
    }

    #[test]
    fn two_cycles_closed_at_once_are_both_broken() {
        let mut graph = Graph::default();
        begin(&mut graph, 7, &[1]);
        begin(&mut graph, 8, &[1]);
        let one = begin(&mut graph, 1, &[7, 8]);
        assert_eq!(waiting(&graph), [1]);
        assert_eq!(graph.stat.deadlocks, 2);
        assert!(one.outcome.lock().is_none());
    }

    #[test]
    fn a_waiter_that_closes_two_cycles_as_youngest_is_the_only_victim() {
        let mut graph = Graph::default();
        begin(&mut graph, 1, &[9]);
        begin(&mut graph, 2, &[9]);
        let nine = begin(&mut graph, 9, &[1, 2]);
        assert_eq!(waiting(&graph), [1, 2]);
        match nine.park(None) {
            Some(Outcome::Victim(conflict)) => {
                assert_eq!((conflict.victim, conflict.blockers), (id(9), vec![id(1), id(2)]));
            }
            other => panic!("{other:?}"),
        }
    }
}
