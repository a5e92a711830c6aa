//! Checking trees and maps: every page is well formed, in its place and reachable once, and the
//! maps mark exactly the reachable pages as in use.
//!
//! Runs while no thread changes anything. A faulty page is reported, and the pages to which it
//! leads are left out. A corrupt page does not end the check; any other failure to read does.

use super::chain::{Chain, walk};
use super::descend::expect_node;
use super::handle::{Tree, corrupt};
use crate::paged::page::{PageId, Value, check_structure, header, map};
use crate::paged::pool::{PageRead, Pool};
use crate::report::Fault;
use crate::{Error, Result, TableId, VerifyReport};

/// Maximum number of faults listed.
const FAULTS_MAX: usize = 1000;

/// Pages of the file that something leads to.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    words: Vec<u64>,
    pages: u64,
}

impl Reached {
    /// Raises the number of the file's pages, which is zero at first, to `pages`.
    pub(crate) fn extend_to(&mut self, pages: u64) {
        self.words.resize(pages.div_ceil(64) as usize, 0);
        self.pages = pages;
    }

    /// Notes that something leads to a page. Fails if something else leads there, too.
    pub(crate) fn note(&mut self, page: PageId) -> Result<()> {
        if page.get() >= self.pages {
            return Err(corrupt(page, "something leads to it, and the file ends before it"));
        }
        let word = &mut self.words[(page.get() / 64) as usize];
        let bit = 1 << (page.get() % 64);
        if *word & bit != 0 {
            return Err(corrupt(page, "more than one place leads to it"));
        }
        *word |= bit;
        Ok(())
    }

    fn has(&self, page: PageId) -> bool {
        self.words.get((page.get() / 64) as usize).is_some_and(|word| word >> (page.get() % 64) & 1 != 0)
    }
}

/// Adds a finding of corruption to the report, and returns every other failure.
fn note<T>(report: &mut VerifyReport, result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Corrupt { place, finding, .. }) => {
            if report.faults.len() < FAULTS_MAX {
                report.faults.push(Fault { place, finding });
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A page to be visited, and the level and fences that its parent says it has.
struct Expected {
    page: PageId,
    level: Option<u8>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Tree {
    /// Checks all pages of the tree, long values included. Counts the pages and the keys.
    pub(crate) fn verify(&self, pool: &Pool, reached: &mut Reached, report: &mut VerifyReport) -> Result<()> {
        let mut stack = vec![Expected { page: self.root, level: None, lower: Vec::new(), upper: None }];
        while let Some(expected) = stack.pop() {
            let page = self.visit(pool, &expected, reached);
            let Some(page) = note(report, page)? else { continue };
            report.pages += 1;
            if header::level(&page) > 0 {
                let inner = page.inner()?;
                for index in (0..=inner.len()).rev() {
                    let (lower, upper) = inner.child_fences(index);
                    stack.push(Expected {
                        page: inner.child(index),
                        level: Some(inner.level() - 1),
                        lower: lower.to_vec(),
                        upper: upper.map(<[u8]>::to_vec),
                    });
                }
                continue;
            }
            for (_, value) in page.leaf()?.entries() {
                report.keys += 1;
                if let Value::Overflow { head, length } = value {
                    let chain =
                        verify_chain(pool, self.table, Chain { head, length }, reached, &mut report.pages);
                    note(report, chain)?;
                }
            }
        }
        Ok(())
    }

    fn visit(&self, pool: &Pool, expected: &Expected, reached: &mut Reached) -> Result<PageRead> {
        reached.note(expected.page)?;
        let page = pool.read(expected.page)?;
        check_structure(&page)?;
        expect_node(&page, self.table, expected.level.unwrap_or(header::level(&page)))?;
        let (lower, upper) = if header::level(&page) == 0 {
            (page.leaf()?.lower_fence(), page.leaf()?.upper_fence())
        } else {
            (page.inner()?.lower_fence(), page.inner()?.upper_fence())
        };
        if lower != expected.lower || upper != expected.upper.as_deref() {
            return Err(corrupt(expected.page, "its fences are not the separators around it in its parent"));
        }
        Ok(page)
    }
}

fn verify_chain(
    pool: &Pool,
    table: TableId,
    chain: Chain,
    reached: &mut Reached,
    pages: &mut u64,
) -> Result<()> {
    let mut length = 0;
    walk(pool, table, chain.head, |id, piece| {
        reached.note(id)?;
        *pages += 1;
        length += piece.len();
        Ok(())
    })?;
    if length != chain.length as usize {
        let finding =
            format!("a value of {} bytes that begins there has {length} bytes in its pages", chain.length);
        return Err(corrupt(chain.head, finding));
    }
    Ok(())
}

/// Checks the maps against the pages that were reached from all trees: a page is in use exactly if
/// something leads to it.
pub(crate) fn verify_maps(pool: &Pool, reached: &Reached, report: &mut VerifyReport) -> Result<()> {
    let page_bytes = pool.page_bytes();
    let per_map = map::bits_per_map(page_bytes);
    for number in 0..reached.pages.div_ceil(per_map) {
        let id = map::map_page(number, page_bytes);
        let page = pool.read(id).and_then(|page| page.map().map(|_| ()).map(|()| page).map_err(Error::from));
        let Some(page) = note(report, page)? else { continue };
        report.pages += 1;
        let view = page.map()?;
        for page in (number * per_map..reached.pages.min((number + 1) * per_map)).map(PageId::new) {
            if map::is_own_page(page, page_bytes) {
                continue;
            }
            let finding = match (view.is_set(map::bit_of(page, page_bytes)), reached.has(page)) {
                (true, false) => "it is marked as in use, and nothing leads to it",
                (false, true) => "it is marked as free, and is in use",
                _ => continue,
            };
            note(report, Err::<(), _>(corrupt(page, finding)))?;
        }
    }
    Ok(())
}
