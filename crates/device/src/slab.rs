//! Aligned memory in large chunks, handed out in pieces of one length: for a cache of very many
//! pages.
//!
//! The slab asks the kernel to back its chunks with huge pages. A thread that goes from page to
//! page all over a cache spends much of its time on address translation, under a hypervisor more
//! than elsewhere. The kernel may ignore the advice. A chunk's memory is touched as its pieces are
//! handed out. It is freed when the last of its pieces is dropped, unless the slab still hands out
//! pieces of the chunk.
//!
//! Invariants:
//!
//! 1. A piece keeps its chunk alive, and overlaps no other piece: while the slab hands out one
//!    chunk, `used` only grows, by one piece at a time.
//! 2. A piece is zeroed before it is handed out.

use crate::aligned::{ALIGNMENT, AlignedBuffer};
use crate::chunk::Chunk;
use std::fmt;
use std::sync::Arc;

/// Bytes of a chunk at most.
const CHUNK_MAX: usize = 16 << 20;

/// An allocator of aligned buffers of one length.
pub struct Slab {
    piece: usize,
    chunk_bytes: usize,
    chunk: Option<Arc<Chunk>>,
    /// Bytes of the chunk that were handed out.
    used: usize,
}

impl Slab {
    /// Makes an allocator of pieces of `piece` bytes, a multiple of [`ALIGNMENT`], of which about
    /// `pieces` will be taken.
    ///
    /// # Panics
    ///
    /// If `piece` is 0 or no multiple of [`ALIGNMENT`].
    pub fn new(piece: usize, pieces: usize) -> Self {
        assert!(piece > 0 && piece.is_multiple_of(ALIGNMENT), "pieces of {piece} bytes");
        let chunk_bytes = (CHUNK_MAX / piece).min(pieces).max(1) * piece;
        Slab { piece, chunk_bytes, chunk: None, used: 0 }
    }

    /// Returns one more piece, zeroed. Aborts if there is no memory, as every allocation of the
    /// standard library does.
    pub fn take(&mut self) -> AlignedBuffer {
        let full = self.used + self.piece > self.chunk_bytes;
        let chunk = match &self.chunk {
            Some(chunk) if !full => chunk,
            _ => {
                self.used = 0;
                self.chunk.insert(Arc::new(Chunk::new(self.chunk_bytes)))
            }
        };
        // SAFETY: `used + piece` is at most the chunk's length, so the piece lies inside it; no
        // other piece has it (invariant 1).
        let base = unsafe {
            let base = chunk.base().add(self.used);
            base.write_bytes(0, self.piece);
            base
        };
        self.used += self.piece;
        // SAFETY: the piece lies inside the chunk, and no other piece has it (invariant 1). The
        // piece is zeroed, and aligned because the chunk and all pieces are. The buffer keeps the
        // chunk alive.
        unsafe { AlignedBuffer::in_chunk(base, self.piece, chunk.clone()) }
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("piece", &self.piece).field("used", &self.used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_aligned_apart_and_outlive_the_slab() {
        // In the last case for Miri a chunk is a little larger than a huge page (2 MiB), so it is
        // aligned like a huge page.
        let cases: &[_] =
            if cfg!(miri) { &[(4096, 3), (65536, 33)] } else { &[(4096, 3), (8192, 700), (65536, 300)] };
        for &(piece, count) in cases {
            // The pieces are compared whole, because a loop over bytes takes Miri minutes.
            let all = |byte: u8| vec![byte; piece];
            let mut slab = Slab::new(piece, count);
            // Takes five pieces more than the slab was made for.
            let mut pieces: Vec<_> = (0..count + 5).map(|_| slab.take()).collect();
            for (number, piece) in pieces.iter_mut().enumerate() {
                assert!(piece[..] == all(0)[..], "piece {number}");
                assert_eq!(piece.base().as_ptr() as usize % ALIGNMENT, 0);
                piece.fill(number as u8);
            }
            drop(slab);
            let taken = pieces.split_off(count / 2);
            drop(pieces);
            for (number, piece) in taken.iter().enumerate() {
                let byte = (number + count / 2) as u8;
                assert!(piece[..] == all(byte)[..]);
            }
        }
    }
}
