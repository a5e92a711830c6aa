//! Tests of crashes at every step of writing pages back. After a crash, pages in place must be
//! whole, and not older than their last durable version.

use super::super::PAGES_MIN;
use super::rig::{self, CountingLog};
use crate::error::Result;
use crate::paged::page::tests::for_seeds;
use crate::paged::page::{PageId, check};
use fastrand::Rng;
use katydid_device::{Create, Directory, Method, SimDevice};
use std::sync::Arc;

const FIRST: u64 = 10;
const PAGES: u64 = 24;

/// Counters of all pages: their values when last known to be durable in place, and their present
/// values.
#[derive(Debug, Clone, Default, PartialEq)]
struct Counts {
    page_bytes: usize,
    durable: Vec<Option<u64>>,
    newest: Vec<u64>,
}

/// Changes pages and writes them back until the device crashes or the work is done.
fn work(directory: &dyn Directory, log: &Arc<CountingLog>, rng: &mut Rng, counts: &mut Counts) -> Result<()> {
    counts.durable = vec![None; PAGES as usize];
    counts.newest = vec![0; PAGES as usize];
    let pool = rig::create_with(directory, log, PAGES_MIN, counts.page_bytes)?;
    for page in 0..PAGES {
        rig::make(&pool, log, PageId::new(FIRST + page))?;
    }
    for _ in 0..3 {
        for _ in 0..rng.usize(1..20) {
            let page = rng.u64(0..PAGES);
            let (_, count) = rig::bump(&pool, log, PageId::new(FIRST + page))?;
            counts.newest[page as usize] = count;
        }
        pool.flush_all()?;
        counts.durable = counts.newest.iter().copied().map(Some).collect();
    }
    Ok(())
}

/// Checks that every page in place is whole, and is not older than the durable version and not
/// newer than the newest. A page that was never durable may have any contents.
fn check_pages(device: &SimDevice, counts: &Counts, what: &str) {
    let directory = device.directory();
    let Ok(file) = directory.open(crate::paged::space::FILE_NAME, Create::Never, Method::Buffered) else {
        assert!(counts.durable.iter().all(Option::is_none), "{what}: the file is gone");
        return;
    };
    for (index, (durable, newest)) in counts.durable.iter().zip(&counts.newest).enumerate() {
        let Some(durable) = durable else { continue };
        let page = PageId::new(FIRST + index as u64);
        let mut bytes = vec![0; counts.page_bytes];
        let offset = page.offset(counts.page_bytes).expect("an offset");
        let read = file.read_at(&mut bytes, offset).expect("a read");
        check(&bytes[..read], page, counts.page_bytes).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let found = rig::counter(&bytes);
        assert!(
            (*durable..=*newest).contains(&found),
            "{what}: page {page} has {found}, not {durable}..={newest}"
        );
    }
}

/// Crashes at each step of work on pages of `page_bytes` bytes.
fn torn_pages_are_put_back(seeds: u64, page_bytes: usize) {
    for_seeds(seeds, |rng| {
        let seed = rng.u64(..);
        let none = Counts { page_bytes, ..Counts::default() };
        let run = |device: &SimDevice, counts: &mut Counts| {
            let log = CountingLog::from(100);
            work(device.directory().as_ref(), &log, &mut Rng::with_seed(seed), counts)
        };
        let steps = {
            let device = SimDevice::new(seed);
            run(&device, &mut none.clone()).expect("no crash");
            device.steps()
        };
        let mut torn = 0;
        for step in 0..steps {
            let device = SimDevice::new(seed);
            device.crash_at(step);
            let mut counts = none.clone();
            assert!(run(&device, &mut counts).is_err(), "step {step} of {steps} was not reached");
            for crash_seed in 0..3 {
                let what = format!("pages of {page_bytes}, step {step}, crash {crash_seed}");
                torn += usize::from(recover(&device, crash_seed, &counts, &what));
            }
        }
        assert!(torn > 0, "no crash tore a page: the test shows nothing");
    });
}

#[test]
fn torn_pages_are_put_back_at_every_crash_step() {
    torn_pages_are_put_back(2, 4096);
}

#[test]
fn torn_pages_of_8_kib_are_put_back_at_every_crash_step() {
    torn_pages_are_put_back(1, 8192);
}

#[test]
fn torn_pages_of_16_kib_are_put_back_at_every_crash_step() {
    torn_pages_are_put_back(1, 16_384);
}

#[test]
fn torn_pages_of_32_kib_are_put_back_at_every_crash_step() {
    torn_pages_are_put_back(1, 32_768);
}

/// Restores torn pages. Returns whether there were any.
fn recover(crashed: &SimDevice, crash_seed: u64, counts: &Counts, what: &str) -> bool {
    let device = crashed.reopen_after_crash(crash_seed);
    let log = CountingLog::from(1 << 30);
    let reopen = |device: &SimDevice| {
        rig::reopen_with(device.directory().as_ref(), &log, PAGES_MIN, counts.page_bytes)
    };
    if counts.durable.iter().all(Option::is_none) {
        return false;
    }
    // Crashes again at every step of restoring, then lets it finish.
    let steps = {
        let trial = crashed.reopen_after_crash(crash_seed);
        reopen(&trial).unwrap_or_else(|error| panic!("{what}: {error}"));
        trial.steps()
    };
    for step in 0..steps {
        let trial = crashed.reopen_after_crash(crash_seed);
        trial.crash_at(step);
        reopen(&trial).expect_err("the device crashes");
        let again = trial.reopen_after_crash(crash_seed + 1);
        reopen(&again).unwrap_or_else(|error| panic!("{what}: {error}"));
        check_pages(&again, counts, what);
    }
    reopen(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
    check_pages(&device, counts, what);
    steps > 0
}
