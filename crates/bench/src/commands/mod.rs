//! The commands of `bench`.

mod cicada;
mod commit;
mod log_commit;
mod log_insert;
mod nvram;

use crate::workloads::{insert, oltp, ycsb};
use clap::Subcommand;
use katydid_command::failure::Result;

/// Run a workload durably, commits as the papers did, or the log alone, and measure it
#[derive(Debug, Subcommand)]
// A comment on a variant would replace the command's own text in the help.
#[allow(missing_docs)]
pub enum Bench {
    Ycsb(ycsb::Ycsb),
    Insert(insert::Insert),
    Tpcb(oltp::tpcb::Tpcb),
    Tpcc(oltp::tpcc::Tpcc),
    Tatp(oltp::tatp::Tatp),
    Sysbench(oltp::sysbench::Sysbench),
    Commit(Box<commit::Commit>),
    Cicada(Box<cicada::Cicada>),
    Nvram(Box<nvram::Nvram>),
    LogCommit(Box<log_commit::LogCommit>),
    LogInsert(Box<log_insert::LogInsert>),
}

impl Bench {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// What was wrong, or failed, as the program reports it.
    pub fn run(self) -> Result<()> {
        match self {
            Bench::Ycsb(command) => command.run(),
            Bench::Insert(command) => command.run(),
            Bench::Tpcb(command) => command.run(),
            Bench::Tpcc(command) => command.run(),
            Bench::Tatp(command) => command.run(),
            Bench::Sysbench(command) => command.run(),
            Bench::Commit(command) => command.run(),
            Bench::Cicada(command) => command.run(),
            Bench::Nvram(command) => command.run(),
            Bench::LogCommit(command) => command.run(),
            Bench::LogInsert(command) => command.run(),
        }
    }
}
