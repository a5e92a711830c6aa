//! Measures transactions of Katydid and of other stores, in turn within each round, in one folder.
//!
//! 1. Every run loads a store of its own. Its contents are checked afterwards, and a wrong sum is a
//!    failure.
//! 2. A store that fails is named and left out of further rounds; the runs of other stores
//!    continue. At the end the program fails.

mod report;
mod settings;
mod work;

#[cfg(test)]
pub use work::load;

use crate::Result;
use crate::adapters::{self, ALL, Known};
use crate::flags;
use crate::logs::raw_write_us;
use crate::statistics::{median, times_as_much};
use katydid_workload::measure::Latencies;
pub use settings::Settings;
use settings::{Case, HELP};
use std::time::Duration;

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

/// A store in one case, with its rounds.
pub struct Row {
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
        self.rows
            .iter()
            .filter_map(|row| Some(format!("{}, {}: {}", row.store.name, row.case, row.failure.as_ref()?)))
    }
}

pub fn main(arguments: Vec<String>) -> Result<()> {
    let Some(settings) = Settings::read(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    match measure_and_tell(&settings)?.failures().next() {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

/// Measures, prints the table and writes the files.
pub fn measure_and_tell(settings: &Settings) -> Result<Measured> {
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

fn rows(settings: &Settings) -> Vec<Row> {
    let mut rows = Vec::new();
    for &case in &settings.cases {
        let can = settings.stores.iter().filter(|store| case.in_flight == 1 || store.callbacks);
        rows.extend(can.map(|&store| Row { store, case, rounds: Vec::new(), failure: None }));
    }
    rows
}

fn measure(settings: &Settings) -> Result<Measured> {
    let mut rows = rows(settings);
    let mut raw = Vec::new();
    for round in 0..settings.rounds {
        raw.push(raw_write_us(&settings.dir, Duration::from_millis(300))?);
        let order: Vec<usize> = (0..rows.len()).collect();
        let order = if round % 2 == 0 { order } else { order.into_iter().rev().collect() };
        for at in order {
            let row = &mut rows[at];
            if row.failure.is_some() {
                continue;
            }
            eprintln!("round {} of {}: {}, {}", round + 1, settings.rounds, row.store.name, row.case);
            match one(row, settings, round) {
                Ok(run) => row.rounds.push(run),
                Err(error) => {
                    eprintln!("  failed: {error}");
                    row.failure = Some(error.to_string());
                }
            }
        }
    }
    Ok(Measured { rows, raw_us: median(raw) })
}

fn one(row: &Row, settings: &Settings, round: usize) -> Result<Run> {
    let place = settings.dir.join("store");
    std::fs::create_dir_all(&place)?;
    let options = adapters::Options {
        commits: settings.commits,
        cache_bytes: settings.cache_bytes,
        clients: row.case.threads,
    };
    let run =
        adapters::with(row.store.name, &place, &options, work::StoreRun { settings, case: row.case, round });
    std::fs::remove_dir_all(&place)?;
    Ok(run?)
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
