//! `lab manycore`: the log's inserters, and the memory engine's timestamps, on a simulated machine
//! with many cores.

mod calibrate;
mod compare;
mod designs;
mod real;
mod run;
mod simulate;
mod txn;

use clap::Subcommand;
use katydid_command::failure::Result;

/// Run the log's inserters, and transactions over them, on a simulated machine with many cores
#[derive(Debug, Subcommand)]
// A comment on a variant would replace the command's own help text.
#[allow(missing_docs)]
pub enum Manycore {
    Run(Box<run::Run>),
    Txn(txn::Txn),
    Calibrate(calibrate::Calibrate),
}

impl Manycore {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// The fault or failure, as the program reports it.
    pub fn run(self) -> Result<()> {
        match self {
            Manycore::Run(command) => command.run(),
            Manycore::Txn(command) => command.run(),
            Manycore::Calibrate(command) => command.run(),
        }
    }
}
