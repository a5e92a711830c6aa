//! `manycore`: the log's inserters on a simulated machine of many cores.

mod calibrate;
mod compare;
mod real;
mod run;
mod simulate;

use crate::failure::Result;
use clap::Subcommand;

/// Run the log's inserters on a simulated machine of many cores
#[derive(Debug, Subcommand)]
pub enum Manycore {
    Run(Box<run::Run>),
    Calibrate(calibrate::Calibrate),
}

impl Manycore {
    pub fn run(self) -> Result<()> {
        match self {
            Manycore::Run(command) => command.run(),
            Manycore::Calibrate(command) => command.run(),
        }
    }
}
