//! A limit on the commits, or other work, that a program has in flight.
//!
//! Any thread may call this code. The semaphore is `async-lock`'s; this file gives it the names and
//! the rules of the store.

use async_lock::{Semaphore, SemaphoreGuardArc, futures::AcquireArc};
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A limit for the commits that a program has in flight: at most a fixed number of [`Permit`]s can
/// be held at a time.
///
/// Nothing else limits the number of commits in flight. A transaction that was committed by
/// [`Transaction::commit_async`](crate::Transaction::commit_async) or
/// [`commit_with`](crate::Transaction::commit_with) leaves its future or callback in memory until
/// the commit is as durable as it asked. A body of
/// [`Database::transact_async`](crate::Database::transact_async) waits in memory for a thread. So a
/// producer that can be faster than the device takes a permit for each commit, and drops the permit
/// when the commit is acknowledged. The owner of the permit is the callback, or the task that
/// awaits the future. When no permit is left the producer waits, by blocking or not, or sheds load.
///
/// Clones share the permits. A `Permits` is not tied to a database.
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// # let database = katydid::Database::in_memory()?;
/// let events = database.table("events")?;
/// let permits = katydid::Permits::new(2.try_into().expect("not zero"));
/// let session = database.session();
/// for number in 0..10u8 {
///     // A thread that runs the callbacks itself must not block on permits that they hold.
///     let permit = loop {
///         match permits.try_acquire() {
///             Some(permit) => break permit,
///             None => session.wait_below(2)?,
///         }
///     };
///     let txn = database.begin()?;
///     txn.put(&events, [number], "")?;
///     txn.commit_with(&session, move |outcome| {
///         outcome.expect("the commit is durable");
///         drop(permit);
///     });
///     assert!(session.pending() <= 2);
/// }
/// session.drain()
/// # }
/// ```
#[derive(Clone)]
pub struct Permits {
    of: Arc<Semaphore>,
    limit: usize,
}

/// A permit of [`Permits`], which is given back when it is dropped.
#[must_use = "it is given back when it is dropped"]
pub struct Permit {
    _of: SemaphoreGuardArc,
}

/// The future of [`Permits::acquire_async`], ready when a permit is taken. Dropping the future
/// gives up its place in the queue.
#[must_use = "no permit is taken before the future is polled"]
pub struct PermitFuture {
    of: Pin<Box<AcquireArc>>,
}

impl Permits {
    /// Makes `limit` permits.
    pub fn new(limit: NonZeroUsize) -> Self {
        Permits { of: Arc::new(Semaphore::new(limit.get())), limit: limit.get() }
    }

    /// Returns the maximum number of permits that are held at one time.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes a permit; blocks until there is one. Do not call this on the thread that gives permits
    /// back, for example a thread that runs the callbacks of its session: the thread would wait for
    /// itself. Such a thread uses [`Permits::try_acquire`].
    pub fn acquire(&self) -> Permit {
        Permit { _of: self.of.acquire_arc_blocking() }
    }

    /// Returns a future that takes a permit when there is one, without blocking a thread.
    pub fn acquire_async(&self) -> PermitFuture {
        PermitFuture { of: Box::pin(self.of.acquire_arc()) }
    }

    /// Takes a permit if there is one now; `None` if there is none.
    pub fn try_acquire(&self) -> Option<Permit> {
        Some(Permit { _of: self.of.try_acquire_arc()? })
    }
}

impl Future for PermitFuture {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        self.of.as_mut().poll(context).map(|of| Permit { _of: of })
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permits({})", self.limit)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl fmt::Debug for PermitFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitFuture")
    }
}
