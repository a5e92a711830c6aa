//! The `katydid` command: runs benchmarks, fills and reads databases, checks and shows them.
//!
//! Exit codes: 0 means success; 1 a finding or a failure, with the reason on standard error; 2 a
//! wrong command line, workload file or configuration file; 3 that `verify` could not check the
//! database.
#![forbid(unsafe_code)]

mod archive;
mod backup;
mod changes;
mod compact;
mod crash_writer;
mod demo;
mod dump;
mod dump_log;
mod help_files;
mod key_range;
mod load;
mod point;
mod repair;
#[cfg(feature = "replica")]
mod replica;
mod scan;
mod shell;
mod show;
mod text;
mod top;
mod verify;
mod warnings;

use clap::{CommandFactory, Parser, Subcommand};
use katydid_command::built;
use katydid_command::failure::Result;
use std::process::ExitCode;

/// An embedded transactional key-value store with fast durable commits
///
/// Keys and values are bytes. On the command line and in files they are written as text, in which
/// \\ stands for a backslash, \t, \n and \r for tab, line feed and carriage return, and \xNN for
/// the byte with the hexadecimal number NN. `load` reads what `get` and `scan` print.
#[derive(Debug, Parser)]
#[command(name = "katydid", version = built::VERSION, max_term_width = 110, propagate_version = true)]
#[command(after_help = "\
Examples:
  katydid bench ycsb --workload workloads/ycsb/workloada --threads 16
  katydid load --dir ./db unicode UnicodeData.txt --separator ';'
  katydid scan --dir ./db unicode --prefix 1F4 --limit 3
  katydid verify --dir ./db
  katydid backup --dir ./db ./copy --verify

Exit codes:
  0  success
  1  the command failed, a check found damage, or a key is absent
  2  wrong usage, or a wrong workload or configuration file
  3  verify could not check the database")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(subcommand)]
    Bench(katydid_bench::Bench),
    BenchDisk(katydid_bench::BenchDisk),
    Load(load::Load),
    Get(point::Get),
    Put(point::Put),
    Delete(point::Delete),
    Scan(scan::Scan),
    Count(scan::Count),
    Tables(show::Tables),
    DropTable(show::DropTable),
    Stat(show::StatCommand),
    Top(top::Top),
    Verify(verify::Verify),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Archive(archive::Archive),
    Compact(compact::Compact),
    Repair(repair::Repair),
    Dump(dump::Dump),
    RestoreDump(dump::RestoreDump),
    DumpLog(dump_log::DumpLog),
    Checkpoint(show::Checkpoint),
    #[cfg(feature = "replica")]
    Replica(replica::ReplicaCommand),
    Shell(shell::Shell),
    #[command(subcommand)]
    Demo(demo::Demo),
    Changes(changes::ChangesCommand),
    #[command(subcommand)]
    Lab(katydid_bench::Lab),
    Completions(help_files::Completions),
    Man(help_files::Man),
    // The former names of commands that are now part of `lab`.
    #[command(subcommand, hide = true)]
    Manycore(katydid_bench::Manycore),
    #[command(hide = true)]
    Reproduce(katydid_bench::Reproduce),
    #[command(hide = true)]
    CrashWriter(crash_writer::CrashWriter),
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Bench(command) => command.run(),
        Command::BenchDisk(command) => command.run(),
        Command::Load(command) => command.run(),
        Command::Get(command) => command.run(),
        Command::Put(command) => command.run(),
        Command::Delete(command) => command.run(),
        Command::Scan(command) => command.run(),
        Command::Count(command) => command.run(),
        Command::Tables(command) => command.run(),
        Command::DropTable(command) => command.run(),
        Command::Stat(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Restore(command) => command.run(),
        Command::Archive(command) => command.run(),
        Command::Compact(command) => command.run(),
        Command::Repair(command) => command.run(),
        Command::Dump(command) => command.run(),
        Command::RestoreDump(command) => command.run(),
        Command::DumpLog(command) => command.run(),
        Command::Checkpoint(command) => command.run(),
        #[cfg(feature = "replica")]
        Command::Replica(command) => command.run(Cli::command()),
        Command::Shell(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Lab(command) => command.run(),
        Command::Completions(command) => command.run(Cli::command()),
        Command::Man(command) => command.run(Cli::command()),
        Command::Changes(command) => command.run(),
        Command::Manycore(command) => command.run(),
        Command::Reproduce(command) => command.run(),
        Command::CrashWriter(command) => command.run(),
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    warnings::print();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
