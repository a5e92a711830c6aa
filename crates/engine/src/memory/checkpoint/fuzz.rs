//! Fuzz targets for the decoders of checkpoints. A decoder may refuse mutated bytes, but must not
//! panic.

use super::block::{HEAD, Head, Kind, checksum, decode_row};
use super::manifest::{Identity, MANIFEST, Manifest, PART_HEAD, encode_part, mend};
use super::{CheckpointFolder, PartSummary, part_name};
use katydid_device::{Create, Id, MemoryDirectory, Method, WriteMode};
use std::io::IoSlice;

const PART: &[u8] = include_bytes!("../../../tests/fixtures/checkpoint-part-v1");
const MANIFEST_SAMPLE: &[u8] = include_bytes!("../../../tests/fixtures/checkpoint-manifest-v1");
const IDENTITY: Identity =
    Identity { database: Id::new(0x1122_3344_5566_7788_99AA_BBCC_DDEE_FF00), number: 3 };

/// Valid payloads of blocks.
pub(crate) fn rows_samples() -> Vec<Vec<u8>> {
    vec![PART[PART_HEAD + HEAD..][..83].to_vec()]
}

/// Decodes the payload of a block, and reads a part whose only block of rows has this payload and
/// matching checksums.
pub(crate) fn rows(input: &[u8]) {
    let (mut rest, mut count) = (input, 0);
    while let Ok((_, behind)) = decode_row(rest) {
        (rest, count) = (behind, count + 1);
    }
    let end = (HEAD + input.len()).next_multiple_of(4096);
    let mut bytes = vec![0; PART_HEAD + end + 4096];
    encode_part(&mut bytes[..PART_HEAD], IDENTITY, 0);
    let block = &mut bytes[PART_HEAD..];
    block[HEAD..HEAD + input.len()].copy_from_slice(input);
    let payload_bytes = input.len() as u32;
    let head = Head {
        kind: Kind::Rows,
        part: 0,
        number: 0,
        payload_bytes,
        rows: count,
        payload_sum: checksum(input),
    };
    head.encode(block, IDENTITY);
    let rows = u64::from(count).to_le_bytes();
    block[end + HEAD..end + HEAD + 8].copy_from_slice(&rows);
    let head =
        Head { kind: Kind::End, number: 1, payload_bytes: 8, rows: 0, payload_sum: checksum(&rows), ..head };
    head.encode(&mut block[end..], IDENTITY);
    read_part(&bytes, u64::from(count));
}

/// Valid manifests.
pub(crate) fn manifest_samples() -> Vec<Vec<u8>> {
    vec![MANIFEST_SAMPLE.to_vec()]
}

/// Decodes `input` as a manifest, after mending its checksum.
pub(crate) fn manifest(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(MANIFEST, 0);
    mend(&mut bytes);
    let _decoded = Manifest::decode(&bytes, IDENTITY).is_ok();
}

/// Valid parts.
pub(crate) fn part_samples() -> Vec<Vec<u8>> {
    vec![PART.to_vec()]
}

/// Reads a part without mending checksums.
pub(crate) fn part(input: &[u8]) {
    read_part(input, 3);
}

fn read_part(bytes: &[u8], rows: u64) {
    let directory = MemoryDirectory::new();
    let Ok(folder) = CheckpointFolder::create(&directory, Method::Buffered, IDENTITY.database) else {
        return;
    };
    let put = |name: &str, bytes: &[u8]| {
        let file = folder.directory.open(name, Create::New, Method::Buffered)?;
        file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable)
    };
    let written = put("manifest-000003", MANIFEST_SAMPLE).and_then(|()| put(&part_name(3, 0), bytes));
    let (Ok(()), Ok(reader)) = (written, folder.read(3)) else { return };
    let Ok(mut part) = reader.part(PartSummary { part: 0, rows, bytes: bytes.len() as u64 }) else { return };
    while let Ok(Some(_)) = part.next_row() {}
}
