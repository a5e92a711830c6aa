//! `tables`, `stat` and `checkpoint`.

use crate::bytes::{grouped, shown};
use crate::failure::Result;
use crate::output::{Output, say};
use crate::place::Place;
use crate::text;
use clap::Args;
use katydid::{Stalls, Stat};
use serde_json::{Value, json};

/// Print the names of all tables, one per line
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid tables --dir ./db")]
pub struct Tables {
    #[command(flatten)]
    place: Place,
}

impl Tables {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        let names = database.tables()?;
        database.close()?;
        let mut out = Output::new();
        for name in names {
            out.line(text::escaped(name.as_bytes()))?;
        }
        out.flush()
    }
}

/// Print positions and counters, and what keeps the oldest part of the log
///
/// Counters count since the database was opened, here by this command: they tell what opening it took.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid stat --dir ./db --json")]
pub struct StatCommand {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl StatCommand {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        let stat = database.stat()?;
        database.close()?;
        let mut out = Output::new();
        if self.json {
            out.json(&as_json(&stat))?;
        } else {
            for (name, value) in as_lines(&stat) {
                out.line(format!("{name:<20}{value}"))?;
            }
        }
        out.flush()
    }
}

fn as_lines(stat: &Stat) -> Vec<(&'static str, String)> {
    let pages = |number: u64| format!("{} ({})", grouped(number), shown(number * stat.page_bytes));
    vec![
        ("tables", grouped(stat.tables)),
        ("page size", shown(stat.page_bytes)),
        ("pages", pages(stat.pages)),
        ("pages free", pages(stat.pages_free)),
        ("cache", pages(stat.cache_pages)),
        ("cached", pages(stat.cached)),
        ("dirty", pages(stat.dirty)),
        ("cache misses", grouped(stat.cache_misses)),
        ("pages written", grouped(stat.pages_written)),
        ("active", format!("{} transactions", grouped(stat.transactions_active))),
        ("commits", grouped(stat.commits)),
        ("rollbacks", grouped(stat.rollbacks)),
        ("conflicts", grouped(stat.conflicts)),
        ("checkpoints", grouped(stat.checkpoints)),
        ("last checkpoint", stat.checkpoint_lsn.to_string()),
        ("log", shown(stat.log.bytes)),
        ("log limits", format!("{} soft, {} hard", shown(stat.log.soft_bytes), shown(stat.log.hard_bytes))),
        ("log pinned by", stat.log.pinned_by.to_string()),
        ("log start", stat.log.start.to_string()),
        ("log durable", stat.log.durable.to_string()),
        ("log written", stat.log.written.to_string()),
        ("log filled", stat.log.filled.to_string()),
        ("log reserved", stat.log.reserved.to_string()),
        ("log syncs", grouped(stat.log.syncs)),
        ("log bytes synced", grouped(stat.log.bytes_synced)),
        ("log wake-ups", grouped(stat.log.wakeups)),
        ("incarnation", stat.log.incarnation.to_string()),
        ("device stalls", stalls(&stat.stalls)),
    ]
}

fn stalls(stalls: &Stalls) -> String {
    let mut text = grouped(stalls.count);
    if stalls.count > 0 {
        text += &format!(", the longest {:.1} s", stalls.longest.as_secs_f64());
    }
    if let Some(stall) = &stalls.under_way {
        let (verb, subject) = (stall.verb, &stall.subject);
        text += &format!("; to {verb} {subject} has taken {:.1} s so far", stall.lasts.as_secs_f64());
    }
    text
}

fn as_json(stat: &Stat) -> Value {
    json!({
        "tables": stat.tables,
        "page_bytes": stat.page_bytes,
        "pages": stat.pages,
        "pages_free": stat.pages_free,
        "cache_pages": stat.cache_pages,
        "cached": stat.cached,
        "dirty": stat.dirty,
        "cache_misses": stat.cache_misses,
        "pages_written": stat.pages_written,
        "transactions_active": stat.transactions_active,
        "commits": stat.commits,
        "rollbacks": stat.rollbacks,
        "conflicts": stat.conflicts,
        "checkpoints": stat.checkpoints,
        "checkpoint_lsn": stat.checkpoint_lsn.get(),
        "device_stalls": {
            "count": stat.stalls.count,
            "longest_us": u64::try_from(stat.stalls.longest.as_micros()).unwrap_or(u64::MAX),
            "under_way": stat.stalls.under_way.as_ref().map(|stall| json!({
                "verb": stall.verb.to_string(),
                "subject": stall.subject,
                "so_far_us": u64::try_from(stall.lasts.as_micros()).unwrap_or(u64::MAX),
            })),
        },
        "log": {
            "bytes": stat.log.bytes,
            "soft_bytes": stat.log.soft_bytes,
            "hard_bytes": stat.log.hard_bytes,
            "pinned_by": stat.log.pinned_by.to_string(),
            "pinned_lsn": stat.log.pinned_by.lsn().get(),
            "start": stat.log.start.get(),
            "durable": stat.log.durable.get(),
            "written": stat.log.written.get(),
            "filled": stat.log.filled.get(),
            "reserved": stat.log.reserved.get(),
            "syncs": stat.log.syncs,
            "bytes_synced": stat.log.bytes_synced,
            "wakeups": stat.log.wakeups,
            "incarnation": stat.log.incarnation,
        },
    })
}

/// Write changed pages to their place and trim the log; print where the checkpoint began
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid checkpoint --dir ./db")]
pub struct Checkpoint {
    #[command(flatten)]
    place: Place,
}

impl Checkpoint {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        let lsn = database.checkpoint()?;
        let stat = database.stat()?;
        database.close()?;
        say(format!("checkpoint at {lsn}; the log holds {}", shown(stat.log.bytes)))
    }
}
