//! The command `lab manycore run`.

use super::compare;
use super::simulate::simulate;
use crate::grid::columns::Setting;
use crate::grid::flags;
use crate::grid::results::Results;
use crate::inserts::case::{Case, Inserted, Row};
use crate::inserts::flags::{Sweeps, World};
use crate::inserts::rows::legend;
use crate::inserts::sweep::Sweep;
use clap::Args;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::stderr::warn;
use katydid_manycore::{Machine, Outcome, Plan};
use std::path::Path;
use std::time::Instant;

/// Measure inserts into the log buffer by virtual threads on a simulated machine
///
/// With --machine alone, the command sweeps the number of threads. Equal flags give equal results,
/// byte for byte. `katydid lab log-insert` runs these sweeps on real threads.
#[derive(Debug, Args)]
#[command(after_help = "\
Machines that come with the program: aether (one chip with 64 hardware threads), eleda (two sockets with 18 cores each), modern (two
sockets with 64 cores each), host (the two cores that the program was tested on). `katydid lab manycore calibrate` writes a file that describes this machine.

Examples:
  katydid lab manycore run --machine modern --svg threads.svg
  katydid lab manycore run --machine aether --sweep size,outlier,slots --svg charts --csv all.csv
  katydid lab manycore run --machine aether --inserter mutex,hybrid --threads 64 --record 48,120,480,1920,12288
  katydid lab manycore run --machine aether --sweep outlier --inserter hybrid,delegated --millis 20")]
pub struct Run {
    /// Name of a machine, or a .toml file that describes one
    #[arg(long, value_name = "NAME|FILE")]
    machine: String,
    #[command(flatten)]
    sweeps: Sweeps,
    /// Simulated milliseconds of each run
    #[arg(long, value_name = "N", default_value = "5")]
    millis: f64,
    /// Seed of the choices that on a real machine are left to chance
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Number of rounds, each of which runs every case once, with a seed of its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = flags::rounds)]
    rounds: usize,
}

pub(super) fn machine(name: &str) -> Result<Machine> {
    let text = match Machine::built_in(name) {
        Some(text) => text.to_owned(),
        None if Path::new(name).extension().is_some() => std::fs::read_to_string(name)
            .map_err(|error| Failure::usage(format_args!("cannot read {name}: {error}")))?,
        None => {
            let known: Vec<_> = Machine::names().collect();
            let known = known.join(", ");
            return Err(Failure::usage(format_args!(
                "no machine {name:?}; there are {known}, and files that end in .toml"
            )));
        }
    };
    Machine::parse(&text).map_err(|error| Failure::usage(format_args!("{name}: {error}")))
}

impl Run {
    pub fn run(self) -> Result<()> {
        let machine = machine(&self.machine)?;
        let designs: Vec<String> = self.sweeps.designs()?.iter().map(ToString::to_string).collect();
        let sweeps = self.sweeps.sweeps(World::Virtual)?;
        let cases = sweeps
            .iter()
            .map(|&sweep| Ok((sweep, self.sweeps.cases(sweep, machine.cores)?)))
            .collect::<Result<Vec<_>>>()?;
        let setting = Setting {
            commit: COMMIT,
            machine: self.machine.clone(),
            title: format!("{}, simulated: {}", self.machine, machine.summary),
            millis: self.millis,
            seed: Some(self.seed),
            ..Setting::default()
        };
        let mut results = Results::new(
            self.sweeps.files(),
            &[
                format!("katydid {VERSION}: inserts by virtual threads"),
                format!(
                    "simulated: {}; {} cores, {} ms, seed {}, rounds {}; no device, no durability",
                    machine.summary, machine.cores, self.millis, self.seed, self.rounds
                ),
            ],
        )?;
        let since = Instant::now();
        for (sweep, cases) in cases {
            results.add(sweep, self.simulate(&machine, sweep, cases)?, setting.clone())?;
        }
        let seconds = since.elapsed().as_secs_f64();
        let rows: Vec<&Row> = results.rows().collect();
        let events: u64 = rows.iter().flat_map(|row| &row.rounds).filter_map(|round| round.events).sum();
        let mut legend = legend(&setting, &rows);
        legend.push(String::new());
        results.end(&legend)?;
        self.compare(&mut results.out, &machine, &designs)?;
        results.out.flush()?;
        // This line goes to standard error, because the results on standard output are equal in
        // every run.
        warn(format_args!(
            "{events} events in {seconds:.1} s, {:.1} million a second",
            events as f64 / seconds / 1e6
        ));
        Ok(())
    }

    fn simulate(&self, machine: &Machine, sweep: Sweep, cases: Vec<Case>) -> Result<Vec<Row>> {
        let plans =
            (0..self.rounds as u64).flat_map(|round| cases.iter().map(move |case| self.plan(case, round)));
        let outcomes = simulate(machine, sweep.name(), plans.collect())?;
        let rounds: Vec<_> = outcomes.chunks(cases.len().max(1)).collect();
        let row = |(at, case)| {
            let rounds = rounds.iter().map(|round| inserted(&round[at])).collect();
            Row { case, rounds }
        };
        Ok(cases.into_iter().enumerate().map(row).collect())
    }

    fn plan(&self, case: &Case, round: u64) -> Plan {
        Plan {
            inserter: case.subject.to_string(),
            threads: case.threads,
            sizes: case.virtual_sizes(),
            slots: case.slots,
            hop_bytes: case.hop_bytes,
            chunk_bytes: case.chunk_bytes,
            ring_bytes: case.ring_bytes,
            millis: self.millis,
            work_ns: case.work_ns,
            seed: self.seed.wrapping_add(round),
        }
    }

    fn compare(&self, out: &mut Output, described: &Machine, designs: &[String]) -> Result<()> {
        if described.real.is_empty() {
            out.line("how far to trust this: the same model of the machine \"host\", which was measured")?;
            compare::print(out, &machine("host")?, designs, self.seed)
        } else {
            out.line("how far to trust this: this machine as it was measured")?;
            compare::print(out, described, designs, self.seed)
        }
    }
}

fn inserted(outcome: &Outcome) -> Inserted {
    Inserted {
        records: outcome.records,
        records_per_second: outcome.records_per_second,
        megabytes_per_second: outcome.megabytes_per_second,
        of_one_thread: outcome.of_one_thread,
        travelled: outcome.travelled,
        times: None,
        look_us: None,
        refused: None,
        events: Some(outcome.events),
    }
}
