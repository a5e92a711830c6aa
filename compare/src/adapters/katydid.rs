//! Katydid. The adapter is part of katydid-workload.
//!
//! With `Commits::Durable`: `Durability::Durable`, the default. The log bypasses the page cache and
//! makes one durable write (`pwritev2` with `RWF_DSYNC`) for all commits that wait.
//!
//! With `Commits::Unsafe`: `Durability::Buffered`. A commit is acknowledged when its record is in
//! the log buffer.
//!
//! Transactions are serializable: strict two-phase locking in the paged engine, optimistic and
//! multi-version in the memory engine.

use super::{Commits, Options, Rival, failed};
use katydid::{Database, Durability, EngineKind, MemoryOptions, PagedOptions};
use katydid_workload::{KatydidStore, Result};
use std::path::Path;

pub fn open(place: &Path, engine: EngineKind, options: &Options) -> Result<KatydidStore> {
    let durability = match options.commits {
        Commits::Durable => Durability::Durable,
        Commits::Unsafe => Durability::Buffered,
    };
    let cache_bytes = usize::try_from(options.cache_bytes).map_err(failed)?;
    let paged = PagedOptions { cache_bytes, ..PagedOptions::default() };
    let engine = engine.with(paged, MemoryOptions::default());
    let options = katydid::Options { engine, durability, ..katydid::Options::default() };
    Ok(KatydidStore::new(Database::open_with(place, options).map_err(failed)?))
}

impl Rival for KatydidStore {
    fn close(self) -> Result<()> {
        self.database().close().map_err(failed)
    }

    fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &str,
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<()> {
        let table = self.database().table(table).map_err(failed)?;
        self.database().bulk_load(&table, entries).map(|_| ()).map_err(failed)
    }
}
