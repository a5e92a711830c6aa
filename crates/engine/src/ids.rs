//! Identifiers of transactions, tables and engines.

use std::fmt;

/// The number of a transaction, unique in one opening of a database. Zero stands for no
/// transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TxnId(u64);

impl TxnId {
    /// No transaction. The records of structure changes and checkpoints have this number.
    pub const NONE: TxnId = TxnId(0);

    /// The transaction numbered `id`.
    pub const fn new(id: u64) -> Self {
        TxnId(id)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a table, which is never used again after the table is dropped. Zero is the
/// catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TableId(u32);

impl TableId {
    /// The number of the catalog, which maps names to tables.
    pub const CATALOG: TableId = TableId(0);

    /// The table numbered `id`.
    pub const fn new(id: u32) -> Self {
        TableId(id)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The engine of a database. The engine is chosen when the database is created, and cannot be
/// changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EngineKind {
    /// Pages, a buffer pool, strict two-phase locking and ARIES; for data larger than memory.
    #[default]
    Paged,
    /// All data in memory, optimistic multi-version concurrency control, and a log of several
    /// streams (Cicada over P-WAL).
    Memory,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EngineKind::Paged => "paged",
            EngineKind::Memory => "memory",
        })
    }
}
