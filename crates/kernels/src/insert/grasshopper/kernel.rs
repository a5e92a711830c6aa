//! GRASSHOPPER (ELEDA, sections 4.1 and 4.2): a tracker finds the filled frontier by crawling over
//! lists and hopping over ranges.
//!
//! Every appender runs this code. One tracker at a time runs it under the lock of `tracked`: the
//! log's tracker thread, or another thread that scans. Loom and the explorer check it.
//!
//! Each session has a crawling list of the records that it has filled, in order. Each session also
//! has a hopping list. For each range of 2^H bytes in which nodes of the session start, this list
//! has the number of the first such node. Each list is circular, with one producer, its owner (the
//! appender that uses the session), and one consumer, the tracker. The hopping index has a count of
//! filled bytes for each range. When an owner has copied a record, it takes these steps:
//!
//! 1. put a node into its crawling list,
//! 2. put the node's number into the hopping list, if the node is the session's first in its range,
//! 3. add the record's bytes in each range to that range's count in the index.
//!
//! | word | written by | read by | ordering |
//! |---|---|---|---|
//! | `tail` of a list | the owner | the tracker | Release after the node (and the copy); Acquire |
//! | `head` of a list | the tracker | the owner, which must not overrun it | Release; Acquire |
//! | index | owners, by `fetch_add` | the tracker | AcqRel after steps 1 and 2; Acquire |
//! | frontier, heap (invariant 2) | the tracker | the tracker | under the lock of `tracked` |
//!
//! Invariants:
//!
//! 1. The frontier is the end of a record, and every record below it has been in a node.
//! 2. Crawling: the frontier moves from a node's start to its end. The tracker keeps the starts of
//!    the heads of all crawling lists in a heap, with the lowest start on top.
//! 3. Hopping: if a range's count is full, every record that starts in the range is in a list,
//!    because step 1 comes before step 3. So the frontier may advance to the range's end, or to the
//!    end of the record that crosses the range's end.
//! 4. A list has room before its owner reserves: no thread waits while it owns a hole.
//!
//! Differences from the paper, and points that the paper leaves open:
//!
//! - The paper sets an index entry to zero after a hop, although its Table 2 lets the tracker only
//!   read the entry. The paper does not say what happens to the entry of a range that the tracker
//!   has crawled through; an owner may still add to such an entry in step 3. Here entries are never
//!   reset. Several ranges use an entry in turn, and the entry counts the bytes of all of them. Its
//!   range number n, counted from 1, is full when the sum is n * 2^H. Ranges that share an entry
//!   lie far apart ([`Lists::new`]): the frontier passes one range before an owner adds to the
//!   entry for the next.
//! - The paper adds a record's size to one entry, even if the record crosses a boundary. With that
//!   rule the count of a range may never become exactly full. Here the size is divided between the
//!   entries.
//! - After a hop the paper moves each head to the first node of the hopping list beyond the
//!   boundary. A session between steps 1 and 2 may have no such node yet. So if the hopping list
//!   does not lead beyond the boundary, the tracker here walks the rest of the crawling list.
//! - The paper's worker is one thread that never sleeps. Here the tracker thread sleeps when the
//!   log is idle (`insert/tracker.rs`), and threads that need the frontier take turns at tracking
//!   too.
//! - The paper's lists have no maximum length. Here a list has one node for each KiB of the
//!   run-ahead limit, at least 1,024 and at most 131,072. An owner whose list is full runs the
//!   tracker itself.
//! - The paper's threads may be ahead of the worker by the whole log buffer (32 MiB, eight ranges
//!   of 4 MiB). Here they may be ahead by the run-ahead limit, at most half of the ring. Hopping
//!   needs a limit of several ranges, and the default ring for up to eight processors (2 MiB) is
//!   smaller than one range. Our runs of ELEDA's figures use a ring of 32 MiB and half of it as the
//!   limit. On simulated cores they use a ring of 128 MiB and a quarter of it.
//! - The paper's third pointer, `gc`, is for callbacks. Here `completion::Completions` has the
//!   callbacks. The thread that owns the `Completions` runs the callbacks of records up to the
//!   durable frontier.

use super::super::mutants::{Built, Mutant};
use crate::sync_shim::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{OnceLock, PoisonError};

#[derive(Debug)]
struct Node {
    start: AtomicU64,
    end: AtomicU64,
}

/// Nodes that share a cache line, wherever the allocator places them.
#[derive(Debug)]
#[repr(align(64))]
struct Line([Node; LINE_NODES]);

const LINE_NODES: usize = 4;

/// A circular list. The numbers of nodes only grow; a node's place is its number modulo the size.
#[derive(Debug)]
struct List {
    lines: Box<[Line]>,
    /// Number of nodes in use; the last line may have more.
    nodes: usize,
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU64>,
}

impl List {
    fn new(nodes: usize) -> Self {
        let node = |_| Node { start: AtomicU64::new(0), end: AtomicU64::new(0) };
        List {
            lines: (0..nodes.div_ceil(LINE_NODES)).map(|_| Line(std::array::from_fn(node))).collect(),
            nodes,
            head: CachePadded::new(AtomicU64::new(0)),
            tail: CachePadded::new(AtomicU64::new(0)),
        }
    }

    fn node(&self, number: u64) -> &Node {
        let place = (number % self.nodes as u64) as usize;
        &self.lines[place / LINE_NODES].0[place % LINE_NODES]
    }

    /// Returns whether the owner may push a node. Called by the owner.
    fn has_room(&self) -> bool {
        self.tail.load(Ordering::Relaxed) - self.head.load(Ordering::Acquire) < self.nodes as u64
    }

    /// Appends a node, and returns its number. Called by the owner, which has checked that there is
    /// room.
    fn push(&self, first: u64, second: u64, order: Ordering) -> u64 {
        let number = self.tail.load(Ordering::Relaxed);
        let node = self.node(number);
        node.start.store(first, Ordering::Relaxed);
        node.end.store(second, Ordering::Relaxed);
        self.tail.store(number + 1, order);
        number
    }

    /// Returns the node at the head. Called by the tracker.
    fn peek(&self) -> Option<(u64, u64)> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let node = self.node(head);
        Some((node.start.load(Ordering::Relaxed), node.end.load(Ordering::Relaxed)))
    }

    /// Moves the head to node number `to`. Called by the tracker.
    fn move_head(&self, to: u64) {
        self.head.store(to, Ordering::Release);
    }

    /// Drops the node at the head. Called by the tracker.
    fn pop(&self) {
        self.move_head(self.head.load(Ordering::Relaxed) + 1);
    }
}

#[derive(Debug)]
struct Session {
    crawling: List,
    hopping: List,
    /// One more than the number of the range in which the session's last node starts. Accessed only
    /// by the owner.
    range: AtomicU64,
}

#[derive(Debug)]
struct Tracked {
    frontier: u64,
    /// The start of the head of each crawling list, with the number of its session. Each session
    /// has at most one entry.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    in_heap: Vec<bool>,
    crawled: u64,
    hopped: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Lists {
    sessions: Box<[OnceLock<Session>]>,
    used: CachePadded<AtomicUsize>,
    index: Box<[CachePadded<AtomicU64>]>,
    /// One tracker at a time holds this leaf latch.
    tracked: Mutex<Tracked>,
    nodes: usize,
    shift: u32,
    first_range: u64,
    built: Built,
}

impl Lists {
    /// Makes lists of `nodes` nodes for each of `sessions`, and ranges of 2^`shift` bytes. The log
    /// is filled up to `frontier`. At most `ahead` bytes are ever reserved beyond the frontier.
    pub(super) fn new(
        sessions: usize,
        nodes: usize,
        shift: u32,
        frontier: u64,
        ahead: u64,
        built: Built,
    ) -> Self {
        // With this number of entries, the frontier has passed a range before an owner adds to the
        // same entry for a later range.
        let entries = (ahead >> shift) + 2;
        let first_range = frontier >> shift;
        let index: Box<[_]> = (0..entries).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        let lists = Lists {
            sessions: (0..sessions).map(|_| OnceLock::new()).collect(),
            used: CachePadded::new(AtomicUsize::new(0)),
            index,
            tracked: Mutex::new(Tracked {
                frontier,
                heap: BinaryHeap::new(),
                in_heap: vec![false; sessions],
                crawled: 0,
                hopped: 0,
            }),
            nodes,
            shift,
            first_range,
            built,
        };
        // The part of the first range below the frontier is filled.
        lists.entry(first_range).store(frontier - (first_range << shift), Ordering::Relaxed);
        lists
    }

    /// Announces that the session `index` will be used from now on. Callers make these calls one at
    /// a time.
    pub(super) fn open(&self, index: usize) {
        let nodes = self.nodes;
        self.sessions[index].get_or_init(|| Session {
            crawling: List::new(nodes),
            // The list has one node more, because the tracker may pass a node between steps 1 and
            // 2; that node's number stays in the hopping list until the tracker passes the next
            // node.
            hopping: List::new(nodes + 1),
            range: AtomicU64::new(0),
        });
        if index >= self.used.load(Ordering::Relaxed) {
            self.used.store(index + 1, Ordering::Release);
        }
    }

    fn session(&self, index: usize) -> Option<&Session> {
        self.sessions[index].get()
    }

    fn entry(&self, range: u64) -> &AtomicU64 {
        &self.index[(range % self.index.len() as u64) as usize]
    }

    /// Returns whether `range`, which the frontier has not passed, is completely filled.
    fn is_full(&self, range: u64) -> bool {
        let uses = (range - self.first_range) / self.index.len() as u64 + 1;
        self.entry(range).load(Ordering::Acquire) == uses << self.shift
    }

    /// Returns whether the owner may reserve (invariant 4).
    #[inline]
    pub(super) fn has_room(&self, index: usize) -> bool {
        self.built.is(Mutant::ListOverrun)
            || self.session(index).is_some_and(|session| session.crawling.has_room())
    }

    /// Does steps 1 to 3 for `[start, end)`, which the owner has filled.
    #[inline]
    pub(super) fn filled(&self, index: usize, start: u64, end: u64) {
        if self.built.is(Mutant::CountedFirst) {
            self.count(start, end);
        }
        let Some(session) = self.session(index) else { return };
        let order = self.built.order(Mutant::RelaxedTail, Ordering::Release);
        let number = session.crawling.push(start, end, order);
        let range = start >> self.shift;
        if session.range.load(Ordering::Relaxed) != range + 1 {
            session.range.store(range + 1, Ordering::Relaxed);
            session.hopping.push(range, number, Ordering::Release);
        }
        if !self.built.is(Mutant::CountedFirst) {
            self.count(start, end);
        }
    }

    fn count(&self, start: u64, end: u64) {
        let order = self.built.order(Mutant::RelaxedCount, Ordering::AcqRel);
        let mut from = start;
        while from < end {
            let range = from >> self.shift;
            let to = end.min((range + 1) << self.shift);
            self.entry(range).fetch_add(to - from, order);
            from = to;
        }
    }

    /// Advances the frontier as far as possible, at most to `cutoff`, the reserved frontier.
    /// Returns the new frontier.
    pub(super) fn track(&self, cutoff: u64) -> u64 {
        let mut tracked = self.lock();
        loop {
            let range = tracked.frontier >> self.shift;
            let before = tracked.frontier;
            // Hop over full ranges below the range that is being reserved. Crawl everywhere else.
            if cutoff >> self.shift > range && self.is_full(range) {
                self.hop(&mut tracked, range, cutoff);
                tracked.hopped += tracked.frontier - before;
            } else {
                self.crawl(&mut tracked, cutoff);
                tracked.crawled += tracked.frontier - before;
            }
            if tracked.frontier == before {
                return before;
            }
        }
    }

    /// Returns the numbers of bytes by which crawling and hopping have advanced the frontier.
    pub(super) fn travelled(&self) -> (u64, u64) {
        let tracked = self.lock();
        (tracked.crawled, tracked.hopped)
    }

    fn hop(&self, tracked: &mut Tracked, full: u64, cutoff: u64) {
        let mut range = full + 1;
        while cutoff >> self.shift > range && self.is_full(range) {
            range += 1;
        }
        let boundary = range << self.shift;
        tracked.frontier = tracked.frontier.max(boundary);
        tracked.heap.clear();
        let used = self.used.load(Ordering::Acquire);
        for index in 0..used {
            tracked.in_heap[index] = false;
            let Some(session) = self.session(index) else { continue };
            let end = skip(session, range, boundary);
            tracked.frontier = tracked.frontier.max(end);
        }
        // The crawl that follows builds the heap again.
    }

    fn crawl(&self, tracked: &mut Tracked, cutoff: u64) {
        let used = self.used.load(Ordering::Acquire);
        for index in 0..used {
            self.show_head(tracked, index);
        }
        while let Some(&Reverse((start, index))) = tracked.heap.peek()
            && start == tracked.frontier
        {
            let range = start >> self.shift;
            if cutoff >> self.shift > range && self.is_full(range) {
                return;
            }
            let Some(session) = self.session(index) else { return };
            if let Some((_, end)) = session.crawling.peek() {
                tracked.frontier = end;
            }
            tracked.heap.pop();
            tracked.in_heap[index] = false;
            drop_hopping(session);
            session.crawling.pop();
            self.show_head(tracked, index);
        }
    }

    /// Puts the head of the session's crawling list into the heap, if it is not there.
    fn show_head(&self, tracked: &mut Tracked, index: usize) {
        if !tracked.in_heap[index]
            && let Some(session) = self.session(index)
            && let Some((start, _)) = session.crawling.peek()
        {
            tracked.heap.push(Reverse((start, index)));
            tracked.in_heap[index] = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tracked> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves the heads of the session's lists beyond all nodes that start below `boundary`, the start
/// of `range`. Returns the end of the last of these nodes, or 0.
fn skip(session: &Session, range: u64, boundary: u64) -> u64 {
    let mut end = 0;
    // Skip nodes with the hopping list, without a look at the nodes between.
    while let Some((first_in, number)) = session.hopping.peek() {
        let head = session.crawling.head.load(Ordering::Relaxed);
        if number > head {
            end = session.crawling.node(number - 1).end.load(Ordering::Relaxed);
            session.crawling.move_head(number);
        }
        if first_in >= range {
            break;
        }
        session.hopping.pop();
    }
    while let Some((start, node_end)) = session.crawling.peek()
        && start < boundary
    {
        end = node_end;
        session.crawling.pop();
    }
    end
}

/// Drops the nodes of the hopping list that do not lead beyond the head of the crawling list, which
/// is about to be dropped.
fn drop_hopping(session: &Session) {
    let head = session.crawling.head.load(Ordering::Relaxed);
    while let Some((_, number)) = session.hopping.peek()
        && number <= head
    {
        session.hopping.pop();
    }
}

#[cfg(test)]
mod checks;
