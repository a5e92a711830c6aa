//! The command `bench tpcc`.

use super::{Benchmark, Census, threads};
use crate::workloads::report::{Kind as KindCount, Kinds, Score};
use crate::workloads::setup::Setup;
use clap::{Args, ValueEnum};
use katydid_command::failure::Result;
use katydid_command::flags::name_of;
use katydid_workload::KatydidStore;
use katydid_workload::drive::Outcome;
use katydid_workload::tpcc::{Kind, Mix, Settings, State, TABLES, TpccLoad, TpccRun};
use serde_json::Value;
use std::sync::Arc;

/// Mix of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MixName {
    /// The standard's mix in percent: 45 NewOrder, 43 Payment, 4 each of OrderStatus, Delivery and
    /// StockLevel
    Standard,
    /// Half NewOrder, half Payment
    Pair,
}

/// Run TPC-C: orders, payments and deliveries of a wholesale supplier
///
/// Each thread is a terminal of one warehouse, without think time. Without --seconds and
/// --operations the run takes 10 seconds. The command reuses the tables of an earlier run in the
/// folder if they have the same size. After the run, the standard's consistency conditions 1 to 4
/// must hold, and every acknowledged order must be present. The reported tpmC is not audited, and
/// not comparable to audited results.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid bench tpcc --threads 8
  katydid bench tpcc --threads 32 --warehouses 4 --items 10000 --customers 300 --seconds 5
  katydid bench tpcc --threads 2 --in-flight 100 --mix pair --json tpcc.json")]
pub struct Tpcc {
    /// Number of warehouses, with 10 districts each [default: one for each thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warehouses: Option<u32>,
    /// Number of items; the standard has 100000
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    items: u32,
    /// Customers of each district; the standard has 3000
    #[arg(long, value_name = "N", default_value = "3000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    customers: u32,
    /// Mix of transactions
    #[arg(long, value_enum, default_value = "standard")]
    mix: MixName,
    #[command(flatten)]
    setup: Setup,
}

impl Tpcc {
    pub fn run(self) -> Result<()> {
        let settings = Settings {
            warehouses: self.warehouses.unwrap_or_else(|| threads(&self.setup)),
            items: self.items,
            customers_of_district: self.customers,
        };
        super::run(&self.setup, &TpccBenchmark { settings, mix: self.mix })
    }
}

struct TpccBenchmark {
    settings: Settings,
    mix: MixName,
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::NewOrder => "new order",
        Kind::Payment => "payment",
        Kind::OrderStatus => "order status",
        Kind::Delivery => "delivery",
        Kind::StockLevel => "stock level",
    }
}

impl Benchmark for TpccBenchmark {
    type Load = TpccLoad;
    type Run = TpccRun;

    const NAME: &'static str = "tpcc";
    const COUNTED: Census = Census { name: "orders", also: "conditions 1 to 4 hold" };

    fn title(&self) -> String {
        match self.mix {
            MixName::Standard => "TPC-C".to_owned(),
            MixName::Pair => "TPC-C, NewOrders and Payments only".to_owned(),
        }
    }

    fn tables(&self) -> Vec<String> {
        TABLES.map(str::to_owned).to_vec()
    }

    fn shape(&self) -> String {
        let Settings { warehouses, items, customers_of_district } = self.settings;
        format!("warehouses {warehouses}, items {items}, customers {customers_of_district} a district")
    }

    fn load(&self, seed: u64) -> Arc<TpccLoad> {
        TpccLoad::new(&self.settings, seed)
    }

    fn loaded(&self, _seed: u64) -> u64 {
        self.settings.orders()
    }

    fn start(&self, run: u64) -> Arc<TpccRun> {
        let mix = match self.mix {
            MixName::Standard => Mix::Standard,
            MixName::Pair => Mix::Pair,
        };
        TpccRun::new(&self.settings, mix, run)
    }

    fn expected(&self, before: u64, run: &TpccRun, _outcome: &Outcome) -> u64 {
        before + run.acknowledged(Kind::NewOrder)
    }

    fn kinds(&self, run: &TpccRun, outcome: &Outcome) -> Kinds {
        let of = |kind| KindCount {
            name: name(kind),
            acknowledged: run.acknowledged(kind),
            // No transaction other than NewOrder rolls back on purpose.
            rolled_back: if kind == Kind::NewOrder { outcome.rolled_back } else { 0 },
        };
        let minutes = outcome.elapsed.as_secs_f64().max(1e-9) / 60.0;
        let score = Score {
            name: "tpmC",
            what: "acknowledged new orders a minute",
            value: run.acknowledged(Kind::NewOrder) as f64 / minutes,
        };
        Kinds { all: Kind::ALL.map(of).to_vec(), score: Some(score) }
    }

    fn count(&self, store: &KatydidStore, _seed: u64) -> Result<u64> {
        let state = State::read(store)?;
        state.check(&self.settings).map_err(katydid_workload::StoreError::from)?;
        Ok(state.orders())
    }

    fn options(&self) -> Vec<(&'static str, Value)> {
        let Settings { warehouses, items, customers_of_district } = self.settings;
        vec![
            ("mix", name_of(self.mix).into()),
            ("warehouses", warehouses.into()),
            ("items", items.into()),
            ("customers", customers_of_district.into()),
        ]
    }
}
