//! Damage that no crash causes must be refused, with an error that names the kind of damage.

use super::bench::{Bytes, Writer, bytes_of, directory_of, memory, options, payload, place, refusal};
use crate::error::{OpenError, ReadError};
use crate::medium::open;
use crate::reader::{Reader, RecordFilter, read_record};
use crate::recover::scan::NoVisitor;
use crate::seal::{Block, SEALED_BYTES, seal};
use crate::segment::header::name;
use katydid_device::{
    Cause, Create, Directory, Id, MemoryDirectory, Method, SimDevice, StripedDirectory, WriteMode,
};
use katydid_kernels::lsn::Lsn;
use std::io::IoSlice;
use std::sync::Arc;

/// Returns a closed log of several segments, and the LSNs of its records.
fn sample() -> (Bytes, Vec<Lsn>) {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let lsns = (0..150).map(|number| log.commit(&payload(number, 250)).unwrap()).collect();
    log.close().unwrap();
    (bytes_of(directory.as_ref()), lsns)
}

fn flip(image: &Bytes, at: Lsn, bytes: usize) -> Bytes {
    let mut image = image.clone();
    for step in 0..bytes as u64 {
        let (name, offset) = place(at.plus(step));
        image.get_mut(&name).unwrap()[offset] ^= 0x55;
    }
    image
}

#[test]
fn a_damaged_record_below_the_durable_frontier_is_never_cut_off() {
    let (image, lsns) = sample();
    for (number, &lsn) in lsns.iter().enumerate() {
        for (skip, bytes) in [(number as u64 % 290, 1), (0, 48), (8, 8), (0, 290)] {
            match refusal(&flip(&image, lsn.plus(skip), bytes)) {
                OpenError::CorruptBelowDurable { at, file, durable } => {
                    assert_eq!((at, file), (lsn, place(lsn).0));
                    assert!(durable > lsn);
                }
                other => panic!("record {number}: {other}"),
            }
        }
    }
}

/// After a clean close nothing follows the last record, and the loss of that record is noticed
/// nevertheless.
#[test]
fn losing_the_last_block_of_a_closed_log_is_noticed() {
    let (mut image, lsns) = sample();
    let (file, offset) = place(lsns[149].floor_block());
    image.get_mut(&file).unwrap()[offset..].fill(0);
    assert!(matches!(refusal(&image), OpenError::CorruptBelowDurable { .. }));
}

/// A log that was closed is opened and written again. The record that closing wrote is not the end
/// any more, even if it is the last readable record.
#[test]
fn damage_behind_what_an_earlier_closing_wrote_is_noticed() {
    let (image, _) = sample();
    let directory = directory_of(&image);
    let mut log = Writer::open(&directory).unwrap();
    let restart = log.opened.end;
    for number in 0..20 {
        log.commit(&payload(number, 250)).unwrap();
    }
    let image = bytes_of(directory.as_ref());
    for (skip, bytes) in [(0, 48), (8, 8), (20, 1)] {
        match refusal(&flip(&image, restart.plus(skip), bytes)) {
            OpenError::CorruptBelowDurable { at, .. } => assert_eq!(at, restart),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_zeroed_stretch_below_the_durable_frontier_is_never_the_end() {
    let (image, lsns) = sample();
    let mut image = image;
    let all: Vec<String> = image.keys().filter(|file| file.as_str() != "log.control").cloned().collect();
    // All bytes between two records, over several segments, become zeros. Opening must not take
    // them for the end of the log.
    let (from, to) = (lsns[20], lsns[140]);
    for file in &all {
        let bytes = image.get_mut(file).unwrap();
        let index = u64::from_str_radix(&file[4..], 16).unwrap();
        for (offset, byte) in bytes[SEALED_BYTES..].iter_mut().enumerate() {
            let at = index * (12 << 10) + offset as u64;
            if (from.get()..to.get()).contains(&at) {
                *byte = 0;
            }
        }
    }
    assert!(matches!(refusal(&image), OpenError::CorruptBelowDurable { at, .. } if at == from));
}

#[test]
fn missing_segments_are_named() {
    let (image, lsns) = sample();
    let last = image.keys().filter(|file| file.as_str() != "log.control").max().cloned().unwrap();
    let (first_name, middle_name) = (name(0), name(1));
    for file in [&first_name, &middle_name, &last] {
        let mut image = image.clone();
        image.remove(file).unwrap();
        match refusal(&image) {
            OpenError::MissingSegment { file: missing, .. } => assert_eq!(missing, *file),
            other => panic!("{file}: {other}"),
        }
    }
    let mut image = image;
    image.retain(|file, _| file == "log.control");
    assert!(matches!(refusal(&image), OpenError::MissingSegment { file, .. } if file == first_name));
    assert!(lsns.len() > 100);
}

#[test]
fn a_missing_or_damaged_control_file_is_not_replaced() {
    let (mut image, _) = sample();
    let control = image.remove("log.control").unwrap();
    assert!(matches!(refusal(&image), OpenError::MissingControl { .. }));
    image.insert("log.control".to_owned(), vec![0xaa; control.len()]);
    assert!(matches!(refusal(&image), OpenError::CorruptControl { .. }));
    image.insert("log.control".to_owned(), vec![0; control.len()]);
    assert!(matches!(refusal(&image), OpenError::CorruptControl { .. }));
    image.insert("log.control".to_owned(), Vec::new());
    assert!(matches!(refusal(&image), OpenError::CorruptControl { .. }));
}

/// The newer slot of the control file is damaged, so opening uses the older slot. The incarnation
/// that only the newer slot names is not used again.
#[test]
fn an_incarnation_is_not_given_out_twice_when_a_slot_decays() {
    for slot in [0, 1] {
        let (image, lsns) = sample();
        let directory = directory_of(&image);
        let log = Writer::open(&directory).unwrap();
        let last = log.incarnation;
        drop(log);
        let mut image = bytes_of(directory.as_ref());
        image.get_mut("log.control").unwrap()[slot * SEALED_BYTES + 20] ^= 1;
        let directory = directory_of(&image);
        let log = Writer::open(&directory).unwrap();
        assert!(log.incarnation > last);
        assert_eq!(log.payloads().len(), lsns.len());
    }
}

fn resealed(image: &Bytes, file: &str, at: usize, magic: &[u8; 8], version: u32) -> Bytes {
    let mut image = image.clone();
    let bytes = image.get_mut(file).unwrap();
    let block: &mut Block = bytes[at..at + SEALED_BYTES].first_chunk_mut().unwrap();
    seal(block, magic, version);
    image
}

#[test]
fn another_version_is_refused_wherever_it_is() {
    let (image, _) = sample();
    let middle = name(1);
    for version in [1, 3] {
        match refusal(&resealed(&image, &middle, 0, b"KATYDSEG", version)) {
            OpenError::OtherVersion { file, found, supported: 2, .. } => {
                assert_eq!((file, found), (middle.clone(), version));
            }
            other => panic!("{other}"),
        }
        for slot in [0, SEALED_BYTES] {
            match refusal(&resealed(&image, "log.control", slot, b"KATYDCTL", version)) {
                OpenError::OtherVersion { file, found, supported: 2, .. } => {
                    assert_eq!((file.as_str(), found), ("log.control", version));
                }
                other => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_foreign_segment_is_refused() {
    let (image, _) = sample();
    let (_, directory) = memory();
    let mut other =
        Writer::open_with(&directory, &crate::Options { log_id: Some(Id::new(99)), ..options() }).unwrap();
    for number in 0..100 {
        other.commit(&payload(number, 300)).unwrap();
    }
    let foreign = bytes_of(directory.as_ref());
    let file = name(1);
    let mut mixed = image.clone();
    mixed.insert(file.clone(), foreign[&file].clone());
    match refusal(&mixed) {
        OpenError::ForeignSegment { file: named, expected, found } => {
            assert_eq!((named, expected, found), (file, Id::new(0x5eed), Id::new(99)))
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_damaged_misplaced_or_short_segment_is_refused() {
    let (image, _) = sample();
    let (zeroth, first) = (name(0), name(1));
    let mut damaged = image.clone();
    damaged.get_mut(&first).unwrap()[100] ^= 1;
    let mut misplaced = image.clone();
    misplaced.insert(first.clone(), image[&zeroth].clone());
    let mut short = image.clone();
    short.get_mut(&first).unwrap().truncate(10_000);
    let mut empty = image.clone();
    empty.get_mut(&first).unwrap().clear();
    for (bad, why) in [
        (damaged, "its header is damaged"),
        (misplaced, "its header names another segment"),
        (short, "it is cut short"),
        (empty, "it is too short for a header"),
    ] {
        match refusal(&bad) {
            OpenError::CorruptSegment { file, reason, .. } => {
                assert_eq!((file.as_str(), reason), (first.as_str(), why));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_failing_read_is_not_taken_for_corruption() {
    let device = SimDevice::new(1);
    let directory = device.directory();
    let mut log = Writer::open(&directory).unwrap();
    let expected: Vec<_> = (0..100).map(|number| payload(number, 250)).collect();
    for payload in &expected {
        log.commit(payload).unwrap();
    }
    drop(log);
    for file in ["log.control".to_owned(), name(0), name(1), name(2)] {
        for bytes in [0..1, 5000..5001] {
            device.fail_reads(&file, bytes);
            match open(&directory, &options(), &mut NoVisitor) {
                Err(OpenError::Device(error)) => assert!(matches!(error.cause, Cause::Io(_)), "{error}"),
                other => panic!("{:?}", other.map(|opened| opened.report)),
            }
            device.heal();
        }
    }
    let log = Writer::open(&directory).unwrap();
    assert_eq!(log.incarnation, 2, "failed openings began nothing");
    assert_eq!(log.payloads(), expected);
}

#[test]
fn a_reader_names_the_place_of_damage_and_of_what_is_gone() {
    let (_, directory) = memory();
    let mut log = Writer::open(&directory).unwrap();
    let mut lsns: Vec<Lsn> = (0..60).map(|number| log.commit(&payload(number, 250)).unwrap()).collect();
    lsns.push(log.commit(&payload(60, 9_000)).unwrap());
    let (store, extent) = (log.store.clone(), log.extent());
    for (number, &lsn) in lsns.iter().enumerate() {
        let record = read_record(store.as_ref(), &extent, lsn).unwrap();
        assert_eq!(record.payload, payload(number, record.payload.len()));
        let reader = Reader::new(store.clone(), Arc::new(extent), record.first, RecordFilter::Users).unwrap();
        assert_eq!(reader.count(), lsns.len() - number);
    }
    let wrong = lsns[5].plus(8);
    assert!(
        matches!(read_record(store.as_ref(), &extent, wrong), Err(ReadError::Corrupt { at, .. }) if at == wrong)
    );
    let internal = Lsn::ZERO;
    assert!(matches!(read_record(store.as_ref(), &extent, internal), Err(ReadError::Corrupt { .. })));
    for beyond in [log.end(), log.end().plus(8), Lsn::LIMIT] {
        assert!(matches!(read_record(store.as_ref(), &extent, beyond), Err(ReadError::BeyondEnd { .. })));
    }
    // A record of the open log is damaged now.
    let image = flip(&bytes_of(directory.as_ref()), lsns[30].plus(60), 1);
    let damaged = directory_of(&image);
    let (file, _) = place(lsns[30]);
    directory.remove(&file).unwrap();
    let bad = super::bench::bytes_of(damaged.as_ref());
    let target =
        directory.open(&file, katydid_device::Create::New, katydid_device::Method::Buffered).unwrap();
    target.write_at(&[std::io::IoSlice::new(&bad[&file])], 0, katydid_device::WriteMode::Durable).unwrap();
    let files = crate::inspect::inspect_stream(directory.as_ref()).unwrap();
    assert!(matches!(files.finding, Err(OpenError::CorruptBelowDurable { at, .. }) if at == lsns[30]));
    let mut reader = files.records().unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).filter(|record| record.kind.is_user()).count(), 30);
    // After a trim, reading a position below the new start returns `Trimmed`.
    log.store.trim(lsns[40], log.durable).unwrap();
    let extent = log.extent();
    assert!(
        matches!(read_record(store.as_ref(), &extent, lsns[39]), Err(ReadError::Trimmed { start, .. }) if start == lsns[40])
    );
    assert!(matches!(
        Reader::new(store.clone(), Arc::new(extent), lsns[0], RecordFilter::Users),
        Err(ReadError::Trimmed { .. })
    ));
    assert_eq!(read_record(store.as_ref(), &extent, lsns[40]).unwrap().payload, payload(40, 250));
}

/// Makes two directories. Returns a directory that is striped over them, and the two directories.
fn striped() -> (Arc<dyn Directory>, [Arc<dyn Directory>; 2]) {
    let places = [(); 2].map(|()| Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>);
    (Arc::new(StripedDirectory::open(places.to_vec(), 4096).unwrap()), places)
}

/// Returns the first block of a file, which names its set and its parts.
fn first_block(place: &Arc<dyn Directory>, file: &str) -> Vec<u8> {
    let mut block = vec![0; 4096];
    place.open_read_only(file).unwrap().read_at(&mut block, 0).unwrap();
    block
}

/// A trimmed segment holds nothing that the log needs. If such a segment cannot be opened, the log
/// continues without it.
#[test]
fn a_trimmed_segment_that_cannot_be_opened_is_not_kept_for_reuse() {
    let foreign = || {
        let (directory, places) = striped();
        Writer::open(&directory).unwrap();
        first_block(&places[0], &name(0))
    };
    let of_another_set = |places: &[Arc<dyn Directory>; 2]| {
        let file = places[0].open(&name(0), Create::Never, Method::Buffered).unwrap();
        file.write_at(&[IoSlice::new(&foreign())], 0, WriteMode::Durable).unwrap();
    };
    let without_a_part = |places: &[Arc<dyn Directory>; 2]| {
        let block = first_block(&places[0], &name(0));
        let number = u64::from_le_bytes(block[32..40].try_into().unwrap());
        places[1].remove(&format!("part.{number:016x}")).unwrap();
    };
    for harm in [&of_another_set as &dyn Fn(&[Arc<dyn Directory>; 2]), &without_a_part] {
        let (directory, places) = striped();
        let mut log = Writer::open(&directory).unwrap();
        for number in 0..100 {
            log.commit(&payload(number, 600)).unwrap();
        }
        log.store.trim(log.durable, log.durable).unwrap();
        drop(log);
        harm(&places);
        directory.open(&name(0), Create::Never, Method::Buffered).unwrap_err();
        let mut log = Writer::open(&directory).unwrap();
        for number in 0..100 {
            log.commit(&payload(number, 600)).unwrap();
        }
        assert_eq!(Writer::open(&directory).unwrap().payloads().len(), 100);
    }
}
