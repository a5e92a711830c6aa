//! The page format: pure functions over the bytes of one page. Nothing here does I/O, takes a latch
//! or writes to the log.
//!
//! `docs/page-format.md` has the byte-exact description. Runs on any thread; the caller holds the
//! page's latch.
//!
//! Invariants:
//!
//! 1. Nothing read from a device is used before [`check()`] accepted it. `check` is total: any
//!    bytes give `Ok` or a [`PageFault`] that names page and reason. The views ([`LeafRef`],
//!    [`InnerRef`], ...) rely on this check.
//! 2. Every edit leaves a page that `check` accepts (after [`header::seal`], which alone writes the
//!    checksum).
//! 3. An edit that fails with [`Full`] has changed nothing that a reader could see.
//!
//! This code has no rules about crashes, because pages become durable only through `pool`.

mod edit_inner;
mod edit_leaf;
mod fault;
pub(crate) mod file_page;
pub(crate) mod header;
mod id;
pub(crate) mod image;
mod inner;
pub(crate) mod key;
mod leaf;
pub(crate) mod map;
pub(crate) mod overflow;
pub(crate) mod relocate;
mod sizes;
mod slots;
#[cfg(test)]
pub(crate) mod tests;
mod validate;

pub(crate) use edit_inner::InnerMut;
pub(crate) use edit_leaf::LeafMut;
pub(crate) use fault::{FaultReason, PageFault};
pub(crate) use file_page::FilePage;
pub(crate) use header::Kind;
pub(crate) use id::PageId;
pub(crate) use inner::InnerRef;
pub(crate) use leaf::{LeafRef, Value, entry_bytes};
pub(crate) use map::{MapMut, MapRef};
pub(crate) use overflow::OverflowRef;
pub(crate) use sizes::{fits_inline, key_bytes_max};
pub(crate) use slots::Full;
pub(crate) use validate::{check, check_structure};

pub(crate) use crate::limits::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};

const _: () =
    assert!(PAGE_BYTES_MAX <= u16::MAX as usize, "offsets in a page, the end included, fit 16 bits");
