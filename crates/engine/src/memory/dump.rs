//! The log records of a memory engine's database in readable form: the records of all streams, in
//! the order of their commit stamps.

use super::log_record;
use crate::directory::LOG_FOLDER;
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::log_entry::{LogEntry, LogField};
use katydid_device::Directory;
use katydid_wal::{Finding, OpenError, ReadError, ReplayError, StreamRecord, Survival, inspect};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// See [`crate::dump_log_in`].
pub(crate) fn dump_log_in(
    directory: &dyn Directory,
    mut visit: impl FnMut(&LogEntry) -> ControlFlow<()>,
) -> Result<String> {
    let place = directory.describe();
    let Some(folder) = directory.existing_subdirectory(LOG_FOLDER)? else {
        return Err(Error::NotFound { place });
    };
    let found = match inspect(folder.as_ref()) {
        Err(OpenError::Device(error)) if error.is_not_found() => return Err(Error::NotFound { place }),
        found => found?,
    };
    for record in found.records(None).map_err(unreadable)? {
        let record = record.map_err(unreadable)?;
        if visit(&entry(&record)).is_break() {
            return Ok(format!("more records follow, from {} on", record.stamp));
        }
    }
    let ends = found.streams.iter().enumerate().map(|(index, stream)| match &stream.finding {
        Ok(Finding::CleanEnd { closed: true }) => format!("stream {index}: closed, ends at {}", stream.end),
        Ok(Finding::TornTail { at, dropped }) => {
            format!("stream {index}: torn tail at {at}, {dropped} records behind it")
        }
        Ok(_) => format!("stream {index}: ends at {}", stream.end),
        Err(error) => format!("stream {index}: {error}"),
    });
    Ok(ends.collect::<Vec<_>>().join("; "))
}

fn unreadable(error: ReplayError<Infallible>) -> Error {
    match error {
        ReplayError::Read { source: ReadError::Device(error), .. } => error.into(),
        error => Error::Corrupt { place: LOG_FOLDER.to_owned(), page: None, finding: error.to_string() },
    }
}

fn entry(record: &StreamRecord) -> LogEntry {
    let mut fields = vec![("stream", LogField::Number(u64::from(record.stream.get())))];
    if !record.depends.is_empty() {
        let places = record.depends.iter().map(|place| format!("{}:{}", place.stream, place.end));
        fields.push(("depends", LogField::Text(places.collect::<Vec<_>>().join(","))));
    }
    if let Survival::Dropped(place) = record.survival {
        fields.push(("lost", LogField::Text(format!("{}:{}", place.stream, place.end))));
    }
    let (mut kind, mut writes) = ("writes", Vec::new());
    for write in log_record::decode(&record.record.payload) {
        match write {
            Ok(write) => {
                let what = match write.value {
                    Some(value) => ("value_bytes", LogField::Number(value.len() as u64)),
                    None => ("change", LogField::Text("delete".to_owned())),
                };
                let table = ("table", LogField::Number(u64::from(write.table.get())));
                writes.push(vec![table, ("key", LogField::Bytes(write.key.to_vec())), what]);
            }
            Err(malformed) => {
                kind = "malformed";
                fields.push(("finding", LogField::Text(malformed.0.to_owned())));
            }
        }
    }
    fields.push(("writes", LogField::List(writes)));
    LogEntry {
        lsn: record.record.lsn,
        end: record.record.end,
        kind,
        txn: TxnId::new(record.record.txn),
        chain: record.record.chain,
        payload_bytes: record.record.payload.len() as u64,
        fields,
    }
}
