//! One opening of a database: its identity, its calls in flight, and its end. Both engines share
//! this module.
//!
//! Any thread may call this code. **Identity.** Each opening has a number that no other opening of
//! this process has. Tables, sessions, savepoints and transactions carry it, and the public handles
//! compare the numbers when one of these objects is passed to another. A database's own id does not
//! distinguish openings: the id is stored in the directory, so the next opening and a copy of the
//! directory also have it.
//!
//! **End.** [`Opening::close`] goes through these phases, on one thread:
//!
//! - Open: calls and visits may enter.
//! - Closing: visits may enter. The closing thread ends the waits for open transactions, waits for
//!   the calls in flight, and ends the engine's threads.
//! - Ending: neither may enter. The closing thread waits for the visits in flight. Then no other
//!   thread uses the opening, and the closing thread takes the last checkpoint, closes the log and
//!   the gate, and releases the directory's lock.
//!
//! A *call* may append to the log, change pages or files, or acknowledge something. A *visit* is a
//! part of an operation, during which the operation may reach the device. Examples of visits:
//! reading a page that is not in memory, with the write-back that makes room for the page; a
//! checkpoint that a writer needs; the steps of a copy that use the log. Reads from memory are not
//! counted, because counting would be a large part of their cost. Such reads touch no file, and
//! closing ends their waits. Commit futures and sessions wait in the log only, and the log's own
//! `close` ends these waits.
//!
//! Invariants:
//!
//! 1. When [`Opening::close`] returns, nothing of this opening changes the directory any more, and
//!    the directory's lock is released. As a second safeguard, closing the gate refuses later
//!    device calls and waits for those under way.
//! 2. Every call of [`Opening::close`] waits for the first one, and returns the outcome of the
//!    first one. Only a call from inside the closing thread, which cannot wait for itself, returns
//!    `Error::Closed` at once.
//! 3. A call that entered goes on to its end: nothing refuses it halfway because of the closing.
//!    Only its waits for open transactions end.
//! 4. Code of the user (bodies of `transact`, callbacks, progress reports) never runs in a call or
//!    visit, so it may close the database.
//! 5. A panic while closing leaves the gate closed, the lock released, and an error for the other
//!    callers.
//!
//! The closing thread writes the atomic `phase` (Release), and every operation reads it (Acquire).
//! The phase is a hint for operations that are not counted. `calls` decides whether a counted
//! operation may enter.
//!
//! `end` is a leaf latch, and not held while the database is being closed. A crash while closing is
//! like any crash of the process: the next opening recovers.

mod calls;
mod observed;
mod open_transactions;

use crate::body_threads::BodyThreads;
use crate::error::{Error, Result};
use crate::latch::{Condvar, Mutex};
use calls::{CLOSING, Calls, ENDING, Shard};
use katydid_device::{DirectoryLock, Gate};
use observed::Observed;
pub(crate) use open_transactions::Listed;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

/// The number of an opening, unique in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OpeningId(u64);

impl OpeningId {
    fn next() -> OpeningId {
        // Relaxed, because the numbers only have to differ.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        OpeningId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Phase of closing; see the head of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    Open,
    Closing,
    Ending,
}

/// The state of closing, which concurrent callers of `close` wait on.
#[derive(Debug)]
enum End {
    Open,
    /// The thread that closes.
    Closing(ThreadId),
    Closed(Result<()>),
}

/// One opening of a database; see the head of this file.
#[derive(Debug)]
pub(crate) struct Opening {
    id: OpeningId,
    phase: AtomicU8,
    calls: Calls,
    /// The threads that run bodies of `transact_async`. Closing makes them end, and does not wait
    /// for their end.
    pub(crate) bodies: BodyThreads,
    /// The open transactions, and the latencies of commits.
    pub(crate) observed: Observed,
    gate: Gate,
    directory_lock: Mutex<Option<Box<dyn DirectoryLock>>>,
    end: Mutex<End>,
    ended: Condvar,
}

/// Steps of an engine when its database is closed. Each is called once, in this order, on the
/// closing thread.
pub(crate) trait Closes {
    /// Ends all present and future waits for open transactions, because such a transaction may
    /// never end.
    fn end_waits(&self);
    /// Ends the threads that work for transactions, after their work. No call is in flight.
    fn stop_threads(&self);
    /// Takes the last checkpoint and closes the log. No other operation of the opening runs.
    fn finish(&self) -> Result<()>;
}

/// A handle on something that belongs to an opening.
pub(crate) trait Opened {
    /// The opening.
    fn opening(&self) -> &Opening;
}

impl Opening {
    /// Makes the opening of the directory behind `gate`, whose lock is held. Transactions that are
    /// open for longer than `slow` are reported.
    pub(crate) fn new(gate: Gate, directory_lock: Box<dyn DirectoryLock>, slow: Duration) -> Opening {
        Opening {
            id: OpeningId::next(),
            phase: AtomicU8::new(Phase::Open as u8),
            calls: Calls::new(),
            bodies: BodyThreads::new(),
            observed: Observed::new(slow),
            gate,
            directory_lock: Mutex::new(Some(directory_lock)),
            end: Mutex::new(End::Open),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn id(&self) -> OpeningId {
        self.id
    }

    fn is_at_least(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) >= phase as u8
    }

    fn enter_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns whether closing has begun. Calls in flight go on, but do not wait for open
    /// transactions.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_at_least(Phase::Closing)
    }

    /// Returns true if closing is in the phase *ending*, in which no call or visit may enter, or
    /// has ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_at_least(Phase::Ending)
    }

    /// Fails in the phase *ending*, and after closing has ended. Called by operations that are not
    /// counted, and inside of counted ones.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_ending() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns whether the closing thread sleeps because calls or visits are in flight. For tests.
    pub(crate) fn close_waits(&self) -> bool {
        self.calls.is_draining()
    }

    /// Begins a visit; see the head of this file. Fails in the phase *ending*, and after closing
    /// has ended.
    pub(crate) fn visit(&self) -> Result<Visit<'_>> {
        let shard = self.calls.enter(ENDING).ok_or(Error::Closed)?;
        Ok(Visit { opening: self, shard })
    }

    /// Closes the database, or waits until it is closed.
    pub(crate) fn close(&self, engine: &impl Closes) -> Result<()> {
        let this = std::thread::current().id();
        let mut end = self.end.lock();
        loop {
            match &*end {
                End::Open => break,
                End::Closed(outcome) => return outcome.clone(),
                End::Closing(thread) if *thread == this => return Err(Error::Closed),
                End::Closing(_) => self.ended.wait(&mut end),
            }
        }
        *end = End::Closing(this);
        drop(end);
        let outcome = Err(Error::Internal("a panic while the database was being closed"));
        let mut last = LastStep { opening: self, outcome };
        self.enter_phase(Phase::Closing);
        self.calls.refuse(CLOSING);
        self.bodies.stop();
        engine.end_waits();
        self.calls.drain();
        engine.stop_threads();
        self.enter_phase(Phase::Ending);
        self.calls.refuse(ENDING);
        self.calls.drain();
        last.outcome = engine.finish();
        let outcome = last.outcome.clone();
        drop(last);
        outcome
    }

    /// Closes the gate, then releases the directory's lock.
    fn give_back(&self) {
        let lock = self.directory_lock.lock().take();
        self.gate.close(lock);
    }
}

/// Releases the directory of a database that could not be opened, or was never closed.
impl Drop for Opening {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Ends closing when dropped, also after a panic (invariant 5).
struct LastStep<'a> {
    opening: &'a Opening,
    outcome: Result<()>,
}

impl Drop for LastStep<'_> {
    fn drop(&mut self) {
        self.opening.give_back();
        self.opening.enter_phase(Phase::Ending);
        *self.opening.end.lock() = End::Closed(self.outcome.clone());
        self.opening.ended.notify_all();
    }
}

/// A visit: a part of an operation that may reach the device. The visit ends when this value is
/// dropped.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    opening: &'a Opening,
    shard: Shard,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.opening.calls.leave(self.shard);
    }
}

/// A call in flight, through which the handle is used. The call ends when this value is dropped.
pub(crate) struct Call<H: Deref<Target: Opened>> {
    handle: H,
    shard: Shard,
}

impl<H: Deref<Target: Opened>> Call<H> {
    /// Begins a call. Fails if the database is closed or being closed.
    #[inline]
    pub(crate) fn enter(handle: H) -> Result<Self> {
        Self::try_enter(handle).map_err(|_refused| Error::Closed)
    }

    /// Begins a call, or returns the handle if the database is closed or being closed.
    #[inline]
    pub(crate) fn try_enter(handle: H) -> std::result::Result<Self, H> {
        match handle.opening().calls.enter(CLOSING) {
            Some(shard) => Ok(Call { handle, shard }),
            None => Err(handle),
        }
    }
}

impl<H: Deref<Target: Opened>> Drop for Call<H> {
    #[inline]
    fn drop(&mut self) {
        self.handle.opening().calls.leave(self.shard);
    }
}

impl<H: Deref<Target: Opened>> Deref for Call<H> {
    type Target = H::Target;

    fn deref(&self) -> &H::Target {
        &self.handle
    }
}

impl<H: DerefMut<Target: Opened>> DerefMut for Call<H> {
    fn deref_mut(&mut self) -> &mut H::Target {
        &mut self.handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::{Directory, MemoryDirectory};
    use std::sync::Arc;

    /// The state of an opening at a step of closing.
    #[derive(Debug, PartialEq)]
    struct Found {
        step: &'static str,
        calls_enter: bool,
        visits_enter: bool,
        is_locked: bool,
    }

    /// An engine whose steps note the state of the opening.
    struct Watching {
        opening: Opening,
        directory: MemoryDirectory,
        found: Mutex<Vec<Found>>,
    }

    impl Watching {
        fn note(&self, step: &'static str) {
            let calls_enter = Call::enter(self).is_ok();
            let visits_enter = self.opening.visit().is_ok();
            let is_locked = self.directory.lock().is_err();
            self.found.lock().push(Found { step, calls_enter, visits_enter, is_locked });
        }
    }

    impl Opened for Watching {
        fn opening(&self) -> &Opening {
            &self.opening
        }
    }

    impl Closes for Watching {
        fn end_waits(&self) {
            self.note("end_waits");
        }

        fn stop_threads(&self) {
            self.note("stop_threads");
        }

        fn finish(&self) -> Result<()> {
            self.note("finish");
            Ok(())
        }
    }

    /// An engine whose threads leave a visit under way when they end.
    struct Visited<'a> {
        opening: &'a Opening,
        visit: Mutex<Option<Visit<'a>>>,
    }

    impl Closes for Visited<'_> {
        fn end_waits(&self) {}

        fn stop_threads(&self) {
            *self.visit.lock() = Some(self.opening.visit().expect("a visit may enter"));
        }

        fn finish(&self) -> Result<()> {
            assert!(self.visit.lock().is_none(), "the last checkpoint begins beside a visit");
            Ok(())
        }
    }

    #[test]
    fn the_last_step_waits_for_a_visit_that_began_after_the_calls_had_ended() {
        let directory = MemoryDirectory::new();
        let lock = directory.lock().expect("a free directory");
        let (_, gate) = Gate::wrap(Arc::new(directory));
        let opening = Opening::new(gate, lock, Duration::MAX);
        let engine = Visited { opening: &opening, visit: Mutex::default() };
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| opening.close(&engine));
            while !opening.close_waits() && !closing.is_finished() {
                std::thread::yield_now();
            }
            drop(engine.visit.lock().take());
            closing.join().expect("the step runs after the visit").expect("close");
        });
    }

    #[test]
    fn each_step_of_closing_refuses_what_the_table_says_and_keeps_the_lock() {
        let directory = MemoryDirectory::new();
        let lock = directory.lock().expect("a free directory");
        let (_, gate) = Gate::wrap(Arc::new(directory.clone()));
        let opening = Opening::new(gate, lock, Duration::MAX);
        let engine = Watching { opening, directory, found: Mutex::default() };
        engine.note("open");
        engine.opening.close(&engine).expect("close");
        engine.note("closed");
        let found =
            |step, calls_enter, visits_enter, is_locked| Found { step, calls_enter, visits_enter, is_locked };
        let expected = [
            found("open", true, true, true),
            found("end_waits", false, true, true),
            found("stop_threads", false, true, true),
            found("finish", false, false, true),
            found("closed", false, false, false),
        ];
        assert_eq!(*engine.found.lock(), expected);
    }
}
