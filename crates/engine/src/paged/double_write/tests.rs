//! Tests of the double-write area's format. `pool/tests/crash` has the tests with crashes.

use super::*;
use crate::TableId;
use crate::paged::page::tests::for_seeds;
use crate::paged::page::{PageFault, overflow};
use katydid_device::{Fault, Id, MemoryDirectory, SimDevice, Survival, Verb};

const PAGE_BYTES: usize = 4096;
const DATABASE: Id = Id::new(0xFEDC_BA98_7654_3210);

fn page(id: u64, fill: u8) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    overflow::format(&mut page, PageId::new(id), TableId::new(1), &[fill; 100], PageId::NONE);
    page
}

fn batch(ids: &[u64], fill: u8) -> Batch {
    let mut batch = Batch::new(PAGE_BYTES, 8);
    for id in ids {
        batch.push(&page(*id, fill));
    }
    batch
}

fn files() -> (MemoryDirectory, DoubleWrite, Arc<dyn File>) {
    let directory = MemoryDirectory::new();
    let area = DoubleWrite::open(&directory, Method::Direct, DATABASE, PAGE_BYTES).expect("an area");
    let file = directory.open("pages", Create::New, Method::Direct).expect("a file");
    file.prepare(0, 20 * PAGE_BYTES as u64).expect("room");
    (directory, area, file)
}

fn state(file: &dyn File, id: u64) -> std::result::Result<u8, PageFault> {
    let mut bytes = vec![0; PAGE_BYTES];
    file.read_at(&mut bytes, id * PAGE_BYTES as u64).expect("a read");
    check(&bytes, PageId::new(id), PAGE_BYTES).map(|()| bytes[header::BYTES])
}

fn area_bytes(directory: &MemoryDirectory) -> Arc<dyn File> {
    directory.open(FILE_NAME, Create::Never, Method::Direct).expect("the area")
}

#[test]
fn the_area_remembers_the_most_that_its_pages_have_needed_of_the_log() {
    let (_directory, area, file) = files();
    assert_eq!(area.log_needed().expect("never written"), Lsn::ZERO);
    let mut batch = batch(&[3], 1);
    for end in [700, 300] {
        batch.needs_log(Lsn::new(end));
        area.write(&mut batch, file.as_ref()).expect("a write");
        assert_eq!(area.log_needed().expect("a header"), Lsn::new(700));
    }
}

#[test]
fn only_damaged_pages_are_put_back() {
    let (_directory, area, file) = files();
    area.write(&mut batch(&[3, 4, 5, 9], 1), file.as_ref()).expect("a write");
    assert_eq!(area.restore(file.as_ref()).expect("whole"), 0);
    file.write_at(&[IoSlice::new(&[0xAA; 512])], 4 * PAGE_BYTES as u64 + 512, WriteMode::Durable)
        .expect("a write");
    file.write_at(&[IoSlice::new(&[0; PAGE_BYTES])], 9 * PAGE_BYTES as u64, WriteMode::Durable)
        .expect("a write");
    // A whole page of a newer version is not replaced.
    let mut newer = page(5, 2);
    header::seal(&mut newer);
    file.write_at(&[IoSlice::new(&newer)], 5 * PAGE_BYTES as u64, WriteMode::Durable).expect("a write");
    assert_eq!(area.restore(file.as_ref()).expect("torn"), 2);
    assert_eq!([3, 4, 5, 9].map(|id| state(file.as_ref(), id)), [Ok(1), Ok(1), Ok(2), Ok(1)]);
    assert_eq!(area.restore(file.as_ref()).expect("whole again"), 0);
}

/// A torn page is put back, and then a batch replaces its copy in the area. The machine crashes
/// before the batch's sync of the database file. The page is whole, because the opening that put it
/// back synced it.
#[test]
fn a_page_that_was_put_back_is_durable_before_its_copy_is_replaced() {
    let device = SimDevice::new(1);
    let open = |device: &SimDevice| {
        let directory = device.directory();
        let area = DoubleWrite::open(directory.as_ref(), Method::Direct, DATABASE, PAGE_BYTES);
        (area.expect("an area"), directory.open("pages", Create::IfMissing, Method::Direct).expect("a file"))
    };
    let (area, file) = open(&device);
    file.prepare(0, 20 * PAGE_BYTES as u64).expect("room");
    device.directory().sync().expect("the names");
    area.write(&mut batch(&[3], 1), file.as_ref()).expect("a write");
    file.write_at(&[IoSlice::new(&[0xAA; 512])], 3 * PAGE_BYTES as u64 + 512, WriteMode::Durable)
        .expect("a write");
    assert_eq!(area.restore(file.as_ref()).expect("torn"), 1);
    let is_sync = |verb, path: &str| verb == Verb::Sync && path == "pages";
    device.fail_when(move |verb, path, _| is_sync(verb, path).then_some(Fault::Crash));
    area.write(&mut batch(&[4], 2), file.as_ref()).expect_err("a crash");
    let (area, file) = open(&device.reopen_with(1, Survival::DropAll));
    assert_eq!(area.restore(file.as_ref()).expect("the second batch"), 1);
    assert_eq!([3, 4].map(|id| state(file.as_ref(), id)), [Ok(1), Ok(2)]);
}

#[test]
fn damaged_copy_is_not_used() {
    let (directory, area, file) = files();
    area.write(&mut batch(&[3, 4], 1), file.as_ref()).expect("a write");
    area_bytes(&directory)
        .write_at(&[IoSlice::new(b"rot")], BLOCK as u64 + 2000, WriteMode::Durable)
        .expect("a write");
    for id in [3, 4] {
        file.write_at(&[IoSlice::new(b"rot")], id * PAGE_BYTES as u64 + 2000, WriteMode::Durable)
            .expect("a write");
    }
    assert_eq!(area.restore(file.as_ref()).expect("one copy"), 1);
    assert!(state(file.as_ref(), 3).is_err());
    assert_eq!(state(file.as_ref(), 4), Ok(1));
}

#[test]
fn damaged_header_means_nothing_to_put_back() {
    for_seeds(200, |rng| {
        let (directory, area, file) = files();
        area.write(&mut batch(&[3, 4], 1), file.as_ref()).expect("a write");
        let raw = area_bytes(&directory);
        let mut block = vec![0; BLOCK];
        raw.read_at(&mut block, 0).expect("a read");
        for _ in 0..rng.usize(1..5) {
            block[rng.usize(8..100)] = rng.u8(..);
        }
        raw.write_at(&[IoSlice::new(&block)], 0, WriteMode::Durable).expect("a write");
        file.write_at(&[IoSlice::new(b"rot")], 3 * PAGE_BYTES as u64 + 2000, WriteMode::Durable)
            .expect("a write");
        // `restore` never fails. It restores nothing, or the page if the overwriting bytes equal
        // the old ones.
        assert!(area.restore(file.as_ref()).expect("total") <= 1);
    });
}

#[test]
fn area_of_another_database_or_version_is_refused() {
    let (directory, area, file) = files();
    area.write(&mut batch(&[3], 1), file.as_ref()).expect("a write");
    let refusal = |database| {
        let area = DoubleWrite::open(&directory, Method::Direct, database, PAGE_BYTES).expect("an area");
        match area.restore(file.as_ref()) {
            Err(Error::Foreign { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal(Id::new(1)), Foreign::Identity(FILE_NAME.to_owned()));
    let raw = area_bytes(&directory);
    let mut block = vec![0; BLOCK];
    raw.read_at(&mut block, 0).expect("a read");
    block[8] = 2;
    let sum = block_checksum(&block);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
    raw.write_at(&[IoSlice::new(&block)], 0, WriteMode::Durable).expect("a write");
    assert_eq!(refusal(DATABASE), Foreign::NewerVersion { file: FILE_NAME.to_owned(), found: 2, known: 1 });
}

/// The sectors of an interrupted write may hold anything.
#[test]
fn an_area_whose_header_is_garbage_is_one_without_copies() {
    let (directory, area, file) = files();
    area.write(&mut batch(&[3], 1), file.as_ref()).expect("a write");
    area_bytes(&directory).write_at(&[IoSlice::new(&[b'x'; BLOCK])], 0, WriteMode::Durable).expect("a write");
    assert_eq!(area.restore(file.as_ref()).expect("nothing to restore"), 0);
    assert_eq!(area.log_needed().expect("the area does not say"), Lsn::ZERO);
    assert_eq!(state(file.as_ref(), 3), Ok(1));
}

#[test]
fn format_1_is_still_read_and_written() {
    let fixture = include_bytes!("../../../tests/fixtures/doublewrite-v1");
    let (directory, area, file) = files();
    area.write(&mut batch(&[3, 9], 7), file.as_ref()).expect("a write");
    let mut written = vec![0; fixture.len()];
    area_bytes(&directory).read_at(&mut written, 0).expect("a read");
    assert!(written == fixture, "the area is written in another format");
    let (directory, area, file) = files();
    area_bytes(&directory).write_at(&[IoSlice::new(fixture)], 0, WriteMode::Durable).expect("a write");
    assert_eq!(area.restore(file.as_ref()).expect("the fixture"), 2);
    assert_eq!((state(file.as_ref(), 3), state(file.as_ref(), 9)), (Ok(7), Ok(7)));
}
