//! Rows of commits as a table.
//!
//! Pure functions.

use super::case::{Case, Delay};
use super::charts::charts;
use super::compare::{speed_up, to_adaptive, to_alone, to_alone_by_cpu, to_disk, to_logging_off, to_serial};
use super::csv::CSV;
use super::facts::{check, forms, limits, on};
use super::figures::Figure;
use super::figures::cicada::CicadaFigure;
use super::figures::nvram::NvramFigure;
use super::quantities::*;
use super::run::Run;
use super::study::Study;
use crate::grid::columns::{Chart, Column, Grid, Rows, of_times, optional, places};
use katydid_command::bytes::{grouped, shown};
use katydid_command::table::wrapped;

const VARYING: &[Column<Study>] = &[
    ("system", |_, row| optional(row.case.system)),
    ("on", on),
    ("log", |_, row| row.case.log.to_string()),
    ("entries", |_, row| optional(row.case.entries)),
    ("work", |_, row| row.case.work.name().to_owned()),
    ("payload", |_, row| row.case.work.payload().map_or("-".to_owned(), |bytes| bytes.to_string())),
    ("delay", |_, row| Delay(row.case.delay).to_string()),
    ("skew", |_, row| optional(row.case.work.skew())),
    ("without", |_, row| row.case.without.map_or("-".to_owned(), |heuristic| heuristic.to_string())),
    ("I/O unit", |_, row| row.case.io_unit.map_or("-".to_owned(), |bytes| shown(bytes as u64))),
    ("clients", |_, row| row.case.clients()),
    ("inserter", |_, row| row.case.inserter.to_string()),
    ("locks", |_, row| row.case.release.to_string()),
    ("acknowledged when", |_, row| row.case.durability.to_string()),
    ("streams", |_, row| optional(row.case.streams)),
    ("group", |_, row| row.case.group.map_or("-".to_owned(), group)),
    ("reads %", |_, row| optional(row.case.work.reads_percent())),
    ("writers", |_, row| optional(row.case.work.writers())),
];

/// Column of the protocol. A log in NVRAM has no protocol.
const PROTOCOL: &[Column<Study>] = &[("sync", |_, row| sync(&row.case))];

const P50: Column<Study> = ("p50 us", |_, row| of_times(row, |times| times.p50_us));
const P99: Column<Study> = ("p99 us", |_, row| of_times(row, |times| times.p99_us));
const MEAN: Column<Study> = ("mean us", |_, row| of_times(row, |times| times.mean_us));
const P999: Column<Study> = ("p99.9 us", |_, row| of_times(row, |times| times.p999_us));
const ADAPTIVE: Column<Study> =
    ("to adaptive", |of, row| optional(to_adaptive(of.rows, row).map(places::<2>)));
const CPU: Column<Study> = ("cpu us", |_, row| places::<2>(row.median(cpu_us)));
const VOLUNTARY: Column<Study> =
    ("waits", |_, row| places::<3>(row.median(|run| run.per_commit(run.usage.voluntary as f64))));
const INVOLUNTARY: Column<Study> =
    ("preempt.", |_, row| places::<3>(row.median(|run| run.per_commit(run.usage.involuntary as f64))));
const BUSY: Column<Study> = ("cores", |_, row| places::<2>(row.median(cores)));
const MEGABYTES: Column<Study> = ("MB/s", |_, row| places::<1>(row.median(Run::megabytes_per_second)));
const TO_BEST: Column<Study> = ("to best", |_, row| places::<2>(row.median(bandwidth_to_raw)));
const PER_SYNC: Column<Study> = ("commits/sync", |_, row| places::<1>(row.median(commits_per_sync)));
const BYTES: Column<Study> = ("bytes/sync", |_, row| grouped(row.median(bytes_per_sync) as u64));
const SYNCS: Column<Study> = ("syncs", |_, row| grouped(row.median(|run| run.syncs() as f64) as u64));
const OTHERS: Column<Study> = ("others", |_, row| places::<2>(row.median(Run::others)));
const CONFLICTS: Column<Study> =
    ("conflicts", |_, row| grouped(row.median(|run| run.conflicts as f64) as u64));
const SPEED_UP: Column<Study> = ("speed-up", |of, row| optional(speed_up(of.rows, row).map(places::<2>)));

const LOG_COMMIT: &[Column<Study>] = &[
    P50,
    P99,
    P999,
    ("p50/raw", |_, row| places::<2>(row.median(p50_to_raw))),
    ("p99/raw", |_, row| places::<2>(row.median(p99_to_raw))),
    CPU,
    VOLUNTARY,
    INVOLUNTARY,
    PER_SYNC,
    BYTES,
    MEGABYTES,
    TO_BEST,
    ADAPTIVE,
];
const AETHER_3: &[Column<Study>] = &[P50, P99, CONFLICTS, SPEED_UP];
const AETHER_4: &[Column<Study>] = &[
    P50,
    P99,
    ("switches/s", |_, row| grouped(row.median(switches) as u64)),
    VOLUNTARY,
    INVOLUNTARY,
    BUSY,
    ("in system", |_, row| {
        places::<2>(row.median(|run| run.usage.system.as_secs_f64() / run.seconds.max(1e-9)))
    }),
    CPU,
    PER_SYNC,
];
const FLUSHING: &[Column<Study>] = &[P50, P99, MEAN, PER_SYNC, BYTES, CPU, ADAPTIVE];
const FLUSHING_TABLE_1: &[Column<Study>] = &[
    P50,
    P99,
    MEAN,
    ("lock us", |_, row| places::<2>(row.median(lock_us))),
    ("sync us", |_, row| places::<2>(row.median(sync_us))),
    ("completion us", |_, row| places::<2>(row.median(completion_us))),
    ("slot wait us", |_, row| places::<2>(row.median(slot_wait_us))),
    ("threads/slot", |_, row| places::<1>(row.median(threads_per_slot))),
    ("requests/queue", |_, row| places::<1>(row.median(requests_per_queue))),
    ("locks", |_, row| grouped(row.median(|run| run.counted(|counters| counters.sync_locks) as f64) as u64)),
    SYNCS,
    ("released/sync", |_, row| places::<1>(row.median(released_per_sync))),
    PER_SYNC,
    BYTES,
    VOLUNTARY,
    INVOLUNTARY,
];
const APPEND: &[Column<Study>] = &[
    P50,
    P99,
    ("append us", |_, row| places::<3>(row.median(|run| whole_us(run, &row.case)))),
    ("raw us", |_, row| places::<3>(row.median(|run| run.raw.write_us))),
    ("to raw", |_, row| places::<2>(row.median(|run| whole_us(run, &row.case) / run.raw.write_us))),
    BUSY,
    OTHERS,
];
const NVRAM: &[Column<Study>] = &[
    P50,
    P99,
    ("txn us", |_, row| places::<1>(row.median(|run| whole_us(run, &row.case)))),
    CPU,
    BUSY,
    OTHERS,
    ("checkpoints", |_, row| places::<0>(row.median(|run| run.checkpoints as f64))),
    ("to disk", |of, row| optional(to_disk(of.rows, row).map(places::<2>))),
];
const READERS: &[Column<Study>] = &[
    P50,
    P99,
    CONFLICTS,
    ("per cpu s", |_, row| grouped(row.median(Run::per_cpu_second) as u64)),
    ("to alone", |of, row| optional(to_alone(of.rows, row).map(places::<2>))),
    ("by cpu s", |of, row| optional(to_alone_by_cpu(of.rows, row).map(places::<2>))),
];
const CICADA: &[Column<Study>] = &[
    P50,
    P99,
    CONFLICTS,
    CPU,
    BUSY,
    OTHERS,
    PER_SYNC,
    ("to off", |of, row| optional(to_logging_off(of.rows, row).map(places::<2>))),
    ("to serial", |of, row| optional(to_serial(of.rows, row).map(places::<2>))),
    SPEED_UP,
];
const SYSTEMS: &[Column<Study>] = &[P50, P99, MEAN, MEGABYTES, PER_SYNC, BYTES, VOLUNTARY, CPU, BUSY];
const SIZES: &[Column<Study>] = &[P50, P99, P999, MEGABYTES, TO_BEST, PER_SYNC, BYTES, CPU];

impl Grid for Study {
    type Case = Case;
    type Round = Run;

    const CSV: &'static [Column<Self>] = CSV;
    const VARYING: &'static [Column<Self>] = VARYING;
    const CONSTANT: &'static [Column<Self>] = VARYING;
    const SILENT: &'static [&'static str] = &["", "-", "0"];

    fn rate(self) -> &'static str {
        "commits/s"
    }

    fn first(self) -> &'static [Column<Self>] {
        if matches!(self, Study::Nvram(_)) { &[] } else { PROTOCOL }
    }

    fn measured(self) -> &'static [Column<Self>] {
        match self {
            Study::LogCommit => LOG_COMMIT,
            Study::Figure(Figure::Aether3) => AETHER_3,
            Study::Figure(Figure::Aether4 | Figure::Aether5) => AETHER_4,
            Study::Figure(Figure::Flushing5 | Figure::Flushing6) => FLUSHING,
            Study::Figure(Figure::FlushingTable1) => FLUSHING_TABLE_1,
            Study::Nvram(NvramFigure::Append) => APPEND,
            Study::Nvram(_) => NVRAM,
            Study::Cicada(CicadaFigure::Readers) => READERS,
            Study::Cicada(_) => CICADA,
            Study::Figure(
                Figure::Aether2
                | Figure::Aether9
                | Figure::Eleda8
                | Figure::Eleda10
                | Figure::Eleda12
                | Figure::Eleda13
                | Figure::Eleda19,
            ) => SYSTEMS,
            Study::Figure(Figure::Eleda14 | Figure::Eleda18) => SIZES,
        }
    }

    fn head(rows: &Rows<'_, Self>) -> Vec<String> {
        let setting = rows.setting;
        let mut lines = match rows.grid.spec() {
            Some(spec) => {
                let mut lines = wrapped(&format!("{}: {}", spec.name, spec.about));
                lines.extend(wrapped(&format!("the paper saw: {}", spec.saw)));
                lines.extend(wrapped(spec.note).iter().map(|line| format!("  {line}")));
                lines
            }
            None => vec!["log-commit: one record a commit, in the log alone".to_owned()],
        };
        lines.push(format!(
            "  {} rounds of {} s; the same in all: device={} method={} {}",
            rows.rows.first().map_or(0, |row| row.rounds.len()),
            setting.millis / 1e3,
            setting.device,
            setting.method,
            rows.constants()
        ));
        for form in forms(rows) {
            lines.extend(wrapped(&format!("logs in {form}")));
        }
        lines.extend(limits(rows).iter().map(|line| format!("  {line}")));
        lines
    }

    fn tail(rows: &Rows<'_, Self>) -> Vec<String> {
        check(rows).into_iter().collect()
    }

    fn charts(rows: &Rows<'_, Self>) -> Vec<Chart> {
        charts(rows)
    }
}

/// Meanings of the columns.
pub const LEGEND: &str = "Figures are medians over the rounds, slowest and fastest are rounds, percentiles are of all rounds. us: of one \
    commit. waits, preempt.: voluntary and involuntary context switches of a commit. cores, others: processors that this process and all \
    others kept busy. raw: the median durable 4 KiB write of the same round. to best: the ratio of the log's bandwidth to that of the \
    device's best sequential durable writes. to adaptive: the ratio of commits a second to those of adaptive with the same clients. to \
    disk: the ratio to those of the disk log that the figure names";
