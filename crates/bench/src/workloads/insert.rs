//! The command `bench insert`.

use super::ledger::Entry;
use super::report::{Kinds, Loaded, Measured};
use super::runner::{Runner, TIME};
use super::setup::{Setup, THREADS};
use clap::{Args, ValueEnum};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::name_of;
use katydid_workload::insert::{Inserts, KEY_BYTES_MIN, KeyOrder, RUNS_MAX};

/// Order of the keys of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Each thread inserts ascending keys into a range of its own
    Ascending,
    /// Each thread inserts scattered keys: the hashes of ascending numbers
    Hashed,
}

/// Run single-insert transactions with keys that never repeat
///
/// Without --seconds and --operations the run takes 10 seconds. A later run in the same folder
/// inserts other keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid bench insert --threads 1 --seconds 5
  katydid bench insert --threads 64
  katydid bench insert --threads 2 --in-flight 1000 --key-bytes 16 --value-bytes 1000 --order hashed")]
pub struct Insert {
    /// Bytes of a key
    #[arg(long, value_name = "N", default_value = "20", value_parser = key_bytes)]
    key_bytes: usize,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value = "100", value_parser = value_bytes)]
    value_bytes: usize,
    /// Order of the keys of one thread
    #[arg(long, value_enum, default_value = "ascending")]
    order: Order,
    #[command(flatten)]
    setup: Setup,
}

fn key_bytes(text: &str) -> std::result::Result<usize, String> {
    let range = KEY_BYTES_MIN..=katydid::KEY_BYTES_MAX;
    match text.parse() {
        Ok(bytes) if range.contains(&bytes) => Ok(bytes),
        _ => Err(format!("must be from {KEY_BYTES_MIN} to {}", katydid::KEY_BYTES_MAX)),
    }
}

fn value_bytes(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes <= katydid::VALUE_BYTES_MAX => Ok(bytes),
        _ => Err(format!("must be from 0 to {}", katydid::VALUE_BYTES_MAX)),
    }
}

const TABLE: &str = "inserts";

impl Insert {
    pub fn run(self) -> Result<()> {
        self.setup.each().iter().try_for_each(|setup| self.on(setup))
    }

    fn on(&self, setup: &Setup) -> Result<()> {
        let mut plan = setup.plan(setup.threads.unwrap_or(THREADS));
        if plan.time.is_none() && plan.transactions.is_none() {
            plan.time = Some(TIME);
        }
        let runner = Runner::new(setup)?;
        if setup.fresh {
            runner.ledger.forget(TABLE, &[TABLE])?;
        }
        let before = runner.ledger.read(TABLE)?.unwrap_or(Entry { finished: true, ..Entry::default() });
        let number = before.next;
        if number >= RUNS_MAX {
            return Err(Failure::failed(format_args!(
                "table {TABLE:?} was filled {RUNS_MAX} times: use --fresh"
            )));
        }
        // The entry is written before the first insert, so that the next run uses other keys even
        // if this run fails.
        let entry = Entry { next: number + 1, finished: false, ..before.clone() };
        runner.ledger.write(TABLE, &entry)?;

        let order = match self.order {
            Order::Ascending => KeyOrder::Ascending,
            Order::Hashed => KeyOrder::Hashed,
        };
        let inserts = Inserts::new(self.key_bytes, self.value_bytes, order, number);
        let (outcome, cpu) = runner.phase("run", &[TABLE], &inserts, &plan)?;
        let count = before.count + outcome.transactions;
        // After a killed run, the number of its keys is unknown.
        let counted = if before.finished { runner.count(setup, TABLE, count)? } else { None };
        runner.ledger.write(TABLE, &Entry { count, finished: before.finished, ..entry })?;

        let mut options = setup.options(&plan, &runner.opened.database);
        options.push(("key_bytes", self.key_bytes.into()));
        options.push(("value_bytes", self.value_bytes.into()));
        options.push(("order", name_of(self.order).into()));
        let workload = format!("single inserts of {} + {} bytes", self.key_bytes, self.value_bytes);
        let loaded = Loaded::NotNeeded;
        let kinds = Kinds::default();
        runner.finish(
            setup,
            Measured { workload, loaded, outcome, cpu, kinds, lock_waits: None, options, counted },
        )
    }
}
