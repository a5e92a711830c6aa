//! Adds a delay to each call that makes bytes or names durable, as in the papers' experiments (0,
//! 15 us, 50 us, 100 us, 1 ms and 10 ms).
//!
//! Any thread may call this code. Invariants:
//!
//! 1. Each call that promises durability (a durable write, a sync of a file or a directory, a
//!    preparation, the making of a subdirectory) is delayed once, after the device has done the
//!    call's work and before the caller gets the result. No other call is delayed.
//! 2. Delays of concurrent calls overlap: this models a device with latency, not one with a queue.
//! 3. A failed call is not delayed.
//!
//! | atomic | written by | read by | ordering |
//! |---|---|---|---|
//! | `delays` | every delayed call | any thread | relaxed: a plain sum |
//!
//! A crash leaves what the wrapped directory leaves.

use crate::directory::{Advice, Create, Directory, DirectoryLock, File, ManyRead, Method, WriteMode};
use crate::error::Result;
use crate::nvram::{NvRegion, Persistence};
use crate::os;
use std::cell::Cell;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The way in which a thread waits until a delay is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Waiting {
    /// Spins on the processor: as exact as the clock, but other threads have one processor less.
    Spin,
    /// Sleeps, as a thread that waits for a real device does (`clock_nanosleep`, with the calling
    /// thread's timer slack lowered to a nanosecond for good). The kernel wakes the thread up late:
    /// some microseconds late on bare metal, 25 to 40 us on the virtual machine where the lateness
    /// was measured.
    Timer,
    /// Sleeps until [`Waiting::TAIL`] before the end, and spins for the rest: as exact as `Spin`,
    /// and a long delay takes little processor time from other threads. A delay of at most
    /// [`Waiting::TAIL`] only spins.
    #[default]
    Auto,
}

impl Waiting {
    /// The last part of a delay, in which [`Waiting::Auto`] spins. This part is longer than the
    /// time by which a sleeping thread wakes up late.
    pub const TAIL: Duration = Duration::from_micros(50);

    /// Blocks the calling thread for `delay`.
    pub fn wait(self, delay: Duration) {
        let begun = Instant::now();
        let asleep = match self {
            Waiting::Spin => Duration::ZERO,
            Waiting::Timer => delay,
            Waiting::Auto => delay.saturating_sub(Waiting::TAIL),
        };
        if !asleep.is_zero() {
            lower_timer_slack();
            std::thread::sleep(asleep);
        }
        while begun.elapsed() < delay {
            std::hint::spin_loop();
        }
    }
}

/// Lowers the calling thread's timer slack, once. By default Linux lets a thread's timers expire up
/// to 50 us late, so that the kernel can serve several at once.
fn lower_timer_slack() {
    thread_local!(static LOWERED: Cell<bool> = const { Cell::new(false) });
    if !LOWERED.replace(true) {
        os::expect_short_sleeps();
    }
}

#[derive(Debug)]
struct Delay {
    delay: Duration,
    waiting: Waiting,
    delays: AtomicU64,
}

impl Delay {
    fn after<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_ok() && !self.delay.is_zero() {
            self.delays.fetch_add(1, Ordering::Relaxed);
            self.waiting.wait(self.delay);
        }
        outcome
    }
}

/// A directory that adds a delay to each durable write, sync, preparation and making of a
/// subdirectory. With a delay of zero every call passes through.
///
/// ```
/// use katydid_device::{DelayedDirectory, MemoryDirectory, Waiting};
/// use std::{sync::Arc, time::Duration};
///
/// let slow = DelayedDirectory::new(Arc::new(MemoryDirectory::new()), Duration::from_micros(100), Waiting::Auto);
/// ```
#[derive(Debug, Clone)]
pub struct DelayedDirectory {
    inner: Arc<dyn Directory>,
    delay: Arc<Delay>,
}

impl DelayedDirectory {
    /// Adds `delay` to each call to `inner` that promises durability, also in directories inside
    /// it.
    pub fn new(inner: Arc<dyn Directory>, delay: Duration, waiting: Waiting) -> Self {
        DelayedDirectory { inner, delay: Arc::new(Delay { delay, waiting, delays: AtomicU64::new(0) }) }
    }

    /// Returns the number of calls delayed so far, those of directories inside this one included.
    pub fn delays(&self) -> u64 {
        self.delay.delays.load(Ordering::Relaxed)
    }

    fn within(&self, inner: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Arc::new(DelayedDirectory { inner, delay: self.delay.clone() })
    }
}

impl Directory for DelayedDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, create, method)?;
        Ok(Arc::new(DelayedFile { inner, delay: self.delay.clone() }))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        let inner = self.inner.open_read_only(name)?;
        Ok(Arc::new(DelayedFile { inner, delay: self.delay.clone() }))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.delay.after(self.inner.sync())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }

    fn lock_to_read(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock_to_read()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        Ok(self.within(self.delay.after(self.inner.subdirectory(name))?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.inner.existing_subdirectory(name)?.map(|inner| self.within(inner)))
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        self.inner.nvram(name, bytes, want)
    }

    fn describe(&self) -> String {
        let Delay { delay, waiting, .. } = &*self.delay;
        match delay.is_zero() {
            true => self.inner.describe(),
            false => format!("{} + {delay:?} ({waiting:?})", self.inner.describe()),
        }
    }
}

#[derive(Debug)]
struct DelayedFile {
    inner: Arc<dyn File>,
    delay: Arc<Delay>,
}

impl File for DelayedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn read_many(&self, reads: &mut [ManyRead<'_>]) {
        self.inner.read_many(reads);
    }

    fn overlaps_reads(&self) -> bool {
        self.inner.overlaps_reads()
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let outcome = self.inner.write_at(parts, offset, mode);
        match mode {
            WriteMode::Written => outcome,
            WriteMode::Durable => self.delay.after(outcome),
        }
    }

    fn sync(&self) -> Result<()> {
        self.delay.after(self.inner.sync())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.delay.after(self.inner.prepare(from, to))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.inner.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }

    fn advise(&self, advice: Advice) {
        self.inner.advise(advice);
    }

    fn method(&self) -> Method {
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}
