//! A device that crashes on demand, and then keeps no more than it promised.
//!
//! The device holds two versions of bytes (by sector of 512 bytes), lengths and names: the version
//! that programs see, and the durable version. A crash keeps everything durable, and the seed
//! decides the rest. Each sector gets any version between the durable and the latest one, so writes
//! are dropped, torn and reordered. Each file gets any of its lengths in between. Each directory
//! gets a prefix or any subset of its name changes. Calls can be made to fail, to stall, or to
//! crash the device half-way.
//!
//! Any thread may call this code. One latch serialises all calls, so that the same sequence of
//! calls with the same seed has the same outcome.
//!
//! | what counts as a step | partial effect when the device crashes at it |
//! |---|---|
//! | `write_at`, `prepare`, `truncate` | the bytes count as un-synced, even those of a durable write: the seed decides sector by sector |
//! | `File::sync`, `Directory::sync` | what the sync covered stays un-synced: the seed decides |
//! | creating, renaming, removing a file | the change of the name counts as un-synced |
//! | creating a subdirectory, or a region of NVRAM | it exists or it does not |
//!
//! A sector is kept or dropped whole, except with [`Survival::Trash`], which may make garbage of
//! sectors that were being written.
//!
//! Steps are numbered from 0, so a test runs its workload once and asks [`SimDevice::steps`]. Then
//! the test runs the workload again for each smaller number, with [`SimDevice::crash_at`].
//!
//! ```
//! use katydid_device::{Create, Directory, File, Method, SimDevice, WriteMode};
//! use std::io::IoSlice;
//!
//! let device = SimDevice::new(1);
//! let file = device.directory().open("a", Create::New, Method::Buffered)?;
//! device.directory().sync()?;
//! file.write_at(&[IoSlice::new(b"durable")], 0, WriteMode::Durable)?;
//! device.crash_at(device.steps());
//! assert!(file.write_at(&[IoSlice::new(b"replaced")], 0, WriteMode::Durable).is_err());
//!
//! for seed in 0..20 {
//!     let file = device.reopen_after_crash(seed).directory().open_read_only("a")?;
//!     let mut text = [0; 8];
//!     let count = file.read_at(&mut text, 0)?;
//!     assert!(&text[..count] == b"durable" || &text[..count] == b"replace" || &text == b"replaced" || &text == b"durable\0");
//! }
//! # Ok::<(), katydid_device::Error>(())
//! ```

mod bytes;
mod directory;
mod faults;
mod file;
mod image;
mod names;
mod regions;
mod reopen;
mod world;

pub use faults::Fault;

use crate::directory::Directory;
use crate::error::Verb;
use crate::nvram::SimNvram;
use crate::survival::Survival;
use directory::SimDirectory;
use fastrand::Rng;
use regions::Regions;
use reopen::{Ending, reopen};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use world::{Folder, Inode, Shared, World};

/// A simulated device. Clones are the same device.
#[derive(Debug, Clone)]
pub struct SimDevice {
    shared: Arc<Shared>,
    regions: Arc<Regions>,
}

impl SimDevice {
    /// Makes an empty device. `seed` decides what failing syncs lose; crashes have a seed of their
    /// own.
    pub fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        world.folders.push(Folder::default());
        Self::of(world)
    }

    fn of(world: World) -> Self {
        let shared = Arc::new(Shared { world: Mutex::new(world), changed: Condvar::new() });
        SimDevice { shared, regions: Arc::default() }
    }

    /// Adds to `reopened` what `reopen` makes of each region. Must be called without the device's
    /// latch: `reopen` first crashes the region, and a crash of the region takes that latch to
    /// crash the device.
    fn with_regions(&self, reopened: SimDevice, reopen: impl Fn(&SimNvram) -> SimNvram) -> SimDevice {
        for (path, region) in self.regions.all() {
            reopened.regions.add(path, reopen(&region).beside(&reopened.alone()));
        }
        reopened
    }

    /// Returns the device without its regions, for use by the regions themselves: a region that
    /// held the whole device would keep itself alive.
    fn alone(&self) -> SimDevice {
        SimDevice { shared: self.shared.clone(), regions: Arc::default() }
    }

    /// Returns the simulated memory behind a region that was opened in a directory of this device,
    /// by its path from the root. Memory and device crash together and are reopened together, but
    /// count their steps separately.
    pub fn nvram(&self, path: &str) -> Option<SimNvram> {
        self.regions.find(path)
    }

    /// Returns the root directory of the device.
    pub fn directory(&self) -> Arc<dyn Directory> {
        Arc::new(SimDirectory { device: self.clone(), number: 0, prefix: String::new() })
    }

    /// Returns the number of steps so far, which is the number of the next step.
    pub fn steps(&self) -> u64 {
        self.shared.lock().steps
    }

    /// Crashes at the step of this number. That step takes effect in part at most. The call fails,
    /// as every later call does, with [`Cause::Crashed`](crate::Cause::Crashed).
    pub fn crash_at(&self, step: u64) {
        self.shared.lock().crash_at = Some(step);
    }

    /// Crashes now.
    pub fn freeze(&self) {
        self.shared.lock().crashed = true;
        self.shared.changed.notify_all();
    }

    /// Returns true if the device has crashed.
    pub fn is_crashed(&self) -> bool {
        self.shared.lock().crashed
    }

    /// Returns the device after a crash of the machine, by [`Survival::Random`] with `seed`.
    /// Crashes this device, as [`SimDevice::freeze`] does. May be called again, also with other
    /// seeds. The steps of the new device count from 0. The new device has no planned faults, and
    /// the same capacity.
    pub fn reopen_after_crash(&self, seed: u64) -> SimDevice {
        self.reopen_with(seed, Survival::Random)
    }

    /// Crashes and reopens like [`SimDevice::reopen_after_crash`], with the given [`Survival`].
    pub fn reopen_with(&self, seed: u64, survival: Survival) -> SimDevice {
        self.freeze();
        let world = reopen(&self.shared.lock(), seed, Ending::Crash(survival, Rng::with_seed(seed)));
        self.with_regions(Self::of(world), |region| region.reopen_with(seed, survival))
    }

    /// Returns the device after the process alone was killed: nothing is lost, and bytes that were
    /// not synced are still not synced. Crashes this device, as [`SimDevice::freeze`] does. A file
    /// that was open and had no name any more is gone.
    pub fn reopen_after_kill(&self) -> SimDevice {
        self.freeze();
        let world = {
            let world = self.shared.lock();
            reopen(&world, world.seed, Ending::Kill)
        };
        self.with_regions(Self::of(world), SimNvram::reopen_after_kill)
    }

    /// Returns whether the sync of a directory has failed since the device was made or crashed.
    /// Processes still see the names that the failed sync has lost, and no later sync makes these
    /// names durable. A file system with a journal accepts no change after such a failure. A test
    /// of programs on such a file system crashes the device before the next process opens it.
    pub fn has_lost_names(&self) -> bool {
        self.shared.lock().folders.iter().any(|folder| folder.names.is_lossy())
    }

    /// Makes step number `step` fail, once.
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.shared.lock().plan.at(step, fault);
    }

    /// Calls `predicate` for every step, to ask for a fault. The predicate gets the operation, the
    /// file's path from the root (a directory's path ends with `/`, and the root's is empty), and
    /// the number of the step. The predicate runs under the device's latch and must not call the
    /// device.
    pub fn fail_when(&self, predicate: impl FnMut(Verb, &str, u64) -> Option<Fault> + Send + 'static) {
        self.shared.lock().plan.when(Some(Box::new(predicate)));
    }

    /// Makes a read fail if it touches these bytes of the file with this path.
    pub fn fail_reads(&self, path: &str, bytes: Range<u64>) {
        self.shared.lock().plan.unreadable(path, bytes);
    }

    /// Calls `predicate` for every read, with the file's path and the bytes, to ask whether it
    /// fails. The rules are those of [`SimDevice::fail_when`].
    pub fn fail_reads_when(&self, predicate: impl FnMut(&str, Range<u64>) -> bool + Send + 'static) {
        self.shared.lock().plan.unreadable_when(Box::new(predicate));
    }

    /// Removes every planned fault, unreadable range and predicate.
    pub fn heal(&self) {
        self.shared.lock().plan.clear();
    }

    /// Limits the sum of all files' lengths to `bytes`: a call that would exceed it fails with
    /// `NoSpace`. The limit may be raised and lowered.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.lock().capacity = bytes;
    }

    /// Returns the sum of all files' lengths in bytes.
    pub fn used(&self) -> u64 {
        self.shared.lock().used.load(Ordering::Relaxed)
    }

    /// With `true`, callers of `write_at`, `sync` (of files and directories), `prepare` and
    /// `truncate` wait until a call with `false`, or until the device crashes. Reads go on.
    pub fn stall_writes(&self, stall: bool) {
        self.shared.lock().stalling = stall;
        self.shared.changed.notify_all();
    }

    /// Waits until at least `callers` calls are waiting because of [`SimDevice::stall_writes`].
    pub fn wait_stalled(&self, callers: usize) {
        let mut world = self.shared.lock();
        while world.stalled < callers {
            world = self.shared.changed.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the number of calls that wait now because of [`SimDevice::stall_writes`].
    pub fn stalled(&self) -> usize {
        self.shared.lock().stalled
    }

    /// Returns the number of writes to files of [`Method::Direct`](crate::Method::Direct) or
    /// `Uring` whose offset, or the address or length of a part, was not a multiple of
    /// [`File::alignment`](crate::File::alignment). Such writes are correct here, but a real device
    /// would have needed a copy.
    pub fn unaligned_writes(&self) -> u64 {
        self.shared.lock().unaligned
    }

    /// Returns the greatest number of reads that one [`File::read_many`](crate::File::read_many)
    /// has given the device together. Files of [`Method::Direct`](crate::Method::Direct) give it
    /// one read after the other and do not count.
    pub fn most_reads_together(&self) -> usize {
        self.shared.lock().most_reads
    }

    /// Changes a byte of the file with this path, in the cache and on the device, as a decaying
    /// device would. Returns false if there is no such byte.
    pub fn corrupt(&self, path: &str, offset: u64, xor: u8) -> bool {
        let world = self.shared.lock();
        match find(&world, path) {
            Some(inode) => inode.content().image.corrupt(offset, xor),
            None => false,
        }
    }

    /// Returns every file by its path, with the bytes that programs see. The device may have
    /// crashed.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.shared.lock();
        files(&world).map(|(path, inode)| (path, inode.content().image.contents())).collect()
    }

    /// Returns every file by its path, with the bytes that survive a crash in the worst case.
    pub fn durable_image(&self) -> BTreeMap<String, Vec<u8>> {
        let ending = Ending::Crash(Survival::DropAll, Rng::with_seed(0));
        let worst = reopen(&self.shared.lock(), 0, ending);
        files(&worst).map(|(path, inode)| (path, inode.content().image.contents())).collect()
    }

    /// Returns one line about each file, for the message of a failed test.
    pub fn dump(&self) -> String {
        let world = self.shared.lock();
        let state = if world.crashed { "crashed" } else { "alive" };
        let mut text = format!("{state} after {} steps, seed {}\n", world.steps, world.seed);
        for (path, inode) in files(&world) {
            let content = inode.content();
            let image = &content.image;
            let (seen, kept) = (image.len(), image.kept_len());
            let (dirty, lost) = (image.dirty_sectors(), image.lost_sectors());
            // Writing to a `String` cannot fail.
            writeln!(text, "{path}: {seen} bytes ({kept} durable), {dirty} sectors dirty, {lost} lost").ok();
        }
        for folder in world.folders.iter().filter(|folder| folder.names.un_synced() > 0) {
            writeln!(text, "/{}: {} un-synced name changes", folder.prefix, folder.names.un_synced()).ok();
        }
        text
    }
}

fn files(world: &World) -> impl Iterator<Item = (String, &Arc<Inode>)> {
    world.folders.iter().flat_map(|folder| {
        folder.names.seen().iter().map(|(name, inode)| (format!("{}{name}", folder.prefix), inode))
    })
}

fn find(world: &World, path: &str) -> Option<Arc<Inode>> {
    files(world).find(|(name, _)| name == path).map(|(_, inode)| inode.clone())
}
