//! `tables`, `drop-table`, `stat` and `checkpoint`.

use crate::text;
use clap::Args;
use katydid::{EngineKind, EngineStat, Lsn, MemoryStat, PagedStat, Stalls, Stat, StreamStat, TxnId};
use katydid_command::bytes::{counted, grouped, shown};
use katydid_command::database::{self, DatabaseDir, close_after};
use katydid_command::failure::Result;
use katydid_command::output::{Output, say};
use serde_json::{Value, json};

/// Print the names of all tables, one per line
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid tables --dir ./db")]
pub struct Tables {
    #[command(flatten)]
    place: DatabaseDir,
}

impl Tables {
    pub fn run(self) -> Result<()> {
        let database = self.place.look()?;
        let mut out = Output::new();
        let lines = database.tables()?;
        let printed = lines.iter().try_for_each(|name| out.line(text::escaped(name.as_bytes())));
        close_after(&database, printed.and_then(|()| out.flush()))
    }
}

/// Remove a table and all its keys; durable when the command returns; exit code 1 if there is no such table
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid drop-table --dir ./db unicode")]
pub struct DropTable {
    /// Name of the table
    table: String,
    #[command(flatten)]
    place: DatabaseDir,
}

impl DropTable {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        // A table that does not exist is refused with the names of those that do.
        drop(database::table(&database, &self.table)?);
        database.drop_table(&self.table)?;
        Ok(database.close()?)
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
    place: DatabaseDir,
}

impl StatCommand {
    pub fn run(self) -> Result<()> {
        let database = self.place.look()?;
        let stat = database.stat()?;
        let mut out = Output::new();
        let printed = match self.json {
            true => out.json(&as_json(&stat)),
            false => {
                let mut lines = as_lines(&stat).into_iter();
                lines.try_for_each(|(name, value)| out.line(format!("{name:<20}{value}")))
            }
        };
        close_after(&database, printed.and_then(|()| out.flush()))
    }
}

type Lines = Vec<(String, String)>;

fn as_lines(stat: &Stat) -> Lines {
    let mut lines = Lines::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    line("tables", grouped(stat.tables));
    match &stat.engine {
        EngineStat::Paged(paged) => {
            line("engine", EngineKind::Paged.to_string());
            let pages = |number: u64| format!("{} ({})", grouped(number), shown(number * paged.page_bytes));
            line("page size", shown(paged.page_bytes));
            line("pages", pages(paged.pages));
            line("pages free", pages(paged.pages_free));
            line("cache", pages(paged.cache_pages));
            line("cached", pages(paged.cached));
            line("dirty", pages(paged.dirty));
            line("cache misses", grouped(paged.cache_misses));
            line("pages written", grouped(paged.pages_written));
        }
        EngineStat::Memory(memory) => {
            line("engine", EngineKind::Memory.to_string());
            line("memory", format!("{} of {}", shown(memory.used_bytes), shown(memory.limit_bytes)));
            line("records", grouped(memory.records));
            let held = memory.held_by.map_or(String::new(), |txn| format!(", kept for transaction {txn}"));
            line("old versions", grouped(memory.versions_old) + &held);
        }
        // The engine may learn to say more than this program knows.
        _ => {}
    }
    line("active", counted(stat.transactions_active, "transaction"));
    line("commits", grouped(stat.commits));
    line("rollbacks", grouped(stat.rollbacks));
    line("conflicts", grouped(stat.conflicts));
    line("checkpoints", grouped(stat.checkpoints));
    match &stat.engine {
        EngineStat::Paged(paged) => line("last checkpoint", paged.checkpoint_lsn.to_string()),
        EngineStat::Memory(memory) => line("last checkpoint", grouped(memory.checkpoint)),
        _ => {}
    }
    line("log", format!("{} in {}", shown(stat.log.bytes), stat.log.kind));
    match (&stat.log.nvram, stat.log.fullness) {
        (Some(form), Some(fullness)) => {
            line("log memory", form.to_string());
            line("log full", format!("{:.1} %", f64::from(fullness) / 10.0));
        }
        _ => {
            let (soft, hard) = (shown(stat.log.soft_bytes), shown(stat.log.hard_bytes));
            line("log limits", format!("{soft} soft, {hard} hard"));
        }
    }
    line("log pinned by", stat.log.pinned_by.to_string());
    for (number, stream) in stat.log.streams.iter().enumerate() {
        let name = if stat.paged().is_some() { "log".to_owned() } else { format!("stream {number}") };
        for (what, lsn) in positions(stream) {
            line(&format!("{name} {what}"), lsn.to_string());
        }
    }
    line("log syncs", grouped(stat.log.syncs));
    line("log bytes synced", grouped(stat.log.bytes_synced));
    line("log wake-ups", grouped(stat.log.wakeups));
    line("incarnation", stat.log.incarnation.to_string());
    line("device stalls", stalls(&stat.stalls));
    lines
}

/// What is told of a stream, in the order of age.
fn positions(stream: &StreamStat) -> [(&'static str, Lsn); 5] {
    [
        ("start", stream.start),
        ("durable", stream.durable),
        ("written", stream.written),
        ("filled", stream.filled),
        ("reserved", stream.reserved),
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
    let mut object = json!({
        "tables": stat.tables,
        "transactions_active": stat.transactions_active,
        "commits": stat.commits,
        "rollbacks": stat.rollbacks,
        "conflicts": stat.conflicts,
        "checkpoints": stat.checkpoints,
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
            "kind": stat.log.kind.to_string(),
            "nvram": stat.log.nvram.map(|form| form.to_string()),
            "fullness_per_mille": stat.log.fullness,
            "bytes": stat.log.bytes,
            "soft_bytes": stat.log.soft_bytes,
            "hard_bytes": stat.log.hard_bytes,
            "pinned_by": stat.log.pinned_by.to_string(),
            "pinned_lsn": stat.log.pinned_by.lsn().get(),
            "syncs": stat.log.syncs,
            "bytes_synced": stat.log.bytes_synced,
            "wakeups": stat.log.wakeups,
            "incarnation": stat.log.incarnation,
        },
    });
    let streams = stat.log.streams.iter().map(stream_json);
    match &stat.engine {
        EngineStat::Paged(paged) => {
            merge(&mut object, paged_json(paged));
            // One stream: its positions are the log's.
            streams.for_each(|stream| merge(&mut object["log"], stream));
        }
        EngineStat::Memory(memory) => {
            merge(&mut object, memory_json(memory));
            object["log"]["streams"] = streams.collect();
        }
        _ => {}
    }
    object
}

fn paged_json(paged: &PagedStat) -> Value {
    json!({
        "engine": EngineKind::Paged.to_string(),
        "page_bytes": paged.page_bytes,
        "pages": paged.pages,
        "pages_free": paged.pages_free,
        "cache_pages": paged.cache_pages,
        "cached": paged.cached,
        "dirty": paged.dirty,
        "cache_misses": paged.cache_misses,
        "pages_written": paged.pages_written,
        "checkpoint_lsn": paged.checkpoint_lsn.get(),
    })
}

fn memory_json(memory: &MemoryStat) -> Value {
    json!({
        "engine": EngineKind::Memory.to_string(),
        "used_bytes": memory.used_bytes,
        "limit_bytes": memory.limit_bytes,
        "records": memory.records,
        "versions_old": memory.versions_old,
        "held_by": memory.held_by.map(TxnId::get),
        "checkpoint": memory.checkpoint,
    })
}

fn stream_json(stream: &StreamStat) -> Value {
    positions(stream).into_iter().map(|(what, lsn)| (what.to_owned(), Value::from(lsn.get()))).collect()
}

/// Adds the members of one object to another.
fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// Write changed pages to their place and trim the log; print where each stream of the log begins
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid checkpoint --dir ./db")]
pub struct Checkpoint {
    #[command(flatten)]
    place: DatabaseDir,
}

impl Checkpoint {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        database.checkpoint()?;
        let log = database.stat()?.log;
        let starts: Vec<String> = log.streams.iter().map(|stream| stream.start.to_string()).collect();
        let said = say(format!(
            "checkpoint taken; the log begins at {} and holds {}",
            starts.join(", "),
            shown(log.bytes)
        ));
        close_after(&database, said)
    }
}
