//! `manycore run`.

use super::{chart, compare};
use crate::failure::{Failure, Result};
use crate::output::Output;
use clap::Args;
use katydid_manycore::{Machine, Outcome, Plan, RunError, Sizes, designs, ring_bytes, run};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

/// Small records for each outlier, as in Aether's Figure 11.
const SMALL_FOR_EACH_OUTLIER: u32 = 60;

/// Insert records with virtual threads on a simulated machine
///
/// Runs every combination of what is given. The same options give the same figures, to the byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Machines that come with the program: aether (one chip of 64 simple contexts), eleda (two sockets of 18 cores), modern (two
sockets of 64), host (the two cores that the program was tested on). A file written by `katydid manycore calibrate` is one too.

Examples:
  katydid manycore run --machine modern --svg threads.svg
  katydid manycore run --machine aether --inserter mutex,hybrid --threads 64 --record 48,120,480,1920,12288
  katydid manycore run --machine aether --inserter hybrid,delegated --threads 64 --record 48 --outlier 64,1024,8192,65536,262144
  katydid manycore run --machine aether --inserter consolidated --threads 16,64 --slots 1,2,3,4,5,6,7,8,9,10")]
pub struct Run {
    /// A machine's name, or a file that describes one
    #[arg(long, value_name = "NAME|FILE")]
    machine: String,
    /// Designs, or `all`
    #[arg(long, value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    inserter: Vec<String>,
    /// Numbers of virtual threads
    #[arg(long, value_name = "LIST", default_value = "1,2,4,8,16,32,64", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Bytes of a record, its 48-byte header included
    #[arg(long, value_name = "LIST", default_value = "120", value_delimiter = ',')]
    record: Vec<usize>,
    /// Bytes of one large record after every 60
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    outlier: Vec<usize>,
    /// Slots in which groups form, in the designs that have them
    #[arg(long, value_name = "LIST", default_value = "4", value_delimiter = ',')]
    slots: Vec<usize>,
    /// Bytes of the ring, a power of two; by default 1 MiB, or four records of each thread if that is more
    ///
    /// Reservations run ahead of what is filled by at most a quarter of it.
    #[arg(long, value_name = "BYTES")]
    ring: Option<usize>,
    /// Nanoseconds of other work between two inserts of a thread
    #[arg(long, value_name = "NS", default_value = "0")]
    work: f64,
    /// Simulated milliseconds of each run
    #[arg(long, value_name = "N", default_value = "5")]
    millis: f64,
    /// Decides what chance does elsewhere
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Write all rows to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw a chart into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A plan and what came of it.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was run.
    pub plan: Plan,
    /// What it did.
    pub outcome: Outcome,
}

impl Row {
    /// Bytes of the plain records, and of the large ones if there are any.
    pub fn sizes(&self) -> (usize, Option<usize>) {
        match self.plan.sizes {
            Sizes::Fixed(bytes) => (bytes, None),
            Sizes::Bimodal { small, large, .. } => (small, Some(large)),
        }
    }
}

fn machine(name: &str) -> Result<Machine> {
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
        let plans = self.plans()?;
        let since = Instant::now();
        let rows = simulate(&machine, plans)?;
        let seconds = since.elapsed().as_secs_f64();
        if let Some(file) = &self.csv {
            write(file, &csv(&self.machine, &rows))?;
        }
        if let Some(file) = &self.svg {
            write(file, &chart::draw(&format!("{} ({})", machine.summary, self.machine), &rows))?;
        }
        let mut out = Output::new();
        out.line(format!(
            "simulated: {}; {} cores, {} ms, seed {}",
            machine.summary, machine.cores, self.millis, self.seed
        ))?;
        out.line(format!(
            "{:<14}{:>8}{:>8}{:>9}{:>7}{:>15}{:>10}{:>10}{:>10}",
            "inserter", "threads", "record", "outlier", "slots", "records/s", "MB/s", "least", "most"
        ))?;
        for row in &rows {
            let (record, outlier) = row.sizes();
            let outlier = outlier.map_or("-".to_owned(), |bytes| bytes.to_string());
            let (least, most) = row.outcome.of_one_thread;
            out.line(format!(
                "{:<14}{:>8}{record:>8}{outlier:>9}{:>7}{:>15.0}{:>10.0}{least:>10}{most:>10}",
                row.plan.inserter,
                row.plan.threads,
                row.plan.slots,
                row.outcome.records_per_second,
                row.outcome.megabytes_per_second,
            ))?;
        }
        out.line("least and most: records of one thread")?;
        out.line("")?;
        self.compare(&mut out, &machine)?;
        out.flush()?;
        // Not with the figures, which are the same every time.
        let events: u64 = rows.iter().map(|row| row.outcome.events).sum();
        eprintln!("{events} events in {seconds:.1} s, {:.1} million a second", events as f64 / seconds / 1e6);
        Ok(())
    }

    fn compare(&self, out: &mut Output, described: &Machine) -> Result<()> {
        let names = self.designs()?;
        if described.real.is_empty() {
            out.line("how far to trust this: the same model of the machine \"host\", which was measured")?;
            compare::print(out, &machine("host")?, &names, self.seed)
        } else {
            out.line("how far to trust this: this machine as it was measured")?;
            compare::print(out, described, &names, self.seed)
        }
    }

    fn designs(&self) -> Result<Vec<String>> {
        let known = designs();
        if self.inserter == ["all"] {
            return Ok(known);
        }
        for name in &self.inserter {
            if !known.contains(name) {
                let known = known.join(", ");
                return Err(Failure::usage(format_args!("no inserter {name:?}; there are {known}, or all")));
            }
        }
        Ok(self.inserter.clone())
    }

    fn plans(&self) -> Result<Vec<Plan>> {
        let mut sizes = Vec::new();
        for &small in &self.record {
            if self.outlier.is_empty() {
                sizes.push(Sizes::Fixed(small));
            }
            let large = self.outlier.iter();
            sizes.extend(large.map(|&large| Sizes::Bimodal { small, times: SMALL_FOR_EACH_OUTLIER, large }));
        }
        let mut plans = Vec::new();
        for inserter in self.designs()? {
            for &slots in &self.slots {
                for &sizes in &sizes {
                    plans.extend(self.threads.iter().map(|&threads| Plan {
                        inserter: inserter.clone(),
                        threads,
                        sizes,
                        slots,
                        ring_bytes: self.ring.unwrap_or_else(|| ring_bytes(threads, sizes.largest())),
                        millis: self.millis,
                        work_ns: self.work,
                        seed: self.seed,
                    }));
                }
            }
        }
        Ok(plans)
    }
}

/// Runs the plans, as many at a time as there are real cores. Each simulation is one thread's, so this changes no figure.
pub fn simulate(machine: &Machine, plans: Vec<Plan>) -> Result<Vec<Row>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len().max(1));
    let todo = Mutex::new(plans.into_iter().enumerate());
    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while let Some((number, plan)) = next() {
            let outcome = run(machine, &plan)?;
            done.push((number, Row { plan, outcome }));
        }
        Ok::<_, RunError>(done)
    };
    let mut rows = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => rows.extend(done.map_err(failed)?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, Failure>(())
    })?;
    rows.sort_by_key(|(number, _)| *number);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn failed(error: RunError) -> Failure {
    match error {
        RunError::Design { .. } | RunError::Range { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    }
}

fn csv(machine: &str, rows: &[Row]) -> String {
    let mut text = String::from(
        "machine,inserter,threads,record,outlier,slots,ring,work_ns,millis,seed,records,records_per_second,\
         megabytes_per_second,least,most,events\n",
    );
    for Row { plan, outcome } in rows {
        let (record, outlier) = match plan.sizes {
            Sizes::Fixed(bytes) => (bytes, String::new()),
            Sizes::Bimodal { small, large, .. } => (small, large.to_string()),
        };
        let (least, most) = outcome.of_one_thread;
        text += &format!(
            "{machine},{},{},{record},{outlier},{},{},{},{},{},{},{:.0},{:.3},{least},{most},{}\n",
            plan.inserter,
            plan.threads,
            plan.slots,
            plan.ring_bytes,
            plan.work_ns,
            plan.millis,
            plan.seed,
            outcome.records,
            outcome.records_per_second,
            outcome.megabytes_per_second,
            outcome.events
        );
    }
    text
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text)
        .map_err(|error| Failure::failed(format_args!("cannot write {}: {error}", file.display())))
}
