//! Measures durable appends of several logs, in turn within each round, in one folder.
//!
//! Every append is durable before its thread makes the next append. Nothing is excluded as a
//! warm-up.

mod rivals;

pub use rivals::{Indexed, open_raft_engine, raw_write_us, wait_for_segments};

use crate::Result;
use crate::flags;
use crate::statistics::{extremes, median, quantile_us, times_as_much};
use crate::turns::{self, Run};
use rivals::Appender;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HELP: &str = "\
Measure durable appends by blocking threads, of katydid-wal and of other logs, in turn

Usage: katydid-compare logs [--dir DIR] [--threads LIST] [--logs NAMES] [--payload BYTES] [--seconds S] [--rounds N]

  --dir DIR        Folder to work in, which must be new or empty [default: katydid-compare]
  --threads LIST   Numbers of threads [default: 1,2,8,32,64,128]
  --logs NAMES     Logs to measure, of katydid-wal, raft-engine, raft-engine-prefilled, okaywal, okaywal-large [default: all]
  --payload BYTES  Bytes of a record without the log's own header [default: 120]
  --seconds S      Seconds of each run [default: 0.6]
  --rounds N       Number of rounds, each of which runs every case once [default: 3]

A row has the rates of the median, the slowest and the fastest round, the ratio of katydid-wal's rate
to the row's rate (the median of all rounds' ratios), and the latencies of all rounds.";

struct Settings {
    dir: PathBuf,
    threads: Vec<usize>,
    logs: Vec<&'static str>,
    payload: usize,
    time: Duration,
    rounds: usize,
}

fn settings(arguments: Vec<String>) -> Result<Option<Settings>> {
    let mut settings = Settings {
        dir: "katydid-compare".into(),
        threads: vec![1, 2, 8, 32, 64, 128],
        logs: rivals::NAMES.to_vec(),
        payload: 120,
        time: Duration::from_millis(600),
        rounds: 3,
    };
    let Some(pairs) = flags::pairs(arguments)? else { return Ok(None) };
    for (flag, value) in &pairs {
        match flag.as_str() {
            "--dir" => settings.dir = flags::value(flag, value)?,
            "--threads" => settings.threads = flags::list(flag, value, flags::many)?,
            "--logs" => settings.logs = flags::list(flag, value, rivals::known)?,
            "--payload" => settings.payload = flags::value(flag, value)?,
            "--seconds" => settings.time = Duration::try_from_secs_f64(flags::value(flag, value)?)?,
            "--rounds" => settings.rounds = flags::value(flag, value)?,
            _ => return Err(format!("unknown: {flag}; see --help").into()),
        }
    }
    if settings.rounds == 0 {
        return Err("there must be at least one round".into());
    }
    Ok(Some(settings))
}

/// A log with a number of threads, and its rounds.
struct Row {
    log: &'static str,
    threads: usize,
    rounds: Vec<Run>,
}

impl Row {
    fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(|run| run.per_second).collect()
    }

    /// Quantile of all append times, in microseconds.
    fn at(&self, quantile: f64) -> f64 {
        let mut all: Vec<u64> = self.rounds.iter().flat_map(|run| run.times.iter().copied()).collect();
        all.sort_unstable();
        quantile_us(&all, quantile)
    }
}

pub fn main(arguments: Vec<String>) -> Result<()> {
    let Some(settings) = settings(arguments)? else {
        println!("{HELP}");
        return Ok(());
    };
    let measured = flags::in_new_folder(&settings.dir, || measure(&settings))?;
    print(&settings, &measured);
    Ok(())
}

fn measure(settings: &Settings) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for &threads in &settings.threads {
        rows.extend(settings.logs.iter().map(|&log| Row { log, threads, rounds: Vec::new() }));
    }
    let mut raw = Vec::new();
    for round in 0..settings.rounds {
        raw.push(rivals::raw_write_us(&settings.dir, settings.time / 2)?);
        for at in turns::order(rows.len(), round) {
            let row = &mut rows[at];
            eprintln!("round {} of {}: {}, {} threads", round + 1, settings.rounds, row.log, row.threads);
            let place = settings.dir.join("log");
            let run = one(row.log, &place, row.threads, settings);
            std::fs::remove_dir_all(&place)?;
            row.rounds.push(run?);
        }
    }
    println!("raw durable 4 KiB write: {:.1} us (median round)", median(raw));
    Ok(rows)
}

fn one(name: &str, place: &Path, threads: usize, settings: &Settings) -> Result<Run> {
    let log = rivals::open(name, place)?;
    let appenders: Vec<Box<dyn Appender + '_>> =
        (0..threads).map(|thread| log.appender(thread)).collect::<Result<_>>()?;
    let payload = &vec![7; settings.payload];
    let workers = appenders.into_iter().map(|mut appender| {
        move |_: usize| -> Result<Duration> {
            let since = Instant::now();
            appender.append(payload)?;
            Ok(since.elapsed())
        }
    });
    let run = Run::of_workers(workers.collect(), || {
        let since = Instant::now();
        while let Some(left) = settings.time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(Duration::from_millis(10)));
            log.housekeeping();
        }
    })?;
    log.close()?;
    Ok(run)
}

fn print(settings: &Settings, rows: &[Row]) {
    println!("{} bytes, {} s, {} rounds", settings.payload, settings.time.as_secs_f64(), settings.rounds);
    println!(
        "{:<24}{:>8}{:>12}{:>12}{:>12}{:>10}{:>10}{:>10}{:>11}",
        "log", "threads", "appends/s", "slowest", "fastest", "ours is", "p50 us", "p99 us", "p99.9 us"
    );
    for row in rows {
        let ours = rows.iter().find(|other| other.log == rivals::NAMES[0] && other.threads == row.threads);
        let rates = row.rates();
        let (slowest, fastest) = extremes(&rates);
        let ratio =
            ours.map_or(String::new(), |ours| format!("{:.2} x", times_as_much(&ours.rates(), &rates)));
        println!(
            "{:<24}{:>8}{:>12.0}{:>12.0}{:>12.0}{:>10}{:>10.1}{:>10.1}{:>11.1}",
            row.log,
            row.threads,
            median(rates),
            slowest,
            fastest,
            ratio,
            row.at(0.5),
            row.at(0.99),
            row.at(0.999)
        );
    }
}
