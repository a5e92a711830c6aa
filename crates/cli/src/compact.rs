//! `compact`: gives the space of free pages back to the file system.

use crate::verify;
use clap::Args;
use katydid::{Database, EngineKind};
use katydid_command::bytes::{grouped, shown};
use katydid_command::database::DatabaseDir;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

/// Rewrite the database file without its free pages, so that it shrinks
///
/// While the command runs it needs disk space for a copy of all pages in use. An interruption at
/// any moment leaves the database either unchanged or rewritten. A database of the memory engine
/// has no free pages: the command only takes a checkpoint.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid compact --dir ./db --verify")]
pub struct Compact {
    /// Check the database afterwards, as `verify` does
    ///
    /// The exit code is 1 if the check finds a fault.
    #[arg(long)]
    verify: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Compact {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        // After this checkpoint no change is in the log alone: all changes are in the database
        // file.
        database.checkpoint()?;
        database.close()?;
        drop(database);
        let dir = &self.place.dir;
        let engine = Database::engine_at(dir)?;
        let progress = Mutex::new(Progress::new("compact"));
        let show = move |done: u64, of: u64| {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            let fraction = (of > 0).then(|| done as f64 / of as f64);
            progress.show(fraction, || format!("{} of {} pages", grouped(done), grouped(of)));
        };
        let report = Database::compact(dir, Some(Arc::new(show)))?;
        let checked = self.verify.then(|| Database::verify_path(dir, None)).transpose()?;
        checked.iter().for_each(verify::print_faults);
        let mut text = if self.json {
            let object = json!({
                "bytes_before": report.bytes_before,
                "bytes_after": report.bytes_after,
                "verified": checked.as_ref().map(verify::as_json),
            });
            object.to_string()
        } else {
            let (before, after) = (shown(report.bytes_before), shown(report.bytes_after));
            match engine {
                EngineKind::Memory => {
                    format!("nothing to do: the checkpoint has {after} of rows and nothing else")
                }
                _ => format!("the database file had {before} and has {after}"),
            }
        };
        if let Some(checked) = checked.as_ref().filter(|checked| checked.is_sound() && !self.json) {
            text += &format!("\n{}", verify::summary(checked, engine));
        }
        let said = say(text);
        // A fault sets the exit code even if no program reads the output.
        match checked {
            Some(checked) if !checked.is_sound() => Err(Failure::Said),
            _ => said,
        }
    }
}
