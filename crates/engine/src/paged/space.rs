//! Allocation of pages of the database file, and its growth.
//!
//! The map pages (`page::map`) are authoritative; logged records change them like any page.
//! [`Space`] keeps a copy of their bits in memory, so that finding a free page touches no page and
//! takes no page latch. In the copy, the bits of pages that are handed out and not logged yet are
//! set, too. A page becomes the caller's in two steps: [`Space::reserve`] takes the page in memory;
//! then the caller's structure-change record sets the page's bit in the map, and the caller calls
//! [`Reserved::keep`]. A `Reserved` that is dropped instead frees the page.
//!
//! Threads that change a tree reserve and free pages while they hold page latches. The checkpoint
//! thread grows the file ahead of need. The latch `growth` is taken before `used`, and both are
//! taken after page latches. `growth` is held across I/O, `used` never is.
//!
//! Invariants:
//!
//! 1. A page that is in use in a map, or reserved, has its bit set in `used`. No caller is handed a
//!    page whose bit is set.
//! 2. A page is handed out only if the file already contains it: growth has filled its place with
//!    zeros, durably. So writing a page never meets a full device. Only growth of the file can meet
//!    a full device, and the growth fails before the caller has changed anything.
//! 3. `Normal` reservations leave [`RESERVE_PAGES`] free pages, so that rollback and restart can
//!    continue when the device is full.
//! 4. A file that reaches beyond the page of map `k` has a valid map `k`.
//!
//! Crash cases of growth across a border of maps: (a) Before the map's page is prepared: the file
//! ends at the border, and growth is repeated. (b) The page is prepared, and the map is not written
//! or is torn: the file ends exactly one page beyond the border, so no page of that map was ever
//! handed out, and `load` writes the map anew. (c) Later: the map is valid (invariant 4).
//! Reservations that a crash loses cost nothing, because they were only in memory.

use super::page::{FaultReason, FilePage, Kind, MapRef, PageFault, PageId, check, file_page, header, map};
use super::pool::Pool;
use crate::error::{Error, Foreign, Result};
use crate::latch::Mutex;
use katydid_device::{AlignedBuffer, File, Id, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the database file.
pub(crate) const FILE_NAME: &str = "katydid.pages";

/// Number of free pages that normal reservations leave for rollback and restart.
pub(crate) const RESERVE_PAGES: u64 = 64;

/// Minimum bytes by which the file grows.
const STEP_BYTES_MIN: u64 = 512 << 10;
/// Maximum bytes by which the file grows while a caller waits for it.
const STEP_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes by which the file is grown ahead of need.
const AHEAD_BYTES_MAX: u64 = 32 << 20;

/// Kind of work that needs a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AllocClass {
    /// Work that may be refused.
    Normal,
    /// Rollback and restart, which may use the reserve.
    Rollback,
}

/// Checks that the file is this database's. Reads only page 0; `place` names the directory in
/// errors.
pub(crate) fn check_file(file: &dyn File, place: &str, database: Id, page_bytes: usize) -> Result<()> {
    let mut page = AlignedBuffer::new_zeroed(page_bytes);
    let read = file.read_at(&mut page, 0)?;
    let foreign = |what| Err(Error::Foreign { place: place.to_owned(), what });
    let name = || FILE_NAME.to_owned();
    let found: FilePage = match file_page::decode(&page[..read]) {
        Some(decoded) => decoded?,
        // A page of zeros, or an empty file, is taken for a damaged file of this database. Any
        // other content without the magic belongs to another program.
        None if page[..read].iter().all(|byte| *byte == 0) => {
            return Err(PageFault { page: PageId::NONE, reason: FaultReason::Zero }.into());
        }
        None => return foreign(Foreign::Magic(name())),
    };
    if found.version > file_page::VERSION {
        let (found, known) = (found.version, file_page::VERSION);
        return foreign(Foreign::NewerVersion { file: name(), found, known });
    }
    if found.database != database || found.page_bytes as usize != page_bytes {
        return foreign(Foreign::Identity(name()));
    }
    Ok(())
}

/// Checks a database file that is not open. Fails if a map marks a page beyond the end of the file
/// as in use, which shows that the file was cut.
pub(crate) fn check_length(file: &dyn File, page_bytes: usize) -> Result<()> {
    let prepared = file.len()? / page_bytes as u64;
    let mut page = AlignedBuffer::new_zeroed(page_bytes);
    for number in 0..prepared.div_ceil(map::bits_per_map(page_bytes)) {
        let id = map::map_page(number, page_bytes);
        let read = file.read_at(&mut page, id.offset(page_bytes).unwrap_or(u64::MAX))?;
        check(&page[..read], id, page_bytes)?;
        header::expect(&page, Kind::Map)?;
        if let Some(in_use) = MapRef::new(&page).pages_in_use().last().filter(|last| last.get() >= prepared) {
            return Err(beyond_the_end(id, in_use, prepared));
        }
    }
    Ok(())
}

/// The error of a map that marks the page `in_use` in a file of `prepared` pages.
fn beyond_the_end(map: PageId, in_use: PageId, prepared: u64) -> Error {
    Error::Corrupt {
        place: format!("page {map}"),
        page: Some(map.get()),
        finding: format!("page {in_use} is in use and beyond the end of the file, {prepared} pages"),
    }
}

pub(super) fn no_space(error: katydid_device::Error) -> Error {
    if error.is_no_space_ahead() {
        Error::NoSpace { what: "pages of the database file".to_owned() }
    } else {
        error.into()
    }
}

/// One bit per page of the file, set if the page is in use or reserved.
#[derive(Debug)]
struct Used {
    words: Vec<u64>,
    /// Number of pages of the file that are zero-filled and durable. Bits beyond them have no
    /// meaning.
    prepared: u64,
    /// Number of clear bits below `prepared`.
    free: u64,
    /// No word before this index has a clear bit.
    cursor: usize,
}

impl Used {
    fn is_set(&self, page: PageId) -> bool {
        let word = self.words.get((page.get() / 64) as usize);
        word.is_none_or(|word| word >> (page.get() % 64) & 1 != 0)
    }

    fn take(&mut self) -> Option<PageId> {
        let from = self.cursor;
        let at = from + self.words[from..].iter().position(|word| *word != u64::MAX)?;
        let bit = self.words[at].trailing_ones();
        let page = at as u64 * 64 + u64::from(bit);
        if page >= self.prepared {
            return None;
        }
        self.words[at] |= 1 << bit;
        self.cursor = at;
        self.free -= 1;
        Some(PageId::new(page))
    }

    /// Clears a bit. Returns `false` if it was clear or lies beyond the file.
    fn give_back(&mut self, page: PageId) -> bool {
        if page.get() >= self.prepared || !self.is_set(page) {
            return false;
        }
        let at = (page.get() / 64) as usize;
        self.words[at] &= !(1 << (page.get() % 64));
        self.cursor = self.cursor.min(at);
        self.free += 1;
        true
    }

    /// Extends the bits to `prepared` pages. The new pages are free.
    fn extend(&mut self, prepared: u64) {
        self.words.resize(prepared.div_ceil(64) as usize, 0);
        self.free += prepared - self.prepared;
        self.prepared = prepared;
    }

    fn mark(&mut self, page: PageId) {
        if !self.is_set(page) {
            self.words[(page.get() / 64) as usize] |= 1 << (page.get() % 64);
            self.free -= 1;
        }
    }
}

/// Size and free pages of the database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpaceStat {
    /// Number of pages of the file.
    pub(crate) pages: u64,
    /// Number of free pages.
    pub(crate) free: u64,
}

/// The free pages of a database file.
#[derive(Debug)]
pub(crate) struct Space {
    file: Arc<dyn File>,
    page_bytes: usize,
    reserve: u64,
    /// Guards the bits. No other latch is taken while it is held.
    used: Mutex<Used>,
    /// Allows one growth at a time. Taken before `used`.
    growth: Mutex<()>,
    /// True if few pages are free. A thread that takes a page sets it; the checkpoint thread clears
    /// it. Relaxed, because it is a hint.
    short: AtomicBool,
}

impl Space {
    /// Reads all maps. Runs after redo, which may have changed them, and before undo, which may
    /// need pages. Repairs a growth that a crash interrupted.
    pub(crate) fn load(pool: &Pool) -> Result<Arc<Space>> {
        let (file, page_bytes) = (pool.file().clone(), pool.page_bytes());
        let bytes = page_bytes as u64;
        let per_map = map::bits_per_map(page_bytes);
        let prepared = file.len()? / bytes;
        let mut used = Used { words: Vec::new(), prepared: 0, free: 0, cursor: 0 };
        used.extend(prepared);
        // Repairs the file after crash case (b).
        let border = prepared.saturating_sub(1);
        if border > 0 && border.is_multiple_of(per_map) {
            write_map(file.as_ref(), PageId::new(border), page_bytes)?;
        }
        for number in 0..prepared.div_ceil(per_map) {
            let id = map::map_page(number, page_bytes);
            if id.get() >= prepared {
                break;
            }
            let page = pool.read(id)?;
            for in_use in page.map()?.pages_in_use() {
                if in_use.get() >= prepared {
                    return Err(beyond_the_end(id, in_use, prepared));
                }
                used.mark(in_use);
            }
        }
        let space = Space {
            file,
            page_bytes,
            reserve: RESERVE_PAGES,
            used: Mutex::new(used),
            growth: Mutex::new(()),
            short: AtomicBool::new(true),
        };
        // Grows the file until invariant 3 holds, as far as the device has room. Until the device
        // has room, normal reservations are refused.
        match space.grow_below(RESERVE_PAGES, STEP_BYTES_MIN) {
            Err(error) if !matches!(error, Error::NoSpace { .. }) => Err(error),
            _ => Ok(Arc::new(space)),
        }
    }

    /// Takes a free page, which no other caller gets while the `Reserved` lives. May grow the file
    /// and wait for the growth. Fails with `NoSpace` if the device is full; nothing is changed
    /// then, and the same call succeeds once there is room.
    pub(crate) fn reserve(self: &Arc<Self>, class: AllocClass) -> Result<Reserved> {
        let floor = match class {
            AllocClass::Normal => self.reserve,
            AllocClass::Rollback => 0,
        };
        loop {
            if let Some(page) = self.take_above(floor) {
                return Ok(Reserved { page, space: Some(self.clone()) });
            }
            self.grow_below(floor + 1, self.step())?;
        }
    }

    /// Takes `count` free pages, those with the lowest numbers, or none at all.
    pub(crate) fn reserve_many(self: &Arc<Self>, class: AllocClass, count: usize) -> Result<Vec<Reserved>> {
        (0..count).map(|_| self.reserve(class)).collect()
    }

    fn take_above(&self, floor: u64) -> Option<PageId> {
        let mut used = self.used.lock();
        if used.free <= floor {
            return None;
        }
        // The checkpoint thread is asked to grow the file at every 16th page only, because on a
        // full device each request notifies it in vain.
        if used.free.is_multiple_of(16)
            && used.free < self.reserve + Self::ahead(used.prepared, self.page_bytes) / 2
        {
            self.short.store(true, Ordering::Relaxed);
        }
        used.take()
    }

    /// Returns whether the checkpoint thread should call [`Space::grow_ahead`].
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Number of pages by which a file of `prepared` pages is grown ahead of need.
    fn ahead(prepared: u64, page_bytes: usize) -> u64 {
        (prepared * page_bytes as u64 / 8).clamp(STEP_BYTES_MIN, AHEAD_BYTES_MAX) / page_bytes as u64
    }

    /// Bytes by which the file is grown when a thread waits for it: the same as for growth ahead of
    /// need, but at most [`STEP_BYTES_MAX`].
    fn step(&self) -> u64 {
        let prepared = self.stat().pages;
        (Self::ahead(prepared, self.page_bytes) * self.page_bytes as u64).min(STEP_BYTES_MAX)
    }

    /// Notes that a record in the log has cleared a page's bit in its map. No thread reaches the
    /// page any more, so another caller may take it. Returns `false` if the page was free already,
    /// belongs to a map, or lies beyond the file. Each of these is a fault of the caller's
    /// structures.
    #[must_use]
    pub(crate) fn freed(&self, page: PageId) -> bool {
        !map::is_own_page(page, self.page_bytes) && self.used.lock().give_back(page)
    }

    /// Returns whether a page, which the file must contain, is in use or reserved.
    pub(crate) fn is_taken(&self, page: PageId) -> bool {
        self.used.lock().is_set(page)
    }

    /// Returns the number of pages and of free pages.
    pub(crate) fn stat(&self) -> SpaceStat {
        let used = self.used.lock();
        SpaceStat { pages: used.prepared, free: used.free }
    }

    /// Grows the file if few pages are free, so that reservations need not wait for growth. Called
    /// by the checkpoint thread. Returns whether the file grew. The caller may ignore `NoSpace`,
    /// because reservations will report it.
    pub(crate) fn grow_ahead(&self) -> Result<bool> {
        self.short.store(false, Ordering::Relaxed);
        let SpaceStat { pages, free } = self.stat();
        let ahead = Self::ahead(pages, self.page_bytes);
        let low = self.reserve + ahead / 2;
        if free >= low {
            return Ok(false);
        }
        self.grow_below(low, ahead * self.page_bytes as u64)?;
        Ok(true)
    }

    /// Grows the file in steps of about `step` bytes until it has `wanted` free pages.
    fn grow_below(&self, wanted: u64, step: u64) -> Result<()> {
        let _one_at_a_time = self.growth.lock();
        loop {
            let (prepared, free) = {
                let used = self.used.lock();
                (used.prepared, used.free)
            };
            if free >= wanted {
                return Ok(());
            }
            let step = (step / self.page_bytes as u64).max(1);
            let prepared = self.extend_file(prepared, prepared.saturating_add(step))?;
            let mut used = self.used.lock();
            used.extend(prepared);
            let last = PageId::new(prepared - 1);
            if map::is_own_page(last, self.page_bytes) {
                used.mark(last);
            }
        }
    }

    /// Zero-fills the file from page `from` to page `to`, but at most to the next map's border. If
    /// `from` lies at a border, zero-fills only the map's page. Returns the page up to which the
    /// file then reaches.
    fn extend_file(&self, from: u64, to: u64) -> Result<u64> {
        let per_map = map::bits_per_map(self.page_bytes);
        let at_border = from.is_multiple_of(per_map);
        let to = if at_border { from + 1 } else { to.min((from / per_map + 1) * per_map) };
        let offset = |page: u64| {
            page.checked_mul(self.page_bytes as u64)
                .ok_or_else(|| Error::NoSpace { what: "page numbers".to_owned() })
        };
        self.file.prepare(offset(from)?, offset(to)?).map_err(no_space)?;
        if at_border {
            write_map(self.file.as_ref(), PageId::new(from), self.page_bytes)?;
        }
        Ok(to)
    }
}

/// Grows the file of a copy from `from` to `to` pages, with zeros and empty maps as growth makes
/// them. The new pages are durable when this returns.
pub(crate) fn extend_copy(file: &dyn File, page_bytes: usize, from: u64, to: u64) -> Result<()> {
    if to <= from {
        return Ok(());
    }
    let offset = |page| {
        PageId::new(page).offset(page_bytes).ok_or(Error::Internal("a page beyond the addressable file"))
    };
    file.prepare(offset(from)?, offset(to)?).map_err(no_space)?;
    maps_between(from, to, page_bytes).try_for_each(|id| write_map(file, id, page_bytes))
}

/// Returns the pages of the maps that a file gets when it grows from `from` to `to` pages.
pub(crate) fn maps_between(from: u64, to: u64, page_bytes: usize) -> impl Iterator<Item = PageId> {
    let per_map = map::bits_per_map(page_bytes);
    let numbers = from.div_ceil(per_map).max(1)..to.div_ceil(per_map);
    numbers.map(move |number| map::map_page(number, page_bytes))
}

/// Returns an empty map, sealed.
pub(crate) fn empty_map(id: PageId, page_bytes: usize) -> AlignedBuffer {
    let mut page = AlignedBuffer::new_zeroed(page_bytes);
    map::format(&mut page, id);
    header::seal(&mut page);
    page
}

/// Writes an empty map, durably. The write bypasses the double-write area, because crash case (b)
/// covers a torn map.
fn write_map(file: &dyn File, id: PageId, page_bytes: usize) -> Result<()> {
    let Some(offset) = id.offset(page_bytes) else {
        return Err(Error::NoSpace { what: "page numbers".to_owned() });
    };
    file.write_at(&[IoSlice::new(&empty_map(id, page_bytes))], offset, WriteMode::Durable)?;
    Ok(())
}

/// A page that is taken only in memory. Dropping it frees the page.
#[derive(Debug)]
pub(crate) struct Reserved {
    page: PageId,
    space: Option<Arc<Space>>,
}

impl Reserved {
    /// The page.
    pub(crate) fn page(&self) -> PageId {
        self.page
    }

    /// Keeps the page taken until `Space::freed`. The caller calls this method when the record that
    /// sets the page's bit in its map is in the log.
    pub(crate) fn keep(mut self) -> PageId {
        self.space = None;
        self.page
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(space) = self.space.take() {
            let was_taken = space.used.lock().give_back(self.page);
            debug_assert!(was_taken, "page {} was reserved and free", self.page);
        }
    }
}

#[cfg(test)]
mod tests;
