//! GRASSHOPPER: how the filled frontier is found by crawling over lists and hopping over ranges
//! (ELEDA, sections 4.1 and 4.2).
//!
//! Run by every appender, and by one tracker at a time, under `tracked`'s lock: the log's tracker
//! thread or another thread that scans. Checked under loom and the explorer.
//!
//! Each session has a crawling list of what it has filled, in order, and a hopping list that holds,
//! for each range of 2^H bytes in which one of its nodes starts, the number of the first such node.
//! Both are circles with one producer, the owner, and one consumer, the tracked. The hopping index
//! has a count of filled bytes for each range. After its copy an owner
//!
//! 1. puts a node into its crawling list,
//! 2. puts its number into the hopping list, if it is the session's first that starts in its range,
//! 3. adds the bytes to the index, to each range its own part.
//!
//! | word | written by | read by | ordering |
//! |---|---|---|---|
//! | `tail` of a list | the owner | the tracker | Release after the node (and the copy); Acquire |
//! | `head` of a list | the tracker | the owner, who keeps from overrunning it | Release; Acquire |
//! | index | owners, by `fetch_add` | the tracker | AcqRel after 1 and 2; Acquire |
//! | frontier, heap | the tracker | the tracker | under its lock |
//!
//! Invariants:
//!
//! 1. The frontier is the end of a record, and everything below has been in a node.
//! 2. Crawling: the frontier moves from a node's start to its end. The lowest start of all heads is
//!    on top of the heap.
//! 3. Hopping: if a range's count is full, every record that starts in it is in a list, for 1 comes
//!    before 3. So the frontier may go to the range's end, or to the end of the record that lies
//!    across it.
//! 4. A list has room before its owner reserves: no thread waits while it owns a hole.
//!
//! Where the paper leaves something open, or this code differs:
//!
//! - The paper sets an index entry to zero after a hop, though its Table 2 lets the tracker only
//!   read it. It does not say what happens to the entry of a range that was crawled through, to
//!   which an owner may still add in step 3. Here entries are never reset: they count all uses, and
//!   a use is full when the sum is. Ranges that share an entry lie so far apart ([`Lists::new`])
//!   that no owner adds for the next use before the frontier has passed the last one.
//! - It adds a record's size to one entry, also if the record lies across a boundary; then a range
//!   may never become exactly full. Here the size is divided.
//! - After a hop it moves heads to the hopping lists' first node beyond the boundary. A session
//!   between steps 1 and 2 has no such node yet though it has filled beyond: here the tracker,
//!   where the hopping list does not lead beyond, walks the rest of the crawling list.
//! - The paper's worker is one thread that never rests. Here a thread tracks that sleeps when the
//!   log is idle (`insert/tracker.rs`), and a thread that needs the frontier tracks too, in turn.
//! - Its lists have no end. Here they are circles of a node for each KiB of the run-ahead limit, at
//!   least 1,024 and at most 131,072. An owner whose list is full tracks by itself.
//! - Its threads are as far ahead of the worker as the log buffer has bytes (32 MiB, eight ranges
//!   of 4 MiB). Here as far as the run-ahead limit allows, at most half of the ring. Hopping needs
//!   a limit of several ranges: the default ring of 2 MiB has no room for one. ELEDA's figures have
//!   a ring of 32 MiB and half of it as the limit, on simulated cores 128 MiB and a quarter.
//! - Its third pointer, `gc`, and the callbacks that it is for, are `completion::Completions`,
//!   which the owner works off up to the durable frontier.

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

/// Nodes that share a cache line, wherever memory lies.
#[derive(Debug)]
#[repr(align(64))]
struct Line([Node; LINE_NODES]);

const LINE_NODES: usize = 4;

/// A circle: numbers count on for ever, places are numbers modulo its size.
#[derive(Debug)]
struct List {
    lines: Box<[Line]>,
    /// Nodes in use; the last line may have more.
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

    /// The owner.
    fn has_room(&self) -> bool {
        self.tail.load(Ordering::Relaxed) - self.head.load(Ordering::Acquire) < self.nodes as u64
    }

    /// The owner, having room: the number of the new node.
    fn push(&self, first: u64, second: u64, order: Ordering) -> u64 {
        let number = self.tail.load(Ordering::Relaxed);
        let node = self.node(number);
        node.start.store(first, Ordering::Relaxed);
        node.end.store(second, Ordering::Relaxed);
        self.tail.store(number + 1, order);
        number
    }

    /// The tracker: what is at the head.
    fn peek(&self) -> Option<(u64, u64)> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let node = self.node(head);
        Some((node.start.load(Ordering::Relaxed), node.end.load(Ordering::Relaxed)))
    }

    /// The tracked.
    fn move_head(&self, to: u64) {
        self.head.store(to, Ordering::Release);
    }

    /// The tracked.
    fn pop(&self) {
        self.move_head(self.head.load(Ordering::Relaxed) + 1);
    }
}

#[derive(Debug)]
struct Session {
    crawling: List,
    hopping: List,
    /// The owner's: one more than the range in which its last node starts.
    range: AtomicU64,
}

#[derive(Debug)]
struct Tracked {
    frontier: u64,
    /// Starts of the heads of crawling lists, and whose. At most one for each session.
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
    /// Held by one tracker at a time. A leaf latch.
    tracked: Mutex<Tracked>,
    nodes: usize,
    shift: u32,
    first_range: u64,
    built: Built,
}

impl Lists {
    /// Lists of `nodes` for each of `sessions`, ranges of 2^`shift` bytes, for a log that is filled
    /// up to `frontier` and never more than `ahead` bytes beyond.
    pub(super) fn new(
        sessions: usize,
        nodes: usize,
        shift: u32,
        frontier: u64,
        ahead: u64,
        built: Built,
    ) -> Self {
        // Enough entries that a use of an entry is over, the frontier being beyond its range,
        // before an owner adds for the next.
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
        // What lies below the frontier is filled.
        lists.entry(first_range).store(frontier - (first_range << shift), Ordering::Relaxed);
        lists
    }

    /// The session `index` will be used from now on. Callers serialise this among themselves.
    pub(super) fn open(&self, index: usize) {
        let nodes = self.nodes;
        self.sessions[index].get_or_init(|| Session {
            crawling: List::new(nodes),
            // One more: the tracker may pass a node between steps 1 and 2, and the entry stays
            // until it passes the next.
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

    /// Returns whether `range`, which the frontier has not passed, is filled altogether.
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

    /// The owner has filled `[start, end)`: steps 1 to 3.
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

    /// Advances the frontier as far as `cutoff`, what is reserved, lets it. Returns the new
    /// frontier.
    pub(super) fn track(&self, cutoff: u64) -> u64 {
        let mut tracked = self.lock();
        loop {
            let range = tracked.frontier >> self.shift;
            let before = tracked.frontier;
            // Within the range that is being reserved, crawling; behind it, hopping where it can
            // be.
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

    /// The bytes that the frontier has crawled and hopped.
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
        // The heap is built anew by the crawl that follows.
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

    /// Puts the session's head into the heap, if it is not there.
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

/// Moves the heads beyond all nodes that start below `boundary`, the begin of `range`; the end of
/// the last of them, or 0.
fn skip(session: &Session, range: u64, boundary: u64) -> u64 {
    let mut end = 0;
    // As far as the hopping list leads, without looking at the nodes between but the last.
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

/// The crawling list's head is about to be dropped: so is what of the hopping list leads no
/// further.
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
