//! Copying a log: the records between two positions of each stream, into another directory and
//! under another id.
//!
//! One thread copies, while other threads append to the log and write it. The caller must prevent
//! trims above the positions at which the copy begins. The source does not change. Positions are
//! the same in the copy, and so are the bytes of records; segments and control files are made anew.
//! Invariants:
//!
//! 1. A copy has another log id than its source. Both logs may be used further, and each refuses a
//!    segment of the other as foreign.
//! 2. The copy ends at a cut ([`Log::cut`]) that is durable in the source. The copy's control files
//!    name the cut as durable. So if bytes below the cut are lost, opening the copy fails instead
//!    of finding a shorter log.
//! 3. Above the cut the copy has only zeros, and no part of a record that the source appended
//!    later.
//! 4. The control file of a stream is made last. The file that counts the streams is made after the
//!    control files of all streams.
//!
//! A crash leaves an incomplete copy in the target directory: segments without a control file, or
//! streams without the file that counts them. Opening that directory fails.

use crate::control::{Control, ControlState};
use crate::error::{Error, OpenError, ReadError};
use crate::geometry::Geometry;
use crate::log::Log;
use crate::medium_options::LogKind;
use crate::recover::survey::{Survey, examine};
use crate::recover::{check_complete, control_state};
use crate::seal::SEALED_BYTES;
use crate::segment::files::SegmentFiles;
use crate::segment::header::{SegmentHeader, name};
use crate::segment::{Source, incarnation_at};
use crate::stream::Stream;
use crate::streams::control::{CreationState, StreamsState};
use crate::streams::folders::{existing, stream_name};
use katydid_device::{self as device, AlignedBuffer, Create, Directory, Id, Method, WriteMode};
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use std::io::IoSlice;
use std::sync::Arc;

/// Bytes of one read and one write.
const CHUNK: usize = 1 << 20;

/// Target of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyTarget<'a> {
    /// An empty directory.
    pub directory: &'a dyn Directory,
    /// The log id of the copy, other than the source's.
    pub id: Id,
    /// I/O method of the copy.
    pub method: Method,
}

/// The part of one stream that is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) incarnation: u32,
    pub(crate) geometry: Geometry,
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    /// True if the log may have records that truncate.
    pub(crate) truncates: bool,
}

impl Log {
    /// Returns a cut: the end of a record in each stream. A crash could have left the streams with
    /// exactly the records below these ends. All of these records are durable. Everything that one
    /// of them depends on is also below the ends, or the record names the dependencies that are
    /// missing. Everything that was durable before the call is below the ends.
    ///
    /// A record does not name dependencies that were durable when it was appended, so none of these
    /// may be missing from the cut. Therefore, when the last end is read, no record above any of
    /// the ends may be durable yet. Reading all ends takes a few loads; if a write to the device
    /// ended between these loads, the ends are read again.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn cut(&self) -> Result<Vec<Lsn>, Error> {
        let ends = loop {
            let ends: Vec<Lsn> = self.streams().iter().map(Stream::barrier).collect();
            if self.streams().iter().zip(&ends).all(|(stream, end)| stream.durable() <= *end) {
                break ends;
            }
            std::thread::yield_now();
        };
        for (stream, end) in self.streams().iter().zip(&ends) {
            stream.request(*end, Durability::Durable);
        }
        for (stream, end) in self.streams().iter().zip(&ends) {
            stream.wait(*end, Durability::Durable)?;
            stream.core().settle(*end);
        }
        Ok(ends)
    }

    /// Copies the records between `from` and `to` of each stream. `from` is the start of the
    /// records to copy; no trim may go above `from` during the copy. `to` is a cut. `step` is
    /// called with the number of bytes of each piece after the piece is copied; an error of `step`
    /// ends the copying.
    ///
    /// # Errors
    /// The errors of `step`; [`Error::NotInFiles`] if the log is in NVRAM; [`Error::Read`],
    /// [`Error::Device`].
    ///
    /// # Panics
    /// If `from` or `to` does not have a position for each stream.
    pub fn copy<E: From<Error>>(
        &self,
        from: &[Lsn],
        to: &[Lsn],
        target: CopyTarget<'_>,
        step: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(from.len() == self.streams().len() && to.len() == from.len(), "a position for each stream");
        let mut parts = Vec::with_capacity(from.len());
        for ((stream, from), to) in self.streams().iter().zip(from).zip(to) {
            let medium = &stream.core().medium;
            let Some(geometry) = medium.geometry() else {
                return Err(Error::NotInFiles { kind: medium.kind() }.into());
            };
            let incarnation = stream.recovery().incarnation;
            let truncates = medium.truncates();
            parts.push((medium.source(), Part { incarnation, geometry, from: *from, to: *to, truncates }));
        }
        copy_streams(&parts, target, step)
    }
}

/// Copies a log that is itself a copy and was not opened since it was made. Copies from the log's
/// start to the end that the log's control files name as durable.
///
/// # Errors
/// The errors of `step`; the errors with which the log would refuse to open; [`Error::NotInFiles`],
/// [`Error::Read`], [`Error::Device`].
pub fn copy_unopened<E: From<Error> + From<OpenError>>(
    source: &Arc<dyn Directory>,
    target: CopyTarget<'_>,
    step: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let folders = folders_of(source)?;
    let parts = folders.iter().map(|folder| unopened(folder.as_ref())).collect::<Result<Vec<_>, E>>()?;
    copy_streams(&parts, target, step)
}

/// Returns the incarnation (the number of openings) of each stream of a log that is not open.
///
/// # Errors
/// The errors with which the log would refuse to open.
pub fn incarnations(source: &Arc<dyn Directory>) -> Result<Vec<u32>, OpenError> {
    folders_of(source)?.iter().map(|folder| Ok(control_state(folder.as_ref())?.incarnation)).collect()
}

/// Returns the folder of each stream of a log that is not open.
pub(crate) fn folders_of(source: &Arc<dyn Directory>) -> Result<Vec<Arc<dyn Directory>>, OpenError> {
    match StreamsState::read(source.as_ref())? {
        Some(state) => existing(source.as_ref(), &state),
        None => Ok(vec![source.clone()]),
    }
}

pub(crate) fn unopened<E: From<Error> + From<OpenError>>(
    folder: &dyn Directory,
) -> Result<(Arc<dyn Source>, Part), E> {
    let control = control_state(folder)?;
    if control.log != LogKind::Disk {
        return Err(Error::NotInFiles { kind: control.log }.into());
    }
    let files = live_segments(folder, &control)?;
    let geometry = control.geometry();
    let ControlState { incarnation, start: from, durable: to, truncates, .. } = control;
    Ok((Arc::new(files), Part { incarnation, geometry, from, to: to.max(from), truncates }))
}

fn live_segments(folder: &dyn Directory, control: &ControlState) -> Result<SegmentFiles, OpenError> {
    let survey = Survey::of(&folder.list()?);
    check_complete(folder, &survey, control)?;
    let geometry = control.geometry();
    let first = geometry.index(control.start);
    let mut files = SegmentFiles::new(geometry, first);
    for &index in survey.live(first) {
        let file = folder.open_read_only(&name(index))?;
        let health = examine(file.as_ref(), index, geometry, control.log_id)?;
        if let Some(refusal) = health.refusal(folder, index, control.log_id) {
            return Err(refusal);
        }
        files.push(file);
    }
    Ok(files)
}

pub(crate) fn copy_streams<E: From<Error>>(
    parts: &[(Arc<dyn Source>, Part)],
    target: CopyTarget<'_>,
    step: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |error: device::Error| E::from(Error::Device(error));
    if let [(source, part)] = parts {
        return copy_stream(source.as_ref(), *part, target, step);
    }
    let state = StreamsState { id: target.id, streams: parts.len() as u16, making: CreationState::Done };
    for (index, (source, part)) in parts.iter().enumerate() {
        let folder = target.directory.subdirectory(&stream_name(index)).map_err(failed)?;
        let target = CopyTarget { directory: folder.as_ref(), id: state.stream_id(index), ..target };
        copy_stream(source.as_ref(), *part, target, step)?;
    }
    state.write(target.directory).map_err(failed)
}

fn copy_stream<E: From<Error>>(
    source: &dyn Source,
    part: Part,
    target: CopyTarget<'_>,
    step: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let Part { incarnation, geometry, from, to, truncates } = part;
    let first = geometry.index(from);
    // A log that ends at the end of a segment needs no further segment.
    let last = if to > from && geometry.base(geometry.index(to)) == to {
        geometry.index(to) - 1
    } else {
        geometry.index(to)
    };
    let start_incarnation = if from == to { incarnation } else { incarnation_at(source, from)? };
    let mut buffer = AlignedBuffer::new_zeroed(CHUNK);
    for index in first..=last {
        copy_segment(source, part, index, target, &mut buffer, step)?;
    }
    let made = || {
        target.directory.sync()?;
        let state = ControlState {
            incarnation,
            start: from,
            start_incarnation,
            durable: to,
            prepared_end: geometry.base(last + 1),
            truncates,
            ..ControlState::in_files(target.id, geometry)
        };
        Control::create(target.directory, state)
    };
    made().map(drop).map_err(|error| Error::Device(error).into())
}

/// Makes the segment: a header, the bytes of `part` that lie in the segment, and zeros elsewhere.
/// When this returns the segment is durable, except for its name.
fn copy_segment<E: From<Error>>(
    source: &dyn Source,
    part: Part,
    index: u64,
    target: CopyTarget<'_>,
    buffer: &mut AlignedBuffer,
    step: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |error: device::Error| E::from(Error::Device(error));
    let geometry = part.geometry;
    let file = target.directory.open(&name(index), Create::New, target.method).map_err(failed)?;
    let (base, next) = (geometry.base(index), geometry.base(index + 1));
    let mut at = part.from.max(base).floor_block();
    let end = part.to.min(next);
    if at < next {
        file.prepare(0, geometry.offset(at)).map_err(failed)?;
    }
    let mut filled = geometry.offset(at);
    while at < end {
        let bytes = usize::try_from(end.since(at)).map_or(CHUNK, |left| left.min(CHUNK));
        let got = source.read(at, &mut buffer[..bytes]).map_err(failed)?;
        if got < bytes {
            let (at, file) = (at.plus(got as u64), source.file_name(at));
            return Err(Error::Read(ReadError::Corrupt {
                at,
                file,
                reason: "the file ends before the log does",
            })
            .into());
        }
        let before = usize::try_from(part.from.max(at).since(at)).unwrap_or(bytes).min(bytes);
        buffer[..before].fill(0);
        // The block in which the copied bytes end is filled up with zeros (invariant 3).
        let whole = bytes.next_multiple_of(SEALED_BYTES);
        buffer[bytes..whole].fill(0);
        file.write_at(&[IoSlice::new(&buffer[..whole])], geometry.offset(at), WriteMode::Written)
            .map_err(failed)?;
        filled = geometry.offset(at) + whole as u64;
        at = at.plus(bytes as u64);
        step(bytes as u64)?;
    }
    let header = SegmentHeader::new(geometry, target.id, index, part.incarnation).encode();
    let done = || {
        file.prepare(filled, geometry.segment_bytes(index))?;
        file.write_at(&[IoSlice::new(&AlignedBuffer::copy_of(&header[..]))], 0, WriteMode::Durable)?;
        file.sync()
    };
    done().map_err(failed)
}
