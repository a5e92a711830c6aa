//! The parts of the engines in which the designs differ.

/// Parts of the paged engine in which its designs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PagedParts {
    pub(super) isolation: Isolation,
    pub(super) path: Path,
    pub(super) tables: Tables,
    pub(super) latches: Latches,
}

/// The means by which a transaction sees one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Locks of keys.
    Locks,
    /// A view in the registry of all views.
    Registry,
    /// A view in the thread's own slot. A thread that commits reads all slots.
    OwnSlot,
}

/// The way to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// From the root, each page's latch taken before the latch above it is released.
    Root,
    /// By the map of routes.
    Route,
}

/// The latches of the pool's page tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// One word for each table.
    Shared,
    /// A word for each shard of threads, for all tables. A thread that changes a table takes all
    /// these words.
    Own,
}

/// The latches of pages, and what keeps a frame from being evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Latches {
    /// A word and a count in the frame.
    InFrame,
    /// Biased to readers (BRAVO, Dice and Kogan 2019): a reader announces the page in a line of its
    /// own, and reads in the frame that the bias holds. A writer ends the bias and looks at the
    /// lines of all readers.
    Biased,
}

/// Parts of the memory engine in which its designs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryParts {
    pub(super) begin: Begin,
    pub(super) points: Points,
    pub(super) records: Records,
}

/// The beginning and the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// A transaction that may write, and validates its reads.
    Write,
    /// A view, whose commit acknowledges the view's bound.
    View,
    /// A view that acknowledges only a version that it has seen and that is not acknowledged yet.
    /// Here there is no such version.
    Seen,
    /// A view that acknowledges as little as [`Begin::Seen`], and writes no line that other threads
    /// read. The words of writers, which every view reads, lie in lines of their own.
    OwnLine,
}

/// The latches of the points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Points {
    /// A word for each shard of the points.
    Shared,
    /// A word for each shard of threads, for all points.
    Own,
}

/// The way to a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Records {
    /// A reference to the record, the mutex of the record's versions, a reference to the value.
    Counted,
    /// The reader announces an epoch in a line of its own, and writes nothing into the record.
    /// Memory is freed when no reader is in an earlier epoch.
    Epochs,
}
