//! Walking over the records from the start to their end, and searching beyond.
//!
//! One thread runs this code, which only reads. Rules of validity:
//!
//! 1. A record is valid at a position if it carries that position, its checksum matches, and its
//!    incarnation (the number of the opening that wrote it) is that of the record before it. A
//!    Restart record may also have a larger incarnation.
//! 2. The record at the start has the incarnation that the control file names. A Restart record at
//!    the start may have a larger one.
//! 3. The walk ends at the first position without a valid record. A record beyond that position
//!    counts, with the durable frontier that it stores, if its incarnation is at least that of the
//!    last valid record. Such a record was written by the last opening that used this part of the
//!    log. Records of smaller incarnations were cut off by an earlier opening, and are ignored.

use super::decide::StopFound;
use super::incarnations::IncarnationHistory;
use crate::segment::Source;
use crate::segment::window::Window;
use crate::truncated::{Range, Ranges};
use katydid_device as device;
use katydid_kernels::checksum::read_u64;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{self, Decoded, Header, Invalid, Kind, Layout, RECORD_ALIGNMENT};

/// Result of the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    /// First position without a valid record.
    pub end: Lsn,
    /// Contents found at `end`.
    pub stop: StopFound,
    /// Incarnation of the last valid record.
    pub incarnation: u32,
    /// Largest durable frontier that a valid record stores.
    pub durable: Lsn,
    /// True if the last valid record is the one that closing the log writes.
    pub closed: bool,
    /// Number of valid records.
    pub records: u64,
    /// Incarnations that wrote the log, each with its range.
    pub incarnations: IncarnationHistory,
    /// The ranges whose records were truncated.
    pub truncated: Ranges,
}

/// Result of the search beyond the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Search {
    /// Number of valid records.
    pub records: u64,
    /// Largest durable frontier that one of these records stores.
    pub durable: Lsn,
    /// Largest incarnation of any of these records.
    pub incarnation: u32,
}

/// Returns whether the record may follow a record of this incarnation (rule 1).
pub(crate) fn follows(header: &Header, incarnation: u32) -> bool {
    header.incarnation == incarnation || header.kind == Kind::RESTART && header.incarnation > incarnation
}

/// Sees the valid records of a log during the walk. The results of a visitor do not count if the
/// log is refused in the end.
pub(crate) trait RecordVisitor {
    /// Called when the walk begins at `start`. The walk ends at `limit` or before.
    fn begin(&mut self, start: Lsn, limit: Lsn);

    /// Called with the next record. `source` has everything from the start to the end of the
    /// record.
    fn visit(&mut self, source: &dyn Source, record: &Decoded<'_>);

    /// Returns whether the visitor ignores all records.
    fn ignores_records(&self) -> bool {
        false
    }
}

/// Shows a visitor the records that were not dropped.
pub(crate) struct LivingRecords<'a> {
    pub visitor: &'a mut dyn RecordVisitor,
    pub truncated: Ranges,
}

impl RecordVisitor for LivingRecords<'_> {
    fn begin(&mut self, start: Lsn, limit: Lsn) {
        self.visitor.begin(start, limit);
    }

    fn visit(&mut self, source: &dyn Source, record: &Decoded<'_>) {
        if !self.truncated.drops(record.header.lsn) {
            self.visitor.visit(source, record);
        }
    }
}

/// A visitor that ignores all records.
pub(crate) struct NoVisitor;

impl RecordVisitor for NoVisitor {
    fn begin(&mut self, _: Lsn, _: Lsn) {}

    fn visit(&mut self, _: &dyn Source, _: &Decoded<'_>) {}

    fn ignores_records(&self) -> bool {
        true
    }
}

/// Walks the valid records from `start` on.
pub(crate) fn walk(
    source: &dyn Source,
    window: &mut Window,
    start: Lsn,
    start_incarnation: u32,
    visitor: &mut dyn RecordVisitor,
) -> device::Result<Walk> {
    let limit = source.prepared_end();
    visitor.begin(start, limit);
    let mut walk = Walk {
        end: start,
        stop: StopFound::SegmentsEnd,
        incarnation: start_incarnation,
        durable: Lsn::ZERO,
        closed: false,
        records: 0,
        incarnations: IncarnationHistory::new(start, start_incarnation),
        truncated: Ranges::default(),
    };
    let mut wanted = record::HEADER_BYTES;
    loop {
        let bytes = window.at(source, walk.end, wanted, limit)?;
        match record::decode(bytes, walk.end, source.layout()) {
            Ok(decoded) if follows(&decoded.header, walk.incarnation) && Range::of(&decoded).is_ok() => {
                let header = decoded.header;
                if let Ok(Some(range)) = Range::of(&decoded) {
                    walk.truncated.add(range);
                }
                if header.incarnation != walk.incarnation {
                    walk.incarnation = header.incarnation;
                    walk.incarnations.begin(header.incarnation, header.lsn);
                }
                walk.durable = walk.durable.max(header.durable);
                walk.closed = header.kind == Kind::MARK;
                walk.records += 1;
                walk.end = header.end();
                wanted = record::HEADER_BYTES;
                visitor.visit(source, &decoded);
            }
            Err(Invalid::Short(needed)) if bytes.len() >= wanted && needed > wanted => wanted = needed,
            outcome => {
                walk.stop = match outcome {
                    Ok(decoded) if decoded.header.incarnation < walk.incarnation => StopFound::Blank,
                    Ok(_) | Err(Invalid::Length | Invalid::Sum | Invalid::Field) => StopFound::Broken,
                    Err(Invalid::Position) => StopFound::Blank,
                    Err(Invalid::Short(_)) if bytes.is_empty() => StopFound::SegmentsEnd,
                    Err(Invalid::Short(_)) if bytes.len() >= 16 && read_u64(bytes, 8) == walk.end.get() => {
                        StopFound::Broken
                    }
                    Err(Invalid::Short(_)) => StopFound::Blank,
                };
                walk.incarnations.close(walk.end);
                return Ok(walk);
            }
        }
    }
}

/// Searches every position from `from` to the end of the segments for valid records of
/// `incarnation` or later.
pub(crate) fn search(
    source: &dyn Source,
    window: &mut Window,
    from: Lsn,
    incarnation: u32,
) -> device::Result<Search> {
    let mut found = Search::default();
    let mut at = from;
    while let Some(header) = next_valid(source, window, at, |header| header.incarnation >= incarnation)? {
        found.records += 1;
        found.durable = found.durable.max(header.durable);
        found.incarnation = found.incarnation.max(header.incarnation);
        at = header.end();
    }
    Ok(found)
}

/// Returns the first valid record from `from` on for which `counts` is true.
pub(crate) fn next_valid(
    source: &dyn Source,
    window: &mut Window,
    from: Lsn,
    counts: impl Fn(&Header) -> bool,
) -> device::Result<Option<Header>> {
    let limit = source.prepared_end();
    let mut at = from;
    while at < limit {
        let bytes = window.at(source, at, record::HEADER_BYTES, limit)?;
        let skipped = match source.layout() {
            Layout::InLine | Layout::InMemory => steps_to_candidate(bytes, at) * RECORD_ALIGNMENT as u64,
            Layout::Apart => 0,
        };
        at = at.plus(skipped);
        let bytes = &bytes[(skipped as usize).min(bytes.len())..];
        let bytes = match record::decode(bytes, at, source.layout()) {
            Err(Invalid::Short(needed)) => window.at(source, at, needed, limit)?,
            _ => bytes,
        };
        match record::decode(bytes, at, source.layout()) {
            Ok(decoded) if counts(&decoded.header) => return Ok(Some(decoded.header)),
            Err(Invalid::Short(_)) if bytes.len() < record::HEADER_BYTES => break,
            _ => at = at.plus(RECORD_ALIGNMENT as u64),
        }
    }
    Ok(None)
}

/// Returns the number of steps of 8 bytes to the next possible start of a record: a place where a
/// header would store the right position, or where too few bytes are left to decide.
fn steps_to_candidate(bytes: &[u8], at: Lsn) -> u64 {
    let mut steps = 0;
    let positions = bytes.get(RECORD_ALIGNMENT..).unwrap_or_default();
    for word in positions.as_chunks::<RECORD_ALIGNMENT>().0 {
        if u64::from_le_bytes(*word) == at.get() + steps * RECORD_ALIGNMENT as u64 {
            break;
        }
        steps += 1;
    }
    steps
}
