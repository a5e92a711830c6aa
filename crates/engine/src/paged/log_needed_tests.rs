//! Crashes of the machine, and ends of the process, at each device call of a write-back. A
//! write-back first syncs the log. Then it writes the double-write area, whose header has the
//! position up to which the pages need the log. Then it writes the pages in place.

use super::page::{PageId, check, header};
use super::{double_write, space};
use crate::{
    Database, Durability, Error, Lsn, Options, PagedOptions, Result, Table, TransactionOptions, control,
};
use katydid_device::{SimDevice, Survival};
use katydid_wal::{Background, Log};

const PAGE_BYTES: usize = 4096;
/// Number of rows; each takes most of a page.
const ROWS: u32 = 12;

fn options() -> Options {
    let pages =
        PagedOptions { page_bytes: PAGE_BYTES, cache_bytes: 64 * PAGE_BYTES, ..PagedOptions::default() };
    let mut options = Options { engine: pages.into(), ..Options::default() };
    options.advanced.log.medium =
        katydid_wal::FileOptions { segment_bytes: 256 << 10, spare_segments: 1, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 256 << 10;
    options.advanced.log.background = Background::Caller;
    options
}

/// Changes every row with commits that are not durable.
fn change(database: &Database, table: &Table, round: u8) -> Result<()> {
    let durability = Durability::Buffered;
    for row in 0..ROWS {
        let txn = database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })?;
        txn.put(table, row.to_be_bytes(), [round; 2500])?;
        txn.commit()?;
    }
    Ok(())
}

fn write_back(database: &Database) -> Result<usize> {
    database.paged().engine().pool.flush_older(Lsn::new(u64::MAX))
}

/// Makes two rounds of changes. A checkpoint lies between them, so the first round is in place and
/// redo does not repeat it. Returns the device steps between which the second round is written
/// back.
fn rounds(device: &SimDevice, crash_at: Option<u64>) -> Result<(u64, u64)> {
    let database = Database::open_in(device.directory(), options())?;
    let table = database.table("t")?;
    change(&database, &table, 1)?;
    write_back(&database)?;
    database.checkpoint()?;
    change(&database, &table, 2)?;
    if let Some(step) = crash_at {
        device.crash_at(step);
    }
    let from = device.steps();
    write_back(&database)?;
    Ok((from, device.steps()))
}

/// Returns the state of the files after a crash, before an opening: the position that the area
/// names, up to which the pages need the log; the highest LSN of a page in place; and the number of
/// whole pages of the second round.
fn in_place(device: &SimDevice) -> (Lsn, Lsn, usize) {
    let directory = device.directory();
    let database = control::read(directory.as_ref()).expect("a control file").expect("one").database;
    let needed = double_write::examine(directory.as_ref(), database, PAGE_BYTES).expect("an area");
    let image = device.image();
    // A torn page has a wrong checksum.
    let whole: Vec<&[u8]> = (0..)
        .map(PageId::new)
        .zip(image[space::FILE_NAME].chunks_exact(PAGE_BYTES))
        .filter_map(|(id, page)| check(page, id, PAGE_BYTES).is_ok().then_some(page))
        .collect();
    let highest = whole.iter().map(|page| header::page_lsn(page)).max().unwrap_or(Lsn::ZERO);
    let second = whole.iter().filter(|page| page.windows(100).any(|bytes| bytes == [2; 100])).count();
    (needed, highest, second)
}

/// Returns the values of all rows.
fn rows(database: &Database) -> Vec<Vec<u8>> {
    let table = database.open_table("t").expect("open table").expect("the table");
    (0..ROWS).map(|row| database.get(&table, row.to_be_bytes()).expect("get").expect("the row")).collect()
}

/// Returns the end of the log that a crash left.
fn end_of_log(device: &SimDevice) -> Lsn {
    let directory = device.directory();
    let folder = directory.existing_subdirectory("log").expect("a directory").expect("the log");
    let log = Log::open_in(folder, options().advanced.log).expect("the log");
    log.first().reserved()
}

#[test]
fn a_write_back_is_never_ahead_of_the_log_that_its_header_says_is_durable() {
    let (from, to) = rounds(&SimDevice::new(1), None).expect("no crash");
    let (before, _, _) = {
        let device = SimDevice::new(1);
        rounds(&device, Some(from)).expect_err("a crash");
        in_place(&device.reopen_with(0, Survival::DropAll))
    };
    // Number of crashes between the write of the header and the write of the last page, and number
    // of crashes with some pages of the second round in place.
    let (mut announced, mut partly) = (0, 0);
    for step in from..to {
        let survivals = [Survival::DropAll, Survival::KeepAll, Survival::Random, Survival::Prefix];
        for (seed, survival) in (step..).zip(survivals) {
            let what = format!("step {step} of {from}..{to}, {survival:?}, {seed}");
            let crashed = SimDevice::new(1);
            rounds(&crashed, Some(step)).expect_err("a crash");
            let reopen = || crashed.reopen_with(seed, survival);
            let (needed, highest, second) = in_place(&reopen());
            let end = end_of_log(&reopen());
            assert!(
                needed <= end,
                "{what}: the header says that {needed} was durable, the log ends at {end}"
            );
            assert!(
                highest < needed || second == 0,
                "{what}: a page in place has LSN {highest}, the header says {needed}"
            );
            announced += usize::from(needed > before && second < ROWS as usize);
            partly += usize::from(second > 0 && second < ROWS as usize);
            // The opening must find every change that is durable.
            let database = Database::open_in(reopen().directory(), options())
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let table = database.open_table("t").expect("open table").expect("the table");
            for row in 0..ROWS {
                let value = database.get(&table, row.to_be_bytes()).expect("get").expect("the row");
                let is_second = value == [2; 2500];
                assert!(is_second || value == [1; 2500], "{what}: row {row}");
                assert!(
                    is_second || needed == before,
                    "{what}: row {row} is old, and a header names its change"
                );
            }
            assert!(database.verify(None).expect("verify").is_sound(), "{what}");
        }
    }
    assert!(announced > 0 && partly > 0, "{announced} crashes behind the header, {partly} among the pages");
}

/// The process ends at a device call of a write-back, and leaves bytes in the page cache that were
/// never synced. The next process opens the database, and the machine crashes. The crash takes back
/// nothing that the opening has read: no row that the opened database shows, and no byte of the
/// pages or of the double-write area.
#[test]
fn an_opening_makes_durable_what_a_write_back_left_in_the_page_cache() {
    let files = [space::FILE_NAME, double_write::FILE_NAME];
    let unsynced = |device: &SimDevice| {
        let (seen, kept) = (device.image(), device.durable_image());
        files.map(|name| seen.get(name) != kept.get(name))
    };
    let (from, to) = rounds(&SimDevice::new(1), None).expect("no crash");
    let mut left = [0; 2];
    for step in from..to {
        let device = SimDevice::new(1);
        rounds(&device, Some(step)).expect_err("the process ends");
        let device = device.reopen_after_kill();
        left = std::array::from_fn(|file| left[file] + u32::from(unsynced(&device)[file]));
        let database = Database::open_in(device.directory(), options()).expect("open");
        let shown = rows(&database);
        device.freeze();
        drop(database);
        let found = {
            let device = device.reopen_with(step, Survival::DropAll);
            let opened = Database::open_in(device.directory(), options());
            rows(&opened.unwrap_or_else(|error| panic!("step {step} of {from}..{to}: {error}")))
        };
        assert!(found == shown, "step {step} of {from}..{to}: rows were shown, and are lost");
        let what = format!("step {step} of {from}..{to}: un-synced bytes of {files:?}");
        assert_eq!(unsynced(&device), [false; 2], "{what}");
    }
    assert!(left.iter().all(|count| *count > 0), "no un-synced bytes were left in a file: {left:?}");
}

/// The last change in the log is in its page in place, and then the change's record is damaged. The
/// log's own recovery takes this for a torn write. The opening refuses the database. Otherwise a
/// change that was acknowledged as durable would be missing from each page that was not written
/// back.
#[test]
fn a_log_without_a_record_that_pages_in_place_contain_is_refused() {
    let device = SimDevice::new(1);
    let (_, to) = rounds(&device, None).expect("no crash");
    let device = SimDevice::new(1);
    rounds(&device, Some(to)).expect("the crash comes after the write-back");
    let reopen = || device.reopen_with(1, Survival::DropAll);
    let whole = Database::open_in(reopen().directory(), options()).expect("a sound log");
    assert!(rows(&whole).iter().all(|value| *value == [2; 2500]));
    let decayed = || {
        let (device, segment) = (reopen(), "log/log.0000000000000000");
        let last = device.image()[segment].windows(100).rposition(|bytes| bytes == [2; 100]);
        let last = last.expect("the record of the last change");
        assert!(device.corrupt(segment, last as u64, 1));
        device
    };
    let (needed, _, _) = in_place(&decayed());
    assert!(end_of_log(&decayed()) < needed);
    match Database::open_in(decayed().directory(), options()) {
        Err(Error::Corrupt { place, page: None, .. }) => assert_eq!(place, "log"),
        other => panic!("opened without a record that pages contain: {other:?}"),
    }
}
