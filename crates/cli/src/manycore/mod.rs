//! `manycore`: the log's inserters, and the memory engine's timestamps, on a simulated machine of many cores.

mod calibrate;
mod compare;
mod real;
mod run;
mod simulate;
mod txn;

use crate::failure::Result;
use clap::Subcommand;

/// Run the log's inserters, and transactions over them, on a simulated machine of many cores
#[derive(Debug, Subcommand)]
pub enum Manycore {
    Run(Box<run::Run>),
    Txn(txn::Txn),
    Calibrate(calibrate::Calibrate),
}

impl Manycore {
    pub fn run(self) -> Result<()> {
        match self {
            Manycore::Run(command) => command.run(),
            Manycore::Txn(command) => command.run(),
            Manycore::Calibrate(command) => command.run(),
        }
    }
}
