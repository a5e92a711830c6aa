//! Rows as a table for people.
//!
//! Pure. It leaves out what does not vary.

use super::case::{Delay, Row, Run, Work};
use super::cicada::CicadaFigure;
use super::compare::{speed_up, to_adaptive, to_alone, to_alone_by_cpu, to_disk, to_logging_off, to_serial};
use super::figures::{Figure, Spec};
use super::nvram::NvramFigure;
use super::quantities::*;
use crate::host::device::Device;
use katydid_command::bytes::{grouped, shown};
use katydid_command::table;
use katydid_wal::Form;

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

pub type Text = fn(&Rows<'_>, &Row) -> String;

/// What can vary, as a column of the table: only if it does.
const VARYING: [(&str, Text); 17] = [
    ("system", |_, row| optional(row.case.system)),
    ("on", on),
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

/// Where the log is, if that is not the same in all rows.
fn on(of: &Rows<'_>, row: &Row) -> String {
    match of.rows.iter().any(|row| row.case.device.is_some()) {
        true => row.case.device.map_or(of.setting.device, Device::name).to_owned(),
        false => String::new(),
    }
}

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
            Of::Figure(Figure::Flushing5 | Figure::Flushing6) => {
                columns.extend([mean, per_sync, bytes, cpu, adaptive])
            }
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
            Of::Nvram(NvramFigure::Append) => columns.extend([
                ("append us", (|_, row| places::<3>(row.median(|run| whole_us(run, &row.case)))) as Text),
                ("raw us", |_, row| places::<3>(row.median(|run| run.raw.write_us))),
                ("to raw", |_, row| {
                    places::<2>(row.median(|run| whole_us(run, &row.case) / run.raw.write_us))
                }),
                busy,
                ("others", |_, row| places::<2>(row.median(Run::others))),
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
            Of::Figure(
                Figure::Aether9
                | Figure::Eleda8
                | Figure::Eleda10
                | Figure::Eleda12
                | Figure::Eleda13
                | Figure::Eleda19,
            ) => {
                columns.extend([mean, megabytes, per_sync, bytes, voluntary, cpu, busy]);
            }
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
        if self.rows.iter().any(|row| row.case.work == Work::Pair) {
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
        let mut measured: Vec<_> =
            self.rows.iter().map(|row| (row.case.delay, row.case.record_in_nvram(), on(self, row))).collect();
        measured.sort();
        measured.dedup();
        let line = |(delay, record, device): (_, Option<u64>, String)| {
            let of = |row: &&Row| {
                (row.case.delay, row.case.record_in_nvram()) == (delay, record) && on(self, row) == device
            };
            let row = self.rows.iter().find(of)?;
            if let Some(bytes) = record {
                let us = row.median(|run| run.raw.write_us);
                return Some(format!(
                    "NVRAM, delay {}: {bytes} bytes copied, written back and fenced in {us:.3} us (median round)",
                    Delay(delay)
                ));
            }
            Some(format!(
                "device{}{device}, delay {}: raw durable 4 KiB write {:.1} us, best sequential {:.0} MB/s (median round)",
                if device.is_empty() { "" } else { " " },
                Delay(delay),
                row.median(|run| run.raw.write_us),
                row.median(|run| run.raw.best_megabytes)
            ))
        };
        measured.into_iter().filter_map(line).collect()
    }
}
