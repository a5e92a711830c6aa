//! Committing: a transaction gets its place in the log, and what it held is released.
//!
//! The thread of the transaction. Invariants:
//!
//! 1. Nothing of a transaction is released before its commit record has its place in the log; with
//!    after-durable release, before that is durable.
//! 2. What a committed transaction has let go of is freed before its locks are released, or by
//!    `unfinished` later: the commit stands.
//!
//! A crash before the commit record is durable undoes the transaction; after that, restart frees
//! what it let go of.

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
    /// Gives the transaction its place in the log. When this returns it is committed if the log up
    /// to the returned end survives; with early release its locks are gone. If it fails the
    /// transaction is rolled back, or, if the log does not take that either, left to recovery.
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
        // Also values that a rollback to a savepoint brought back: their pages are another
        // transaction's to free from now on.
        if let Some(images) = &self.images {
            engine.views.settle_long(images, |versions, chain| engine.read_long(versions, chain));
        }
        // Before the locks go: a transaction that has the table to itself finds no page that
        // nothing leads to. If this fails it is done later; the commit stands.
        let cleaned = if writer.has_chains() { engine.finish_commit(&mut writer) } else { Ok(()) };
        if release_now {
            if let Some(locks) = self.locks.take() {
                engine.release_locks(locks, Some(end));
            }
            // The next transaction of the writer keeps its images there.
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

    /// Hands locks that are to be held until the commit is durable to the thread that waits for
    /// that.
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
    /// Appends the commit record: from here on the transaction is committed if the log says so.
    /// Returns the record's end. It lies above the commit records of all that the transaction
    /// depends on, as far as they are not durable.
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

    /// Frees what a committed transaction let go of. No transaction can reach it any more: this one
    /// held the keys exclusively until after its commit. If it fails the slot stays, and with it
    /// the log: it can be called again.
    pub(crate) fn finish_commit(&self, writer: &mut Writer) -> Result<()> {
        let chains = writer.slot.lock().chains.clone();
        for chain in chains {
            let mut records = CleanupRecords { engine: self, slot: &writer.slot };
            free_after_commit(self.pages(), PageId::new(chain), &mut records)?;
        }
        self.append_end(writer)
    }
}
