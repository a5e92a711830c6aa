//! One simulated file: the bytes that programs see, the bytes that the device keeps, and the
//! un-synced versions in between.
//!
//! Pure functions: no latches, no I/O; the only randomness is that of the generator handed in. All
//! functions of this file run under the device's latch.
//!
//! Invariants:
//!
//! 1. A sector is *clean* (seen == kept), *dirty* (in `pending`: the next sync keeps it) or *lost*
//!    (in `lost`: a sync failed, the kernel marked the sector clean, and no later sync will keep
//!    it). Dirty and lost exclude each other.
//! 2. After a crash, every sector in `pending[..].dirty` may hold the kept bytes, any version
//!    remembered for it, or the seen bytes. At most [`VERSIONS_MAX`] versions of a page are
//!    remembered besides these two. Sectors of calls that were under way at a crash (`under_way`)
//!    are dirty, and [`Survival::Trash`] may make them garbage.
//! 3. `seen` is zeros from `length` on, `kept` from `kept_length` on.
//!
//! A crash replaces the file by [`FileImage::survivor`].

use super::bytes::{ALL_SECTORS, Bytes, PAGE_BYTES, Page, SECTOR_BYTES, Sectors, each, each_page, sectors};
use crate::survival::Survival;
use fastrand::Rng;
use std::collections::BTreeMap;

/// Maximum number of un-synced versions remembered for each page, besides the kept and the seen
/// version.
const VERSIONS_MAX: usize = 4;

#[derive(Debug, Clone, Default)]
struct Pending {
    dirty: Sectors,
    versions: Vec<(Option<Page>, Sectors)>,
}

/// Reach of a write's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The bytes are seen at once, and kept by the next sync.
    Cache,
    /// The bytes are seen and kept at once.
    Device,
}

/// One simulated file.
#[derive(Debug, Clone, Default)]
pub(super) struct FileImage {
    seen: Bytes,
    length: u64,
    kept: Bytes,
    kept_length: u64,
    // Lengths that the file had after `kept_length` and before `length`; a crash may leave any of
    // them.
    lengths: Vec<u64>,
    pending: BTreeMap<usize, Pending>,
    lost: BTreeMap<usize, Sectors>,
    /// Dirty sectors of calls that the crash has interrupted.
    under_way: BTreeMap<usize, Sectors>,
}

impl FileImage {
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    pub(super) fn kept_len(&self) -> u64 {
        self.kept_length
    }

    pub(super) fn dirty_sectors(&self) -> u64 {
        self.pending.values().map(|pending| u64::from(pending.dirty.count_ones())).sum()
    }

    pub(super) fn lost_sectors(&self) -> u64 {
        self.lost.values().map(|lost| u64::from(lost.count_ones())).sum()
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = self.length.saturating_sub(offset);
        let len = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        self.seen.read(&mut buffer[..len], offset);
        len
    }

    /// Returns every byte as programs see it.
    pub(super) fn contents(&self) -> Vec<u8> {
        let mut contents = vec![0; self.length as usize];
        self.seen.read(&mut contents, 0);
        contents
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64, reach: Reach) {
        each_page(offset, bytes.len() as u64, |page, inside, done, count| {
            let source = &bytes[done as usize..done as usize + count];
            self.seen.page_mut(page)[inside..inside + count].copy_from_slice(source);
            self.touched(page, sectors(inside, inside + count), reach);
        });
        self.reached(offset + bytes.len() as u64, reach);
    }

    pub(super) fn zero(&mut self, from: u64, to: u64, reach: Reach) {
        each_page(from, to.saturating_sub(from), |page, inside, _, count| {
            if count == PAGE_BYTES {
                self.seen.set_page(page, None);
            } else if self.seen.page(page).is_some() {
                self.seen.page_mut(page)[inside..inside + count].fill(0);
            }
            self.touched(page, sectors(inside, inside + count), reach);
        });
        self.reached(to, reach);
    }

    /// Notes that a crash has interrupted a call that was writing `[from, to)`.
    pub(super) fn interrupt(&mut self, from: u64, to: u64) {
        each_page(from, to.saturating_sub(from), |page, inside, _, count| {
            *self.under_way.entry(page).or_default() |= sectors(inside, inside + count);
        });
    }

    /// Returns the file that a killed process leaves, in which all calls of the process have taken
    /// effect.
    pub(super) fn after_kill(&self) -> FileImage {
        FileImage { under_way: BTreeMap::new(), ..self.clone() }
    }

    /// Notes that a crash has interrupted a sync.
    pub(super) fn interrupt_sync(&mut self) {
        self.under_way = self.pending.iter().map(|(page, pending)| (*page, pending.dirty)).collect();
    }

    /// Cuts the file. The next sync makes the cut durable.
    pub(super) fn truncate(&mut self, length: u64) {
        let (first, inside) = ((length / PAGE_BYTES as u64) as usize, (length % PAGE_BYTES as u64) as usize);
        let end = self.seen.pages().max(self.kept.pages());
        let before = self.length;
        for page in first..end {
            let from = if page == first { inside } else { 0 };
            let was = self.seen.page(page).is_some() || self.kept.page(page).is_some();
            if !was && !self.pending.contains_key(&page) {
                continue;
            }
            if from == 0 {
                self.seen.set_page(page, None);
            } else if self.seen.page(page).is_some() {
                self.seen.page_mut(page)[from..].fill(0);
            }
            self.touched(page, sectors(from, PAGE_BYTES), Reach::Cache);
        }
        if length < before {
            self.remember_length();
            self.length = length;
        }
    }

    fn remember_length(&mut self) {
        if self.length != self.kept_length && self.lengths.last() != Some(&self.length) {
            if self.lengths.len() == VERSIONS_MAX {
                self.lengths.remove(0);
            }
            self.lengths.push(self.length);
        }
    }

    fn reached(&mut self, end: u64, reach: Reach) {
        if end > self.length {
            self.remember_length();
            self.length = end;
        }
        if reach == Reach::Device {
            // These bytes are durable, so each length that may survive a crash must include them. A
            // greater length need not survive.
            self.kept_length = self.kept_length.max(end);
            self.lengths.iter_mut().for_each(|length| *length = (*length).max(end));
        }
    }

    fn touched(&mut self, page: usize, set: Sectors, reach: Reach) {
        if let Some(lost) = self.lost.get_mut(&page) {
            *lost &= !set;
            if *lost == 0 {
                self.lost.remove(&page);
            }
        }
        match reach {
            Reach::Cache => {
                let pending = self.pending.entry(page).or_default();
                pending.dirty |= set;
                if pending.versions.len() == VERSIONS_MAX {
                    pending.versions.remove(0);
                }
                pending.versions.push((self.seen.page(page).cloned(), set));
            }
            Reach::Device => self.keep(page, set),
        }
    }

    /// Takes the seen bytes of a page's sectors as their kept bytes.
    fn keep(&mut self, page: usize, set: Sectors) {
        let mut dirty_left = 0;
        if let Some(pending) = self.pending.get_mut(&page) {
            pending.dirty &= !set;
            pending.versions.retain_mut(|(_, has)| {
                *has &= !set;
                *has != 0
            });
            dirty_left = pending.dirty;
            if dirty_left == 0 {
                self.pending.remove(&page);
            }
        }
        if dirty_left == 0 && !self.lost.contains_key(&page) {
            self.kept.set_page(page, self.seen.page(page).cloned());
        } else {
            each(set).for_each(|sector| self.kept.copy_sector(page, sector, self.seen.page(page)));
        }
    }

    /// Makes every dirty sector and the length durable.
    pub(super) fn sync(&mut self) {
        let pages: Vec<(usize, Sectors)> =
            self.pending.iter().map(|(page, pending)| (*page, pending.dirty)).collect();
        pages.into_iter().for_each(|(page, set)| self.keep(page, set));
        self.kept_length = self.length;
        self.lengths.clear();
        self.kept.cut(self.kept_length);
    }

    /// Makes a sync fail: each dirty sector of `[from, to)` reaches the device or is lost, as on
    /// Linux.
    pub(super) fn fail_sync(&mut self, from: u64, to: u64, rng: &mut Rng) {
        let (first, end) = ((from / PAGE_BYTES as u64) as usize, to.div_ceil(PAGE_BYTES as u64) as usize);
        let inside = |page: usize| {
            let start = page as u64 * PAGE_BYTES as u64;
            let low = from.saturating_sub(start).min(PAGE_BYTES as u64) as usize;
            sectors(low, to.saturating_sub(start).min(PAGE_BYTES as u64) as usize)
        };
        let pages: Vec<(usize, Sectors)> = self
            .pending
            .range(first..end.max(first))
            .map(|(page, pending)| (*page, pending.dirty & inside(*page)))
            .collect();
        for (page, dirty) in pages {
            let made_it = dirty & rng.u8(..);
            let lost = dirty & !made_it;
            each(made_it).for_each(|sector| self.kept.copy_sector(page, sector, self.seen.page(page)));
            if lost != 0 {
                *self.lost.entry(page).or_default() |= lost;
            }
            self.forget(page, dirty);
        }
        if rng.bool() {
            self.kept_length = self.kept_length.max(self.length.min(to));
        }
    }

    fn forget(&mut self, page: usize, set: Sectors) {
        if let Some(pending) = self.pending.get_mut(&page) {
            pending.dirty &= !set;
            pending.versions.retain_mut(|(_, has)| {
                *has &= !set;
                *has != 0
            });
            if pending.dirty == 0 {
                self.pending.remove(&page);
            }
        }
    }

    /// Drops the cache: from now on, reads of lost sectors return the bytes that the device has.
    pub(super) fn drop_cache(&mut self) {
        for (page, set) in std::mem::take(&mut self.lost) {
            each(set).for_each(|sector| self.seen.copy_sector(page, sector, self.kept.page(page)));
        }
        self.seen.cut(self.length);
    }

    /// Changes one byte everywhere it is stored.
    pub(super) fn corrupt(&mut self, offset: u64, xor: u8) -> bool {
        if offset >= self.length.max(self.kept_length) {
            return false;
        }
        let (page, inside) = ((offset / PAGE_BYTES as u64) as usize, (offset % PAGE_BYTES as u64) as usize);
        self.seen.page_mut(page)[inside] ^= xor;
        self.kept.page_mut(page)[inside] ^= xor;
        if let Some(pending) = self.pending.get_mut(&page) {
            pending.versions.iter_mut().for_each(|(bytes, _)| {
                let bytes = bytes.get_or_insert_with(|| Page::new([0; PAGE_BYTES]));
                Page::make_mut(bytes)[inside] ^= xor;
            });
        }
        true
    }

    /// Returns the file after a crash, with all its bytes durable.
    pub(super) fn survivor(&self, survival: Survival, rng: &mut Rng) -> FileImage {
        let length = match survival {
            Survival::KeepAll | Survival::Prefix => self.length,
            Survival::DropAll => self.kept_length,
            Survival::Random | Survival::Trash => match rng.usize(0..self.lengths.len() + 2) {
                0 => self.kept_length,
                1 => self.length,
                other => self.lengths[other - 2],
            },
        };
        let mut kept = self.kept.clone();
        // Percent of dirty sectors that survive; each of the five values is equally likely.
        let mood = [0, 10, 50, 90, 100][rng.usize(0..5)];
        let mut left = match survival {
            Survival::Prefix => rng.u64(0..=self.dirty_sectors()),
            _ => 0,
        };
        for (page, pending) in &self.pending {
            match survival {
                Survival::DropAll => {}
                Survival::Prefix => {
                    for sector in each(pending.dirty).take(left as usize) {
                        kept.copy_sector(*page, sector, self.seen.page(*page));
                        left -= 1;
                    }
                }
                Survival::KeepAll if pending.dirty == ALL_SECTORS => {
                    kept.set_page(*page, self.seen.page(*page).cloned());
                }
                Survival::KeepAll => each(pending.dirty)
                    .for_each(|sector| kept.copy_sector(*page, sector, self.seen.page(*page))),
                // A page of which all sectors are dirty is kept or dropped as a whole with
                // probability 1/2, because most devices and file systems write whole pages.
                // Treating the page as a whole is also quicker.
                Survival::Random | Survival::Trash if pending.dirty == ALL_SECTORS && rng.bool() => {
                    if rng.u8(0..100) < mood {
                        kept.set_page(*page, self.seen.page(*page).cloned());
                    }
                }
                Survival::Random | Survival::Trash => {
                    for sector in each(pending.dirty) {
                        if rng.u8(0..100) >= mood {
                            continue;
                        }
                        let old = pending.versions.iter().filter(|(_, has)| has & (1 << sector) != 0);
                        let count = old.clone().count();
                        let pick = if rng.bool() { count } else { rng.usize(0..=count) };
                        let seen = self.seen.page(*page);
                        let chosen = old.map(|(bytes, _)| bytes.as_ref()).nth(pick).unwrap_or(seen);
                        kept.copy_sector(*page, sector, chosen);
                    }
                }
            }
        }
        if survival == Survival::Trash {
            for (page, set) in &self.under_way {
                for sector in each(*set) {
                    let at = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                    match rng.u8(0..4) {
                        0 => rng.fill(&mut kept.page_mut(*page)[at]),
                        // The first bytes of the sector are those of the new version.
                        1 => {
                            let count = rng.usize(0..SECTOR_BYTES);
                            let new = self.seen.page(*page).map_or([0; PAGE_BYTES], |page| **page);
                            let at = at.start..at.start + count;
                            kept.page_mut(*page)[at.clone()].copy_from_slice(&new[at]);
                        }
                        _ => {}
                    }
                }
            }
        }
        kept.cut(length);
        FileImage { seen: kept.clone(), length, kept, kept_length: length, ..FileImage::default() }
    }
}

/// Returns the end of the first `sectors` sectors of a write at `offset`.
pub(super) fn short_end(offset: u64, sectors: u64) -> u64 {
    let sector = SECTOR_BYTES as u64;
    (offset / sector).saturating_add(sectors).saturating_mul(sector).max(offset)
}
