//! Tests of several threads with a tiny cache. No change may be lost, the write-ahead rule must
//! hold, and checkpoints must see every dirty page.

use super::super::{PAGES_MIN, Pool};
use super::rig::{self, CountingLog, PAGE_BYTES, Watched};
use crate::Lsn;
use crate::paged::page::tests::for_seeds;
use crate::paged::page::{PageId, check, header};
use fastrand::Rng;
use katydid_device::{File, Id, MemoryDirectory};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

const FIRST: u64 = 10;

fn pool_with_pages(cache_pages: usize, pages: u64) -> (Arc<CountingLog>, Pool) {
    let log = CountingLog::from(100);
    let directory = Watched::new(Arc::new(MemoryDirectory::new()), log.clone());
    let pool = rig::create(&directory, &log, cache_pages).expect("a pool");
    for page in FIRST..FIRST + pages {
        rig::make(&pool, &log, PageId::new(page)).expect("a page");
    }
    (log, pool)
}

/// Reads a page from the device, without the pool.
fn on_device(file: &dyn File, page: PageId) -> Option<Vec<u8>> {
    let mut bytes = vec![0; PAGE_BYTES];
    let offset = page.offset(PAGE_BYTES).expect("an offset");
    file.read_at(&mut bytes, offset).expect("a read");
    check(&bytes, page, PAGE_BYTES).ok().map(|()| bytes)
}

/// For each page, the LSNs of its changes, in order.
type Changes = Vec<Mutex<Vec<u64>>>;

fn work(pool: &Pool, log: &CountingLog, changes: &Changes, rng: &mut Rng, rounds: usize) {
    for _ in 0..rounds {
        let mut picked: Vec<u64> = (0..rng.usize(1..=4)).map(|_| rng.u64(0..changes.len() as u64)).collect();
        picked.sort_unstable();
        picked.dedup();
        if rng.bool() {
            // Holds several latches at once, taken in order, as a structure change holds them.
            let mut guards: Vec<_> =
                picked.iter().map(|page| pool.write(PageId::new(FIRST + page)).expect("a page")).collect();
            for (guard, page) in guards.iter_mut().zip(&picked) {
                let (lsn, count) = rig::bump_latched(guard, log);
                let mut changes = changes[*page as usize].lock();
                changes.push(lsn.get());
                assert_eq!(changes.len() as u64, count);
            }
        } else {
            let guards: Vec<_> =
                picked.iter().map(|page| pool.read(PageId::new(FIRST + page)).expect("a page")).collect();
            for (guard, page) in guards.iter().zip(&picked) {
                assert_eq!(guard.id(), PageId::new(FIRST + page));
                assert_eq!(rig::counter(guard), changes[*page as usize].lock().len() as u64);
            }
        }
    }
}

/// Checks the guarantee that a checkpoint relies on. Every change below the checkpoint's begin
/// record is durable in place, or the changed page is among the dirty pages. The recovery LSN of
/// such a dirty page is at or below the change.
fn checkpoint(pool: &Pool, log: &CountingLog, changes: &Changes) {
    let (begin, _) = log.append();
    let dirty: BTreeMap<PageId, Lsn> = pool.dirty_pages().into_iter().collect();
    for (index, changes) in changes.iter().enumerate() {
        let page = PageId::new(FIRST + index as u64);
        let covered_from = dirty.get(&page).copied().unwrap_or(begin).min(begin);
        let newest = changes.lock().iter().copied().filter(|lsn| *lsn < covered_from.get()).max();
        if let Some(newest) = newest {
            let bytes = on_device(pool.file().as_ref(), page).expect("a valid page in place");
            let found = header::page_lsn(&bytes).get();
            assert!(
                found >= newest,
                "page {page}: change {newest} below {covered_from} is lost, in place is {found}"
            );
        }
    }
}

/// Counts a worker as ended when dropped, even after a panic, so that the checkpointing thread does
/// not wait for ever.
struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn tiny_cache_with_several_threads_loses_nothing() {
    for_seeds(6, |rng| {
        let (log, pool) = pool_with_pages(PAGES_MIN, 90);
        let changes: Changes = (0..90).map(|_| Mutex::default()).collect();
        let (pool, log, changes) = (&pool, &log, &changes);
        let workers = AtomicUsize::new(4);
        let workers = &workers;
        thread::scope(|scope| {
            for _ in 0..4 {
                let mut rng = rng.fork();
                scope.spawn(move || {
                    let _one_less_at_the_end = Working(workers);
                    work(pool, log, changes, &mut rng, 400);
                });
            }
            let mut rng = rng.fork();
            scope.spawn(move || {
                while workers.load(Ordering::Acquire) > 0 {
                    checkpoint(pool, log, changes);
                    match rng.u8(0..4) {
                        0 => pool.flush_older(Lsn::new(rng.u64(1..1 << 20))).expect("a batch"),
                        1 => pool.flush_cold(8).expect("a batch"),
                        2 => pool.flush_all().expect("all"),
                        _ => 0,
                    };
                    thread::yield_now();
                }
            });
        });
        pool.flush_all().expect("all");
        assert_eq!(pool.dirty_pages(), []);
        let stat = pool.stat();
        assert_eq!(stat.dirty, 0);
        assert!(stat.evicted > 0 && stat.written > 0);
        for (index, changes) in changes.iter().enumerate() {
            let page = PageId::new(FIRST + index as u64);
            let bytes = on_device(pool.file().as_ref(), page).expect("a valid page in place");
            assert_eq!(rig::counter(&bytes), changes.lock().len() as u64);
            assert_eq!(rig::counter(&pool.read(page).expect("a page")), changes.lock().len() as u64);
        }
    });
}

#[test]
fn pool_grows_while_all_is_pinned_and_shrinks_after() {
    let (log, pool) = pool_with_pages(PAGES_MIN, 60);
    let mut guards = Vec::new();
    for page in FIRST..FIRST + 40 {
        let mut guard = pool.write(PageId::new(page)).expect("more than the limit is pinned");
        rig::bump_latched(&mut guard, &log);
        guards.push(guard);
    }
    assert!(pool.stat().resident >= 40);
    drop(guards);
    for round in 0..3 {
        for page in FIRST..FIRST + 60 {
            let expected = u64::from(page < FIRST + 40);
            assert_eq!(
                rig::counter(&pool.read(PageId::new(page)).expect("a page")),
                expected,
                "round {round}"
            );
        }
    }
    assert_eq!(pool.stat().resident, PAGES_MIN);
}

#[test]
fn cached_page_is_not_read_again_and_evicted_one_is() {
    let (_log, pool) = pool_with_pages(PAGES_MIN, 60);
    pool.flush_all().expect("all");
    let loaded = pool.stat().loaded;
    let page = PageId::new(FIRST);
    drop(pool.read(page).expect("a page"));
    assert_eq!(pool.stat().loaded, loaded + 1);
    for _ in 0..100 {
        drop(pool.read(page).expect("a page"));
    }
    assert_eq!(pool.stat().loaded, loaded + 1);
}

#[test]
fn threads_that_want_one_missing_page_read_it_once() {
    let (_log, pool) = pool_with_pages(PAGES_MIN, 60);
    pool.flush_all().expect("all");
    for page in FIRST + 20..FIRST + 60 {
        drop(pool.read(PageId::new(page)).expect("a page"));
    }
    let loaded = pool.stat().loaded;
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let guard = pool.read(PageId::new(FIRST)).expect("a page");
                sum.fetch_add(1 + rig::counter(&guard), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(sum.into_inner(), 4);
    assert_eq!(pool.stat().loaded, loaded + 1);
}

#[test]
fn prefetched_pages_are_there_without_another_read() {
    let (log, pool) = pool_with_pages(64, 50);
    pool.flush_all().expect("all");
    let file = pool.file().clone();
    drop(pool);
    let directory = MemoryDirectory::new();
    let spare =
        crate::paged::double_write::DoubleWrite::open(&directory, Default::default(), Id::new(1), PAGE_BYTES);
    let pool = Pool::new(file, spare.expect("an area"), PAGE_BYTES, 32 * PAGE_BYTES, log);
    let wanted: Vec<PageId> =
        (FIRST..FIRST + 50).rev().filter(|page| page % 7 != 0).map(PageId::new).collect();
    let count = pool.prefetch(&wanted).expect("a prefetch");
    assert_eq!(count, 32, "as many as there is room for");
    let loaded = pool.stat().loaded;
    let mut lowest = wanted.clone();
    lowest.sort_unstable();
    for page in lowest.into_iter().take(32) {
        assert_eq!(rig::counter(&pool.read(page).expect("a page")), 0);
    }
    assert_eq!(pool.stat().loaded, loaded);
    // If all pages lie beyond the file, the call reads nothing and does not fail.
    assert_eq!(pool.prefetch(&[PageId::new(1 << 50), PageId::new(u64::MAX)]).expect("a prefetch"), 0);
}
