//! Transactions for executors: a body runs on a thread of the database, and the commit is awaited
//! without a thread.
//!
//! A thread of the program polls the future; a thread of [`crate::body_threads`] runs the body.
//! Both threads share a [`Slot`]. Invariants:
//!
//! 1. A poll waits only for the slot's latch and the latch of the body threads, which are held for
//!    a few instructions.
//! 2. The body is run by one thread at a time, never by the thread that polls the future. The
//!    values that the body owns, and the thread's handle of the database, are dropped before the
//!    future is ready.
//! 3. A future that is dropped before [`Stage::Submitting`] commits nothing. From that stage on its
//!    commit goes on, like that of a dropped [`CommitFuture`]. If the commit then fails with a
//!    conflict, the body does not run again.
//! 4. Under the slot's latch no waker is called or dropped, and no value of the user is dropped.
//!
//! The effect of dropping the future depends on the stage:
//!
//! - Before the future was polled: nothing was done.
//! - While the body waits for a thread: the dropping thread drops the body.
//! - While the body runs: the body runs to its end. Then the thread rolls the transaction back, and
//!   does not run the body again.
//! - While the commit record is being appended, or later: the commit goes on.
//!
//! Latch: a slot's `stage`, a leaf.

use crate::body;
use crate::body_threads::{Job, Ticket};
use crate::commit::CommitFuture;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::latch::Mutex;
use crate::options::Access;
use crate::transaction::Transaction;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

type Body<T, E> = Box<dyn FnMut(&Transaction) -> std::result::Result<T, E> + Send>;

/// Work of a body thread.
struct Work<T, E> {
    database: Database,
    access: Access,
    body: Body<T, E>,
}

/// Stage of a body.
enum Stage<T, E> {
    /// The body waits for a thread.
    Waiting(Work<T, E>, Waker),
    Running(Waker),
    /// The commit record is being appended to the log.
    Submitting(Waker),
    Ready(Outcome<T, E>),
    /// The future was dropped, or has taken the outcome.
    Over,
}

// The large variant has no box: a transaction moves its outcome only a few times, and a box would
// cost an allocation.
#[allow(clippy::large_enum_variant)]
enum Outcome<T, E> {
    Submitted(CommitFuture, T),
    Failed(E),
    Panicked(Box<dyn Any + Send>),
}

/// State that the future and the thread share.
struct Slot<T, E> {
    stage: Mutex<Stage<T, E>>,
}

impl<T, E> Slot<T, E> {
    /// Returns whether the commit record may be appended to the log, which is so if the future
    /// still exists.
    fn may_submit(&self) -> bool {
        let mut stage = self.stage.lock();
        match mem::replace(&mut *stage, Stage::Over) {
            Stage::Running(waker) | Stage::Submitting(waker) => {
                *stage = Stage::Submitting(waker);
                true
            }
            _ => false,
        }
    }

    /// Returns whether the body may run once more, which is so if the future still exists.
    fn may_run_again(&self) -> bool {
        let mut stage = self.stage.lock();
        match mem::replace(&mut *stage, Stage::Over) {
            // A conflict at the commit leaves the stage `Submitting`, but nothing of the
            // transaction is in the log.
            Stage::Running(waker) | Stage::Submitting(waker) => {
                *stage = Stage::Running(waker);
                true
            }
            _ => false,
        }
    }
}

impl<T: Send, E: From<Error> + Send> Slot<T, E> {
    fn work(&self, work: Work<T, E>) -> Outcome<T, E> {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let Work { database, access, mut body } = work;
            let outcome = database.run(
                access,
                |txn| if self.may_run_again() { body(txn) } else { Err(Error::Closed.into()) },
                |txn| {
                    if !self.may_submit() {
                        // Dropping `txn` rolls it back. The error reaches no caller.
                        return Err(Error::Closed);
                    }
                    txn.submit_async()
                },
            );
            // The body and the handle are dropped before the future returns the outcome, because
            // after that the program may close the database and open it again.
            drop((body, database));
            outcome
        }));
        match done {
            Ok(Ok((value, commit))) => Outcome::Submitted(commit, value),
            Ok(Err(error)) => Outcome::Failed(error),
            Err(payload) => Outcome::Panicked(payload),
        }
    }
}

impl<T: Send, E: From<Error> + Send> Job for Slot<T, E> {
    fn run(&self) {
        let work = {
            let mut stage = self.stage.lock();
            match mem::replace(&mut *stage, Stage::Over) {
                Stage::Waiting(work, waker) => {
                    *stage = Stage::Running(waker);
                    work
                }
                _withdrawn => return,
            }
        };
        let outcome = self.work(work);
        let mut stage = self.stage.lock();
        match mem::replace(&mut *stage, Stage::Over) {
            Stage::Running(waker) | Stage::Submitting(waker) => {
                *stage = Stage::Ready(outcome);
                drop(stage);
                let _reported_by_the_hook = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
            _ => {
                drop(stage);
                // The outcome holds values of the user, whose `drop` may panic.
                let _reported_by_the_hook = catch_unwind(AssertUnwindSafe(|| drop(outcome)));
            }
        }
    }
}

/// The future of [`Database::transact_async`](crate::Database::transact_async), of
/// [`try_transact_async`](crate::Database::try_transact_async), and of
/// [`view_async`](crate::Database::view_async). The future does nothing before it is polled.
///
/// Dropping the future before its transaction was submitted rolls the transaction back: a body that
/// waits for a thread never runs, and a running body runs to its end without effect. Dropping the
/// future later does not change the outcome.
#[must_use = "nothing is done before the future is polled"]
pub struct TransactFuture<T, E = Error> {
    state: State<T, E>,
}

enum State<T, E> {
    New(Work<T, E>),
    Given { slot: Arc<Slot<T, E>>, database: Database, ticket: Ticket },
    Committing(CommitFuture, T),
    Over,
}

// Nothing in the future is pinned.
impl<T, E> Unpin for TransactFuture<T, E> {}

impl Database {
    /// Runs `body` in a transaction as [`Database::transact`] does, for programs with any executor:
    /// polling the future never blocks. The body runs on a thread of the database, where it may
    /// wait for locks and pages. After that the commit occupies no thread until it is as durable as
    /// the transaction asks.
    ///
    /// The body runs again after conflicts, as in `transact`. Bodies begin in the order in which
    /// their futures were first polled. While a body waits for a lock or for the device, another
    /// body may run, up to 256 bodies in all. A body should not wait for anything else, such as
    /// another future of this database, because the body would keep its thread from other bodies.
    ///
    /// [`TransactFuture`] says what happens when the future is dropped. To limit the bodies and
    /// commits in flight, take a [`Permit`](crate::Permit) for each.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let accounts = database.table("accounts")?;
    /// # let executor = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    /// # executor.block_on(async {
    /// let body_of = accounts.clone();
    /// let balance = database.transact_async(move |txn| {
    ///     txn.update(&body_of, "anna", |old| Some(vec![old.map_or(1, |old| old[0] + 1)]))
    /// });
    /// assert_eq!(balance.await?, Some(vec![1]));
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Database::transact`]; `Error::Device` if a thread cannot be started.
    ///
    /// # Panics
    /// The future panics if the body panicked.
    pub fn transact_async<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction) -> Result<T> + Send + 'static,
    ) -> TransactFuture<T> {
        self.try_transact_async(body)
    }

    /// Runs `body` in a transaction as [`Database::transact_async`] does, with the caller's own
    /// error type, as in [`Database::try_transact`].
    ///
    /// # Errors
    /// The errors of [`Database::try_transact`] and [`Database::transact_async`].
    pub fn try_transact_async<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        body: impl FnMut(&Transaction) -> std::result::Result<T, E> + Send + 'static,
    ) -> TransactFuture<T, E> {
        self.future(Access::ReadWrite, body)
    }

    /// Runs `body` in a read view ([`Database::begin_read_only`]), for programs with an executor:
    /// polling the future never blocks. The body runs on a thread of the database, as in
    /// [`Database::transact_async`].
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let stock = database.table("stock")?;
    /// database.put(&stock, "apples", "3")?;
    /// # let executor = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    /// # executor.block_on(async {
    /// let kinds = database.view_async(move |view| view.count(&stock, ..));
    /// assert_eq!(kinds.await?, 1);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `body`; the errors of [`Database::begin_read_only`]; `Error::Device` if a
    /// thread cannot be started.
    ///
    /// # Panics
    /// The future panics if the body panicked.
    pub fn view_async<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction) -> Result<T> + Send + 'static,
    ) -> TransactFuture<T> {
        self.future(Access::ReadOnly, body)
    }

    fn future<T, E>(
        &self,
        access: Access,
        body: impl FnMut(&Transaction) -> std::result::Result<T, E> + Send + 'static,
    ) -> TransactFuture<T, E> {
        TransactFuture { state: State::New(Work { database: self.clone(), access, body: Box::new(body) }) }
    }
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> TransactFuture<T, E> {
    fn begin(work: Work<T, E>, waker: &Waker) -> Result<State<T, E>> {
        body::check_not_inside(work.database.key())?;
        let database = work.database.clone();
        let stage = Mutex::new(Stage::Waiting(work, waker.clone()));
        let slot = Arc::new(Slot { stage });
        let ticket = database.opening().bodies.submit(slot.clone())?;
        Ok(State::Given { slot, database, ticket })
    }
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> Future for TransactFuture<T, E> {
    type Output = std::result::Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match mem::replace(&mut this.state, State::Over) {
                State::New(work) => {
                    this.state = Self::begin(work, context.waker())?;
                    return Poll::Pending;
                }
                State::Given { slot, database, ticket } => match slot.look(context.waker()) {
                    None => {
                        this.state = State::Given { slot, database, ticket };
                        return Poll::Pending;
                    }
                    Some(Outcome::Submitted(commit, value)) => this.state = State::Committing(commit, value),
                    Some(Outcome::Failed(error)) => return Poll::Ready(Err(error)),
                    Some(Outcome::Panicked(payload)) => resume_unwind(payload),
                },
                State::Committing(mut commit, value) => {
                    return match Pin::new(&mut commit).poll(context) {
                        Poll::Pending => {
                            this.state = State::Committing(commit, value);
                            Poll::Pending
                        }
                        Poll::Ready(outcome) => Poll::Ready(outcome.map(|_| value).map_err(E::from)),
                    };
                }
                State::Over => panic!("a future is polled after it was ready"),
            }
        }
    }
}

impl<T, E> Slot<T, E> {
    /// Takes the outcome if there is one. If there is none, keeps `waker`, which is called when
    /// there is an outcome.
    fn look(&self, waker: &Waker) -> Option<Outcome<T, E>> {
        // Cloning a waker runs code of the user, so it is done outside of the latch.
        let mut new = Some(waker.clone());
        let mut stage = self.stage.lock();
        if let Stage::Ready(_) = &*stage {
            let Stage::Ready(outcome) = mem::replace(&mut *stage, Stage::Over) else { return None };
            return Some(outcome);
        }
        if let Stage::Waiting(_, old) | Stage::Running(old) | Stage::Submitting(old) = &mut *stage
            && let Some(waker) = &mut new
        {
            mem::swap(old, waker);
        }
        drop(stage);
        drop(new);
        None
    }
}

impl<T, E> Drop for TransactFuture<T, E> {
    fn drop(&mut self) {
        let State::Given { slot, database, ticket } = mem::replace(&mut self.state, State::Over) else {
            return;
        };
        let mut stage = slot.stage.lock();
        let before = mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        if let Stage::Waiting(..) = &before {
            database.opening().bodies.withdraw(ticket);
        }
        drop(before);
    }
}

impl<T, E> fmt::Debug for TransactFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::New(_) => "TransactFuture(not polled)",
            State::Given { .. } => "TransactFuture(runs its body)",
            State::Committing(..) => "TransactFuture(commits)",
            State::Over => "TransactFuture(over)",
        })
    }
}
