//! A minimal writer of logs for tests, and logs as maps from file names to bytes.

use crate::error::{OpenError, ReadError};
use crate::inspect::inspect_stream as inspect;
use crate::medium::open;
use crate::medium_options::FileOptions;
use crate::options::Options;
use crate::reader::{Reader, Record, RecordFilter};
use crate::recover::scan::NoVisitor;
use crate::recover::{Segments, look, open_files};
use crate::segment::Extent;
use crate::segment::SegmentStore;
use katydid_device::{self as device, Create, Directory, Id, MemoryDirectory, Method, WriteMode};
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use katydid_kernels::record::{Chain, HeaderFields, Kind, Layout, split};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

pub(super) const SEGMENT_BYTES: u64 = 16 << 10;
const RING_BYTES: usize = 16 << 10;

/// Returns options with small segments, one spare segment and a fixed id.
pub(super) fn options() -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: SEGMENT_BYTES,
            spare_segments: 1,
            ring_bytes: RING_BYTES,
            ..FileOptions::default()
        }
        .into(),
        reserve_bytes: 0,
        run_ahead_bytes: 4 << 10,
        log_id: Some(Id::new(0x5eed)),
        ..Options::default()
    }
}

/// Returns options for a seed. For every second seed, the segments double from 8 to 64 KiB, so that
/// crash cases meet both kinds of logs.
pub(super) fn options_of(seed: u64) -> Options {
    match seed % 2 {
        0 => options().map_files(|files| FileOptions {
            first_segment_bytes: 8 << 10,
            segment_bytes: 64 << 10,
            ..files
        }),
        _ => options(),
    }
}

/// Two frontiers that do not move.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub start: Lsn,
    pub written: Lsn,
}

impl Extent for Fixed {
    fn start(&self) -> Lsn {
        self.start
    }

    fn written(&self) -> Lsn {
        self.written
    }
}

/// Appends records one after the other and writes them when a test calls for it.
pub(super) struct Writer {
    pub store: Arc<SegmentStore>,
    pub opened: crate::recover::RecoveryReport,
    pub incarnation: u32,
    /// Bytes from `image_at`, a block start, to the end.
    image: Vec<u8>,
    image_at: Lsn,
    pub written: Lsn,
    pub durable: Lsn,
}

impl Writer {
    pub fn open(directory: &Arc<dyn Directory>) -> Result<Self, OpenError> {
        Self::open_with(directory, &options())
    }

    pub fn open_with(directory: &Arc<dyn Directory>, options: &Options) -> Result<Self, OpenError> {
        let files = options.medium.files().expect("a log in files");
        let (survey, control) = look(directory, options)?;
        let Segments { store, report, incarnation, end, tail, .. } =
            open_files(directory, options, &files, &survey, control, &mut NoVisitor)?;
        let image_at = end.floor_block();
        assert_eq!(tail.len() as u64, end.since(image_at));
        Ok(Writer { store, opened: report, incarnation, image: tail, image_at, written: end, durable: end })
    }

    pub fn end(&self) -> Lsn {
        self.image_at.plus(self.image.len() as u64)
    }

    /// Appends a record in memory, and returns its LSN.
    pub fn append_kind(&mut self, kind: Kind, payload: &[u8]) -> Lsn {
        self.append_chained(kind, Chain::NONE, payload)
    }

    /// Appends a record with this chain in memory, and returns its LSN.
    pub fn append_chained(&mut self, kind: Kind, chain: Chain, payload: &[u8]) -> Lsn {
        let fields = HeaderFields {
            incarnation: self.incarnation,
            kind,
            txn: 1,
            chain,
            durable: self.durable,
            layout: Layout::InLine,
        };
        let slices = [payload];
        let mut previous = Lsn::ZERO;
        for fragment in split(&slices, options().buffer_sizes(RING_BYTES).physical_bytes_max()).unwrap() {
            let prepared = fragment.prepare(&fields, previous);
            previous = self.end();
            let padded = self.image.len() + prepared.padded();
            self.image.extend_from_slice(&prepared.head(previous));
            fragment.slices().for_each(|slice| self.image.extend_from_slice(slice));
            self.image.resize(padded, 0);
        }
        previous
    }

    pub fn append(&mut self, payload: &[u8]) -> Lsn {
        self.append_kind(Kind::USER, payload)
    }

    /// Appends records that take exactly `bytes` bytes; returns the number of records.
    pub fn fill(&mut self, bytes: usize) -> usize {
        let mut left = bytes;
        let mut count = 0;
        while left > 0 {
            let next = if left <= 1024 { left } else { (left - 48).min(1024) };
            self.append(&vec![7; next - 48]);
            left -= next;
            count += 1;
        }
        count
    }

    /// Writes everything appended, in this mode.
    pub fn write(&mut self, mode: WriteMode) -> device::Result<()> {
        let end = self.end();
        while self.store.prepared_end() < end {
            self.store.prepare_next()?;
        }
        let mut blocks = self.image.clone();
        blocks.resize(blocks.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        // The bytes are passed in two parts. A leader of the log passes parts too: the whole blocks
        // in the ring, then the tail block. Here the border between the parts need not lie at the
        // start of a block.
        let (left, right) = blocks.split_at(blocks.len() / 3);
        self.store.write(self.image_at, &[IoSlice::new(left), IoSlice::new(right)], mode)?;
        self.written = end;
        if mode == WriteMode::Durable {
            // A durable write makes only its own bytes durable.
            self.store.sync(self.durable.floor_block(), self.image_at)?;
            self.durable = end;
        }
        let done = end.floor_block().since(self.image_at) as usize;
        self.image.drain(..done);
        self.image_at = end.floor_block();
        Ok(())
    }

    /// Appends a record and writes it durably.
    pub fn commit(&mut self, payload: &[u8]) -> device::Result<Lsn> {
        let lsn = self.append(payload);
        self.write(WriteMode::Durable)?;
        Ok(lsn)
    }

    /// Closes the log as `Log::close` does.
    pub fn close(mut self) -> device::Result<()> {
        self.write(WriteMode::Durable)?;
        self.append_kind(Kind::MARK, &[]);
        self.write(WriteMode::Durable)?;
        self.store.note_durable(self.durable)
    }

    pub fn extent(&self) -> Fixed {
        Fixed { start: self.store.start(), written: self.written }
    }

    pub fn records(&self) -> Result<Vec<Record>, ReadError> {
        let extent = self.extent();
        Reader::new(self.store.clone(), Arc::new(extent), extent.start, RecordFilter::Users)?.collect()
    }

    /// Returns the payloads of all records.
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        self.records().unwrap().into_iter().map(|record| record.payload).collect()
    }
}

/// Returns a payload that names its number.
pub(super) fn payload(number: usize, bytes: usize) -> Vec<u8> {
    format!("record {number} ").into_bytes().into_iter().cycle().take(bytes).collect()
}

/// The bytes of every file, by name.
pub(super) type Bytes = BTreeMap<String, Vec<u8>>;

pub(super) fn memory() -> (MemoryDirectory, Arc<dyn Directory>) {
    let directory = MemoryDirectory::new();
    (directory.clone(), Arc::new(directory))
}

/// Returns the bytes of a directory's files.
pub(super) fn bytes_of(directory: &dyn Directory) -> Bytes {
    let read = |name: String| {
        let file = directory.open_read_only(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        (name, bytes)
    };
    directory.list().unwrap().into_iter().map(read).collect()
}

/// Returns a directory with these files.
pub(super) fn directory_of(bytes: &Bytes) -> Arc<dyn Directory> {
    let directory = MemoryDirectory::new();
    for (name, content) in bytes {
        let file = directory.open(name, Create::New, Method::Buffered).unwrap();
        file.write_at(&[IoSlice::new(content)], 0, WriteMode::Durable).unwrap();
    }
    Arc::new(directory)
}

/// Returns the error with which opening these files fails. Also checks that the refusal changes
/// nothing, and that inspection agrees.
pub(super) fn refusal(bytes: &Bytes) -> OpenError {
    let directory = directory_of(bytes);
    let error = open(&directory, &options(), &mut NoVisitor).expect_err("the log opened");
    assert!(bytes_of(directory.as_ref()) == *bytes, "refusing changed something");
    let inspected = match inspect(directory.as_ref()) {
        Ok(inspection) => inspection.finding.expect_err("inspection finds no fault"),
        Err(error) => error,
    };
    assert_eq!(inspected.to_string(), error.to_string());
    assert!(bytes_of(directory.as_ref()) == *bytes, "inspecting changed something");
    error
}

/// Returns the file and offset of a position, for logs opened with [`options`].
pub(super) fn place(at: Lsn) -> (String, usize) {
    let geometry = crate::geometry::Geometry::new(SEGMENT_BYTES);
    (crate::segment::header::name(geometry.index(at)), geometry.offset(at) as usize)
}
