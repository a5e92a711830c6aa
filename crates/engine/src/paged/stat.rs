//! Positions and counters of the paged engine.

use crate::engine::Engine;
use crate::error::Result;
use crate::paged::database::PagedDatabase;
use crate::paged::engine::Engine as PagedEngine;
use crate::stat::{EngineStat, LogStat, PagedStat, Stat, StreamStat, WaitingTransaction};

impl PagedDatabase {
    /// See [`crate::Database::stat`].
    pub(super) fn stat_open(&self) -> Result<Stat> {
        let engine = self.engine();
        engine.check_open()?;
        let totals = engine.metrics.totals();
        let (pool, space, locks) = (engine.pool.stat(), engine.space.stat(), engine.locks.stat());
        let (counters, log_space) = (engine.log.counters(), engine.log.space());
        let (active, _) = engine.active.oldest();
        let views = engine.views.stat();
        Ok(Stat {
            tables: self.tables()?.len() as u64,
            transactions_active: active,
            commits: totals.commits,
            rollbacks: totals.rollbacks,
            conflicts: totals.conflicts,
            checkpoints: engine.schedule.completed(),
            commit_latency: engine.opening.observed.commits(),
            transactions_open: engine.opening.observed.open(),
            waiting: waiting(engine),
            wait_time: engine.waits.times(),
            stalls: engine.watch.stalls(),
            engine: EngineStat::Paged(PagedStat {
                lock_waits: locks.waits,
                deadlocks: locks.deadlocks,
                checkpoint_lsn: engine.last_checkpoint(),
                page_bytes: engine.pool.page_bytes() as u64,
                pages: space.pages,
                pages_free: space.free,
                page_method: engine.pool.file().method(),
                cache_pages: pool.capacity as u64,
                cache_share_of: engine.cache.share_of,
                cached: pool.resident as u64,
                dirty: pool.dirty as u64,
                cache_misses: pool.loaded,
                evicted: pool.evicted,
                forced: pool.forced,
                pages_written: pool.written,
                views: views.open,
                view_bytes: views.bytes,
                view_bytes_max: engine.views.bytes_max(),
                views_given_up: views.given_up,
                oldest_view: views.oldest,
            }),
            log: LogStat {
                streams: vec![StreamStat {
                    start: engine.log.start(),
                    durable: engine.log.durable(),
                    written: engine.log.written(),
                    filled: engine.log.filled(),
                    reserved: engine.log.reserved(),
                }],
                kind: engine.log.kind(),
                method: engine.log.method(),
                nvram: engine.log.nvram(),
                fullness: engine.log.fullness(),
                pinned_by: engine.pinned_by(),
                bytes: engine.log_bytes(),
                pinned_bytes: engine.whole_log.pinned_bytes(),
                consumers: engine.whole_log.consumers(),
                soft_bytes: engine.options.advanced.log_soft_bytes,
                hard_bytes: engine.options.advanced.log_hard_bytes,
                syncs: counters.syncs,
                bytes_synced: counters.bytes_synced,
                bytes_written: counters.bytes_written,
                released: counters.released,
                wakeups: counters.syncer_wakeups + counters.maintenance_wakeups + counters.tracker_wakeups,
                bytes_on_disk: log_space.on_disk,
                prepared: log_space.prepared,
                incarnation: engine.log.recovery().incarnation,
                counters,
            },
        })
    }
}

/// Returns the transactions that wait for locks.
fn waiting(engine: &PagedEngine) -> Vec<WaitingTransaction> {
    // The latch of the graph of waits is released before names of tables are looked up.
    let waits = engine.locks.waits().into_iter();
    let waiting = waits.map(|(txn, wanted, blockers)| WaitingTransaction {
        txn,
        wanted: engine.locks.contested(wanted, blockers.first().copied()),
        blockers,
    });
    waiting.collect()
}
