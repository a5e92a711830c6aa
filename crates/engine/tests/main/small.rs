//! Bytes of a new database on disk, with the default options.

use katydid::{Database, EngineKind, EngineOptions, MemoryOptions, Options};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const LIMIT: u64 = 4 << 20;

/// Returns the number of bytes of the disk blocks that a folder's files take, and the sum of the
/// files' lengths.
fn on_disk(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(folder).expect("list") {
        let entry = entry.expect("entry");
        let metadata = entry.metadata().expect("metadata");
        let (blocks, length) = if metadata.is_dir() {
            on_disk(&entry.path())
        } else {
            (metadata.blocks() * 512, metadata.len())
        };
        sum = (sum.0 + blocks, sum.1 + length);
    }
    sum
}

fn assert_small(folder: &Path, what: &str) {
    let (blocks, length) = on_disk(folder);
    assert!(length > 0 && blocks.max(length) <= LIMIT, "{what}: {length} bytes in {blocks} of blocks");
}

#[test]
fn a_database_without_or_with_one_key_takes_at_most_4_mib() {
    let memory = |streams| EngineOptions::Memory(MemoryOptions { streams, ..MemoryOptions::default() });
    // 64 streams are as many as a machine of 64 processors makes.
    for engine in [EngineKind::Paged.into(), EngineKind::Memory.into(), memory(1), memory(64)] {
        let what = format!("{engine:?}");
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { engine, ..Options::default() };
        let database = Database::open_with(folder.path(), options.clone()).expect("open");
        assert_small(folder.path(), &what);
        let table = database.table("fruit").expect("table");
        database.put(&table, "apple", "red").expect("put");
        assert_small(folder.path(), &what);
        database.checkpoint().expect("checkpoint");
        database.close().expect("close");
        drop((table, database));
        for _ in 0..2 {
            assert_small(folder.path(), &what);
            let database = Database::open_with(folder.path(), options.clone()).expect("open again");
            let table = database.table("fruit").expect("table");
            let found = database.get(&table, "apple").expect("get");
            assert_eq!(found.as_deref(), Some(&b"red"[..]), "{what}");
        }
        assert_small(folder.path(), &what);
    }
}
