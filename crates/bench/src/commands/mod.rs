//! The commands of `bench`, and those of `lab`, which repeat papers and measure parts of the system
//! for research. Former names of some commands still work and are hidden.

mod cicada;
mod commit;
mod dependences;
mod log_commit;
mod log_insert;
mod nvram;
#[cfg(feature = "replica")]
mod replicas;
#[cfg(feature = "replica")]
mod replication;

use crate::manycore::Manycore;
#[cfg(feature = "replica")]
use crate::replication::server::ReplicaServer;
use crate::reproduce::Reproduce;
use crate::workloads::{insert, oltp, ycsb};
use clap::Subcommand;
use katydid_command::failure::Result;

/// Run a workload, and measure its throughput and latencies
#[derive(Debug, Subcommand)]
// A comment on a variant would replace the command's own help text.
#[allow(missing_docs)]
pub enum Bench {
    Ycsb(ycsb::Ycsb),
    Insert(insert::Insert),
    Tpcb(oltp::tpcb::Tpcb),
    Tpcc(oltp::tpcc::Tpcc),
    Tatp(oltp::tatp::Tatp),
    Sysbench(oltp::sysbench::Sysbench),
    #[command(hide = true)]
    Commit(Box<commit::Commit>),
    #[command(hide = true)]
    Cicada(Box<cicada::Cicada>),
    #[command(hide = true)]
    Nvram(Box<nvram::Nvram>),
    #[command(hide = true)]
    LogCommit(Box<log_commit::LogCommit>),
    #[command(hide = true)]
    LogInsert(Box<log_insert::LogInsert>),
}

impl Bench {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// The fault or failure, as the program reports it.
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

/// Repeat the figures of papers, simulate many-core machines, and measure parts of a log
#[derive(Debug, Subcommand)]
// A comment on a variant would replace the command's own help text.
#[allow(missing_docs)]
pub enum Lab {
    Reproduce(Reproduce),
    Commit(Box<commit::Commit>),
    Cicada(Box<cicada::Cicada>),
    Nvram(Box<nvram::Nvram>),
    LogCommit(Box<log_commit::LogCommit>),
    LogInsert(Box<log_insert::LogInsert>),
    Dependences(dependences::Dependences),
    #[cfg(feature = "replica")]
    Replicas(replicas::Replicas),
    #[cfg(feature = "replica")]
    Replication(Box<replication::Replication>),
    #[cfg(feature = "replica")]
    #[command(hide = true)]
    ReplicaServer(ReplicaServer),
    #[command(subcommand)]
    Manycore(Manycore),
}

impl Lab {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// The fault or failure, as the program reports it.
    pub fn run(self) -> Result<()> {
        match self {
            Lab::Reproduce(command) => command.run(),
            Lab::Commit(command) => command.run(),
            Lab::Cicada(command) => command.run(),
            Lab::Nvram(command) => command.run(),
            Lab::LogCommit(command) => command.run(),
            Lab::LogInsert(command) => command.run(),
            Lab::Dependences(command) => command.run(),
            #[cfg(feature = "replica")]
            Lab::Replicas(command) => command.run(),
            #[cfg(feature = "replica")]
            Lab::Replication(command) => command.run(),
            #[cfg(feature = "replica")]
            Lab::ReplicaServer(command) => command.run(),
            Lab::Manycore(command) => command.run(),
        }
    }
}
