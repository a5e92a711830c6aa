//! Columns of the CSV file. Every figure and `log-commit` have the same columns; a cell is empty if
//! it does not apply to the row.
//!
//! Pure functions.

use super::compare::{speed_up, to_adaptive, to_alone, to_alone_by_cpu, to_disk, to_logging_off, to_serial};
use super::quantities::*;
use super::run::Run;
use super::study::Study;
use crate::grid::columns::{Column, of_times, optional, places};
use crate::grid::row::Round;
use crate::host::device::Device;

/// All columns of the CSV file.
pub const CSV: &[Column<Study>] = &[
    ("figure", |of, _| of.grid.name().to_owned()),
    ("log", |_, row| row.case.log.to_string()),
    ("nvram", |_, row| optional(form(row))),
    ("entries", |_, row| optional(row.case.entries)),
    ("commit", |of, _| optional(of.setting.commit)),
    ("machine", |of, _| of.setting.machine.clone()),
    ("device", |of, row| row.case.device.map_or(of.setting.device, Device::name).to_owned()),
    ("method", |of, _| of.setting.method.clone()),
    ("millis", |of, _| of.setting.millis.to_string()),
    ("branches", |of, row| optional(of.setting.branches.filter(|_| is_store(&row.case)))),
    ("system", |_, row| optional(row.case.system)),
    ("work", |_, row| row.case.work.name().to_owned()),
    ("payload", |_, row| optional(row.case.work.payload())),
    ("skew", |_, row| optional(row.case.work.skew())),
    ("sync", |_, row| sync(&row.case)),
    ("inserter", |_, row| row.case.inserter.to_string()),
    ("threads", |_, row| row.case.threads.to_string()),
    ("in_flight", |_, row| row.case.in_flight.to_string()),
    ("durability", |_, row| row.case.durability.to_string()),
    ("streams", |_, row| optional(row.case.streams)),
    ("group", |_, row| optional(row.case.group.map(group))),
    ("reads_percent", |_, row| optional(row.case.work.reads_percent())),
    ("writers", |_, row| optional(row.case.work.writers())),
    ("lock_release", |_, row| if is_store(&row.case) { row.case.release.to_string() } else { String::new() }),
    ("contention", |_, row| optional(row.case.streams.map(|_| row.case.contention))),
    ("old_versions", |_, row| optional(row.case.streams.map(|_| row.case.old_versions))),
    ("delay_us", |_, row| (row.case.delay.as_nanos() as f64 / 1e3).to_string()),
    ("ring", |_, row| optional(row.case.ring)),
    ("io_unit", |_, row| optional(row.case.io_unit)),
    ("without", |_, row| optional(row.case.without)),
    ("rounds", |_, row| row.rounds.len().to_string()),
    ("commits", |_, row| places::<0>(row.median(|run| run.commits as f64))),
    ("commits_per_second", |_, row| places::<0>(row.median(Run::per_second))),
    ("slowest_round", |_, row| places::<0>(row.spread().0)),
    ("fastest_round", |_, row| places::<0>(row.spread().1)),
    ("to_adaptive", |of, row| optional(to_adaptive(of.rows, row).map(places::<3>))),
    ("to_logging_off", |of, row| optional(to_logging_off(of.rows, row).map(places::<3>))),
    ("to_disk", |of, row| optional(to_disk(of.rows, row).map(places::<3>))),
    ("to_serial", |of, row| optional(to_serial(of.rows, row).map(places::<3>))),
    ("to_alone", |of, row| optional(to_alone(of.rows, row).map(places::<3>))),
    ("to_alone_by_cpu", |of, row| optional(to_alone_by_cpu(of.rows, row).map(places::<3>))),
    ("speed_up", |of, row| optional(speed_up(of.rows, row).map(places::<3>))),
    ("times", |_, row| optional(row.summary().map(|times| times.count))),
    ("transaction_us", |_, row| places::<1>(row.median(|run| whole_us(run, &row.case)))),
    ("mean_us", |_, row| of_times(row, |times| times.mean_us)),
    ("p50_us", |_, row| of_times(row, |times| times.p50_us)),
    ("p99_us", |_, row| of_times(row, |times| times.p99_us)),
    ("p999_us", |_, row| of_times(row, |times| times.p999_us)),
    ("max_us", |_, row| of_times(row, |times| times.max_us)),
    ("raw_write_us", |_, row| places::<1>(row.median(|run| run.raw.write_us))),
    ("p50_to_raw", |_, row| places::<3>(row.median(p50_to_raw))),
    ("p99_to_raw", |_, row| places::<3>(row.median(p99_to_raw))),
    ("megabytes_per_second", |_, row| places::<3>(row.median(Run::megabytes_per_second))),
    ("raw_megabytes_per_second", |_, row| places::<1>(row.median(|run| run.raw.best_megabytes))),
    ("bandwidth_to_raw", |_, row| places::<5>(row.median(bandwidth_to_raw))),
    ("cpu_us_per_commit", |_, row| places::<2>(row.median(cpu_us))),
    ("commits_per_client_cpu_second", |_, row| places::<0>(row.median(Run::per_cpu_second))),
    ("system_us_per_commit", |_, row| {
        places::<2>(row.median(|run| run.per_commit(run.usage.system.as_secs_f64() * 1e6)))
    }),
    ("user_share", |_, row| places::<3>(row.median(user_share))),
    ("system_share", |_, row| places::<3>(row.median(system_share))),
    ("idle_share", |_, row| places::<3>(row.median(idle_share))),
    ("log_wait_share", |_, row| places::<3>(row.median(|run| log_wait_share(run, &row.case)))),
    ("cores_busy", |_, row| places::<2>(row.median(cores))),
    ("cores_of_others", |_, row| places::<2>(row.median(Run::others))),
    ("voluntary_per_commit", |_, row| {
        places::<4>(row.median(|run| run.per_commit(run.usage.voluntary as f64)))
    }),
    ("involuntary_per_commit", |_, row| {
        places::<4>(row.median(|run| run.per_commit(run.usage.involuntary as f64)))
    }),
    ("switches_per_second", |_, row| places::<0>(row.median(switches))),
    ("syncs", |_, row| counted(row, |counters| counters.syncs)),
    ("commits_per_sync", |_, row| places::<2>(row.median(commits_per_sync))),
    ("bytes_per_sync", |_, row| places::<0>(row.median(bytes_per_sync))),
    ("written_per_sync", |_, row| {
        places::<0>(row.median(|run| run.per_sync(run.counted(|counters| counters.bytes_written) as f64)))
    }),
    ("released", |_, row| counted(row, |counters| counters.released)),
    ("released_per_sync", |_, row| places::<2>(row.median(released_per_sync))),
    ("sync_locks", |_, row| counted(row, |counters| counters.sync_locks)),
    ("lock_us_per_commit", |_, row| places::<3>(row.median(lock_us))),
    ("sync_us_per_commit", |_, row| places::<3>(row.median(sync_us))),
    ("completion_us_per_commit", |_, row| places::<3>(row.median(completion_us))),
    ("slot_wait_us_per_commit", |_, row| places::<3>(row.median(slot_wait_us))),
    ("threads_per_slot", |_, row| places::<2>(row.median(threads_per_slot))),
    ("requests_per_queue", |_, row| places::<2>(row.median(requests_per_queue))),
    ("byte_us", |_, row| places::<1>(row.median(byte_us))),
    ("depth", |_, row| places::<0>(row.median(|run| f64::from(run.counters.1.depth)))),
    ("syncer_wakeups", |_, row| counted(row, |counters| counters.syncer_wakeups)),
    ("checkpoints", |_, row| places::<0>(row.median(|run| run.checkpoints as f64))),
    ("stalls", |_, row| counted(row, |counters| counters.stalls)),
    ("conflicts", |_, row| places::<0>(row.median(|run| run.conflicts as f64))),
    ("refused", |_, row| places::<0>(row.median(|run| run.refused as f64))),
    ("checked", |_, row| optional(checked(row))),
];
