//! The state of a simulated device, and the one place where a call becomes a step.
//!
//! A thread takes `World`'s latch before an inode's latch. An inode's latch guards the image and
//! the latest name of one file; `World`'s latch, one for the device, guards the rest. The condition
//! variable `changed` belongs to `World`'s latch: stalled callers, and tests that wait for stalled
//! callers, sleep on it.
//!
//! Invariants:
//!
//! 1. Every call that changes the device takes exactly one step, numbered from 0 in the order the
//!    calls got the latch. Exceptions, which take no step: dropping the cache of a file
//!    (`drop_cache`), and removing a region of NVRAM.
//! 2. The step at which the device crashes takes effect without being synced, so the crash may undo
//!    it. No later step takes effect.
//! 3. `used` is the sum of the lengths of all files that a name or an open handle still reaches.

use super::faults::{Fault, Plan};
use super::image::FileImage;
use super::names::Names;
use crate::error::{Cause, Error, Result, Verb};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum bytes of a file. Longer files are refused, because a call with a wrong offset must not
/// make the simulation allocate without bound.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 30;

/// A file, under any number of names.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) id: u64,
    content: Mutex<Content>,
    // All files of the device share this sum. Threads change it under `World`'s latch, but a thread
    // that drops the last reference to a file holds no latch. Relaxed, because the sum orders no
    // other access.
    used: Arc<AtomicU64>,
}

#[derive(Debug)]
pub(super) struct Content {
    /// The file's latest path, for reports and faults.
    pub(super) path: String,
    pub(super) image: FileImage,
}

impl Inode {
    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` and accounts for the change of length.
    pub(super) fn change(&self, change: impl FnOnce(&mut FileImage)) {
        let mut content = self.content();
        let before = content.image.len();
        change(&mut content.image);
        let after = content.image.len();
        self.used.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.used.fetch_sub(content.image.len(), Ordering::Relaxed);
    }
}

/// A directory; its number is its place in `World::folders`.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    /// Names of the directories that lead to this one, each followed by `/`; empty for the root.
    pub(super) prefix: String,
    pub(super) names: Names,
    pub(super) folders: BTreeMap<String, SubFolder>,
    pub(super) locked: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SubFolder {
    pub(super) number: usize,
    /// True if the directory's entry was synced.
    pub(super) kept: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) steps: u64,
    pub(super) crash_at: Option<u64>,
    pub(super) crashed: bool,
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    pub(super) capacity: u64,
    pub(super) stalling: bool,
    pub(super) stalled: usize,
    /// Writes that wait because the device is stalled, or waited when it crashed.
    pub(super) stalled_writes: Vec<Stalled>,
    /// Writes of direct files that were not aligned.
    pub(super) unaligned: u64,
    /// The greatest number of reads that one call has given the device together.
    pub(super) most_reads: usize,
    pub(super) folders: Vec<Folder>,
    pub(super) used: Arc<AtomicU64>,
    pub(super) inodes: u64,
}

/// A write that the device has received and not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stalled {
    pub(super) inode: u64,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) world: Mutex<World>,
    pub(super) changed: Condvar,
}

/// Outcome of the step about to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeed,
    /// The step takes effect without being synced, and its call reports the crash.
    Crash,
    Fail(Fault),
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the latch for a call that is no step.
    pub(super) fn look(&self, verb: Verb, subject: impl FnOnce() -> String) -> Result<MutexGuard<'_, World>> {
        let world = self.lock();
        if world.crashed {
            return Err(Error::new(verb, subject(), Cause::Crashed));
        }
        Ok(world)
    }

    /// Takes the latch for a call that a stall holds up; waits first while the device is stalled.
    /// `write` describes the bytes of a write.
    pub(super) fn enter(
        &self,
        verb: Verb,
        subject: impl FnOnce() -> String,
        write: impl FnOnce() -> Option<Stalled>,
    ) -> Result<MutexGuard<'_, World>> {
        let mut world = self.lock();
        if world.stalling && !world.crashed {
            let write = write();
            world.stalled_writes.extend(write.clone());
            world.stalled += 1;
            self.changed.notify_all();
            while world.stalling && !world.crashed {
                world = self.changed.wait(world).unwrap_or_else(PoisonError::into_inner);
            }
            world.stalled -= 1;
            if let Some(write) = write
                && !world.crashed
                && let Some(at) = world.stalled_writes.iter().position(|other| *other == write)
            {
                world.stalled_writes.swap_remove(at);
            }
        }
        if world.crashed {
            return Err(Error::new(verb, subject(), Cause::Crashed));
        }
        Ok(world)
    }

    /// Takes the next step (invariant 1).
    pub(super) fn step(&self, world: &mut World, verb: Verb, path: &str) -> Outcome {
        let step = world.steps;
        world.steps += 1;
        let fault = match world.crash_at {
            Some(at) if step >= at => Some(Fault::Crash),
            _ => world.plan.fault(verb, path, step),
        };
        match fault {
            Some(Fault::Crash) => {
                world.crashed = true;
                self.changed.notify_all();
                Outcome::Crash
            }
            Some(fault) => Outcome::Fail(fault),
            None => Outcome::Succeed,
        }
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        World {
            seed,
            steps: 0,
            crash_at: None,
            crashed: false,
            rng: Rng::with_seed(seed),
            plan: Plan::default(),
            capacity: u64::MAX,
            stalling: false,
            stalled: 0,
            stalled_writes: Vec::new(),
            unaligned: 0,
            most_reads: 0,
            folders: Vec::new(),
            used: Arc::new(AtomicU64::new(0)),
            inodes: 0,
        }
    }

    pub(super) fn inode(&mut self, path: String, image: FileImage) -> Arc<Inode> {
        self.inodes += 1;
        self.used.fetch_add(image.len(), Ordering::Relaxed);
        let content = Mutex::new(Content { path, image });
        Arc::new(Inode { id: self.inodes, content, used: self.used.clone() })
    }

    /// Returns the length up to which a file of `length` bytes may grow towards `end`.
    pub(super) fn room_to(&self, length: u64, end: u64) -> u64 {
        let free = self.capacity.saturating_sub(self.used.load(Ordering::Relaxed));
        end.min(length.saturating_add(free)).max(end.min(length))
    }
}

/// Returns the error of a fault.
pub(super) fn failure(fault: Fault, verb: Verb, subject: String) -> Error {
    match fault {
        Fault::NoSpace => Error::new(verb, subject, Cause::NoSpace),
        _ => Error::new(verb, subject, Cause::Io(Arc::new(io::Error::other("simulated I/O error")))),
    }
}
