//! Rows as a table for people and as CSV for programs.
//!
//! Pure. CSV has the same columns for every figure and for `log-commit`; what a row has nothing to say about is empty. A table leaves out
//! what does not vary.

use super::case::{Case, Delay, Row, Run, Work};
use super::cicada::CicadaFigure;
use super::compare::{speed_up, to_adaptive, to_alone, to_alone_by_cpu, to_disk, to_logging_off, to_serial};
use super::figures::{Figure, Spec};
use super::nvram::NvramFigure;
use crate::bytes::{grouped, shown};
use crate::table;
use katydid_wal::{Counters, Form, Group};

/// What is the same for all rows of a command.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The commit that the program was built from, if that is known.
    pub commit: Option<&'static str>,
    pub machine: String,
    pub device: &'static str,
    pub method: String,
    /// Of one run.
    pub millis: f64,
    /// Of TPC-B, where there is a store.
    pub branches: Option<u64>,
}

/// What rows are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    LogCommit,
    Figure(Figure),
    Cicada(CicadaFigure),
    Nvram(NvramFigure),
}

impl Of {
    pub fn name(self) -> &'static str {
        match self {
            Of::LogCommit => "log-commit",
            Of::Figure(figure) => figure.name(),
            Of::Cicada(figure) => figure.spec().name,
            Of::Nvram(figure) => figure.spec().name,
        }
    }

    /// The figure of a paper in words, if it is one.
    pub fn spec(self) -> Option<Spec> {
        match self {
            Of::LogCommit => None,
            Of::Figure(figure) => Some(figure.spec()),
            Of::Cicada(figure) => Some(figure.spec()),
            Of::Nvram(figure) => Some(figure.spec()),
        }
    }
}

/// Rows of one figure.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    pub of: Of,
    pub rows: &'a [Row],
    pub setting: &'a Setting,
}

type Text = fn(&Rows<'_>, &Row) -> String;

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn places<const PLACES: usize>(value: f64) -> String {
    format!("{value:.PLACES$}")
}

fn group(group: Group) -> String {
    format!("{},{},{}", group.commits, group.bytes, group.microseconds)
}

fn is_store(case: &Case) -> bool {
    !matches!(case.work, Work::Log { .. })
}

fn counted(row: &Row, of: fn(&Counters) -> u64) -> String {
    places::<0>(row.median(|run| run.counted(of) as f64))
}

/// All columns of the CSV file.
const CSV: &[(&str, Text)] = &[
    ("figure", |of, _| of.of.name().to_owned()),
    ("log", |_, row| row.case.log.to_string()),
    ("nvram", |_, row| optional(form(row))),
    ("entries", |_, row| optional(row.case.entries)),
    ("commit", |of, _| optional(of.setting.commit)),
    ("machine", |of, _| of.setting.machine.clone()),
    ("device", |of, _| of.setting.device.to_owned()),
    ("method", |of, _| of.setting.method.clone()),
    ("millis", |of, _| of.setting.millis.to_string()),
    ("branches", |of, row| optional(of.setting.branches.filter(|_| is_store(&row.case)))),
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
    ("delay_us", |_, row| (row.case.delay.as_nanos() as f64 / 1e3).to_string()),
    ("io_unit", |_, row| optional(row.case.io_unit)),
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
    ("times", |_, row| row.summary().count.to_string()),
    ("transaction_us", |_, row| places::<1>(row.median(|run| whole_us(run, &row.case)))),
    ("mean_us", |_, row| places::<1>(row.summary().mean_us)),
    ("p50_us", |_, row| places::<1>(row.summary().p50_us)),
    ("p99_us", |_, row| places::<1>(row.summary().p99_us)),
    ("p999_us", |_, row| places::<1>(row.summary().p999_us)),
    ("max_us", |_, row| places::<1>(row.summary().max_us)),
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
    ("byte_us", |_, row| places::<1>(row.median(byte_us))),
    ("depth", |_, row| places::<0>(row.median(|run| f64::from(run.counters.1.depth)))),
    ("syncer_wakeups", |_, row| counted(row, |counters| counters.syncer_wakeups)),
    ("checkpoints", |_, row| places::<0>(row.median(|run| run.checkpoints as f64))),
    ("stalls", |_, row| counted(row, |counters| counters.stalls)),
    ("conflicts", |_, row| places::<0>(row.median(|run| run.conflicts as f64))),
    ("refused", |_, row| places::<0>(row.median(|run| run.refused as f64))),
    ("checked", |_, row| optional(checked(row))),
];

/// Transfers that were added up, over all rounds.
fn checked(row: &Row) -> Option<u64> {
    row.rounds.iter().map(|run| run.checked).sum()
}

/// How long a transaction takes from its beginning until it is told, on the mean: what is in flight by how soon it is done.
pub fn whole_us(run: &Run, case: &Case) -> f64 {
    (case.threads * case.in_flight) as f64 / run.per_second().max(1e-9) * 1e6
}

/// How the memory of a log in NVRAM persisted.
fn form(row: &Row) -> Option<Form> {
    row.rounds.iter().find_map(|run| run.nvram)
}

/// In NVRAM there is no protocol.
fn sync(case: &Case) -> String {
    if case.log.in_nvram() { "-".to_owned() } else { case.sync.to_string() }
}

fn p50_to_raw(run: &Run) -> f64 {
    run.at(0.5) / run.raw.write_us.max(1e-3)
}

fn p99_to_raw(run: &Run) -> f64 {
    run.at(0.99) / run.raw.write_us.max(1e-3)
}

pub fn bandwidth_to_raw(run: &Run) -> f64 {
    run.megabytes_per_second() / run.raw.best_megabytes.max(1e-9)
}

fn cpu_us(run: &Run) -> f64 {
    run.per_commit(run.usage.cpu().as_secs_f64() * 1e6)
}

pub fn cores(run: &Run) -> f64 {
    run.usage.cpu().as_secs_f64() / run.seconds.max(1e-9)
}

pub fn switches(run: &Run) -> f64 {
    run.usage.switches() as f64 / run.seconds.max(1e-9)
}

fn commits_per_sync(run: &Run) -> f64 {
    run.per_sync(run.commits as f64)
}

fn bytes_per_sync(run: &Run) -> f64 {
    run.per_sync(run.counted(|counters| counters.bytes_synced) as f64)
}

fn released_per_sync(run: &Run) -> f64 {
    run.per_sync(run.counted(|counters| counters.released) as f64)
}

fn lock_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.sync_lock_ns) as f64 / 1e3)
}

fn sync_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.sync_ns) as f64 / 1e3)
}

fn completion_us(run: &Run) -> f64 {
    run.per_commit(run.counted(|counters| counters.completion_ns) as f64 / 1e3)
}

/// The mean time of a byte of the log from its reservation to its durability.
fn byte_us(run: &Run) -> f64 {
    let bytes = run.counted(|counters| counters.bytes_synced).max(1);
    run.counted(|counters| counters.byte_ns) as f64 / bytes as f64 / 1e3
}

/// The names of the columns, and the rows of all figures.
pub fn csv(all: &[Rows<'_>]) -> String {
    let mut lines = vec![CSV.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
    for of in all {
        lines.extend(of.rows.iter().map(|row| CSV.iter().map(|(_, field)| field(of, row)).collect()));
    }
    table::csv(&lines)
}

/// What can vary, as a column of the table: only if it does.
const VARYING: [(&str, Text); 15] = [
    ("log", |_, row| row.case.log.to_string()),
    ("entries", |_, row| optional(row.case.entries)),
    ("work", |_, row| row.case.work.name().to_owned()),
    ("payload", |_, row| row.case.work.payload().map_or("-".to_owned(), |bytes| bytes.to_string())),
    ("delay", |_, row| Delay(row.case.delay).to_string()),
    ("skew", |_, row| optional(row.case.work.skew())),
    ("I/O unit", |_, row| row.case.io_unit.map_or("-".to_owned(), |bytes| shown(bytes as u64))),
    ("clients", |_, row| row.case.clients()),
    ("inserter", |_, row| row.case.inserter.to_string()),
    ("locks", |_, row| row.case.release.to_string()),
    ("told when", |_, row| row.case.durability.to_string()),
    ("streams", |_, row| optional(row.case.streams)),
    ("group", |_, row| row.case.group.map_or("-".to_owned(), group)),
    ("reads %", |_, row| optional(row.case.work.reads_percent())),
    ("writers", |_, row| optional(row.case.work.writers())),
];

impl Rows<'_> {
    fn varies(&self, text: Text) -> bool {
        let mut texts = self.rows.iter().map(|row| text(self, row));
        let first = texts.next();
        texts.any(|text| Some(&text) != first.as_ref())
    }

    fn columns(&self) -> Vec<(&'static str, Text)> {
        let mut columns: Vec<(&'static str, Text)> = Vec::new();
        if !matches!(self.of, Of::Nvram(_)) {
            columns.push(("sync", |_, row| sync(&row.case)));
        }
        columns.extend(VARYING.into_iter().filter(|(_, text)| self.varies(*text)));
        columns.push(("commits/s", |_, row| grouped(row.median(Run::per_second) as u64)));
        if self.rows.iter().any(|row| row.rounds.len() > 1) {
            columns.push(("slowest", |_, row| grouped(row.spread().0 as u64)));
            columns.push(("fastest", |_, row| grouped(row.spread().1 as u64)));
        }
        columns.push(("p50 us", |_, row| places::<1>(row.summary().p50_us)));
        columns.push(("p99 us", |_, row| places::<1>(row.summary().p99_us)));
        let mean: (_, Text) = ("mean us", |_, row| places::<1>(row.summary().mean_us));
        let p999: (_, Text) = ("p99.9 us", |_, row| places::<1>(row.summary().p999_us));
        let adaptive: (_, Text) =
            ("to adaptive", |of, row| optional(to_adaptive(of.rows, row).map(places::<2>)));
        let cpu: (_, Text) = ("cpu us", |_, row| places::<2>(row.median(cpu_us)));
        let voluntary: (_, Text) =
            ("waits", |_, row| places::<3>(row.median(|run| run.per_commit(run.usage.voluntary as f64))));
        let involuntary: (_, Text) = ("preempt.", |_, row| {
            places::<3>(row.median(|run| run.per_commit(run.usage.involuntary as f64)))
        });
        let busy: (_, Text) = ("cores", |_, row| places::<2>(row.median(cores)));
        let megabytes: (_, Text) = ("MB/s", |_, row| places::<1>(row.median(Run::megabytes_per_second)));
        let to_best: (_, Text) = ("to best", |_, row| places::<2>(row.median(bandwidth_to_raw)));
        let per_sync: (_, Text) = ("commits/sync", |_, row| places::<1>(row.median(commits_per_sync)));
        let bytes: (_, Text) = ("bytes/sync", |_, row| grouped(row.median(bytes_per_sync) as u64));
        let syncs: (_, Text) = ("syncs", |_, row| grouped(row.median(|run| run.syncs() as f64) as u64));
        match self.of {
            Of::LogCommit => columns.extend([
                p999,
                ("p50/raw", |_, row| places::<2>(row.median(p50_to_raw))),
                ("p99/raw", |_, row| places::<2>(row.median(p99_to_raw))),
                cpu,
                voluntary,
                involuntary,
                per_sync,
                bytes,
                megabytes,
                to_best,
                adaptive,
            ]),
            Of::Figure(Figure::Aether3) => columns.extend([
                ("conflicts", (|_, row| grouped(row.median(|run| run.conflicts as f64) as u64)) as Text),
                ("speed-up", |of, row| optional(speed_up(of.rows, row).map(places::<2>))),
            ]),
            Of::Figure(Figure::Aether4 | Figure::Aether5) => columns.extend([
                ("switches/s", (|_, row| grouped(row.median(switches) as u64)) as Text),
                voluntary,
                involuntary,
                busy,
                ("in system", |_, row| {
                    places::<2>(row.median(|run| run.usage.system.as_secs_f64() / run.seconds.max(1e-9)))
                }),
                cpu,
                per_sync,
            ]),
            Of::Figure(Figure::Flushing5) => columns.extend([mean, per_sync, bytes, cpu, adaptive]),
            Of::Figure(Figure::FlushingTable1) => columns.extend([
                mean,
                ("lock us", |_, row| places::<2>(row.median(lock_us))),
                ("sync us", |_, row| places::<2>(row.median(sync_us))),
                ("completion us", |_, row| places::<2>(row.median(completion_us))),
                ("locks", |_, row| {
                    grouped(row.median(|run| run.counted(|counters| counters.sync_locks) as f64) as u64)
                }),
                syncs,
                ("released/sync", |_, row| places::<1>(row.median(released_per_sync))),
                per_sync,
                bytes,
                voluntary,
                involuntary,
            ]),
            Of::Nvram(_) => columns.extend([
                ("txn us", (|_, row| places::<1>(row.median(|run| whole_us(run, &row.case)))) as Text),
                cpu,
                busy,
                ("others", |_, row| places::<2>(row.median(Run::others))),
                ("checkpoints", |_, row| places::<0>(row.median(|run| run.checkpoints as f64))),
                ("to disk", |of, row| optional(to_disk(of.rows, row).map(places::<2>))),
            ]),
            Of::Cicada(CicadaFigure::Readers) => columns.extend([
                ("conflicts", (|_, row| grouped(row.median(|run| run.conflicts as f64) as u64)) as Text),
                ("per cpu s", |_, row| grouped(row.median(Run::per_cpu_second) as u64)),
                ("to alone", |of, row| optional(to_alone(of.rows, row).map(places::<2>))),
                ("by cpu s", |of, row| optional(to_alone_by_cpu(of.rows, row).map(places::<2>))),
            ]),
            Of::Cicada(_) => columns.extend([
                ("conflicts", (|_, row| grouped(row.median(|run| run.conflicts as f64) as u64)) as Text),
                cpu,
                busy,
                ("others", |_, row| places::<2>(row.median(Run::others))),
                per_sync,
                ("to off", |of, row| optional(to_logging_off(of.rows, row).map(places::<2>))),
                ("to serial", |of, row| optional(to_serial(of.rows, row).map(places::<2>))),
                ("speed-up", |of, row| optional(speed_up(of.rows, row).map(places::<2>))),
            ]),
            Of::Figure(Figure::Eleda14 | Figure::Eleda18) => {
                columns.extend([p999, megabytes, to_best, per_sync, bytes, cpu]);
            }
        }
        columns
    }

    /// The table's lines.
    pub fn table(&self) -> Vec<String> {
        let columns = self.columns();
        let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()];
        lines.extend(self.rows.iter().map(|row| columns.iter().map(|(_, text)| text(self, row)).collect()));
        table::lined_up(&lines)
    }

    /// What is the same in all rows.
    pub fn constants(&self) -> String {
        let Some(row) = self.rows.first() else { return String::new() };
        let same = VARYING.into_iter().filter(|(_, text)| !self.varies(*text));
        let words = same.map(|(name, text)| (name.replace(' ', "_"), text(self, row)));
        let words = words.filter(|(_, text)| !text.is_empty() && text != "-" && text != "0");
        words.map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>().join(" ")
    }

    /// How the memory of all logs in NVRAM persists.
    pub fn forms(&self) -> Vec<Form> {
        let mut forms: Vec<Form> = Vec::new();
        for form in self.rows.iter().filter_map(form) {
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        forms
    }

    /// What was added up, where there was something.
    pub fn check(&self) -> Option<String> {
        let transfers: u64 = self.rows.iter().filter_map(checked).sum();
        let any = self.rows.iter().any(|row| checked(row).is_some());
        if let Of::Nvram(_) = self.of {
            return any.then(|| {
                format!(
                    "check: the conditions of TPC-C held after every run, {} transactions",
                    grouped(transfers)
                )
            });
        }
        any.then(|| {
            format!(
                "check: after every run all balances and the history added up, {} transfers",
                grouped(transfers)
            )
        })
    }

    /// What the device does by itself, at each delay.
    pub fn limits(&self) -> Vec<String> {
        let mut delays: Vec<_> = self.rows.iter().map(|row| row.case.delay).collect();
        delays.sort();
        delays.dedup();
        let line = |delay| {
            let row = self.rows.iter().find(|row| row.case.delay == delay)?;
            Some(format!(
                "device, delay {}: raw durable 4 KiB write {:.1} us, best sequential {:.0} MB/s (median round)",
                Delay(delay),
                row.median(|run| run.raw.write_us),
                row.median(|run| run.raw.best_megabytes)
            ))
        };
        delays.into_iter().filter_map(line).collect()
    }
}
