//! Rows as a table for people and as CSV for programs.
//!
//! Pure. CSV has the same columns for every sweep and on both kinds of threads; what a row has nothing to say about is empty. A table
//! leaves out what does not vary, and what its sweep does not measure.

use super::case::{Figures, Row};
use super::{Axis, Sweep, reference};
use katydid_command::bytes::{grouped, shown};
use katydid_command::table;
use katydid_workload::measure::Summary;

/// What is the same for all rows of a command.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The commit that the program was built from, if that is known.
    pub commit: Option<&'static str>,
    /// The machine, in a line or by its name.
    pub machine: String,
    /// The machine as charts name it.
    pub title: String,
    /// Of one run, in milliseconds: real, or simulated.
    pub millis: f64,
    /// Of the first round.
    pub seed: Option<u64>,
    /// Commits that a thread may have in flight, where there are commits.
    pub in_flight: usize,
}

/// Rows of one sweep.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    pub sweep: Sweep,
    pub rows: &'a [Row],
    pub setting: &'a Setting,
}

type Text = fn(&Rows<'_>, &Row) -> String;

fn of_median(row: &Row, text: impl FnOnce(&Figures) -> String) -> String {
    row.median().map_or(String::new(), text)
}

fn of_times(row: &Row, of: fn(&Summary) -> f64) -> String {
    row.times().map_or(String::new(), |times| format!("{:.1}", of(&times)))
}

fn ratio<const REFERENCE: usize>(of: &Rows<'_>, row: &Row) -> String {
    let ratio = match of.sweep {
        Sweep::Limits => reference::ratio(of.rows, row, reference::REFERENCES[REFERENCE]),
        _ => None,
    };
    ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"))
}

fn crawled(row: &Row) -> String {
    row.crawled().map_or(String::new(), |share| format!("{share:.4}"))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// All columns of the CSV file.
const CSV: [(&str, Text); 38] = [
    ("sweep", |of, _| of.sweep.name().to_owned()),
    ("commit", |of, _| optional(of.setting.commit)),
    ("machine", |of, _| of.setting.machine.clone()),
    ("inserter", |_, row| row.case.subject.to_string()),
    ("threads", |_, row| row.case.threads.to_string()),
    ("record", |_, row| row.case.record.to_string()),
    ("outlier", |_, row| optional(row.case.outlier)),
    ("slots", |_, row| row.case.slots.to_string()),
    ("hop_bytes", |_, row| row.case.hop_bytes.to_string()),
    ("chunk_bytes", |_, row| row.case.chunk_bytes.to_string()),
    ("ring", |_, row| row.case.ring_bytes.to_string()),
    ("work_ns", |_, row| row.case.work_ns.to_string()),
    ("device", |_, row| optional(row.case.device.map(|device| device.name()))),
    ("durability", |_, row| if row.case.device.is_some() { "durable" } else { "none" }.to_owned()),
    ("in_flight", |of, row| optional(row.case.device.map(|_| of.setting.in_flight))),
    ("millis", |of, _| of.setting.millis.to_string()),
    ("seed", |of, _| optional(of.setting.seed)),
    ("rounds", |_, row| row.rounds.len().to_string()),
    ("records", |_, row| of_median(row, |round| round.records.to_string())),
    ("records_per_second", |_, row| of_median(row, |round| format!("{:.0}", round.records_per_second))),
    ("slowest_round", |_, row| format!("{:.0}", row.spread().0)),
    ("fastest_round", |_, row| format!("{:.0}", row.spread().1)),
    ("megabytes_per_second", |_, row| of_median(row, |round| format!("{:.3}", round.megabytes_per_second))),
    ("least", |_, row| of_median(row, |round| round.of_one_thread.0.to_string())),
    ("most", |_, row| of_median(row, |round| round.of_one_thread.1.to_string())),
    ("crawled", |_, row| crawled(row)),
    ("times", |_, row| optional(row.times().map(|times| times.count))),
    ("p50_us", |_, row| of_times(row, |times| times.p50_us)),
    ("p99_us", |_, row| of_times(row, |times| times.p99_us)),
    ("p999_us", |_, row| of_times(row, |times| times.p999_us)),
    ("max_us", |_, row| of_times(row, |times| times.max_us)),
    ("look_us", |_, row| of_median(row, |round| optional(round.look_us.map(|us| format!("{us:.2}"))))),
    ("refused", |_, row| of_median(row, |round| optional(round.refused))),
    ("to_private_rings", ratio::<0>),
    ("to_bare_word", ratio::<1>),
    ("to_grasshopper", ratio::<2>),
    ("to_mutex", ratio::<3>),
    ("events", |_, row| of_median(row, |round| optional(round.events))),
];

/// The names of the columns, and the rows of all sweeps.
pub fn csv(sweeps: &[Rows<'_>]) -> String {
    let names = CSV.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut lines = vec![names];
    for of in sweeps {
        lines.extend(of.rows.iter().map(|row| CSV.iter().map(|(_, field)| field(of, row)).collect()));
    }
    table::csv(&lines)
}

/// What can vary, as a column of the table: only if it does.
const VARYING: [(&str, Text); 7] = [
    ("outlier", |_, row| row.case.outlier.map_or("-".to_owned(), |bytes| bytes.to_string())),
    ("slots", |_, row| row.case.slots.to_string()),
    ("hop", |_, row| shown(row.case.hop_bytes)),
    ("chunk", |_, row| shown(row.case.chunk_bytes as u64)),
    ("work us", |_, row| (row.case.work_ns / 1e3).to_string()),
    ("ring", |_, row| shown(row.case.ring_bytes as u64)),
    ("device", |_, row| optional(row.case.device.map(|device| device.name()))),
];

impl Rows<'_> {
    fn columns(&self) -> Vec<(&'static str, Text)> {
        let mut columns: Vec<(&'static str, Text)> = vec![
            ("inserter", |_, row| row.case.subject.to_string()),
            ("threads", |_, row| row.case.threads.to_string()),
            ("record", |_, row| row.case.record.to_string()),
        ];
        let varies = |text: Text| {
            let mut rows = self.rows.iter().filter(|row| !row.case.is_reference()).map(|row| text(self, row));
            let first = rows.next();
            rows.any(|text| Some(&text) != first.as_ref())
        };
        columns.extend(VARYING.into_iter().filter(|(_, text)| varies(*text)));
        let rate = if self.sweep == Sweep::Txn { "txn/s" } else { "records/s" };
        columns.push((rate, |_, row| of_median(row, |round| grouped(round.records_per_second as u64))));
        if self.rows.iter().any(|row| row.rounds.len() > 1) {
            columns.push(("slowest", |_, row| grouped(row.spread().0 as u64)));
            columns.push(("fastest", |_, row| grouped(row.spread().1 as u64)));
        }
        columns.push(("MB/s", |_, row| of_median(row, |round| format!("{:.0}", round.megabytes_per_second))));
        let p50: (_, Text) = ("p50 us", |_, row| of_times(row, |times| times.p50_us));
        let p99: (_, Text) = ("p99 us", |_, row| of_times(row, |times| times.p99_us));
        let max: (_, Text) = ("max us", |_, row| of_times(row, |times| times.max_us));
        match self.sweep {
            Sweep::Limits => columns.extend([
                ("to private", ratio::<0> as Text),
                ("to word", ratio::<1>),
                ("to grassh.", ratio::<2>),
                ("to mutex", ratio::<3>),
            ]),
            Sweep::Stall => {
                columns
                    .push(("standstills", |_, row| optional(row.times().map(|times| grouped(times.count)))));
                columns.extend([p50, p99, max]);
                columns.push(("look us", |_, row| {
                    of_median(row, |round| optional(round.look_us.map(|us| format!("{us:.2}"))))
                }));
            }
            Sweep::Txn => {
                columns.extend([p50, p99]);
                columns.push(("p99.9 us", |_, row| of_times(row, |times| times.p999_us)));
                columns.push(max);
                columns.push(("refused", |_, row| of_median(row, |round| optional(round.refused))));
            }
            _ => {
                columns.push(("least", |_, row| of_median(row, |round| grouped(round.of_one_thread.0))));
                columns.push(("most", |_, row| of_median(row, |round| grouped(round.of_one_thread.1))));
            }
        }
        if matches!(self.sweep, Sweep::Crawl | Sweep::Bitmap) {
            columns.push(("crawled %", |_, row| {
                optional(row.crawled().map(|share| format!("{:.1}", share * 100.0)))
            }));
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

    /// What is the same in all rows and can be set.
    pub fn constants(&self) -> String {
        let Some(row) = self.rows.iter().find(|row| !row.case.is_reference()) else { return String::new() };
        let same = |axis: Axis| {
            let mut designs = self.rows.iter().filter(|row| !row.case.is_reference());
            designs.all(|other| other.case.at(axis) == row.case.at(axis))
        };
        let case = &row.case;
        let mut words = Vec::new();
        let mut word = |axis, text: String| {
            if same(axis) {
                words.push(text);
            }
        };
        word(Axis::Slots, format!("slots={}", case.slots));
        word(Axis::HopBytes, format!("hop_bytes={}", case.hop_bytes));
        word(Axis::ChunkBytes, format!("chunk_bytes={}", case.chunk_bytes));
        word(Axis::WorkMicros, format!("work_ns={}", case.work_ns));
        if self.rows.iter().all(|other| other.case.ring_bytes == case.ring_bytes) {
            words.push(format!("ring={}", case.ring_bytes));
        }
        words.join(" ")
    }
}
