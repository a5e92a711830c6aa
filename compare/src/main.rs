//! Compares Katydid with its rivals, which take turns within one run: its log with other logs, and
//! its engines with other stores.
//!
//! 1. Each round runs everything in every case once, and every second round runs in reverse order,
//!    so that slow drift of the machine affects everything alike.
//! 2. Each run has a new folder, which is removed after the run. The preparation of a store or log
//!    is not measured.

mod adapters;
mod chart;
mod everything;
mod flags;
mod logs;
mod statistics;
mod stores;

use std::process::ExitCode;

/// A failure ends the program, which prints it.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const HELP: &str = "\
Measure Katydid beside its rivals, in turn within each round

Usage: katydid-compare logs [FLAGS]    durable appends of katydid-wal and of other logs
       katydid-compare stores [FLAGS]  transactions of Katydid and of other stores
       katydid-compare all [FLAGS]     both, with every workload, and one table of the results

Each command has its own --help.";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.split_off(arguments.len().min(1));
    let done = match arguments.first().map(String::as_str) {
        Some("logs") => logs::main(rest),
        Some("stores") => stores::main(rest),
        Some("all") => everything::main(rest),
        Some("--help" | "-h") | None => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("unknown: {other}; see --help").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("katydid-compare: {error}");
            ExitCode::FAILURE
        }
    }
}
