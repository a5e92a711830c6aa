//! Reading the log's records in order, or one by its LSN.
//!
//! Any thread may read; each reader belongs to one thread. Readers and writing threads share only
//! the start of the log, the written frontier, and the list of truncated ranges. So readers see
//! records that were written, never records that are only in memory. Rules:
//!
//! 1. Between the start and the written frontier there are only records, without gaps. Bytes there
//!    that are no valid record are damage: the reader returns an error that names their file and
//!    position, and never takes the damage for the end.
//! 2. Segments may be recycled while they are read. Before a reader reports damage, it therefore
//!    compares the position with the start once more.
//! 3. A reader takes the memory of one window and one logical record (at most 64 MiB), whatever the
//!    log contains. If a record is in fragments, the reader passes over them up to the last one.
//!    Then it reads the earlier ones backwards, each by the link in the next one.

use crate::error::ReadError;
use crate::recover::scan::follows;
use crate::segment::ahead::ReadAhead;
use crate::segment::window::Window;
use crate::segment::{Extent, Source};
use crate::truncated::{Skip, Truncations};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{
    self, Chain, HEADER_BYTES, Header, Invalid, Kind, Layout, Link, PHYSICAL_BYTES_MAX, Part,
};
use std::fmt::Debug;
use std::sync::Arc;

/// The part of a log below the end of a record.
#[derive(Debug)]
pub(crate) struct PrefixExtent {
    pub extent: Arc<dyn Extent>,
    pub end: Lsn,
}

impl Extent for PrefixExtent {
    fn start(&self) -> Lsn {
        self.extent.start()
    }

    fn written(&self) -> Lsn {
        self.end.min(self.extent.written())
    }

    fn truncations(&self) -> Option<Arc<Truncations>> {
        self.extent.truncations()
    }
}

/// The extent of a log that does not grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FixedExtent {
    pub start: Lsn,
    pub end: Lsn,
}

impl Extent for FixedExtent {
    fn start(&self) -> Lsn {
        self.start
    }

    fn written(&self) -> Lsn {
        self.end
    }
}

/// A logical record that owns its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The LSN that identifies the record: the start of its last fragment, or of the record if it
    /// has no fragments.
    pub lsn: Lsn,
    /// Start of the record's first fragment; equal to `lsn` for records without fragments. A trim
    /// up to this position keeps the record.
    pub first: Lsn,
    /// Exclusive end of the record, which is durable when the durable frontier has reached this
    /// position.
    pub end: Lsn,
    /// Kind of the record.
    pub kind: Kind,
    /// The transaction, as given when the record was appended.
    pub txn: u64,
    /// The transaction's previous record, or its commit stamp and number of dependencies, as given
    /// when the record was appended.
    pub chain: Chain,
    /// The body: 16 bytes for each dependency that `chain` counts, then the payload as it was
    /// appended.
    pub payload: Vec<u8>,
}

/// A logical record whose payload is borrowed from the reader. See [`Record`] for the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The LSN that identifies the record.
    pub lsn: Lsn,
    /// Start of the record's first fragment.
    pub first: Lsn,
    /// Exclusive end of the record.
    pub end: Lsn,
    /// Kind of the record.
    pub kind: Kind,
    /// The transaction, as given when the record was appended.
    pub txn: u64,
    /// The transaction's previous record, or its commit stamp and number of dependencies, as given
    /// when the record was appended.
    pub chain: Chain,
    /// The body: 16 bytes for each dependency that `chain` counts, then the payload as it was
    /// appended.
    pub payload: &'a [u8],
}

impl<'a> RecordRef<'a> {
    fn new(header: &Header, first: Lsn, payload: &'a [u8]) -> Self {
        let Header { lsn, kind, txn, chain, .. } = *header;
        RecordRef { lsn, first, end: header.end(), kind, txn, chain, payload }
    }

    /// Returns a copy that owns its payload.
    pub fn to_record(&self) -> Record {
        let RecordRef { lsn, first, end, kind, txn, chain, payload } = *self;
        Record { lsn, first, end, kind, txn, chain, payload: payload.to_vec() }
    }
}

/// The records that a reader returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordFilter {
    /// Records that users appended.
    Users,
    /// Records that users appended, and records that the log appends for itself.
    All,
}

/// A reader of records in the order of their LSNs.
///
/// Use it as an iterator, or call [`Reader::next_record`], which copies no payload. At the end of
/// the written log the reader returns `None`; a later call continues with records written since.
/// After an error the iterator returns nothing more.
#[derive(Debug)]
pub struct Reader {
    source: Arc<dyn Source>,
    extent: Arc<dyn Extent>,
    filter: RecordFilter,
    window: Window,
    /// Start of the next physical record.
    at: Lsn,
    /// Incarnation of the record before `at`, which is the number of the opening that wrote it;
    /// `None` before the first record and after a truncated part.
    incarnation: Option<u32>,
    /// The payload of a record that came in fragments.
    joined: Vec<u8>,
    failed: bool,
    /// The truncations whose records the reader passes over, with the help of `skip`.
    truncations: Option<Arc<Truncations>>,
    skip: Skip,
}

impl Reader {
    /// Makes a reader of the records from `from` on. `from` is the start of a record, or the end of
    /// the last record.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        extent: Arc<dyn Extent>,
        from: Lsn,
        filter: RecordFilter,
    ) -> Result<Self, ReadError> {
        check_inside(extent.as_ref(), from)?;
        let window = Window::new();
        let joined = Vec::new();
        let (truncations, skip) = (extent.truncations(), Skip::new());
        let (at, incarnation, failed) = (from, None, false);
        Ok(Reader { source, extent, filter, window, at, incarnation, joined, failed, truncations, skip })
    }

    /// Makes the reader read ahead everything written so far, on threads that end with the reader.
    /// Useful for a caller that reads a large part of the log.
    #[must_use]
    pub fn read_ahead(mut self) -> Self {
        // Records of any other layout are in memory, where reading ahead gains nothing.
        if self.source.layout() == Layout::InLine {
            self.source = Arc::new(ReadAhead::new(self.source, self.at, self.extent.written()));
        }
        self
    }

    /// Returns the error for a record that this reader has returned and its caller has found wrong:
    /// the checksum fits, but no log writes such a record.
    pub(crate) fn damaged(&self, at: Lsn, reason: &'static str) -> ReadError {
        damage(self.source.as_ref(), self.extent.as_ref(), at, reason)
    }

    /// Returns the position at which the reader looks for the next record.
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// Returns the incarnation of the record before [`Reader::position`]; `None` before the first
    /// record and after a truncated part.
    pub(crate) fn incarnation(&self) -> Option<u32> {
        self.incarnation
    }

    /// Returns the next record, or `None` at the end of the written log.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if the bytes are not a record, [`ReadError::Trimmed`] if the log was
    /// trimmed past the reader, [`ReadError::Device`] if the bytes cannot be read. The position
    /// stays, so the call can be repeated.
    pub fn next_record(&mut self) -> Result<Option<RecordRef<'_>>, ReadError> {
        loop {
            self.skip_truncated();
            let Some(header) = self.next_header()? else { return Ok(None) };
            let shown =
                header.kind.is_user() || (self.filter == RecordFilter::All && header.kind != Kind::PADDING);
            let first = match header.part {
                _ if !shown => None,
                Part::Whole => Some(header.lsn),
                Part::First | Part::Middle => None,
                Part::Last => self.join(&header)?,
            };
            self.at = header.end();
            self.incarnation = Some(header.incarnation);
            let Some(first) = first else { continue };
            let payload = match header.part {
                Part::Whole => &self.window.peek(header.lsn)[HEADER_BYTES..header.len as usize],
                _ => &self.joined[..],
            };
            return Ok(Some(RecordRef::new(&header, first, payload)));
        }
    }

    /// Moves the position over truncated records.
    #[inline]
    fn skip_truncated(&mut self) {
        let Some(truncations) = &self.truncations else { return };
        if let Some(to) = self.skip.over(truncations, self.at) {
            self.at = to;
            // The truncated records may include Restart records, so the incarnation at the new
            // position is unknown.
            self.incarnation = None;
        }
    }

    /// Returns the physical record at the position, and leaves the position as it is. The window
    /// holds all of that record afterwards.
    #[inline]
    fn next_header(&mut self) -> Result<Option<Header>, ReadError> {
        let (mut wanted, layout) = (HEADER_BYTES, self.source.layout());
        loop {
            // The bytes in the window had been written when they were read, so the frontier is read
            // only for further bytes.
            let bytes = self.window.peek(self.at);
            let reason = match record::decode(bytes, self.at, layout) {
                Ok(decoded) if self.incarnation.is_none_or(|last| follows(&decoded.header, last)) => {
                    return Ok(Some(decoded.header));
                }
                Ok(_) => "it is of another incarnation than the record before it",
                Err(Invalid::Short(needed)) => {
                    wanted = wanted.max(needed);
                    let written = self.extent.written();
                    if self.at >= written {
                        return Ok(None);
                    }
                    let had = bytes.len();
                    let source = self.source.as_ref();
                    let got = self.window.at(source, self.at, wanted, written)?.len();
                    if got > had || got >= wanted {
                        continue;
                    }
                    Invalid::Short(wanted).reason()
                }
                Err(invalid) => invalid.reason(),
            };
            return Err(damage(self.source.as_ref(), self.extent.as_ref(), self.at, reason));
        }
    }

    /// Collects the payload whose last fragment is at the position. Returns the start of the
    /// record; `None` if its beginning was trimmed.
    fn join(&mut self, last: &Header) -> Result<Option<Lsn>, ReadError> {
        let body = &self.window.peek(last.lsn)[HEADER_BYTES..last.len as usize];
        let mut joined = std::mem::take(&mut self.joined);
        let outcome = join(self.source.as_ref(), self.extent.as_ref(), last, body, &mut joined);
        self.joined = joined;
        match outcome {
            Err(ReadError::Trimmed { .. }) if last.lsn >= self.extent.start() => Ok(None),
            outcome => outcome.map(Some),
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.next_record() {
            Ok(record) => record.map(|record| Ok(record.to_record())),
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

/// Reads the record whose identity is `lsn`.
pub(crate) fn read_record(source: &dyn Source, extent: &dyn Extent, lsn: Lsn) -> Result<Record, ReadError> {
    check_inside(extent, lsn)?;
    if let Some(dropped) = extent.truncations().and_then(|truncations| truncations.dropping(lsn)) {
        return Err(ReadError::Truncated { at: lsn, from: dropped.from, to: dropped.to });
    }
    let mut bytes = Vec::new();
    let (header, body) = read_piece(source, extent, lsn, &mut bytes)?;
    let mut payload = Vec::new();
    let first = match header.part {
        _ if !header.kind.is_user() => {
            return Err(damage(source, extent, lsn, "it belongs to the log itself"));
        }
        Part::Whole => {
            payload.extend_from_slice(body);
            lsn
        }
        Part::Last => join(source, extent, &header, body, &mut payload)?,
        Part::First | Part::Middle => {
            return Err(damage(source, extent, lsn, "it is a fragment, and not the last one"));
        }
    };
    let Header { kind, txn, chain, .. } = header;
    Ok(Record { lsn, first, end: header.end(), kind, txn, chain, payload })
}

pub(crate) fn check_inside(extent: &dyn Extent, at: Lsn) -> Result<(), ReadError> {
    let (start, end) = (extent.start(), extent.written());
    if at < start {
        return Err(ReadError::Trimmed { at, start });
    }
    if at > end {
        return Err(ReadError::BeyondEnd { at, end });
    }
    Ok(())
}

/// Fails unless a physical record starts at `at`.
pub(crate) fn check_record(source: &dyn Source, extent: &dyn Extent, at: Lsn) -> Result<(), ReadError> {
    check_inside(extent, at)?;
    read_piece(source, extent, at, &mut Vec::new()).map(drop)
}

/// Returns the error for bytes that are no record although they should be (rule 2).
fn damage(source: &dyn Source, extent: &dyn Extent, at: Lsn, reason: &'static str) -> ReadError {
    let start = extent.start();
    if at < start {
        return ReadError::Trimmed { at, start };
    }
    ReadError::Corrupt { at, file: source.file_name(at), reason }
}

/// Reads one physical record into `bytes`.
fn read_piece<'b>(
    source: &dyn Source,
    extent: &dyn Extent,
    at: Lsn,
    bytes: &'b mut Vec<u8>,
) -> Result<(Header, &'b [u8]), ReadError> {
    let end = extent.written();
    if at >= end {
        return Err(ReadError::BeyondEnd { at, end });
    }
    let room = match source.layout() {
        Layout::InLine | Layout::InMemory => {
            usize::try_from(end.since(at)).unwrap_or(usize::MAX).min(PHYSICAL_BYTES_MAX)
        }
        Layout::Apart => PHYSICAL_BYTES_MAX,
    };
    bytes.resize(room, 0);
    let got = source.read(at, bytes)?;
    match record::decode(&bytes[..got], at, source.layout()) {
        Ok(decoded) => Ok((decoded.header, decoded.body)),
        Err(invalid) => Err(damage(source, extent, at, invalid.reason())),
    }
}

/// Collects a payload backwards from its last fragment. Returns the start of the first fragment.
pub(crate) fn join(
    source: &dyn Source,
    extent: &dyn Extent,
    last: &Header,
    body: &[u8],
    joined: &mut Vec<u8>,
) -> Result<Lsn, ReadError> {
    const MISFIT: &str = "its fragments do not fit together";
    let misfit = |at| damage(source, extent, at, MISFIT);
    let Some((mut link, piece)) = Link::decode(last.part, body) else { return Err(misfit(last.lsn)) };
    if last.chain.dependency_bytes() > link.total as usize {
        return Err(damage(source, extent, last.lsn, "it has fewer dependencies than it says"));
    }
    // The total is at most 64 MiB: the link's decoder has checked it.
    joined.clear();
    joined.resize(link.total as usize, 0);
    joined[link.offset as usize..].copy_from_slice(piece);
    let mut after = last.lsn;
    let mut bytes = Vec::new();
    loop {
        let at = link.previous;
        let start = extent.start();
        if at >= after {
            return Err(misfit(after));
        }
        if at < start {
            return Err(ReadError::Trimmed { at, start });
        }
        let (header, body) = read_piece(source, extent, at, &mut bytes)?;
        let of = |header: &Header| (header.incarnation, header.kind, header.txn, header.chain);
        let same = of(&header) == of(last);
        match Link::decode(header.part, body) {
            Some((before, piece))
                if same
                    && header.part != Part::Last
                    && before.total == link.total
                    && u64::from(before.offset) + piece.len() as u64 == link.offset.into() =>
            {
                joined[before.offset as usize..link.offset as usize].copy_from_slice(piece);
                if header.part == Part::First {
                    return Ok(at);
                }
                link = before;
                after = at;
            }
            _ => return Err(misfit(after)),
        }
    }
}
