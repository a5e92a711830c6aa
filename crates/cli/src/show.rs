//! `tables`, `drop-table`, `stat` and `checkpoint`.

use crate::text;
use clap::Args;
use katydid::EngineKind;
use katydid_command::bytes::{counted, grouped, shown};
use katydid_command::database::{self, DatabaseDir, close_after};
use katydid_command::failure::Result;
use katydid_command::output::{Output, say};
use serde_json::{Value, json};

/// Print the names of all tables, one per line
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid tables --dir ./db")]
pub struct Tables {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Tables {
    pub fn run(self) -> Result<()> {
        let mut look = self.place.look()?;
        let tables = look.tables()?;
        let mut out = Output::new();
        let printed = match self.json {
            true => out.json(&json!({ "tables": tables })),
            false => tables.iter().try_for_each(|name| out.line(text::escaped(name.as_bytes()))),
        };
        look.finish(printed.and_then(|()| out.flush()))
    }
}

/// Remove a table and all its keys
///
/// The removal is durable when the command returns. The exit code is 1 if there is no such table.
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
        // If the table does not exist, the error lists the tables that do.
        drop(database::table(&database, &self.table)?);
        database.drop_table(&self.table)?;
        Ok(database.close()?)
    }
}

/// Print positions and counters, and the reason why the log keeps its oldest part
///
/// The counters begin when the database is opened. If a process has the database open and listens
/// at its socket, that process sends its counters. Otherwise this command opens the database
/// read-only, and the counters are those of this opening.
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
        let mut look = self.place.look()?;
        let stat = look.stat()?;
        let mut out = Output::new();
        let printed = match self.json {
            true => out.json(&stat),
            false => {
                let mut lines = as_lines(&stat).into_iter();
                lines.try_for_each(|(name, value)| out.line(format!("{name:<20}{value}")))
            }
        };
        look.finish(printed.and_then(|()| out.flush()))
    }
}

pub type Lines = Vec<(String, String)>;

/// Names of the shown positions of a stream, from the lowest position to the highest.
const POSITIONS: [&str; 5] = ["start", "durable", "written", "filled", "reserved"];

/// Turns the JSON object into lines for people.
pub fn as_lines(stat: &Value) -> Lines {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut lines = Lines::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    line("tables", grouped(number(&stat["tables"])));
    line("engine", text(&stat["engine"]));
    let is_paged = stat["engine"] == EngineKind::Paged.to_string();
    if is_paged {
        let page_bytes = number(&stat["page_bytes"]);
        let pages = |name: &str| {
            let pages = number(&stat[name]);
            format!("{} ({})", grouped(pages), shown(pages * page_bytes))
        };
        line("page size", shown(page_bytes));
        line("pages", pages("pages"));
        line("pages free", pages("pages_free"));
        let share = stat["cache_share_of_bytes"].as_u64();
        let share = share.map_or(String::new(), |bytes| format!(", a share of {}", shown(bytes)));
        line("page I/O", text(&stat["page_method"]));
        line("cache", pages("cache_pages") + &share);
        line("cached", pages("cached"));
        line("dirty", pages("dirty"));
        line("cache misses", grouped(number(&stat["cache_misses"])));
        line("pages written", grouped(number(&stat["pages_written"])));
        let age = stat["oldest_view_seconds"].as_f64();
        let age = age.map_or(String::new(), |seconds| format!(", the oldest for {seconds:.1} s"));
        line("read views", counted(number(&stat["views"]), "view") + &age);
        let kept = |name: &str| shown(number(&stat[name]));
        line("kept for views", format!("{} of {}", kept("view_bytes"), kept("view_bytes_max")));
        line("views given up", grouped(number(&stat["views_given_up"])));
    } else {
        let bytes = |name: &str| shown(number(&stat[name]));
        line("memory", format!("{} of {}", bytes("used_bytes"), bytes("limit_bytes")));
        line("records", grouped(number(&stat["records"])));
        let held =
            stat["held_by"].as_u64().map_or(String::new(), |txn| format!(", kept for transaction {txn}"));
        line("old versions", grouped(number(&stat["versions_old"])) + &held);
    }
    line("active", counted(number(&stat["transactions_active"]), "transaction"));
    for name in ["commits", "rollbacks", "conflicts", "checkpoints"] {
        line(name, grouped(number(&stat[name])));
    }
    line("commit latency", latencies(&stat["commit_latency_us"]));
    line("waits", latencies(&stat["wait_time_us"]));
    for open in stat["oldest_transactions"].as_array().into_iter().flatten().take(5) {
        let age = number(&open["age_us"]) as f64 / 1e6;
        line("open", format!("{} for {age:.1} s, begun at {}", number(&open["txn"]), text(&open["origin"])));
    }
    for wait in stat["waits"].as_array().into_iter().flatten().take(5) {
        line("waiting", waiting(wait));
    }
    match is_paged {
        true => line("last checkpoint", number(&stat["checkpoint_lsn"]).to_string()),
        false => line("last checkpoint", grouped(number(&stat["checkpoint"]))),
    }
    let log = &stat["log"];
    line("log", format!("{} in {}", shown(number(&log["bytes"])), text(&log["kind"])));
    if log["nvram"].is_null() {
        line("log I/O", text(&log["method"]));
    }
    match (log["nvram"].as_str(), log["fullness_per_mille"].as_u64()) {
        (Some(form), Some(fullness)) => {
            line("log memory", form.to_owned());
            line("log full", format!("{:.1} %", fullness as f64 / 10.0));
        }
        _ => {
            let (soft, hard) = (shown(number(&log["soft_bytes"])), shown(number(&log["hard_bytes"])));
            line("log limits", format!("{soft} soft, {hard} hard"));
        }
    }
    line("log pinned by", text(&log["pinned_by"]));
    let streams = match log["streams"].as_array() {
        Some(streams) => streams.iter().enumerate().map(|(at, of)| (format!("stream {at}"), of)).collect(),
        None => vec![("log".to_owned(), log)],
    };
    for (name, stream) in streams {
        for what in POSITIONS {
            line(&format!("{name} {what}"), number(&stream[what]).to_string());
        }
    }
    line("log syncs", grouped(number(&log["syncs"])));
    line("log bytes synced", grouped(number(&log["bytes_synced"])));
    line("log wake-ups", grouped(number(&log["wakeups"])));
    line("incarnation", number(&log["incarnation"]).to_string());
    line("device stalls", stalls(&stat["device_stalls"]));
    lines
}

/// Formats quantiles and count.
pub fn latencies(latencies: &Value) -> String {
    let number = |name: &str| latencies[name].as_u64().unwrap_or(0);
    let names = [("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"), ("max", "longest")];
    let quantiles = names.map(|(name, shown)| format!("{shown} {:.1} ms", number(name) as f64 / 1000.0));
    format!("{} of {}", quantiles.join(", "), grouped(number("count")))
}

/// Formats a waiting transaction with the lock that it wants and the transactions that block it.
pub fn waiting(wait: &Value) -> String {
    let number = |name: &str| wait[name].as_u64().unwrap_or(0);
    let blockers = wait["blockers"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let mut blockers = blockers.map(|txn| txn.to_string());
    let mut text = format!("{} wants {}", number("txn"), wait["wanted"].as_str().unwrap_or(""));
    if let Some(first) = blockers.next() {
        text += &format!(", behind {first}");
        if wait["blocker_age_us"].is_u64() {
            text += &format!(" (open for {:.1} s)", number("blocker_age_us") as f64 / 1e6);
        }
    }
    blockers.for_each(|blocker| text += &format!(", {blocker}"));
    text
}

pub fn stalls(stalls: &Value) -> String {
    let seconds = |micros: &Value| micros.as_u64().unwrap_or(0) as f64 / 1e6;
    let count = stalls["count"].as_u64().unwrap_or(0);
    let mut text = grouped(count);
    if count > 0 {
        text += &format!(", the longest {:.1} s", seconds(&stalls["longest_us"]));
    }
    let stall = &stalls["under_way"];
    if let (Some(verb), Some(subject)) = (stall["verb"].as_str(), stall["subject"].as_str()) {
        text += &format!("; to {verb} {subject} has taken {:.1} s so far", seconds(&stall["so_far_us"]));
    }
    text
}

/// Take a checkpoint, trim the log, and print where each stream of the log begins
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid checkpoint --dir ./db")]
pub struct Checkpoint {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Checkpoint {
    pub fn run(self) -> Result<()> {
        let database = self.place.open()?;
        database.checkpoint()?;
        let log = database.stat()?.log;
        let text = if self.json {
            let starts: Vec<u64> = log.streams.iter().map(|stream| stream.start.get()).collect();
            json!({ "log_starts": starts, "log_bytes": log.bytes }).to_string()
        } else {
            let starts: Vec<String> = log.streams.iter().map(|stream| stream.start.to_string()).collect();
            format!(
                "checkpoint taken; the log begins at {} and holds {}",
                starts.join(", "),
                shown(log.bytes)
            )
        };
        close_after(&database, say(text))
    }
}
