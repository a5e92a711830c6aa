//! Rows of sweeps as a table and as CSV.
//!
//! Pure functions.

use super::case::{Case, Inserted, Row, Subject};
use super::lines::{latency, picture};
use super::reference::{REFERENCES, ratio_to};
use super::sweep::Sweep;
use crate::grid::chart::Drawing;
use crate::grid::columns::{Chart, Column, Grid, Rows, Setting, of_times, optional};
use katydid_command::bytes::{grouped, shown};
use katydid_command::table::wrapped;

fn of_median(row: &Row, text: impl FnOnce(&Inserted) -> String) -> String {
    row.median_round().map_or(String::new(), text)
}

fn ratio<const REFERENCE: usize>(of: &Rows<'_, Sweep>, row: &Row) -> String {
    let ratio = match of.grid {
        Sweep::Limits => ratio_to(of.rows, row, REFERENCES[REFERENCE]),
        _ => None,
    };
    optional(ratio.map(|ratio| format!("{ratio:.3}")))
}

fn crawled(row: &Row) -> Option<f64> {
    row.median_round()?.crawled()
}

fn look_us(row: &Row) -> String {
    of_median(row, |round| optional(round.look_us.map(|us| format!("{us:.2}"))))
}

/// All columns of the CSV file. Every sweep and both kinds of threads have the same columns.
const CSV: &[Column<Sweep>] = &[
    ("sweep", |of, _| of.grid.name().to_owned()),
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
    ("crawled", |_, row| optional(crawled(row).map(|share| format!("{share:.4}")))),
    ("times", |_, row| optional(row.summary().map(|times| times.count))),
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

/// Columns that distinguish cases in every sweep.
const FIRST: &[Column<Sweep>] = &[
    ("inserter", |_, row| row.case.subject.to_string()),
    ("threads", |_, row| row.case.threads.to_string()),
    ("record", |_, row| row.case.record.to_string()),
];

const VARYING: &[Column<Sweep>] = &[
    ("outlier", |_, row| row.case.outlier.map_or("-".to_owned(), |bytes| bytes.to_string())),
    ("slots", |_, row| row.case.slots.to_string()),
    ("hop", |_, row| shown(row.case.hop_bytes)),
    ("chunk", |_, row| shown(row.case.chunk_bytes as u64)),
    ("work us", |_, row| (row.case.work_ns / 1e3).to_string()),
    ("ring", |_, row| shown(row.case.ring_bytes as u64)),
    ("device", |_, row| optional(row.case.device.map(|device| device.name()))),
];

/// Settings, under the names of their flags.
const CONSTANT: &[Column<Sweep>] = &[
    ("slots", |_, row| row.case.slots.to_string()),
    ("hop_bytes", |_, row| row.case.hop_bytes.to_string()),
    ("chunk_bytes", |_, row| row.case.chunk_bytes.to_string()),
    ("work_ns", |_, row| row.case.work_ns.to_string()),
    ("ring", |_, row| row.case.ring_bytes.to_string()),
];

const MEGABYTES: Column<Sweep> =
    ("MB/s", |_, row| of_median(row, |round| format!("{:.0}", round.megabytes_per_second)));
const P50: Column<Sweep> = ("p50 us", |_, row| of_times(row, |times| times.p50_us));
const P99: Column<Sweep> = ("p99 us", |_, row| of_times(row, |times| times.p99_us));
const P999: Column<Sweep> = ("p99.9 us", |_, row| of_times(row, |times| times.p999_us));
const MAX: Column<Sweep> = ("max us", |_, row| of_times(row, |times| times.max_us));
const REFUSED: Column<Sweep> = ("refused", |_, row| of_median(row, |round| optional(round.refused)));
const LOOK: Column<Sweep> = ("look us", |_, row| look_us(row));
const STANDSTILLS: Column<Sweep> =
    ("standstills", |_, row| optional(row.summary().map(|times| grouped(times.count))));
const LEAST: Column<Sweep> = ("least", |_, row| of_median(row, |round| grouped(round.of_one_thread.0)));
const MOST: Column<Sweep> = ("most", |_, row| of_median(row, |round| grouped(round.of_one_thread.1)));
const CRAWLED: Column<Sweep> =
    ("crawled %", |_, row| optional(crawled(row).map(|share| format!("{:.1}", share * 100.0))));
const TO_PRIVATE: Column<Sweep> = ("to private", ratio::<0>);
const TO_WORD: Column<Sweep> = ("to word", ratio::<1>);
const TO_GRASSHOPPER: Column<Sweep> = ("to grassh.", ratio::<2>);
const TO_MUTEX: Column<Sweep> = ("to mutex", ratio::<3>);

impl Grid for Sweep {
    type Case = Case;
    type Round = Inserted;

    const CSV: &'static [Column<Self>] = CSV;
    const VARYING: &'static [Column<Self>] = VARYING;
    const CONSTANT: &'static [Column<Self>] = CONSTANT;
    const SILENT: &'static [&'static str] = &[];

    fn rate(self) -> &'static str {
        if self == Sweep::Txn { "txn/s" } else { "records/s" }
    }

    fn first(self) -> &'static [Column<Self>] {
        FIRST
    }

    fn measured(self) -> &'static [Column<Self>] {
        match self {
            Sweep::Limits => &[MEGABYTES, TO_PRIVATE, TO_WORD, TO_GRASSHOPPER, TO_MUTEX],
            Sweep::Stall => &[MEGABYTES, STANDSTILLS, P50, P99, MAX, LOOK],
            Sweep::Txn => &[MEGABYTES, P50, P99, P999, MAX, REFUSED],
            Sweep::Crawl | Sweep::Bitmap => &[MEGABYTES, LEAST, MOST, CRAWLED],
            Sweep::Threads
            | Sweep::Size
            | Sweep::SizeCached
            | Sweep::Outlier
            | Sweep::Slots
            | Sweep::Work => &[MEGABYTES, LEAST, MOST],
        }
    }

    fn head(rows: &Rows<'_, Self>) -> Vec<String> {
        let spec = rows.grid.spec();
        let simulated = rows.setting.seed.map_or("", |_| spec.note_simulated);
        let mut lines = vec![format!("sweep {}: {}", spec.name, spec.about)];
        for note in [simulated, spec.note] {
            lines.extend(wrapped(note).iter().map(|line| format!("  {line}")));
        }
        lines.push(format!("  the same in all: {}", rows.constants()));
        lines
    }

    fn charts(rows: &Rows<'_, Self>) -> Vec<Chart> {
        let name = rows.grid.name().to_owned();
        let chart = |name, picture| Chart { name, drawing: Drawing::Lines(picture) };
        let latency = latency(rows).map(|picture| chart(format!("{name}-latency"), picture));
        std::iter::once(chart(name, picture(rows))).chain(latency).collect()
    }

    fn is_reference(case: &Case) -> bool {
        !matches!(case.subject, Subject::Design(_))
    }
}

/// Meanings of the words in a table.
pub fn legend(setting: &Setting, rows: &[&Row]) -> Vec<String> {
    let rounds = match setting.seed {
        Some(_) => "another seed each",
        None => "every case once in each",
    };
    let mut lines = Vec::new();
    if rows.iter().any(|row| row.rounds.len() > 1) {
        lines.push(format!(
            "slowest and fastest: records a second of these rounds ({rounds}); all other figures are those of the median round, but times \
             are of all rounds"
        ));
    }
    lines.push("least and most: records of one thread".to_owned());
    lines
}
