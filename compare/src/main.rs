//! Compares Katydid with its rivals: its log with other logs, its log store for Raft with other
//! such stores, its replicas with etcd, and its engines with other stores. All take turns within
//! one run.
//!
//! 1. Each round runs everything in every case once, and every second round runs in reverse order,
//!    so that slow drift of the machine affects everything alike.
//! 2. Each run has a new folder, which is removed after the run. The preparation of a store or log
//!    is not measured, except by the workloads that load a store.

#[cfg(feature = "stores")]
mod adapters;
#[cfg(feature = "stores")]
mod chart;
#[cfg(feature = "stores")]
mod child;
#[cfg(feature = "stores")]
mod everything;
mod flags;
mod logs;
#[cfg(any(feature = "replicas", feature = "stores"))]
mod process;
mod raft_logs;
#[cfg(feature = "replicas")]
mod replicas;
mod statistics;
#[cfg(feature = "stores")]
mod stores;
#[cfg(feature = "stores")]
mod targets;
mod turns;

use std::process::ExitCode;

/// A failure ends the program, which prints it.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const HELP: &str = "\
Measure Katydid and its rivals, in turn within each round

Usage: katydid-compare logs [FLAGS]      durable appends of katydid-wal and of other logs
       katydid-compare raft-logs [FLAGS] a Raft leader's appends to katydid-raft-log and to other log stores
       katydid-compare replicas [FLAGS]  puts to three replicas of Katydid and of etcd
       katydid-compare stores [FLAGS]    transactions of Katydid and of other stores
       katydid-compare all [FLAGS]       logs and stores, with every workload, and one table of the results

Each command has its own --help. `replicas` needs the feature of that name; `stores` and `all` need the feature `stores`.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("katydid-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command(mut arguments: Vec<String>) -> Result<()> {
    let rest = arguments.split_off(arguments.len().min(1));
    match arguments.first().map(String::as_str) {
        Some("logs") => logs::main(rest),
        Some("raft-logs") => raft_logs::main(rest),
        #[cfg(feature = "replicas")]
        Some("replicas") => replicas::main(rest),
        #[cfg(feature = "replicas")]
        Some("replica-server") => replicas::serve(&rest),
        #[cfg(feature = "stores")]
        Some(child::COMMAND) => {
            child::begin()?;
            command(rest)
        }
        #[cfg(feature = "stores")]
        Some("stores") => stores::main(rest),
        #[cfg(feature = "stores")]
        Some("all") => everything::main(rest),
        #[cfg(feature = "stores")]
        Some(stores::TURN) => stores::serve(rest),
        Some("--help" | "-h") | None => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("unknown: {other}; see --help").into()),
    }
}
