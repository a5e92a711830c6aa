//! Tests of the distinction between an interrupted creation of the database file and a used
//! database.

use super::*;
use crate::paged::space::FILE_NAME;
use katydid_device::{Create, Directory, Id, MemoryDirectory, Method};
use std::sync::Arc;

const DATABASE: Id = Id::new(5);

/// Returns a file with this content.
fn file(content: &[u8]) -> Arc<dyn File> {
    let file = MemoryDirectory::new().open(FILE_NAME, Create::New, Method::Buffered).expect("a file");
    file.write_at(&[IoSlice::new(content)], 0, WriteMode::Durable).expect("written");
    file
}

/// Returns the contents of new files with several page sizes, each with its page size.
fn new_files() -> impl Iterator<Item = (Vec<u8>, usize)> {
    [PAGE_BYTES_MIN, 8 << 10, PAGE_BYTES_MAX].into_iter().map(|page_bytes| {
        let file = file(&[]);
        create(file.as_ref(), DATABASE, page_bytes).expect("created");
        let mut content = AlignedBuffer::new_zeroed(file.len().expect("a length") as usize);
        file.read_at(&mut content, 0).expect("read");
        (content.to_vec(), page_bytes)
    })
}

fn is_creation(content: &[u8]) -> bool {
    is_as_created(file(content).as_ref()).expect("read")
}

#[test]
fn a_creation_cut_short_in_any_sector_is_one_whatever_the_sector_holds() {
    const SECTOR: usize = 512;
    for (whole, page_bytes) in new_files() {
        assert!(is_creation(&whole));
        for at in (0..4 * page_bytes).step_by(SECTOR) {
            for byte in [0, 0xff, 0x5a] {
                let mut torn = whole.clone();
                torn[at..at + SECTOR].fill(byte);
                assert!(is_creation(&torn), "{page_bytes} byte pages, sector at {at} filled with {byte:#x}");
                torn.truncate(at + SECTOR);
                assert!(is_creation(&torn), "{page_bytes} byte pages, cut after the sector at {at}");
            }
        }
    }
}

#[test]
fn a_valid_page_that_no_creation_writes_shows_a_database() {
    for (whole, page_bytes) in new_files() {
        let pages = whole.len() / page_bytes;
        for page in [1, 2, 3, pages - 1] {
            let mut used = whole.clone();
            let bytes = &mut used[page * page_bytes..][..page_bytes];
            LeafMut::format(bytes, PageId::new(page as u64), TableId::new(7), &[], None);
            header::seal(bytes);
            assert!(!is_creation(&used), "{page_bytes} byte pages, page {page}");
            // Damage of page 0 does not hide the valid page.
            used[..page_bytes].fill(0x5a);
            assert!(!is_creation(&used), "{page_bytes} byte pages, page {page}, and page 0 damaged");
        }
    }
}

#[test]
fn a_file_that_was_grown_shows_a_database() {
    for (mut whole, page_bytes) in new_files() {
        whole.resize(whole.len() + page_bytes, 0);
        assert!(!is_creation(&whole), "{page_bytes} byte pages");
    }
}

#[test]
fn a_newer_programs_file_shows_a_database() {
    for (mut whole, page_bytes) in new_files() {
        let version = header::BYTES + 8;
        assert_eq!(whole[version..version + 4], file_page::VERSION.to_le_bytes());
        whole[version] += 1;
        assert!(!is_creation(&whole), "{page_bytes} byte pages");
    }
}
