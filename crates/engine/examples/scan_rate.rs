//! Cost of scans: `scan_rate [--rows N] [--bytes N] [--length N] [--seconds S]`.
//!
//! One thread scans `--length` rows from a random key on, each time in a new transaction. Both
//! engines take turns, each with a transaction that may write and with one that only reads. The
//! device is memory. A figure is the processor time of one scan and its transaction, in
//! microseconds, so other work on the machine disturbs it less than a rate. Linux only.

use katydid::{Access, Database, Durability, EngineKind, Options, Table, TransactionOptions};
use katydid_device::MemoryDirectory;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
/// Number of rows that a transaction inserts.
const BATCH: u64 = 1000;

struct Args {
    rows: u64,
    bytes: usize,
    length: usize,
    seconds: f64,
}

/// Returns a key of 23 bytes. Keys with neighbouring numbers are far from each other.
fn key(number: u64) -> String {
    format!("user{:019}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1)
}

/// Returns the next random number of the sequence in `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Returns the nanoseconds for which the calling thread has run so far.
fn processor_nanos() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).expect("a number")
}

fn open(engine: EngineKind, args: &Args) -> (Database, Table) {
    let options = Options { engine: engine.into(), ..Options::default() };
    let database = Database::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    let table = database.table("rows").expect("table");
    let value = vec![7; args.bytes];
    for first in (0..args.rows).step_by(BATCH as usize) {
        let txn = database.begin().expect("begin");
        for number in first..args.rows.min(first + BATCH) {
            txn.put(&table, key(number).as_bytes(), &value).expect("put");
        }
        txn.commit().expect("commit");
    }
    (database, table)
}

/// Returns the microseconds of processor time that one scan takes.
fn scans(database: &Database, table: &Table, args: &Args, access: Access) -> f64 {
    let options =
        TransactionOptions { access, durability: Durability::Buffered, ..TransactionOptions::default() };
    let mut state = 0x9e37_79b9;
    let (begin, before) = (Instant::now(), processor_nanos());
    let mut done = 0;
    while begin.elapsed() < Duration::from_secs_f64(args.seconds) {
        let txn = database.begin_with(options).expect("begin");
        let from = key(random(&mut state) % args.rows);
        let mut range = txn.range(table, from.as_bytes()..);
        for _ in 0..args.length {
            let Some((_, value)) = range.next_ref().expect("next") else { break };
            assert_eq!(value.first().copied().unwrap_or(7), 7);
        }
        drop(range);
        txn.commit().expect("commit");
        done += 1;
    }
    (processor_nanos() - before) / f64::from(done) / 1e3
}

fn main() {
    let mut args = Args { rows: 100_000, bytes: 100, length: 100, seconds: 1.0 };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{flag} needs a value"));
        match flag.as_str() {
            "--rows" => args.rows = value.parse().expect("a number"),
            "--bytes" => args.bytes = value.parse().expect("a number"),
            "--length" => args.length = value.parse().expect("a number"),
            "--seconds" => args.seconds = value.parse().expect("a number"),
            other => panic!("unknown flag {other}"),
        }
    }
    let engines = [EngineKind::Paged, EngineKind::Memory].map(|engine| (engine, open(engine, &args)));
    for _ in 0..ROUNDS {
        for (engine, (database, table)) in &engines {
            let writer = scans(database, table, &args, Access::ReadWrite);
            let view = scans(database, table, &args, Access::ReadOnly);
            println!("{engine:?}: {writer:.1} us in a transaction that may write, {view:.1} us in a view");
        }
    }
}
