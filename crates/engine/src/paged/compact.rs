//! Rewriting the database file without its free pages, so that it shrinks.
//!
//! Runs on the caller's thread, which has the directory's lock, on a database that was closed
//! cleanly. Every page in place is whole, and no record above the last checkpoint changes a page,
//! so the log fits the old file and the new one alike. From the rename in step 3 on, the new file
//! is the database file. The steps:
//!
//! 1. the new file is written under another name and made durable: pages in use in their old order,
//!    one directly after the other, with renumbered links to other pages;
//! 2. the double-write area is removed, durably, because its copies have page numbers of the old
//!    file;
//! 3. the new file takes the name of the old one, durably.
//!
//! Invariants:
//!
//! 1. Pages 0, 1 and 2 and the maps keep their numbers, and all other pages keep their order.
//! 2. Every page of the new file except page 0 has the LSN of the last checkpoint's begin record.
//!    That LSN is above the end of every copy made before the compaction, so an increment to such a
//!    copy contains every page that is in use.
//! 3. If a page does not have the bytes that were written, or links to a page not in use, the
//!    compaction ends with an error and changes nothing.
//!
//! A crash or a failure before step 3 leaves the old file, and perhaps the new one under its other
//! name. The next opening removes that new file, or the next compaction writes over it. The next
//! opening also creates a missing double-write area.

use crate::Lsn;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::paged::catalog;
use crate::paged::double_write;
use crate::paged::page::{Kind, MapMut, MapRef, PageId, check, file_page, header, map, relocate};
use crate::paged::space;
use crate::paged::tree::Tree;
use crate::report::VerifyProgress;
use katydid_device::{AlignedBuffer, Create, Directory, File, Method, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of the new file until it takes the place of the old one.
pub(crate) const NEW_FILE_NAME: &str = "katydid.pages.new";

/// Bytes of pages that are written with one call.
const CHUNK: usize = 1 << 20;

/// Rewrites the database file. Returns its length in bytes before and after.
pub(crate) fn compact(
    directory: &Arc<dyn Directory>,
    control: &Control,
    method: Method,
    progress: Option<&VerifyProgress>,
) -> Result<(u64, u64)> {
    let page_bytes = control.page_bytes as usize;
    let old = directory.open_read_only(space::FILE_NAME)?;
    space::check_file(old.as_ref(), &directory.describe(), control.database, page_bytes)?;
    let new = directory.open(NEW_FILE_NAME, Create::IfMissing, method)?;
    let written = (|| {
        new.truncate(0)?;
        let file = OldFile { file: old.as_ref(), page_bytes };
        let used = Used::read(&file)?;
        let lsn = control.checkpoint;
        let mut writer = Writer::new(new.as_ref(), page_bytes);
        let catalog = |page: &mut [u8]| catalog_moved(page, &used);
        let mut page = AlignedBuffer::new_zeroed(page_bytes);
        for number in 0..used.new_pages() {
            let id = PageId::new(number);
            match used.old_of(id) {
                Source::File => file_page::format(&mut page, control.database),
                Source::Map => used.format_map(&mut page, id, lsn),
                Source::Page(old) => {
                    file.read(old, &mut page)?;
                    relocate::relocate(&mut page, id, lsn, &|page| used.moved(page))?;
                    catalog(&mut page)?;
                }
            }
            header::seal(&mut page);
            writer.push(&page)?;
            if let Some(progress) = progress
                && number.is_multiple_of(256)
            {
                progress(number, used.new_pages());
            }
        }
        writer.flush()?;
        new.sync()?;
        Ok((old.len()?, new.len()?))
    })();
    drop(new);
    if written.is_err() {
        // The new file is removed, because it takes space, and the device may be full. A failure to
        // remove it does no harm, because the file is no part of the database.
        let _removed = directory.remove(NEW_FILE_NAME);
        return written;
    }
    // The sync also makes the name of the new file durable, before that file replaces the old one.
    match directory.remove(double_write::FILE_NAME) {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => directory.sync()?,
    }
    directory.rename(NEW_FILE_NAME, space::FILE_NAME)?;
    directory.sync()?;
    written
}

/// Returns whether the file was rewritten after the checkpoint with this begin record. Only a
/// rewritten page has the LSN of a begin record, because begin records change no page. Reads the
/// catalog's root from the file.
pub(crate) fn is_rewritten(file: &dyn File, checkpoint: Lsn, page_bytes: usize) -> Result<bool> {
    let Some(offset) = PageId::CATALOG_ROOT.offset(page_bytes) else { return Ok(false) };
    let mut page = AlignedBuffer::new_zeroed(page_bytes);
    let read = file.read_at(&mut page, offset)?;
    Ok(read == page_bytes && checkpoint > Lsn::ZERO && header::page_lsn(&page) == checkpoint)
}

/// Renumbers the roots that a leaf of the catalog names.
fn catalog_moved(page: &mut [u8], used: &Used) -> Result<()> {
    if header::kind(page) != Some(Kind::Leaf) || header::table(page) != TableId::CATALOG {
        return Ok(());
    }
    relocate::for_each_inline(page, |name, entry| {
        let tree = catalog::decode(name, entry)?;
        let root = used.moved(tree.root).ok_or_else(|| Error::Corrupt {
            place: format!("the catalog's entry of table \"{}\"", name.escape_ascii()),
            page: None,
            finding: format!("its root, page {}, is not in use", tree.root),
        })?;
        entry.copy_from_slice(&catalog::encode(Tree::new(tree.table, root)));
        Ok(())
    })
}

struct OldFile<'a> {
    file: &'a dyn File,
    page_bytes: usize,
}

impl OldFile<'_> {
    fn read(&self, page: PageId, buffer: &mut [u8]) -> Result<()> {
        let offset = page.offset(self.page_bytes).unwrap_or(u64::MAX);
        let read = self.file.read_at(buffer, offset)?;
        Ok(check(&buffer[..read], page, self.page_bytes)?)
    }
}

/// Source of a page of the new file.
enum Source {
    File,
    Map,
    Page(PageId),
}

/// The pages that move: all pages in use except the file's own pages (0, 1 and 2, and the maps).
/// The catalog's root keeps its number.
struct Used {
    page_bytes: usize,
    /// One bit for each page of the old file; set if the page moves.
    words: Vec<u64>,
    /// Number of set bits before each word.
    before: Vec<u64>,
    /// Number of pages that move.
    count: u64,
}

impl Used {
    fn of(page_bytes: usize, words: Vec<u64>) -> Used {
        let mut before = Vec::with_capacity(words.len());
        let mut count = 0;
        for word in &words {
            before.push(count);
            count += u64::from(word.count_ones());
        }
        Used { page_bytes, words, before, count }
    }

    fn read(old: &OldFile<'_>) -> Result<Used> {
        let page_bytes = old.page_bytes;
        let pages = old.file.len()? / page_bytes as u64;
        let mut words = vec![0u64; pages.div_ceil(64) as usize];
        let mut page = AlignedBuffer::new_zeroed(page_bytes);
        for number in 0..pages.div_ceil(map::bits_per_map(page_bytes)) {
            let id = map::map_page(number, page_bytes);
            // If a file ends one page beyond a border of maps, that last page need not be a valid
            // map yet (`space`, crash case b).
            if number > 0 && id.get() + 1 >= pages {
                break;
            }
            old.read(id, &mut page)?;
            header::expect(&page, Kind::Map)?;
            for in_use in MapRef::new(&page).pages_in_use() {
                if !map::is_own_page(in_use, page_bytes) {
                    let word = words.get_mut((in_use.get() / 64) as usize).ok_or_else(|| Error::Corrupt {
                        place: format!("page {id}"),
                        page: Some(id.get()),
                        finding: format!("page {in_use} is in use and beyond the end of the file"),
                    })?;
                    *word |= 1 << (in_use.get() % 64);
                }
            }
        }
        Ok(Used::of(page_bytes, words))
    }

    /// Returns the new number of a page, or `None` if the page is not in use.
    fn moved(&self, page: PageId) -> Option<PageId> {
        if page == PageId::CATALOG_ROOT {
            return Some(page);
        }
        let (at, bit) = ((page.get() / 64) as usize, page.get() % 64);
        let word = *self.words.get(at)?;
        (word >> bit & 1 != 0)
            .then(|| self.nth_place(self.before[at] + u64::from((word & ((1 << bit) - 1)).count_ones())))
    }

    /// Returns the new number of the `nth` page that moves, counted from 0. The pages that move get
    /// the numbers between those of the file's own pages.
    fn nth_place(&self, nth: u64) -> PageId {
        let per_map = map::bits_per_map(self.page_bytes);
        let in_first = per_map - 3;
        PageId::new(match nth.checked_sub(in_first) {
            None => 3 + nth,
            Some(rest) => (1 + rest / (per_map - 1)) * per_map + 1 + rest % (per_map - 1),
        })
    }

    /// Number of pages of the new file.
    fn new_pages(&self) -> u64 {
        match self.count {
            0 => PageId::CATALOG_ROOT.get() + 1,
            count => self.nth_place(count - 1).get() + 1,
        }
    }

    /// Returns the source of page `new` of the new file.
    fn old_of(&self, new: PageId) -> Source {
        let per_map = map::bits_per_map(self.page_bytes);
        match new {
            PageId::NONE => Source::File,
            PageId::FIRST_MAP => Source::Map,
            PageId::CATALOG_ROOT => Source::Page(new),
            _ if map::is_own_page(new, self.page_bytes) => Source::Map,
            _ => {
                // Subtracts the number of own pages below `new`: three, and all maps but the first.
                let nth = new.get() - 3 - new.get() / per_map;
                let word = self.before.partition_point(|before| *before <= nth) - 1;
                let mut bits = self.words[word];
                for _ in self.before[word]..nth {
                    bits &= bits - 1;
                }
                Source::Page(PageId::new(word as u64 * 64 + u64::from(bits.trailing_zeros())))
            }
        }
    }

    /// Makes the map `id` of the new file.
    fn format_map(&self, page: &mut [u8], id: PageId, lsn: Lsn) {
        map::format(page, id);
        header::set_page_lsn(page, lsn);
        let base = MapRef::new(page).base().get();
        let end = self.new_pages().min(base + map::bits_per_map(self.page_bytes));
        let mut bits = MapMut::new(page);
        for number in base..end {
            // The bits of the file's own pages are set already.
            let _was_clear = bits.set((number - base) as usize);
        }
    }
}

/// Writes pages one directly after the other.
struct Writer<'a> {
    file: &'a dyn File,
    buffer: AlignedBuffer,
    used: usize,
    at: u64,
}

impl<'a> Writer<'a> {
    fn new(file: &'a dyn File, page_bytes: usize) -> Self {
        let bytes = CHUNK - CHUNK % page_bytes;
        Writer { file, buffer: AlignedBuffer::new_zeroed(bytes), used: 0, at: 0 }
    }

    fn push(&mut self, page: &[u8]) -> Result<()> {
        self.buffer[self.used..self.used + page.len()].copy_from_slice(page);
        self.used += page.len();
        if self.used == self.buffer.len() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.used > 0 {
            self.file.write_at(&[IoSlice::new(&self.buffer[..self.used])], self.at, WriteMode::Written)?;
        }
        self.at += self.used as u64;
        self.used = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the page numbers that `Used` computes with a list, across borders of maps. A map of
    /// 4,096 bytes has 32,384 bits.
    #[test]
    fn places_are_those_of_a_list() {
        let page_bytes = 4096;
        let per_map = map::bits_per_map(page_bytes);
        let mut rng = fastrand::Rng::with_seed(5);
        let pages = 2 * per_map + 700;
        let in_use: Vec<u64> =
            (3..pages).filter(|page| !page.is_multiple_of(per_map) && rng.u8(..10) < 8).collect();
        let mut words = vec![0u64; pages.div_ceil(64) as usize];
        in_use.iter().for_each(|page| words[(page / 64) as usize] |= 1 << (page % 64));
        let used = Used::of(page_bytes, words);
        let places: Vec<u64> =
            (3..).filter(|page: &u64| !page.is_multiple_of(per_map)).take(in_use.len()).collect();
        assert_eq!(used.new_pages(), places[places.len() - 1] + 1);
        assert!(used.new_pages() > per_map, "no border was crossed");
        for (old, new) in in_use.iter().zip(&places) {
            assert_eq!(used.moved(PageId::new(*old)), Some(PageId::new(*new)));
            match used.old_of(PageId::new(*new)) {
                Source::Page(from) => assert_eq!(from.get(), *old),
                _ => panic!("page {new} is one of the file's own"),
            }
        }
        assert!(matches!(used.old_of(PageId::new(per_map)), Source::Map));
        assert_eq!(used.moved(PageId::new(pages + 5)), None);
    }
}
