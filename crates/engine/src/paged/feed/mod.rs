//! The feed of the paged engine: assembles the log's records into transactions.
//!
//! The log has one stream, and commits have the order of their records in the log. So the feed
//! reads durable records in order, and returns a transaction when it reads the commit record
//! (`assemble`).
//!
//! A feed's position is the first record of the oldest transaction whose end the feed has not read
//! yet, or the end of the records read if there is no such transaction. So a feed that begins there
//! reads all of each transaction that commits later.
//!
//! **Where a feed begins.** `Oldest`: a log that was trimmed may begin in the middle of
//! transactions. Such transactions ended below the begin record of the last checkpoint, because
//! that checkpoint retains all the log of a transaction that had not ended. For each transaction
//! that is cut in this way, the first record that the log still has names an earlier record, which
//! lies below the start. So one reading, from the start to that begin record, recognizes these
//! transactions and finds the last of their commits. The feed begins after that commit: nothing is
//! left out between two transactions that the feed returns. `Now`: the thread passes a barrier (a),
//! looks at the active transactions (b), then passes another barrier (c). A transaction that
//! commits above (c) and has a record below (a) was active at (b). So the feed returns the commits
//! above (c), and reads from (a), or from the oldest first record found at (b) if that lies below
//! (a).

mod assemble;

use crate::changes::{ChangePosition, ChangesFrom, CommittedTransaction, EngineFeed};
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::paged::engine::Engine;
use crate::{CommitStamp, Durability, Lsn};
use assemble::{Assembler, Step};
use katydid_wal::{self as wal, Follower, ReadError};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// A feed of the paged engine.
#[derive(Debug)]
pub(crate) struct PagedFeed {
    follower: Follower,
    assembler: Assembler,
    /// Commits up to this stamp were returned, have nothing to return, or lie before the feed's
    /// beginning.
    stamp: CommitStamp,
    /// The error of a record that the assembler did not take. The feed returns only this error from
    /// then on, because a later transaction might lack the record.
    failed: Option<Error>,
}

impl Engine {
    /// Opens a feed that begins at `from` and knows the tables in `names`.
    pub(crate) fn changes(&self, from: &ChangesFrom, names: HashMap<TableId, Arc<str>>) -> Result<PagedFeed> {
        self.check_open()?;
        self.record_values.store(true, Ordering::Release);
        // The pin keeps the log from being trimmed until the feed's beginning is found.
        let pin = self.whole_log.pin_all(u64::MAX);
        let start = pin.from()[0];
        let (stamp, from) = match from {
            ChangesFrom::Oldest => (self.last_cut_commit(start)?, start),
            ChangesFrom::Now => self.now()?,
            ChangesFrom::Position(position) => match position.from[..] {
                [at] if at >= start => (position.stamp, at),
                [_] => return Err(self.gap(position.stamp)),
                _ => {
                    let reason = "it is of a log of several streams, which this database does not have";
                    return Err(Error::Option { option: "position", reason: reason.to_owned() });
                }
            },
        };
        let follower = self.log.follow(from)?;
        Ok(PagedFeed { follower, assembler: Assembler::new(names), stamp, failed: None })
    }

    fn gap(&self, at: CommitStamp) -> Error {
        Error::ChangesGap { at, log_start: self.log.start() }
    }

    /// Returns the last commit among the transactions of which the log has only a part. The log
    /// starts at `start`.
    fn last_cut_commit(&self, start: Lsn) -> Result<CommitStamp> {
        let mut last = CommitStamp::ZERO;
        let to = self.last_checkpoint();
        if to <= start {
            return Ok(last);
        }
        let mut follower = self.log.follow(start)?;
        let mut assembler = Assembler::new(HashMap::new());
        while follower.position() < to {
            let Some(record) = follower.try_next()? else { break };
            if let Step::CutOff(stamp) = assembler.take(&record, CommitStamp::new(u64::MAX))? {
                last = stamp;
            }
        }
        Ok(last)
    }

    /// Returns the beginning of a feed of later commits: the stamp above which these commits lie,
    /// and the position from which their records are read.
    fn now(&self) -> Result<(CommitStamp, Lsn)> {
        let below = self.log.barrier();
        let oldest = self.active.oldest_of_all().map(|(_, first)| first);
        let after = self.log.barrier();
        self.log.wait(after, Durability::Durable)?;
        Ok((CommitStamp::of_commit_at(after), oldest.map_or(below, |first| first.min(below))))
    }
}

impl EngineFeed for PagedFeed {
    fn poll_next(&mut self, mut context: Option<&mut Context<'_>>) -> Poll<Result<CommittedTransaction>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.clone()));
        }
        loop {
            let record = match self.follower.try_next() {
                Ok(record) => record,
                Err(wal::Error::Read(ReadError::Trimmed { start, .. })) => {
                    return Poll::Ready(Err(Error::ChangesGap { at: self.stamp, log_start: start }));
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            if let Some(record) = record {
                match self.assembler.take(&record, self.stamp) {
                    Ok(Step::Committed(transaction)) => {
                        self.stamp = transaction.stamp;
                        return Poll::Ready(Ok(transaction));
                    }
                    Ok(Step::Nothing) => continue,
                    // A position that this feed returns later may lie above the first record of
                    // this transaction. A feed that begins at that position reads the commit again
                    // without some of the transaction's records, and must know by the stamp that
                    // the commit lies before the position.
                    Ok(Step::Empty(stamp)) => {
                        self.stamp = stamp;
                        continue;
                    }
                    Ok(Step::CutOff(stamp)) if stamp <= self.stamp => continue,
                    Ok(Step::CutOff(_)) => {
                        // Only a position that no feed has returned can lead here.
                        let error = Error::ChangesGap { at: self.stamp, log_start: record.first };
                        return Poll::Ready(Err(self.failed.insert(error).clone()));
                    }
                    Err(error) => return Poll::Ready(Err(self.failed.insert(error).clone())),
                }
            }
            let Some(context) = &mut context else { return Poll::Pending };
            match self.follower.poll_more(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn position(&self) -> ChangePosition {
        let at = self.follower.position();
        let from = self.assembler.oldest().map_or(at, |first| first.min(at));
        ChangePosition { stamp: self.stamp, from: vec![from] }
    }
}

#[cfg(test)]
mod tests {
    use super::assemble::OPEN_BYTES_MAX;
    use crate::changes::ChangesFrom;
    use crate::database::Database;
    use crate::error::Error;
    use crate::transaction::Transaction;

    #[test]
    fn a_feed_that_could_not_take_a_change_returns_no_transaction_without_it() {
        let database = Database::in_memory().expect("open");
        let table = database.table("t").expect("a table");
        let mut feed = database.changes(&ChangesFrom::Now).expect("a feed");
        let rows = OPEN_BYTES_MAX as u64 / 100;
        database.put(&table, "small", "1").expect("put");
        assert!(feed.try_next().expect("it fits").is_some());
        let before = feed.position();
        let large =
            |txn: &Transaction| (0..rows).try_for_each(|row| txn.put(&table, row.to_be_bytes(), [8; 100]));
        database.transact(large).expect("commit");
        database.put(&table, "small", "2").expect("put");
        // A call for each record of the large transaction, and more.
        for _ in 0..rows + 9 {
            let outcome = feed.try_next();
            assert!(matches!(outcome, Err(Error::ChangesTooLarge { .. })), "{outcome:?}");
        }
        assert_eq!(feed.position().stamp, before.stamp);
    }
}
