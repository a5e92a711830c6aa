//! Tests of checkpoints: written rows are read back, errors name the damage, and a crash leaves the
//! former checkpoint or the new one.

use super::*;
use crate::control::{Control, ControlFile};
use crate::error::Foreign;
use crate::ids::TableId;
use crate::memory::checkpoint::block::{BLOCK, HEAD, Head, Kind, checksum};
use crate::memory::checkpoint::manifest::mend;
use crate::{KEY_BYTES_MAX, Lsn, VALUE_BYTES_MAX};
use katydid_device::{Create, Gate, Id, MemoryDirectory, SimDevice, WriteMode};
use katydid_wal::Background;
use std::io::IoSlice;

const DATABASE: Id = Id::new(0x1122_3344_5566_7788_99AA_BBCC_DDEE_FF00);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    table: u32,
    timestamp: u64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Owned {
    fn row(&self) -> Row<'_> {
        Row {
            table: TableId::new(self.table),
            timestamp: self.timestamp,
            key: &self.key,
            value: self.value.as_deref(),
        }
    }
}

fn manifest(parts: Vec<PartSummary>) -> Manifest {
    Manifest { next_table: 9, greatest: 77 << 12, from: vec![Lsn::new(100), Lsn::new(0), Lsn::new(7)], parts }
}

/// Writes a checkpoint of these parts, one thread for each.
fn write(folder: &CheckpointFolder, number: u64, parts: &[Vec<Owned>]) -> Result<()> {
    let writer = folder.begin(number)?;
    let summaries: Result<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .iter()
            .map(|rows| {
                let mut part = writer.part()?;
                Ok(scope.spawn(move || {
                    rows.iter().try_for_each(|row| part.push(&row.row()))?;
                    part.finish()
                }))
            })
            .collect::<Result<_>>()?;
        threads.into_iter().map(|thread| thread.join().expect("a part's thread")).collect()
    });
    // `finish` takes the parts in any order.
    let mut summaries = summaries?;
    summaries.reverse();
    writer.finish(manifest(summaries))
}

fn read_part(reader: &CheckpointReader, summary: PartSummary) -> Result<Vec<Owned>> {
    let mut part: PartReader = reader.part(summary)?;
    let mut rows = Vec::new();
    while let Some(row) = part.next_row()? {
        rows.push(Owned {
            table: row.table.get(),
            timestamp: row.timestamp,
            key: row.key.to_vec(),
            value: row.value.map(<[u8]>::to_vec),
        });
    }
    assert!(part.next_row()?.is_none(), "a part that has ended goes on");
    Ok(rows)
}

fn read(folder: &CheckpointFolder, number: u64) -> Result<Vec<Vec<Owned>>> {
    let reader = folder.read(number)?;
    reader.manifest().parts.iter().map(|summary| read_part(&reader, *summary)).collect()
}

/// Copies a checkpoint to a database of another id. Returns the rows of the copy, which is sound.
fn copied(folder: &CheckpointFolder, number: u64, background: Background) -> Result<Vec<Vec<Owned>>> {
    let directory = MemoryDirectory::new();
    let target = CheckpointFolder::create(&directory, Method::Direct, Id::new(!DATABASE.get()))?;
    let (reader, mut bytes) = (folder.read(number)?, 0);
    reader.copy(target.begin(number)?, background, &mut |more| {
        bytes += more;
        Ok(())
    })?;
    let copy = target.read(number)?;
    assert_eq!(copy.manifest(), reader.manifest());
    assert_eq!(bytes, copy.manifest().parts.iter().map(|part| part.bytes).sum::<u64>());
    Ok(read(&target, number).expect("damage is found before it is copied"))
}

fn folder(directory: &dyn Directory) -> CheckpointFolder {
    CheckpointFolder::create(directory, Method::Direct, DATABASE).expect("the folder")
}

fn few(tag: u8) -> Vec<Vec<Owned>> {
    let row = |table, key: &[u8], value: Option<&[u8]>| Owned {
        table,
        timestamp: u64::from(tag) << 12 | 5,
        key: key.to_vec(),
        value: value.map(<[u8]>::to_vec),
    };
    vec![
        vec![row(1, b"", Some(b"the empty key")), row(1, b"apple", Some(&[tag])), row(2, b"gone", None)],
        vec![row(3, b"pear", Some(b""))],
    ]
}

#[test]
fn what_is_written_is_read() {
    let seed = std::env::var("KATYDID_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("KATYDID_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 1..40 {
        let directory = MemoryDirectory::new();
        let folder = folder(&directory);
        let mut row = |longest: usize| {
            let longest_key = if rng.u32(0..9) == 0 { KEY_BYTES_MAX } else { 20 };
            let key_bytes = rng.usize(0..=longest_key);
            let length = if rng.u32(0..50) == 0 { rng.usize(0..longest) } else { rng.usize(0..300) };
            Owned {
                table: rng.u32(..),
                timestamp: rng.u64(..),
                key: (0..key_bytes).map(|_| rng.u8(..)).collect(),
                value: (rng.u32(0..5) > 0).then(|| vec![rng.u8(..); length]),
            }
        };
        let parts: Vec<Vec<Owned>> =
            (0..round % 5).map(|part| (0..part * 700 + round % 3).map(|_| row(600_000)).collect()).collect();
        write(&folder, round as u64, &parts).expect("write");
        assert!(read(&folder, round as u64).expect("read") == parts, "round {round}");
        for background in [Background::Caller, Background::Threads] {
            assert!(copied(&folder, round as u64, background).expect("copy") == parts, "round {round}");
        }
        let reader = folder.read(round as u64).expect("read");
        let summaries = reader.manifest().parts.clone();
        assert_eq!(summaries.iter().map(|part| part.rows as usize).collect::<Vec<_>>(), {
            parts.iter().map(Vec::len).collect::<Vec<_>>()
        });
        assert_eq!(*reader.manifest(), manifest(summaries));
    }
}

#[test]
fn a_manifest_holds_high_positions() {
    let directory = MemoryDirectory::new();
    let folder = folder(&directory);
    let writer = folder.begin(1).expect("begin");
    let summary = writer.part().expect("a part").finish().expect("finish");
    let from = vec![Lsn::new((1 << 32) + 8), Lsn::new(1 << 61)];
    writer.finish(Manifest { from: from.clone(), ..manifest(vec![summary]) }).expect("finish");
    assert_eq!(folder.read(1).expect("complete").manifest().from, from);
}

#[test]
fn the_longest_row_and_full_blocks_fit() {
    let directory = MemoryDirectory::new();
    let existing = || CheckpointFolder::existing(&directory, Method::Direct, DATABASE).expect("look");
    assert!(existing().is_none());
    let folder = folder(&directory);
    let row = |value_bytes| Owned {
        table: 1,
        timestamp: 1,
        key: vec![1; KEY_BYTES_MAX],
        value: Some(vec![2; value_bytes]),
    };
    let rest = BLOCK - HEAD - block::ROW_HEAD - KEY_BYTES_MAX;
    let rows = [rest - 1, rest, rest + 1, VALUE_BYTES_MAX, 0, rest].map(row).to_vec();
    write(&folder, 1, std::slice::from_ref(&rows)).expect("write");
    let found = existing().expect("the folder");
    assert!(copied(&found, 1, Background::Caller).expect("copy") == std::slice::from_ref(&rows));
    assert!(read(&found, 1).expect("read") == [rows]);
}

fn bytes_of(directory: &dyn Directory, name: &str) -> Vec<u8> {
    let file = directory.open_read_only(name).expect("open");
    let mut bytes = vec![0; file.len().expect("len") as usize];
    assert_eq!(file.read_at(&mut bytes, 0).expect("read"), bytes.len());
    bytes
}

fn replace(directory: &dyn Directory, name: &str, bytes: &[u8]) {
    let file = directory.open(name, Create::IfMissing, Method::Buffered).expect("open");
    file.truncate(0).expect("truncate");
    file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable).expect("write");
}

#[test]
fn format_1_is_still_read_and_written() {
    let directory = MemoryDirectory::new();
    let folder = folder(&directory);
    write(&folder, 3, &few(1)).expect("write");
    let part = include_bytes!("../../../tests/fixtures/checkpoint-part-v1");
    let manifest = include_bytes!("../../../tests/fixtures/checkpoint-manifest-v1");
    assert!(bytes_of(folder.directory.as_ref(), "part-000003-000") == part);
    assert!(bytes_of(folder.directory.as_ref(), "manifest-000003") == manifest);
    replace(folder.directory.as_ref(), "part-000003-000", part);
    replace(folder.directory.as_ref(), "manifest-000003", manifest);
    assert_eq!(read(&folder, 3).expect("read"), few(1));
}

fn assert_named(outcome: Result<Vec<Vec<Owned>>>, name: &str, what: &str) {
    match outcome {
        Err(Error::Corrupt { place, .. }) => assert!(place.starts_with(name), "{what}: {place}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn every_damaged_byte_and_every_truncation_is_found_and_named() {
    let directory = MemoryDirectory::new();
    let folder = folder(&directory);
    write(&folder, 1, &few(1)).expect("write");
    let inner = folder.directory.clone();
    for name in ["part-000001-000", "manifest-000001"] {
        let whole = bytes_of(inner.as_ref(), name);
        for at in 0..whole.len() {
            // No checksum covers the free bytes behind the payload of a block.
            let is_free = name.starts_with("part")
                && at >= 4096
                && whole[at..(at / 4096 + 1) * 4096].iter().all(|b| *b == 0);
            if is_free && at % 4096 != 4095 {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            replace(inner.as_ref(), name, &bytes);
            for outcome in [read(&folder, 1), copied(&folder, 1, Background::Caller)] {
                match outcome {
                    Ok(rows) => assert!(is_free && rows == few(1), "{name} at {at}"),
                    outcome => assert_named(outcome, name, &format!("{name} at {at}")),
                }
            }
        }
        for length in (0..whole.len()).filter(|length| length % 97 == 0 || length % 4096 < 3) {
            replace(inner.as_ref(), name, &whole[..length]);
            for outcome in [read(&folder, 1), copied(&folder, 1, Background::Caller)] {
                assert_named(outcome, name, &format!("{name} of {length} bytes"));
            }
        }
        replace(inner.as_ref(), name, &[&whole[..], &[0]].concat());
        assert_named(read(&folder, 1), name, "one byte more");
        inner.remove(name).expect("remove");
        assert_named(read(&folder, 1), name, "a file is missing");
        replace(inner.as_ref(), name, &whole);
    }
    assert_eq!(read(&folder, 1).expect("mended"), few(1));
}

#[test]
fn a_length_that_is_not_there_is_refused_before_it_is_allocated() {
    let directory = MemoryDirectory::new();
    let folder = folder(&directory);
    write(&folder, 1, &few(1)).expect("write");
    let whole = bytes_of(folder.directory.as_ref(), "part-000001-000");
    let identity = Identity { database: DATABASE, number: 1 };
    for payload_bytes in [1 << 20, VALUE_BYTES_MAX as u32, u32::MAX] {
        let mut bytes = whole.clone();
        let head = Head { kind: Kind::Rows, part: 0, number: 0, payload_bytes, rows: 1, payload_sum: 0 };
        head.encode(&mut bytes[4096..], identity);
        replace(folder.directory.as_ref(), "part-000001-000", &bytes);
        for outcome in [read(&folder, 1), copied(&folder, 1, Background::Caller)] {
            assert_named(outcome, "part-000001-000 at 4096", "a long block");
        }
    }
    // The checksums match, but the number of rows or the payload length is wrong.
    for (rows, payload_bytes) in [(2, 60), (4, 60), (3, 59), (3, 10)] {
        let mut bytes = whole.clone();
        let payload_sum = checksum(&bytes[4096 + HEAD..][..payload_bytes as usize]);
        let head = Head { kind: Kind::Rows, part: 0, number: 0, payload_bytes, rows, payload_sum };
        head.encode(&mut bytes[4096..], identity);
        replace(folder.directory.as_ref(), "part-000001-000", &bytes);
        assert_named(read(&folder, 1), "part-000001-000", &format!("{rows} rows in {payload_bytes} bytes"));
        // A copy compares the numbers of rows, and does not decode the rows.
        if rows != 3 {
            let outcome = copied(&folder, 1, Background::Caller);
            assert_named(outcome, "part-000001-000", &format!("copying {rows} rows"));
        }
    }
}

#[test]
fn foreign_and_newer_files_are_distinguished() {
    let directory = MemoryDirectory::new();
    let ours = folder(&directory);
    write(&ours, 1, &few(1)).expect("write");
    write(&ours, 2, &few(2)).expect("write");
    let inner = ours.directory.clone();
    let other = CheckpointFolder { database: Id::new(7), ..ours.clone() };
    let is_identity = |outcome: Result<Vec<Vec<Owned>>>, name: &str| match outcome {
        Err(Error::Foreign { what: Foreign::Identity(found), .. }) => assert_eq!(found, name),
        other => panic!("{other:?}"),
    };
    is_identity(read(&other, 1), "manifest-000001");
    let [first, second] = ["part-000001-000", "part-000002-000"].map(|name| bytes_of(inner.as_ref(), name));
    replace(inner.as_ref(), "part-000001-000", &second);
    is_identity(read(&ours, 1), "part-000001-000");
    is_identity(copied(&ours, 1, Background::Caller), "part-000001-000");
    // The block comes from the other checkpoint's part, at the same offset.
    let mixed = [&first[..4096], &second[4096..]].concat();
    replace(inner.as_ref(), "part-000001-000", &mixed);
    for outcome in [read(&ours, 1), copied(&ours, 1, Background::Caller)] {
        assert_named(outcome, "part-000001-000 at 4096", "a block of another checkpoint");
    }
    let mut newer = bytes_of(inner.as_ref(), "manifest-000002");
    newer[8] = 2;
    mend(&mut newer);
    replace(inner.as_ref(), "manifest-000002", &newer);
    match read(&ours, 2) {
        Err(Error::Foreign { what: Foreign::NewerVersion { found: 2, known: 1, .. }, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_checkpoint_has_no_more_parts_than_its_manifest_has_room_for() {
    let directory = MemoryDirectory::new();
    let folder = folder(&directory);
    let parts: Vec<Vec<Owned>> = few(1)[1..].iter().cycle().take(PARTS_MAX).cloned().collect();
    write(&folder, 1, &parts).expect("write");
    assert!(read(&folder, 1).expect("read") == parts);
    let one_more = [&parts[..], &few(1)[1..]].concat();
    assert!(matches!(write(&folder, 2, &one_more), Err(Error::Internal(_))));
    let unfinished = folder.begin(3).expect("begin");
    let _part = unfinished.part().expect("a part");
    assert!(matches!(unfinished.finish(manifest(Vec::new())), Err(Error::Internal(_))));
}

#[test]
fn a_full_device_refuses_a_checkpoint_and_shuts_nothing() {
    let device = SimDevice::new(1);
    let (directory, gate) = Gate::wrap(device.directory());
    let folder = folder(directory.as_ref());
    write(&folder, 1, &few(1)).expect("write");
    let rows = |tag: u8| {
        let row = |n: u32| Owned {
            table: 1,
            timestamp: 1,
            key: n.to_le_bytes().to_vec(),
            value: Some(vec![tag; 1000]),
        };
        vec![(0..2000).map(row).collect::<Vec<_>>()]
    };
    let mut refused = 0;
    for capacity in (0..40).map(|step| device.used() + step * 64 * 1024 + 100) {
        device.set_capacity(capacity);
        let outcome = write(&folder, 2, &rows(2));
        assert!(!gate.is_shut(), "{outcome:?}");
        match outcome {
            Err(error) => assert!(error.is_no_space(), "{error}"),
            Ok(()) => break,
        }
        refused += 1;
        folder.remove_all_but(&[1]).expect("remove what is unfinished");
        assert_eq!(read(&folder, 1).expect("the former one"), few(1));
    }
    assert!((1..40).contains(&refused), "{refused} attempts refused");
    assert!(read(&folder, 2).expect("the new one") == rows(2));
}

#[test]
fn what_an_attempt_has_left_is_not_part_of_the_next_one() {
    let directory = MemoryDirectory::new();
    let folder = folder(&directory);
    let writer = folder.begin(2).expect("begin");
    // The first attempt leaves two parts and no manifest, as after a failed removal of the parts.
    for rows in few(1) {
        let mut part: PartWriter = writer.part().expect("a part");
        rows.iter().try_for_each(|row| part.push(&row.row())).expect("push");
        part.finish().expect("finish");
    }
    drop(writer);
    let parts = folder.directory.list().expect("list");
    assert_eq!(parts.len(), 2, "{parts:?}");
    write(&folder, 2, &few(2)[1..]).expect("write");
    assert_eq!(read(&folder, 2).expect("complete"), few(2)[1..]);
    let names = folder.directory.list().expect("list");
    assert_eq!(names.len(), 2, "one part and its manifest: {names:?}");
}

/// Takes the second checkpoint as the engine does, including the removal of the first one's files.
fn second(directory: &dyn Directory) -> Result<()> {
    let Some(control) = ControlFile::open(directory, Method::Direct)? else { panic!("no control file") };
    let folder = CheckpointFolder::create(directory, Method::Direct, DATABASE)?;
    let writer = folder.begin(2)?;
    let mut summaries = Vec::new();
    for rows in few(2) {
        let mut part: PartWriter = writer.part()?;
        for row in &rows {
            part.push(&row.row())?;
        }
        summaries.push(part.finish()?);
    }
    writer.finish(manifest(summaries))?;
    control.update(|control| control.checkpoint_number = 2)?;
    folder.remove_all_but(&[2])?;
    Ok(())
}

#[test]
fn a_crash_at_any_call_leaves_the_former_checkpoint_or_the_new_one() {
    let prepared = || {
        let device = SimDevice::new(1);
        let directory = device.directory();
        write(&folder(directory.as_ref()), 1, &few(1)[..1]).expect("the first checkpoint");
        let control = Control { checkpoint_number: 1, ..Control::memory(DATABASE, 1) };
        ControlFile::create(directory.as_ref(), Method::Direct, control).expect("control");
        device
    };
    let (begin, end) = {
        let device = prepared();
        let begin = device.steps();
        second(device.directory().as_ref()).expect("no crash");
        (begin, device.steps())
    };
    let mut left = [0; 3];
    for step in begin..end {
        for seed in 0..12 {
            let device = prepared();
            device.crash_at(step);
            second(device.directory().as_ref()).expect_err("the device crashes");
            let again = device.reopen_after_crash(seed);
            let directory = again.directory();
            let control =
                ControlFile::open(directory.as_ref(), Method::Direct).expect("valid").expect("there");
            let number = control.get().checkpoint_number;
            left[number as usize] += 1;
            let folder = folder(directory.as_ref());
            folder.remove_all_but(&[number]).expect("remove the rest");
            let expected = if number == 1 { few(1)[..1].to_vec() } else { few(2) };
            assert_eq!(read(&folder, number).expect("complete"), expected, "step {step}, crash {seed}");
            let names = folder.directory.list().expect("list");
            assert!(names.iter().all(|name| number_of(name) == Some(number)), "{names:?}");
            if number == 1 {
                second(directory.as_ref()).expect("the next attempt");
                assert_eq!(read(&folder, 2).expect("complete"), few(2));
            }
        }
    }
    assert!(left[1] > 0 && left[2] > 0, "{left:?}");
}
