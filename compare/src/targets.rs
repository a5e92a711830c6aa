//! The targets of Katydid for data larger than memory, and for reads and scans at the limit,
//! compared with the results of a run of `all`. Pure functions.
//!
//! A ratio is the median of the rounds' ratios. It compares rows of one part, whose turns
//! alternate. The best of several stores is the one with the best median.

use crate::statistics::times_as_much;
use crate::stores::{Case, Row};

/// Results of a run of `all`.
#[derive(Default)]
pub struct Found {
    /// Rows of each part that was measured.
    pub parts: Vec<(&'static str, Vec<Row>)>,
    /// Parts that could not be measured, with the reason.
    pub left_out: Vec<(&'static str, String)>,
}

/// Stores to which Katydid is compared when data is larger than the cache.
const LSM: &[&str] = &["surrealkv", "rocksdb", "fjall"];

/// Quantity that has a target.
enum Quantity {
    /// Rate as a multiple of the best rate of these stores with as many threads.
    ToBest(&'static [&'static str]),
    /// Rate as a multiple of the best rate of all stores that are not Katydid.
    ToBestOfAll,
    /// Rate as a multiple of the same store's rate with this number of threads.
    ToThreads(usize),
    /// Rate in thousands a second.
    Thousands,
}

/// A target: a row of a part, and the least value of its quantity.
struct Target {
    title: &'static str,
    part: &'static str,
    work: &'static str,
    store: &'static str,
    threads: usize,
    quantity: Quantity,
    least: f64,
}

const fn target(
    title: &'static str,
    (part, work, threads): (&'static str, &'static str, usize),
    quantity: Quantity,
    least: f64,
) -> Target {
    Target { title, part, work, store: "katydid", threads, quantity, least }
}

const fn of_memory(target: Target) -> Target {
    Target { store: "katydid-memory", ..target }
}

use Quantity::{Thousands, ToBest, ToBestOfAll, ToThreads};

const TARGETS: [Target; 19] = [
    target("YCSB C, memory free", ("larger", "ycsb-c", 8), ToBest(LSM), 1.0),
    target("YCSB C, memory free", ("larger", "ycsb-c", 8), ToBest(&["lmdb"]), 0.5),
    target("YCSB A, memory free", ("larger", "ycsb-a", 8), ToBest(LSM), 1.0),
    target("YCSB E, memory free", ("larger", "ycsb-e", 8), ToBest(LSM), 1.0),
    target("YCSB C, memory limited", ("larger-limited", "ycsb-c", 8), ToBest(LSM), 1.3),
    target("YCSB A, memory limited", ("larger-limited", "ycsb-a", 8), ToBest(LSM), 2.5),
    target("YCSB E, memory limited", ("larger-limited", "ycsb-e", 8), ToBest(LSM), 1.3),
    // The time is at most 1.5 times that of the best.
    target("loading in hashed order, by one thread", ("larger", "load", 8), ToBestOfAll, 1.0 / 1.5),
    target("loading in sorted order", ("load-sorted", "load-sorted", 1), Thousands, 300.0),
    target("cached reads, lent", ("cached-reads-lent", "ycsb-c", 1), ToBest(&["lmdb"]), 1.0),
    target("cached reads, copied", ("cached-reads", "ycsb-c", 1), ToBest(&["lmdb"]), 0.9),
    target("cached reads, lent", ("cached-reads-lent", "ycsb-c", 2), ToThreads(1), 1.9),
    target("cached reads, copied", ("cached-reads", "ycsb-c", 2), ToThreads(1), 1.9),
    target("YCSB E in memory", ("ycsb-e", "ycsb-e", 8), ToBest(&["surrealkv"]), 1.1),
    target("inserts that need not be durable", ("unsafe-insert", "insert", 1), ToBest(&["wiredtiger"]), 1.0),
    target("inserts that need not be durable", ("unsafe-insert", "insert", 8), ToBest(&["wiredtiger"]), 1.0),
    of_memory(target("memory engine, reads of 1 KiB", ("cached-reads", "ycsb-c", 2), Thousands, 2000.0)),
    of_memory(target(
        "memory engine, reads of 8 bytes",
        ("cached-reads-8-bytes", "ycsb-c", 2),
        Thousands,
        4000.0,
    )),
    of_memory(target(
        "memory engine, sysbench's read-write mix",
        ("sysbench-read-write", "sysbench-read-write", 8),
        ToBest(&["katydid"]),
        1.0,
    )),
];

/// Targets that this program does not measure: the target, what is wanted, and where it is
/// measured.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    (
        "memory engine, restart with values of 100 bytes",
        ">= 500 MB/s",
        "see `cargo run --release -p katydid --example restart -- write DIR --engine memory`, then `open DIR`",
    ),
    ("reads on 64 simulated cores", ">= 40 x one core", "see `katydid lab manycore reads`"),
    (
        "durable commits of 8 clients while 1 GB of pages is written back",
        "p99 <= 2 x, p99.9 <= 3 x those without",
        "see `cargo run --release -p katydid --example writeback_latency -- DIR`",
    ),
];

/// Least ratio of a durable row to a rival, as a multiple of the ratio of the same row in an
/// earlier run.
const NO_WORSE: f64 = 0.95;

const HEAD: &str = "\
| target | threads | measured | wanted | |
|---|---|---|---|---|
";

/// The table of the targets. `before` is a document with the table of an earlier run, as
/// `docs/results.md` has it; `durable` are the names of the parts whose commits are durable.
pub fn table(found: &Found, before: &str, durable: &[&str]) -> String {
    let mut table = HEAD.to_owned();
    for target in &TARGETS {
        let (measured, verdict) = match target.measure(found) {
            Ok((value, measured)) => (measured, verdict(value / target.least)),
            Err(why) => ("not measured".to_owned(), why),
        };
        let Target { title, threads, .. } = target;
        table += &format!("| {title} | {threads} | {measured} | {} | {verdict} |\n", target.wanted());
    }
    table += &no_worse(found, &ratios_before(before), durable);
    for (title, wanted, place) in ELSEWHERE {
        table += &format!("| {title} | | not measured | {wanted} | {place} |\n");
    }
    table
}

/// Says whether a target is met. `ratio` is the measured value as a multiple of the target.
fn verdict(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent >= 0.0 { format!("met by {percent:.1} %") } else { format!("missed by {:.1} %", -percent) }
}

impl Target {
    /// The value of the quantity and its text, or the reason why there is none.
    fn measure(&self, found: &Found) -> Result<(f64, String), String> {
        let rows = rows(found, self.part)?;
        let ours = self.row(rows, self.store, self.threads)?;
        match self.quantity {
            Thousands => {
                let thousands = ours.median() / 1000.0;
                Ok((thousands, format!("{thousands:.0} thousand/s")))
            }
            ToThreads(threads) => {
                let ratio = ours.times(self.row(rows, self.store, threads)?);
                Ok((ratio, format!("{ratio:.2} x {threads} thread")))
            }
            ToBestOfAll => {
                let rivals = rows.iter().filter(|row| !row.store.name.starts_with("katydid"));
                self.to_best(ours, rivals.map(|row| row.store.name), rows)
            }
            ToBest(stores) => self.to_best(ours, stores.iter().copied(), rows),
        }
    }

    fn to_best(
        &self,
        ours: &Row,
        stores: impl Iterator<Item = &'static str>,
        rows: &[Row],
    ) -> Result<(f64, String), String> {
        let (mut best, mut missing) = (None::<&Row>, Vec::new());
        for store in stores {
            match self.row(rows, store, self.threads) {
                Ok(row) if best.is_none_or(|best| row.median() > best.median()) => best = Some(row),
                Ok(_) => {}
                Err(why) => missing.push(why),
            }
        }
        let best = best.ok_or_else(|| missing.join(", "))?;
        let ratio = ours.times(best);
        let without = if missing.is_empty() { String::new() } else { format!(" ({})", missing.join(", ")) };
        Ok((ratio, format!("{ratio:.2} x {}{without}", best.store.name)))
    }

    /// The row of a store that has results, or the reason why there is none.
    fn row<'r>(&self, rows: &'r [Row], store: &str, threads: usize) -> Result<&'r Row, String> {
        let case = Case { threads, in_flight: 1 };
        let is_it =
            |row: &&Row| row.store.name == store && row.case == case && row.work.to_string() == self.work;
        match rows.iter().find(is_it) {
            Some(row) if !row.rounds.is_empty() => Ok(row),
            Some(_) => Err(format!("{store} failed")),
            None => Err(format!("no {store}")),
        }
    }

    fn wanted(&self) -> String {
        let least = self.least;
        match self.quantity {
            Thousands => format!(">= {least:.0} thousand/s"),
            ToThreads(threads) => format!(">= {least:.2} x {threads} thread"),
            ToBestOfAll => format!(">= {least:.2} x the best of all"),
            ToBest(stores) => format!(">= {least:.2} x {}", one_of(stores)),
        }
    }
}

fn one_of(stores: &[&str]) -> String {
    match stores {
        [store] => (*store).to_owned(),
        stores => format!("the best of {}", stores.join(", ")),
    }
}

/// The rows of a part, or the reason why there are none.
fn rows<'f>(found: &'f Found, part: &str) -> Result<&'f [Row], String> {
    if let Some((_, rows)) = found.parts.iter().find(|(name, _)| *name == part) {
        return Ok(rows);
    }
    let left_out = found.left_out.iter().find(|(name, _)| *name == part);
    Err(left_out.map_or_else(|| format!("part {part} was not run"), |(_, why)| why.clone()))
}

/// A row of an earlier run: its name, such as `insert, 8`, and Katydid's rate as a multiple of a
/// store's.
#[derive(Debug, PartialEq)]
struct Before<'d> {
    name: String,
    ratio: f64,
    store: &'d str,
}

/// The rows of the table in a document: `| insert, 8 | 1.72 surrealkv | ...`.
fn ratios_before(document: &str) -> Vec<Before<'_>> {
    document.lines().filter_map(row_before).collect()
}

fn row_before(line: &str) -> Option<Before<'_>> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let (name, best) = (cells.next()?, cells.next()?);
    let (ratio, store) = best.split_once(' ')?;
    let (part, case) = name.split_once(", ")?;
    let name = format!("{part}, {}", case.replace(' ', ""));
    Some(Before { name, ratio: ratio.parse().ok()?, store })
}

/// The line of the table about all durable rows that were measured before.
fn no_worse(found: &Found, before: &[Before<'_>], durable: &[&str]) -> String {
    let (mut compared, mut worse) = (0, Vec::new());
    for (part, rows) in found.parts.iter().filter(|(part, _)| durable.contains(part)) {
        for ours in rows.iter().filter(|row| row.store.name == "katydid" && !row.rounds.is_empty()) {
            let name = format!("{part}, {}", ours.case);
            let Some(before) = before.iter().find(|before| before.name == name) else { continue };
            let rival = rows.iter().find(|row| {
                row.store.name == before.store && row.case == ours.case && !row.rounds.is_empty()
            });
            let Some(rival) = rival else { continue };
            compared += 1;
            let change = times_as_much(&ours.rates(), &rival.rates()) / before.ratio;
            if change < NO_WORSE {
                worse.push(format!("{name} {change:.2} x"));
            }
        }
    }
    let verdict = match (compared, worse.is_empty()) {
        (0, _) => "no row of the earlier run was run".to_owned(),
        (_, true) => "met".to_owned(),
        (_, false) => format!("missed: {}", worse.join("; ")),
    };
    format!(
        "| durable rows, ratio to the store that was best in docs/results.md | | {} of {compared} rows | >= {NO_WORSE} x the ratio there | {verdict} |\n",
        compared - worse.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::ALL;
    use crate::stores::Run;
    use katydid_workload::measure::Latencies;

    fn row(work: &str, store: &str, threads: usize, rates: &[f64]) -> Row {
        let run = |&per_second: &f64| Run {
            per_second,
            transactions: 1,
            conflicts: 0,
            latencies: Latencies::default(),
            syncs: None,
            version: String::new(),
        };
        Row {
            work: work.parse().unwrap(),
            store: ALL.into_iter().find(|known| known.name == store).unwrap(),
            case: Case { threads, in_flight: 1 },
            rounds: rates.iter().map(run).collect(),
            failure: None,
        }
    }

    /// The cells of the line that begins with these two cells.
    fn line<'t>(table: &'t str, title: &str, wanted: &str) -> Vec<&'t str> {
        let cells = |line: &'t str| line.split('|').map(str::trim).collect::<Vec<_>>();
        let mut lines = table.lines().map(cells);
        let found = lines.find(|cells| cells[1] == title && cells[4].contains(wanted));
        found.unwrap_or_else(|| panic!("no {title}, {wanted} in\n{table}"))
    }

    #[test]
    fn a_target_compares_with_the_best_of_its_stores_within_rounds() {
        let rows = vec![
            row("ycsb-c", "katydid", 8, &[90.0, 180.0]),
            row("ycsb-c", "katydid", 1, &[1.0, 1.0]),
            row("ycsb-c", "surrealkv", 8, &[100.0, 200.0]),
            row("ycsb-c", "fjall", 8, &[50.0, 60.0]),
            row("ycsb-c", "lmdb", 8, &[120.0, 240.0]),
            row("ycsb-a", "rocksdb", 8, &[999.0]),
        ];
        let found = Found { parts: vec![("larger", rows)], ..Found::default() };
        let table = table(&found, "", &[]);
        let best = line(&table, "YCSB C, memory free", "the best of surrealkv, rocksdb, fjall");
        assert_eq!(
            best[2..6],
            [
                "8",
                "0.90 x surrealkv (no rocksdb)",
                ">= 1.00 x the best of surrealkv, rocksdb, fjall",
                "missed by 10.0 %"
            ]
        );
        let lmdb = line(&table, "YCSB C, memory free", "lmdb");
        assert_eq!(lmdb[3..6], ["0.75 x lmdb", ">= 0.50 x lmdb", "met by 50.0 %"]);
        assert_eq!(line(&table, "YCSB A, memory free", "")[3], "not measured");
        assert_eq!(line(&table, "YCSB A, memory free", "")[5], "no katydid");
        let part = line(&table, "loading in sorted order", "");
        assert_eq!(part[3..6], ["not measured", ">= 300 thousand/s", "part load-sorted was not run"]);
    }

    #[test]
    fn rates_threads_and_reasons() {
        let found = Found {
            parts: vec![
                ("load-sorted", vec![row("load-sorted", "katydid", 1, &[290e3, 330e3, 310e3])]),
                (
                    "cached-reads",
                    vec![
                        row("ycsb-c", "katydid", 1, &[100.0, 1000.0]),
                        row("ycsb-c", "katydid", 2, &[171.0, 1710.0]),
                        row("ycsb-c", "katydid-memory", 2, &[1e6]),
                        row("ycsb-c", "lmdb", 1, &[]),
                    ],
                ),
            ],
            left_out: vec![("larger-limited", "no control group".to_owned())],
        };
        let table = table(&found, "", &[]);
        assert_eq!(
            line(&table, "loading in sorted order", "")[3..6],
            ["310 thousand/s", ">= 300 thousand/s", "met by 3.3 %"]
        );
        assert_eq!(
            line(&table, "cached reads, copied", "1 thread")[3..6],
            ["1.71 x 1 thread", ">= 1.90 x 1 thread", "missed by 10.0 %"]
        );
        assert_eq!(line(&table, "cached reads, copied", "lmdb")[5], "lmdb failed");
        assert_eq!(line(&table, "memory engine, reads of 1 KiB", "")[5], "missed by 50.0 %");
        assert_eq!(line(&table, "YCSB A, memory limited", "2.50 x")[5], "no control group");
    }

    #[test]
    fn a_row_within_a_twentieth_of_an_earlier_run_is_no_worse() {
        let document = "| | to the best | katydid |\n|---|---|---|\n| insert, 8 | 2.00 surrealkv | 48.4 |\n\
                        | ycsb-a, 2 x 256 | 4.00 surrealkv | 1 |\n| unsafe-insert, 8 | 9.00 surrealkv | 1 |\ntext\n";
        let before = ratios_before(document);
        let names: Vec<&str> = before.iter().map(|before| before.name.as_str()).collect();
        assert_eq!(names, ["insert, 8", "ycsb-a, 2x256", "unsafe-insert, 8"]);
        assert_eq!((before[0].ratio, before[0].store), (2.0, "surrealkv"));
        let measured = |ours: f64| {
            let rows =
                |ours| vec![row("insert", "katydid", 8, &[ours]), row("insert", "surrealkv", 8, &[100.0])];
            let parts = vec![("insert", rows(ours)), ("unsafe-insert", rows(1.0))];
            no_worse(&Found { parts, ..Found::default() }, &before, &["insert"])
        };
        assert!(measured(191.0).contains("| 1 of 1 rows |") && measured(191.0).contains("| met |"));
        assert!(measured(189.0).contains("| 0 of 1 rows |"));
        assert!(measured(189.0).contains("| missed: insert, 8 0.94 x |"), "{}", measured(189.0));
    }

    #[test]
    fn the_document_has_a_table_of_an_earlier_run() {
        let before = ratios_before(include_str!("../../docs/results.md"));
        assert!(before.iter().any(|before| before.name == "insert, 8" && before.ratio > 0.1));
    }
}
