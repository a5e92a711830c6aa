//! Durable commits per second of the bare log, beside the raw durable 4 KiB write of the same run.
//!
//! `cargo run --release -p katydid-wal --example log_commit -- --dir D [--seconds 2] [--threads 1,8,16,32,64]
//! [--callbacks 2x1000] [--payload 120] [--inserter marks] [--sync adaptive] [--method direct] [--memory]
//! [--delay-us 43] [--waiting timer]`
//!
//! `--memory` writes to memory: with `--delay-us`, which makes each durable write take that much longer, a device that nobody
//! else uses. `--waiting` says how that is waited for: `timer` (asleep), `spin` or `auto`.

use katydid_device::{
    AlignedBuffer, Create, DelayedDirectory, Directory, FileDirectory, MemoryDirectory, Waiting, WriteMode,
};
use katydid_wal::{Append, Completions, Durability, Kind, Log, Options};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Settings {
    directory: String,
    memory: bool,
    delay: Duration,
    waiting: Waiting,
    seconds: f64,
    threads: Vec<usize>,
    callbacks: Vec<(usize, usize)>,
    payload: usize,
    options: Options,
}

fn settings() -> Result<Settings, Failure> {
    let mut settings = Settings {
        directory: String::new(),
        memory: false,
        delay: Duration::ZERO,
        waiting: Waiting::Timer,
        seconds: 2.0,
        threads: vec![1, 8, 16, 32, 64],
        callbacks: vec![(2, 1000)],
        payload: 120,
        options: Options::default(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        if flag == "--memory" {
            settings.memory = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{flag} wants a value"))?;
        match flag.as_str() {
            "--dir" => settings.directory = value,
            "--seconds" => settings.seconds = value.parse()?,
            "--delay-us" => settings.delay = Duration::from_micros(value.parse()?),
            "--waiting" if value == "spin" => settings.waiting = Waiting::Spin,
            "--waiting" if value == "timer" => settings.waiting = Waiting::Timer,
            "--waiting" if value == "auto" => settings.waiting = Waiting::Auto,
            "--payload" => settings.payload = value.parse()?,
            "--threads" => settings.threads = list(&value, |item| Ok(item.parse()?))?,
            "--callbacks" => {
                settings.callbacks = list(&value, |item| {
                    let (threads, flight) =
                        item.split_once('x').ok_or("--callbacks wants THREADSxIN_FLIGHT")?;
                    Ok((threads.parse()?, flight.parse()?))
                })?;
            }
            "--inserter" => settings.options.inserter = value.parse()?,
            "--sync" => settings.options.sync = value.parse()?,
            "--ring" => settings.options.ring_bytes = value.parse()?,
            "--method" => settings.options.method = value.parse()?,
            _ => return Err(format!("unknown: {flag} {value}").into()),
        }
    }
    Ok(settings)
}

fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    text.split(',').filter(|part| !part.is_empty()).map(item).collect()
}

fn main() -> Result<(), Failure> {
    let settings = settings()?;
    if settings.directory.is_empty() && !settings.memory {
        return Err("--dir D or --memory".into());
    }
    let directory: Arc<dyn Directory> = if settings.memory {
        Arc::new(MemoryDirectory::new())
    } else {
        Arc::new(FileDirectory::open(&settings.directory)?)
    };
    let directory: Arc<dyn Directory> =
        Arc::new(DelayedDirectory::new(directory, settings.delay, settings.waiting));
    println!(
        "{} {:?} {} {}",
        directory.describe(),
        settings.options.method,
        settings.options.inserter,
        settings.options.sync
    );
    raw(directory.as_ref(), &settings)?;
    for &threads in &settings.threads {
        let log = Log::open_in(directory.subdirectory("log")?, settings.options.clone())?;
        settle(&log);
        blocking(&log, threads, &settings)?;
        log.trim(log.durable())?;
        log.close()?;
    }
    for &(threads, flight) in &settings.callbacks {
        let log = Log::open_in(directory.subdirectory("log")?, settings.options.clone())?;
        settle(&log);
        callbacks(&log, threads, flight, &settings)?;
        log.trim(log.durable())?;
        log.close()?;
    }
    raw(directory.as_ref(), &settings)
}

/// Waits until the first segments are prepared, so that zero-filling is not measured.
fn settle(log: &Log) {
    let mut before = 0;
    while log.space().prepared > before {
        before = log.space().prepared;
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn raw(directory: &dyn Directory, settings: &Settings) -> Result<(), Failure> {
    let file = directory.open("raw", Create::IfMissing, settings.options.method)?;
    file.prepare(0, 4 << 20)?;
    let block = AlignedBuffer::new_zeroed(4096);
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < settings.seconds.min(1.0) {
        let start = Instant::now();
        file.write_at(&[IoSlice::new(&block)], (times.len() as u64 % 1024) * 4096, WriteMode::Durable)?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    report("raw 4 KiB", times, begin.elapsed());
    println!();
    Ok(())
}

fn blocking(log: &Log, threads: usize, settings: &Settings) -> Result<(), Failure> {
    let (stop, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(threads + 1)));
    let payload = vec![7u8; settings.payload];
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (log, stop, gate, payload) = (log.clone(), stop.clone(), gate.clone(), payload.clone());
            std::thread::spawn(move || -> Result<Vec<u64>, Failure> {
                let mut session = log.session()?;
                let mut times = Vec::new();
                gate.wait();
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    let appended = session.append(&Append::new(Kind::USER, &[&payload]))?;
                    log.wait(appended.end, Durability::Durable)?;
                    times.push(start.elapsed().as_nanos() as u64);
                }
                Ok(times)
            })
        })
        .collect();
    measure(log, &format!("{threads} blocking"), settings, &stop, &gate, workers)
}

fn callbacks(log: &Log, threads: usize, flight: usize, settings: &Settings) -> Result<(), Failure> {
    let (stop, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(threads + 1)));
    let payload = vec![7u8; settings.payload];
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (log, stop, gate, payload) = (log.clone(), stop.clone(), gate.clone(), payload.clone());
            std::thread::spawn(move || -> Result<Vec<u64>, Failure> {
                let mut session = log.session()?;
                // Every 64th is timed: reading the clock costs as much as an append.
                let mut times = Vec::new();
                let mut completions = Completions::new(&log);
                let mut done = 0u64;
                let mut number = 0u64;
                gate.wait();
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..16 {
                        let start = number.is_multiple_of(64).then(Instant::now);
                        number += 1;
                        let appended = session.append(&Append::new(Kind::USER, &[&payload]))?;
                        completions.push(appended.end, Durability::Durable, start);
                    }
                    completions.wait_below_with(flight, |start: Option<Instant>, _| {
                        done += 1;
                        if let Some(start) = start {
                            times.push(start.elapsed().as_nanos() as u64);
                        }
                    });
                }
                completions.drain_with(|_, _| ());
                times.insert(0, done);
                Ok(times)
            })
        })
        .collect();
    measure(log, &format!("{threads}x{flight} callbacks"), settings, &stop, &gate, workers)
}

type Worker = std::thread::JoinHandle<Result<Vec<u64>, Failure>>;

fn measure(
    log: &Log,
    name: &str,
    settings: &Settings,
    stop: &AtomicBool,
    gate: &Barrier,
    workers: Vec<Worker>,
) -> Result<(), Failure> {
    gate.wait();
    let (begin, before, cpu) = (Instant::now(), log.counters(), cpu_seconds());
    while begin.elapsed().as_secs_f64() < settings.seconds {
        std::thread::sleep(Duration::from_millis(10));
        // As a checkpoint would: segments are recycled instead of filled with zeros anew.
        if log.space().live > 64 << 20 {
            log.trim(log.durable())?;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (elapsed, after, cpu) = (begin.elapsed(), log.counters(), cpu_seconds() - cpu);
    let mut times = Vec::new();
    let mut done = 0;
    for worker in workers {
        let mut mine = worker.join().map_err(|_| "a worker panicked")??;
        if name.ends_with("callbacks") {
            done += mine.remove(0);
        }
        times.extend(mine);
    }
    let done = if done == 0 { times.len() as u64 } else { done };
    let syncs = (after.syncs - before.syncs).max(1);
    report_rate(name, done, times, elapsed);
    println!(
        "   {:6.1} commits/sync {:8} bytes/sync  {:7} syncs/s  {:5.2} cpu  {} stalls {} wakeups",
        done as f64 / syncs as f64,
        (after.bytes_written - before.bytes_written) / syncs,
        (syncs as f64 / elapsed.as_secs_f64()) as u64,
        cpu / elapsed.as_secs_f64(),
        after.stalls - before.stalls,
        after.syncer_wakeups - before.syncer_wakeups,
    );
    Ok(())
}

fn report(name: &str, times: Vec<u64>, elapsed: Duration) {
    report_rate(name, times.len() as u64, times, elapsed);
}

fn report_rate(name: &str, done: u64, mut times: Vec<u64>, elapsed: Duration) {
    times.sort_unstable();
    let at =
        |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, |t| *t as f64 / 1000.0);
    print!(
        "{name:20} {:10.0}/s  p50 {:8.1} us  p99 {:8.1} us  max {:8.1} us",
        done as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        times.last().map_or(0.0, |t| *t as f64 / 1000.0),
    );
}

/// CPU time of this process, from the kernel's own account; zero where there is none.
fn cpu_seconds() -> f64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
