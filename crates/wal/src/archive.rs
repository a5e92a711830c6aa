//! Stretches of a log's bytes: taking them from an open log, and making a log of a copy and the stretches that follow it.
//!
//! Any thread. An archive keeps the bytes of a stream as they are, from one position to the next, in files of its own form. Nothing here writes to the
//! log. Invariants:
//!
//! 1. A stretch has whole physical records and nothing that is not durable. So what is archived is in the log after every crash, and no later opening
//!    writes other bytes in its place.
//! 2. Each record of a stretch was decoded, its checksum included, before the stretch is given.
//! 3. A stretch that was read while its segment was recycled is not given: the start of the log is looked at after the bytes were read.
//! 4. The log that is made ends at a cut: the end of a record, at which a crash of the source might have left it.
//!
//! A crash leaves nothing of this behind; the caller keeps the log by a pin or a named consumer.

use crate::copy::{CopyTarget, Part, copy_stream, unopened};
use crate::error::{Error, OpenError, ReadError, Result};
use crate::follow::Durable;
use crate::reader::{FixedExtent, Reader, RecordFilter, RecordRef};
use crate::segment::{Extent, Source};
use crate::stream::Stream;
use katydid_device::{self as device, Directory};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{self, HEADER_BYTES, Invalid, Layout, PHYSICAL_BYTES_MAX};
use std::fmt::Debug;
use std::sync::Arc;

/// The bytes of a stream between two positions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stretch {
    /// The first position.
    pub from: Lsn,
    /// The exclusive end.
    pub to: Lsn,
    /// The place and the checksum of the last physical record in it.
    pub last: RecordMark,
    /// The bytes of the log from `from` to `to`.
    pub bytes: Vec<u8>,
}

/// A physical record of a log, by which two histories of one log are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// Where it starts.
    pub lsn: Lsn,
    /// Its checksum, which covers its position, its incarnation and its payload.
    pub sum: u32,
}

impl RecordMark {
    /// Of the record whose header these bytes begin with.
    fn of(bytes: &[u8], lsn: Lsn) -> Option<RecordMark> {
        let sum = bytes.get(4..8)?.try_into().ok()?;
        Some(RecordMark { lsn, sum: u32::from_le_bytes(sum) })
    }
}

impl Stream {
    /// The durable records from `from` on, as bytes: about `bytes_max`, and at least one record if there is one. `from` is the start of the log, or the end of
    /// a stretch. `None` if nothing more is durable.
    ///
    /// # Errors
    /// [`Error::Read`] with [`ReadError::Trimmed`] if the log starts above `from`, with [`ReadError::BeyondEnd`] if it ends below, with
    /// [`ReadError::Corrupt`] if a record is damaged; [`Error::NotInFiles`] of a log in NVRAM.
    pub fn stretch(&self, from: Lsn, bytes_max: usize) -> Result<Option<Stretch>> {
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
        let wanted = usize::try_from(durable.since(from)).map_or(most, |left| left.min(most));
        let mut bytes = vec![0; wanted];
        let got = source.read(from, &mut bytes)?;
        bytes.truncate(got);
        let whole = whole_records(&bytes, from, source.layout());
        // Invariant 3.
        let start = self.start();
        if from < start {
            return Err(ReadError::Trimmed { at: from, start }.into());
        }
        let corrupt = |at: Lsn, reason| ReadError::Corrupt { at, file: source.file_name(at), reason };
        let (end, last) = whole.map_err(|(at, invalid)| corrupt(at, invalid.reason()))?;
        let Some(last) = last else {
            return match wanted {
                0 => Ok(None),
                _ => Err(corrupt(from, Invalid::Short(wanted).reason()).into()),
            };
        };
        bytes.truncate(end);
        Ok(Some(Stretch { from, to: from.plus(end as u64), last, bytes }))
    }

    /// Whether the log has this record, at its place. False if the log ends below.
    ///
    /// # Errors
    /// [`Error::Read`] with [`ReadError::Trimmed`] if the log starts above it; failures of the device.
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

/// How many of the bytes are whole records, and the last of those. A record that the bytes end inside is left out, unless it is the first.
fn whole_records(
    bytes: &[u8],
    from: Lsn,
    layout: Layout,
) -> std::result::Result<(usize, Option<RecordMark>), (Lsn, Invalid)> {
    let (mut end, mut last) = (0, None);
    while end < bytes.len() {
        let at = from.plus(end as u64);
        match record::decode(&bytes[end..], at, layout) {
            Ok(decoded) => {
                let next = end + decoded.header.end().since(at) as usize;
                if next > bytes.len() {
                    break;
                }
                last = RecordMark::of(&bytes[end..], at);
                end = next;
            }
            Err(Invalid::Short(_)) => break,
            Err(invalid) => return Err((at, invalid)),
        }
    }
    Ok((end, last))
}

/// Bytes of a log of one stream that follow those of a copy, from an archive.
pub trait ArchivedBytes: Send + Sync + Debug {
    /// Reads from `at` on; fewer bytes only at the end of what there is.
    ///
    /// # Errors
    /// Failures of the device.
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize>;
    /// The end of the last record in it.
    fn end(&self) -> Lsn;
    /// Name of the file that holds, or should hold, a position.
    fn file_name(&self, at: Lsn) -> String;
}

/// A log that is copied, and what follows it.
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

/// A log of one stream that is not open and was not opened since it was made by a copy, with archived bytes that go on from its end.
#[derive(Debug)]
pub struct ExtendedLog {
    source: Arc<Joined>,
    part: Part,
}

/// An end for a log that is made of an [`ExtendedLog`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The end of the last record.
    pub end: Lsn,
    /// How often the log had been opened when that record was written.
    pub incarnation: u32,
}

impl ExtendedLog {
    /// Where the log of a copy in `copy` ends.
    ///
    /// # Errors
    /// As opening the copy's log would refuse it.
    pub fn end_of_copy<E: From<Error> + From<OpenError>>(
        copy: &dyn Directory,
    ) -> std::result::Result<Lsn, E> {
        unopened(copy).map(|(_, part)| part.to)
    }

    /// The log of a copy in `copy`, and `archived` from its end on.
    ///
    /// # Errors
    /// As opening the copy's log would refuse it.
    pub fn open<E: From<Error> + From<OpenError>>(
        copy: &dyn Directory,
        archived: Arc<dyn ArchivedBytes>,
    ) -> std::result::Result<ExtendedLog, E> {
        let (copied, part) = unopened::<E>(copy)?;
        Ok(ExtendedLog { source: Arc::new(Joined { copied, seam: part.to, archived }), part })
    }

    /// The end of the last record that ends where `is_within` says, which is so for all before it. `visit` sees the records between the copy's end and there,
    /// in order.
    ///
    /// # Errors
    /// Those of `visit`; [`ReadError::Corrupt`] with file and place of what is no record.
    pub fn cut<E: From<ReadError>>(
        &self,
        is_within: &dyn Fn(Lsn) -> bool,
        visit: &mut dyn FnMut(&RecordRef<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Cut, E> {
        let extent = FixedExtent { start: self.part.from, end: self.source.prepared_end() };
        let mut cut = Cut { end: self.part.to, incarnation: self.part.incarnation };
        let mut reader = Reader::new(self.source.clone(), Arc::new(extent), cut.end, RecordFilter::All)?;
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

    /// Bytes of the log that [`ExtendedLog::copy`] copies.
    pub fn bytes(&self, cut: Cut) -> u64 {
        cut.end.since(self.part.from)
    }

    /// Makes a log of the copy's and of what follows it up to `cut`. `step` is called after each piece with its bytes, and ends the copying with its error.
    ///
    /// # Errors
    /// Those of `step`; [`Error::Read`], [`Error::Device`].
    pub fn copy<E: From<Error>>(
        &self,
        cut: Cut,
        target: CopyTarget<'_>,
        step: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let incarnation = self.part.incarnation.max(cut.incarnation);
        let part = Part { incarnation, to: cut.end, ..self.part };
        copy_stream(self.source.as_ref(), part, target, step)
    }
}
