//! Replaying: reading the records that an opening found, all streams in parallel.
//!
//! One thread reads each stream, and reads ahead; at most as many streams are read at once as there
//! are processors. The caller's visitor runs on the reading threads and on appliers (`deal`).
//! Opening has walked over all streams, so the replay knows which records are kept before it reads
//! the first record. No record therefore waits for another stream, and memory is a few windows and
//! batches whatever the log contains. A caller may instead replay while the log is opened
//! (`while_opening`), which saves one reading of the log. Rules:
//!
//! 1. Only records from before this opening are read: they are durable, and never change.
//! 2. Every record is given to the visitor once, in any order, or is counted as dropped.

mod deal;
mod while_opening;

pub use deal::Batch;
pub use while_opening::Replay;

use crate::error::ReadError;
use crate::head::Head;
use crate::log::Log;
use crate::reader::RecordRef;
use crate::segment::Source;
use crate::stream::Stream;
use crate::streams::opening::{appliers, in_parallel};
use deal::{Dealer, with_appliers};
use katydid_kernels::dependencies::{StreamId, StreamLsn};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Kind;
use katydid_kernels::stamp::CommitStamp;

/// Bytes read between two reports of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

/// The wanted records of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// Records that opening could not decide about before it had walked over all streams.
    Undecided,
}

/// A record that survived together with everything it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed<'a> {
    /// The transaction's place in the order of commits.
    pub stamp: CommitStamp,
    /// Kind of the record.
    pub kind: Kind,
    /// End of the record.
    pub position: StreamLsn,
    /// Start of the record.
    pub first: Lsn,
    /// Payload of the record.
    pub payload: &'a [u8],
}

/// Counts of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Number of records that the visitor got.
    pub records: u64,
    /// Number of records that depend on a record that did not survive.
    pub dropped: u64,
    /// Number of bytes that were read from the streams.
    pub bytes: u64,
    /// The greatest stamp of any record, the dropped ones included; zero if there is none.
    pub stamp_max: CommitStamp,
}

impl ReplayReport {
    fn plus(self, other: ReplayReport) -> ReplayReport {
        ReplayReport {
            records: self.records + other.records,
            dropped: self.dropped + other.dropped,
            bytes: self.bytes + other.bytes,
            stamp_max: self.stamp_max.max(other.stamp_max),
        }
    }
}

/// The reason why a replay was not completed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError<E> {
    /// A stream could not be read, or starts above the wanted position.
    #[error("stream {stream}: {source}")]
    Read {
        /// The stream.
        stream: StreamId,
        /// The error of the stream.
        source: ReadError,
    },
    /// The visitor refused a record.
    #[error("{0}")]
    Visit(E),
}

impl Log {
    /// Calls `visit` with every record that this opening found at or above its stream's position in
    /// `from`, unless the record depends on a record that did not survive. Several threads call
    /// `visit` at once, in any order. Each thread calls `progress` every few MiB, with the bytes
    /// that it has read since its last call.
    ///
    /// If nothing was ever trimmed, `from` is the start of each stream. Otherwise `from` is a cut:
    /// positions that were all durable at some moment of one opening, and at or above the positions
    /// where that opening began. Dependencies below the cut count as survived.
    ///
    /// # Errors
    /// The first error that a thread met, after which the other threads stop. See [`ReplayError`].
    /// A record without a commit stamp is an error: read a log that has such records with
    /// [`Stream::reader`].
    ///
    /// # Panics
    /// If `from` does not have a position for each stream.
    pub fn replay<E: Send>(
        &self,
        from: &[Lsn],
        visit: &(dyn Fn(Replayed<'_>) -> Result<(), E> + Sync),
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<ReplayReport, ReplayError<E>> {
        assert_eq!(from.len(), self.streams().len(), "a position for each stream");
        let visit = |batch: &Batch| batch.iter().try_for_each(visit);
        let background = self.inside().background;
        let (outcomes, refused) = with_appliers(appliers(background), &visit, |appliers| {
            let read = |index: usize| {
                read_stream(&self.streams()[index], from[index], Wanted::All, appliers.dealer(), progress)
            };
            in_parallel(from.len(), background, read)
        });
        if let Some(error) = refused {
            return Err(ReplayError::Visit(error));
        }
        outcomes
            .into_iter()
            .try_fold(ReplayReport::default(), |sum, (_, outcome)| outcome.map(|report| sum.plus(report)))
    }
}

/// Returns the error for a position at which no record begins, or for a record that no log writes
/// although its checksum is right.
fn damaged(source: &dyn Source, at: Lsn, reason: &'static str) -> ReadError {
    ReadError::Corrupt { at, file: source.file_name(at), reason }
}

/// Deals out the records of one stream that its opening found at or above `from`.
fn read_stream<E>(
    of: &Stream,
    from: Lsn,
    which: Wanted,
    mut dealer: Dealer<'_, E>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<ReplayReport, ReplayError<E>> {
    let (stream, log) = (of.id(), of.log());
    let failed = |source| ReplayError::Read { stream, source };
    let mut reader = of.recovered(from).map_err(failed)?.read_ahead();
    let mut report = ReplayReport::default();
    let mut reported = from;
    let incarnations = &log.incarnations[stream.index()];
    while let Some(record) = reader.next_record().map_err(failed)? {
        let head = Head::decode(record.chain, record.payload, log.streams.len())
            .map_err(|reason| failed(damaged(of.core().medium.source().as_ref(), record.lsn, reason)))?;
        let position = StreamLsn { stream, end: record.end };
        let (RecordRef { kind, first, .. }, Head { stamp, payload, .. }) = (record, head);
        report.stamp_max = report.stamp_max.max(stamp);
        if which == Wanted::Undecided && head.is_kept_by(stream, incarnations.at(record.lsn), record.lsn) {
            // The first pass has dealt this record out.
        } else if head.lost(&log.incarnations).is_some() {
            report.dropped += 1;
        } else {
            report.records += 1;
            if !dealer.add(&Replayed { stamp, kind, position, first, payload }) {
                return Ok(report);
            }
        }
        if position.end.since(reported) >= PROGRESS_BYTES {
            progress(position.end.since(reported));
            reported = position.end;
        }
    }
    progress(reader.position().since(reported));
    if which == Wanted::All {
        report.bytes = reader.position().since(from);
    }
    dealer.flush();
    Ok(report)
}
