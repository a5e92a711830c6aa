//! Positions and counters of the memory engine.

use super::database::MemoryDatabase;
use crate::engine::Engine;
use crate::error::Result;
use crate::stat::{EngineStat, LogStat, MemoryStat, Stat, StreamStat};
use katydid_wal::Stream;

impl MemoryDatabase {
    /// See [`crate::Database::stat`].
    pub(super) fn stat_open(&self) -> Result<Stat> {
        let engine = self.engine();
        engine.check_open()?;
        let (store, options) = (&engine.store, &engine.options);
        // Collect first, so that only versions that a reader needs are counted as old versions.
        store.collect();
        let versions_old = store.uncollected() as u64;
        let totals = engine.metrics.totals();
        let (counters, space) = (engine.log.counters(), engine.log.space());
        let stream = |log: &Stream| StreamStat {
            start: log.start(),
            durable: log.durable(),
            written: log.written(),
            filled: log.filled(),
            reserved: log.reserved(),
        };
        Ok(Stat {
            tables: self.tables()?.len() as u64,
            transactions_active: totals.writing,
            commits: totals.commits,
            rollbacks: totals.rollbacks,
            conflicts: totals.conflicts,
            checkpoints: engine.schedule.completed(),
            commit_latency: engine.opening.observed.commits(),
            transactions_open: engine.opening.observed.open(),
            waiting: store.waiting(),
            wait_time: store.wait_time(),
            stalls: engine.watch.stalls(),
            engine: EngineStat::Memory(MemoryStat {
                used_bytes: store.used(),
                limit_bytes: engine.own.memory_bytes,
                records: self.all_tables().iter().map(|table| table.rows.records()).sum(),
                versions_old,
                pauses: store.pauses(),
                held_by: store.oldest().filter(|_| versions_old > 0).map(|oldest| oldest.id),
                checkpoint: engine.control.get().checkpoint_number,
            }),
            log: LogStat {
                streams: engine.log.streams().iter().map(stream).collect(),
                kind: options.advanced.log.medium.kind(),
                method: engine.log.first().method(),
                nvram: engine.log.streams().iter().find_map(Stream::nvram),
                fullness: engine.log.streams().iter().filter_map(Stream::fullness).max(),
                pinned_by: engine.pinned_by(),
                bytes: engine.log_bytes(),
                pinned_bytes: engine.log.pinned_bytes(),
                consumers: engine.log.consumers(),
                soft_bytes: options.advanced.log_soft_bytes,
                hard_bytes: options.advanced.log_hard_bytes,
                syncs: counters.syncs,
                bytes_synced: counters.bytes_synced,
                bytes_written: counters.bytes_written,
                released: counters.released,
                wakeups: counters.syncer_wakeups + counters.maintenance_wakeups + counters.tracker_wakeups,
                bytes_on_disk: space.on_disk,
                prepared: space.prepared,
                incarnation: engine.log.epoch(),
                counters,
            },
        })
    }
}
