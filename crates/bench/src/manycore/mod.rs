//! `lab manycore`: the log's inserters, the memory engine's timestamps, and point reads of both
//! engines, on a simulated machine with many cores.

mod calibrate;
mod compare;
mod designs;
mod reads;
mod real;
mod run;
mod simulate;
mod txn;

use clap::Subcommand;
use katydid_command::failure::Result;

/// Run the log's inserters, transactions and reads on a simulated machine with many cores
#[derive(Debug, Subcommand)]
// A comment on a variant would replace the command's own help text.
#[allow(missing_docs)]
pub enum Manycore {
    Run(Box<run::Run>),
    Txn(txn::Txn),
    Reads(Box<reads::Reads>),
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
            Manycore::Reads(command) => command.run(),
            Manycore::Calibrate(command) => command.run(),
        }
    }
}
