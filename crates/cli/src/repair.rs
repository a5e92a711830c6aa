//! `repair`: makes a damaged database usable again.

use clap::Args;
use katydid::{Database, RepairMode, RepairOutcome, RepairReport};
use katydid_command::bytes::counted;
use katydid_command::database::DatabaseDir;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::stderr::warn;
use serde_json::{Value, json};

/// Repair a damaged database, so that it opens with all rows that are still sound
///
/// Without --apply the command changes nothing: it prints the faults, and the rows that a repair
/// would keep and lose, and the exit code is 1 if there is damage. With --apply it moves the
/// damaged files to a folder inside the database's folder, and never removes them. After an
/// interruption run the command again. Exit code 0 means that the database is sound, or was
/// repaired. The command cannot repair a database of the memory engine, or with its log in NVRAM.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid repair --dir ./db\n  katydid repair --dir ./db --apply")]
pub struct Repair {
    /// Carry out the repair
    #[arg(long)]
    apply: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Repair {
    pub fn run(self) -> Result<()> {
        let mode = if self.apply { RepairMode::Apply } else { RepairMode::DryRun };
        let report = Database::repair(&self.place.dir, mode)?;
        let said = match self.json {
            true => say(as_json(&report).to_string()),
            false => print(&report),
        };
        // Damage sets the exit code even if no program reads the output.
        match report.outcome {
            RepairOutcome::Needed => Err(Failure::Said),
            _ => said,
        }
    }
}

fn print(report: &RepairReport) -> Result<()> {
    let quarantine = report.quarantine.as_deref().unwrap_or_default();
    report.faults.iter().for_each(|fault| warn(format_args!("fault: {fault}")));
    report.notes.iter().for_each(|note| warn(format_args!("note: {note}")));
    report.losses.iter().for_each(|loss| warn(format_args!("lost: {loss}")));
    let rows: u64 = report.kept.iter().map(|(_, rows)| rows).sum();
    let tables = report.kept.len() as u64;
    let kept = format!("{} with {}", counted(tables, "table"), counted(rows, "row"));
    say(match report.outcome {
        RepairOutcome::Sound => "sound: nothing to repair".to_owned(),
        RepairOutcome::Repaired => {
            format!("repaired: {kept} kept; the damaged files are in {quarantine}")
        }
        _ => format!(
            "nothing was changed: --apply would keep {kept}, and put the damaged files into {quarantine}"
        ),
    })
}

fn as_json(report: &RepairReport) -> Value {
    let faults: Vec<Value> =
        report.faults.iter().map(|fault| json!({ "place": fault.place, "finding": fault.finding })).collect();
    let kept: Vec<Value> =
        report.kept.iter().map(|(table, rows)| json!({ "table": table, "rows": rows })).collect();
    let losses: Vec<String> = report.losses.iter().map(ToString::to_string).collect();
    let outcome = match report.outcome {
        RepairOutcome::Sound => "sound",
        RepairOutcome::Repaired => "repaired",
        _ => "needed",
    };
    json!({
        "outcome": outcome,
        "faults": faults,
        "kept": kept,
        "losses": losses,
        "notes": report.notes,
        "quarantine": report.quarantine,
    })
}
