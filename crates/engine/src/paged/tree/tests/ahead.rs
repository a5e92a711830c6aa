//! Tests of scans of a tree that is not in memory. The tests check which pages a scan reads, and
//! how many reads it announces to the system at once.

use super::super::batch::Batch;
use super::rig::{EVERYTHING, Rig, TREE};
use crate::direction::Direction;
use crate::paged::double_write::DoubleWrite;
use crate::paged::pool::Pool;
use crate::paged::tree::{InMemory, ScanRequest};
use fastrand::Rng;
use katydid_device::{Advice, File, Id, MemoryDirectory, Method, Result, WriteMode};
use parking_lot::Mutex;
use std::io::IoSlice;
use std::ops::Bound;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read { offset: u64, bytes: u64 },
    Announced { offset: u64, bytes: u64 },
}

/// A file that notes reads and announced reads.
#[derive(Debug)]
struct NotingFile {
    inner: Arc<dyn File>,
    method: Method,
    calls: Mutex<Vec<Call>>,
}

impl File for NotingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.calls.lock().push(Call::Read { offset, bytes: buffer.len() as u64 });
        self.inner.read_at(buffer, offset)
    }

    fn advise(&self, advice: Advice) {
        if let Advice::Soon { offset, bytes } = advice {
            self.calls.lock().push(Call::Announced { offset, bytes });
        }
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
        self.method
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}

/// Makes a tree with `keys` keys on the device. The leaves are scattered over the file.
fn tree(keys: u32) -> Rig {
    let rig = Rig::new(PAGE_BYTES, 2000);
    let mut numbers: Vec<u32> = (0..keys).collect();
    Rng::with_seed(3).shuffle(&mut numbers);
    let mut txn = rig.begin();
    for number in numbers {
        TREE.insert(rig.pages(), &number.to_be_bytes(), &[7; 120], &mut txn).expect("an insert");
    }
    rig.pool.flush_all().expect("all");
    rig
}

/// Opens an empty pool over the tree's file.
fn cold(rig: &Rig, method: Method, cache_pages: usize) -> (Arc<NotingFile>, Pool) {
    let inner = rig.pool.file().clone();
    let file = Arc::new(NotingFile { inner, method, calls: Mutex::default() });
    let area = DoubleWrite::open(&MemoryDirectory::new(), Method::Direct, Id::new(1), PAGE_BYTES);
    let area = area.expect("an area");
    let pool = Pool::new(file.clone(), area, PAGE_BYTES, cache_pages * PAGE_BYTES, rig.log.clone());
    (file, pool)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Scans once with a cold pool of `cache_pages` pages. Returns the numbers of entries, of leaves
/// that have these entries, and of pages read; and the calls.
fn scanned(rig: &Rig, request: ScanRequest<'_>, cache_pages: usize) -> (usize, usize, usize, Vec<Call>) {
    let (file, pool) = cold(rig, Method::Buffered, cache_pages);
    let mut batch = Batch::default();
    TREE.scan(&pool, request, &mut batch).expect("a scan");
    let mut warm = Batch::default();
    TREE.scan(&rig.pool, request, &mut warm).expect("a scan");
    assert!(batch.iter().eq(warm.iter()), "what is read ahead is what is there");
    let leaves: std::collections::BTreeSet<_> = batch.leaves().iter().map(|(leaf, _)| *leaf).collect();
    let calls = file.calls.lock().clone();
    (batch.len(), leaves.len(), pool.stat().loaded as usize, calls)
}

#[test]
fn the_leaves_behind_the_first_are_asked_for_together() {
    let rig = tree(12_000);
    for direction in [Direction::Up, Direction::Down] {
        let (entries, leaves, loaded, calls) =
            scanned(&rig, ScanRequest { direction, entries: 600, ..EVERYTHING }, 500);
        assert_eq!(entries, 600);
        assert!(leaves > 20, "{leaves} leaves");
        assert!(loaded <= leaves + 8, "{loaded} pages for {leaves} leaves");
        let is_announced = |call: &Call| matches!(call, Call::Announced { .. });
        let groups = calls.chunk_by(|one, next| is_announced(one) == is_announced(next));
        let together = groups.filter(|group| is_announced(&group[0])).map(<[Call]>::len).max();
        assert!(together > Some(10), "{calls:?}");
        for (at, call) in calls.iter().enumerate() {
            if let Call::Announced { offset, bytes } = *call {
                assert!(calls[at..].contains(&Call::Read { offset, bytes }), "announced and not read");
            }
        }
    }
}

#[test]
fn nothing_behind_the_range_is_read() {
    let rig = tree(1000);
    for (low, high) in [(0, 0), (0, 300), (400, 470), (500, 999), (990, 999)] {
        for direction in [Direction::Up, Direction::Down] {
            for is_included in [false, true] {
                let (low, high) = (key(low), key(high));
                let bound = |key| if is_included { Bound::Included(key) } else { Bound::Excluded(key) };
                let request =
                    ScanRequest { low: bound(&low[..]), high: bound(&high[..]), direction, ..EVERYTHING };
                let (_, leaves, loaded, calls) = scanned(&rig, request, 500);
                assert_eq!(loaded, leaves + 1, "{request:?}: {calls:?}");
            }
        }
    }
}

#[test]
fn a_short_scan_reads_what_it_needs() {
    let rig = tree(1000);
    for entries in [1, 5, 30, 100] {
        let low = key(500);
        let request = ScanRequest { low: Bound::Included(&low), entries, ..EVERYTHING };
        let (found, leaves, loaded, _) = scanned(&rig, request, 500);
        assert_eq!(found, entries);
        assert!(loaded <= leaves + 3, "{entries} entries: {loaded} pages for {leaves} leaves");
    }
}

/// A scan reads ahead at most a quarter as many leaves as the cache has pages, and each announced
/// read has at least one leaf. So at most that many reads are under way at once. If the leaves lie
/// far apart, the number of reads is close to this maximum.
#[test]
fn a_small_cache_is_not_filled_with_what_is_read_ahead() {
    let rig = tree(12_000);
    for cache_pages in [16, 40, 100] {
        let (entries, _, _, calls) = scanned(&rig, EVERYTHING, cache_pages);
        assert_eq!(entries, 12_000);
        let is_announced = |call: &Call| matches!(call, Call::Announced { .. });
        let groups = calls.chunk_by(|one, next| is_announced(one) == is_announced(next));
        let most = groups.filter(|group| is_announced(&group[0])).map(<[Call]>::len).max().unwrap_or(0);
        let share = cache_pages / 4;
        assert!(most <= share, "{most} pieces at once for a cache of {cache_pages} pages");
        assert!(most > share / 2, "only {most} pieces at once for a cache of {cache_pages} pages");
    }
}

#[test]
fn the_leaves_of_several_keys_are_read_together_and_once() {
    let rig = tree(12_000);
    let (file, pool) = cold(&rig, Method::Buffered, 500);
    let keys: Vec<[u8; 4]> = (0..90).map(|nth| key(nth / 3 * 397)).collect();
    TREE.read_ahead(&pool, keys.iter().map(|key| &key[..])).expect("the leaves");
    let is_announced = |call: &&Call| matches!(call, Call::Announced { .. });
    // Leaves that are near each other in the file share one read.
    let together = file.calls.lock().iter().filter(is_announced).count();
    assert!((10..=30).contains(&together), "{together} reads for 30 leaves");
    let loaded = pool.stat().loaded;
    for key in &keys {
        let InMemory::Found(leaf) = TREE.leaf_in_memory(&pool, key).expect("a leaf") else {
            panic!("the leaf of {key:?} is not in memory");
        };
        assert_eq!(TREE.copy_value(&pool, leaf, key).expect("a read"), Some(vec![7; 120]));
    }
    assert_eq!(pool.stat().loaded, loaded);
    let absent = TREE.leaf_in_memory(&pool, &key(11_999)).expect("a leaf");
    assert!(matches!(absent, InMemory::Missing(_)), "the leaf is in memory");
}

#[test]
fn past_the_page_cache_nothing_is_read_ahead() {
    let rig = tree(1000);
    let (file, pool) = cold(&rig, Method::Direct, 500);
    let mut batch = Batch::default();
    TREE.scan(&pool, EVERYTHING, &mut batch).expect("a scan");
    assert_eq!(batch.len(), 1000);
    let is_page = |call: &Call| matches!(call, Call::Read { bytes, .. } if *bytes == PAGE_BYTES as u64);
    assert!(file.calls.lock().iter().all(is_page));
}
