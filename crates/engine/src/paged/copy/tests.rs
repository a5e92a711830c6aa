//! Increments of a file that a compaction has shortened below the border of a map, and that has
//! grown beyond the border again.

use crate::copy::Manifest;
use crate::paged::page::{MapRef, map};
use crate::paged::space::{self, AllocClass};
use crate::{BackupOptions, Database, Lsn, MemoryDirectory, Options, PagedOptions};
use katydid_device::{AlignedBuffer, Directory};
use katydid_wal::Background;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 4096;

fn open(directory: &Arc<dyn Directory>) -> Database {
    let engine = PagedOptions { page_bytes: PAGE, cache_bytes: 64 * PAGE, ..PagedOptions::default() };
    let mut options = Options { engine: engine.into(), ..Options::default() };
    options.advanced.log.background = Background::Caller;
    Database::open_in(directory.clone(), options).expect("open")
}

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// Calls `work` while all pages of the first map are taken. The file then reaches beyond the first
/// map's border.
fn beyond_the_border(database: &Database, work: impl FnOnce()) {
    let space = database.paged().engine().space.clone();
    let reserve = || space.reserve(AllocClass::Normal).expect("grow");
    let below: Vec<_> = std::iter::repeat_with(reserve)
        .take_while(|reserved| reserved.page().get() < map::bits_per_map(PAGE))
        .collect();
    work();
    drop(below);
}

/// Returns the number of pages that the second map of a file marks as in use, besides itself.
fn bits_beyond_the_border(directory: &Arc<dyn Directory>) -> usize {
    let file = directory.open_read_only(space::FILE_NAME).expect("open");
    let mut page = AlignedBuffer::new_zeroed(PAGE);
    let offset = map::bits_per_map(PAGE) * PAGE as u64;
    assert_eq!(file.read_at(&mut page, offset).expect("read"), PAGE, "the file ends before the border");
    MapRef::new(&page).pages_in_use().count() - 1
}

fn put(database: &Database, keys: std::ops::Range<u32>) {
    let rows = database.table("rows").expect("table");
    keys.for_each(|key| database.put(&rows, key.to_be_bytes(), [7; 9_000]).expect("put"));
}

/// Restores a base with pages in use beyond the border, and an increment after a compaction. The
/// file has grown beyond the border again, before the increment or while it is made.
#[test]
fn a_map_that_was_made_anew_is_in_the_increment() {
    for grows_during in [false, true] {
        let source = directory();
        let (base, increment, restored) = (directory(), directory(), directory());
        let database = open(&source);
        beyond_the_border(&database, || put(&database, 0..20));
        // After these checkpoints the second map is in place with its bits. The log begins above
        // the LSN of an empty map, so an increment that chose maps by their LSNs would leave out an
        // empty one.
        (0..3).for_each(|_| database.checkpoint().expect("checkpoint"));
        database.backup_in(base.clone(), &BackupOptions::default()).expect("backup");
        let manifest = Manifest::read(base.as_ref()).expect("read").expect("the manifest");
        assert!(manifest.log_start > Lsn::ZERO && bits_beyond_the_border(&base) > 20);
        assert!(database.drop_table("rows").expect("drop"));
        database.close().expect("close");
        Database::compact_in(source.clone(), None).expect("compact");
        let database = open(&source);
        put(&database, 0..1);
        let grown = AtomicBool::new(!grows_during);
        if !grows_during {
            beyond_the_border(&database, || ());
        }
        let growing = database.clone();
        let on_progress = move |_: u64, _: u64| {
            if !grown.swap(true, Ordering::Relaxed) {
                beyond_the_border(&growing, || ());
            }
            ControlFlow::Continue(())
        };
        let options = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
        database.backup_changes_in(increment.clone(), base.as_ref(), &options).expect("increment");
        let chain = [base, increment];
        Database::restore_chain_in(&chain, restored.clone(), &BackupOptions::default()).expect("restore");
        let report = Database::verify_in(restored.clone(), None).expect("verify");
        assert!(report.is_sound(), "during: {grows_during}: {:?}", report.faults.first());
        // The pages beyond the border are free.
        let database = open(&restored);
        beyond_the_border(&database, || put(&database, 1..20));
        let report = database.verify(None).expect("verify");
        assert!(report.is_sound(), "during: {grows_during}: {:?}", report.faults.first());
        assert_eq!(report.keys, 20);
    }
}
