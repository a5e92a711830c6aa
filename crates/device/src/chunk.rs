//! A large block of aligned memory, divided into pieces: each piece is the memory of one buffer.
//! The chunk is freed when neither the slab nor a buffer refers to it.
//!
//! Any thread may call this code. This code asks the kernel to back a large chunk with huge pages;
//! the kernel may ignore the request.

use crate::aligned::ALIGNMENT;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a huge page, on a processor that has huge pages.
const HUGE_PAGE: usize = 2 << 20;
/// The memory of several buffers.
pub(crate) struct Chunk {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk owns its memory alone, and gives access to it only through pieces, which do not
// overlap.
unsafe impl Send for Chunk {}
// SAFETY: a chunk owns its memory alone, and gives access to it only through pieces, which do not
// overlap.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Allocates `bytes` bytes, which are not zeroed. `bytes` must not be 0.
    pub(crate) fn new(bytes: usize) -> Self {
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT };
        let layout = Layout::from_size_align(bytes, align).expect("length of a chunk fits the address space");
        // SAFETY: `bytes` is not 0, so the layout is not of size 0.
        let raw = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(raw) else { handle_alloc_error(layout) };
        if align == HUGE_PAGE {
            ask_for_huge_pages(base, bytes);
        }
        Chunk { base, layout }
    }

    /// Returns the address of the chunk's first byte.
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed only here.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_huge_pages(base: NonNull<u8>, bytes: usize) {
    // A kernel without huge pages refuses, and nothing is lost.
    // SAFETY: the range was just allocated; the advice changes no contents.
    let _advised =
        unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask_for_huge_pages(_base: NonNull<u8>, _bytes: usize) {}
