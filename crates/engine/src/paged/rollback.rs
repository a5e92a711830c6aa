//! Undoing a transaction's changes, newest first: rollback, rollback to a savepoint, and recovery's
//! undo.
//!
//! Each change is undone by an operation on the tree, because its key may have moved to another
//! page. The operation is logged as a compensation record, which names the next change to undo.
//! Invariants:
//!
//! 1. A change is undone at most once. The `undo_next` of its compensation record names the next
//!    older change, and recovery continues with that change. The thread moves the writer's own
//!    `undo_next` after the operation on the tree has returned. If an operation appended its record
//!    and then returned an error, a repeated rollback would undo the change again; so after the
//!    append an operation returns no error, except for a bug.
//! 2. Undo needs no locks: the transaction still holds the locks under which it made its changes,
//!    or, at restart, no other transaction runs.
//!
//! A crash in the middle of a rollback leaves compensation records. Recovery continues where the
//! last compensation record points.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::paged::change::{ChangeKind, UndoOp, undo_of};
use crate::paged::engine::Engine;
use crate::paged::log_record::{ActiveEntry, COMPENSATION, END, Malformed, State, decode_compensation};
use crate::paged::tree::apply_undo;
use crate::paged::writer::{Change, CompensationRecords, Writer};
use katydid_wal::{Append, AppendClass, Kind};
use std::sync::Arc;

impl Engine {
    /// Undoes all changes of the transaction after `to`; zero undoes all.
    pub(crate) fn roll_back(&self, writer: &mut Writer, to: Lsn) -> Result<()> {
        let mut at = writer.undo_next();
        while at > to {
            let change = writer.change_at(&self.log, at).map_err(|error| self.unless_failed(error))?;
            let Change { kind, next, payload, cost } = change;
            let failed = |fault: Malformed| fault.at(at);
            if kind == COMPENSATION {
                at = decode_compensation(&payload).map_err(failed)?.0;
                // The writer's estimate of the bytes still to undo (`to_undo`) does not include the
                // change that this compensation record has undone, so nothing is subtracted.
                writer.undone(at, 0);
                continue;
            }
            let kind = ChangeKind::decode(kind)
                .ok_or_else(|| failed(Malformed("a record that cannot be undone")))?;
            let op = undo_of(kind, &payload).map_err(|fault| fault.at(at))?;
            if op != UndoOp::Nothing {
                let mut records = CompensationRecords { engine: self, writer, undo_next: next };
                apply_undo(self.pages(), &op, &mut records)?;
            }
            at = next;
            writer.undone(at, cost);
        }
        Ok(())
    }

    /// Returns the error for a record that could not be read back. If a write of the log has
    /// failed, the record is missing for this reason, and not because of damage.
    #[cold]
    fn unless_failed(&self, error: Error) -> Error {
        self.hear_of_log();
        if self.gate.is_shut() { self.poison_error() } else { error }
    }

    /// Undoes everything and ends the transaction. A call that failed can be repeated, and
    /// continues where it stopped.
    pub(crate) fn roll_back_all(&self, writer: &mut Writer) -> Result<()> {
        self.roll_back(writer, Lsn::ZERO)?;
        self.append_end(writer)
    }

    /// Appends the end record: recovery needs nothing more of the transaction.
    pub(super) fn append_end(&self, writer: &Writer) -> Result<()> {
        let mut slot = writer.slot.lock();
        let append = Append::new(Kind::new(END), &[]);
        let append = append.txn(slot.txn.get()).prev(slot.last).class(AppendClass::Critical);
        self.active.append(&self.log, &append)?;
        slot.clear();
        Ok(())
    }

    /// Undoes the transactions that a crash left unfinished, and finishes the committed ones. Calls
    /// `on_ended` after each of them.
    pub(crate) fn undo_unfinished(
        self: &Arc<Self>,
        entries: impl IntoIterator<Item = (ActiveEntry, Vec<Lsn>)>,
        mut on_ended: impl FnMut(),
    ) -> Result<()> {
        for (entry, marks) in entries {
            let slot = self.active.restore_slot(&entry);
            let mut writer = Box::new(Writer::recovered(slot, entry.txn, entry.last, marks));
            match entry.state {
                State::Active => self.roll_back_all(&mut writer)?,
                State::Committed => self.finish_commit(&mut writer)?,
            }
            on_ended();
        }
        Ok(())
    }
}
