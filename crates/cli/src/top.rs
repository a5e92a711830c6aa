//! `top`: shows the activity of a running database at intervals.
//!
//! Counters come from the socket of the process that has the database open. `top` shows their
//! growth per interval.

use crate::show::{latencies, stalls, waiting};
use clap::Args;
use katydid_command::bytes::{grouped, shown};
use katydid_command::database::DatabaseDir;
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::seconds;
use katydid_command::look::{Look, has_closed_socket};
use katydid_command::output::{Output, say};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Show the activity of a running database, at intervals
///
/// The command shows rates, latencies, the oldest transactions, and the locks that transactions
/// wait for. It ends when the process closes the database. The process that has the database open
/// must listen at its socket: `load`, `bench` and `shell` do, and so do programs that call
/// katydid_observe::Socket::open.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  katydid top --dir ./db\n  katydid top --dir ./db --interval 10 --count 6 --json"
)]
pub struct Top {
    /// Seconds of an interval
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    interval: f64,
    /// Stop after this number of intervals
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object for each interval, with the rates and all of `stat --json`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

/// Counters whose growth is shown: name, JSON pointer in the object, and whether it counts bytes.
const RATES: [(&str, &str, bool); 8] = [
    ("commits", "/commits", false),
    ("rollbacks", "/rollbacks", false),
    ("conflicts", "/conflicts", false),
    ("log syncs", "/log/syncs", false),
    ("log bytes", "/log/bytes_synced", true),
    ("cache misses", "/cache_misses", false),
    ("pages written", "/pages_written", false),
    ("checkpoints", "/checkpoints", false),
];

fn number(stat: &Value, place: &str) -> u64 {
    stat.pointer(place).and_then(Value::as_u64).unwrap_or(0)
}

impl Top {
    pub fn run(self) -> Result<()> {
        let mut look = self.place.look()?;
        if matches!(look, Look::Closed(_)) {
            return look.finish(Err(Failure::failed(format_args!(
                "no process has the database in {} open",
                self.place.dir.display()
            ))));
        }
        let interval = Duration::from_secs_f64(self.interval);
        let (mut last, mut at) = (look.stat()?, Instant::now());
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            left -= 1;
            std::thread::sleep(interval.saturating_sub(at.elapsed()));
            let stat = match look.stat() {
                Err(_) if has_closed_socket(&self.place.dir) => return Ok(()),
                stat => stat?,
            };
            let seconds = at.elapsed().as_secs_f64();
            at = Instant::now();
            let rates = RATES.map(|(name, place, bytes)| {
                let grown = number(&stat, place).saturating_sub(number(&last, place));
                (name, grown as f64 / seconds.max(1e-9), bytes)
            });
            self.show(&stat, &rates)?;
            last = stat;
        }
        Ok(())
    }

    fn show(&self, stat: &Value, rates: &[(&str, f64, bool)]) -> Result<()> {
        if self.json {
            let rates: serde_json::Map<String, Value> =
                rates.iter().map(|(name, rate, _)| (name.replace(' ', "_"), Value::from(*rate))).collect();
            return say(json!({ "per_second": rates, "stat": stat }).to_string());
        }
        let terminal = console::Term::stdout();
        if std::io::stdout().is_terminal() {
            let failed = |error: std::io::Error| {
                Failure::failed(format_args!("cannot write to the terminal: {error}"))
            };
            terminal.clear_screen().map_err(failed)?;
        }
        let mut out = Output::new();
        for line in lines(stat, rates) {
            out.line(line)?;
        }
        out.flush()
    }
}

fn lines(stat: &Value, rates: &[(&str, f64, bool)]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut lines = vec![format!("{} engine, {}", text(&stat["engine"]), sizes(stat))];
    for (name, rate, bytes) in rates {
        let rate = if *bytes { shown(*rate as u64) } else { grouped(*rate as u64) };
        lines.push(format!("{name:<16}{rate:>14}/s"));
    }
    lines.push(format!("commit latency  {}", latencies(&stat["commit_latency_us"])));
    lines.push(format!("waits           {}", latencies(&stat["wait_time_us"])));
    lines.push(format!("device stalls   {}", stalls(&stat["device_stalls"])));
    lines.push(format!("log pinned by   {}", text(&stat["log"]["pinned_by"])));
    lines.push(format!(
        "open            {} transactions, the oldest:",
        grouped(number(stat, "/transactions_open"))
    ));
    for open in stat["oldest_transactions"].as_array().into_iter().flatten() {
        let age = number(open, "/age_us") as f64 / 1e6;
        lines.push(format!("  {:>12}  {age:>9.1} s  {}", number(open, "/txn"), text(&open["origin"])));
    }
    lines.push(format!("waiting         {} transactions", grouped(number(stat, "/transactions_waiting"))));
    for wait in stat["waits"].as_array().into_iter().flatten() {
        lines.push(format!("  {}", waiting(wait)));
    }
    lines
}

fn sizes(stat: &Value) -> String {
    let log = number(stat, "/log/bytes");
    match stat["page_bytes"].as_u64() {
        Some(page) => format!(
            "{} of pages, {} dirty, {} of log",
            shown(number(stat, "/pages") * page),
            shown(number(stat, "/dirty") * page),
            shown(log)
        ),
        None => format!("{} of memory, {} of log", shown(number(stat, "/used_bytes")), shown(log)),
    }
}
