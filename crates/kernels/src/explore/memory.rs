//! The explorer's memory: the values that a load may return under release/acquire rules.
//!
//! Each atomic location keeps every value that it ever had, in modification order. A thread's
//! [`View`] names, for each location, the oldest value that the thread may still read. The view
//! also has a clock for each thread: that thread's steps up to this clock happened before the
//! present step. A release store attaches the storing thread's view to the value; an acquire load
//! of the value joins the attached view into the loading thread's view. So an ordering that is too
//! weak shows as a load that legally returns an old value, and a missing happens-before edge as a
//! data race on plain bytes.
//!
//! Modelled: coherence, release/acquire, release sequences through read-modify-writes, fences, and
//! sequentially consistent operations as in C++20. The total order S of the sequentially consistent
//! operations is the order in which they run. If an operation in S has read or stored a value of a
//! location, no later operation in S reads an older value of this location. An operation learns
//! nothing of other locations by being in S. A fence in S takes over what earlier operations in S
//! have read or stored, and the views of earlier fences in S. For every location, no later
//! operation or fence in S reads a value that is older than the view of the fence's thread allows.
//!
//! Five things are not modelled: (1) stores to one location that take effect in another order than
//! that in which they ran; (2) orders S that differ from the order of the run; (3) reads of values
//! that are stored later (load buffering); (4) read-modify-writes that fail on an older value, or
//! spuriously; (5) returns from `park` without a token. Miri and loom run the same bodies and cover
//! other cases.

use std::sync::atomic::Ordering;

/// View of a thread: for each location the index of the oldest readable value, and for each thread
/// a clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    locations: Vec<u32>,
    clocks: Vec<u32>,
}

fn join(into: &mut Vec<u32>, from: &[u32]) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

fn slot(of: &mut Vec<u32>, index: usize) -> &mut u32 {
    if of.len() <= index {
        of.resize(index + 1, 0);
    }
    &mut of[index]
}

impl View {
    pub(super) fn join(&mut self, other: &View) {
        join(&mut self.locations, &other.locations);
        join(&mut self.clocks, &other.clocks);
    }

    pub(super) fn tick(&mut self, thread: usize) -> u32 {
        let clock = slot(&mut self.clocks, thread);
        *clock += 1;
        *clock
    }

    fn clock(&self, thread: usize) -> u32 {
        self.clocks.get(thread).copied().unwrap_or(0)
    }

    fn oldest(&self, location: usize) -> usize {
        self.locations.get(location).copied().unwrap_or(0) as usize
    }

    fn saw(&mut self, location: usize, index: usize) {
        let seen = slot(&mut self.locations, location);
        *seen = (*seen).max(u32::try_from(index).expect("few stores per run"));
    }
}

/// A thread's three views: its present view (`now`), the view that an acquire fence would add
/// (`acquirable`), and the view at its last release fence (`released`).
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadViews {
    pub(super) now: View,
    acquirable: View,
    released: View,
}

impl ThreadViews {
    /// Returns the views of a new thread or lock, which begin with the present view of `other`.
    pub(super) fn starting_from(other: &ThreadViews) -> Self {
        ThreadViews { now: other.now.clone(), ..ThreadViews::default() }
    }
}

#[derive(Debug)]
struct Message {
    value: u64,
    view: View,
}

#[derive(Debug)]
struct Location {
    history: Vec<Message>,
}

/// A plain (not atomic) access: the thread, and the thread's clock at the access.
#[derive(Debug, Clone, Copy)]
struct Access {
    thread: usize,
    clock: u32,
}

#[derive(Debug, Default)]
struct PlainCell {
    write: Option<Access>,
    reads: Vec<Access>,
}

/// All locations of one execution.
#[derive(Debug, Default)]
pub(super) struct Memory {
    atomics: Vec<Location>,
    plain: Vec<PlainCell>,
    /// For each location, the index of the oldest value that a sequentially consistent operation
    /// may read now.
    sequential: Vec<u32>,
}

fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl Memory {
    /// Adds an atomic location, which a thread with the view `creator` has initialised.
    pub(super) fn atomic(&mut self, value: u64, creator: &View) -> usize {
        self.atomics.push(Location { history: vec![Message { value, view: creator.clone() }] });
        self.atomics.len() - 1
    }

    /// Adds a plain cell.
    pub(super) fn cell(&mut self) -> usize {
        self.plain.push(PlainCell::default());
        self.plain.len() - 1
    }

    /// Number of values that a load may return now.
    pub(super) fn readable(&self, location: usize, views: &ThreadViews, order: Ordering) -> usize {
        let mut oldest = views.now.oldest(location);
        if order == Ordering::SeqCst {
            oldest = oldest.max(self.sequential.get(location).copied().unwrap_or(0) as usize);
        }
        self.atomics[location].history.len() - oldest
    }

    /// Loads the value `age` steps older than the newest.
    pub(super) fn load(
        &mut self,
        location: usize,
        age: usize,
        views: &mut ThreadViews,
        order: Ordering,
    ) -> u64 {
        let index = self.atomics[location].history.len() - 1 - age;
        self.take(location, index, views, order);
        self.place_in_s(location, index, order);
        self.atomics[location].history[index].value
    }

    /// Notes that an operation with this ordering has read or stored the value at `index`.
    fn place_in_s(&mut self, location: usize, index: usize, order: Ordering) {
        if order == Ordering::SeqCst {
            let seen = slot(&mut self.sequential, location);
            *seen = (*seen).max(u32::try_from(index).expect("few stores per run"));
        }
    }

    fn take(&self, location: usize, index: usize, views: &mut ThreadViews, order: Ordering) {
        let message = &self.atomics[location].history[index];
        views.now.saw(location, index);
        if acquires(order) {
            views.now.join(&message.view);
        }
        views.acquirable.join(&message.view);
    }

    /// Stores a value.
    pub(super) fn store(&mut self, location: usize, value: u64, views: &mut ThreadViews, order: Ordering) {
        self.append(location, value, views, order, None);
    }

    /// Reads the newest value, and replaces it if `change` returns a new value. Returns the value
    /// read.
    pub(super) fn modify(
        &mut self,
        location: usize,
        views: &mut ThreadViews,
        order: Ordering,
        failure: Ordering,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> u64 {
        let index = self.atomics[location].history.len() - 1;
        let old = self.atomics[location].history[index].value;
        match change(old) {
            Some(new) => {
                self.take(location, index, views, order);
                let sequence = self.atomics[location].history[index].view.clone();
                self.append(location, new, views, order, Some(sequence));
            }
            None => {
                self.take(location, index, views, failure);
                self.place_in_s(location, index, failure);
            }
        }
        old
    }

    fn append(
        &mut self,
        location: usize,
        value: u64,
        views: &mut ThreadViews,
        order: Ordering,
        sequence: Option<View>,
    ) {
        let index = self.atomics[location].history.len();
        views.now.saw(location, index);
        let mut view = if releases(order) { views.now.clone() } else { views.released.clone() };
        view.saw(location, index);
        if let Some(sequence) = sequence {
            view.join(&sequence);
        }
        self.atomics[location].history.push(Message { value, view });
        self.place_in_s(location, index, order);
    }

    /// A memory fence.
    pub(super) fn fence(&mut self, views: &mut ThreadViews, order: Ordering) {
        if acquires(order) {
            let acquirable = views.acquirable.clone();
            views.now.join(&acquirable);
        }
        if order == Ordering::SeqCst {
            join(&mut views.now.locations, &self.sequential);
            join(&mut self.sequential, &views.now.locations);
        }
        if releases(order) {
            views.released = views.now.clone();
        }
    }

    /// Raises a thread's view to the present newest value of every location, because stores become
    /// visible in the end. The call adds no happens-before edge.
    pub(super) fn catch_up(&self, views: &mut ThreadViews) {
        for (location, at) in self.atomics.iter().enumerate() {
            views.now.saw(location, at.history.len() - 1);
        }
    }

    /// Does a plain read. An error names the race.
    pub(super) fn plain_read(
        &mut self,
        cell: usize,
        thread: usize,
        views: &mut ThreadViews,
    ) -> Result<(), String> {
        let clock = views.now.tick(thread);
        let at = &mut self.plain[cell];
        if let Some(write) = at.write.filter(|w| w.thread != thread && views.now.clock(w.thread) < w.clock) {
            return Err(format!(
                "thread {thread} reads bytes that thread {} wrote without an edge between",
                write.thread
            ));
        }
        at.reads.retain(|read| read.thread != thread);
        at.reads.push(Access { thread, clock });
        Ok(())
    }

    /// Does a plain write. An error names the race.
    pub(super) fn plain_write(
        &mut self,
        cell: usize,
        thread: usize,
        views: &mut ThreadViews,
    ) -> Result<(), String> {
        let clock = views.now.tick(thread);
        let at = &mut self.plain[cell];
        let unordered = |a: &Access| a.thread != thread && views.now.clock(a.thread) < a.clock;
        if let Some(other) = at.write.iter().chain(at.reads.iter()).find(|a| unordered(a)) {
            return Err(format!(
                "thread {thread} overwrites bytes that thread {} accessed without an edge between",
                other.thread
            ));
        }
        at.write = Some(Access { thread, clock });
        at.reads.clear();
        Ok(())
    }
}
