//! Test support beyond the API. Background work can be done on the caller's thread, so that runs
//! are reproducible. Each decoder of bytes from a device is wrapped as a function of a byte slice,
//! and has valid samples for a fuzzer to mutate.
//!
//! A decoder may refuse its input; it must not panic, hang, or allocate without bound. If a
//! checksum guards all other bytes, the wrapper first corrects the checksum, because otherwise the
//! decoder would refuse nearly every mutation at once.

use crate::archive::fuzz as archive;
use crate::changes::ChangePosition;
use crate::control::{self, Control, ControlFile, Shutdown};
use crate::directory::LOG_FOLDER;
use crate::memory::checkpoint::{CheckpointFolder, Manifest, fuzz};
use crate::paged::change::{
    ChangeKind, LeafChange, LeafOp, PartsWriter, apply_leaf, apply_part, decode_chain_free, decode_parts,
    encode_chain_free, pages_of, undo_of,
};
use crate::paged::double_write::{self, DoubleWrite};
use crate::paged::log_record::{
    ActiveEntry, CheckpointEnd, State, decode_active, decode_chains, decode_checkpoint_end,
    decode_compensation, decode_pages, encode_active, encode_chains, encode_checkpoint_end, encode_pages,
};
use crate::paged::page::{PageId, Value, check_structure, header};
use crate::{BackupOptions, Database, EngineKind, Lsn, Options, RestorePoint, TableId, TxnId};
use katydid_device::{Create, Directory, Id, MemoryDirectory, Method, SimDevice, Watch, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

pub use katydid_wal::Background;

/// Does the background work that is due, on a database that was opened with [`Background::Caller`]:
/// writes and syncs the log, prepares segments, takes checkpoints and writes pages back. Does
/// nothing on any other database.
pub fn run_background(database: &Database) {
    database.run_background();
}

/// Returns whether a thread that closes the database sleeps because calls of other threads are
/// under way.
pub fn close_waits(database: &Database) -> bool {
    database.opening().close_waits()
}

/// Returns the shard of the calling thread. The shard modulo the number of streams is the stream of
/// the log that the thread's transactions use.
pub fn number_of_thread() -> usize {
    crate::shard::shard_of_thread()
}

/// Opens a database with a watch over its device. The test moves the clock of the watch.
///
/// # Errors
/// The errors of [`Database::open_in`].
pub fn open_watched(
    directory: Arc<dyn Directory>,
    options: Options,
    watch: Watch,
) -> crate::Result<Database> {
    Database::open_watched(directory, options, watch)
}

/// First positions and numbers of a database, instead of the lowest ones.
#[derive(Debug, Clone, Copy)]
pub struct Beginning {
    /// First position of the log, or of each of its streams: a multiple of 8.
    pub position: u64,
    /// Paged engine: the number of the next transaction.
    pub transaction: u64,
    /// The number of the next table.
    pub table: u32,
}

/// Sets the first positions and numbers of a database that was created, closed and never written.
/// The new values hold from the next opening on. The database must not be open.
///
/// # Errors
/// `Error::NotFound` if there is no database; `Error::LogOpen`, `Error::Device`.
///
/// # Panics
/// If the position is not one that a log can have.
pub fn begin_at(directory: &dyn Directory, beginning: Beginning) -> crate::Result<()> {
    let none = || crate::Error::NotFound { place: directory.describe() };
    let control = ControlFile::open(directory, Method::Buffered)?.ok_or_else(none)?;
    let log = directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(none)?;
    let position = Lsn::new(beginning.position);
    let Control { engine, streams, database, checkpoint_number, .. } = control.get();
    if engine == EngineKind::Paged {
        katydid_wal::testing::begin_at(log.as_ref(), position)?;
        return control.update(|control| {
            control.shutdown = Shutdown::Unclean;
            control.checkpoint = Lsn::ZERO;
            control.next_transaction = beginning.transaction;
            control.next_table = beginning.table;
        });
    }
    for stream in 0..streams {
        match log.existing_subdirectory(&format!("stream-{stream:03}"))? {
            Some(folder) => katydid_wal::testing::begin_at(folder.as_ref(), position)?,
            None if streams == 1 => katydid_wal::testing::begin_at(log.as_ref(), position)?,
            None => return Err(none()),
        }
    }
    // A log whose start was trimmed needs a checkpoint.
    let folder = CheckpointFolder::existing(directory, Method::Buffered, database)?.ok_or_else(none)?;
    let writer = folder.begin(checkpoint_number + 1)?;
    let parts = vec![writer.part()?.finish()?];
    let from = vec![position; streams.into()];
    writer.finish(Manifest { next_table: beginning.table, greatest: 0, from, parts })?;
    control.update(|control| {
        control.shutdown = Shutdown::Unclean;
        control.checkpoint_number += 1;
        control.next_table = beginning.table;
    })
}

/// A decoder: its name, valid inputs, and the function, which may refuse its input but must not
/// panic.
pub type Target = (&'static str, Vec<Vec<u8>>, fn(&[u8]));

const PAGES: &[u8] = include_bytes!("../tests/fixtures/pages-v1");
const CONTROL: &[u8] = include_bytes!("../tests/fixtures/control-v1");
const CONTROL_OF_MEMORY: &[u8] = include_bytes!("../tests/fixtures/control-v2");
const DOUBLE_WRITE: &[u8] = include_bytes!("../tests/fixtures/doublewrite-v1");
/// A file in `tests/fixtures`: its name in the folder of a backup, and its bytes.
macro_rules! kept {
    ($folder:literal, $name:literal) => {
        ($name, include_bytes!(concat!("../tests/fixtures/", $folder, "/backup/", $name)).as_slice())
    };
}

/// The file of an archive for each version of the format. [`BACKUPS`] has the backups whose logs
/// these archives continue.
const ARCHIVED: [&[u8]; 2] = [
    include_bytes!("../tests/fixtures/archive-v1/archive/00000000000000a8-0000000000003578.katydid-log"),
    include_bytes!("../tests/fixtures/archive-v2/archive/00000000000001b0-0000000000002670.katydid-log"),
];
const BACKUPS: [&[(&str, &[u8])]; 2] = [
    &[
        kept!("archive-v1", "katydid.backup"),
        kept!("archive-v1", "katydid.control"),
        kept!("archive-v1", "katydid.pages"),
        kept!("archive-v1", "log/log.0000000000000000"),
        kept!("archive-v1", "log/log.control"),
    ],
    &[
        kept!("archive-v2", "katydid.backup"),
        kept!("archive-v2", "katydid.control"),
        kept!("archive-v2", "checkpoints/manifest-000001"),
        kept!("archive-v2", "checkpoints/part-000001-000"),
        kept!("archive-v2", "log/streams.control"),
        kept!("archive-v2", "log/stream-000/log.0000000000000000"),
        kept!("archive-v2", "log/stream-000/log.control"),
        kept!("archive-v2", "log/stream-001/log.0000000000000000"),
        kept!("archive-v2", "log/stream-001/log.control"),
        kept!("archive-v2", "log/stream-002/log.0000000000000000"),
        kept!("archive-v2", "log/stream-002/log.control"),
    ],
];
const PAGE_BYTES: usize = 4096;
const DATABASE: Id = Id::new(1);

/// Returns all decoders of this crate.
pub fn fuzz_targets() -> Vec<Target> {
    let pages: Vec<Vec<u8>> = PAGES.chunks_exact(PAGE_BYTES).map(<[u8]>::to_vec).collect();
    vec![
        ("page", pages, page),
        ("page change", changes(), change),
        ("log bookkeeping", bookkeeping_samples(), bookkeeping),
        ("engine control", vec![CONTROL.to_vec(), CONTROL_OF_MEMORY.to_vec()], engine_control),
        ("double-write area", vec![DOUBLE_WRITE.to_vec()], double_write_area),
        ("checkpoint rows", fuzz::rows_samples(), fuzz::rows),
        ("checkpoint part", fuzz::part_samples(), fuzz::part),
        ("checkpoint manifest", fuzz::manifest_samples(), fuzz::manifest),
        ("archived stretch", archive::stretch_samples(), archive::stretches),
        ("archive", archive::file_samples(), archive::files),
        ("restore to a point", ARCHIVED.map(<[u8]>::to_vec).into(), restore_to_a_point),
        ("change position", positions(), change_position),
    ]
}

/// Corrects the checksum of a page and checks the page. Applies the sample changes to the page if
/// it is sound.
fn page(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(PAGE_BYTES, 0);
    header::seal(&mut bytes);
    if check_structure(&bytes).is_err() {
        return;
    }
    for sample in changes() {
        apply(&sample, &mut bytes.clone());
    }
}

/// Decodes the record of a page change in all ways, and applies it to `page`.
fn apply(record: &[u8], page: &mut [u8]) {
    let Some((&kind, payload)) = record.split_first() else { return };
    let Some(kind) = ChangeKind::decode(16 + kind % 6) else { return };
    let _pages = pages_of(kind, payload).take_while(Result::is_ok).count();
    let _undo = undo_of(kind, payload).is_ok();
    match kind {
        ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate => {
            if let Ok(change) = LeafChange::decode(kind, payload) {
                let _applied = apply_leaf(page, &change).is_ok();
            }
        }
        ChangeKind::ChainWrite | ChangeKind::Structure | ChangeKind::ChainFree => {
            let parts = match kind {
                ChangeKind::ChainFree => decode_chain_free(payload).map_or(&[][..], |(_, parts)| parts),
                _ => payload,
            };
            for part in decode_parts(parts).map_while(Result::ok) {
                let _applied = apply_part(page, part.page, &part.part).is_ok();
            }
        }
    }
}

/// Applies a record of a page change to each of the sample pages.
fn change(input: &[u8]) {
    for sample in PAGES.chunks_exact(PAGE_BYTES) {
        apply(input, &mut sample.to_vec());
    }
}

fn changes() -> Vec<Vec<u8>> {
    let leaf = |op| LeafChange {
        table: TableId::new(7),
        root: PageId::new(9),
        page: PageId::new(11),
        slot: 0,
        key: b"a key",
        op,
    };
    let old = Value::Inline(b"the old value");
    let new = Value::Overflow { head: PageId::new(40), length: 9000 };
    let ops = [
        LeafOp::Insert { new: Value::Inline(b"a value") },
        LeafOp::Delete { old: Some(old) },
        LeafOp::Replace { old: Some(old), new },
        LeafOp::Replace { old: None, new },
    ];
    let mut samples: Vec<Vec<u8>> = ops
        .into_iter()
        .map(|op| {
            let change = leaf(op);
            let mut sample = vec![change.kind().number() - 16];
            change.encode(|pieces| pieces.iter().for_each(|piece| sample.extend_from_slice(piece)));
            sample
        })
        .collect();
    let mut parts = PartsWriter::new();
    parts.inner_insert(PageId::new(5), 1, b"m", PageId::new(6));
    parts.inner_remove(PageId::new(5), 0);
    parts.truncate(PageId::new(6), 1, b"n");
    parts.overflow(PageId::new(8), TableId::new(7), PageId::new(10), b"a piece of a long value");
    parts.map_set(PageId::FIRST_MAP, &[3, 4, 60]);
    parts.map_clear(PageId::FIRST_MAP, &[4]);
    parts.free(PageId::new(8));
    for kind in [ChangeKind::ChainWrite, ChangeKind::Structure] {
        samples.push([&[kind.number() - 16], parts.payload()].concat());
    }
    let head = encode_chain_free(PageId::new(8));
    samples.push([&[ChangeKind::ChainFree.number() - 16], &head[..], parts.payload()].concat());
    samples
}

/// Decodes the input as the payload of each kind of record that belongs to no page.
fn bookkeeping(input: &[u8]) {
    let _checks = (
        decode_compensation(input).is_ok(),
        decode_chains(input).is_ok(),
        decode_pages(input).is_ok(),
        decode_active(input).is_ok(),
        decode_checkpoint_end(input).is_ok(),
    );
}

fn bookkeeping_samples() -> Vec<Vec<u8>> {
    let (txn, first, last) = (TxnId::new(5), Lsn::new(100), Lsn::new(900));
    let mut active = Vec::new();
    for (state, chains) in [(State::Active, vec![]), (State::Committed, vec![7, 9])] {
        encode_active(&ActiveEntry { txn, state, first, last, chains }, &mut active);
    }
    let end = CheckpointEnd { begin: first, next_txn: 6, next_table: 3 };
    vec![
        active,
        encode_chains(&[1, 2, 3]),
        encode_pages(&[(4, first), (5, last)]),
        encode_checkpoint_end(&end),
    ]
}

fn put(directory: &dyn Directory, name: &str, bytes: &[u8]) -> Option<()> {
    let file = directory.open(name, Create::New, Method::Buffered).ok()?;
    file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable).ok()
}

fn directory_with(name: &str, bytes: &[u8]) -> Option<MemoryDirectory> {
    let directory = MemoryDirectory::new();
    put(&directory, name, bytes)?;
    Some(directory)
}

fn engine_control(input: &[u8]) {
    if let Some(directory) = directory_with(control::FILE_NAME, input) {
        let _read = control::read(&directory).is_ok();
    }
}

fn double_write_area(input: &[u8]) {
    let Some(directory) = directory_with(double_write::FILE_NAME, input) else { return };
    let Ok(pages) = directory.open("pages", Create::New, Method::Buffered) else { return };
    if let Ok(area) = DoubleWrite::open(&directory, Method::Buffered, DATABASE, PAGE_BYTES) {
        let _restored = area.restore(pages.as_ref()).is_ok();
    }
}

fn positions() -> Vec<Vec<u8>> {
    ["0@0", "1234@5678", "18446744073709551615@0,48,4611686018427387904"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

/// Parses a position from text. If the text is a position, displaying the position must return the
/// same text.
fn change_position(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Ok(position) = text.parse::<ChangePosition>() {
        assert_eq!(position.to_string(), text);
    }
}

/// Writes a file at its path, and makes the folders on the way.
fn put_at(directory: Arc<dyn Directory>, path: &str, bytes: &[u8]) -> Option<()> {
    match path.split_once('/') {
        Some((folder, rest)) => put_at(directory.subdirectory(folder).ok()?, rest, bytes),
        None => put(directory.as_ref(), path, bytes),
    }
}

/// Restores the backup of the input's version to the end of an archive. The only file of the
/// archive is the input, with corrected checksums of stretches and of records.
fn restore_to_a_point(input: &[u8]) {
    let _refused = restored(input).is_err();
}

/// Capacity of the device to which mutated archives are restored. It is several times the size of a
/// database that is restored from a sound archive.
const RESTORED_BYTES_MAX: u64 = 32 << 20;

fn restored(input: &[u8]) -> crate::Result<()> {
    let mut input = input.to_vec();
    archive::mend_file(&mut input, &mut |bytes, from| katydid_wal::testing::mend_records(bytes, from));
    let files = BACKUPS[usize::from(input.get(8) == Some(&2))];
    let backup: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let is_there = files.iter().all(|(path, bytes)| put_at(backup.clone(), path, bytes).is_some());
    assert!(is_there, "memory takes everything");
    // Records of a mutated archive may change a page far beyond the end of the file, and a restore
    // makes all pages that records change. So the device is small.
    let device = SimDevice::new(1);
    device.set_capacity(RESTORED_BYTES_MAX);
    let (archive, to) = (archive::archive_of(&input), device.directory());
    let (point, options) = (RestorePoint::End, BackupOptions::default());
    let report = Database::restore_to_in(&[backup], Arc::new(archive), point, to.clone(), &options);
    let is_whole = control::read(to.as_ref()).is_ok_and(|control| control.is_some());
    assert_eq!(report.is_ok(), is_whole, "there is a database where there should be none, or none");
    report.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_archives_are_restored_from() {
        for archived in ARCHIVED {
            restored(archived).expect("restore");
            restored(&archived[..archived.len() - 1]).expect_err("a part");
        }
    }
}
