//! Runs every workload on every store of this build, and the logs: one command for the tables in
//! Katydid's `docs/results.md`.
//!
//! 1. Parts run one after the other. Results are compared only within a part: its stores run in
//!    turn in each round, so a change of the machine's speed affects all of them.
//! 2. When a part ends, its table is printed and its files are written, so an interruption loses
//!    only the part that is running.
//! 3. A part that cannot run on this machine is left out, with the reason, and its targets are not
//!    measured.
//! 4. A store that fails is named in the table and at the end, and makes the program fail; all
//!    other runs continue.

use crate::adapters::ALL;
use crate::chart::{self, Line};
use crate::stores::{self, LimitedGroup, Measured, Row, Settings};
use crate::targets::{self, Found};
use crate::{Result, child, flags};
use std::path::PathBuf;
use std::time::Instant;

const HELP: &str = "\
Run every workload on every store of this build, and the logs, and write one table of the results

Usage: katydid-compare all [FLAGS]

  --dir DIR      Folder to work in, on the disk to measure, which must be new or empty [default: katydid-compare]
  --out DIR      Folder for rivals.md and rivals.svg, and a CSV and a JSON file of each part [default: katydid-compare-report]
  --parts NAMES  Parts to run, of: logs, insert, ycsb-a, ycsb-b, ycsb-e, ycsb-f, tpcb, tatp, tatp-update-location, tpcc-1, tpcc-8,
                 tpcc-32, sysbench-read-write, sysbench-write-only, sysbench-update-index, cached-reads, cached-reads-lent,
                 cached-reads-8-bytes, cached-writes, unsafe-insert, load-sorted, larger, larger-limited [default: all]
  --stores NAMES Stores to measure, see `stores --help` [default: all of this build]
  --records N    Records of the parts with data larger than the cache: load-sorted, larger, larger-limited [default: 1500000]
  --quick        Run one round of 0.3 s for each case, instead of three of 0.5 s. Parts with data larger than the cache have one round of
                 2 s, instead of three of 5 s, and 400,000 records
  --list         List the parts and their flags, and run nothing

The parts are calls of `katydid-compare stores` and `logs`; see their --help. Commits are durable except in the parts `cached-*` and
`unsafe-insert`. With 1,500,000 records the cache has 256 MiB, and `larger-limited` has 700 MiB of memory for the whole process of a
store; both are proportional to the number of records, but at least 16 and 300 MiB. The last table has the targets of Katydid.";

struct Part {
    name: &'static str,
    /// Flags of `stores`; `None` for the logs.
    flags: Option<&'static str>,
    size: Size,
}

/// Size of a part's data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// All data fits into the cache.
    Cached,
    /// Data is larger than the cache.
    Larger,
    /// Data is larger than all memory of the store's process.
    Limited,
}

const fn part(name: &'static str, flags: &'static str) -> Part {
    Part { name, flags: Some(flags), size: Size::Cached }
}

const fn larger(name: &'static str, size: Size, flags: &'static str) -> Part {
    Part { name, flags: Some(flags), size }
}

const PARTS: [Part; 23] = [
    Part { name: "logs", flags: None, size: Size::Cached },
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
    part("cached-reads", "--workload ycsb-c --records 20000 --threads 1,2 --unsafe"),
    part("cached-reads-lent", "--workload ycsb-c --records 20000 --threads 1,2 --unsafe --lent"),
    part(
        "cached-reads-8-bytes",
        "--workload ycsb-c --records 20000 --threads 1,2 --unsafe --fields 1 --field-bytes 8",
    ),
    part("cached-writes", "--workload ycsb-a --records 20000 --threads 1 --unsafe"),
    part("unsafe-insert", "--workload insert --threads 1,8 --unsafe"),
    larger("load-sorted", Size::Larger, "--workload load-sorted --threads 1"),
    larger("larger", Size::Larger, LARGER),
    larger("larger-limited", Size::Limited, LARGER),
];

/// After the load, C runs first, because it changes nothing. E runs before A, because E inserts few
/// records and A changes many.
const LARGER: &str = "--workload load,ycsb-c,ycsb-e,ycsb-a --threads 8";

/// Stores of the parts with data larger than the cache. The lists leave out engines that keep all
/// data in memory, and stores that are a second mode of a listed store. SQLite is in neither list,
/// and LMDB and redb are not run with limited memory, because their loads in hashed order would
/// take most of the time.
const STORES_LARGER: &[&str] = &["katydid", "surrealkv", "rocksdb", "fjall", "lmdb", "redb", "wiredtiger"];
const STORES_LIMITED: &[&str] = &["katydid", "surrealkv", "rocksdb", "fjall", "wiredtiger"];

impl Size {
    /// Stores that run a part of this size; `None` for all.
    fn stores(self) -> Option<&'static [&'static str]> {
        match self {
            Size::Cached => None,
            Size::Larger => Some(STORES_LARGER),
            Size::Limited => Some(STORES_LIMITED),
        }
    }
}

/// Length of the runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Full,
    Quick,
}

/// Number of records of the parts with data larger than the cache. `CACHE_MIB` and `MEMORY_MIB` are
/// for this number of records; with fewer records, cache and memory shrink in proportion.
const RECORDS: u64 = 1_500_000;
const RECORDS_QUICK: u64 = 400_000;
const CACHE_MIB: u64 = 256;
const CACHE_MIB_MIN: u64 = 16;
const MEMORY_MIB: u64 = 700;
/// Minimum limit of memory, because the process of a store has buffers that do not shrink with its
/// data.
const MEMORY_MIB_MIN: u64 = 300;

/// Returns the flags that follow from the pace and the size of a part. The caller puts them before
/// the part's own flags.
fn size_flags(size: Size, pace: Pace, records: u64) -> Vec<String> {
    let (seconds, rounds) = match (size, pace) {
        (Size::Cached, Pace::Full) => ("0.5", "3"),
        (Size::Cached, Pace::Quick) => ("0.3", "1"),
        (_, Pace::Full) => ("5", "3"),
        (_, Pace::Quick) => ("2", "1"),
    };
    let mut flags = ["--seconds", seconds, "--rounds", rounds].map(str::to_owned).to_vec();
    let share = |of: u64, least: u64| (of * records).div_ceil(RECORDS).max(least).to_string();
    if size != Size::Cached {
        let cache = share(CACHE_MIB, CACHE_MIB_MIN);
        flags.extend(["--records".to_owned(), records.to_string(), "--cache".to_owned(), cache]);
    }
    if size == Size::Limited {
        flags.extend(["--memory".to_owned(), share(MEMORY_MIB, MEMORY_MIB_MIN)]);
    }
    flags
}

/// Names of the stores of a part: those of its size that this build has and the user wants; `None`
/// for all.
fn store_names(size: Size, wanted: Option<&[String]>) -> Option<Vec<String>> {
    let built = |name: &&str| ALL.iter().any(|known| known.name == *name && known.built);
    match (size.stores(), wanted) {
        (None, wanted) => wanted.map(<[String]>::to_vec),
        (Some(stores), wanted) => {
            let is_wanted =
                |name: &&str| wanted.is_none_or(|wanted| wanted.iter().any(|other| other == name));
            Some(stores.iter().copied().filter(built).filter(is_wanted).map(str::to_owned).collect())
        }
    }
}

/// A part with all of its flags.
enum Plan {
    Logs(Vec<String>),
    Stores(Box<Settings>),
    LeftOut(String),
}

/// Plans a part. All flags are read before the first part runs, so that a wrong flag is reported at
/// once.
fn plan(part: &Part, flags: &Flags) -> Result<Plan> {
    let mut words = size_flags(part.size, flags.pace, flags.records);
    words.extend(["--dir".to_owned(), flags.dir.join(part.name).display().to_string()]);
    let Some(own) = part.flags else { return Ok(Plan::Logs(words)) };
    words.extend(own.split_whitespace().map(str::to_owned));
    for (flag, kind) in [("--csv", "csv"), ("--json", "json")] {
        let file = flags.out.join(format!("{}.{kind}", part.name));
        words.extend([flag.to_owned(), file.display().to_string()]);
    }
    if let Some(names) = store_names(part.size, flags.stores.as_deref()) {
        if names.is_empty() {
            return Ok(Plan::LeftOut("none of its stores was asked for".to_owned()));
        }
        words.extend(["--stores".to_owned(), names.join(",")]);
    }
    let settings = Settings::read(words)?.ok_or("a part asks for help")?;
    Ok(match settings.memory_bytes.map(LimitedGroup::create) {
        Some(Err(error)) => Plan::LeftOut(format!("memory cannot be limited: {error}")),
        _ => Plan::Stores(Box::new(settings)),
    })
}

struct Flags {
    dir: PathBuf,
    out: PathBuf,
    pace: Pace,
    records: u64,
    stores: Option<Vec<String>>,
    only: Vec<String>,
    list: bool,
}

fn read(pairs: &[flags::Pair]) -> Result<Flags> {
    let mut read = Flags {
        dir: "katydid-compare".into(),
        out: "katydid-compare-report".into(),
        pace: Pace::Full,
        records: 0,
        stores: None,
        only: Vec::new(),
        list: false,
    };
    let mut records = None;
    let names = |flag: &str, value: &Option<String>| flags::list(flag, value, |name| Ok(name.to_owned()));
    for (flag, value) in pairs {
        match flag.as_str() {
            "--dir" => read.dir = flags::value(flag, value)?,
            "--out" => read.out = flags::value(flag, value)?,
            "--parts" => read.only = names(flag, value)?,
            "--stores" => read.stores = Some(names(flag, value)?),
            "--records" => records = Some(flags::value(flag, value)?),
            "--quick" if value.is_none() => read.pace = Pace::Quick,
            "--list" if value.is_none() => read.list = true,
            _ => return Err(format!("unknown: {flag}; see --help").into()),
        }
    }
    read.records = records.unwrap_or(match read.pace {
        Pace::Full => RECORDS,
        Pace::Quick => RECORDS_QUICK,
    });
    if let Some(name) = read.only.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        return Err(format!("no part {name:?}; see --help").into());
    }
    Ok(read)
}

pub fn main(arguments: Vec<String>) -> Result<()> {
    let Some(pairs) = flags::pairs(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    let flags = read(&pairs)?;
    let parts: Vec<&Part> = PARTS
        .iter()
        .filter(|part| flags.only.is_empty() || flags.only.iter().any(|name| name == part.name))
        .collect();
    if flags.list {
        for part in &parts {
            let mut words = size_flags(part.size, flags.pace, flags.records).join(" ");
            words += &format!(" {}", part.flags.unwrap_or("logs"));
            println!("{:<22} {words}", part.name);
        }
        return Ok(());
    }
    let planned: Vec<(&Part, Plan)> =
        parts.iter().map(|&part| Ok((part, plan(part, &flags)?))).collect::<Result<_>>()?;
    child::stop_at_signals()?;
    std::fs::create_dir_all(&flags.out)?;
    let report = flags.out.join("rivals.md");
    let failures = flags::in_new_folder(&flags.dir, || {
        let begun = Instant::now();
        let (mut table, mut lines, mut failures) = (String::new(), Vec::new(), Vec::new());
        let mut found = Found::default();
        for (number, (part, plan)) in planned.iter().enumerate() {
            let minutes = begun.elapsed().as_secs_f64() / 60.0;
            eprintln!("part {} of {}: {}, after {minutes:.0} min", number + 1, planned.len(), part.name);
            println!("\n== {}", part.name);
            let settings = match plan {
                Plan::Stores(settings) => settings,
                Plan::Logs(arguments) => {
                    run_logs(arguments)?;
                    continue;
                }
                Plan::LeftOut(why) => {
                    println!("left out: {why}");
                    found.left_out.push((part.name, why.clone()));
                    continue;
                }
            };
            let measured = stores::measure_and_report(settings)?;
            add_rows(&mut table, &mut lines, part.name, &measured);
            failures.extend(measured.failures().map(|failure| format!("{}: {failure}", part.name)));
            found.parts.push((part.name, measured.rows));
            std::fs::write(&report, format!("{HEAD}{table}\n{}", targets(&found)))?;
            std::fs::write(flags.out.join("rivals.svg"), chart::svg(&lines))?;
        }
        println!("\n{HEAD}{table}\n{}\nwritten to {}", targets(&found), report.display());
        Ok(failures)
    })?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Runs the logs in a child process, so that a signal ends the logs' process like the processes of
/// the stores.
fn run_logs(arguments: &[String]) -> Result<()> {
    let arguments: Vec<String> =
        std::iter::once("logs".to_owned()).chain(arguments.iter().cloned()).collect();
    let status = child::run(&arguments, |_| Ok(()))?;
    if status.success() { Ok(()) } else { Err(format!("the logs failed: {status}").into()) }
}

fn targets(found: &Found) -> String {
    let is_durable = |part: &&Part| part.flags.is_some_and(|flags| !flags.contains("--unsafe"));
    let durable: Vec<&str> = PARTS.iter().filter(is_durable).map(|part| part.name).collect();
    targets::table(found, include_str!("../../docs/results.md"), &durable)
}

const HEAD: &str = "\
Median rounds, thousands of transactions a second (loads: of records). *to the best*: Katydid's paged engine to the best other store, the median of each round's ratio.

| part | threads | raw write us | katydid | to the best | others |
|---|---|---|---|---|---|
";

/// Adds a line for each workload and number of threads.
fn add_rows(table: &mut String, lines: &mut Vec<Line>, part: &str, measured: &Measured) {
    let several = measured.rows.iter().any(|row| row.work != measured.rows[0].work);
    for case in measured.rows.chunk_by(|row, next| (row.work, row.case) == (next.work, next.case)) {
        let first = &case[0];
        let part = if several { format!("{part} {}", first.work) } else { part.to_owned() };
        lines.extend(Line::of(&part, case));
        let ours = case.iter().find(|row| row.store.name == "katydid" && !row.rounds.is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Result<Flags> {
        let pairs = flags::pairs(text.split_whitespace().map(str::to_owned).collect())?;
        read(&pairs.expect("no help is asked for"))
    }

    fn planned(part: &str, text: &str) -> Plan {
        let part = PARTS.iter().find(|known| known.name == part).expect("a part of this name");
        plan(part, &flags(text).unwrap()).unwrap()
    }

    #[test]
    fn every_part_has_valid_flags_and_help_names_it() {
        for text in ["", "--quick"] {
            for part in &PARTS {
                assert!(HELP.contains(part.name), "{}", part.name);
                let plan = plan(part, &flags(text).unwrap()).unwrap();
                assert_eq!(part.flags.is_none(), matches!(plan, Plan::Logs(_)), "{}", part.name);
            }
        }
        assert!(flags("--parts insert,other").is_err());
    }

    #[test]
    fn data_larger_than_the_cache_has_its_own_size_and_pace() {
        let words = |size, pace, records| size_flags(size, pace, records).join(" ");
        assert_eq!(words(Size::Cached, Pace::Full, RECORDS), "--seconds 0.5 --rounds 3");
        assert_eq!(
            words(Size::Limited, Pace::Full, RECORDS),
            "--seconds 5 --rounds 3 --records 1500000 --cache 256 --memory 700"
        );
        assert_eq!(
            words(Size::Larger, Pace::Quick, RECORDS_QUICK),
            "--seconds 2 --rounds 1 --records 400000 --cache 69"
        );
        assert_eq!(
            words(Size::Limited, Pace::Quick, 20_000),
            "--seconds 2 --rounds 1 --records 20000 --cache 16 --memory 300"
        );
    }

    #[test]
    fn a_part_runs_the_stores_of_its_size_that_are_wanted() {
        let Plan::Stores(settings) = planned("larger", "--stores lmdb,katydid-memory,katydid") else {
            panic!("the part is left out");
        };
        let names: Vec<&str> = settings.stores.iter().map(|store| store.name).collect();
        assert_eq!(names, ["katydid", "lmdb"]);
        assert_eq!(settings.work_names(), "load,ycsb-c,ycsb-e,ycsb-a");
        let none = planned("load-sorted", "--stores sqlite");
        assert!(matches!(none, Plan::LeftOut(_)));
    }
}
