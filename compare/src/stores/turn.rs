//! A turn: one store is opened and loaded in one new folder, and runs the workloads one after the
//! other, in a process of its own.
//!
//! 1. The process of a turn writes a line for each workload that has ended, and then perhaps a line
//!    with a failure. A process that dies without such a line has failed too.
//! 2. The folder of the store is removed when the process has ended.
//! 3. If memory is limited, the parent puts the process into a control group of its own before the
//!    process opens the store. The pages of files that the process reads and writes count against
//!    the limit.

use super::group::LimitedGroup;
use super::settings::{Case, Settings};
use super::work::{StoreRun, Work};
use super::{Run, known};
use crate::adapters::{self, Known};
use crate::{Result, child, flags};
use hdrhistogram::Histogram;
use katydid_workload::measure::Latencies;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// Command of the process of a turn. Its arguments are the round, the store, the case, and the
/// flags of `stores`.
pub const COMMAND: &str = "store-turn";

/// Result of a turn: the workloads that have ended, in order, and the failure of the next one.
#[derive(Default)]
pub struct Turn {
    pub runs: Vec<(Work, Run)>,
    pub failure: Option<String>,
}

/// Runs a turn in a child.
pub fn run(settings: &Settings, store: Known, case: Case, round: usize) -> Result<Turn> {
    let (place, results) = (settings.dir.join("store"), settings.dir.join("results"));
    std::fs::create_dir_all(&place)?;
    let group = settings.memory_bytes.map(LimitedGroup::create).transpose()?;
    let mut arguments = vec![COMMAND.to_owned(), round.to_string(), store.name.to_owned(), case.to_string()];
    arguments.extend(settings.flags.iter().cloned());
    let ended = child::run(&arguments, |process| match &group {
        Some(group) => Ok(group.add(process)?),
        None => Ok(()),
    });
    let text = std::fs::read_to_string(&results).unwrap_or_default();
    std::fs::remove_dir_all(&place)?;
    if results.exists() {
        std::fs::remove_file(&results)?;
    }
    let mut turn = read(&text)?;
    let kills = group.as_ref().map_or(0, LimitedGroup::kills);
    turn.failure = turn.failure.or(death(ended?, kills));
    Ok(turn)
}

/// The failure that the exit status of a process shows, for a process that reported no failure.
fn death(status: ExitStatus, kills: u64) -> Option<String> {
    match (status.success(), status.signal()) {
        (true, _) => None,
        (false, Some(_)) if kills > 0 => {
            Some("needs more memory than the limit: the kernel has killed it".into())
        }
        (false, Some(signal)) => Some(format!("its process was ended by signal {signal}")),
        (false, None) => Some(format!("its process has failed: {status}")),
    }
}

/// Runs a turn in this process, which is the child.
pub fn serve(arguments: Vec<String>) -> Result<()> {
    let mut arguments = arguments.into_iter();
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{COMMAND} wants {what}"));
    let (round, store, case) = (next("a round")?, next("a store")?, next("a case")?);
    let (round, store) = (round.parse()?, known(&store)?);
    let case: Case = flags::value("the case", &Some(case))?;
    let settings = Settings::read(arguments.collect())?.ok_or("the flags ask for help")?;
    let mut results = std::fs::File::create(settings.dir.join("results"))?;
    let mut line = |value: Value| writeln!(results, "{value}");
    let mut reported = Ok(());
    let done = {
        let mut report = |work: Work, run: Run| {
            reported = std::mem::replace(&mut reported, Ok(())).and_then(|()| line(written(work, &run)));
        };
        let visit = StoreRun { settings: &settings, case, round, report: &mut report };
        one(&settings, store, case, visit)
    };
    reported?;
    if let Err(error) = done {
        line(json!({ "failure": error.to_string() }))?;
    }
    Ok(())
}

fn one(settings: &Settings, store: Known, case: Case, visit: StoreRun<'_>) -> Result<()> {
    let options = adapters::Options {
        commits: settings.commits,
        cache_bytes: settings.cache_bytes,
        clients: case.threads,
    };
    let place: &Path = &settings.dir.join("store");
    Ok(adapters::with(store.name, place, &options, visit)?)
}

/// A run as a line.
fn written(work: Work, run: &Run) -> Value {
    json!({
        "workload": work.to_string(),
        "per_second": run.per_second,
        "transactions": run.transactions,
        "conflicts": run.conflicts,
        "syncs": run.syncs,
        "version": run.version,
        "reads": buckets(&run.latencies.reads),
        "commits": buckets(&run.latencies.commits),
    })
}

/// The lines of a turn. A last line without a line end comes from a process that died while it
/// wrote the line.
fn read(text: &str) -> Result<Turn> {
    let mut turn = Turn::default();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: Value = serde_json::from_str(line)?;
        match line["failure"].as_str() {
            Some(failure) => turn.failure = Some(failure.to_owned()),
            None => turn.runs.push(run_of(&line).ok_or_else(|| format!("a turn has written {line}"))?),
        }
    }
    Ok(turn)
}

fn run_of(line: &Value) -> Option<(Work, Run)> {
    let mut latencies = Latencies::default();
    fill(&mut latencies.reads, &line["reads"])?;
    fill(&mut latencies.commits, &line["commits"])?;
    let run = Run {
        per_second: line["per_second"].as_f64()?,
        transactions: line["transactions"].as_u64()?,
        conflicts: line["conflicts"].as_u64()?,
        latencies,
        syncs: line["syncs"].as_u64(),
        version: line["version"].as_str()?.to_owned(),
    };
    Some((line["workload"].as_str()?.parse().ok()?, run))
}

/// Each recorded latency of a histogram, with the number of times that it was recorded.
fn buckets(histogram: &Histogram<u64>) -> Vec<[u64; 2]> {
    let recorded = histogram.iter_recorded();
    recorded.map(|bucket| [bucket.value_iterated_to(), bucket.count_at_value()]).collect()
}

fn fill(histogram: &mut Histogram<u64>, buckets: &Value) -> Option<()> {
    for bucket in buckets.as_array()? {
        histogram.saturating_record_n(bucket[0].as_u64()?, bucket[1].as_u64()?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_workload::measure::Summary;

    fn example() -> Run {
        let mut latencies = Latencies::default();
        for nanos in 1..5000_u64 {
            latencies.reads.saturating_record(nanos * nanos);
        }
        latencies.commits.saturating_record_n(77_777, 3);
        let (per_second, version) = (1234.5, "store 1.0 \"x\"\n".to_owned());
        Run { per_second, transactions: 5002, conflicts: 4, latencies, syncs: Some(2), version }
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let (run, work) = (example(), "ycsb-a".parse::<Work>().unwrap());
        let line = format!("{}\n", written(work, &run));
        let failed = format!("{}\n", json!({ "failure": "no" }));
        let turn = read(&format!("{line}{line}{failed}")).unwrap();
        assert_eq!((turn.runs.len(), turn.failure.as_deref()), (2, Some("no")));
        let (found_work, found) = &turn.runs[1];
        assert_eq!((*found_work, found.per_second, found.transactions), (work, 1234.5, 5002));
        assert_eq!((found.conflicts, found.syncs, &found.version), (4, Some(2), &run.version));
        assert_eq!(Summary::of(&found.latencies.reads), Summary::of(&run.latencies.reads));
        assert_eq!(Summary::of(&found.latencies.commits), Summary::of(&run.latencies.commits));
        let none = Run { syncs: None, ..example() };
        let turn = read(&format!("{}\n", written(work, &none))).unwrap();
        assert_eq!(turn.runs[0].1.syncs, None);
    }

    #[test]
    fn half_a_line_is_left_out_and_a_strange_line_is_an_error() {
        let line = format!("{}\n", written("load".parse().unwrap(), &example()));
        let cut = read(&format!("{line}{}", &line[..line.len() / 2])).unwrap();
        assert_eq!((cut.runs.len(), cut.failure.is_some()), (1, false));
        assert!(read("{\"workload\":\"load\"}\n").is_err());
        assert!(read("nonsense\n").is_err());
    }

    #[test]
    fn a_death_names_the_limit_or_the_signal() {
        assert_eq!(death(ExitStatus::from_raw(0), 1), None);
        assert!(death(ExitStatus::from_raw(9), 1).is_some_and(|text| text.contains("memory")));
        assert!(death(ExitStatus::from_raw(9), 0).is_some_and(|text| text.ends_with("signal 9")));
        assert!(death(ExitStatus::from_raw(1 << 8), 0).is_some_and(|text| text.contains("exit status: 1")));
    }
}
