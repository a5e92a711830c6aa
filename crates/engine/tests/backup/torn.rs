//! Pages that are read while they are written: such a read may return part of the old page and part
//! of the new one.

use crate::common::{contents, options_for};
use katydid::{BackupOptions, Database, EngineKind, MemoryDirectory, Options, PagedOptions};
use katydid_device::{Create, Directory, DirectoryLock, File, Method, Result, WriteMode};
use std::collections::HashMap;
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const PAGE: u64 = 4096;

/// A directory in which the first reads of each page of the database file return the page torn.
#[derive(Debug)]
struct Tearing {
    inner: Arc<dyn Directory>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of reads of each page, from the first on, that return it torn.
    times: AtomicU64,
    /// Reads of each page so far.
    reads: Mutex<HashMap<u64, u64>>,
    torn: AtomicU64,
}

#[derive(Debug)]
struct TearingFile {
    inner: Arc<dyn File>,
    shared: Arc<Shared>,
}

impl Tearing {
    fn file(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        match name {
            "katydid.pages" => Arc::new(TearingFile { inner, shared: self.shared.clone() }),
            _ => inner,
        }
    }
}

impl Directory for Tearing {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open(name, create, method)?))
    }
    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open_read_only(name)?))
    }
    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }
    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.inner.subdirectory(name)
    }
    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        self.inner.existing_subdirectory(name)
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl File for TearingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.inner.read_at(buffer, offset)?;
        let times = self.shared.times.load(Ordering::Relaxed);
        let mut reads = self.shared.reads.lock().expect("no panic");
        for (at, page) in (offset / PAGE..).zip(buffer[..read].chunks_exact_mut(PAGE as usize)) {
            let before = reads.entry(at).or_default();
            // Page 0 and the free pages are all zeros and are never torn here: they belong to no
            // tree.
            if *before < times && page.iter().any(|byte| *byte != 0) {
                page[2048..].iter_mut().for_each(|byte| *byte ^= 0x5a);
                self.shared.torn.fetch_add(1, Ordering::Relaxed);
            }
            *before += u64::from(times > 0);
        }
        Ok(read)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        self.inner.write_at(parts, offset, mode)
    }
    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.inner.prepare(from, to)
    }
    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }
    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }
    fn method(&self) -> Method {
        self.inner.method()
    }
    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}

/// Backs up a database whose pages are torn at their first `times` reads. All of its pages are in
/// its cache.
fn backed_up(times: u64) {
    let shared = Arc::new(Shared::default());
    let source = Tearing { inner: Arc::new(MemoryDirectory::new()), shared: shared.clone() };
    let engine = PagedOptions { page_bytes: PAGE as usize, cache_bytes: 4 << 20, ..PagedOptions::default() };
    let options = Options { engine: engine.into(), ..options_for(EngineKind::Paged) };
    let database = Database::open_in(Arc::new(source), options.clone()).expect("open");
    let table = database.table("rows").expect("table");
    (0..200u8).for_each(|key| database.put(&table, [key], [key; 900]).expect("put"));
    database.checkpoint().expect("checkpoint");
    database.checkpoint().expect("what was dirty before the first is in place");
    shared.times.store(times, Ordering::Relaxed);
    let beside = (database.clone(), database.table("rows").expect("table"));
    let on_progress = move |_: u64, _: u64| {
        beside.0.put(&beside.1, "beside", "written").expect("put");
        ControlFlow::Continue(())
    };
    let backup = BackupOptions { on_progress: Some(Arc::new(on_progress)), ..BackupOptions::default() };
    let copy: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    database.backup_in(copy.clone(), &backup).expect("backup");
    assert!(shared.torn.load(Ordering::Relaxed) > 40, "no page was torn");
    let expected = contents(&database, &table);
    let opened = Database::open_in(copy, options).expect("open");
    let table = opened.table("rows").expect("table");
    assert_eq!(contents(&opened, &table), expected);
}

#[test]
fn a_page_that_is_torn_for_a_while_is_read_again() {
    backed_up(3);
}

#[test]
fn a_page_that_is_torn_for_ever_is_taken_from_the_pool() {
    backed_up(u64::MAX);
}

/// A page that is neither in the pool nor whole in place is damaged, and no copy is made of it.
#[test]
fn a_damaged_page_is_named() {
    let device = katydid_device::SimDevice::new(1);
    let options = options_for(EngineKind::Paged);
    let database = Database::open_in(device.directory(), options.clone()).expect("open");
    let table = database.table("rows").expect("table");
    (0..200u8).for_each(|key| database.put(&table, [key], [key; 900]).expect("put"));
    database.close().expect("close");
    let database = Database::open_in(device.directory(), options).expect("open");
    let report = database.verify(None).expect("verify");
    assert!(report.is_sound());
    // The damaged page is a page of the table, and is not among the 16 pages in the cache.
    assert!(device.corrupt("katydid.pages", 10 * PAGE + 600, 0x10));
    let to = katydid_device::SimDevice::new(2);
    match database.backup_in(to.directory(), &BackupOptions::default()) {
        Err(katydid::Error::Corrupt { page, .. }) => assert_eq!(page, Some(10)),
        other => panic!("{other:?}"),
    }
}
