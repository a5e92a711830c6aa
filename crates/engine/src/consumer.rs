//! Named consumers of the feed: the database stores their positions and keeps the log for them.
//!
//! One thread at a time uses a [`ChangeConsumer`]. It is built on a consumer of the log
//! (`katydid_wal::Consumer`). The mark of the log's consumer is a commit stamp.
//!
//! After a crash a consumer has the position that it acknowledged last.

use crate::CommitStamp;
use crate::changes::{ChangePosition, Changes, ChangesFrom, CommittedTransaction};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::ARCHIVER_PREFIX;
use crate::open::Chosen;
use crate::opening::Call;
use katydid_wal::{self as wal, Consumer, ReadError};
use std::fmt;
use std::task::{Context, Poll};

/// A named consumer of the committed transactions, opened by
/// [`Database::consumer`](crate::Database::consumer).
///
/// Dropping this value does not remove the consumer. The database keeps the consumer's last
/// acknowledged position, and the log from there on, until
/// [`Database::remove_consumer`](crate::Database::remove_consumer) is called.
pub struct ChangeConsumer {
    of: Chosen,
    changes: Changes,
    consumer: Consumer,
}

impl ChangeConsumer {
    /// Opens the consumer called `name`, or makes one that begins at `from`.
    pub(crate) fn open(of: &Chosen, name: &str, bytes_max: u64, from: &ChangesFrom) -> Result<Self> {
        if name.starts_with(ARCHIVER_PREFIX) {
            let reason = format!("{name:?} begins like the names of the archivers of the log");
            return Err(Error::Option { option: "name", reason });
        }
        let call = Call::enter(of)?;
        let log = of.log();
        let known = log.consumers().into_iter().find(|consumer| consumer.name == name);
        let from = match known {
            None => from.clone(),
            Some(known) if known.is_lost => {
                return Err(Error::ChangesGap {
                    at: CommitStamp::new(known.mark),
                    log_start: log.first().start(),
                });
            }
            Some(known) => ChangesFrom::Position(ChangePosition {
                stamp: CommitStamp::new(known.mark),
                from: known.from,
            }),
        };
        let changes = call.changes(&from)?;
        let ChangePosition { stamp, from } = changes.position();
        let consumer =
            log.consumer(name, bytes_max, stamp.get(), &from).map_err(|error| feed_error(error, stamp))?;
        drop(call);
        Ok(ChangeConsumer { of: of.clone(), changes, consumer })
    }

    /// Returns the consumer's name.
    pub fn name(&self) -> &str {
        self.consumer.name()
    }

    /// Returns the next transaction, if it and all transactions before it are durable. Errors are
    /// those of [`Changes::try_next`].
    pub fn try_next(&mut self) -> Result<Option<CommittedTransaction>> {
        self.changes.try_next()
    }

    /// Returns the next transaction; blocks until there is one. Errors are those of
    /// [`Changes::next`].
    #[expect(clippy::should_implement_trait, reason = "a feed has no end at which an iterator would stop")]
    pub fn next(&mut self) -> Result<CommittedTransaction> {
        self.changes.next()
    }

    /// Waits for the next transaction and returns it. Errors are those of [`Changes::next_async`].
    pub async fn next_async(&mut self) -> Result<CommittedTransaction> {
        self.changes.next_async().await
    }

    /// Returns the next transaction, or registers the waker of `context`, which is called when
    /// there may be one. Errors are those of [`Changes::poll_next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<CommittedTransaction>> {
        self.changes.poll_next(context)
    }

    /// Returns the position after the last transaction that this consumer has returned.
    pub fn position(&self) -> ChangePosition {
        self.changes.position()
    }

    /// Acknowledges every transaction that this consumer has returned. The next consumer opened by
    /// this name begins after these transactions, in this opening or a later one. The database need
    /// not keep the log of acknowledged transactions. The call makes one durable write: the
    /// acknowledgement is durable when the call returns.
    ///
    /// # Errors
    /// [`Error::ChangesGap`] if the consumer was too far behind and the log was trimmed;
    /// [`Error::Closed`]; failures of the device.
    pub fn acknowledge(&mut self) -> Result<()> {
        let _call = Call::enter(&self.of)?;
        let ChangePosition { stamp, from } = self.changes.position();
        let outcome = self.consumer.acknowledge(stamp.get(), &from);
        outcome.map_err(|error| feed_error(error, stamp))
    }
}

fn feed_error(error: wal::Error, at: CommitStamp) -> Error {
    match error {
        wal::Error::Read(ReadError::Trimmed { start, .. }) => Error::ChangesGap { at, log_start: start },
        error => error.into(),
    }
}

impl fmt::Debug for ChangeConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeConsumer")
            .field("name", &self.name())
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}
