//! Committing: the commit record gets its position in the log, and the transaction's locks are
//! released.
//!
//! Runs on the thread of the transaction. Invariants:
//!
//! 1. A transaction releases no lock before its commit record has a position in the log. With
//!    `LockRelease::AfterDurable`, it releases no lock before the log has reached the `Durability`
//!    of the commit up to the end of that record.
//! 2. The deferred frees of a committed transaction are made before its locks are released. If a
//!    free fails, the commit stands, and `unfinished` makes the free later.
//!
//! After a crash before the commit record is durable, restart undoes the transaction. After a crash
//! later than that, restart makes the deferred frees that the transaction has not made yet.

use crate::durability_waiter::DurabilityWaiter;
use crate::error::{Error, Result};
use crate::ids::TxnId;
use crate::options::LockRelease;
use crate::paged::committed::Committed;
use crate::paged::engine::{Engine, PendingLocks};
use crate::paged::log_record::COMMIT;
use crate::paged::page::PageId;
use crate::paged::transaction::PagedTransaction;
use crate::paged::tree::free_after_commit;
use crate::paged::unfinished::{Ending, Unended};
use crate::paged::writer::{CleanupRecords, Writer};
use crate::{Durability, Lsn};
use katydid_wal::{Append, AppendClass, Kind};
use std::sync::atomic::Ordering;

impl PagedTransaction {
    /// Appends the commit record and returns its end. The transaction is then committed if the log
    /// survives up to that end. With early lock release, or if the commit asks only for `Buffered`,
    /// the call also releases the transaction's locks. If the call fails, the transaction is rolled
    /// back. If the log does not take the rollback either, recovery undoes the transaction.
    pub(super) fn pre_commit(&mut self) -> Result<Committed> {
        if let Some(cause) = self.failure.clone() {
            self.give_up();
            return Err(Error::MustRollBack { cause });
        }
        let engine = &self.inner.engine;
        let durability = self.options.durability;
        let Some(mut writer) = self.writer.take_if(|writer| writer.slot.lock().txn != TxnId::NONE) else {
            return self.end_read_only();
        };
        writer.depend_on(self.depends);
        let end = match engine.append_commit(&mut writer) {
            Ok(end) => end,
            Err(error) => {
                self.writer = Some(writer);
                self.give_up();
                return Err(error);
            }
        };
        engine.metrics.count_commit();
        self.pre_committed = Some(end);
        if let Some(table) = self.drops.take() {
            table.dropped.store(true, Ordering::Release);
        }
        let release_now =
            engine.options.advanced.lock_release == LockRelease::Early || durability == Durability::Buffered;
        self.images = writer.images.take();
        if release_now {
            engine.show_to_views(self.images.as_deref(), end);
        }
        // The long values among the before-images are read before their pages are freed. A rollback
        // to a savepoint may have brought a long value back whose image still refers to the value's
        // pages. This commit does not free these pages, but another transaction may free them once
        // the locks are released. So this commit reads such a value too.
        if let Some(images) = &self.images {
            engine.views.settle_long(images, |versions, chain| engine.read_long(versions, chain));
        }
        // The frees come before the release of the locks. So `verify`, which locks each table
        // exclusively, finds no page that is marked as in use but unreachable. If a free fails, it
        // is made later: the commit stands.
        let cleaned = if writer.has_chains() { engine.finish_commit(&mut writer) } else { Ok(()) };
        if release_now {
            if let Some(locks) = self.locks.take() {
                engine.release_locks(locks, Some(end));
            }
            // The writer's next transaction uses this `TxnImages` for its own images.
            writer.images = self.images.take();
        }
        match cleaned {
            Ok(()) => engine.give_writer(writer),
            Err(cause) => {
                if let Some(images) = &writer.images {
                    engine.views.ended(images);
                }
                engine.set_aside(Unended { writer, locks: None, ending: Ending::CleanUp, cause });
            }
        }
        engine.schedule.note(0, end);
        Ok(Committed { end, durability })
    }

    fn end_read_only(&mut self) -> Result<Committed> {
        self.close_view();
        if let Some(writer) = self.writer.take() {
            self.inner.engine.give_writer(writer);
        }
        if let Some(locks) = self.locks.take() {
            self.inner.engine.release_locks(locks, None);
        }
        Ok(Committed { end: self.depends, durability: self.options.durability })
    }

    /// Hands the locks to the thread that waits until the commit is as durable as it asked, and
    /// then releases them.
    pub(super) fn release_later(&mut self, committed: Committed) {
        if let Some(locks) = self.locks.take() {
            locks.disown();
            let engine = &self.inner.engine;
            let images = self.images.take();
            if let Some(images) = &images {
                engine.unshown.add(&committed, images.clone());
            }
            let pending = PendingLocks { committed, locks, images };
            DurabilityWaiter::enqueue(engine, engine.options.advanced.log.background, pending);
        }
    }
}

impl Engine {
    /// Appends the commit record and returns its end. From here on the transaction is committed if
    /// the log survives up to that end. The record lies above the commit records of all
    /// transactions that this one depends on and that are not durable.
    pub(crate) fn append_commit(&self, writer: &mut Writer) -> Result<Lsn> {
        let chains = writer.chains();
        let payload: Vec<u8> = chains.iter().flat_map(|chain| chain.to_le_bytes()).collect();
        let pieces: [&[u8]; 1] = [&payload];
        let mut slot = writer.slot.lock();
        let append = Append::new(Kind::new(COMMIT), if chains.is_empty() { &[] } else { &pieces });
        let append = append.txn(slot.txn.get()).prev(slot.last);
        let append = append.depends_on(writer.after()).class(AppendClass::Critical);
        let appended = self.active.append(&self.log, &append)?;
        if chains.is_empty() {
            slot.clear();
        } else {
            slot.last = appended.lsn;
            slot.committed = true;
            slot.chains = chains;
        }
        Ok(appended.end)
    }

    /// Makes the deferred frees of a committed transaction. No transaction can reach the freed
    /// pages any more, because the committed transaction held the keys exclusively until after its
    /// commit. If a free fails, the slot stays occupied and retains the log, so the call can be
    /// repeated.
    pub(crate) fn finish_commit(&self, writer: &mut Writer) -> Result<()> {
        let chains = writer.slot.lock().chains.clone();
        for chain in chains {
            let mut records = CleanupRecords { engine: self, slot: &writer.slot };
            free_after_commit(self.pages(), PageId::new(chain), &mut records)?;
        }
        self.append_end(writer)
    }
}
