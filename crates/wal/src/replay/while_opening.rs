//! Replaying while the log is opened: the walk over a stream deals a record out at once if that
//! stream alone shows that the record is kept. So most records are read only once.
//!
//! Such a record may be applied before the walk has found its stream to be sound, and before other
//! streams were read. This is correct because:
//!
//! 1. A record has effects in memory only. If any stream is refused, opening fails, and the caller
//!    discards these effects.
//! 2. The records that the walk has read are a prefix of the stream, and remain one. Their bytes
//!    were read after their file was synced and its cached bytes dropped, so these bytes are
//!    durable. The opening appends above these records, or fails.
//! 3. A record is dealt out in this pass only if the part of its stream below the record shows that
//!    the record is kept (`Head::is_kept_by`). All other records wait until all streams have been
//!    recovered. Then each stream is read once more from its first undecided record on. Each record
//!    that the first pass could not decide about is dealt out if it is kept, and counted as dropped
//!    if it is not.
//!
//! Each pass checks the checksums of the records that it deals out; the second pass does not trust
//! the first.

use super::deal::{Batch, Dealer, with_appliers};
use super::{PROGRESS_BYTES, ReplayError, ReplayReport, Replayed, Wanted, damaged, read_stream};
use crate::error::{OpenError, ReadError};
use crate::head::Head;
use crate::log::Log;
use crate::open_log::{GateOwner, Guards, OpenStream};
use crate::options::Options;
use crate::reader::{FixedExtent, check_inside, join};
use crate::recover::scan::RecordVisitor;
use crate::segment::Source;
use crate::streams::opening::{appliers, in_parallel, open_recovering};
use katydid_device::{Directory, Gate, Watch};
use katydid_kernels::dependencies::{StreamId, StreamLsn};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{Decoded, Part};
use std::sync::{Arc, Mutex, PoisonError};

/// Treatment of the records that an opening finds.
pub struct Replay<'a, E> {
    /// The positions from which on records are wanted: a cut, as [`Log::replay`] explains. `None`:
    /// from the start of each stream.
    pub from: Option<&'a [Lsn]>,
    /// Called with batches of the records that survived, each record once, by several threads at
    /// once and in any order. The effects of these calls must not count before the opening has
    /// succeeded.
    pub visit: &'a (dyn Fn(&Batch) -> Result<(), E> + Sync),
    /// Called now and then with the number of bytes that have been read, and the number of bytes to
    /// be read in all. The second number is an upper bound, because the end of a stream is not
    /// known before the walk reaches it.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl<E> std::fmt::Debug for Replay<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens a log like [`Log::open_behind`], and replays the records that it finds on the way. The
    /// opening succeeds even if the replay fails, so that the caller can distinguish a log that
    /// cannot be opened from a log whose records were refused.
    ///
    /// # Errors
    /// Those of [`Log::open`] and of [`Log::replay`].
    ///
    /// # Panics
    /// If `replay.from` does not have a position for each stream that the options ask for.
    #[doc(hidden)]
    pub fn open_replaying<E: Send>(
        directory: Arc<dyn Directory>,
        options: Options,
        gate: Gate,
        watch: Watch,
        replay: Replay<'_, E>,
    ) -> Result<(Log, Result<ReplayReport, ReplayError<E>>), OpenError> {
        let streams = options.streams;
        let is_whole = replay.from.is_none_or(|from| from.len() == usize::from(streams));
        assert!(is_whole, "a position for each stream");
        let count = appliers(options.background);
        let amount = Amount { progress: replay.progress, bytes: Mutex::default() };
        let (opened, refused) = with_appliers(count, replay.visit, |appliers| {
            let seen: Mutex<Vec<(StreamId, Outcome<E>)>> = Mutex::default();
            let one = |stream: StreamId, folder: &_, options: &_, gate: &_| {
                let from = replay.from.map(|from| from[stream.index()]);
                let mut look = Look::new(stream, streams, from, appliers.dealer(), &amount);
                let opened = open_recovering(stream, folder, options, gate, &mut look)?;
                let outcome = look.finish(&opened);
                seen.lock().unwrap_or_else(PoisonError::into_inner).push((stream, outcome));
                Ok(opened)
            };
            let guards = Guards { gate, owner: GateOwner::Opener, watch };
            let log = Self::open_guarded(directory, &options, guards, &one)?;
            let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
            let undecided: Vec<(StreamId, Lsn)> = seen
                .iter()
                .filter_map(|(stream, seen)| Some((*stream, seen.as_ref().ok()?.undecided?)))
                .collect();
            let second = |nth: usize| {
                let (stream, from) = undecided[nth];
                read_stream(
                    &log.streams()[stream.index()],
                    from,
                    Wanted::Undecided,
                    appliers.dealer(),
                    &|_| {},
                )
            };
            let decided = in_parallel(undecided.len(), options.background, second);
            let first = seen.into_iter().map(|(_, outcome)| outcome.map(|seen| seen.report));
            let all = first.chain(decided.into_iter().map(|(_, outcome)| outcome));
            let report = all.reduce(|sum, more| Ok(sum?.plus(more?)));
            Ok::<_, OpenError>((log, report.unwrap_or_else(|| Ok(ReplayReport::default()))))
        });
        let (log, report) = opened?;
        Ok((log, refused.map_or(report, |error| Err(ReplayError::Visit(error)))))
    }
}

/// Bytes of all streams together: the number that was read, and the number to be read in all.
struct Amount<'a> {
    progress: &'a (dyn Fn(u64, u64) + Sync),
    /// This is a leaf latch.
    bytes: Mutex<(u64, u64)>,
}

impl Amount<'_> {
    fn add(&self, read: u64, more: u64, less: u64) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes = (bytes.0 + read, bytes.1 + more - less);
        let (done, total) = *bytes;
        drop(bytes);
        (self.progress)(done, total);
    }
}

/// Findings of the first pass about one stream.
struct Seen {
    report: ReplayReport,
    /// The first record whose stream alone does not show that the record is kept.
    undecided: Option<Lsn>,
}

type Outcome<E> = Result<Seen, ReplayError<E>>;

/// The visitor of the walk over one stream. It deals out the records that this stream alone shows
/// to be kept.
struct Look<'a, E> {
    stream: StreamId,
    streams: usize,
    from: Option<Lsn>,
    dealer: Dealer<'a, E>,
    amount: &'a Amount<'a>,
    /// Start of the walk, and an upper bound of its end.
    span: FixedExtent,
    seen: Seen,
    /// False after a visit has failed.
    goes_on: bool,
    /// The first failure of this stream, after which no record of it is dealt out.
    failed: Option<ReplayError<E>>,
    /// The position up to which progress was reported. `None` until the walk has reached the record
    /// at `from`.
    reported: Option<Lsn>,
    /// The payload of a record in fragments.
    joined: Vec<u8>,
}

impl<'a, E> Look<'a, E> {
    fn new(
        stream: StreamId,
        streams: u16,
        from: Option<Lsn>,
        dealer: Dealer<'a, E>,
        amount: &'a Amount<'a>,
    ) -> Self {
        let seen = Seen { report: ReplayReport::default(), undecided: None };
        let span = FixedExtent { start: Lsn::ZERO, end: Lsn::ZERO };
        let (streams, joined, goes_on) = (streams.into(), Vec::new(), true);
        Look {
            stream,
            streams,
            from,
            dealer,
            amount,
            span,
            seen,
            goes_on,
            failed: None,
            reported: None,
            joined,
        }
    }

    fn from(&self) -> Lsn {
        self.from.unwrap_or(self.span.start)
    }

    /// Returns an upper bound of the bytes to be read.
    fn wanted(&self) -> u64 {
        self.span.end.get().saturating_sub(self.from().get())
    }

    /// Deals a record out if its stream alone shows that the record is kept. Returns whether to go
    /// on.
    fn deal(&mut self, source: &dyn Source, record: &Decoded<'_>) -> Result<bool, ReplayError<E>> {
        let (stream, header) = (self.stream, &record.header);
        let (first, payload) = match header.part {
            _ if !header.kind.is_user() => return Ok(true),
            Part::First | Part::Middle => return Ok(true),
            Part::Whole => (header.lsn, record.body),
            Part::Last => {
                let found = FixedExtent { start: self.span.start, end: header.end() };
                match join(source, &found, header, record.body, &mut self.joined) {
                    Ok(first) => (first, &self.joined[..]),
                    // The beginning of the record was trimmed.
                    Err(ReadError::Trimmed { .. }) => return Ok(true),
                    Err(source) => return Err(ReplayError::Read { stream, source }),
                }
            }
        };
        let head = Head::decode(header.chain, payload, self.streams)
            .map_err(|reason| ReplayError::Read { stream, source: damaged(source, header.lsn, reason) })?;
        let report = &mut self.seen.report;
        report.stamp_max = report.stamp_max.max(head.stamp);
        if !head.is_kept_by(stream, header.incarnation, header.lsn) {
            self.seen.undecided.get_or_insert(header.lsn);
            return Ok(true);
        }
        report.records += 1;
        Ok(self.dealer.add(&Replayed {
            stamp: head.stamp,
            kind: header.kind,
            position: StreamLsn { stream, end: header.end() },
            first,
            payload: head.payload,
        }))
    }

    /// Returns what the pass has found, after the stream was opened.
    fn finish(mut self, opened: &OpenStream) -> Outcome<E> {
        let (stream, from) = (self.stream, self.from());
        let found = FixedExtent { start: opened.core.medium.start(), end: opened.report.end };
        let behind = |from: Lsn| found.end.get().saturating_sub(from.get());
        self.amount.add(behind(self.reported.unwrap_or(from)), 0, self.wanted() - behind(from));
        check_inside(&found, from).map_err(|source| ReplayError::Read { stream, source })?;
        self.seen.report.bytes = found.end.since(from);
        self.dealer.flush();
        match self.failed {
            Some(error) => Err(error),
            None if self.reported.is_none() && from < found.end => {
                Err(no_record(stream, opened.core.medium.source().as_ref(), from))
            }
            None => Ok(self.seen),
        }
    }
}

impl<E> RecordVisitor for Look<'_, E> {
    fn begin(&mut self, start: Lsn, limit: Lsn) {
        self.span = FixedExtent { start, end: limit };
        self.amount.add(0, self.wanted(), 0);
    }

    #[inline]
    fn visit(&mut self, source: &dyn Source, record: &Decoded<'_>) {
        let at = record.header.lsn;
        if !self.goes_on || self.failed.is_some() || at < self.from() {
            return;
        }
        if self.reported.is_none() && at != self.from() {
            self.failed = Some(no_record(self.stream, source, self.from()));
            return;
        }
        let reported = *self.reported.get_or_insert(at);
        match self.deal(source, record) {
            Ok(goes_on) => self.goes_on = goes_on,
            Err(error) => self.failed = Some(error),
        }
        let end = record.header.end();
        if end.since(reported) >= PROGRESS_BYTES {
            self.amount.add(end.since(reported), 0, 0);
            self.reported = Some(end);
        }
    }
}

fn no_record<E>(stream: StreamId, source: &dyn Source, at: Lsn) -> ReplayError<E> {
    ReplayError::Read { stream, source: damaged(source, at, "no record begins there") }
}
