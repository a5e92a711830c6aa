//! The command `bench tatp`.

use super::{Benchmark, Census};
use crate::workloads::report::{Kind as KindCount, Kinds, Score};
use crate::workloads::setup::Setup;
use clap::{Args, ValueEnum};
use katydid_command::failure::Result;
use katydid_command::flags::name_of;
use katydid_workload::drive::Outcome;
use katydid_workload::tatp::{Counts, Kind, Mix, Settings, State, TABLES, TatpLoad, TatpRun};
use katydid_workload::{KatydidStore, StoreError};
use serde_json::Value;
use std::sync::Arc;

/// Mix of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MixName {
    /// The standard's seven transactions; 80 % of them only read
    Standard,
    /// UpdateLocation only
    UpdateLocation,
}

/// Run TATP: requests of a mobile network to its database of subscribers
///
/// The transactions are very small. Some fail by the standard's rules: they are rolled back, and do
/// not count as acknowledged. Without --seconds and --operations the run takes 10 seconds. The
/// command reuses the tables of an earlier run in the folder if they have the same size. After the
/// run, every row must belong to a subscriber, and there must be as many rows as were loaded and
/// inserted, minus those deleted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid bench tatp --threads 8
  katydid bench tatp --threads 64 --mix update-location
  katydid bench tatp --threads 2 --in-flight 1000 --subscribers 1000000 --json tatp.json")]
pub struct Tatp {
    /// Number of subscribers, with about 11 rows each
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    subscribers: u32,
    /// Mix of transactions
    #[arg(long, value_enum, default_value = "standard")]
    mix: MixName,
    #[command(flatten)]
    setup: Setup,
}

impl Tatp {
    pub fn run(self) -> Result<()> {
        let settings = Settings { subscribers: self.subscribers };
        super::run(&self.setup, &Register { settings, mix: self.mix })
    }
}

struct Register {
    settings: Settings,
    mix: MixName,
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::GetSubscriberData => "get subscriber data",
        Kind::GetNewDestination => "get new destination",
        Kind::GetAccessData => "get access data",
        Kind::UpdateSubscriberData => "update subscriber data",
        Kind::UpdateLocation => "update location",
        Kind::InsertCallForwarding => "insert call forwarding",
        Kind::DeleteCallForwarding => "delete call forwarding",
    }
}

impl Benchmark for Register {
    type Load = TatpLoad;
    type Run = TatpRun;

    const NAME: &'static str = "tatp";
    const COUNTED: Census = Census { name: "call forwardings", also: "all rows belong to each other" };

    fn title(&self) -> String {
        match self.mix {
            MixName::Standard => "TATP".to_owned(),
            MixName::UpdateLocation => "TATP, UpdateLocation only".to_owned(),
        }
    }

    fn tables(&self) -> Vec<String> {
        TABLES.map(str::to_owned).to_vec()
    }

    fn shape(&self) -> String {
        format!("subscribers {}", self.settings.subscribers)
    }

    fn load(&self, seed: u64) -> Arc<TatpLoad> {
        TatpLoad::new(&self.settings, seed)
    }

    fn loaded(&self, seed: u64) -> u64 {
        Counts::loaded(&self.settings, seed).call_forwardings
    }

    fn start(&self, _run: u64) -> Arc<TatpRun> {
        let mix = match self.mix {
            MixName::Standard => Mix::Standard,
            MixName::UpdateLocation => Mix::UpdateLocation,
        };
        TatpRun::new(&self.settings, mix)
    }

    fn expected(&self, before: u64, run: &TatpRun, _outcome: &Outcome) -> u64 {
        run.call_forwardings(before)
    }

    fn kinds(&self, run: &TatpRun, outcome: &Outcome) -> Kinds {
        let of = |kind| KindCount {
            name: name(kind),
            acknowledged: run.acknowledged(kind),
            rolled_back: run.failed(kind),
        };
        let score = Score {
            name: "MQTh",
            what: "acknowledged transactions a second",
            value: outcome.transactions_per_second(),
        };
        Kinds { all: Kind::ALL.map(of).to_vec(), score: Some(score) }
    }

    fn count(&self, store: &KatydidStore, seed: u64) -> Result<u64> {
        let state = State::read(store, &self.settings)?;
        let found = state.call_forwardings();
        // The caller compares the number of call forwardings. This check therefore expects the
        // number that was found.
        let counts = Counts { call_forwardings: found, ..Counts::loaded(&self.settings, seed) };
        state.check(&counts).map_err(StoreError::from)?;
        Ok(found)
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("mix", name_of(self.mix).into()), ("subscribers", self.settings.subscribers.into())]
    }
}
