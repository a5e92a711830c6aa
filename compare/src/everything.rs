//! Runs every workload on every store of this build, and the logs: one command for the tables in
//! Katydid's `docs/results.md`.
//!
//! 1. Parts run one after the other. Only results of one part, whose runs alternate, are compared.
//! 2. When a part ends, its table is printed and its files are written, so an interruption loses
//!    only the part that is running.
//! 3. A store that fails is named in the table and at the end, and makes the program fail; all
//!    other runs continue.

use crate::chart::{self, Line};
use crate::stores::{self, Measured, Row, Settings};
use crate::{Result, flags, logs};
use std::path::PathBuf;
use std::time::Instant;

const HELP: &str = "\
Run every workload on every store of this build, and the logs, and write one table of the results

Usage: katydid-compare all [FLAGS]

  --dir DIR      Folder to work in, on the disk to measure, which must be new or empty [default: katydid-compare]
  --out DIR      Folder for rivals.md and rivals.svg, and a CSV and a JSON file of each part [default: katydid-compare-report]
  --parts NAMES  Parts to run, of: logs, insert, ycsb-a, ycsb-b, ycsb-e, ycsb-f, tpcb, tatp, tatp-update-location, tpcc-1, tpcc-8,
                 tpcc-32, sysbench-read-write, sysbench-write-only, sysbench-update-index, cached-reads, cached-writes, unsafe-insert
  --stores NAMES Stores to measure, see `stores --help` [default: all of this build]
  --quick        Run one round of 0.3 s for each case, instead of three of 0.5 s
  --list         List the parts and their flags, and run nothing

The parts are calls of `katydid-compare stores` and `logs`; see their --help. Commits are durable except in the last three parts.
All parts take about half an hour on two processors, and a quarter of that with --quick.";

struct Part {
    name: &'static str,
    /// Flags of `stores`; `None` for the logs.
    flags: Option<&'static str>,
}

const fn part(name: &'static str, flags: &'static str) -> Part {
    Part { name, flags: Some(flags) }
}

const PARTS: [Part; 18] = [
    Part { name: "logs", flags: None },
    part("insert", "--workload insert"),
    part("ycsb-a", "--workload ycsb-a --records 20000 --threads 1,2,8,32,64 --callbacks 2x256"),
    part("ycsb-b", "--workload ycsb-b --records 20000 --threads 8"),
    part("ycsb-e", "--workload ycsb-e --records 20000 --threads 8"),
    part("ycsb-f", "--workload ycsb-f --records 20000 --threads 8"),
    part("tpcb", "--workload tpcb --threads 1,8,32"),
    part("tatp", "--workload tatp --threads 1,8,32"),
    part("tatp-update-location", "--workload tatp-update-location --threads 8,32"),
    // One warehouse for each thread; 32 warehouses fill 400 MB.
    part("tpcc-1", "--workload tpcc --warehouses 1 --threads 1"),
    part("tpcc-8", "--workload tpcc --warehouses 8 --threads 8"),
    part("tpcc-32", "--workload tpcc --warehouses 32 --threads 32 --cache 1024"),
    part("sysbench-read-write", "--workload sysbench-read-write --threads 8"),
    part("sysbench-write-only", "--workload sysbench-write-only --threads 8"),
    part("sysbench-update-index", "--workload sysbench-update-index --threads 8"),
    part("cached-reads", "--workload ycsb-c --records 20000 --threads 1 --unsafe"),
    part("cached-writes", "--workload ycsb-a --records 20000 --threads 1 --unsafe"),
    part("unsafe-insert", "--workload insert --threads 1,8 --unsafe"),
];

pub fn main(arguments: Vec<String>) -> Result<()> {
    let Some(pairs) = flags::pairs(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    let (mut dir, mut out) = (PathBuf::from("katydid-compare"), PathBuf::from("katydid-compare-report"));
    let (mut pace, mut only, mut list, mut stores) = (["0.5", "3"], Vec::new(), false, None);
    for (flag, value) in &pairs {
        match flag.as_str() {
            "--dir" => dir = flags::value(flag, value)?,
            "--out" => out = flags::value(flag, value)?,
            "--parts" => only = flags::list(flag, value, |name| Ok(name.to_owned()))?,
            "--stores" => stores = Some(flags::value::<String>(flag, value)?),
            "--quick" if value.is_none() => pace = ["0.3", "1"],
            "--list" if value.is_none() => list = true,
            _ => return Err(format!("unknown: {flag}; see --help").into()),
        }
    }
    if let Some(name) = only.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        return Err(format!("no part {name:?}; see --help").into());
    }
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.name)).collect();
    if list {
        parts.iter().for_each(|part| println!("{:<22} {}", part.name, part.flags.unwrap_or("logs")));
        return Ok(());
    }
    let in_dir = |part: &Part| dir.join(part.name).display().to_string();
    let common = |part: &Part| -> Vec<String> {
        let pace = ["--seconds", pace[0], "--rounds", pace[1], "--dir"].map(str::to_owned);
        pace.into_iter().chain([in_dir(part)]).collect()
    };
    // All flags are read before the first run, so that a wrong flag is reported at once.
    let mut planned = Vec::new();
    for &part in &parts {
        let settings = match part.flags {
            None => None,
            Some(words) => {
                let mut flags: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
                flags.extend(common(part));
                for (flag, kind) in [("--csv", "csv"), ("--json", "json")] {
                    flags.extend([
                        flag.to_owned(),
                        out.join(format!("{}.{kind}", part.name)).display().to_string(),
                    ]);
                }
                flags.extend(stores.iter().flat_map(|stores| ["--stores".to_owned(), stores.clone()]));
                Settings::read(flags)?
            }
        };
        planned.push((part, settings));
    }
    std::fs::create_dir_all(&out)?;
    let failures = flags::in_new_folder(&dir, || {
        let begun = Instant::now();
        let (mut table, mut lines, mut failures) = (String::new(), Vec::new(), Vec::new());
        for (number, (part, settings)) in planned.iter().enumerate() {
            let minutes = begun.elapsed().as_secs_f64() / 60.0;
            eprintln!("part {} of {}: {}, after {minutes:.0} min", number + 1, planned.len(), part.name);
            println!("\n== {}", part.name);
            let Some(settings) = settings else {
                logs::main(common(part))?;
                continue;
            };
            let measured = stores::measure_and_tell(settings)?;
            add_rows(&mut table, &mut lines, part.name, &measured);
            failures.extend(measured.failures().map(|failure| format!("{}: {failure}", part.name)));
            std::fs::write(out.join("rivals.md"), format!("{HEAD}{table}"))?;
            std::fs::write(out.join("rivals.svg"), chart::svg(&lines))?;
        }
        println!("\n{HEAD}{table}\nwritten to {}", out.join("rivals.md").display());
        Ok(failures)
    })?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

const HEAD: &str = "\
Median rounds, thousands of transactions a second. *to the best*: Katydid's paged engine to the best other store, the median of each round's ratio.

| part | threads | raw write us | katydid | to the best | others |
|---|---|---|---|---|---|
";

/// Adds a line for each number of threads.
fn add_rows(table: &mut String, lines: &mut Vec<Line>, part: &str, measured: &Measured) {
    let mut rest: &[Row] = &measured.rows;
    while let Some(first) = rest.first() {
        let (case, after) = rest.split_at(rest.iter().take_while(|row| row.case == first.case).count());
        rest = after;
        lines.extend(Line::of(part, case));
        let ours = case.iter().find(|row| row.store.name == "katydid");
        let mut others: Vec<&Row> =
            case.iter().filter(|row| row.store.name != "katydid" && !row.rounds.is_empty()).collect();
        others.sort_by(|a, b| b.median().total_cmp(&a.median()));
        let best = others.iter().find(|row| !row.store.name.starts_with("katydid"));
        let ratio = ours.zip(best).map_or(String::new(), |(ours, best)| format!("{:.2}", ours.times(best)));
        let ours = ours.map_or(String::new(), |row| format!("{:.1}", row.median() / 1000.0));
        let others: Vec<String> =
            others.iter().map(|row| format!("{} {:.1}", row.store.name, row.median() / 1000.0)).collect();
        *table += &format!(
            "| {part} | {} | {:.0} | {ours} | {ratio} | {} |\n",
            first.case,
            measured.raw_us,
            others.join(", ")
        );
    }
}
