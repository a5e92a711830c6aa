//! Stretches of a log's bytes: reading stretches from an open log, and making a log from a copy and
//! the stretches that follow the copy.
//!
//! Any thread may call this code. An archive keeps the bytes of a stream as they are, from one
//! position to the next, in files of its own format. No code of this file writes to an open log.
//! Invariants:
//!
//! 1. A stretch has only whole and durable physical records. The log therefore has all archived
//!    bytes after every crash, and no later opening writes other bytes in their place.
//! 2. Each record of a stretch is decoded, and its checksum verified, before the stretch is
//!    returned.
//! 3. A stretch whose segment was recycled during the read is not returned. After the reading
//!    thread has read the bytes, it reads the start of the log; if the start lies above the first
//!    position of the stretch, the thread returns an error.
//! 4. A log made of a copy and stretches ends at a cut: at the end of a record in each stream,
//!    where a crash of the source could have left the streams.
//!
//! Reading a stretch writes nothing. A crash while a log is made leaves an incomplete copy
//! (`copy`). The caller retains the log with a pin or a named consumer.

use crate::copy::{CopyTarget, Part, copy_streams, folders_of, unopened};
use crate::error::{Error, OpenError, ReadError, Result};
use crate::follow::Durable;
use crate::reader::{FixedExtent, Reader, RecordFilter, RecordRef};
use crate::segment::{Extent, Source};
use crate::stream::Stream;
use katydid_device::{self as device, Directory};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{self, Chain, HEADER_BYTES, Invalid, Layout, PHYSICAL_BYTES_MAX};
use katydid_kernels::stamp::CommitStamp;
use std::fmt::Debug;
use std::sync::Arc;

/// The bytes of a stream between two positions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stretch {
    /// The first position.
    pub from: Lsn,
    /// The exclusive end position.
    pub to: Lsn,
    /// Position and checksum of the last physical record in the stretch.
    pub last: RecordMark,
    /// The greatest commit stamp of a record in the stretch; zero if no record has a stamp.
    pub stamp_max: CommitStamp,
    /// The bytes of the log from `from` to `to`.
    pub bytes: Vec<u8>,
}

/// Position and checksum of a physical record, which distinguish two histories of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// Start of the record.
    pub lsn: Lsn,
    /// Checksum of the record, which covers its incarnation and its payload, but not its position.
    pub sum: u32,
}

impl RecordMark {
    /// Returns the mark of the record at `lsn`, whose header is the beginning of `bytes`.
    fn of(bytes: &[u8], lsn: Lsn) -> Option<RecordMark> {
        let sum = bytes.get(4..8)?.try_into().ok()?;
        Some(RecordMark { lsn, sum: u32::from_le_bytes(sum) })
    }
}

impl Stream {
    /// Reads the durable records from `from` on as bytes: about `bytes_max` bytes, but at least one
    /// record if any is durable there. `from` is the start of the log, or the end of a stretch.
    /// Returns `None` if no more records are durable.
    ///
    /// # Errors
    /// [`Error::Read`] with [`ReadError::Trimmed`] if the log starts above `from`, with
    /// [`ReadError::BeyondEnd`] if the log ends below `from`, and with [`ReadError::Corrupt`] if a
    /// record is damaged; [`Error::NotInFiles`] if the log is in NVRAM; [`Error::Device`] if the
    /// device fails.
    pub fn stretch(&self, from: Lsn, bytes_max: usize) -> Result<Option<Stretch>> {
        self.stretch_until(from, Lsn::LIMIT, bytes_max)
    }

    /// Reads the durable records between `from` and `until` as bytes: about `bytes_max` bytes, but
    /// at least one record if any is durable there. `until` is the end of a record, or beyond the
    /// end of the log. See [`Stream::stretch`].
    ///
    /// # Errors
    /// Those of [`Stream::stretch`].
    pub fn stretch_until(&self, from: Lsn, until: Lsn, bytes_max: usize) -> Result<Option<Stretch>> {
        let medium = &self.core().medium;
        if medium.geometry().is_none() {
            return Err(Error::NotInFiles { kind: medium.kind() });
        }
        self.core().look();
        let (durable, start) = (Durable(self.shared_core()).written(), self.start());
        if from < start {
            return Err(ReadError::Trimmed { at: from, start }.into());
        }
        if from > durable {
            return Err(ReadError::BeyondEnd { at: from, end: durable }.into());
        }
        let source = medium.source();
        let most = bytes_max.max(PHYSICAL_BYTES_MAX);
        let wanted = usize::try_from(durable.min(until).since(from)).map_or(most, |left| left.min(most));
        let mut bytes = vec![0; wanted];
        let got = source.read(from, &mut bytes)?;
        bytes.truncate(got);
        let whole = whole_records(&bytes, from, source.layout());
        // If the log now starts above `from`, a segment may have been recycled while it was read
        // (invariant 3).
        let start = self.start();
        if from < start {
            return Err(ReadError::Trimmed { at: from, start }.into());
        }
        let corrupt = |at: Lsn, reason| ReadError::Corrupt { at, file: source.file_name(at), reason };
        let WholeRecords { end, last, stamp_max } =
            whole.map_err(|(at, invalid)| corrupt(at, invalid.reason()))?;
        let Some(last) = last else {
            return match wanted {
                0 => Ok(None),
                _ => Err(corrupt(from, Invalid::Short(wanted).reason()).into()),
            };
        };
        bytes.truncate(end);
        Ok(Some(Stretch { from, to: from.plus(end as u64), last, stamp_max, bytes }))
    }

    /// Returns whether the log has this record at its position; false if the log ends below that
    /// position.
    ///
    /// # Errors
    /// [`Error::Read`] with [`ReadError::Trimmed`] if the log starts above the record;
    /// [`Error::Device`] if the device fails.
    pub fn has_record(&self, mark: RecordMark) -> Result<bool> {
        self.core().look();
        let durable = Durable(self.shared_core()).written();
        let mut head = [0; HEADER_BYTES];
        let got = match mark.lsn < durable {
            true => self.core().medium.source().read(mark.lsn, &mut head)?,
            false => 0,
        };
        let start = self.start();
        if mark.lsn < start {
            return Err(ReadError::Trimmed { at: mark.lsn, start }.into());
        }
        let is_there = got == HEADER_BYTES && head[8..16] == mark.lsn.get().to_le_bytes();
        Ok(is_there && RecordMark::of(&head, mark.lsn) == Some(mark))
    }
}

/// The whole records with which a range of bytes begins.
#[derive(Debug, Clone, Copy)]
struct WholeRecords {
    /// Number of bytes of the whole records.
    end: usize,
    last: Option<RecordMark>,
    stamp_max: CommitStamp,
}

/// Returns the whole records at the beginning of `bytes`. A last record that `bytes` contains only
/// in part is left out.
fn whole_records(
    bytes: &[u8],
    from: Lsn,
    layout: Layout,
) -> std::result::Result<WholeRecords, (Lsn, Invalid)> {
    let (mut end, mut last, mut stamp_max) = (0, None, CommitStamp::new(0));
    while end < bytes.len() {
        let at = from.plus(end as u64);
        match record::decode(&bytes[end..], at, layout) {
            Ok(decoded) => {
                let next = end + decoded.header.end().since(at) as usize;
                if next > bytes.len() {
                    break;
                }
                last = RecordMark::of(&bytes[end..], at);
                if let Chain::Commit { stamp, .. } = decoded.header.chain {
                    stamp_max = stamp_max.max(stamp);
                }
                end = next;
            }
            Err(Invalid::Short(_)) => break,
            Err(invalid) => return Err((at, invalid)),
        }
    }
    Ok(WholeRecords { end, last, stamp_max })
}

/// The archived bytes that continue one stream of a copy.
pub trait ArchivedBytes: Send + Sync + Debug {
    /// Reads from `at` on, and returns the number of bytes: less than the buffer's length only at
    /// the end of the archived bytes.
    ///
    /// # Errors
    /// Failures of the device.
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize>;
    /// Returns the end of the last archived record.
    fn end(&self) -> Lsn;
    /// Returns the name of the file that holds, or should hold, a position.
    fn file_name(&self, at: Lsn) -> String;
}

/// The bytes of one stream: first those in a copy, then the archived bytes that continue them.
#[derive(Debug)]
struct Joined {
    copied: Arc<dyn Source>,
    seam: Lsn,
    archived: Arc<dyn ArchivedBytes>,
}

impl Source for Joined {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let below = usize::try_from(self.seam.max(at).since(at)).unwrap_or(usize::MAX).min(buffer.len());
        let (first, rest) = buffer.split_at_mut(below);
        let got = if first.is_empty() { 0 } else { self.copied.read(at, first)? };
        if got < below || rest.is_empty() {
            return Ok(got);
        }
        Ok(got + self.archived.read(at.plus(got as u64), rest)?)
    }

    fn prepared_end(&self) -> Lsn {
        self.archived.end().max(self.seam)
    }

    fn file_name(&self, at: Lsn) -> String {
        if at < self.seam { self.copied.file_name(at) } else { self.archived.file_name(at) }
    }
}

/// The log of a copy that was not opened since it was made, with archived bytes that continue each
/// of its streams.
#[derive(Debug)]
pub struct ExtendedLog {
    streams: Vec<(Arc<Joined>, Part)>,
}

/// The end of a stream in a log that is made of an [`ExtendedLog`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The end of the last record.
    pub end: Lsn,
    /// Incarnation of the log that wrote that record.
    pub incarnation: u32,
}

impl ExtendedLog {
    /// Returns the ends of the streams of the log in `copy`.
    ///
    /// # Errors
    /// The errors with which the copy's log would refuse to open; [`Error::NotInFiles`].
    pub fn ends_of_copy<E: From<Error> + From<OpenError>>(
        copy: &Arc<dyn Directory>,
    ) -> std::result::Result<Vec<Lsn>, E> {
        folders_of(copy)?.iter().map(|folder| Ok(unopened::<E>(folder.as_ref())?.1.to)).collect()
    }

    /// Opens the log in `copy`, continued by `archived`.
    ///
    /// # Errors
    /// The errors with which the copy's log would refuse to open; [`Error::NotInFiles`].
    ///
    /// # Panics
    /// If `archived` does not have bytes for each stream.
    pub fn open<E: From<Error> + From<OpenError>>(
        copy: &Arc<dyn Directory>,
        archived: Vec<Arc<dyn ArchivedBytes>>,
    ) -> std::result::Result<ExtendedLog, E> {
        let folders = folders_of(copy)?;
        assert_eq!(folders.len(), archived.len(), "bytes for each stream");
        let joined = |(folder, archived): (&Arc<dyn Directory>, Arc<dyn ArchivedBytes>)| {
            let (copied, part) = unopened::<E>(folder.as_ref())?;
            Ok((Arc::new(Joined { copied, seam: part.to, archived }), part))
        };
        let streams = folders.iter().zip(archived).map(joined).collect::<std::result::Result<_, E>>()?;
        Ok(ExtendedLog { streams })
    }

    /// Returns the cut of one stream: the greatest end of a record for which `is_within` is true,
    /// but at least the end of the copy. If `is_within` is true for a position, it must be true for
    /// every lower position. Calls `visit` with the records between the copy's end and the end that
    /// was found, in order.
    ///
    /// # Errors
    /// The errors of `visit`; [`ReadError::Corrupt`] with file and position of bytes that are not a
    /// record; [`ReadError::Device`].
    ///
    /// # Panics
    /// If the log has no stream of this number.
    pub fn cut<E: From<ReadError>>(
        &self,
        stream: usize,
        is_within: &dyn Fn(Lsn) -> bool,
        visit: &mut dyn FnMut(&RecordRef<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Cut, E> {
        let (source, part) = &self.streams[stream];
        let extent = FixedExtent { start: part.from, end: source.prepared_end() };
        let mut cut = Cut { end: part.to, incarnation: part.incarnation };
        let mut reader = Reader::new(source.clone(), Arc::new(extent), cut.end, RecordFilter::All)?;
        while is_within(reader.position().plus(1)) {
            let end = match reader.next_record()? {
                Some(record) if is_within(record.end) => {
                    visit(&record)?;
                    record.end
                }
                _ => break,
            };
            cut = Cut { end, incarnation: reader.incarnation().unwrap_or(cut.incarnation) };
        }
        Ok(cut)
    }

    /// Returns the source and the part of each stream for a copy up to `cuts`.
    fn parts<'a>(&'a self, cuts: &'a [Cut]) -> impl Iterator<Item = (Arc<dyn Source>, Part)> + 'a {
        self.streams.iter().zip(cuts).map(|((source, part), cut)| {
            let incarnation = part.incarnation.max(cut.incarnation);
            (source.clone() as Arc<dyn Source>, Part { incarnation, to: cut.end, ..*part })
        })
    }

    /// Returns the number of bytes of the log that [`ExtendedLog::copy`] copies.
    pub fn bytes(&self, cuts: &[Cut]) -> u64 {
        self.parts(cuts).map(|(_, part)| part.to.since(part.from)).sum()
    }

    /// Returns the sum of the streams' incarnations (numbers of openings) in a log that
    /// [`ExtendedLog::copy`] makes.
    pub fn incarnations(&self, cuts: &[Cut]) -> u64 {
        self.parts(cuts).map(|(_, part)| u64::from(part.incarnation)).sum()
    }

    /// Makes a log of the copy's records and the archived ones, up to a cut of each stream. `step`
    /// is called with the number of bytes of each piece after the piece is copied; an error of
    /// `step` ends the copying.
    ///
    /// # Errors
    /// The errors of `step`; [`Error::Read`], [`Error::Device`].
    ///
    /// # Panics
    /// If `cuts` does not have a cut for each stream.
    pub fn copy<E: From<Error>>(
        &self,
        cuts: &[Cut],
        target: CopyTarget<'_>,
        step: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        assert_eq!(cuts.len(), self.streams.len(), "a cut for each stream");
        copy_streams(&self.parts(cuts).collect::<Vec<_>>(), target, step)
    }
}
