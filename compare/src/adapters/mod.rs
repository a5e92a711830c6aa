//! Stores behind the `Store` trait of katydid-workload, one file for each. The head of each file
//! says which setting makes an acknowledged commit survive power loss, which syncs a commit takes,
//! and what transactions guarantee.
//!
//! 1. With [`Commits::Durable`] a commit is acknowledged only when it is on the device.
//! 2. A conflict is reported as `StoreError::Conflict` if another attempt may succeed. A store that
//!    admits one writer at a time makes other writers wait.
//! 3. A store without callbacks runs the callback of `commit_with` before `commit_with` returns, on
//!    the committing thread.

mod fjall;
mod katydid;
mod lmdb;
mod prefixes;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;
mod surrealkv;
#[cfg(test)]
mod tests;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

use katydid_workload::{Keys, Result, Store, StoreError};
use std::ops::Bound;
use std::path::Path;

/// Durability of an acknowledged commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// An acknowledged commit survives a loss of power.
    Durable,
    /// No durability that can be relied on: the store's fastest mode.
    Unsafe,
}

/// Options of a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub commits: Commits,
    /// Size of the store's cache of pages or blocks, in bytes. Stores with a B-tree count changed
    /// pages in it; LSM stores keep unwritten changes elsewhere. LMDB and Katydid's memory engine
    /// have no such cache, and ignore this option.
    pub cache_bytes: u64,
    /// Number of clients.
    pub clients: usize,
}

impl Options {
    fn durable(&self) -> bool {
        self.commits == Commits::Durable
    }
}

/// A store that can be closed and opened again.
pub trait Rival: Store {
    /// Closes the store. Committed changes are present when the store is opened again.
    fn close(self) -> Result<()>;

    /// Fills an empty table with entries whose keys ascend. Called only if [`Known::loads_sorted`]
    /// is true.
    fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &str,
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<()> {
        let _unused = entries;
        Err(failed(format!("{} has no call that fills {table} with sorted entries", self.describe())))
    }
}

/// Visitor of a store of any type.
pub trait Visit {
    type Output;
    fn visit<S: Rival>(self, store: &S) -> Result<Self::Output>;
}

/// A store that can be selected by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub name: &'static str,
    /// True if the store acknowledges commits by callbacks, so that a thread may have many in
    /// flight.
    pub callbacks: bool,
    /// True if the adapter has a call that fills a table with sorted entries.
    pub loads_sorted: bool,
    /// True if this build contains the store.
    pub built: bool,
}

const fn known(name: &'static str, callbacks: bool) -> Known {
    Known { name, callbacks, loads_sorted: false, built: true }
}

/// All stores. The first is compared with each of the others.
pub const ALL: [Known; 11] = [
    Known { loads_sorted: true, ..known("katydid", true) },
    known("katydid-memory", true),
    known("surrealkv", true),
    Known { built: cfg!(feature = "rocksdb"), ..known("rocksdb", false) },
    Known { built: cfg!(feature = "rocksdb"), ..known("rocksdb-optimistic", false) },
    known("fjall", false),
    known("fjall-optimistic", false),
    known("lmdb", false),
    known("redb", false),
    known("sqlite", false),
    Known { built: cfg!(feature = "wiredtiger"), ..known("wiredtiger", false) },
];

/// Opens the store called `name` in the existing folder `place`, runs `visit` on it and closes it.
pub fn with<V: Visit>(name: &str, place: &Path, options: &Options, visit: V) -> Result<V::Output> {
    match name {
        "katydid" => run(katydid::open(place, ::katydid::EngineKind::Paged, options)?, visit),
        "katydid-memory" => run(katydid::open(place, ::katydid::EngineKind::Memory, options)?, visit),
        "surrealkv" => run(surrealkv::SurrealKv::open(place, options)?, visit),
        "fjall" => run(fjall::Fjall::<fjall::SingleWriter>::open(place, options)?, visit),
        "fjall-optimistic" => run(fjall::Fjall::<fjall::Optimistic>::open(place, options)?, visit),
        "lmdb" => run(lmdb::Lmdb::open(place, options)?, visit),
        "redb" => run(redb::Redb::open(place, options)?, visit),
        "sqlite" => run(sqlite::Sqlite::open(place, options)?, visit),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => run(rocksdb::RocksDb::open(place, rocksdb::Kind::Locking, options)?, visit),
        #[cfg(feature = "rocksdb")]
        "rocksdb-optimistic" => {
            run(rocksdb::RocksDb::open(place, rocksdb::Kind::Optimistic, options)?, visit)
        }
        #[cfg(feature = "wiredtiger")]
        "wiredtiger" => run(wiredtiger::WiredTiger::open(place, options)?, visit),
        _ => Err(StoreError::Failed(format!("this build has no store {name:?}").into())),
    }
}

fn run<S: Rival, V: Visit>(store: S, visit: V) -> Result<V::Output> {
    let output = visit.visit(&store)?;
    store.close()?;
    Ok(output)
}

/// Makes the error of a call that would fail again in another attempt.
fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Failed(error.into())
}

fn bounds(keys: Keys<'_>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(keys.from), keys.to.map_or(Bound::Unbounded, Bound::Excluded))
}

fn exists(key: &[u8]) -> StoreError {
    StoreError::KeyExists(key.escape_ascii().to_string())
}

/// The error for a write in a read-only transaction.
fn read_only() -> StoreError {
    failed("a transaction that was begun to read only was asked to write")
}
