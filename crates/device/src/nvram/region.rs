//! A region: bytes and words in place, and the calls that persist them.
//!
//! Any thread may call this code. The callers keep the rules that make unsynchronised bytes sound,
//! as with the log's ring:
//!
//! 1. Only the owner of bytes writes them ([`NvRegion::write`]): no other thread reads or writes
//!    them meanwhile, not even as a word.
//! 2. Bytes are read in place ([`NvRegion::slice`]) only while no thread writes them, not even as a
//!    word.
//! 3. Words ([`NvRegion::word`]) may be shared; their ordering is that of any atomic. Writing back
//!    a word's line, and a fence, persist the word.
//!
//! Rules of the region itself:
//!
//! 4. `base` points to `bytes` initialised bytes, aligned to [`ALIGNMENT`](crate::ALIGNMENT), for
//!    as long as `keeper` lives; `bytes` is a multiple of a line.
//! 5. Every offset is checked against `bytes`, also in release builds: an offset out of bounds
//!    panics and touches nothing.
//! 6. The calls of a real or emulated region write no shared counter or latch, so threads that
//!    persist different lines meet only in the memory. A simulated region takes a latch in each
//!    call except `word` and `slice`.

#[cfg(not(unix))]
use super::absent::{self as file, Mapping};
use super::cache::{self, Instruction, LINE_BYTES};
use super::delay::Delay;
#[cfg(unix)]
use super::file::{self, Mapping};
use super::form::{Form, Medium, Persistence};
use super::header;
use super::sim::Shared;
use crate::aligned::AlignedBuffer;
use crate::error::Result;
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A region of byte-addressable memory whose contents survive a crash as far as they were
/// persisted. The [module](super) has the rules. [`NvRegion::form`] returns the kind of memory that
/// a region has.
///
/// Threads share a region by reference, or in an `Arc`. The first touch of each page of a file
/// costs a page fault.
pub struct NvRegion {
    base: NonNull<u8>,
    bytes: u64,
    instruction: Option<Instruction>,
    delay: Option<Delay>,
    form: Form,
    keeper: Keeper,
}

/// The owner of the memory.
enum Keeper {
    Mapped(#[cfg_attr(unix, expect(dead_code, reason = "held until the region is dropped"))] Mapping),
    Owned(#[expect(dead_code, reason = "held until the region is dropped")] AlignedBuffer),
    Simulated(Arc<Shared>),
}

// SAFETY: rule 4: the region owns its memory, or shares a simulated one's; bytes have no thread
// affinity.
unsafe impl Send for NvRegion {}
// SAFETY: every access to the bytes through a shared reference is atomic, or `unsafe` under rules 1
// and 2.
unsafe impl Sync for NvRegion {}

impl NvRegion {
    /// Opens the region at `path`. If there is none, makes one of `bytes` zeros. The folder must
    /// exist.
    ///
    /// Making a region is all or nothing if the machine crashes meanwhile, and reserves all of its
    /// room. A second opening fails until the region is dropped.
    ///
    /// # Errors
    /// `Cause::Nvram` if the file is not a region or has another length, if no region can have this
    /// number of bytes (a multiple of [`LINE_BYTES`]), or if the caller asked for real persistence
    /// and the file system or the processor has none. `Cause::Locked` if the region is in use.
    /// `Cause::NoSpace` with `Verb::Prepare` if there is no room. `Cause::NotFound` if there is no
    /// such folder. `Cause::Io` for any other failure of the system.
    pub fn open(path: impl AsRef<Path>, bytes: u64, want: Persistence) -> Result<NvRegion> {
        Ok(Self::mapped(file::open(path.as_ref(), Some(bytes), want)?))
    }

    /// Opens the existing region at `path`, of any length.
    ///
    /// # Errors
    /// Those of [`NvRegion::open`], and `Cause::NotFound` if there is no region.
    pub fn open_existing(path: impl AsRef<Path>, want: Persistence) -> Result<NvRegion> {
        Ok(Self::mapped(file::open(path.as_ref(), None, want)?))
    }

    /// Makes a region of `bytes` zeros in memory of this process. The region does not survive the
    /// process.
    ///
    /// # Panics
    /// If no region can have this number of bytes. Aborts when there is no memory.
    pub fn memory(bytes: u64) -> NvRegion {
        Self::memory_with_latency(bytes, Duration::ZERO)
    }

    /// Makes a region like [`NvRegion::memory`], with `latency` added to each fence.
    ///
    /// # Panics
    /// If no region can have this number of bytes.
    pub fn memory_with_latency(bytes: u64, latency: Duration) -> NvRegion {
        let memory = AlignedBuffer::new_zeroed(checked(bytes));
        let instruction = Instruction::detect();
        let form = Form::Emulated { medium: Medium::Memory, instruction, latency };
        Self::of(memory.base(), bytes, form, Keeper::Owned(memory))
    }

    fn mapped(mapping: Mapping) -> NvRegion {
        Self::of(mapping.base(), mapping.bytes(), mapping.form(), Keeper::Mapped(mapping))
    }

    pub(super) fn simulated(shared: Arc<Shared>) -> NvRegion {
        Self::of(shared.base(), shared.bytes(), Form::Simulated, Keeper::Simulated(shared))
    }

    fn of(base: NonNull<u8>, bytes: u64, form: Form, keeper: Keeper) -> NvRegion {
        let (instruction, delay) = (form.instruction(), Delay::of(form.latency()));
        NvRegion { base, bytes, instruction, delay, form, keeper }
    }

    /// Returns the length of the region in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no region is empty")]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns the form of the region. Print it with every figure measured on the region.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Returns whether the region is simulated and has crashed. After that, stores and fences do
    /// not change the bytes that survive.
    pub fn is_crashed(&self) -> bool {
        match &self.keeper {
            Keeper::Simulated(shared) => shared.is_crashed(),
            Keeper::Mapped(_) | Keeper::Owned(_) => false,
        }
    }

    /// Returns the address of offset `at`. Panics if `[at, at + len)` does not lie in the region.
    #[inline(always)]
    fn place(&self, at: u64, len: u64) -> *mut u8 {
        if len > self.bytes || at > self.bytes - len {
            outside(at, len, self.bytes);
        }
        // SAFETY: just checked; by rule 4 the region is one piece of memory.
        unsafe { self.base.as_ptr().add(at as usize) }
    }

    /// Copies `bytes` to offset `at`, without persisting them.
    ///
    /// # Safety
    /// The caller owns these bytes of the region (rule 1 of the module's head: no other thread
    /// accesses them in any way meanwhile).
    ///
    /// # Panics
    /// If these bytes do not lie in the region.
    #[inline(always)]
    pub unsafe fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.place(at, bytes.len() as u64);
        // SAFETY: in bounds; the caller owns the target, so `bytes` is no part of it.
        let copy = || unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        match &self.keeper {
            Keeper::Simulated(shared) => shared.change(at, bytes.len() as u64, copy),
            Keeper::Mapped(_) | Keeper::Owned(_) => copy(),
        }
    }

    /// Returns the bytes `[at, at + len)` in place.
    ///
    /// # Safety
    /// No thread writes these bytes while the slice lives, not even as words (rule 2).
    ///
    /// # Panics
    /// If these bytes do not lie in the region.
    #[inline(always)]
    pub unsafe fn slice(&self, at: u64, len: u64) -> &[u8] {
        let from = self.place(at, len);
        // SAFETY: in bounds and initialised (rule 4); not written meanwhile, as the caller
        // guarantees; borrowed from `self`.
        unsafe { std::slice::from_raw_parts(from, len as usize) }
    }

    /// Returns the word at offset `at`, a multiple of 8.
    ///
    /// # Panics
    /// If `at` is no multiple of 8, or the word does not lie in the region.
    #[inline(always)]
    pub fn word(&self, at: u64) -> &AtomicU64 {
        let place = self.place(at, 8);
        if !at.is_multiple_of(8) {
            outside(at, 8, self.bytes);
        }
        // SAFETY: in bounds, aligned because `base` and `at` are, valid for as long as `self`. A
        // caller that accesses these bytes other than as a word obeys rules 1 and 2, which forbid
        // such an access during any use of the word.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    /// Begins to write back the cache lines that `[at, at + len)` touches. Whether a line has
    /// arrived is not known before this thread's next [`NvRegion::fence`].
    ///
    /// # Panics
    /// If these bytes do not lie in the region.
    #[inline(always)]
    pub fn write_back(&self, at: u64, len: u64) {
        let from = self.place(at, len);
        if len == 0 {
            return;
        }
        if let Keeper::Simulated(shared) = &self.keeper {
            shared.write_back(at, len);
        } else if let Some(instruction) = self.instruction {
            // SAFETY: in bounds, so mapped; the instruction was detected when the region was made.
            unsafe { instruction.write_back_all(from, len as usize) };
        }
    }

    /// Waits until all write-backs of this thread are persisted. An emulated region adds its
    /// latency once.
    #[inline(always)]
    pub fn fence(&self) {
        cache::fence();
        if let Keeper::Simulated(shared) = &self.keeper {
            shared.fence();
        }
        if let Some(delay) = self.delay {
            delay.wait();
        }
    }

    /// Persists `[at, at + len)` by [`NvRegion::write_back`] and [`NvRegion::fence`]. The fence
    /// also persists everything else that this thread has written back.
    ///
    /// # Panics
    /// If these bytes do not lie in the region.
    #[inline(always)]
    pub fn persist(&self, at: u64, len: u64) {
        self.write_back(at, len);
        self.fence();
    }
}

/// Returns `bytes` as a length in memory. Panics if no region may have this length.
pub(super) fn checked(bytes: u64) -> usize {
    assert!(header::file_bytes(bytes).is_ok(), "a region has a multiple of {LINE_BYTES} bytes, not {bytes}");
    bytes as usize
}

#[cold]
#[inline(never)]
fn outside(at: u64, len: u64, bytes: u64) -> ! {
    panic!("{len} bytes at {at} are not in, or not aligned in, a region of {bytes}");
}

impl fmt::Debug for NvRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NvRegion({} bytes, {})", self.bytes, self.form)
    }
}
