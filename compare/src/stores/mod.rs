//! Measures transactions of Katydid and of other stores, in turn within each round, in one folder.
//!
//! 1. In a turn one store is loaded, and runs all workloads of the command one after the other. Its
//!    contents are checked at the end, and a wrong sum is a failure.
//! 2. If a turn fails, the program names its store, and does not run the store in this case in
//!    further rounds. All other turns continue. At the end the program fails.

mod group;
mod report;
mod settings;
mod turn;
mod work;

#[cfg(test)]
pub use work::load;

use crate::Result;
use crate::adapters::{ALL, Known};
use crate::logs::raw_write_us;
use crate::statistics::{median, times_as_much};
use crate::{child, flags, turns};
pub use group::LimitedGroup;
use katydid_workload::measure::Latencies;
use settings::HELP;
pub use settings::{Case, Settings};
use std::time::Duration;
use turn::Turn;
pub use turn::{COMMAND as TURN, serve};
pub use work::Work;

/// Result of one run.
pub struct Run {
    pub per_second: f64,
    pub transactions: u64,
    pub conflicts: u64,
    pub latencies: Latencies,
    /// Number of durable writes of the store's log, if the store counts them.
    pub syncs: Option<u64>,
    pub version: String,
}

/// A workload on a store in one case, with its rounds.
pub struct Row {
    pub work: Work,
    pub store: Known,
    pub case: Case,
    pub rounds: Vec<Run>,
    pub failure: Option<String>,
}

impl Row {
    /// Transactions per second of each round.
    pub fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(|run| run.per_second).collect()
    }

    /// Rate of the median round.
    pub fn median(&self) -> f64 {
        median(self.rates())
    }

    /// Speed as a multiple of that of `other`: the median of each round's ratio.
    pub fn times(&self, other: &Row) -> f64 {
        times_as_much(&self.rates(), &other.rates())
    }

    /// Latencies of all rounds together.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        self.rounds.iter().for_each(|run| all.add(&run.latencies));
        all
    }

    pub fn transactions(&self) -> u64 {
        self.rounds.iter().map(|run| run.transactions).sum()
    }

    pub fn conflicts(&self) -> u64 {
        self.rounds.iter().map(|run| run.conflicts).sum()
    }

    /// Number of durable writes in all rounds, if the store counts them.
    pub fn syncs(&self) -> Option<u64> {
        self.rounds.iter().map(|run| run.syncs).sum()
    }
}

/// Results of all runs.
pub struct Measured {
    pub rows: Vec<Row>,
    /// Time of a raw durable write of 4 KiB in the median round, in microseconds.
    pub raw_us: f64,
}

impl Measured {
    /// The stores that failed, each with its case and error.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter_map(|row| {
            Some(format!("{}, {}, {}: {}", row.work, row.store.name, row.case, row.failure.as_ref()?))
        })
    }
}

pub fn main(arguments: Vec<String>) -> Result<()> {
    let Some(settings) = Settings::read(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    child::stop_at_signals()?;
    match measure_and_report(&settings)?.failures().next() {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

/// Measures, prints the table and writes the files.
pub fn measure_and_report(settings: &Settings) -> Result<Measured> {
    let measured = flags::in_new_folder(&settings.dir, || measure(settings))?;
    report::print(settings, &measured);
    if let Some(file) = &settings.csv {
        std::fs::write(file, report::csv(settings, &measured))?;
    }
    if let Some(file) = &settings.json {
        std::fs::write(file, report::json(settings, &measured))?;
    }
    Ok(measured)
}

/// The stores and cases of a round, in the order of the first round.
fn turns_of(settings: &Settings) -> Vec<(Known, Case)> {
    let sorted = settings.works.iter().any(|work| work.is_sorted_load());
    let mut turns = Vec::new();
    for &case in &settings.cases {
        let can =
            |store: &&Known| (case.in_flight == 1 || store.callbacks) && (!sorted || store.loads_sorted);
        turns.extend(settings.stores.iter().filter(can).map(|&store| (store, case)));
    }
    turns
}

/// Rows of all workloads: the rows of the first workload in the order of `turns`, and so on.
fn rows(works: &[Work], turns: &[(Known, Case)]) -> Vec<Row> {
    let of_work = |&work| {
        let row = move |&(store, case)| Row { work, store, case, rounds: Vec::new(), failure: None };
        turns.iter().map(row)
    };
    works.iter().flat_map(of_work).collect()
}

fn measure(settings: &Settings) -> Result<Measured> {
    if let Some(bytes) = settings.memory_bytes {
        // If memory cannot be limited, this fails before the first turn.
        drop(LimitedGroup::create(bytes)?);
    }
    let turns = turns_of(settings);
    let mut rows = rows(&settings.works, &turns);
    let mut raw = Vec::new();
    for round in 0..settings.rounds {
        raw.push(raw_write_us(&settings.dir, Duration::from_millis(300))?);
        for at in turns::order(turns.len(), round) {
            let (store, case) = turns[at];
            let mut mine: Vec<&mut Row> = rows.iter_mut().skip(at).step_by(turns.len()).collect();
            if mine.iter().any(|row| row.failure.is_some()) {
                continue;
            }
            eprintln!("round {} of {}: {}, {case}", round + 1, settings.rounds, store.name);
            let turn = match turn::run(settings, store, case, round) {
                Err(error) if error.is::<child::Stopped>() => return Err(error),
                Err(error) => Turn { failure: Some(error.to_string()), ..Turn::default() },
                Ok(turn) => turn,
            };
            add_turn(&mut mine, turn);
        }
    }
    Ok(Measured { rows, raw_us: median(raw) })
}

/// Adds the results of a turn to the rows of its workloads. A failure belongs to the first workload
/// without a result, or to the last workload if all have results. The workloads after it were not
/// run.
fn add_turn(rows: &mut [&mut Row], turn: Turn) {
    let ended = turn.runs.len();
    for (work, run) in turn.runs {
        if let Some(row) = rows.iter_mut().find(|row| row.work == work) {
            row.rounds.push(run);
        }
    }
    let missing = (ended < rows.len()).then(|| "its process reported no result".to_owned());
    let Some(failure) = turn.failure.or(missing) else { return };
    eprintln!("  failed: {failure}");
    let failed = ended.min(rows.len() - 1);
    for (nth, row) in rows.iter_mut().enumerate().skip(failed) {
        row.failure =
            Some(if nth == failed { failure.clone() } else { "not run after a failure".to_owned() });
    }
}

/// The store called `name`, if this build contains it.
fn known(name: &str) -> Result<Known> {
    match ALL.into_iter().find(|known| known.name == name) {
        Some(known) if known.built => Ok(known),
        Some(known) => {
            let feature = known.name.split('-').next().unwrap_or(known.name);
            Err(format!("this build has no {name}: install its library and build with --features {feature}, see README.md").into())
        }
        None => {
            let names: Vec<&str> = ALL.iter().map(|known| known.name).collect();
            Err(format!("no store {name:?}; there are {}", names.join(", ")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &str) -> Settings {
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        Settings::read(flags).unwrap().expect("no help is asked for")
    }

    fn run(per_second: f64) -> Run {
        let (transactions, conflicts, syncs) = (1, 0, None);
        Run {
            per_second,
            transactions,
            conflicts,
            latencies: Latencies::default(),
            syncs,
            version: String::new(),
        }
    }

    #[test]
    fn every_workload_has_a_row_for_each_turn_and_each_turn_runs_all_workloads() {
        let settings = settings("--workload load,ycsb-c --stores katydid,lmdb --threads 1,8 --callbacks 2x4");
        let turns = turns_of(&settings);
        let named: Vec<String> = turns.iter().map(|(store, case)| format!("{} {case}", store.name)).collect();
        assert_eq!(named, ["katydid 1", "lmdb 1", "katydid 8", "lmdb 8", "katydid 2x4"]);
        let mut rows = rows(&settings.works, &turns);
        assert_eq!(rows.len(), 10);
        let mut mine: Vec<&mut Row> = rows.iter_mut().skip(3).step_by(turns.len()).collect();
        let named: Vec<String> = mine.iter().map(|row| format!("{} {}", row.work, row.store.name)).collect();
        assert_eq!(named, ["load lmdb", "ycsb-c lmdb"]);
        let (load, c) = (settings.works[0], settings.works[1]);
        add_turn(&mut mine, Turn { runs: vec![(load, run(1.0)), (c, run(2.0))], failure: None });
        assert_eq!((rows[3].median(), rows[8].median()), (1.0, 2.0));
        assert!(rows.iter().all(|row| row.failure.is_none()));
    }

    #[test]
    fn only_stores_with_a_call_for_sorted_entries_load_them() {
        let turns = turns_of(&settings("--workload load-sorted --stores lmdb,katydid --threads 1"));
        assert_eq!(turns.iter().map(|(store, _)| store.name).collect::<Vec<_>>(), ["katydid"]);
    }

    #[test]
    fn a_failure_belongs_to_the_workload_that_did_not_end() {
        let settings = settings("--workload load,ycsb-c,ycsb-a --stores lmdb --threads 8");
        let turns = turns_of(&settings);
        let failures = |turn: Turn| -> Vec<Option<String>> {
            let mut rows = rows(&settings.works, &turns);
            add_turn(&mut rows.iter_mut().collect::<Vec<_>>(), turn);
            rows.into_iter().map(|row| row.failure).collect()
        };
        let (text, after) = (Some("killed".to_owned()), Some("not run after a failure".to_owned()));
        let one = || vec![(settings.works[0], run(1.0))];
        let all = || settings.works.iter().map(|&work| (work, run(1.0))).collect();
        assert_eq!(failures(Turn { runs: one(), failure: text.clone() }), [None, text.clone(), after]);
        assert_eq!(failures(Turn { runs: all(), failure: text.clone() }), [None, None, text]);
        assert_eq!(failures(Turn { runs: all(), failure: None }), [None, None, None]);
        assert!(failures(Turn { runs: one(), failure: None })[1].is_some());
    }
}
