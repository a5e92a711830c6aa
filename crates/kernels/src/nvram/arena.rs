//! Assigns memory of the heap of `nv_entries` and `nv_logging` to appenders. The state of this file
//! is not in NVRAM; the opening of a log computes it from the entries (`reopen`).
//!
//! The heap is cut into chunks. A chunk is free, open in one of the arenas, full, or the openings'
//! own (rule 5). An open chunk is filled from its beginning. An appender holds an arena while it
//! appends one record: its own arena, or another one if its own is held. There are far fewer arenas
//! than possible sessions, so that idle sessions hold no memory. Any thread runs this code. A
//! thread takes the lock of an arena before that of `pool`, and never those of two arenas. Rules:
//!
//! 1. A place (the bytes for one record) lies in one chunk, and one appender at a time has it. An
//!    appender that gives its place back unused still holds the arena, so no later place of the
//!    chunk is in use.
//! 2. A chunk stores the highest position at which one of its records ends (`until`). The chunk is
//!    used again, from its beginning, only when the start of the log has durably reached that
//!    position and no reader can meet its records any more (`released`).
//! 3. An appender sets `until` while it holds the arena, and before the record counts as filled. So
//!    the start of the log cannot pass the record before `until` covers it.
//! 4. The caller of [`Arenas::place`] names a number of chunks, `kept`. An appender takes a free
//!    chunk only if at least this number of free chunks remains. This limit does not apply to the
//!    rest of an arena's chunk.
//! 5. One chunk, the openings' own, is reserved for their Restart records: a free chunk, or, if no
//!    chunk is free, the chunk with most room, which usually is the previous opening's own. No
//!    appender uses this chunk, so a full log can be opened and then trimmed.

use crate::sync_shim::{AtomicU64, Mutex, MutexGuard, Ordering, raise};
use crossbeam_utils::CachePadded;
use std::sync::{PoisonError, TryLockError};

#[cfg(test)]
mod checks;

/// A chunk that is being filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The number of the chunk in the heap.
    pub chunk: u64,
    /// Bytes that are taken, from the beginning of the chunk.
    pub used: u64,
    /// Position at or below which all records of the chunk end.
    pub until: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Arenas {
    arenas: Box<[CachePadded<Mutex<Option<Open>>>]>,
    pool: Mutex<Pool>,
    chunk_bytes: u64,
    chunks: u64,
    /// Number of free chunks: a copy for threads that do not take the lock of `pool`. Stored under
    /// that lock.
    free: AtomicU64,
    /// Position below which records are trimmed and no longer read. Stored (Release) by the
    /// trimming thread after it has advanced the start of the log. Read (Acquire) before memory is
    /// used again.
    released: AtomicU64,
}

#[derive(Debug)]
struct Pool {
    free: Vec<u64>,
    /// Chunks that no appender fills any more.
    full: Vec<Open>,
    own: Option<Open>,
}

/// Error: there is no free place. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A place in the heap, with the arena that it was taken from.
#[derive(Debug)]
pub struct Allocation<'a> {
    arena: MutexGuard<'a, Option<Open>>,
    bytes: u64,
    at: u64,
}

impl Allocation<'_> {
    /// Offset of the place in the heap.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Keeps the place for a record that ends at position `until`. If an allocation is dropped
    /// without this call, its place is free again.
    #[inline]
    pub fn keep(&mut self, until: u64) {
        if let Some(open) = &mut *self.arena {
            open.used += self.bytes;
            open.until = open.until.max(until);
        }
    }
}

impl Arenas {
    /// Number of arenas for this number of slots: at most an eighth of the number of chunks.
    pub fn count(slots: usize, chunks: u64) -> usize {
        slots.min((chunks / 8).max(1) as usize)
    }

    /// Makes the arenas of a heap for a log that starts at `start`. `used` names the chunks that
    /// hold records, in any order. All other chunks are free.
    pub fn new(count: usize, chunks: u64, chunk_bytes: u64, mut used: Vec<Open>, start: u64) -> Self {
        let mut taken = vec![false; chunks as usize];
        used.iter().for_each(|open| taken[open.chunk as usize] = true);
        let mut free: Vec<u64> = (0..chunks).rev().filter(|chunk| !taken[*chunk as usize]).collect();
        // The arenas go on filling the chunks with most room.
        used.sort_by_key(|open| std::cmp::Reverse(open.used));
        let own = match free.pop() {
            Some(chunk) => Some(Open { chunk, used: 0, until: 0 }),
            None => used.pop(),
        };
        used.reverse();
        let full = used.split_off(used.len().min(count));
        let mut opened = used.into_iter();
        let arenas = (0..count).map(|_| CachePadded::new(Mutex::new(opened.next()))).collect();
        let (free_now, released) = (AtomicU64::new(free.len() as u64), AtomicU64::new(start));
        Arenas {
            arenas,
            pool: Mutex::new(Pool { free, full, own }),
            chunk_bytes,
            chunks,
            free: free_now,
            released,
        }
    }

    /// Number of chunks that appenders may use.
    pub fn chunks(&self) -> u64 {
        self.chunks - 1
    }

    /// Number of chunks that are free now.
    pub fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Returns a place of `bytes` bytes, at most the size of a chunk, for the appender of `slot`.
    /// `kept` returns the number of chunks that must stay free.
    ///
    /// # Errors
    /// [`Full`] if there is no place of this size.
    #[inline]
    pub fn place(&self, slot: usize, bytes: u64, kept: impl FnOnce() -> u64) -> Result<Allocation<'_>, Full> {
        let mut arena = self.arena(slot);
        if !self.fits(&mut arena, bytes) && !self.refill(&mut arena, kept()) {
            drop(arena);
            return self.place_anywhere(bytes);
        }
        Self::at_end(arena, bytes, self.chunk_bytes)
    }

    /// Takes the slot's own arena, or another arena if an appender holds the slot's own.
    #[inline]
    fn arena(&self, slot: usize) -> MutexGuard<'_, Option<Open>> {
        let count = self.arenas.len();
        let own = slot % count;
        for arena in self.arenas[own..].iter().chain(&self.arenas[..own]) {
            match arena.try_lock() {
                Ok(arena) => return arena,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        held(&self.arenas[own])
    }

    #[inline]
    fn at_end(
        arena: MutexGuard<'_, Option<Open>>,
        bytes: u64,
        chunk_bytes: u64,
    ) -> Result<Allocation<'_>, Full> {
        let Some(open) = *arena else { return Err(Full) };
        Ok(Allocation { arena, bytes, at: open.chunk * chunk_bytes + open.used })
    }

    /// Returns whether the arena's chunk has room for `bytes`. If it has not, and all records of
    /// the chunk are trimmed, the call first empties the chunk.
    #[inline]
    fn fits(&self, arena: &mut Option<Open>, bytes: u64) -> bool {
        let Some(open) = arena else { return false };
        if open.used + bytes > self.chunk_bytes && self.is_dead(open) {
            (open.used, open.until) = (0, 0);
        }
        open.used + bytes <= self.chunk_bytes
    }

    fn is_dead(&self, open: &Open) -> bool {
        open.until <= self.released.load(Ordering::Acquire)
    }

    /// Replaces the arena's chunk by a free one. Returns false if no free chunk may be taken.
    #[cold]
    fn refill(&self, arena: &mut Option<Open>, kept: u64) -> bool {
        let mut pool = held(&self.pool);
        if pool.free.len() as u64 <= kept {
            return false;
        }
        let Some(chunk) = pool.free.pop() else { return false };
        pool.full.extend(arena.replace(Open { chunk, used: 0, until: 0 }));
        self.free.store(pool.free.len() as u64, Ordering::Relaxed);
        true
    }

    #[cold]
    fn place_anywhere(&self, bytes: u64) -> Result<Allocation<'_>, Full> {
        for arena in &self.arenas {
            let mut arena = held(arena);
            if self.fits(&mut arena, bytes) {
                return Self::at_end(arena, bytes, self.chunk_bytes);
            }
        }
        Err(Full)
    }

    /// Returns a place for an opening's record that ends at `until`.
    ///
    /// # Errors
    /// [`Full`] if the openings' own chunk has no room left.
    pub fn place_own(&self, bytes: u64, until: u64) -> Result<u64, Full> {
        let mut pool = held(&self.pool);
        let own = pool.own.as_mut().filter(|own| own.used + bytes <= self.chunk_bytes).ok_or(Full)?;
        let at = own.chunk * self.chunk_bytes + own.used;
        (own.used, own.until) = (own.used + bytes, own.until.max(until));
        Ok(at)
    }

    /// Returns whether [`Arenas::place`] would find a place now.
    pub fn has_place(&self, bytes: u64, kept: u64) -> bool {
        held(&self.pool).free.len() as u64 > kept || self.place_anywhere(bytes).is_ok()
    }

    /// Frees the chunks whose records all lie below `start`: these records are trimmed, and no
    /// thread reads them any more (rule 2).
    pub fn release(&self, start: u64) {
        raise(&self.released, start, Ordering::AcqRel);
        for arena in &self.arenas {
            let mut arena = held(arena);
            if arena.is_some_and(|open| self.is_dead(&open)) {
                let open = arena.take();
                drop(arena);
                self.free_all(open.into_iter());
            }
        }
        let mut pool = held(&self.pool);
        let Pool { free, full, own } = &mut *pool;
        if let Some(own) = own.as_mut().filter(|own| self.is_dead(own)) {
            (own.used, own.until) = (0, 0);
        }
        full.retain(|open| {
            let dead = self.is_dead(open);
            if dead {
                free.push(open.chunk);
            }
            !dead
        });
        self.free.store(pool.free.len() as u64, Ordering::Relaxed);
    }

    fn free_all(&self, chunks: impl Iterator<Item = Open>) {
        let mut pool = held(&self.pool);
        pool.free.extend(chunks.map(|open| open.chunk));
        self.free.store(pool.free.len() as u64, Ordering::Relaxed);
    }
}

/// Locks `mutex`, also after a panic: a panic under one of these locks leaves no half-made change.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
