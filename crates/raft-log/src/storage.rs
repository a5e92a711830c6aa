//! openraft's log storage, implemented by the Raft log.
//!
//! Any task may call the storage. Truncating blocks the calling task for a sync. Purging is a
//! future that waits for a sync, and then blocks for a write of the control file. Reading blocks
//! for the device if entries are not in memory. Appending blocks only for room in the log buffer,
//! or until a segment is prepared. Saving a vote is a future that waits for the sync.

use crate::log::RaftLog;
use crate::pieces::{PIECE_BYTES, Pieces};
use futures_util::Stream;
use openraft::alias::{LogIdOf, VoteOf};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader, RaftTypeConfig};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

/// Returns the number of the first entry of a range, and the number after its last entry.
fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(number) => *number,
        Bound::Excluded(number) => number.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(number) => number.saturating_add(1),
        Bound::Excluded(number) => *number,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

impl<C: RaftTypeConfig> RaftLogReader<C> for RaftLog<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<C::Entry>, io::Error> {
        let (from, to) = bounds(&range);
        Ok(self.entries(from, to, usize::MAX)?)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<C::Entry>, io::Error> {
        Ok(self.entries(start, end, PIECE_BYTES)?)
    }

    /// Reads a piece of the entries whenever the caller has taken all entries before the piece.
    /// openraft applies entries from this stream. The committed index may grow by any number of
    /// entries at once, so reading all of them first could exhaust the memory.
    async fn entries_stream<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<C::Entry, io::Error>> + OptionalSend {
        let (from, to) = bounds(&range);
        futures_util::stream::iter(Pieces::new(self.clone(), from, to))
    }

    async fn read_vote(&mut self) -> Result<Option<VoteOf<C>>, io::Error> {
        Ok(self.vote())
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for RaftLog<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, io::Error> {
        let (purged, last) = self.ends();
        Ok(LogState { last_log_id: last.or_else(|| purged.clone()), last_purged_log_id: purged })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> Result<(), io::Error> {
        let end = self.change_state(|state| state.vote = Some(vote.clone()))?;
        self.durable(end).await
    }

    /// The committed log id becomes durable with the next vote or entry. If a crash loses it, a
    /// restarted node only applies fewer entries at first.
    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> Result<(), io::Error> {
        if self.committed() != committed {
            self.change_state(|state| state.committed = committed)?;
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogIdOf<C>>, io::Error> {
        Ok(self.committed())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let end = RaftLog::append(self, entries.into_iter())?;
        // Without new entries the callback waits for the records appended before.
        let end = end.unwrap_or_else(|| self.log().first().reserved());
        self.flusher().push(end, move |outcome| callback.io_completed(outcome));
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogIdOf<C>>) -> Result<(), io::Error> {
        let first = last_log_id.map_or(0, |last| last.index().saturating_add(1));
        Ok(self.truncate_from(first)?)
    }

    async fn purge(&mut self, log_id: LogIdOf<C>) -> Result<(), io::Error> {
        if let Some((end, position)) = RaftLog::purge(self, &log_id)? {
            self.durable(end).await?;
            self.trim(position)?;
        }
        Ok(())
    }
}
