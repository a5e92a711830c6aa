//! Changes of several pages by one log record. A [`Structure`] collects the latched pages and the
//! parts of the record; a [`Part`] is a change of one page. `Structure` logs the parts as one
//! record, and applies them.
//!
//! The thread that builds a change has checked that each part fits its page, because a change that
//! is in the log cannot be taken back. If a part nevertheless does not fit its page, the database
//! shuts itself off.

use super::handle::Pages;
use super::writer::{ChangeWriter, LOGGED_BELOW, Logged};
use crate::paged::change::{ChangeKind, Part, PartsWriter, apply_part, decode_parts, encode_chain_free};
use crate::paged::page::{PageId, map};
use crate::paged::pool::{NewPage, PageWrite};
use crate::paged::space::Reserved;
use crate::pause::{self, PausePoint};
use crate::{Error, Lsn, Result};

/// Kind of record that changes the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordFor {
    /// A change of structure, which is never undone.
    Structure,
    /// A record of the transaction that changes the tree. The record's undo frees the pages that
    /// the record fills.
    Owner,
    /// The freeing of the chain or tree that begins at this page. Such a record is never undone.
    ChainFree(PageId),
    /// The undo of an `Owner` record whose pages begin at this page.
    Compensation(PageId),
}

/// A change of several pages that is being built. If it is dropped before `commit` it leaves
/// nothing: reserved pages are free again.
pub(super) struct Structure<'p> {
    pages: Pages<'p>,
    parts: PartsWriter,
    latched: Vec<PageWrite>,
    created: Vec<NewPage<'p>>,
    reserved: Vec<Reserved>,
    freed: Vec<PageId>,
    /// True while the record is in the log and its change is not made.
    is_due: bool,
}

impl<'p> Structure<'p> {
    pub(super) fn new(pages: Pages<'p>) -> Self {
        Structure {
            pages,
            parts: PartsWriter::new(),
            latched: Vec::new(),
            created: Vec::new(),
            reserved: Vec::new(),
            freed: Vec::new(),
            is_due: false,
        }
    }

    /// Adds a page, latched exclusively, for which there is a part.
    pub(super) fn add(&mut self, page: PageWrite) {
        debug_assert!(self.latched.iter().all(|other| other.id() != page.id()));
        self.latched.push(page);
    }

    /// Adds a reserved page, which the record marks as in use. A part must set all bytes of the
    /// page. `held` are the pages that the caller has latched and not added yet.
    ///
    /// # Errors
    /// `Error::Corrupt` if the page is already latched for this change: then a damaged map marks a
    /// page in use as free, and a wait for the page's latch would never end. The errors of
    /// `Pool::create`.
    pub(super) fn add_new(&mut self, reserved: Reserved, held: &[&PageWrite]) -> Result<PageId> {
        let id = reserved.page();
        let created = self.created.iter().map(|page| page.id());
        let latched = self.latched.iter().chain(held.iter().copied()).map(|page| page.id());
        if created.chain(latched).any(|other| other == id) {
            let map = map::map_of(id, self.pages.pool.page_bytes());
            // The page stays reserved, so that the next change is given another page.
            reserved.keep();
            return Err(super::handle::corrupt(map, format!("page {id} is marked as free, and is in use")));
        }
        self.created.push(self.pages.pool.create(id)?);
        self.reserved.push(reserved);
        Ok(id)
    }

    /// Notes that the record marks this page as free.
    pub(super) fn mark_free(&mut self, page: PageId) {
        self.freed.push(page);
    }

    /// Returns the parts, so that the caller can add more.
    pub(super) fn parts(&mut self) -> &mut PartsWriter {
        &mut self.parts
    }

    /// Latches the maps, in ascending order, and adds their parts.
    fn add_maps(&mut self) -> Result<()> {
        let page_bytes = self.pages.pool.page_bytes();
        let setting = !self.reserved.is_empty();
        if setting && !self.freed.is_empty() {
            return Err(Error::Internal("one record both takes and frees pages"));
        }
        let mut changed: Vec<PageId> = self.reserved.iter().map(Reserved::page).collect();
        changed.extend_from_slice(&self.freed);
        changed.sort_unstable();
        for group in changed.chunk_by(|a, b| map::map_of(*a, page_bytes) == map::map_of(*b, page_bytes)) {
            let map = map::map_of(group[0], page_bytes);
            let bits: Vec<u32> = group.iter().map(|page| map::bit_of(*page, page_bytes) as u32).collect();
            let page = self.pages.pool.write(map)?;
            let view = page.map()?;
            let duplicate = bits.windows(2).any(|pair| pair[0] == pair[1]);
            if let Some(bit) = bits.iter().find(|bit| view.is_set(**bit as usize) == setting) {
                let page = view.base().get() + u64::from(*bit);
                let finding =
                    if setting { "marked as in use, and was free" } else { "marked as free, and is in use" };
                return Err(super::handle::corrupt(map, format!("page {page} is {finding}")));
            }
            if duplicate {
                return Err(super::handle::corrupt(map, "a page is in use twice"));
            }
            self.latched.push(page);
            if setting {
                self.parts.map_set(map, &bits);
            } else {
                self.parts.map_clear(map, &bits);
            }
        }
        Ok(())
    }

    /// Logs the change and makes it.
    pub(super) fn commit(mut self, kind: RecordFor, writer: &mut dyn ChangeWriter) -> Result<Logged> {
        self.add_maps()?;
        let mut after = Lsn::ZERO;
        let created = self.created.iter_mut().map(|page| &mut **page);
        for page in self.latched.iter_mut().chain(created) {
            page.begin_change();
            after = after.max(page.lsn());
        }
        let payload = self.parts.payload();
        let logged = match kind {
            RecordFor::Structure => writer.append_structure(ChangeKind::Structure, after, &[payload])?,
            RecordFor::Owner => writer.append(ChangeKind::ChainWrite, after, &[payload])?,
            RecordFor::ChainFree(head) => {
                writer.append_structure(ChangeKind::ChainFree, after, &[&encode_chain_free(head), payload])?
            }
            RecordFor::Compensation(head) => {
                writer.append(ChangeKind::ChainFree, after, &[&encode_chain_free(head), payload])?
            }
        };
        self.is_due = true;
        let made = self.make(logged);
        self.is_due = false;
        match made {
            Ok(()) => Ok(logged),
            Err(what) => Err(writer.half_made(what)),
        }
    }

    /// Makes the change, which is in the log. The latches stay held: if this fails, no thread may
    /// look at the pages before the database is shut off.
    fn make(&mut self, logged: Logged) -> std::result::Result<(), &'static str> {
        pause::at(PausePoint::Logged);
        for part in decode_parts(self.parts.payload()) {
            let part = part.map_err(|_| "a record was encoded wrongly")?;
            let created = self.created.iter_mut().map(|page| &mut **page);
            let page = created.chain(&mut self.latched).find(|page| page.id() == part.page);
            let page = page.ok_or("a page to be changed is not latched")?;
            if page.lsn() >= logged.lsn {
                return Err(LOGGED_BELOW);
            }
            if apply(page, part.page, &part.part).is_err() {
                return Err("a logged change does not fit its page");
            }
            page.finish_change(logged.lsn, logged.end);
            pause::at(PausePoint::Edited);
        }
        for reserved in std::mem::take(&mut self.reserved) {
            reserved.keep();
        }
        for page in std::mem::take(&mut self.freed) {
            if !self.pages.space.freed(page) {
                return Err("a page that was freed was free");
            }
        }
        Ok(())
    }
}

impl Drop for Structure<'_> {
    fn drop(&mut self) {
        // A latched page notices a panic in the middle of the page's own change. No page notices a
        // panic that comes when all pages are changed and the map of free pages in memory is not.
        if self.is_due && std::thread::panicking() {
            self.pages.pool.poison_torn();
        }
    }
}

fn apply(
    page: &mut PageWrite,
    id: PageId,
    part: &Part<'_>,
) -> std::result::Result<(), crate::paged::change::Malformed> {
    apply_part(page.bytes_mut(), id, part)
}
