//! The bytes of one simulated file: pages of 4 KiB shared between images by reference, copied when
//! changed.
//!
//! Invariant: a page that is absent, or past the end of the list, reads as zeros.

use std::sync::Arc;

/// Bytes of a page, the unit that images share. A crash may keep only some of a page's sectors.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes of a sector, the unit that a crash keeps or drops whole.
pub(super) const SECTOR_BYTES: usize = 512;

pub(super) type Page = Arc<[u8; PAGE_BYTES]>;

/// A set of the eight sectors of a page.
pub(super) type Sectors = u8;

/// Every sector of a page.
pub(super) const ALL_SECTORS: Sectors = 0xff;

/// Returns the sectors that the bytes `[from, to)` of a page touch.
pub(super) fn sectors(from: usize, to: usize) -> Sectors {
    if from >= to {
        return 0;
    }
    let (first, last) = (from / SECTOR_BYTES, (to - 1) / SECTOR_BYTES);
    (ALL_SECTORS << first) & (ALL_SECTORS >> (7 - last))
}

/// Returns the numbers of the sectors in a set.
pub(super) fn each(set: Sectors) -> impl Iterator<Item = usize> {
    (0..8).filter(move |sector| set & (1 << sector) != 0)
}

/// Calls `step` for each page of `[offset, offset + len)`, with the page's number, the offset in
/// the page, the offset in the range, and the number of bytes.
pub(super) fn each_page(offset: u64, len: u64, mut step: impl FnMut(usize, usize, u64, usize)) {
    let mut done = 0;
    while done < len {
        let at = offset + done;
        let (page, inside) = ((at / PAGE_BYTES as u64) as usize, (at % PAGE_BYTES as u64) as usize);
        let count = ((PAGE_BYTES - inside) as u64).min(len - done) as usize;
        step(page, inside, done, count);
        done += count as u64;
    }
}

/// Bytes by page.
#[derive(Debug, Clone, Default)]
pub(super) struct Bytes {
    pages: Vec<Option<Page>>,
}

impl Bytes {
    pub(super) fn page(&self, page: usize) -> Option<&Page> {
        self.pages.get(page)?.as_ref()
    }

    /// Returns an upper bound of the number of present pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn set_page(&mut self, page: usize, bytes: Option<Page>) {
        if page >= self.pages.len() {
            if bytes.is_none() {
                return;
            }
            self.pages.resize(page + 1, None);
        }
        self.pages[page] = bytes;
    }

    pub(super) fn page_mut(&mut self, page: usize) -> &mut [u8; PAGE_BYTES] {
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        Arc::make_mut(self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE_BYTES])))
    }

    pub(super) fn copy_sector(&mut self, page: usize, sector: usize, from: Option<&Page>) {
        let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        match from {
            Some(from) => self.page_mut(page)[range.clone()].copy_from_slice(&from[range]),
            None if self.page(page).is_some() => self.page_mut(page)[range].fill(0),
            None => {}
        }
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) {
        each_page(offset, buffer.len() as u64, |page, inside, done, count| {
            let target = &mut buffer[done as usize..done as usize + count];
            match self.page(page) {
                Some(bytes) => target.copy_from_slice(&bytes[inside..inside + count]),
                None => target.fill(0),
            }
        });
    }

    /// Zeros everything from `length` on.
    pub(super) fn cut(&mut self, length: u64) {
        let (page, inside) = ((length / PAGE_BYTES as u64) as usize, (length % PAGE_BYTES as u64) as usize);
        self.pages.truncate(page + usize::from(inside != 0));
        if inside != 0 && self.page(page).is_some() {
            self.page_mut(page)[inside..].fill(0);
        }
    }
}
