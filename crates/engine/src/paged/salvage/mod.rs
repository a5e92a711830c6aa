//! Reading the sound parts of a damaged database.
//!
//! The repairing thread runs this code with the directory's lock, and on an overlay, so the files
//! of the damaged database do not change. Modules: `history` (the log: redo, and the changes of
//! unfinished transactions), `survey` (the keys of each leaf), `rows` (rows of a table, and its
//! losses). Rules:
//!
//! 1. Damage to one page does not affect others: redo leaves out a page that cannot be read. A
//!    later record that overwrites the whole page makes it readable again.
//! 2. Keys are found by the fences of leaves, not through inner pages: a leaf counts if its map
//!    marks it as in use. So the loss of an inner page loses no row. `survey` has the exceptions:
//!    leaves of a map that cannot be read, and leaves of freed trees and of bulk loads.
//! 3. Keys that no sound leaf of a table covers are a loss. So losses and rows together cover all
//!    keys of every table that the catalog names.
//! 4. Changes of unfinished transactions are taken back in the rows, key by key, and not in the
//!    pages. No other transaction has changed these keys since, and the log has their former
//!    values.
//!
//! If the log cannot be read up to the newest change in the pages (`History::Prefix`), some pages
//! have changes beyond the readable part. The repair takes such pages as they are, and does not
//! take back the changes of unfinished transactions in them. A database that was closed cleanly
//! needs no log, because its pages hold everything.

mod history;
mod rows;
mod survey;

use crate::CommitStamp;
use crate::Lsn;
use crate::control::{self, Control, Shutdown};
use crate::directory::LOG_FOLDER;
use crate::error::{Error, Foreign, Result};
use crate::ids::TableId;
use crate::limits::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, VERIFY_CACHE_BYTES};
use crate::paged::catalog::{self, CatalogKey};
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::first_pages;
use crate::paged::page::{FilePage, Kind, PageId, file_page, header};
use crate::paged::pool::{Pool, WalBarrier};
use crate::paged::space;
use crate::paged::tree::Tree;
use crate::salvage::{Loss, Salvage, SalvagedRows};
use history::{History, Replayed};
use katydid_device::{AlignedBuffer, Create, Directory, File, Id, MemoryDirectory, Method, OverlayDirectory};
use katydid_wal::{OpenError, StreamInspection, inspect};
use rows::Rows;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use survey::Survey;

/// Passes to `rows` everything that is sound in the database in `source`.
///
/// # Errors
/// `Error::Foreign` if files are of different databases or of a newer version. `Error::Corrupt` if
/// the page size cannot be found out, because the control file is lost and none of the first pages
/// can be read. The errors of `rows`, and failures of the device.
pub(crate) fn salvage(source: &Arc<dyn Directory>, rows: &mut dyn SalvagedRows) -> Result<Salvage> {
    let overlay = OverlayDirectory::over(source.clone());
    let mut salvage = Salvage::default();
    let found = Found::look(&overlay, &mut salvage)?;
    let pool = found.pool()?;
    let replayed = found.replay(&pool, &mut salvage)?;
    let pages = (found.pages.len()? / found.page_bytes as u64).max(replayed.pages);
    let mut survey = Survey::of(&pool, pages, &replayed.unfit)?;
    let ahead = survey.pages_from(replayed.end);
    if ahead > 0 && replayed.is_short {
        salvage.notes.push(format!(
            "{ahead} pages hold changes from behind the part of the log that can be read: their rows may be of transactions that had not committed"
        ));
    }
    let tables = tables(&pool, &survey, &replayed, &mut salvage)?;
    for (table, root) in &tables.loaded {
        survey.leave_out_replaced(&pool, *table, *root)?;
    }
    let sound = |page: PageId, lsn: Lsn| replayed.knows(lsn) && !replayed.unfit.contains(&page);
    // Tables for which a freed tree, or the tree of a bulk load, cannot be read as a whole. The
    // repair cannot distinguish the leaves of such a tree from the table's leaves.
    let mut unsure = HashSet::new();
    for root in &replayed.freed {
        if let Some(table) = table_of(&pool, *root)?
            && !survey.leave_out(&pool, Tree::new(table, *root), &sound)?
        {
            unsure.insert(table);
        }
    }
    for (table, root) in &tables.loading {
        let tree = root.map(|root| Tree::new(*table, root));
        if !tree.map_or(Ok(false), |tree| survey.leave_out(&pool, tree, &sound))? {
            unsure.insert(*table);
        }
    }
    let known: HashSet<TableId> = tables.names.values().map(|tree| tree.table).collect();
    for (name, tree @ Tree { table, .. }) in &tables.names {
        rows.table(name)?;
        if tables.loading.contains_key(table) {
            salvage.notes.push(format!(
                "a bulk load into table {name:?} was not committed, and its keys were left out"
            ));
        }
        if unsure.contains(table) {
            // The keys of the leaves that are left out are a loss.
            survey.keep_only(&pool, *tree, &sound)?;
        }
        let leaves = &survey.leaves(*table);
        let of = Rows { pool: &pool, table: *table, leaves, replayed: &replayed };
        of.give(name, &mut salvage.losses, &mut |key, value| rows.row(key, value))?;
    }
    if salvage.losses.iter().any(|loss| matches!(loss, Loss::Tables { .. })) {
        for table in survey.tables().filter(|table| *table != TableId::CATALOG && !known.contains(table)) {
            let name = unused_name(&tables.names, table);
            rows.table(&name)?;
            let of = Rows { pool: &pool, table, leaves: &survey.leaves(table), replayed: &replayed };
            of.give(&name, &mut salvage.losses, &mut |key, value| rows.row(key, value))?;
        }
    }
    Ok(salvage)
}

/// Returns the table of the tree with this root; `None` if the page cannot be read, or is not a
/// page of a tree.
fn table_of(pool: &Pool, root: PageId) -> Result<Option<TableId>> {
    match pool.read(root) {
        Ok(page) => Ok(match page.kind() {
            Some(Kind::Leaf) => Some(page.leaf()?.table()),
            Some(Kind::Inner) => Some(page.inner()?.table()),
            _ => None,
        }),
        Err(Error::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the bytes in a page of a damaged database. Fails like [`salvage`].
pub(crate) fn page_bytes(source: &Arc<dyn Directory>) -> Result<usize> {
    let overlay = OverlayDirectory::over(source.clone());
    Ok(Found::look(&overlay, &mut Salvage::default())?.page_bytes)
}

/// The tables that the readable part of the catalog names.
#[derive(Default)]
struct Tables {
    names: BTreeMap<String, Tree>,
    /// The bulk loads that were not committed: their tables, and the root of each load's tree, or
    /// `None` if the load's catalog entry cannot be decoded. Loads that were given up are included
    /// until their trees are freed.
    loading: HashMap<TableId, Option<PageId>>,
    /// The committed bulk loads: their tables, and the roots of the trees that are to be freed.
    loaded: Vec<(TableId, PageId)>,
}

/// Returns the tables that the readable part of the catalog names.
fn tables(pool: &Pool, survey: &Survey, replayed: &Replayed, salvage: &mut Salvage) -> Result<Tables> {
    let (mut tables, mut losses) = (Tables::default(), Vec::new());
    let leaves = &survey.leaves(TableId::CATALOG);
    let catalog = Rows { pool, table: TableId::CATALOG, leaves, replayed };
    catalog.give("", &mut losses, &mut |name, entry| {
        match (catalog::key_of(name), catalog::decode(name, entry)) {
            (CatalogKey::Table(name), Ok(tree)) => {
                tables.names.insert(String::from_utf8_lossy(name).into_owned(), tree);
            }
            (CatalogKey::Load { table, is_committed: false }, entry) => {
                tables.loading.insert(table, entry.ok().map(|tree| tree.root));
            }
            (CatalogKey::Load { table, is_committed: true }, Ok(tree)) => {
                tables.loaded.push((table, tree.root));
            }
            (CatalogKey::Malformed, _) => salvage.notes.push(catalog::malformed(name).to_string()),
            (_, Err(error)) => salvage.notes.push(error.to_string()),
        }
        Ok(())
    })?;
    salvage.losses.extend(losses.into_iter().map(|loss| match loss {
        Loss::Keys { from, to, .. } => Loss::Tables { from, to },
        loss => loss,
    }));
    Ok(tables)
}

/// Returns a name for a table that has lost its own.
fn unused_name(tables: &BTreeMap<String, Tree>, table: TableId) -> String {
    let mut name = format!("recovered-{table}");
    while tables.contains_key(&name) {
        name.push('\'');
    }
    name
}

/// The files of a damaged database.
struct Found {
    control: Option<Control>,
    page_bytes: usize,
    database: Id,
    pages: Arc<dyn File>,
    /// Position up to which pages in place need the log.
    log_needed: Lsn,
    log: Option<StreamInspection>,
}

impl Found {
    fn look(directory: &OverlayDirectory, salvage: &mut Salvage) -> Result<Found> {
        let control = match control::read(directory) {
            Ok(control) => control,
            Err(Error::Corrupt { .. }) => None,
            Err(error) => return Err(error),
        };
        let log = look_at_log(directory, salvage)?;
        let is_missing = !directory.list()?.iter().any(|name| name == space::FILE_NAME);
        let pages = directory.open(space::FILE_NAME, Create::IfMissing, Method::Buffered)?;
        let first = first_page(pages.as_ref(), &directory.describe())?;
        let page_bytes = match (&control, &first) {
            (Some(control), _) => control.page_bytes as usize,
            (None, Some(page)) => page.page_bytes as usize,
            (None, None) => likely_page_bytes(pages.as_ref())?,
        };
        let identity = |of: &str| Foreign::Identity(of.to_owned());
        let foreign = |of: &str| Err(Error::Foreign { place: directory.describe(), what: identity(of) });
        let database = match (&control, &first, &log) {
            (Some(control), Some(page), _) if control.database != page.database => {
                return foreign(space::FILE_NAME);
            }
            (None, Some(page), Some(log)) if log.log_id != page.database => return foreign(LOG_FOLDER),
            (Some(control), ..) => control.database,
            (None, Some(page), _) => page.database,
            (None, None, Some(log)) => log.log_id,
            (None, None, None) => Id::new(0),
        };
        let log = log.filter(|log| {
            let is_own = log.log_id == database;
            if !is_own {
                salvage.notes.push("the log is of another database, and was not used".to_owned());
            }
            is_own
        });
        if is_missing && log.as_ref().is_some_and(|log| log.start == Lsn::ZERO) {
            // The log has all changes since the creation of the file, so the file may begin with
            // new first pages.
            first_pages::create(pages.as_ref(), database, page_bytes)?;
        }
        let log_needed = restore(directory, pages.as_ref(), database, page_bytes, salvage)?;
        Ok(Found { control, page_bytes, database, pages, log_needed, log })
    }

    /// Returns a pool over the database file, for redo of the log. Pages that the pool writes back
    /// go to the overlay.
    fn pool(&self) -> Result<Pool> {
        let area = MemoryDirectory::new();
        let double_write = DoubleWrite::open(&area, Method::Buffered, self.database, self.page_bytes)?;
        let barrier = Arc::new(NothingToWaitFor);
        Ok(Pool::new(self.pages.clone(), double_write, self.page_bytes, VERIFY_CACHE_BYTES, barrier))
    }

    /// Redoes the log on the pages, if the log is needed and can be used.
    fn replay(&self, pool: &Pool, salvage: &mut Salvage) -> Result<Replayed> {
        let named = self.control.map_or(Lsn::ZERO, |control| control.checkpoint);
        let is_clean = self.control.is_some_and(|control| control.shutdown == Shutdown::Clean);
        let history = match &self.log {
            Some(log) => History::of(log, self.log_needed.max(named))?,
            None => History::Unusable,
        };
        let is_whole = matches!(history, History::Whole { .. });
        match (history, &self.log) {
            (History::Whole { checkpoint } | History::Prefix { checkpoint }, Some(log))
                if is_whole || !is_clean =>
            {
                let replayed = history::replay(log, pool, checkpoint, !is_whole)?;
                if replayed.is_short {
                    salvage.losses.push(Loss::Commits { after: CommitStamp::of_commit_at(replayed.end) });
                }
                Ok(replayed)
            }
            _ => {
                if is_clean {
                    salvage
                        .notes
                        .push("the log was not needed: the database had been closed cleanly".to_owned());
                } else {
                    salvage.losses.push(Loss::Commits { after: CommitStamp::ZERO });
                }
                Ok(Replayed::nothing())
            }
        }
    }
}

/// Puts torn pages back. Returns the position up to which pages need the log.
fn restore(
    directory: &OverlayDirectory,
    pages: &dyn File,
    database: Id,
    page_bytes: usize,
    salvage: &mut Salvage,
) -> Result<Lsn> {
    let area = DoubleWrite::open(directory, Method::Buffered, database, page_bytes)?;
    match area.restore(pages).and_then(|_| area.log_needed()) {
        Ok(needed) => Ok(needed),
        Err(error @ Error::Foreign { .. }) => {
            salvage.notes.push(format!("{} was not used: {error}", double_write::FILE_NAME));
            Ok(Lsn::ZERO)
        }
        Err(error) => Err(error),
    }
}

fn look_at_log(directory: &dyn Directory, salvage: &mut Salvage) -> Result<Option<StreamInspection>> {
    let folder = directory.existing_subdirectory(LOG_FOLDER)?;
    let mut unusable =
        |why: &dyn std::fmt::Display| salvage.notes.push(format!("the log cannot be read: {why}"));
    let Some(folder) = folder else {
        unusable(&"it is missing");
        return Ok(None);
    };
    match inspect(folder.as_ref()) {
        Ok(found) => Ok(found.streams.into_iter().next()),
        Err(OpenError::Device(error)) if !error.is_not_found() => Err(error.into()),
        Err(error) => {
            unusable(&error);
            Ok(None)
        }
    }
}

/// Returns the content of page 0, or `None` if it is damaged.
fn first_page(file: &dyn File, place: &str) -> Result<Option<FilePage>> {
    let mut bytes = AlignedBuffer::new_zeroed(PAGE_BYTES_MAX);
    let read = file.read_at(&mut bytes, 0)?;
    let sizes = std::iter::successors(Some(PAGE_BYTES_MIN), |size| Some(size * 2));
    for size in sizes.take_while(|size| *size <= read) {
        match file_page::decode(&bytes[..size]) {
            Some(Ok(page)) if page.version > file_page::VERSION => {
                let (found, known) = (page.version, file_page::VERSION);
                let what = Foreign::NewerVersion { file: space::FILE_NAME.to_owned(), found, known };
                return Err(Error::Foreign { place: place.to_owned(), what });
            }
            Some(Ok(page)) if page.page_bytes as usize == size => return Ok(Some(page)),
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the page size with which most of the first pages are valid.
fn likely_page_bytes(file: &dyn File) -> Result<usize> {
    let mut bytes = AlignedBuffer::new_zeroed(64 * PAGE_BYTES_MAX);
    let read = file.read_at(&mut bytes, 0)?;
    let valid = |size: usize| {
        let pages = bytes[..read].chunks_exact(size).zip((0..).map(PageId::new));
        pages.filter(|(page, id)| header::check_sealed(page, *id, size).is_ok()).count()
    };
    let sizes = std::iter::successors(Some(PAGE_BYTES_MIN), |size| Some(size * 2));
    let best = sizes.take_while(|size| *size <= PAGE_BYTES_MAX).max_by_key(|size| valid(*size));
    best.filter(|size| valid(*size) > 0).ok_or_else(|| Error::Corrupt {
        place: space::FILE_NAME.to_owned(),
        page: None,
        finding: "none of its first pages can be read, and the control file is lost".to_owned(),
    })
}

/// A barrier of a log to which nothing is appended. Pages that are written back go to the overlay.
#[derive(Debug)]
struct NothingToWaitFor;

impl WalBarrier for NothingToWaitFor {
    fn make_durable(&self, _: Lsn) -> Result<()> {
        Ok(())
    }

    fn reserved(&self) -> Lsn {
        Lsn::ZERO
    }

    fn poison(&self, what: &'static str) -> Error {
        Error::Internal(what)
    }
}
