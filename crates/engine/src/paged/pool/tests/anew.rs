//! Tests of pages from `Pool::create`: the log refuses the record of the change for which the page
//! was to be made anew.

use super::super::PAGES_MIN;
use super::rig::{self, CountingLog};
use crate::paged::page::PageId;
use katydid_device::SimDevice;

const PAGE: PageId = PageId::new(20);
const OTHER: PageId = PageId::new(21);

#[test]
fn a_page_made_anew_in_vain_is_not_wiped() {
    for cached in [true, false] {
        for changing in [true, false] {
            let device = SimDevice::new(1);
            let log = CountingLog::from(100);
            let mut pool = rig::create(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
            for page in [PAGE, OTHER] {
                rig::make(&pool, &log, page).expect("a page");
                rig::bump(&pool, &log, page).expect("a change");
            }
            if !cached {
                pool.flush_all().expect("all");
                pool = rig::reopen(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
            }
            let dirty = pool.stat().dirty;
            {
                let mut page = pool.create(PAGE).expect("a page");
                if changing {
                    page.begin_change();
                }
                // The page is dropped without a record, as after a failed append.
            }
            assert_eq!(pool.stat().dirty, dirty, "cached {cached}, changing {changing}");
            pool.flush_all().expect("all");
            assert_eq!(rig::counter(&pool.read(PAGE).expect("a page")), 1, "in memory");
            drop(pool);
            let pool = rig::reopen(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
            assert_eq!(rig::counter(&pool.read(PAGE).expect("a page")), 1, "in place");
            assert_eq!(pool.stat().resident, 1);
        }
    }
}

#[test]
fn a_page_made_anew_in_vain_can_be_wanted_meanwhile() {
    let device = SimDevice::new(1);
    let log = CountingLog::from(100);
    let pool = rig::create(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
    rig::make(&pool, &log, PAGE).expect("a page");
    pool.flush_all().expect("all");
    let pool = rig::reopen(device.directory().as_ref(), &log, PAGES_MIN).expect("a pool");
    let mut anew = pool.create(PAGE).expect("a page");
    anew.begin_change();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| rig::counter(&pool.read(PAGE).expect("a page")));
        let maker = scope.spawn(|| pool.create(PAGE).map(|page| page.id()).expect("a page"));
        let writer = scope.spawn(|| pool.flush_all().expect("all"));
        drop(anew);
        assert_eq!(reader.join().expect("no panic"), 0);
        assert_eq!(maker.join().expect("no panic"), PAGE);
        assert_eq!(writer.join().expect("no panic"), 0, "nothing was changed");
    });
}
