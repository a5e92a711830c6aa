//! Gain of reading and writing several keys by one call, over data larger than the cache:
//! `batch_rate --dir D [--rows N] [--cache MIB] [--keys N] [--rounds N] [--threads N]
//! [--methods buffered,direct,io-uring] [--only CASE]`.
//!
//! Paged engine, rows of 1,000 bytes with hashed keys of 8 bytes. By default the rows are 5 times
//! as large as the cache. For each I/O method for pages, a database in a folder of its own below
//! `D` is filled. Then each case runs with single calls and with a batch call, in turns; in every
//! other round the batch call comes first. Each run reopens the database, which drops the pages
//! file from the system's page cache. After the runs the folders are removed.
//!
//! Both runs of a round read or write the same number of keys (`--keys`; by default as many as a
//! sixteenth of the rows). With a fixed duration the faster way would read more leaves, would find
//! more of them in the page cache, and so would seem faster than it is.
//!
//! Before a run with "page cache full", the program reads the whole pages file into the page cache.
//! Such a run of a `get` or `view` case has 8 times as many keys as a run with an empty page cache.
//! Only buffered pages have such runs, because other methods bypass the page cache. A run of
//! `cached 128` reads 128 times as many keys.
//!
//! | case | transaction | single calls | batch call |
//! |---|---|---|---|
//! | `get 16`, `get 128` | random keys, all present | `get` for each key | `multi_get` |
//! | `view 128` | the same in a read view | `get` for each key | `multi_get` |
//! | `put 128` | new hashed keys, durable commit | `put` for each key | `put_all` |
//! | `cached 128` | random keys of a small table that is in memory | `get` for each key | `multi_get` |
//!
//! The last line of each case has the median of the ratios of its rounds, and their range.

use katydid::{Database, Method, Options, PagedOptions, Result, Table, Transaction};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const VALUE: [u8; 992] = [7; 992];

/// Rows of the table that is in memory.
const SMALL_ROWS: u64 = 10_000;

/// Returns the key of a row: the number, mixed so that neighbours are far apart.
fn key(number: u64) -> [u8; 8] {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ (mixed >> 32)).to_be_bytes()
}

/// Returns the next random number of the sequence in `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Way of making the calls of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Single,
    Batch,
}

/// Work of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Get,
    View,
    Put,
    Cached,
}

/// Pages in the system's page cache when a run begins: none, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageCache {
    Empty,
    Full,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    work: Work,
    /// Keys of a transaction.
    keys: usize,
    page_cache: PageCache,
}

impl Case {
    /// Factor by which a run of this case has more keys than a run that reads from the device.
    /// Without this factor a run that reads from memory would be too short.
    fn length(self) -> u64 {
        match (self.work, self.page_cache) {
            (Work::Cached, _) => 128,
            (Work::Get | Work::View, PageCache::Full) => 8,
            _ => 1,
        }
    }
}

const CASES: [Case; 9] = [
    Case { name: "get 16, page cache empty", work: Work::Get, keys: 16, page_cache: PageCache::Empty },
    Case { name: "get 128, page cache empty", work: Work::Get, keys: 128, page_cache: PageCache::Empty },
    Case { name: "view 128, page cache empty", work: Work::View, keys: 128, page_cache: PageCache::Empty },
    Case { name: "put 128, page cache empty", work: Work::Put, keys: 128, page_cache: PageCache::Empty },
    Case { name: "get 16, page cache full", work: Work::Get, keys: 16, page_cache: PageCache::Full },
    Case { name: "get 128, page cache full", work: Work::Get, keys: 128, page_cache: PageCache::Full },
    Case { name: "view 128, page cache full", work: Work::View, keys: 128, page_cache: PageCache::Full },
    Case { name: "put 128, page cache full", work: Work::Put, keys: 128, page_cache: PageCache::Full },
    Case { name: "cached 128", work: Work::Cached, keys: 128, page_cache: PageCache::Empty },
];

/// A database that was filled, and the settings of its runs.
struct Filled {
    folder: PathBuf,
    options: Options,
    /// Number of rows whose keys readers may expect.
    rows: AtomicU64,
    /// Number of the next row to put. Relaxed, like `rows`: a thread that puts takes numbers of its
    /// own, and no thread reads while others put.
    next: AtomicU64,
    /// Number of keys of a run that reads from the device.
    keys: u64,
    threads: u64,
}

fn get_all(txn: &Transaction, table: &Table, keys: &[[u8; 8]], way: Way) -> Result<()> {
    let found = match way {
        Way::Single => keys.iter().map(|key| txn.get(table, key)).collect::<Result<Vec<_>>>()?,
        Way::Batch => txn.multi_get(table, keys)?,
    };
    assert!(found.iter().all(Option::is_some), "a key is missing");
    Ok(())
}

impl Filled {
    fn new(folder: PathBuf, method: Method, cache_bytes: usize, rows: u64) -> Result<Filled> {
        let paged = PagedOptions { page_method: method, cache_bytes, ..PagedOptions::default() };
        let options = Options { engine: paged.into(), ..Options::default() };
        let database = Database::open_with(&folder, options.clone())?;
        let (table, small) = (database.table("rows")?, database.table("small")?);
        // The bulk load makes full leaves. The puts of the other rows split leaves, which brings
        // them to their usual fill.
        let loaded = rows * 7 / 10;
        let mut keys: Vec<_> = (0..loaded).map(key).collect();
        keys.sort_unstable();
        database.bulk_load(&table, keys.into_iter().map(|key| (key, VALUE)))?;
        for from in (loaded..rows).step_by(1000) {
            let numbers = from..rows.min(from + 1000);
            let entries = || numbers.clone().map(|number| (key(number), VALUE));
            database.transact(|txn| txn.put_all(&table, entries()))?;
        }
        let mut keys: Vec<_> = (0..SMALL_ROWS).map(key).collect();
        keys.sort_unstable();
        database.bulk_load(&small, keys.into_iter().map(|key| (key, VALUE)))?;
        let used = database.stat()?.paged().map(|paged| paged.page_method);
        println!("pages {}: {rows} rows", used.unwrap_or(method));
        database.close()?;
        Ok(Filled { folder, options, rows: rows.into(), next: rows.into(), keys: rows / 16, threads: 1 })
    }

    /// Makes one transaction.
    fn transaction(
        &self,
        database: &Database,
        [table, small]: [&Table; 2],
        case: Case,
        way: Way,
        state: &mut u64,
    ) -> Result<()> {
        let mut keys_below =
            |rows: u64| -> Vec<[u8; 8]> { (0..case.keys).map(|_| key(random(state) % rows)).collect() };
        match case.work {
            Work::Get => {
                let keys = keys_below(self.rows.load(Ordering::Relaxed));
                database.transact(|txn| get_all(txn, table, &keys, way))
            }
            Work::Cached => {
                let keys = keys_below(SMALL_ROWS);
                database.transact(|txn| get_all(txn, small, &keys, way))
            }
            Work::View => {
                let keys = keys_below(self.rows.load(Ordering::Relaxed));
                get_all(&database.begin_read_only()?, table, &keys, way)
            }
            Work::Put => {
                let first = self.next.fetch_add(case.keys as u64, Ordering::Relaxed);
                let entries = || (first..first + case.keys as u64).map(|number| (key(number), VALUE));
                database.transact(|txn| match way {
                    Way::Single => entries().try_for_each(|(key, value)| txn.put(table, key, value)),
                    Way::Batch => txn.put_all(table, entries()),
                })
            }
        }
    }

    /// Returns the keys per second of one run.
    fn run(&self, case: Case, way: Way) -> Result<f64> {
        let database = Database::open_with(&self.folder, self.options.clone())?;
        let (table, small) = (database.table("rows")?, database.table("small")?);
        if case.page_cache == PageCache::Full {
            let mut pages = File::open(self.folder.join("katydid.pages")).expect("the pages file");
            std::io::copy(&mut pages, &mut std::io::sink()).expect("a read of the pages file");
        }
        if case.work == Work::Cached {
            let rows = database.transact(|txn| txn.count(&small, ..))?;
            assert_eq!(rows, SMALL_ROWS);
        }
        let transactions = (case.length() * self.keys).div_ceil(case.keys as u64 * self.threads).max(1);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let work = |thread: u64| {
                let (database, tables) = (&database, [&table, &small]);
                move || -> Result<()> {
                    let mut state = begin.elapsed().as_nanos() as u64 * 2 + thread * 77 + 1;
                    (0..transactions)
                        .try_for_each(|_| self.transaction(database, tables, case, way, &mut state))
                }
            };
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a thread"))
        })?;
        let done = transactions * case.keys as u64 * self.threads;
        let rate = done as f64 / begin.elapsed().as_secs_f64();
        self.rows.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
        database.close()?;
        Ok(rate)
    }
}

fn measure(filled: &Filled, case: Case, rounds: usize) -> Result<()> {
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let ways = if round % 2 == 0 { [Way::Single, Way::Batch] } else { [Way::Batch, Way::Single] };
        let [first, second] = [filled.run(case, ways[0])?, filled.run(case, ways[1])?];
        let (single, batch) = if round % 2 == 0 { (first, second) } else { (second, first) };
        println!(
            "  {}: single {single:.0} keys/s, batch {batch:.0} keys/s, {:.2} x",
            case.name,
            batch / single
        );
        ratios.push(batch / single);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios.first(), ratios.last());
    if let (Some(least), Some(median), Some(most)) = (least, ratios.get(ratios.len() / 2), most) {
        println!("  {}: median {median:.2} x ({least:.2} to {most:.2})", case.name);
    }
    Ok(())
}

fn main() -> Result<()> {
    let flag = |name: &str| std::env::args().skip_while(|argument| argument != name).nth(1);
    let number = |name: &str, default: f64| -> f64 {
        flag(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let directory = flag("--dir").expect("--dir DIRECTORY");
    let cache_bytes = number("--cache", 64.0) as usize * (1 << 20);
    let rows = number("--rows", (5 * cache_bytes / 1000) as f64) as u64;
    let rounds = number("--rounds", 5.0) as usize;
    let methods = flag("--methods").unwrap_or_else(|| "buffered,direct,io-uring".to_owned());
    let only = flag("--only").unwrap_or_default();
    for method in methods.split(',') {
        let method: Method = method.parse().expect("a method");
        let folder = Path::new(&directory).join(format!("batch-rate-{method}"));
        let filled = Filled {
            keys: number("--keys", (rows / 16) as f64) as u64,
            threads: number("--threads", 1.0) as u64,
            ..Filled::new(folder.clone(), method, cache_bytes, rows)?
        };
        let suits = |case: &Case| method == Method::Buffered || case.page_cache == PageCache::Empty;
        for case in CASES.into_iter().filter(|case| suits(case) && case.name.contains(&only)) {
            measure(&filled, case, rounds)?;
        }
        std::fs::remove_dir_all(folder).expect("the folder is ours");
    }
    Ok(())
}
