//! Inspecting a log: reading it, whatever its state, without changing it.
//!
//! One thread runs an inspection, and opens files for reading only. `stream.rs` inspects one
//! stream. A log that cannot be opened can still be inspected.

mod stream;

pub use crate::recover::inspected::{SegmentReport, SegmentState};
pub use stream::StreamInspection;
pub(crate) use stream::inspect_stream;

use crate::error::OpenError;
use crate::head::Head;
use crate::reader::{Reader, Record, RecordFilter};
use crate::recover::IncarnationHistory;
use crate::replay::ReplayError;
use crate::streams::control::{CreationState, StreamsState};
use crate::streams::folders;
use crate::streams::opening::of_stream;
use katydid_device::Directory;
use katydid_device::Id;
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::stamp::CommitStamp;
use std::collections::VecDeque;
use std::convert::Infallible;

/// Contents of a log's directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The log's id.
    pub id: Id,
    /// True if all streams were made. If false, nothing was ever appended, and `streams` is empty
    /// if any stream is missing.
    pub is_complete: bool,
    /// The streams, by their numbers.
    pub streams: Vec<StreamInspection>,
}

/// The decision that the next opening of the log makes about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Recovery replays the record.
    Kept,
    /// Recovery drops the record, because this position, on which the record depends, did not
    /// survive.
    Dropped(StreamLsn),
}

/// A stamped record of some stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamRecord {
    /// The stream.
    pub stream: StreamId,
    /// The record. Its payload is the one that was appended, without the dependencies.
    pub record: Record,
    /// The transaction's place in the order of commits.
    pub stamp: CommitStamp,
    /// Dependencies that were not durable when the record was appended.
    pub depends: Dependencies,
    /// The decision that the next opening of the log makes about the record.
    pub survival: Survival,
}

impl Inspection {
    /// Returns the first stream, which is the only one of most logs. `None` if `is_complete` is
    /// false and a stream is missing.
    pub fn first(&self) -> Option<&StreamInspection> {
        self.streams.first()
    }

    /// Returns all valid records of users. The records of one stream come in the order of the
    /// stream; among the next records of all streams, the one with the least stamp comes first. An
    /// error ends the records of its stream, and the records of the other streams follow. `from` is
    /// the same as for [`Log::replay`](crate::Log::replay). Without `from`, records are read from
    /// the start of each stream. A crash during a trim may leave some streams trimmed and others
    /// not. Without `from`, [`Survival`] may then be wrong for records below the positions to which
    /// the log was being trimmed; the next replay does not read these records. A record without a
    /// stamp is an error; [`StreamInspection::records`] also reads records without stamps.
    ///
    /// # Errors
    /// If a position is outside its stream.
    ///
    /// # Panics
    /// If `from` does not have a position for each stream.
    pub fn records(&self, from: Option<&[Lsn]>) -> Result<Records, ReplayError<Infallible>> {
        assert!(from.is_none_or(|from| from.len() == self.streams.len()), "a position for each stream");
        let mut heads = Vec::with_capacity(self.streams.len());
        for (index, found) in self.streams.iter().enumerate() {
            let stream = StreamId::new(index as u16);
            let from = from.map_or(found.start, |from| from[index]);
            let reader = found.reader(from, RecordFilter::Users);
            let reader = reader.map_err(|source| ReplayError::Read { stream, source })?;
            heads.push(Next { stream, reader, record: None });
        }
        let incarnations = self.streams.iter().map(|found| found.incarnations.clone()).collect();
        let mut records = Records { incarnations, heads, errors: VecDeque::new() };
        (0..records.heads.len()).for_each(|index| records.advance(index));
        Ok(records)
    }
}

/// See [`Inspection::records`].
#[derive(Debug)]
pub struct Records {
    incarnations: Box<[IncarnationHistory]>,
    heads: Vec<Next>,
    errors: VecDeque<ReplayError<Infallible>>,
}

/// A stream's next record.
#[derive(Debug)]
struct Next {
    stream: StreamId,
    reader: Reader,
    record: Option<StreamRecord>,
}

impl Records {
    fn advance(&mut self, index: usize) {
        let streams = self.heads.len();
        let Next { stream, reader, record } = &mut self.heads[index];
        let stream = *stream;
        *record = None;
        let read = match reader.next() {
            None => return,
            Some(Ok(read)) => read,
            Some(Err(source)) => return self.errors.push_back(ReplayError::Read { stream, source }),
        };
        match Head::decode(read.chain, &read.payload, streams) {
            Ok(head) => {
                let depends = head.dependencies();
                let survival = head.lost(&self.incarnations).map_or(Survival::Kept, Survival::Dropped);
                let (stamp, payload) = (head.stamp, head.payload.to_vec());
                let found = Record { payload, ..read };
                *record = Some(StreamRecord { stream, record: found, stamp, depends, survival });
            }
            Err(reason) => {
                let source = reader.damaged(read.lsn, reason);
                self.errors.push_back(ReplayError::Read { stream, source })
            }
        }
    }
}

impl Iterator for Records {
    type Item = Result<StreamRecord, ReplayError<Infallible>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.errors.pop_front() {
            return Some(Err(error));
        }
        let heads = self.heads.iter().enumerate();
        let stamps = heads.filter_map(|(index, next)| Some((next.record.as_ref()?.stamp, index)));
        let (_, index) = stamps.min()?;
        let record = self.heads[index].record.take();
        self.advance(index);
        record.map(Ok)
    }
}

/// Reads the log in a directory and changes nothing there.
///
/// # Errors
/// If the streams of the log cannot all be found and read: no undamaged file names them, or a
/// stream is missing from a log that was made completely, belongs to another log, or cannot be
/// read. All other faults of a stream are in its [`StreamInspection`].
pub fn inspect(directory: &dyn Directory) -> Result<Inspection, OpenError> {
    let Some(state) = StreamsState::read(directory)? else {
        if !folders::has_only_stream(directory)? {
            folders::refuse_any(directory, 1)?;
        }
        let stream = inspect_stream(directory)?;
        return Ok(Inspection { id: stream.log_id, is_complete: true, streams: vec![stream] });
    };
    let is_complete = state.making == CreationState::Done;
    let folders = match folders::existing(directory, &state) {
        Err(OpenError::MissingStream { .. }) if !is_complete => Vec::new(),
        folders => folders?,
    };
    let look = |(index, folder): (usize, &std::sync::Arc<dyn Directory>)| {
        inspect_stream(folder.as_ref()).map_err(|error| of_stream(index, error))
    };
    let streams = folders.iter().enumerate().map(look).collect::<Result<_, _>>()?;
    Ok(Inspection { id: state.id, is_complete, streams })
}
