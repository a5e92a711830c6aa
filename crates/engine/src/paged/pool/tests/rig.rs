//! Rig of the pool's tests: a log that is only counters, and a directory that checks the
//! write-ahead rule for every page that reaches the device.

use super::super::{Pool, WalBarrier};
use crate::Lsn;
use crate::TableId;
use crate::error::{Error, Result};
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::first_pages;
use crate::paged::page::{LeafMut, PageId, Value, header};
use crate::paged::space;
use katydid_device::{Create, Directory, DirectoryLock, File, Id, Method, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const DATABASE: Id = Id::new(0xDA7A);

/// A log that only counts. Its records are 10 bytes long, one directly after another.
#[derive(Debug)]
pub(super) struct CountingLog {
    reserved: AtomicU64,
    durable: AtomicU64,
}

pub(super) const RECORD: u64 = 10;

impl CountingLog {
    pub(super) fn from(reserved: u64) -> Arc<Self> {
        Arc::new(CountingLog { reserved: AtomicU64::new(reserved), durable: AtomicU64::new(reserved) })
    }

    /// Appends a record. Returns its begin and its end.
    pub(super) fn append(&self) -> (Lsn, Lsn) {
        let lsn = self.reserved.fetch_add(RECORD, Ordering::AcqRel);
        (Lsn::new(lsn), Lsn::new(lsn + RECORD))
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }
}

impl WalBarrier for CountingLog {
    fn make_durable(&self, end: Lsn) -> Result<()> {
        assert!(end <= self.reserved(), "asked for records that were never appended");
        self.durable.fetch_max(end.get(), Ordering::AcqRel);
        Ok(())
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(self.reserved.load(Ordering::Acquire))
    }

    fn poison(&self, what: &'static str) -> Error {
        Error::Internal(what)
    }
}

/// A directory that checks every page written to the files of pages.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Arc<dyn Directory>,
    log: Arc<CountingLog>,
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn Directory>, log: Arc<CountingLog>) -> Self {
        Watched { inner, log }
    }
}

impl Directory for Watched {
    fn open(&self, name: &str, create: Create, method: Method) -> katydid_device::Result<Arc<dyn File>> {
        let inner = self.inner.open(name, create, method)?;
        let skip = if name == double_write::FILE_NAME { 4096 } else { 0 };
        Ok(Arc::new(WatchedFile { inner, log: self.log.clone(), skip }))
    }

    fn open_read_only(&self, name: &str) -> katydid_device::Result<Arc<dyn File>> {
        self.inner.open_read_only(name)
    }

    fn list(&self) -> katydid_device::Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> katydid_device::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> katydid_device::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> katydid_device::Result<()> {
        self.inner.sync()
    }

    fn lock(&self) -> katydid_device::Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }

    fn subdirectory(&self, name: &str) -> katydid_device::Result<Arc<dyn Directory>> {
        self.inner.subdirectory(name)
    }

    fn existing_subdirectory(&self, name: &str) -> katydid_device::Result<Option<Arc<dyn Directory>>> {
        self.inner.existing_subdirectory(name)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    log: Arc<CountingLog>,
    skip: usize,
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> katydid_device::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> katydid_device::Result<()> {
        let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        for page in all[self.skip..].chunks(PAGE_BYTES) {
            let lsn = header::page_lsn(page).get();
            let durable = self.log.durable();
            assert!(
                lsn == 0 || lsn + RECORD <= durable,
                "page with LSN {lsn} written, log durable to {durable}"
            );
        }
        self.inner.write_at(parts, offset, mode)
    }

    fn sync(&self) -> katydid_device::Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> katydid_device::Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> katydid_device::Result<()> {
        self.inner.prepare(from, to)
    }

    fn truncate(&self, length: u64) -> katydid_device::Result<()> {
        self.inner.truncate(length)
    }

    fn drop_cache(&self) -> katydid_device::Result<()> {
        self.inner.drop_cache()
    }

    fn method(&self) -> Method {
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}

/// Creates a database file in `directory`, and a pool over it.
pub(super) fn create(directory: &dyn Directory, log: &Arc<CountingLog>, cache_pages: usize) -> Result<Pool> {
    create_with(directory, log, cache_pages, PAGE_BYTES)
}

/// Creates a database file in `directory` with pages of this size, and a pool over it.
pub(super) fn create_with(
    directory: &dyn Directory,
    log: &Arc<CountingLog>,
    cache_pages: usize,
    page_bytes: usize,
) -> Result<Pool> {
    let file = directory.open(space::FILE_NAME, Create::IfMissing, Method::Direct)?;
    first_pages::create(file.as_ref(), DATABASE, page_bytes)?;
    let area = DoubleWrite::open(directory, Method::Direct, DATABASE, page_bytes)?;
    directory.sync()?;
    Ok(Pool::new(file, area, page_bytes, cache_pages * page_bytes, log.clone()))
}

/// Opens the database file of `directory` after a crash, and puts torn pages back.
pub(super) fn reopen(directory: &dyn Directory, log: &Arc<CountingLog>, cache_pages: usize) -> Result<Pool> {
    reopen_with(directory, log, cache_pages, PAGE_BYTES)
}

/// Opens the database file of `directory`, with pages of this size, after a crash, and puts torn
/// pages back.
pub(super) fn reopen_with(
    directory: &dyn Directory,
    log: &Arc<CountingLog>,
    cache_pages: usize,
    page_bytes: usize,
) -> Result<Pool> {
    let file = directory.open(space::FILE_NAME, Create::Never, Method::Direct)?;
    space::check_file(file.as_ref(), "here", DATABASE, page_bytes)?;
    let area = DoubleWrite::open(directory, Method::Direct, DATABASE, page_bytes)?;
    area.restore(file.as_ref())?;
    Ok(Pool::new(file, area, page_bytes, cache_pages * page_bytes, log.clone()))
}

/// Makes `page` a leaf with one value of 3,000 bytes, which has the counter 0 at both ends.
pub(super) fn make(pool: &Pool, log: &CountingLog, page: PageId) -> Result<Lsn> {
    let mut guard = pool.create(page)?;
    guard.begin_change();
    let (lsn, end) = log.append();
    LeafMut::build(
        guard.bytes_mut(),
        page,
        TableId::new(1),
        (b"", None),
        [(b"k".as_slice(), Value::Inline(&[0; 3000]))],
    )
    .expect("it fits");
    guard.finish_change(lsn, end);
    Ok(lsn)
}

/// Returns the counter on a leaf page, which is at both ends of the page's value.
pub(super) fn counter(page: &[u8]) -> u64 {
    let Some(Value::Inline(value)) = crate::paged::page::LeafRef::new(page).get(b"k") else {
        panic!("the key is there")
    };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let (front, back) = (word(&value[..8]), word(&value[2992..]));
    assert_eq!(front, back, "half of a change");
    front
}

/// Adds one to the counter.
pub(super) fn bump(pool: &Pool, log: &CountingLog, page: PageId) -> Result<(Lsn, u64)> {
    let mut guard = pool.write(page)?;
    let (lsn, count) = bump_latched(&mut guard, log);
    Ok((lsn, count))
}

/// Adds one to the counter of a latched page.
pub(super) fn bump_latched(guard: &mut super::super::PageWrite, log: &CountingLog) -> (Lsn, u64) {
    let count = counter(guard) + 1;
    guard.begin_change();
    let (lsn, end) = log.append();
    let mut leaf = LeafMut::new(guard.bytes_mut());
    assert!(leaf.patch(0, 0, &count.to_le_bytes()) && leaf.patch(0, 2992, &count.to_le_bytes()));
    guard.finish_change(lsn, end);
    (lsn, count)
}
