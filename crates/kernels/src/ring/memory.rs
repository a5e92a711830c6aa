//! The bytes of a ring in memory: zeroed, and aligned as direct I/O requires.
//!
//! Any thread may use this memory. Invariants:
//!
//! 1. `base` comes from `alloc_zeroed` with [`RingMemory::layout`] of `bytes`, which is not 0. The
//!    memory is freed once, in `drop`, with that layout.
//! 2. All bytes are initialised from the start, so a slice over any of them is valid.

use crate::lsn::BLOCK_BYTES;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct RingMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: by invariant 1 the value alone owns its memory, and bytes have no thread affinity.
unsafe impl Send for RingMemory {}
// SAFETY: a shared reference gives out an address and no reference to the bytes. The ring justifies
// each write through the address.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// Allocates `bytes` zeroed bytes; `bytes` is not 0.
    pub(super) fn new(bytes: usize) -> Self {
        let layout = Self::layout(bytes);
        assert!(bytes > 0, "a ring has bytes");
        // SAFETY: the layout is not of size 0.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(raw) else { handle_alloc_error(layout) };
        RingMemory { base, bytes }
    }

    /// The address of the first byte.
    #[inline(always)]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, BLOCK_BYTES as usize).expect("a ring fits the address space")
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and is freed only here.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.bytes)) }
    }
}
