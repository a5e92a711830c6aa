//! Looking at a parallel log without changing anything.
//!
//! One thread. As `inspect` for one log: files are opened for reading only, and a log that cannot be opened can be looked at.

use super::control::{Making, StreamsState};
use super::folders;
use super::head::{Head, MalformedRecord};
use crate::error::{OpenError, ReadError};
use crate::inspect::{Inspection, inspect};
use crate::reader::{Reader, Record, Show};
use crate::recover::Eras;
use katydid_device::Directory;
use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::stamp::CommitStamp;
use std::collections::VecDeque;

/// What was found of a parallel log.
#[derive(Debug)]
#[non_exhaustive]
pub struct ParallelInspection {
    /// The log's id.
    pub id: u128,
    /// Whether all streams were made. If not, nothing was ever appended, and those that are missing are not in `streams`.
    pub is_complete: bool,
    /// The streams, by their numbers.
    pub streams: Vec<Inspection>,
}

/// What becomes of a record when the log is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// It is replayed.
    Kept,
    /// It is not: this place, on which it depends, did not survive.
    Dropped(StreamLsn),
}

/// A record of some stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParallelRecord {
    /// The stream.
    pub stream: StreamId,
    /// The record, whose payload is what was appended, without the dependencies.
    pub record: Record,
    /// The transaction's place in the order of commits.
    pub stamp: CommitStamp,
    /// What it depends on that was not durable when it was appended.
    pub depends: Dependencies,
    /// Whether it survives.
    pub survival: Survival,
}

/// A stream that could not be read further.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelReadError {
    /// It could not be read, or does not go back so far.
    #[error("stream {stream}: {source}")]
    Read {
        /// The stream.
        stream: StreamId,
        /// Why.
        source: ReadError,
    },
    /// A record is not one of a parallel log.
    #[error("stream {stream}, at {at}: {source}")]
    Malformed {
        /// The stream.
        stream: StreamId,
        /// The record.
        at: Lsn,
        /// Why.
        source: MalformedRecord,
    },
}

impl ParallelInspection {
    /// All valid records of users: those of one stream in its order, and of the next ones of all streams always the one with the least
    /// stamp. `from` is as for [`ParallelLog::replay`](super::ParallelLog::replay); without it, the start of each stream: then, if a
    /// crash has cut a trim short, records that a checkpoint has made needless may be told of wrongly.
    ///
    /// # Errors
    /// If a position is outside its stream.
    ///
    /// # Panics
    /// If `from` does not have a position for each stream.
    pub fn records(&self, from: Option<&[Lsn]>) -> Result<ParallelRecords<'_>, ParallelReadError> {
        assert!(from.is_none_or(|from| from.len() == self.streams.len()), "a position for each stream");
        let mut heads = Vec::with_capacity(self.streams.len());
        for (index, found) in self.streams.iter().enumerate() {
            let stream = StreamId::new(index as u16);
            let from = from.map_or(found.start, |from| from[index]);
            let reader = found.reader(from, Show::Users);
            let reader = reader.map_err(|source| ParallelReadError::Read { stream, source })?;
            heads.push(Next { stream, reader, record: None });
        }
        let eras = self.streams.iter().map(|found| found.eras.clone()).collect();
        let mut records = ParallelRecords { eras, heads, errors: VecDeque::new(), _found: self };
        (0..records.heads.len()).for_each(|index| records.advance(index));
        Ok(records)
    }
}

/// The records of an inspected parallel log. After an error, which ends one stream, those of the others follow.
#[derive(Debug)]
pub struct ParallelRecords<'a> {
    eras: Box<[Eras]>,
    heads: Vec<Next>,
    errors: VecDeque<ParallelReadError>,
    _found: &'a ParallelInspection,
}

/// A stream's next record.
#[derive(Debug)]
struct Next {
    stream: StreamId,
    reader: Reader,
    record: Option<ParallelRecord>,
}

impl ParallelRecords<'_> {
    fn advance(&mut self, index: usize) {
        let streams = self.heads.len();
        let Next { stream, reader, record } = &mut self.heads[index];
        let stream = *stream;
        *record = None;
        let read = match reader.next() {
            None => return,
            Some(Ok(read)) => read,
            Some(Err(source)) => return self.errors.push_back(ParallelReadError::Read { stream, source }),
        };
        match Head::decode(read.chain, &read.payload, streams) {
            Ok(head) => {
                let depends = head.dependencies();
                let survival = head.lost(&self.eras).map_or(Survival::Kept, Survival::Dropped);
                let (stamp, payload) = (head.stamp, head.payload.to_vec());
                let found = Record { payload, ..read };
                *record = Some(ParallelRecord { stream, record: found, stamp, depends, survival });
            }
            Err(source) => {
                self.errors.push_back(ParallelReadError::Malformed { stream, at: read.lsn, source })
            }
        }
    }
}

impl Iterator for ParallelRecords<'_> {
    type Item = Result<ParallelRecord, ParallelReadError>;

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

/// Looks at the parallel log in a directory and changes nothing.
///
/// # Errors
/// Where nothing can be said of the whole: there is no sound file that says which streams there are, or one of them is missing, foreign, or cannot
/// be looked at. What else is wrong with a stream is in its [`Inspection`].
pub fn inspect_parallel(directory: &dyn Directory) -> Result<ParallelInspection, OpenError> {
    let Some(state) = StreamsState::read(directory)? else {
        folders::refuse_any(directory, 1)?;
        let missing = katydid_device::Error::new(
            katydid_device::Verb::Open,
            super::control::STREAMS_NAME,
            katydid_device::Cause::NotFound,
        );
        return Err(missing.into());
    };
    let is_complete = state.making == Making::Done;
    let mut streams = Vec::with_capacity(state.streams.into());
    for (index, folder) in folders::existing(directory, &state)
        .or_else(|error| match error {
            OpenError::MissingStream { .. } if !is_complete => Ok(Vec::new()),
            error => Err(error),
        })?
        .into_iter()
        .enumerate()
    {
        let found = inspect(folder.as_ref());
        streams.push(found.map_err(|error| super::opening::of_stream(index, error))?);
    }
    Ok(ParallelInspection { id: state.id, is_complete, streams })
}
