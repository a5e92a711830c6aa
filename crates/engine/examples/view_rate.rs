//! Cost of read views: `view_rate [--dir D] [--memory] [--rows N] [--bytes N] [--seconds S]`.
//! Without `--dir` the device is memory. With `--memory` the engine is the memory engine.
//!
//! Values have 100 bytes, or the length after `--bytes`; values that the writers put have 100
//! bytes. First, one thread makes point reads: with locks, through views, and through views that
//! lend the values. Then 8 writers replace rows, one row in each durable transaction. The writers
//! run alone, and beside a thread that scans the whole table through views, again and again. To
//! show the cost of such a thread's processor time, the writers also run beside a thread that
//! spins, and beside one that scans another table. All cases are measured in turn, so that a change
//! of the machine's load affects all of them.

use katydid::{Access, Database, EngineKind, Options, Table, TransactionOptions};
use katydid_device::{Directory, FileDirectory, MemoryDirectory};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 8;
const ROUNDS: usize = 3;
const READS: u64 = 100;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns the next random number of the sequence in `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A kind of point read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Locked,
    View,
    /// A read through a view that lends the value.
    Lent,
}

/// Returns the nanoseconds of one point read, in transactions of `reads` point reads each.
fn point_reads(database: &Database, table: &Table, rows: u64, point: Point, reads: u64) -> f64 {
    let access = if point == Point::Locked { Access::ReadWrite } else { Access::ReadOnly };
    let options = TransactionOptions { access, ..TransactionOptions::default() };
    let mut state = 0x9e37_79b9;
    let begin = Instant::now();
    let mut done = 0;
    while begin.elapsed() < Duration::from_millis(700) {
        for _ in 0..100 / reads.min(100) {
            let txn = database.begin_with(options).expect("begin");
            for _ in 0..reads {
                let key = key(random(&mut state) % rows);
                let first = match point {
                    Point::Lent => txn.get_with(table, key, |value| value[0]).expect("get"),
                    Point::Locked | Point::View => txn.get(table, key).expect("get").map(|value| value[0]),
                };
                assert_eq!(first, Some(7));
            }
            txn.commit().expect("commit");
            done += reads;
        }
    }
    begin.elapsed().as_nanos() as f64 / done as f64
}

/// Work of one more thread beside the writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// The thread uses a processor, and touches no row.
    Spin,
    /// The thread scans a table without writers.
    OtherTable,
    /// The thread scans the table that the writers change.
    Scan,
}

/// Returns the writers' commits per second, and the rows scanned per second meanwhile.
fn writers(
    database: &Database,
    tables: [&Table; 2],
    rows: u64,
    time: Duration,
    beside: Beside,
) -> (f64, f64) {
    let [table, other] = tables;
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stop, commits) = (&stop, &commits);
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            scope.spawn(move || {
                let mut state = number * 77 + 1;
                while !stop.load(Ordering::Relaxed) {
                    let value = [number as u8; 100];
                    database.put(table, key(random(&mut state) % rows), value).expect("put");
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (begin, before) = (Instant::now(), commits.load(Ordering::Relaxed));
        let mut read = 0;
        while begin.elapsed() < time {
            let scanned = match beside {
                Beside::Nothing => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Beside::Spin => {
                    (0..1000).for_each(|_| std::hint::spin_loop());
                    continue;
                }
                Beside::OtherTable => other,
                Beside::Scan => table,
            };
            let view = database.begin_read_only().expect("begin");
            let mut range = view.range(scanned, ..);
            while begin.elapsed() < time && range.next_ref().expect("next").is_some() {
                read += 1;
            }
        }
        let (seconds, after) = (begin.elapsed().as_secs_f64(), commits.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        ((after - before) as f64 / seconds, read as f64 / seconds)
    })
}

fn main() {
    let flag = |name: &str| std::env::args().skip_while(|argument| argument != name).nth(1);
    let rows: u64 = flag("--rows").map_or(1_000_000, |text| text.parse().expect("a number"));
    let bytes: usize = flag("--bytes").map_or(100, |text| text.parse().expect("a number"));
    let seconds: f64 = flag("--seconds").map_or(3.0, |text| text.parse().expect("a number"));
    let directory: Arc<dyn Directory> = match flag("--dir") {
        Some(path) => Arc::new(FileDirectory::open(std::path::Path::new(&path)).expect("a folder")),
        None => Arc::new(MemoryDirectory::new()),
    };
    let memory = std::env::args().any(|argument| argument == "--memory");
    let engine = if memory { EngineKind::Memory } else { EngineKind::Paged };
    let options = Options { engine: engine.into(), ..Options::default() };
    let database = Database::open_in(directory, options).expect("open");
    let [table, other] = ["rows", "other"].map(|name| database.table(name).expect("table"));
    let value = vec![7; bytes];
    for from in (0..rows).step_by(10_000) {
        let numbers = from..rows.min(from + 10_000);
        database
            .transact(|txn| {
                numbers.clone().try_for_each(|number| {
                    txn.put(&table, key(number), &value)?;
                    txn.put(&other, key(number), &value)
                })
            })
            .expect("fill");
    }
    for reads in [1, READS] {
        for _ in 0..ROUNDS {
            let [locked, view, lent] = [Point::Locked, Point::View, Point::Lent]
                .map(|point| point_reads(&database, &table, rows, point, reads));
            println!(
                "{reads} reads a transaction: locked {locked:.0} ns, view {view:.0} ns, {:.2} x, \
                 lent by a view {lent:.0} ns, {:.2} x",
                locked / view,
                view / lent
            );
        }
    }
    let time = Duration::from_secs_f64(seconds);
    for _ in 0..ROUNDS {
        let tables = [&table, &other];
        let (alone, _) = writers(&database, tables, rows, time, Beside::Nothing);
        println!("{WRITERS} writers alone: {alone:.0} commits/s");
        for beside in [Beside::Spin, Beside::OtherTable, Beside::Scan] {
            let (commits, read) = writers(&database, tables, rows, time, beside);
            println!("{beside:?}: {commits:.0} commits/s, {:.2} x, {read:.0} rows/s", commits / alone);
        }
    }
    database.close().expect("close");
}
