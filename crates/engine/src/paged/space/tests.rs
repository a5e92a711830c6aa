//! Tests of the allocation of pages.

use super::*;
use crate::Lsn;
use crate::TableId;
use crate::paged::double_write::DoubleWrite;
use crate::paged::page::tests::for_seeds;
use crate::paged::page::{LeafMut, MapMut};
use crate::paged::pool::WalBarrier;
use katydid_device::{Create, Directory, Id, MemoryDirectory, Method, SimDevice};
use std::collections::BTreeSet;

const PAGE_BYTES: usize = 4096;
const DATABASE: Id = Id::new(5);

#[derive(Debug)]
struct NoLog;

impl WalBarrier for NoLog {
    fn make_durable(&self, _end: Lsn) -> Result<()> {
        Ok(())
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(1)
    }

    fn poison(&self, what: &'static str) -> Error {
        Error::Internal(what)
    }
}

fn pool(directory: &dyn Directory) -> Result<Pool> {
    let file = directory.open(FILE_NAME, Create::Never, Method::Direct)?;
    check_file(file.as_ref(), "here", DATABASE, PAGE_BYTES)?;
    let area = DoubleWrite::open(directory, Method::Direct, DATABASE, PAGE_BYTES)?;
    area.restore(file.as_ref())?;
    Ok(Pool::new(file, area, PAGE_BYTES, 64 * PAGE_BYTES, Arc::new(NoLog)))
}

fn new_file(directory: &dyn Directory) -> Result<()> {
    let file = directory.open(FILE_NAME, Create::IfMissing, Method::Direct)?;
    crate::paged::first_pages::create(file.as_ref(), DATABASE, PAGE_BYTES)?;
    directory.sync()?;
    Ok(())
}

fn space_in_memory() -> (Pool, Arc<Space>) {
    let directory = MemoryDirectory::new();
    new_file(&directory).expect("a file");
    let pool = pool(&directory).expect("a pool");
    let space = Space::load(&pool).expect("space");
    (pool, space)
}

/// Sets or clears a page's bit in its map, as a structure change does.
fn log_bit(pool: &Pool, page: PageId, in_use: bool) {
    let mut guard = pool.write(map::map_of(page, PAGE_BYTES)).expect("a map");
    guard.begin_change();
    let mut edit = MapMut::new(guard.bytes_mut());
    let bit = map::bit_of(page, PAGE_BYTES);
    assert!(if in_use { edit.set(bit) } else { edit.clear(bit) });
    guard.finish_change(Lsn::new(1), Lsn::new(2));
}

#[test]
fn new_file_has_its_own_pages_in_use_and_an_empty_catalog() {
    let (pool, space) = space_in_memory();
    assert_eq!(space.stat(), SpaceStat { pages: 128, free: 125 });
    let root = pool.read(PageId::CATALOG_ROOT).expect("the catalog");
    assert!(root.leaf().expect("a leaf").is_empty());
    assert!((0..3).all(|page| space.is_taken(PageId::new(page)) && !space.freed(PageId::new(page))));
}

#[test]
fn reservations_behave_as_a_set_and_survive_only_when_logged() {
    for_seeds(8, |rng| {
        let (pool, mut space) = space_in_memory();
        let (mut held, mut logged) = (Vec::new(), BTreeSet::new());
        for _ in 0..3000 {
            match rng.u8(0..100) {
                0..60 => {
                    let class = if rng.bool() { AllocClass::Normal } else { AllocClass::Rollback };
                    let reserved = space.reserve(class).expect("there is room");
                    let page = reserved.page();
                    assert!(page.get() >= 3 && !logged.contains(&page) && space.is_taken(page));
                    assert!(
                        held.iter().all(|other: &Reserved| other.page() != page),
                        "{page} was handed out twice"
                    );
                    assert!(!map::is_own_page(page, PAGE_BYTES));
                    held.push(reserved);
                }
                60..85 if !held.is_empty() => {
                    let reserved = held.swap_remove(rng.usize(0..held.len()));
                    if rng.u8(0..4) == 0 {
                        drop(reserved);
                    } else {
                        log_bit(&pool, reserved.page(), true);
                        assert!(logged.insert(reserved.keep()));
                    }
                }
                85..99 if !logged.is_empty() => {
                    let page = *logged.iter().nth(rng.usize(0..logged.len())).expect("a page");
                    log_bit(&pool, page, false);
                    logged.remove(&page);
                    assert!(space.freed(page));
                    assert!(!space.freed(page), "freed twice");
                }
                _ => {
                    held.clear();
                    space = Space::load(&pool).expect("space");
                }
            }
            let stat = space.stat();
            assert_eq!(stat.pages - stat.free, 3 + (held.len() + logged.len()) as u64);
        }
    });
}

#[test]
fn threads_are_never_handed_the_same_page() {
    let (_pool, space) = space_in_memory();
    let mut all: Vec<PageId> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| space.reserve_many(AllocClass::Normal, 700).expect("there is room")))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).map(Reserved::keep).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2800);
}

/// Makes a device with a new file of 128 pages, and a double-write area beside the file. A limit on
/// the device's bytes must count both.
fn limited_device() -> (SimDevice, Pool, Arc<Space>) {
    let device = SimDevice::new(1);
    new_file(device.directory().as_ref()).expect("a file");
    let pool = pool(device.directory().as_ref()).expect("a pool");
    let space = Space::load(&pool).expect("space");
    (device, pool, space)
}

#[test]
fn full_device_is_typed_keeps_the_reserve_and_clears_by_itself() {
    let (device, pool, space) = limited_device();
    let used = 4096 + PAGE_BYTES as u64 * (crate::paged::double_write::batch_pages(PAGE_BYTES) as u64 + 128);
    device.set_capacity(used);
    let mut held = Vec::new();
    let refused = loop {
        match space.reserve(AllocClass::Normal) {
            Ok(reserved) => held.push(reserved),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    let before = space.stat();
    assert_eq!(before.free, RESERVE_PAGES);
    assert!(space.reserve(AllocClass::Normal).is_err() && space.reserve_many(AllocClass::Normal, 3).is_err());
    assert!(space.grow_ahead().is_err());
    assert_eq!(space.stat(), before, "a refusal leaves nothing behind");
    for _ in 0..RESERVE_PAGES {
        held.push(space.reserve(AllocClass::Rollback).expect("the reserve"));
    }
    assert!(matches!(space.reserve(AllocClass::Rollback), Err(Error::NoSpace { .. })));
    // A page that was handed out has its place in the file, so it can be written on the full
    // device.
    let page = held[0].page();
    let mut guard = pool.create(page).expect("a page");
    guard.begin_change();
    LeafMut::format(guard.bytes_mut(), page, TableId::new(1), b"", None);
    guard.finish_change(Lsn::new(1), Lsn::new(2));
    drop(guard);
    pool.flush_all().expect("no room is needed");
    device.set_capacity(1 << 40);
    held.push(space.reserve(AllocClass::Normal).expect("room has returned"));
    assert!(space.stat().free >= RESERVE_PAGES);
}

#[test]
fn grown_ahead_file_serves_without_growing() {
    let (device, _pool, space) = limited_device();
    assert!(space.grow_ahead().expect("room"));
    while space.grow_ahead().expect("room") {}
    let steps = device.steps();
    let held = space.reserve_many(AllocClass::Normal, 100).expect("room");
    assert_eq!(device.steps(), steps);
    drop(held);
}

#[test]
fn growth_across_a_maps_border_survives_a_crash_at_every_step() {
    let per_map = map::bits_per_map(PAGE_BYTES);
    let grow = |device: &SimDevice| -> Result<()> {
        let pool = pool(device.directory().as_ref())?;
        let space = Space::load(&pool)?;
        let held = space.reserve_many(AllocClass::Rollback, 70)?;
        assert!(held.iter().any(|reserved| reserved.page().get() > per_map));
        let is_map = |reserved: &Reserved| map::is_own_page(reserved.page(), PAGE_BYTES);
        assert!(!held.iter().any(is_map), "a map's page was handed out");
        Ok(())
    };
    // The first map of this file is full except for 60 pages.
    let device = SimDevice::new(3);
    {
        let directory = device.directory();
        new_file(directory.as_ref()).expect("a file");
        let file = directory.open(FILE_NAME, Create::Never, Method::Direct).expect("the file");
        let bytes = PAGE_BYTES as u64;
        file.prepare(128 * bytes, per_map * bytes).expect("room");
        let pool = pool(directory.as_ref()).expect("a pool");
        for page in 3..per_map - 60 {
            log_bit(&pool, PageId::new(page), true);
        }
        pool.flush_all().expect("all");
    }
    let from = device.reopen_with(0, katydid_device::Survival::KeepAll);
    let steps = {
        let trial = from.reopen_with(0, katydid_device::Survival::KeepAll);
        grow(&trial).expect("no crash");
        trial.steps()
    };
    assert!(steps >= 3);
    for step in 0..steps {
        for seed in 0..4 {
            let trial = from.reopen_with(0, katydid_device::Survival::KeepAll);
            trial.crash_at(step);
            grow(&trial).expect_err("the device crashes");
            let again = trial.reopen_after_crash(seed);
            grow(&again).unwrap_or_else(|error| panic!("step {step}, crash {seed}: {error}"));
        }
    }
}

#[test]
fn file_of_another_database_or_program_is_refused() {
    let directory = MemoryDirectory::new();
    new_file(&directory).expect("a file");
    let file = directory.open(FILE_NAME, Create::Never, Method::Direct).expect("the file");
    let refusal = |database, page_bytes| match check_file(file.as_ref(), "here", database, page_bytes) {
        Err(Error::Foreign { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(Id::new(6), PAGE_BYTES), Foreign::Identity(FILE_NAME.to_owned()));
    let mut page = vec![0; PAGE_BYTES];
    file_page::format(&mut page, DATABASE);
    page[header::BYTES + 8] = 9;
    header::seal(&mut page);
    file.write_at(&[IoSlice::new(&page)], 0, WriteMode::Durable).expect("a write");
    let newer = Foreign::NewerVersion { file: FILE_NAME.to_owned(), found: 9, known: 1 };
    assert_eq!(refusal(DATABASE, PAGE_BYTES), newer);
    file.write_at(&[IoSlice::new(&[b'x'; PAGE_BYTES])], 0, WriteMode::Durable).expect("a write");
    assert_eq!(refusal(DATABASE, PAGE_BYTES), Foreign::Magic(FILE_NAME.to_owned()));
    file.write_at(&[IoSlice::new(&[0; PAGE_BYTES])], 0, WriteMode::Durable).expect("a write");
    let zeroed = check_file(file.as_ref(), "here", DATABASE, PAGE_BYTES);
    assert!(matches!(zeroed, Err(Error::Corrupt { page: Some(0), .. })), "{zeroed:?}");
}

#[test]
fn page_in_use_beyond_the_file_is_corrupt() {
    let (pool, _space) = space_in_memory();
    log_bit(&pool, PageId::new(500), true);
    assert!(matches!(Space::load(&pool), Err(Error::Corrupt { page: Some(1), .. })));
}
