//! Tests of devices that fail, and of pages whose bytes are not what was written.

use super::super::PAGES_MIN;
use super::rig::{self, CountingLog, PAGE_BYTES};
use crate::Lsn;
use crate::error::Error;
use crate::paged::page::PageId;
use crate::paged::space;
use katydid_device::{Create, Fault, Gate, Method, SimDevice, Verb, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

const PAGE: PageId = PageId::new(20);

fn device_with_page() -> (SimDevice, Arc<CountingLog>) {
    let device = SimDevice::new(1);
    let log = CountingLog::from(100);
    let pool = rig::create(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
    rig::make(&pool, &log, PAGE).expect("a page");
    pool.flush_all().expect("all");
    (device, log)
}

fn offset(page: PageId) -> u64 {
    page.offset(PAGE_BYTES).expect("an offset")
}

#[test]
fn damaged_page_is_corrupt_and_names_itself() {
    let (device, log) = device_with_page();
    // The damage comes after the opening, because an opening would repair it from the double-write
    // area.
    let pool = rig::reopen(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
    let file = device.directory().open(space::FILE_NAME, Create::Never, Method::Buffered).expect("the file");
    file.write_at(&[IoSlice::new(b"rot")], offset(PAGE) + 3000, WriteMode::Durable).expect("a write");
    for _ in 0..2 {
        match pool.read(PAGE).map(drop) {
            Err(Error::Corrupt { page: Some(20), finding, .. }) => {
                assert!(finding.contains("checksum"), "{finding}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(pool.write(PAGE).map(drop), Err(Error::Corrupt { page: Some(20), .. })));
    let never_written = PageId::new(50);
    assert!(matches!(pool.read(never_written).map(drop), Err(Error::Corrupt { page: Some(50), .. })));
    let beyond = PageId::new(u64::MAX / 2);
    assert!(matches!(pool.read(beyond).map(drop), Err(Error::Corrupt { .. })));
    // `Pool::create` does not read the damaged page, so the page can be made anew.
    rig::make(&pool, &log, PAGE).expect("a page");
    assert_eq!(rig::counter(&pool.read(PAGE).expect("a page")), 0);
    assert_eq!(pool.stat().resident, 1);
}

#[test]
fn unreadable_page_names_itself_and_can_be_read_later() {
    let (device, log) = device_with_page();
    let pool = rig::reopen(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
    device.fail_reads(space::FILE_NAME, offset(PAGE)..offset(PAGE) + 1);
    match pool.read(PAGE).map(drop) {
        Err(Error::Device(error)) => {
            assert_eq!(error.verb, Verb::Read);
            assert!(error.subject.contains("page 20"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.prefetch(&[PAGE]).expect("a prefetch"), 0);
    device.heal();
    assert_eq!(rig::counter(&pool.read(PAGE).expect("a page")), 0);
}

#[test]
fn failed_write_back_keeps_pages_dirty_and_reads_going() {
    for verb in [Verb::Write, Verb::Sync] {
        let (device, log) = device_with_page();
        let (gated, _gate) = Gate::wrap(device.directory());
        let pool = rig::reopen(gated.as_ref(), &log, PAGES_MIN).expect("a pool");
        for page in 20..60 {
            rig::make(&pool, &log, PageId::new(page)).expect("a page");
        }
        pool.flush_all().expect("all");
        let (lsn, _) = rig::bump(&pool, &log, PAGE).expect("a change");
        device
            .fail_when(move |what, path, _| (what == verb && path == space::FILE_NAME).then_some(Fault::Io));
        pool.flush_all().expect_err("the device fails");
        device.heal();
        pool.flush_all().expect_err("the gate is shut");
        let dirty = pool.dirty_pages();
        assert_eq!(dirty.len(), 1, "{dirty:?}");
        assert!(dirty[0].0 == PAGE && dirty[0].1 <= lsn);
        // The test reads more pages than the cache has. The dirty page must stay in memory; the
        // others come and go.
        for _ in 0..3 {
            for page in 20..60 {
                let expected = u64::from(page == 20);
                assert_eq!(rig::counter(&pool.read(PageId::new(page)).expect("a page")), expected);
            }
        }
        assert!(pool.flush_older(Lsn::new(u64::MAX)).is_err());
    }
}

#[test]
fn redone_page_keeps_its_record_in_the_log() {
    let (device, log) = device_with_page();
    let pool = rig::reopen(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
    // The log's end lies far above the record that is redone, so the test shows which of the two
    // positions becomes the page's recovery LSN.
    let (lsn, end) = log.append();
    for _ in 0..100 {
        log.append();
    }
    let redo = |first: Option<Lsn>| {
        let mut guard = pool.write(PAGE).expect("a page");
        match first {
            Some(first) => guard.begin_redo(first),
            None => guard.begin_change(),
        }
        guard.finish_change(lsn, end);
        drop(guard);
        let dirty = pool.dirty_pages();
        pool.flush_all().expect("all");
        dirty
    };
    assert_eq!(redo(None), [(PAGE, lsn)]);
    let first = Lsn::new(lsn.get() - 5);
    assert_eq!(redo(Some(first)), [(PAGE, first)]);
}
