//! Zeroed memory aligned to 4,096 bytes, as direct I/O wants it.
//!
//! Pages, blocks and bounce buffers lie in memory of this kind. Any thread may use it.
//!
//! Invariants:
//!
//! 1. If `len` is 0, `base` is dangling but aligned. Without a chunk, `base` comes from
//!    `alloc_zeroed` with [`AlignedBuffer::layout`] of `len`, and is freed once, in `drop`, with
//!    the same layout. With a chunk, the bytes are a part of the chunk that no other buffer can
//!    access.
//! 2. All `len` bytes are initialised from the start (zeros), so that a slice over them is always
//!    valid.

use crate::chunk::Chunk;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// The alignment in bytes of an [`AlignedBuffer`]. Direct files need this alignment.
pub const ALIGNMENT: usize = 4096;

/// A boxed byte slice whose first byte lies at a multiple of [`ALIGNMENT`].
pub struct AlignedBuffer {
    base: NonNull<u8>,
    len: usize,
    chunk: Option<Arc<Chunk>>,
}

// SAFETY: by invariant 1 the buffer owns its memory alone, as `Box<[u8]>` does; bytes have no
// thread affinity.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference gives only shared access to plain bytes (`base` hands out an address,
// not a reference).
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Makes a buffer of `len` zero bytes. Aborts if there is no memory, as every allocation of the
    /// standard library does.
    ///
    /// # Panics
    ///
    /// If `len`, rounded up to a multiple of [`ALIGNMENT`], is above `isize::MAX`. A caller that
    /// gets a length from a device must check it before this call.
    pub fn new_zeroed(len: usize) -> Self {
        if len == 0 {
            return AlignedBuffer { base: Self::dangling(), len, chunk: None };
        }
        let layout = Self::layout(len);
        // SAFETY: `len` is not 0, so the layout is not of size 0.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(raw) else { handle_alloc_error(layout) };
        AlignedBuffer { base, len, chunk: None }
    }

    /// Makes a buffer whose memory is a piece of a chunk.
    ///
    /// # Safety
    ///
    /// `len` initialised bytes at `base`, aligned to [`ALIGNMENT`], lie in the chunk, and only this
    /// call has access to them.
    pub(crate) unsafe fn in_chunk(base: NonNull<u8>, len: usize, chunk: Arc<Chunk>) -> Self {
        AlignedBuffer { base, len, chunk: Some(chunk) }
    }

    /// Makes a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::new_zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Returns the address of the first byte. The caller may write through this address while no
    /// slice of the buffer is alive and no two writers write the same bytes. The caller's own
    /// `unsafe` has to justify the write, as that of [`NvRegion`](crate::nvram::NvRegion) does.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, ALIGNMENT).expect("length of an aligned buffer fits the address space")
    }

    fn dangling() -> NonNull<u8> {
        NonNull::without_provenance(std::num::NonZeroUsize::new(ALIGNMENT).expect("the alignment is not 0"))
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.len != 0 && self.chunk.is_none() {
            // SAFETY: invariant 1: allocated with this layout, freed only here.
            unsafe { dealloc(self.base.as_ptr(), Self::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: invariants 1 and 2: `len` initialised bytes at `base`, owned by `self`, borrowed
        // for its lifetime.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Default for AlignedBuffer {
    fn default() -> Self {
        Self::new_zeroed(0)
    }
}

impl Clone for AlignedBuffer {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_aligned_and_writable() {
        for len in [0, 1, 511, 4096, 4097, 9000] {
            let mut buffer = AlignedBuffer::new_zeroed(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.base().as_ptr() as usize % ALIGNMENT, 0);
            assert!(*buffer == vec![0; len][..]);
            buffer.fill(7);
            let copy = buffer.clone();
            drop(buffer);
            assert!(*copy == vec![7; len][..]);
        }
    }
}
