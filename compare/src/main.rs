//! Measures durable appends of several logs, in turn within each round, in one folder.
//!
//! 1. What drifts hits all alike: every log has run at every number of threads once before any runs again, every second round from the
//!    end.
//! 2. Each runs in a new folder that is removed after it. What a log prepares when it is opened is not measured.
//! 3. Every append is durable before the same thread makes the next; no record is lost to a warm-up.

mod logs;

use logs::{Appender, Result};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HELP: &str = "\
Measure durable appends by blocking threads, of katydid-wal and of other logs, in turn

Usage: katydid-compare [--dir DIR] [--threads LIST] [--logs NAMES] [--payload BYTES] [--seconds S] [--rounds N]

  --dir DIR        Folder to work in; must be new or empty [default: katydid-compare]
  --threads LIST   Numbers of threads [default: 1,2,8,32,64,128]
  --logs NAMES     Of katydid-wal, raft-engine, raft-engine-prefilled, okaywal, okaywal-large [default: all]
  --payload BYTES  Bytes of a record without the log's own header [default: 120]
  --seconds S      Of each run [default: 0.6]
  --rounds N       Runs of each [default: 3]

A row has the median round's rate, the slowest and the fastest, how many times as
fast katydid-wal was (the median of each round's ratio), and the latencies of all rounds.";

struct Settings {
    dir: PathBuf,
    threads: Vec<usize>,
    logs: Vec<&'static str>,
    payload: usize,
    time: Duration,
    rounds: usize,
}

fn settings() -> Result<Option<Settings>> {
    let mut settings = Settings {
        dir: "katydid-compare".into(),
        threads: vec![1, 2, 8, 32, 64, 128],
        logs: logs::NAMES.to_vec(),
        payload: 120,
        time: Duration::from_millis(600),
        rounds: 3,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        if matches!(flag.as_str(), "--help" | "-h") {
            println!("{HELP}");
            return Ok(None);
        }
        let value = arguments.next().ok_or_else(|| format!("{flag} wants a value; see --help"))?;
        match flag.as_str() {
            "--dir" => settings.dir = value.into(),
            "--threads" => settings.threads = list(&value, |item| Ok(item.parse()?))?,
            "--logs" => settings.logs = list(&value, logs::known)?,
            "--payload" => settings.payload = value.parse()?,
            "--seconds" => settings.time = Duration::try_from_secs_f64(value.parse()?)?,
            "--rounds" => settings.rounds = value.parse()?,
            _ => return Err(format!("unknown: {flag}; see --help").into()),
        }
    }
    if settings.threads.contains(&0) || settings.rounds == 0 {
        return Err("there must be at least one thread and one round".into());
    }
    Ok(Some(settings))
}

fn list<T>(text: &str, item: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    text.split(',').map(item).collect()
}

/// One run of one log.
struct Run {
    per_second: f64,
    /// Nanoseconds of each append.
    times: Vec<u64>,
}

/// A log at a number of threads, and its rounds.
struct Row {
    log: &'static str,
    threads: usize,
    rounds: Vec<Run>,
}

impl Row {
    fn rates(&self) -> Vec<f64> {
        let mut rates: Vec<f64> = self.rounds.iter().map(|run| run.per_second).collect();
        rates.sort_by(f64::total_cmp);
        rates
    }

    fn median(&self) -> f64 {
        let rates = self.rates();
        rates[(rates.len() - 1) / 2]
    }

    /// Taken round by round, since what disturbs a round disturbs all that is in it, and then the median.
    fn times_as_fast_as(&self, other: &Row) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        let mut ratios: Vec<f64> =
            rounds.map(|(ours, other)| ours.per_second / other.per_second.max(1e-9)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[(ratios.len() - 1) / 2]
    }

    /// Microseconds.
    fn at(&self, quantile: f64) -> f64 {
        let mut all: Vec<u64> = self.rounds.iter().flat_map(|run| run.times.iter().copied()).collect();
        all.sort_unstable();
        let last = all.len().saturating_sub(1);
        all.get((last as f64 * quantile) as usize).map_or(0.0, |nanos| *nanos as f64 / 1000.0)
    }
}

fn main() -> Result<()> {
    let Some(settings) = settings()? else { return Ok(()) };
    let made = !settings.dir.exists();
    std::fs::create_dir_all(&settings.dir)?;
    if std::fs::read_dir(&settings.dir)?.next().is_some() {
        return Err(format!("{} is not empty", settings.dir.display()).into());
    }
    let measured = measure(&settings);
    if made {
        std::fs::remove_dir_all(&settings.dir)?;
    }
    print(&settings, &measured?);
    Ok(())
}

fn measure(settings: &Settings) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for &threads in &settings.threads {
        rows.extend(settings.logs.iter().map(|&log| Row { log, threads, rounds: Vec::new() }));
    }
    let mut raw = Vec::new();
    for round in 0..settings.rounds {
        raw.push(logs::raw_write_us(&settings.dir, settings.time / 2)?);
        let order: Vec<usize> = (0..rows.len()).collect();
        let order = if round % 2 == 0 { order } else { order.into_iter().rev().collect() };
        for at in order {
            let row = &mut rows[at];
            eprintln!("round {} of {}: {}, {} threads", round + 1, settings.rounds, row.log, row.threads);
            let place = settings.dir.join("log");
            let run = one(row.log, &place, row.threads, settings);
            std::fs::remove_dir_all(&place)?;
            row.rounds.push(run?);
        }
    }
    raw.sort_by(f64::total_cmp);
    println!("raw durable 4 KiB write: {:.1} us (median round)", raw[(raw.len() - 1) / 2]);
    Ok(rows)
}

fn one(name: &str, place: &Path, threads: usize, settings: &Settings) -> Result<Run> {
    let log = logs::open(name, place)?;
    let appenders: Vec<Box<dyn Appender + '_>> =
        (0..threads).map(|thread| log.appender(thread)).collect::<Result<_>>()?;
    let (begin, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let payload = vec![7; settings.payload];
    let (done, elapsed) = std::thread::scope(|scope| {
        let (begin, stop, payload) = (&begin, &stop, &payload);
        let workers: Vec<_> = appenders
            .into_iter()
            .map(|mut appender| scope.spawn(move || work(appender.as_mut(), payload, begin, stop)))
            .collect();
        begin.wait();
        let since = Instant::now();
        while let Some(left) = settings.time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(Duration::from_millis(10)));
            log.housekeeping();
        }
        stop.store(true, Ordering::Relaxed);
        let done: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect();
        (done, since.elapsed())
    });
    let mut times = Vec::new();
    for mine in done {
        times.extend(mine?);
    }
    log.close()?;
    Ok(Run { per_second: times.len() as f64 / elapsed.as_secs_f64(), times })
}

fn work(appender: &mut dyn Appender, payload: &[u8], begin: &Barrier, stop: &AtomicBool) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    begin.wait();
    while !stop.load(Ordering::Relaxed) {
        let since = Instant::now();
        appender.append(payload)?;
        times.push(since.elapsed().as_nanos() as u64);
    }
    Ok(times)
}

fn print(settings: &Settings, rows: &[Row]) {
    println!("{} bytes, {} s, {} rounds", settings.payload, settings.time.as_secs_f64(), settings.rounds);
    println!(
        "{:<24}{:>8}{:>12}{:>12}{:>12}{:>10}{:>10}{:>10}{:>11}",
        "log", "threads", "appends/s", "slowest", "fastest", "ours is", "p50 us", "p99 us", "p99.9 us"
    );
    for row in rows {
        let ours = rows.iter().find(|other| other.log == logs::NAMES[0] && other.threads == row.threads);
        let ratio = ours.map_or(String::new(), |ours| format!("{:.2} x", ours.times_as_fast_as(row)));
        let rates = row.rates();
        println!(
            "{:<24}{:>8}{:>12.0}{:>12.0}{:>12.0}{:>10}{:>10.1}{:>10.1}{:>11.1}",
            row.log,
            row.threads,
            row.median(),
            rates[0],
            rates[rates.len() - 1],
            ratio,
            row.at(0.5),
            row.at(0.99),
            row.at(0.999)
        );
    }
}
