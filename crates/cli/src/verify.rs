//! `verify`: reads and checks a whole database without changing it.

use clap::Args;
use katydid::{Database, EngineKind, Error, VerifyReport};
use katydid_command::bytes::{counted, grouped, shown};
use katydid_command::database::DatabaseDir;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use katydid_command::stderr::warn;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// Check a database and its log without changing anything
///
/// The command checks every page and the order of every tree or, with the memory engine, the last
/// checkpoint. A database that was not closed cleanly is recovered in memory, and checked there.
/// Faults go to standard error, each with its place first, and the exit code is 1. The exit code is
/// also 1 if the database cannot be opened. Exit code 3 means that a process has the database open,
/// or that the command could not find out whether it can be opened.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid verify --dir ./db && echo sound")]
pub struct Verify {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print no progress, no notes, and no summary of a sound database
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Verify {
    pub fn run(self) -> Result<()> {
        self.place.must_exist()?;
        // The check below reports a damaged control file.
        let engine = Database::engine_at(&self.place.dir).unwrap_or_default();
        let what = match engine {
            EngineKind::Memory => "parts of the checkpoint",
            _ => "pages",
        };
        let progress = Mutex::new(if self.quiet { Progress::hidden() } else { Progress::new("verify") });
        let show = move |done: u64, of: u64| {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            let fraction = (of > 0).then(|| done as f64 / of as f64);
            progress.show(fraction, || format!("{} of {} {what}", grouped(done), grouped(of)));
        };
        let report = match Database::verify_path(&self.place.dir, Some(Arc::new(show))) {
            Err(error @ Error::Locked { .. }) => {
                let mut report = VerifyReport::default();
                report.unchecked = Some(error.to_string());
                report
            }
            report => report?,
        };
        print_faults(&report);
        if !self.quiet {
            report.notes.iter().for_each(|note| warn(format_args!("note: {note}")));
        }
        let said = match () {
            () if self.json => say(as_json(&report).to_string()),
            () if report.is_sound() && !self.quiet => say(summary(&report, engine)),
            () => Ok(()),
        };
        // A fault sets the exit code even if no program reads the output.
        match &report.unchecked {
            _ if !report.faults.is_empty() => Err(Failure::Said),
            Some(why) => {
                warn(format_args!("not checked: {why}"));
                Err(Failure::Unchecked)
            }
            None => said,
        }
    }
}

/// Prints the faults to standard error.
pub fn print_faults(report: &VerifyReport) {
    report.faults.iter().for_each(|fault| warn(format_args!("fault: {fault}")));
}

/// Returns the line about a sound database.
pub fn summary(report: &VerifyReport, engine: EngineKind) -> String {
    let log = report.log_end.get().saturating_sub(report.log_start.get());
    let (pages, log) = match engine {
        // The memory engine has no pages, and its streams have no common positions.
        EngineKind::Memory => (String::new(), String::new()),
        _ => (format!("{}, ", counted(report.pages, "page")), format!(" ({})", shown(log))),
    };
    format!(
        "sound: {pages}{}, {}, {}{log}, {}",
        counted(report.tables, "table"),
        counted(report.keys, "key"),
        counted(report.log_records, "log record"),
        if report.clean { "closed cleanly" } else { "not closed cleanly" },
    )
}

/// Returns the findings as JSON.
pub fn as_json(report: &VerifyReport) -> Value {
    let faults: Vec<Value> =
        report.faults.iter().map(|fault| json!({ "place": fault.place, "finding": fault.finding })).collect();
    json!({
        "sound": report.is_sound(),
        "clean": report.clean,
        "pages": report.pages,
        "tables": report.tables,
        "keys": report.keys,
        "log_records": report.log_records,
        "log_start": report.log_start.get(),
        "log_end": report.log_end.get(),
        "faults": faults,
        "notes": report.notes,
        "unchecked": report.unchecked,
    })
}
