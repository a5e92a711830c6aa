//! Long values: chains of overflow pages. A chain is written before a leaf points to it. It is
//! freed after the commit of the transaction that has removed the pointer from the leaf.
//!
//! A chain is written from its end to its front. So each page is filled once, with the link to the
//! next page already known. One record marks a group of pages as in use and has their contents. The
//! record belongs to the transaction and is undone by freeing the pages; the records of a bulk load
//! are never undone (`load`). A chain is read without a latch on the leaf, because the caller's
//! lock on the key keeps the chain from being freed. A view has no lock, so after the read it looks
//! for an image of the value (`views::view`).

use super::handle::{Pages, Tree, corrupt};
use super::structure::{RecordFor, Structure};
use super::writer::ChangeWriter;
use crate::paged::page::{PageId, overflow};
use crate::paged::pool::Pool;
use crate::paged::space::AllocClass;
use crate::{Result, TableId, VALUE_BYTES_MAX};

/// Maximum bytes of pages that one record fills.
const GROUP_BYTES: usize = 128 << 10;

/// First page and length of a long value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The first page.
    pub(crate) head: PageId,
    /// Length of the value in bytes.
    pub(crate) length: u32,
}

impl Tree {
    /// Writes a value into pages of its own. If this fails half-way, undoing the transaction's
    /// records frees the pages that were written.
    pub(super) fn write_chain(
        &self,
        pages: Pages<'_>,
        value: &[u8],
        writer: &mut dyn ChangeWriter,
    ) -> Result<Chain> {
        let mut written = Chain { head: PageId::NONE, length: 0 };
        write_groups(pages, self.table, value, writer.alloc_class(), |change, chain| {
            change.commit(RecordFor::Owner, writer)?;
            written = chain;
            Ok(())
        })?;
        Ok(written)
    }
}

/// Fills the pages of a value, group by group, the last group first. `commit` gets each group as a
/// change to be logged, together with the chain from the group's first page to the end of the
/// value. At the last call this chain is the whole value.
pub(super) fn write_groups<'p>(
    pages: Pages<'p>,
    table: TableId,
    value: &[u8],
    class: AllocClass,
    mut commit: impl FnMut(Structure<'p>, Chain) -> Result<()>,
) -> Result<()> {
    let page_bytes = pages.pool.page_bytes();
    let count = overflow::pages_for(page_bytes, value.len());
    let mut reserved = pages.space.reserve_many(class, count)?;
    let per_group = (GROUP_BYTES / page_bytes).max(1);
    let mut pieces: Vec<&[u8]> = value.chunks(overflow::capacity(page_bytes)).collect();
    pieces.resize(count, &[]);
    let mut chain = Chain { head: PageId::NONE, length: 0 };
    while !reserved.is_empty() {
        let from = (reserved.len() - 1) / per_group * per_group;
        let group = reserved.split_off(from);
        let mut ids: Vec<PageId> = group.iter().map(|reserved| reserved.page()).collect();
        ids.push(chain.head);
        chain.head = ids[0];
        let mut change = Structure::new(pages);
        for (at, reserved) in group.into_iter().enumerate() {
            let page = change.add_new(reserved, &[])?;
            let piece = pieces[from + at];
            change.parts().overflow(page, table, ids[at + 1], piece);
            chain.length += piece.len() as u32;
        }
        commit(change, chain)?;
    }
    Ok(())
}

/// Calls `see` for each page of the chain that begins at `head`, with the page's id and the piece
/// of the value in it. Fails if the chain is longer than a value may be, and therefore also if it
/// is a cycle.
pub(super) fn walk(
    pool: &Pool,
    table: TableId,
    head: PageId,
    mut see: impl FnMut(PageId, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut left = overflow::pages_for(pool.page_bytes(), VALUE_BYTES_MAX);
    let mut at = Some(head);
    while let Some(id) = at {
        if left == 0 {
            return Err(corrupt(head, "the chain of pages of a value that begins there does not end"));
        }
        left -= 1;
        let page = pool.read(id)?;
        let piece = page.overflow()?;
        if piece.table() != table {
            let finding =
                format!("it belongs to table {}, and a value of table {table} leads to it", piece.table());
            return Err(corrupt(id, finding));
        }
        see(id, piece.payload())?;
        at = piece.next();
    }
    Ok(())
}

/// Reads the value in a chain. The pieces in the pages must add up to the length that the leaf has.
pub(crate) fn read_chain(pool: &Pool, table: TableId, chain: Chain) -> Result<Vec<u8>> {
    let length = chain.length as usize;
    if length > VALUE_BYTES_MAX {
        return Err(corrupt(
            chain.head,
            format!("a value of {length} bytes begins there, longer than a value may be"),
        ));
    }
    let mut value = Vec::with_capacity(length);
    walk(pool, table, chain.head, |id, piece| {
        if piece.len() > length - value.len() {
            return Err(corrupt(id, format!("a value of {length} bytes has more bytes there")));
        }
        value.extend_from_slice(piece);
        Ok(())
    })?;
    if value.len() != length {
        let finding = format!("a value of {length} bytes that begins there ends after {}", value.len());
        return Err(corrupt(chain.head, finding));
    }
    Ok(value)
}

/// Returns the pages of the chain that begins at `head`.
pub(super) fn pages_of_chain(pool: &Pool, table: TableId, head: PageId) -> Result<Vec<PageId>> {
    let mut ids = Vec::new();
    walk(pool, table, head, |id, _| {
        ids.push(id);
        Ok(())
    })?;
    Ok(ids)
}
