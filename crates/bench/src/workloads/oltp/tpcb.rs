//! The command `bench tpcb`.

use super::{Benchmark, Census};
use crate::grid::flags::skew;
use crate::workloads::report::{Kind, Kinds};
use crate::workloads::setup::Setup;
use clap::Args;
use katydid_command::failure::Result;
use katydid_workload::KatydidStore;
use katydid_workload::drive::Outcome;
use katydid_workload::tpcb::{Settings, Totals, TpcbLoad, TpcbRun, tables};
use serde_json::Value;
use std::sync::Arc;

/// Run TPC-B: transfers between the accounts, tellers and branches of a bank
///
/// A transfer changes three balances, and adds a row to the history. Without --seconds and
/// --operations the run takes 10 seconds. The command reuses the tables of an earlier run in the
/// folder if they have the same size. After the run, the sums of all balances and of the history
/// must be equal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid bench tpcb --threads 32
  katydid bench tpcb --threads 2 --in-flight 256 --branches 64 --accounts 1000 --seconds 5
  katydid bench tpcb --engine all --skew 1.0 --json tpcb.json")]
pub struct Tpcb {
    /// Number of branches, with 10 tellers each
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    branches: u64,
    /// Accounts of each branch; the standard has 100000
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    accounts: u64,
    /// Skew of the choice of tellers and accounts: the exponent of a zipfian distribution, from 0
    /// to 10
    #[arg(long, value_name = "S", default_value = "0", value_parser = skew)]
    skew: f64,
    #[command(flatten)]
    setup: Setup,
}

impl Tpcb {
    pub fn run(self) -> Result<()> {
        let bank = Settings { branches: self.branches, accounts_of_branch: self.accounts, skew: self.skew };
        super::run(&self.setup, &bank)
    }
}

/// Name of the history, which no other workload uses.
const HISTORY: &str = "tpcb_history";

impl Benchmark for Settings {
    type Load = TpcbLoad;
    type Run = TpcbRun;

    const NAME: &'static str = "tpcb";
    const COUNTED: Census = Census { name: "transfers", also: "all sums are the same" };

    fn title(&self) -> String {
        "TPC-B".to_owned()
    }

    fn tables(&self) -> Vec<String> {
        tables(HISTORY).map(str::to_owned).to_vec()
    }

    fn shape(&self) -> String {
        format!("branches {}, accounts {} each", self.branches, self.accounts_of_branch)
    }

    fn load(&self, _seed: u64) -> Arc<TpcbLoad> {
        TpcbLoad::new(self)
    }

    fn loaded(&self, _seed: u64) -> u64 {
        0
    }

    fn start(&self, run: u64) -> Arc<TpcbRun> {
        TpcbRun::new(self, run)
    }

    fn expected(&self, before: u64, _run: &TpcbRun, outcome: &Outcome) -> u64 {
        before + outcome.transactions
    }

    fn kinds(&self, _run: &TpcbRun, outcome: &Outcome) -> Kinds {
        let all = Kind { name: "transfer", acknowledged: outcome.transactions, rolled_back: 0 };
        Kinds { all: vec![all], score: None }
    }

    fn count(&self, store: &KatydidStore, _seed: u64) -> Result<u64> {
        let totals = Totals::read(store, &tables(HISTORY))?;
        totals.check(0)?;
        Ok(totals.transfers)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("branches", self.branches.into()),
            ("accounts", self.accounts_of_branch.into()),
            ("skew", self.skew.into()),
        ]
    }
}
