//! Decoders of bytes from a device, each wrapped as a function of a byte slice, with valid samples
//! for a fuzzer to mutate. The decoder of an NVRAM region's header is left to its unit tests.
//!
//! The fuzzer and `tests/decoders.rs` call these functions, which correct the checksum of a mutated
//! input. Otherwise a decoder would refuse almost every input at its first check.

use crate::consumers::{self, ConsumerPlace};
use crate::control::{CONTROL_NAME, ControlState, FORMAT_VERSION};
use crate::geometry::Geometry;
use crate::inspect::inspect_stream as inspect;
use crate::medium_options::FileOptions;
use crate::options::Options;
use crate::recover::scan::NoVisitor;
use crate::seal::{Block, SEALED_BYTES, seal};
use crate::segment::header::{SegmentHeader, name};
use crate::streams::decoders as streams;
use katydid_device::{Create, Directory, Id, MemoryDirectory, Method, WriteMode};
use katydid_kernels::checksum::{Sum, read_u32, read_u64};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{
    self, Chain, HEADER_BYTES, HeaderFields, Kind, Layout, Link, PHYSICAL_BYTES_MAX, split,
};
use katydid_kernels::stamp::CommitStamp;
use std::io::IoSlice;
use std::sync::Arc;

/// One decoder: its name, valid inputs, and the call, which may refuse its input but not panic.
pub type Target = (&'static str, Vec<Vec<u8>>, fn(&[u8]));

const SEGMENT_BYTES: u64 = 8 << 10;
const LOG_ID: Id = Id::new(0x10b);

/// Returns the decoders of this crate that are fuzzed.
pub fn fuzz_targets() -> Vec<Target> {
    let geometry = Geometry::new(SEGMENT_BYTES);
    let control = state(3).encode()[..128].to_vec();
    let header = SegmentHeader::new(geometry, LOG_ID, 1, 1).encode()[..128].to_vec();
    vec![
        ("log record", vec![records(Lsn::ZERO, 1), records(Lsn::new(4096), 1)], decode_record),
        ("log control", vec![control], decode_control),
        ("log segment header", vec![header], decode_segment_header),
        ("log", vec![records(Lsn::ZERO, 40)], decode_log),
        ("stream record", streams::sample_records(), streams::decode_record),
        ("streams control", vec![streams::sample_control()], |input| {
            streams::decode_control(&sealed(input, streams::CONTROL_MAGIC));
        }),
        ("consumer place", consumer_samples(), decode_consumer),
    ]
}

fn state(segments: u64) -> ControlState {
    let prepared_end = Geometry::new(SEGMENT_BYTES).base(segments);
    ControlState {
        incarnation: 1,
        prepared_end,
        ..ControlState::new(LOG_ID, crate::LogKind::Disk, SEGMENT_BYTES)
    }
}

/// Returns consecutive records that begin at `from`. Among them are whole records and, if `count`
/// is large enough, first, middle and last fragments.
fn records(from: Lsn, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let kind = if number == 0 { Kind::RESTART } else { Kind::USER };
        let durable = from.plus(bytes.len() as u64 / 2);
        // The payload of record `number` is long enough for the dependencies that its header names.
        let stamp = CommitStamp::new(number as u64);
        let chain = match number % 3 {
            2 => Chain::Commit { stamp, dependencies: number as u16 / 2 },
            _ => Chain::Previous(from),
        };
        let fields =
            HeaderFields { incarnation: 1, kind, txn: number as u64, chain, durable, layout: Layout::InLine };
        let payload = vec![number as u8; number * 13];
        let slices = [&payload[..]];
        let mut previous = Lsn::ZERO;
        for fragment in split(&slices, 256).into_iter().flatten() {
            let prepared = fragment.prepare(&fields, previous);
            previous = from.plus(bytes.len() as u64);
            let end = bytes.len() + prepared.padded();
            bytes.extend_from_slice(&prepared.head(previous));
            fragment.slices().for_each(|slice| bytes.extend_from_slice(slice));
            bytes.resize(end, 0);
        }
    }
    bytes
}

/// Corrects the checksum of the record at the start of `bytes`, and returns the record's padded
/// length; `None` if the length in its header cannot be right.
fn mend(bytes: &mut [u8]) -> Option<usize> {
    let len = read_u32(bytes, 0) as usize;
    let record =
        bytes.get_mut(..len).filter(|record| (HEADER_BYTES..=PHYSICAL_BYTES_MAX).contains(&record.len()))?;
    let mut sum = Sum::new();
    sum.update(&record[0..4]);
    sum.update(&record[16..]);
    record[4..8].copy_from_slice(&sum.finish().to_le_bytes());
    Some(record::padded_len(len))
}

/// Corrects the checksum of each record in the bytes of a log, which begin at position `from`.
/// Bytes do not count as a record, and stay as they are, if their header names another position
/// than the one where they lie.
pub fn mend_records(bytes: &mut [u8], from: Lsn) {
    let mut at = 0;
    while at + HEADER_BYTES <= bytes.len() {
        at += match read_u64(bytes, at + 8) == from.plus(at as u64).get() {
            true => mend(&mut bytes[at..]).unwrap_or(8),
            false => 8,
        };
    }
}

fn decode_record(input: &[u8]) {
    let mut input = input.to_vec();
    for _ in 0..2 {
        let at = Lsn::new(read_u64(&input, 8));
        for layout in [Layout::InLine, Layout::InMemory, Layout::Apart] {
            if let Ok(decoded) = record::decode(&input, at, layout) {
                assert!(decoded.body.len() + HEADER_BYTES <= input.len() && decoded.layout() == layout);
                let _link = Link::decode(decoded.header.part, decoded.body);
            }
        }
        mend(&mut input);
    }
}

/// Returns a sealed block that begins with these bytes.
fn sealed(input: &[u8], magic: &[u8; 8]) -> Box<Block> {
    let mut block = Box::new([0; SEALED_BYTES]);
    let used = input.len().min(SEALED_BYTES);
    block[..used].copy_from_slice(&input[..used]);
    seal(&mut block, magic, FORMAT_VERSION);
    block
}

fn put(directory: &MemoryDirectory, file: &str, bytes: &[u8]) {
    let put =
        |file: Arc<dyn katydid_device::File>| file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable);
    let outcome = directory.open(file, Create::IfMissing, Method::Buffered).and_then(put);
    assert!(outcome.is_ok(), "memory takes everything");
}

/// Inspects a log in which one file has this content.
fn look(file: &str, content: &[u8]) {
    let directory = log_of(&records(Lsn::ZERO, 40));
    put(&directory, file, content);
    if let Ok(inspection) = inspect(&directory)
        && let Ok(reader) = inspection.records()
    {
        reader.for_each(drop);
    }
}

fn decode_control(input: &[u8]) {
    let block = sealed(input, b"KATYDCTL");
    let _state = ControlState::decode(&block);
    let mut newer = block.to_vec();
    newer.extend_from_slice(&block[..]);
    look(CONTROL_NAME, &newer);
}

fn decode_segment_header(input: &[u8]) {
    let block = sealed(input, b"KATYDSEG");
    let _header = SegmentHeader::decode(&block);
    look(&name(1), &block[..]);
}

/// Numbers of streams in the samples. 1 stream needs a block, 480 fill it, and 481 need two.
const CONSUMER_STREAMS: [usize; 3] = [1, 480, 481];
/// Bytes of each block of a consumer's slot that are part of a sample.
const CONSUMER_BYTES: usize = 128;

/// Returns samples of a consumer's slot. A sample is one byte, the index into `CONSUMER_STREAMS`,
/// and then the first `CONSUMER_BYTES` bytes of each block of the slot.
fn consumer_samples() -> Vec<Vec<u8>> {
    let sample = |(nth, streams): (usize, &usize)| {
        let from = (0..*streams as u64).map(|stream| Lsn::new(48 * (stream % 3))).collect();
        let place = ConsumerPlace { seq: 7, bytes_max: 1 << 20, mark: 1 << 63, from };
        let slot = place.encode(LOG_ID);
        let blocks = slot.chunks(SEALED_BYTES).flat_map(|block| &block[..CONSUMER_BYTES]);
        [nth as u8].into_iter().chain(blocks.copied()).collect()
    };
    CONSUMER_STREAMS.iter().enumerate().map(sample).collect()
}

/// Makes a slot from a sample and decodes it. If the slot is for one stream, also opens a log in
/// which a consumer has this slot.
fn decode_consumer(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else { return };
    let streams = CONSUMER_STREAMS[usize::from(first) % CONSUMER_STREAMS.len()];
    let mut slot = Vec::new();
    for block in rest.chunks(CONSUMER_BYTES).take(4) {
        slot.extend_from_slice(&sealed(block, consumers::MAGIC)[..]);
    }
    if let Ok(place) = ConsumerPlace::decode(&slot, LOG_ID, streams) {
        assert_eq!(place.from.len(), streams);
        assert_eq!(ConsumerPlace::decode(&place.encode(LOG_ID), LOG_ID, streams), Ok(place));
    }
    if streams == 1 {
        open_with_consumer(&slot);
    }
}

/// Opens a log in which a consumer has this slot; then reads the consumer's position, moves it, and
/// trims the log.
fn open_with_consumer(slot: &[u8]) {
    let directory = log_of(&records(Lsn::ZERO, 4));
    put(&directory, &format!("{}fuzz", consumers::PREFIX), &[slot, &[0; SEALED_BYTES]].concat());
    let medium = FileOptions { segment_bytes: SEGMENT_BYTES, ring_bytes: 64 << 10, ..FileOptions::default() };
    let options = Options {
        medium: medium.into(),
        run_ahead_bytes: 8 << 10,
        reserve_bytes: 0,
        sessions_max: 1,
        background: crate::Background::Caller,
        ..Options::default()
    };
    let opened = crate::Log::open_in(Arc::new(directory.clone()), options);
    let Ok(log) = opened else { return };
    let end = log.first().recovery().end;
    for consumer in log.consumers() {
        let _acknowledged = log
            .consumer(&consumer.name, consumer.bytes_max, 1, &consumer.from)
            .and_then(|consumer| consumer.acknowledge(2, &[end]))
            .is_ok();
    }
    let _trimmed = log.first().trim(end).is_ok();
    assert!(
        log.consumers().iter().all(|consumer| consumer.is_lost || consumer.from[0] >= log.first().start())
    );
    let _closed = log.close().is_ok();
}

/// Returns a log whose segments hold these bytes.
fn log_of(content: &[u8]) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    let geometry = Geometry::new(SEGMENT_BYTES);
    let mut count = 0;
    for piece in content.chunks(geometry.capacity(0) as usize) {
        let mut bytes = SegmentHeader::new(geometry, LOG_ID, count, 1).encode().to_vec();
        bytes.extend_from_slice(piece);
        bytes.resize(SEGMENT_BYTES as usize, 0);
        put(&directory, &name(count), &bytes);
        count += 1;
    }
    put(&directory, CONTROL_NAME, &[&state(count).encode()[..], &[0; SEALED_BYTES]].concat());
    directory
}

fn decode_log(input: &[u8]) {
    let mut input = input.to_vec();
    input.truncate(64 << 10);
    mend_records(&mut input, Lsn::ZERO);
    let directory = log_of(&input);
    let Ok(inspection) = inspect(&directory) else { return };
    let records = |reader: crate::Reader| reader.filter_map(Result::ok).filter(|r| r.kind.is_user()).count();
    let found = inspection.records().map_or(0, records);
    let options = Options {
        medium: FileOptions { segment_bytes: SEGMENT_BYTES, ..FileOptions::default() }.into(),
        reserve_bytes: 0,
        ..Options::default()
    };
    let directory: Arc<dyn Directory> = Arc::new(directory);
    let opened = crate::medium::open(&directory, &options, &mut NoVisitor);
    assert_eq!(opened.is_ok(), inspection.finding.is_ok(), "inspecting and opening disagree");
    if let (Ok(_), Ok(again)) = (opened, inspect(directory.as_ref())) {
        assert_eq!(again.records().map_or(0, records), found, "opening changed the records");
        assert!(again.finding.is_ok(), "a log once opened opens again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unmutated_log_is_sound_and_a_mended_change_gets_far() {
        let mut content = records(Lsn::ZERO, 40);
        let directory = log_of(&content);
        let inspection = inspect(&directory).unwrap();
        assert!(inspection.finding.is_ok());
        assert_eq!(inspection.records().unwrap().map(Result::unwrap).count(), 40);
        // Changes the transaction of the second record.
        content[48 + 24] ^= 1;
        assert!(inspect(&log_of(&content)).unwrap().finding.is_err());
        mend(&mut content[48..]);
        assert!(inspect(&log_of(&content)).unwrap().finding.is_ok());
    }
}
