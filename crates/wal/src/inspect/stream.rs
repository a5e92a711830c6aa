//! Inspecting one stream: reading it, whatever its state, without changing it.
//!
//! One thread at a time uses an inspection. Files are opened for reading only. Nothing is created,
//! synced or removed, and the number of openings in the control file stays as it is. Therefore a
//! log that cannot be opened, or that is in use, can be inspected. For a log in use, the reported
//! end may lie below the present end of the log.

use crate::control::FORMAT_VERSION;
use crate::error::{OpenError, ReadError};
use crate::medium;
use crate::medium_options::LogKind;
use crate::reader::{FixedExtent, Reader, RecordFilter};
use crate::recover::inspected::{Inspected, SegmentReport};
use crate::recover::{Finding, IncarnationHistory, Judgement};
use crate::segment::{Extent, Source};
use crate::truncated::{Ranges, Truncations};
use katydid_device::{Directory, Id};
use katydid_kernels::lsn::Lsn;
use std::sync::Arc;

/// The findings about one stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamInspection {
    /// The log's id.
    pub log_id: Id,
    /// Version of the format this program reads.
    pub version: u32,
    /// Number of times the log was opened for writing.
    pub incarnation: u32,
    /// Start of the log. Everything below was trimmed.
    pub start: Lsn,
    /// End of the valid records.
    pub end: Lsn,
    /// A position up to which the log is known to have been durable.
    pub durable: Lsn,
    /// Kind of log. A log in NVRAM has no segments. A log of kind `NvDirect` shows only the records
    /// below the first hole, until it has been opened.
    pub kind: LogKind,
    /// Size of the largest segment files, or of the ring or heap in NVRAM, in bytes.
    pub segment_bytes: u64,
    /// All segment files, by position.
    pub segments: Vec<SegmentReport>,
    /// Finding about the log's end, or the error of opening it.
    pub finding: Result<Finding, OpenError>,
    /// Incarnations that wrote the stream, each with its range.
    pub(crate) incarnations: IncarnationHistory,
    /// The ranges whose records were truncated.
    truncated: Ranges,
    source: Arc<dyn Source>,
}

/// The records of an inspected stream, without those that were truncated.
#[derive(Debug)]
struct InspectedExtent {
    found: FixedExtent,
    truncations: Arc<Truncations>,
}

impl Extent for InspectedExtent {
    fn start(&self) -> Lsn {
        self.found.start
    }

    fn written(&self) -> Lsn {
        self.found.end
    }

    fn truncations(&self) -> Option<Arc<Truncations>> {
        Some(self.truncations.clone())
    }
}

impl StreamInspection {
    /// Returns all valid records from the start on that were not truncated, the log's own records
    /// included.
    ///
    /// # Errors
    /// None at present; reading from the returned reader may fail.
    pub fn records(&self) -> Result<Reader, ReadError> {
        self.reader(self.start, RecordFilter::All)
    }

    pub(crate) fn reader(&self, from: Lsn, filter: RecordFilter) -> Result<Reader, ReadError> {
        let found = FixedExtent { start: self.start, end: self.end };
        let truncations = Arc::new(Truncations::new(self.truncated.clone()));
        Reader::new(self.source.clone(), Arc::new(InspectedExtent { found, truncations }), from, filter)
    }
}

/// Inspects the stream in a directory and changes nothing.
///
/// # Errors
/// Fails only if the device fails, if the control file is damaged, missing or of an unknown
/// version, or if the region of a log in NVRAM cannot be used. Everything else that is wrong is
/// reported in [`StreamInspection::finding`] and [`StreamInspection::segments`].
pub(crate) fn inspect_stream(directory: &dyn Directory) -> Result<StreamInspection, OpenError> {
    let (state, Inspected { source, judgement, segments, refused }) = medium::inspect(directory)?;
    let Judgement { walk, durable, outcome, .. } = judgement;
    let finding = refused.and_then(|()| outcome.map(|outcome| outcome.finding));
    Ok(StreamInspection {
        log_id: state.log_id,
        version: FORMAT_VERSION,
        incarnation: state.incarnation,
        start: state.start,
        end: walk.end,
        durable,
        kind: state.log,
        segment_bytes: state.segment_bytes,
        segments,
        finding,
        incarnations: walk.incarnations,
        truncated: walk.truncated,
        source,
    })
}
