//! Checks of a database of the memory engine. The check of a closed database reads its files: the
//! checkpoint and the log. The check of an open database reads the tables and the log.

use super::checkpoint::{self, CheckpointFolder, Manifest};
use super::database::MemoryDatabase;
use super::log_record;
use super::store::Key;
use crate::control::{Control, Shutdown};
use crate::directory::LOG_FOLDER;
use crate::error::Result;
use crate::report::{VerifyProgress, VerifyReport};
use crate::{Lsn, TableId};
use katydid_device::{Directory, Method};
use katydid_wal::{Durability, Finding, ReadError, ReplayError, Survival, inspect};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

/// Longest wait for one undecided version.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl MemoryDatabase {
    /// See [`crate::Database::verify`].
    pub(super) fn verify_open(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport> {
        let engine = self.engine();
        engine.check_open()?;
        let mut report = VerifyReport::default();
        let tables = self.all_tables();
        let total = tables.len() as u64;
        for (done, table) in tables.iter().enumerate() {
            if let Some(progress) = &progress {
                progress(done as u64, total);
            }
            report.tables += 1;
            let mut last: Option<Key> = None;
            let mut from = Some(Bound::Unbounded);
            let mut rows = Vec::new();
            while let Some(bound) = from {
                rows.clear();
                let next =
                    engine.store.rows(&table.rows, bound.as_ref().map(Key::as_slice), WAIT_MAX, &mut rows)?;
                for row in &rows {
                    if last.as_ref().is_some_and(|last| *last >= row.key) {
                        let place = format!("table {:?}, key {:?}", table.rows.name(), row.key.as_slice());
                        report.fault(place, "its key is not above the one before it");
                    }
                    last = Some(row.key.clone());
                    report.keys += u64::from(row.value.is_some());
                }
                from = next.map(Bound::Included);
            }
        }
        // Closing waits until this visit ends.
        let _visit = engine.opening.visit()?;
        let _untrimmed = engine.without_checkpoints();
        for (index, log) in engine.log.streams().iter().enumerate() {
            log.wait(log.reserved(), Durability::Written)?;
            let mut reader = log.reader(log.start())?;
            loop {
                match reader.next_record() {
                    Ok(Some(_)) => report.log_records += 1,
                    Ok(None) => break,
                    Err(ReadError::Corrupt { at, file, reason }) => {
                        report.fault(format!("log record at {at} in {file} of stream {index}"), reason);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            report.log_start = report.log_start.max(log.start());
            report.log_end = report.log_end.max(log.reserved());
        }
        Ok(report)
    }
}

/// See [`crate::Database::verify_in`].
pub(crate) fn verify_in(
    directory: &dyn Directory,
    control: &Control,
    progress: Option<VerifyProgress>,
) -> Result<VerifyReport> {
    let mut report = VerifyReport { clean: control.shutdown == Shutdown::Clean, ..VerifyReport::default() };
    let mut seen = BTreeSet::new();
    let manifest = match control.checkpoint_number {
        0 => None,
        number => match CheckpointFolder::existing(directory, Method::Buffered, control.database)? {
            Some(folder) => verify_checkpoint(&folder, number, progress.as_ref(), &mut seen, &mut report)?,
            None => {
                report.fault(
                    checkpoint::FOLDER,
                    "the folder is missing; the database cannot be read without it",
                );
                None
            }
        },
    };
    verify_log(directory, control, manifest.as_ref(), &mut seen, &mut report)?;
    report.tables = seen.iter().filter(|table| **table != TableId::CATALOG).count() as u64;
    Ok(report)
}

fn verify_checkpoint(
    folder: &CheckpointFolder,
    number: u64,
    progress: Option<&VerifyProgress>,
    seen: &mut BTreeSet<TableId>,
    report: &mut VerifyReport,
) -> Result<Option<Manifest>> {
    let reader = match folder.read(number) {
        Ok(reader) => reader,
        Err(error) => {
            report.note(Err(error))?;
            return Ok(None);
        }
    };
    let manifest = reader.manifest().clone();
    let total = manifest.parts.len() as u64;
    for (done, summary) in manifest.parts.iter().enumerate() {
        if let Some(progress) = progress {
            progress(done as u64, total);
        }
        let checked = reader.part(*summary).and_then(|mut part| {
            while let Some(row) = part.next_row()? {
                seen.insert(row.table);
                report.keys += u64::from(row.value.is_some() && row.table != TableId::CATALOG);
            }
            Ok(())
        });
        report.note(checked)?;
    }
    Ok(Some(manifest))
}

fn verify_log(
    directory: &dyn Directory,
    control: &Control,
    manifest: Option<&Manifest>,
    seen: &mut BTreeSet<TableId>,
    report: &mut VerifyReport,
) -> Result<()> {
    let Some(folder) = directory.existing_subdirectory(LOG_FOLDER)? else {
        report.fault(LOG_FOLDER, "the folder is missing; the database cannot be read without it");
        return Ok(());
    };
    let found = match inspect(folder.as_ref()) {
        Ok(found) => found,
        Err(katydid_wal::OpenError::Device(error)) if !error.is_not_found() => return Err(error.into()),
        Err(error) => {
            report.fault(LOG_FOLDER, error.to_string());
            return Ok(());
        }
    };
    if found.id != control.database {
        report.fault(LOG_FOLDER, "it belongs to another database");
    }
    for (index, stream) in found.streams.iter().enumerate() {
        report.log_start = report.log_start.max(stream.start);
        report.log_end = report.log_end.max(stream.end);
        match &stream.finding {
            Ok(Finding::TornTail { at, dropped }) => report.notes.push(format!(
                "stream {index}: torn tail at {at}, with {dropped} records behind it, which recovery cuts off"
            )),
            Ok(_) => {}
            Err(error) => report.fault(format!("stream {index}"), error.to_string()),
        }
    }
    let from: Option<&[Lsn]> =
        manifest.map(|manifest| manifest.from.as_slice()).filter(|from| from.len() == found.streams.len());
    let records = match found.records(from) {
        Ok(records) => records,
        Err(error) => {
            report.fault(LOG_FOLDER, error.to_string());
            return Ok(());
        }
    };
    let mut dropped = 0;
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(ReplayError::Read { source: ReadError::Device(error), .. }) => return Err(error.into()),
            Err(error) => {
                report.fault(LOG_FOLDER, error.to_string());
                continue;
            }
        };
        report.log_records += 1;
        dropped += u64::from(record.survival != Survival::Kept);
        for write in log_record::decode(&record.record.payload) {
            match write {
                Ok(write) => drop(seen.insert(write.table)),
                Err(malformed) => {
                    let place = format!("log record at {} in stream {}", record.record.lsn, record.stream);
                    report.fault(place, malformed.0);
                }
            }
        }
    }
    if dropped > 0 {
        report.notes.push(format!(
            "{dropped} records depend on records that a crash has cut off; recovery drops them"
        ));
    }
    Ok(())
}
