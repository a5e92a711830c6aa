//! Transactions that run again after conflicts, and whose commits are reported to callbacks.
//!
//! One thread uses a session and makes these calls. Invariant: the callback is queued if the call
//! returns a value, and is dropped without being run if the call returns an error. So each outcome
//! is reported once.

use crate::CommitStamp;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::options::Access;
use crate::session::Session;
use crate::ticket::Callback;
use crate::transaction::Transaction;

impl Database {
    /// Runs `body` in a transaction and submits its commit. After a conflict `body` runs again, as
    /// in [`Database::transact`]. The call returns the result of `body` when the commit record is
    /// in the log. When the commit is as durable as the database asks, the thread that polls
    /// `session` calls `done` with the result that [`Transaction::commit`] would return. So one
    /// thread can have thousands of commits in flight.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let events = database.table("events")?;
    /// let session = database.session();
    /// for number in 0..10_000_u32 {
    ///     let put = |txn: &katydid::Transaction| txn.put(&events, number.to_be_bytes(), "click");
    ///     database.transact_with(&session, put, |outcome| drop(outcome.expect("the commit is durable")))?;
    ///     session.wait_below(1_000)?;
    /// }
    /// session.drain()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Database::transact`], except that `done` gets the errors of a commit that
    /// was submitted. `Error::ForeignSession` if the session is of another database, or of another
    /// opening of this one. After an error the transaction is rolled back, and `done` does not run.
    #[track_caller]
    pub fn transact_with<T>(
        &self,
        session: &Session,
        body: impl FnMut(&Transaction) -> Result<T>,
        done: impl FnOnce(Result<CommitStamp>) + Send + 'static,
    ) -> Result<T> {
        if session.opening != self.opening().id() {
            return Err(Error::ForeignSession);
        }
        let mut done: Option<Callback> = Some(Box::new(done));
        let submit = |txn: Transaction| txn.submit_with(session, &mut done);
        self.run(Access::ReadWrite, body, submit).map(|(value, ())| value)
    }
}
