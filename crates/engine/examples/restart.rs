//! Restart times of a crashed database: `restart write DIR [MEGABYTES]` fills the log without a
//! checkpoint and aborts, `restart open DIR` recovers and prints how long each phase took. A second
//! `write` updates the same keys, on pages that the next restart has to read. `--engine memory`
//! chooses the memory engine, `--streams N` its number of streams, `--value N` the bytes of a
//! value. `open` closes the database, and the memory engine then has a checkpoint, which the next
//! `open` restores. With `--keep` the database is not closed, so the next `open` has as much to do.

use katydid::{
    AdvancedOptions, Database, Durability, EngineKind, MemoryOptions, Options, PagedOptions, Phase, Table,
    TransactionOptions,
};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const BUFFERED: TransactionOptions = TransactionOptions {
    durability: Durability::Buffered,
    read: katydid::Read::Visible,
    access: katydid::Access::ReadWrite,
};

/// Writes the keys of `numbers`, each in a transaction. Returns the number of transactions.
fn fill(database: &Database, table: &Table, numbers: std::ops::Range<u64>, value: &[u8]) -> u64 {
    for nth in numbers.clone() {
        let key = format!("{:020}", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let txn = database.begin_with(BUFFERED).expect("begin");
        txn.put(table, key, value).expect("put");
        txn.commit().expect("commit");
    }
    numbers.end - numbers.start
}

fn write(dir: &str, options: Options, megabytes: u64, value_bytes: usize) {
    let database = Database::open_with(dir, options).expect("open");
    let table = database.table("t").expect("table");
    // A second run updates the keys that the first one has put. The incarnation makes the values
    // differ.
    let stat = database.stat().expect("stat");
    let value = vec![stat.log.incarnation as u8; value_bytes];
    let threads = stat.log.streams.len() as u64;
    let end = || database.stat().expect("stat").log.streams.iter().map(|log| log.reserved.get()).sum::<u64>();
    let (start, mut nth) = (end(), 0);
    while end() - start < megabytes << 20 {
        let (database, table, value) = (&database, &table, &value);
        nth += std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| nth + thread * 1000..nth + thread * 1000 + 1000)
                .map(|numbers| scope.spawn(|| fill(database, table, numbers, value)))
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker")).sum::<u64>()
        });
    }
    database.sync().expect("sync");
    println!("{nth} transactions");
    std::process::abort();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let dir = &arguments[2];
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let kind: EngineKind =
        value("--engine").map_or_else(Default::default, |name| name.parse().expect("an engine"));
    let streams = value("--streams").map_or(0, |text| text.parse().expect("a number"));
    let mut options = Options {
        engine: kind.with(
            PagedOptions { cache_bytes: 1 << 30, ..PagedOptions::default() },
            MemoryOptions { streams, memory_bytes: 16 << 30, ..MemoryOptions::default() },
        ),
        advanced: AdvancedOptions {
            checkpoint_bytes: 1 << 40,
            log_soft_bytes: 1 << 40,
            log_hard_bytes: 1 << 41,
            ..AdvancedOptions::default()
        },
        ..Options::default()
    };
    if arguments[1] == "write" {
        let megabytes = arguments.get(3).and_then(|text| text.parse().ok()).unwrap_or(512);
        write(dir, options, megabytes, value("--value").map_or(100, |text| text.parse().expect("a number")));
        return;
    }
    let start = Instant::now();
    let seen: Arc<Mutex<Vec<(Phase, f64, u64)>>> = Arc::default();
    let phases = seen.clone();
    options.advanced.on_recovery = Some(Arc::new(move |phase, _, total| {
        let mut seen = phases.lock().expect("no panic");
        let now = start.elapsed().as_secs_f64();
        match seen.last_mut() {
            Some(last) if last.0 == phase => *last = (phase, last.1, total),
            _ => seen.push((phase, now, total)),
        }
    }));
    let database = Database::open_with(dir, options).expect("open");
    let total = start.elapsed().as_secs_f64();
    let seen = seen.lock().expect("no panic");
    for (at, (phase, from, amount)) in seen.iter().enumerate() {
        let to = seen.get(at + 1).map_or(total, |next| next.1);
        println!("{phase:>10} {:>7.3} s from {from:>7.3} s, {amount}", to - from);
    }
    let redone = seen.iter().find(|(phase, ..)| *phase == Phase::Redo).map_or(0, |redo| redo.2);
    println!("{:.0} MB of log in {total:.3} s: {:.0} MB/s", redone as f64 / 1e6, redone as f64 / 1e6 / total);
    if arguments.iter().any(|argument| argument == "--keep") {
        std::process::abort();
    }
    database.close().expect("close");
}
