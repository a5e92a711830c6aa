//! The command `bench sysbench`.

use super::{Benchmark, Census};
use crate::grid::flags::skew;
use crate::workloads::report::{Kind, Kinds};
use crate::workloads::setup::Setup;
use clap::{Args, ValueEnum};
use katydid_command::failure::Result;
use katydid_command::flags::name_of;
use katydid_workload::drive::Outcome;
use katydid_workload::sysbench::{Script, Settings, State, SysbenchLoad, SysbenchRun};
use katydid_workload::{KatydidStore, StoreError};
use serde_json::Value;
use std::sync::Arc;

/// Script of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MixName {
    /// oltp_read_write: reads ten rows and four ranges, then does the writes of write-only
    ReadWrite,
    /// oltp_write_only: updates an indexed number and a text, and deletes and inserts a row
    WriteOnly,
    /// oltp_update_index: updates an indexed number
    UpdateIndex,
}

/// Run the transactions of sysbench's OLTP scripts, on tables with one secondary index each
///
/// Without --seconds and --operations the run takes 10 seconds. The command reuses the tables of an
/// earlier run in the folder if they have the same size. After the run, rows and indexes must
/// agree, and there must be as many rows as were loaded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid bench sysbench --threads 8
  katydid bench sysbench --threads 64 --mix update-index --tables 4 --table-size 100000
  katydid bench sysbench --threads 2 --in-flight 256 --mix write-only --json sysbench.json")]
pub struct Sysbench {
    /// Number of tables
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    table_size: u64,
    /// Skew of the choice of rows: the exponent of a zipfian distribution, from 0 to 10
    #[arg(long, value_name = "S", default_value = "0", value_parser = skew)]
    skew: f64,
    /// Script of a transaction
    #[arg(long, value_enum, default_value = "read-write")]
    mix: MixName,
    #[command(flatten)]
    setup: Setup,
}

impl Sysbench {
    pub fn run(self) -> Result<()> {
        let settings = Settings { tables: self.tables, rows: self.table_size, skew: self.skew };
        super::run(&self.setup, &Tables { settings, mix: self.mix })
    }
}

struct Tables {
    settings: Settings,
    mix: MixName,
}

impl Benchmark for Tables {
    type Load = SysbenchLoad;
    type Run = SysbenchRun;

    const NAME: &'static str = "sysbench";
    const COUNTED: Census = Census { name: "rows", also: "rows and indexes agree" };

    fn title(&self) -> String {
        format!("sysbench {}", self.script())
    }

    fn tables(&self) -> Vec<String> {
        self.settings.table_names()
    }

    fn shape(&self) -> String {
        format!("tables {}, rows {} each", self.settings.tables, self.settings.rows)
    }

    fn load(&self, seed: u64) -> Arc<SysbenchLoad> {
        SysbenchLoad::new(&self.settings, seed)
    }

    fn loaded(&self, _seed: u64) -> u64 {
        self.settings.all_rows()
    }

    fn start(&self, _run: u64) -> Arc<SysbenchRun> {
        let script = match self.mix {
            MixName::ReadWrite => Script::ReadWrite,
            MixName::WriteOnly => Script::WriteOnly,
            MixName::UpdateIndex => Script::UpdateIndex,
        };
        SysbenchRun::new(&self.settings, script)
    }

    fn expected(&self, before: u64, _run: &SysbenchRun, _outcome: &Outcome) -> u64 {
        before
    }

    fn kinds(&self, _run: &SysbenchRun, outcome: &Outcome) -> Kinds {
        let all = Kind { name: self.script(), acknowledged: outcome.transactions, rolled_back: 0 };
        Kinds { all: vec![all], score: None }
    }

    fn count(&self, store: &KatydidStore, _seed: u64) -> Result<u64> {
        let state = State::read(store, &self.settings)?;
        state.check(&self.settings).map_err(StoreError::from)?;
        Ok(state.rows())
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("mix", name_of(self.mix).into()),
            ("tables", self.settings.tables.into()),
            ("table_size", self.settings.rows.into()),
            ("skew", self.settings.skew.into()),
        ]
    }
}

impl Tables {
    fn script(&self) -> &'static str {
        match self.mix {
            MixName::ReadWrite => "oltp_read_write",
            MixName::WriteOnly => "oltp_write_only",
            MixName::UpdateIndex => "oltp_update_index",
        }
    }
}
