//! Cost of the memory engine's transactions:
//! `memory_rate [--dir D] [--seconds S] [--only NAME] [--lock-release R] [--streams N]`.
//!
//! Without `--dir` the device is memory. There is one table of 100,000 rows of 1 KiB, and each
//! transaction reads or replaces one row. The setting `half` (half reads, half writes) is YCSB
//! workload A. The `buffered` settings show the engine's own work; the `in flight` settings are
//! durable, with 1,000 callbacks in flight.

use katydid::{
    Access, AdvancedOptions, Database, Durability, MemoryOptions, Options, Session, Table, TransactionOptions,
};
use katydid_device::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 100_000;
const IN_FLIGHT: usize = 1000;

#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    threads: u64,
    durability: Durability,
    /// Percentage of transactions that read.
    reads: u64,
    access: Access,
    /// Number of threads that replace rows meanwhile, and whose transactions are not counted.
    writers: u64,
}

fn key(nth: u64) -> [u8; 20] {
    let mut key = [b'0'; 20];
    let hash = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..8].copy_from_slice(&hash.to_be_bytes());
    key
}

/// Returns the next random number of the sequence in `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Runs transactions until `stop`. Returns the numbers of committed and of refused transactions.
fn worker(database: &Database, table: &Table, setting: &Setting, seed: u64, stop: &AtomicBool) -> (u64, u64) {
    let options = TransactionOptions {
        durability: setting.durability,
        access: setting.access,
        ..TransactionOptions::default()
    };
    let session: Session = database.session();
    let value = vec![seed as u8; 1000];
    let (mut done, mut refused) = (0, 0);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while !stop.load(Ordering::Relaxed) {
        let key = key(random(&mut state) % ROWS);
        let txn = database.begin_with(options).expect("begin");
        let outcome = match random(&mut state) % 100 < setting.reads {
            true => txn.get(table, key).map(drop),
            false => txn.put(table, key, &value),
        };
        let outcome = outcome.and_then(|()| {
            if setting.durability == Durability::Buffered {
                return txn.commit().map(drop);
            }
            txn.commit_with(&session, |_| {});
            if session.pending() >= IN_FLIGHT {
                session.wait_below(IN_FLIGHT)?;
            } else if done % 64 == 0 {
                session.poll();
            }
            Ok(())
        });
        match outcome {
            Ok(()) => done += 1,
            Err(error) if error.is_retryable() => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    session.drain().expect("drain");
    (done, refused)
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(") ").next().unwrap_or_default();
    let field = |at| after.split(' ').nth(at).and_then(|text: &str| text.parse::<f64>().ok()).unwrap_or(0.0);
    (field(11) + field(12)) / 100.0
}

fn run(database: &Database, table: &Table, setting: &Setting, seconds: f64) {
    let stop = AtomicBool::new(false);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let load = Setting { durability: Durability::Buffered, reads: 0, access: Access::ReadWrite, ..*setting };
    let (count, refused) = std::thread::scope(|scope| {
        let spawn = |setting: Setting, seed: u64| {
            let stop = &stop;
            scope.spawn(move || worker(database, table, &setting, seed, stop))
        };
        let counted: Vec<_> = (1..=setting.threads).map(|seed| spawn(*setting, seed)).collect();
        let others: Vec<_> = (1..=setting.writers).map(|seed| spawn(load, 100 + seed)).collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        for other in others {
            other.join().expect("a writer");
        }
        let all = counted.into_iter().map(|worker| worker.join().expect("a worker"));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    let elapsed = start.elapsed().as_secs_f64();
    let memory = database.stat().expect("stat").memory().expect("the memory engine").clone();
    println!(
        "{:26} {:>9.0}/s  cpu {:>6.2} us/txn  {:>6} refused  {:>5} MiB held  {:>6} old",
        setting.name,
        count as f64 / elapsed,
        (cpu_seconds() - cpu) * 1e6 / count as f64,
        refused,
        memory.used_bytes >> 20,
        memory.versions_old,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let seconds = value("--seconds").and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let only = value("--only");
    let lock_release = value("--lock-release").map(|text| text.parse().expect("early or after-durable"));
    let streams = value("--streams").and_then(|text| text.parse().ok()).unwrap_or(0);
    let options = Options {
        engine: MemoryOptions { streams, ..MemoryOptions::default() }.into(),
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
    let table = database.table("t").expect("table");
    for chunk in 0..ROWS / 100 {
        let txn = database.begin().expect("begin");
        (0..100).for_each(|nth| txn.put(&table, key(chunk * 100 + nth), [0; 1000]).expect("put"));
        txn.commit().expect("commit");
    }
    let one = Setting {
        name: "buffered puts, 1 thread",
        threads: 1,
        durability: Durability::Buffered,
        reads: 0,
        access: Access::ReadWrite,
        writers: 0,
    };
    let durable = Setting { durability: Durability::Durable, ..one };
    let read_only = Setting { access: Access::ReadOnly, reads: 100, threads: 2, ..one };
    let settings = [
        one,
        Setting { name: "buffered puts, 2 threads", threads: 2, ..one },
        Setting { name: "buffered gets, 1 thread", reads: 100, ..one },
        Setting { name: "buffered gets, 2 threads", reads: 100, threads: 2, ..one },
        Setting { name: "in flight puts, 1 thread", ..durable },
        Setting { name: "in flight puts, 2 threads", threads: 2, ..durable },
        Setting { name: "in flight half, 2 threads", threads: 2, reads: 50, ..durable },
        Setting { name: "read-only, 2 threads", ..read_only },
        Setting { name: "read-only, 1 with 1 writer", threads: 1, writers: 1, ..read_only },
    ];
    for setting in &settings {
        if only.as_ref().is_none_or(|only| setting.name.contains(only.as_str())) {
            run(&database, &table, setting, seconds);
        }
    }
    database.close().expect("close");
}
