//! Consecutive open segments, and reading across their boundaries.
//!
//! Any thread may call this code; the store's lock guards shared segments. This file writes
//! nothing.

use super::header::name;
use crate::geometry::Geometry;
use crate::seal::SEALED_BYTES;
use crate::truncated::Truncations;
use katydid_device::{self as device, File};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Layout;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

/// The start and the written frontier, between which a log can be read. Both only grow.
pub(crate) trait Extent: Send + Sync + Debug {
    /// Returns the start of the log, below which everything was trimmed.
    fn start(&self) -> Lsn;
    /// Returns the position up to which the log was written to files.
    fn written(&self) -> Lsn;
    /// Returns the ranges that were dropped between `start` and `written`; `None` if the log drops
    /// no range.
    fn truncations(&self) -> Option<Arc<Truncations>> {
        None
    }
}

/// Bytes of the log by position, for scanning and reading.
pub(crate) trait Source: Send + Sync + Debug {
    /// Reads from `at` on, across segments, and returns the number of bytes. The number is less
    /// than asked for only at the end of the segments, and 0 below their start.
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize>;
    /// Returns the first position that no segment holds.
    fn prepared_end(&self) -> Lsn;
    /// Returns the name of the file that holds, or should hold, a position.
    fn file_name(&self, at: Lsn) -> String;
    /// Returns the layout of the records. If records lie apart, `read` returns only the record that
    /// begins at `at`, with the position in its header. If no record begins there, the bytes are no
    /// valid record.
    fn layout(&self) -> Layout {
        Layout::InLine
    }
}

/// Open segments without a gap. Clones share the files.
#[derive(Debug, Clone)]
pub(crate) struct SegmentFiles {
    geometry: Geometry,
    first: u64,
    files: VecDeque<Arc<dyn File>>,
}

impl SegmentFiles {
    /// Makes an empty sequence of segments. The first segment that is pushed has the index `first`.
    pub(crate) fn new(geometry: Geometry, first: u64) -> Self {
        SegmentFiles { geometry, first, files: VecDeque::new() }
    }

    /// Adds the next segment.
    pub(crate) fn push(&mut self, file: Arc<dyn File>) {
        self.files.push_back(file);
    }

    /// Takes out the first segment if its index is below `index`, and returns the index of that
    /// segment.
    pub(crate) fn pop_below(&mut self, index: u64) -> Option<u64> {
        if self.first >= index {
            return None;
        }
        self.files.pop_front()?;
        self.first += 1;
        Some(self.first - 1)
    }

    /// Returns the file that holds a position.
    pub(crate) fn file(&self, at: Lsn) -> Option<&Arc<dyn File>> {
        let nth = self.geometry.index(at).checked_sub(self.first)?;
        self.files.get(usize::try_from(nth).ok()?)
    }

    /// Returns the last segment's file.
    pub(crate) fn last(&self) -> Option<&Arc<dyn File>> {
        self.files.back()
    }

    /// Returns the index that the next segment would have.
    pub(crate) fn next_index(&self) -> u64 {
        self.first + self.files.len() as u64
    }

    /// Returns the number of bytes of all segments' files.
    pub(crate) fn bytes(&self) -> u64 {
        let headers = self.files.len() as u64 * SEALED_BYTES as u64;
        self.prepared_end().since(self.geometry.base(self.first)) + headers
    }
}

impl Source for SegmentFiles {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        read_across(self.geometry, at, buffer, |at| self.file(at).cloned())
    }

    fn prepared_end(&self) -> Lsn {
        self.geometry.base(self.next_index())
    }

    fn file_name(&self, at: Lsn) -> String {
        name(self.geometry.index(at))
    }
}

/// Reads one segment after the other until the buffer is full or a segment is missing.
pub(crate) fn read_across(
    geometry: Geometry,
    at: Lsn,
    buffer: &mut [u8],
    mut file: impl FnMut(Lsn) -> Option<Arc<dyn File>>,
) -> device::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let from = at.plus(done as u64);
        let Some(file) = file(from) else { break };
        let room = buffer.len() - done;
        let here = usize::try_from(geometry.left(from)).map_or(room, |left| left.min(room));
        let got = file.read_at(&mut buffer[done..done + here], geometry.offset(from))?;
        done += got;
        if got < here {
            break;
        }
    }
    Ok(done)
}
