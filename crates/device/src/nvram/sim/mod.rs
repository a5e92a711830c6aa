//! Simulated memory that crashes on demand. A crash keeps what was persisted; of the rest it keeps
//! what the seed says.
//!
//! Programs store into ordinary memory, which stands for the caches. Beside it, `model` records
//! what each line may hold after a crash: at least what was fenced, at most what was stored.
//!
//! Any thread may call this code. Invariants:
//!
//! 1. Every call except `word`, `slice` and stores to words holds one latch (`state`). A thread may
//!    take the latch of the simulated device of the same machine while it holds this latch, never
//!    the other way round.
//! 2. The simulation reads the memory only under the latch, word by word and atomically. Bytes are
//!    written under the latch too, so the simulation's reads race only with stores to words, which
//!    are atomic.
//! 3. A crash takes a picture of the memory under the latch, and nothing is recorded after it.
//!    Stores go on while the picture is taken, but no write-back or fence ends. So a store is in
//!    the picture only if everything that was persisted before the store is kept.
//! 4. A fence keeps the lines that its own thread has written back, and no others.
//!
//! The content of a line is recorded before and after each [`NvRegion::write`] into it, at each
//! write-back, and at the crash. If a word is stored twice between two of these moments, no crash
//! leaves the first value.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | the memory's words | programs, by their own rules | the simulation, under the latch | relaxed: the latch orders the records; a store that is not seen counts as not yet made |

mod model;

use super::LINE_BYTES;
use super::region::{NvRegion, checked};
use crate::aligned::AlignedBuffer;
use crate::survival::Survival;
use fastrand::Rng;
use model::{Line, Lines, WORDS, WrittenBack};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Numbers of calls of a simulated memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Calls that wrote back at least one line.
    pub write_backs: u64,
    /// Lines that these calls wrote back.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
}

/// A simulated memory. Clones are the same memory.
///
/// Write-backs (of at least a byte) and fences are steps, which are numbered from 0. So a test runs
/// its work once and asks [`SimNvram::steps`]. Then the test runs the work again for each smaller
/// number, with [`SimNvram::crash_at`].
#[derive(Debug, Clone)]
pub struct SimNvram {
    shared: Arc<Shared>,
}

impl SimNvram {
    /// Makes a memory of `bytes` zeros.
    ///
    /// # Panics
    /// If no region can have this number of bytes (a multiple of [`LINE_BYTES`]).
    pub fn new(bytes: u64) -> SimNvram {
        let lines = checked(bytes) / LINE_BYTES as usize;
        Self::of(AlignedBuffer::new_zeroed(bytes as usize), Lines::new(vec![[0; WORDS]; lines]))
    }

    /// Puts this memory into one machine with `peer`: the two crash together. No region of the
    /// memory may be open.
    pub(crate) fn in_machine(self, peer: Arc<dyn CrashPeer>) -> SimNvram {
        self.shared.state().peer = Some(peer);
        self
    }

    fn of(memory: AlignedBuffer, lines: Lines) -> SimNvram {
        let state = State {
            lines,
            pending: HashMap::new(),
            counts: Counts::default(),
            steps: 0,
            crash_at: None,
            crashed: false,
            peer: None,
        };
        let bytes = memory.len();
        SimNvram { shared: Arc::new(Shared { memory, bytes, state: Mutex::new(state) }) }
    }

    /// Returns the region of all bytes of the memory, as programs use it. May be called again, as
    /// if one program after the other opened a region.
    pub fn region(&self) -> NvRegion {
        NvRegion::simulated(self.shared.clone())
    }

    /// Returns the number of steps so far, which is the number of the next step.
    pub fn steps(&self) -> u64 {
        self.shared.state().steps
    }

    /// Crashes at the step of this number. This step and everything after it leave the surviving
    /// bytes unchanged. Stores, write-backs and fences go on without an error, and only
    /// [`NvRegion::is_crashed`] shows the crash.
    pub fn crash_at(&self, step: u64) {
        self.shared.state().crash_at = Some(step);
    }

    /// Crashes now.
    pub fn freeze(&self) {
        let mut state = self.shared.state();
        self.shared.crash(&mut state);
    }

    /// Returns true if the memory has crashed.
    pub fn is_crashed(&self) -> bool {
        self.shared.is_crashed()
    }

    /// Returns the numbers of calls before the crash, or of all calls so far if there was no crash.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    /// Returns the memory after a crash of the machine, by [`Survival::Random`] with `seed`.
    /// Crashes this memory, as [`SimNvram::freeze`] does. May be called again, also with other
    /// seeds. The steps of the new memory count from 0, and the new memory belongs to no device.
    pub fn reopen_after_crash(&self, seed: u64) -> SimNvram {
        self.reopen_with(seed, Survival::Random)
    }

    /// Crashes and reopens like [`SimNvram::reopen_after_crash`], with the given [`Survival`].
    /// Lines take the place of sectors; `Prefix` is in the order of addresses and cuts between
    /// words.
    pub fn reopen_with(&self, seed: u64, survival: Survival) -> SimNvram {
        self.freeze();
        let survivors = self.shared.state().lines.survivors(survival, &mut Rng::with_seed(seed));
        Self::of(memory_of(&survivors), Lines::new(survivors))
    }

    /// Returns the memory after the process alone was killed: nothing is lost, and bytes that were
    /// not persisted are still not persisted. Crashes this memory, as [`SimNvram::freeze`] does.
    pub fn reopen_after_kill(&self) -> SimNvram {
        self.freeze();
        let lines = self.shared.state().lines.clone();
        Self::of(memory_of(&lines.seen()), lines)
    }

    /// Returns the bytes that survive a crash in the worst case.
    pub fn durable_image(&self) -> Vec<u8> {
        let state = self.shared.state();
        bytes_of(&state.lines.survivors(Survival::DropAll, &mut Rng::with_seed(0)))
    }

    /// Returns one line about the memory, for the message of a failed test.
    pub fn dump(&self) -> String {
        let state = self.shared.state();
        let alive = if state.crashed { "crashed" } else { "alive" };
        let (steps, unkept, Counts { write_backs, lines, fences }) =
            (state.steps, state.lines.unkept(), state.counts);
        format!(
            "{alive} after {steps} steps ({write_backs} write-backs of {lines} lines, {fences} fences), {unkept} lines not as persisted"
        )
    }
}

fn bytes_of(lines: &[Line]) -> Vec<u8> {
    lines.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect()
}

fn memory_of(lines: &[Line]) -> AlignedBuffer {
    AlignedBuffer::copy_of(&bytes_of(lines))
}

/// State that a memory's regions share.
#[derive(Debug)]
pub(super) struct Shared {
    // Never borrowed as a slice, not even to ask for its length: programs write into it through its
    // base.
    memory: AlignedBuffer,
    bytes: usize,
    /// This latch has the rank of the device's latches, and is taken before the simulated device's
    /// latch.
    state: Mutex<State>,
}

/// Another part of the machine that the memory is in. When the memory or this part crashes, the
/// other one has crashed too.
pub(crate) trait CrashPeer: fmt::Debug + Send + Sync {
    /// Crashes the peer.
    fn freeze(&self);

    /// Returns true if the peer has crashed.
    fn is_crashed(&self) -> bool;
}

#[derive(Debug)]
struct State {
    lines: Lines,
    /// For each thread, the lines that it has written back and not fenced.
    pending: HashMap<ThreadId, Vec<WrittenBack>>,
    counts: Counts,
    steps: u64,
    crash_at: Option<u64>,
    crashed: bool,
    peer: Option<Arc<dyn CrashPeer>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn line(&self, index: usize) -> Line {
        std::array::from_fn(|nth| {
            let at = index * LINE_BYTES as usize + nth * 8;
            assert!(at + 8 <= self.bytes, "lines are those of the memory");
            // SAFETY: in bounds; aligned, because the memory and `at` are; other threads access it
            // as words, or write it under the latch that this thread holds (invariant 2).
            unsafe { AtomicU64::from_ptr(self.base().as_ptr().add(at).cast()) }.load(Ordering::Relaxed)
        })
    }

    /// Crashes the memory and its peer, unless the memory has crashed already.
    fn crash(&self, state: &mut State) {
        if state.crashed {
            return;
        }
        state.crashed = true;
        if let Some(peer) = &state.peer {
            peer.freeze();
        }
        (0..self.bytes / LINE_BYTES as usize).for_each(|index| state.lines.see(index, self.line(index)));
    }

    /// Returns true if the memory has not crashed, so that the caller's step still has an effect.
    fn alive(&self, state: &mut State) -> bool {
        if !state.crashed && state.peer.as_ref().is_some_and(|peer| peer.is_crashed()) {
            self.crash(state);
        }
        !state.crashed
    }

    /// Takes a step. Returns whether it has an effect.
    fn step(&self, state: &mut State) -> bool {
        if state.crash_at.is_some_and(|at| state.steps >= at) {
            self.crash(state);
        }
        let alive = self.alive(state);
        state.steps += u64::from(alive);
        alive
    }

    pub(super) fn is_crashed(&self) -> bool {
        !self.alive(&mut self.state())
    }

    /// Runs `copy`, which writes to `[at, at + len)`, under the latch, and records what it changes.
    pub(super) fn change(&self, at: u64, len: u64, copy: impl FnOnce()) {
        let mut state = self.state();
        if !self.alive(&mut state) {
            return copy();
        }
        touched(at, len).for_each(|index| state.lines.see(index, self.line(index)));
        copy();
        touched(at, len).for_each(|index| state.lines.see(index, self.line(index)));
    }

    pub(super) fn write_back(&self, at: u64, len: u64) {
        let mut state = self.state();
        let state = &mut *state;
        if !self.step(state) {
            return;
        }
        let pending = state.pending.entry(thread::current().id()).or_default();
        let lines = touched(at, len);
        state.counts.write_backs += 1;
        state.counts.lines += lines.len() as u64;
        pending.extend(lines.map(|index| state.lines.write_back(index, self.line(index))));
    }

    pub(super) fn fence(&self) {
        let mut state = self.state();
        let state = &mut *state;
        if !self.step(state) {
            return;
        }
        state.counts.fences += 1;
        let pending = state.pending.remove(&thread::current().id()).unwrap_or_default();
        pending.into_iter().for_each(|line| state.lines.fence(line));
    }
}

/// Returns the lines that `[at, at + len)` touches.
fn touched(at: u64, len: u64) -> Range<usize> {
    let end = if len == 0 { at / LINE_BYTES } else { (at + len).div_ceil(LINE_BYTES) };
    (at / LINE_BYTES) as usize..end as usize
}
