//! The records of a paged database's log in readable form.

use crate::directory::LOG_FOLDER;
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::log_entry::{LogEntry, LogField};
use crate::paged::change::{ChangeKind, LeafChange, LeafOp, decode_chain_free, pages_of};
use crate::paged::log_record::{
    CHECKPOINT_ACTIVE, CHECKPOINT_BEGIN, CHECKPOINT_END, CHECKPOINT_PAGES, COMMIT, COMPENSATION, END,
    Malformed, State, decode_active, decode_chains, decode_checkpoint_end, decode_compensation, decode_pages,
};
use katydid_device::Directory;
use katydid_wal::{Finding, Kind, RecordRef, inspect};
use std::ops::ControlFlow;

type Fields = Vec<(&'static str, LogField)>;

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
        Err(katydid_wal::OpenError::Device(error)) if error.is_not_found() => {
            return Err(Error::NotFound { place });
        }
        found => found?,
    };
    let Some(inspection) = found.first() else { return Err(Error::NotFound { place }) };
    let mut reader = inspection.records()?;
    while let Some(record) = reader.next_record()? {
        if visit(&entry(&record)).is_break() {
            return Ok(format!("more records follow, from {} on", record.lsn));
        }
    }
    Ok(match &inspection.finding {
        Ok(Finding::CleanEnd { closed: true }) => format!("closed, ends at {}", inspection.end),
        Ok(Finding::TornTail { at, dropped }) => format!("torn tail at {at}, {dropped} records behind it"),
        Ok(_) => format!("ends at {}", inspection.end),
        Err(error) => error.to_string(),
    })
}

fn entry(record: &RecordRef<'_>) -> LogEntry {
    let (kind, fields) = match describe(record) {
        Ok(described) => described,
        Err(fault) => ("malformed", vec![("finding", LogField::Text(fault.0.to_owned()))]),
    };
    LogEntry {
        lsn: record.lsn,
        end: record.end,
        kind,
        txn: TxnId::new(record.txn),
        chain: record.chain,
        payload_bytes: record.payload.len() as u64,
        fields,
    }
}

fn describe(record: &RecordRef<'_>) -> std::result::Result<(&'static str, Fields), Malformed> {
    let payload = record.payload;
    Ok(match record.kind {
        Kind::RESTART => ("restart", vec![]),
        Kind::MARK => ("mark", vec![]),
        Kind::PADDING => ("padding", vec![]),
        kind => match kind.get() {
            COMMIT => {
                let chains = decode_chains(payload)?;
                let field = (!chains.is_empty()).then_some(("chains", LogField::Numbers(chains)));
                ("commit", field.into_iter().collect())
            }
            END => ("end", vec![]),
            COMPENSATION => {
                let (undo_next, kind, payload) = decode_compensation(payload)?;
                let change =
                    ChangeKind::decode(kind).ok_or(Malformed("a compensation of an unknown change"))?;
                let mut fields = vec![
                    ("undo_next", LogField::Number(undo_next.get())),
                    ("change", LogField::Text(change.name().to_owned())),
                ];
                fields.extend(describe_change(change, payload)?);
                ("compensation", fields)
            }
            CHECKPOINT_BEGIN => ("checkpoint-begin", vec![]),
            CHECKPOINT_PAGES => {
                let pages = decode_pages(payload)?;
                ("checkpoint-pages", vec![("pages", LogField::Number(pages.len() as u64))])
            }
            CHECKPOINT_ACTIVE => {
                let entries = decode_active(payload)?;
                let of = |state| {
                    let matching = entries.iter().filter(|entry| entry.state == state);
                    LogField::Numbers(matching.map(|entry| entry.txn.get()).collect())
                };
                (
                    "checkpoint-active",
                    vec![("active", of(State::Active)), ("committed", of(State::Committed))],
                )
            }
            CHECKPOINT_END => {
                let end = decode_checkpoint_end(payload)?;
                let fields = vec![
                    ("begin", LogField::Number(end.begin.get())),
                    ("next_txn", LogField::Number(end.next_txn)),
                    ("next_table", LogField::Number(end.next_table)),
                ];
                ("checkpoint-end", fields)
            }
            kind => {
                let change = ChangeKind::decode(kind).ok_or(Malformed("an unknown kind"))?;
                (change.name(), describe_change(change, payload)?)
            }
        },
    })
}

fn describe_change(kind: ChangeKind, payload: &[u8]) -> std::result::Result<Fields, Malformed> {
    let of = |fault: crate::paged::change::Malformed| Malformed(fault.0);
    let mut fields = Fields::new();
    match kind {
        ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate => {
            let change = LeafChange::decode(kind, payload).map_err(of)?;
            fields.push(("table", LogField::Number(u64::from(change.table.get()))));
            fields.push(("page", LogField::Number(change.page.get())));
            fields.push(("slot", LogField::Number(u64::from(change.slot))));
            fields.push(("key", LogField::Bytes(change.key.to_vec())));
            if let LeafOp::Diff(diff) = change.op {
                fields.push(("offset", LogField::Number(u64::from(diff.offset))));
                fields.push(("new_bytes", LogField::Number(diff.new.len() as u64)));
            }
        }
        ChangeKind::ChainFree => {
            let (head, _) = decode_chain_free(payload).map_err(of)?;
            fields.push(("head", LogField::Number(head.get())));
        }
        ChangeKind::ChainWrite | ChangeKind::Structure => {}
    }
    if !matches!(kind, ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate) {
        let pages: std::result::Result<Vec<u64>, _> =
            pages_of(kind, payload).map(|page| page.map(|page| page.get())).collect();
        fields.push(("pages", LogField::Numbers(pages.map_err(of)?)));
    }
    Ok(fields)
}
