//! How fast a crashed database restarts: `restart write DIR [MEGABYTES]` fills the log without a checkpoint and aborts,
//! `restart open DIR` recovers and says how long each phase took. Written to again, the same keys are updated, on pages that
//! restart has to read.

use katydid::{Database, Durability, Options, Phase, TransactionOptions};
use std::sync::{Arc, Mutex};
use std::time::Instant;

fn write(dir: &str, options: Options, megabytes: u64) {
    let database = Database::open_with(dir, options).expect("open");
    let table = database.table("t").expect("table");
    // A second run updates what the first one has put.
    let stat = database.stat().expect("stat");
    let (start, byte) = (stat.log.streams[0].reserved.get(), stat.log.incarnation as u8);
    let buffered = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    let mut nth = 0u64;
    loop {
        for _ in 0..1000 {
            nth += 1;
            let key = format!("{:020}", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut txn = database.begin_with(buffered).expect("begin");
            txn.put(&table, key, [byte; 100]).expect("put");
            txn.commit().expect("commit");
        }
        let end = database.stat().expect("stat").log.streams[0].reserved.get();
        if end - start > megabytes << 20 {
            break;
        }
    }
    database.sync().expect("sync");
    println!("{nth} transactions");
    std::process::abort();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let dir = &arguments[2];
    let mut options = Options {
        cache_bytes: 1 << 30,
        checkpoint_bytes: 1 << 40,
        log_soft_bytes: 1 << 40,
        log_hard_bytes: 1 << 41,
        ..Options::default()
    };
    if arguments[1] == "write" {
        write(dir, options, arguments.get(3).and_then(|text| text.parse().ok()).unwrap_or(512));
        return;
    }
    let start = Instant::now();
    let seen: Arc<Mutex<Vec<(Phase, f64, u64)>>> = Arc::default();
    let told = seen.clone();
    options.on_recovery = Some(Arc::new(move |phase, _, total| {
        let mut seen = told.lock().expect("no panic");
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
    database.close().expect("close");
}
