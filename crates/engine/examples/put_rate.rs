//! Rate of transactions that put one row of 120 bytes:
//! `put_rate [--dir D] [--seconds S] [--only NAME] [--lock-release R]`.
//!
//! Without `--dir` the device is memory. The cases are blocking commits from 1, 8 and 64 threads,
//! callbacks with 1,000 in flight from 1 and 2 threads, and buffered commits, which show the
//! engine's own work.

use katydid::{AdvancedOptions, Database, Durability, Options, Table, TransactionOptions};
use katydid_device::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Setting {
    name: &'static str,
    threads: u64,
    in_flight: usize,
    durability: Durability,
}

fn key(thread: u64, nth: u64) -> [u8; 20] {
    let mut key = [b'0'; 20];
    let hash = (thread << 40 | nth).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..16].copy_from_slice(format!("{hash:016x}").as_bytes());
    key[16..].copy_from_slice(&(thread as u32).to_be_bytes());
    key
}

fn worker(
    database: &Database,
    table: &Table,
    setting: &Setting,
    thread: u64,
    stop: &AtomicBool,
) -> (u64, Vec<u32>) {
    let options = TransactionOptions { durability: setting.durability, ..TransactionOptions::default() };
    let session = database.session();
    let value = [7u8; 100];
    let done = Arc::new(AtomicU64::new(0));
    let mut latencies = Vec::new();
    let mut nth = 0;
    while !stop.load(Ordering::Relaxed) {
        nth += 1;
        let txn = database.begin_with(options).expect("begin");
        txn.put(table, key(thread, nth), value).expect("put");
        if setting.in_flight == 1 {
            let start = Instant::now();
            txn.commit().expect("commit");
            latencies.push(start.elapsed().as_nanos() as u32);
        } else {
            let done = done.clone();
            txn.commit_with(&session, move |result| {
                result.expect("commit");
                done.fetch_add(1, Ordering::Relaxed);
            });
            if session.pending() >= setting.in_flight {
                session.wait_below(setting.in_flight).expect("wait");
            } else if nth % 64 == 0 {
                session.poll();
            }
        }
    }
    session.drain().expect("drain");
    (nth, latencies)
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(") ").next().unwrap_or_default();
    let field = |at| after.split(' ').nth(at).and_then(|text: &str| text.parse::<f64>().ok()).unwrap_or(0.0);
    (field(11) + field(12)) / 100.0
}

fn run(database: &Database, setting: &Setting, seconds: u64, round: u64) {
    let table = database.table(setting.name).expect("table");
    let stop = AtomicBool::new(false);
    let before = database.stat().expect("stat");
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let (count, mut latencies) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..setting.threads)
            .map(|thread| {
                let (table, stop) = (&table, &stop);
                scope.spawn(move || worker(database, table, setting, round * 1000 + thread, stop))
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = (0, Vec::new());
        for worker in workers {
            let (count, latencies) = worker.join().expect("worker");
            all.0 += count;
            all.1.extend(latencies);
        }
        all
    });
    let elapsed = start.elapsed().as_secs_f64();
    let after = database.stat().expect("stat");
    latencies.sort_unstable();
    let at = |share: f64| {
        let last = latencies.len().saturating_sub(1);
        latencies.get((last as f64 * share) as usize).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
    };
    println!(
        "{:24} {:>9.0}/s  cpu {:>6.2} us/txn  p50 {:>7.1} us  p99 {:>8.1} us  {:>7} syncs  {:>6.1} txn/sync",
        setting.name,
        count as f64 / elapsed,
        (cpu_seconds() - cpu) * 1e6 / count as f64,
        at(0.5),
        at(0.99),
        after.log.syncs - before.log.syncs,
        count as f64 / (after.log.syncs - before.log.syncs).max(1) as f64,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let seconds = value("--seconds").and_then(|text| text.parse().ok()).unwrap_or(2);
    let only = value("--only");
    let lock_release = value("--lock-release").map(|text| text.parse().expect("early or after-durable"));
    let options = Options {
        advanced: AdvancedOptions {
            lock_release: lock_release.unwrap_or_default(),
            ..AdvancedOptions::default()
        },
        ..Options::default()
    };
    let database = match value("--dir") {
        Some(path) => Database::open_with(path, options),
        None => Database::open_in(Arc::new(MemoryDirectory::new()), options),
    };
    let database = database.expect("open");
    let durable = Durability::Durable;
    let settings = [
        Setting { name: "buffered, 1 thread", threads: 1, in_flight: 1, durability: Durability::Buffered },
        Setting { name: "buffered, 2 threads", threads: 2, in_flight: 1, durability: Durability::Buffered },
        Setting { name: "blocking, 1 thread", threads: 1, in_flight: 1, durability: durable },
        Setting { name: "blocking, 8 threads", threads: 8, in_flight: 1, durability: durable },
        Setting { name: "blocking, 64 threads", threads: 64, in_flight: 1, durability: durable },
        Setting { name: "1000 in flight, 1 thread", threads: 1, in_flight: 1000, durability: durable },
        Setting { name: "1000 in flight, 2 threads", threads: 2, in_flight: 1000, durability: durable },
    ];
    for (round, setting) in settings.iter().enumerate() {
        if only.as_ref().is_none_or(|only| setting.name.contains(only.as_str())) {
            run(&database, setting, seconds, round as u64);
        }
    }
    database.close().expect("close");
}
