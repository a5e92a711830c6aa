//! Latency of durable commits while changed pages are written back:
//! `writeback_latency DIRECTORY [--rounds N] [--mib N] [--checkpoint-mib N] [--clients N]
//! [--seconds N] [--limit N] [--cases LIST]`.
//!
//! A database below the directory has a small table and a table of `--mib` MiB (1,024). In each
//! case `--clients` (8) clients replace rows of the small table, one row in each durable
//! transaction, and the program prints the commits per second and the p50, p99, p99.9 and maximum
//! of their latency.
//!
//! The cases are:
//!
//! - `alone`: the store writes no page and takes no checkpoint. The case lasts `--seconds` (10).
//! - `buffered`, `direct`, `io-uring`: every page of the large table is written back by this
//!   method, step by step while the log grows to the next checkpoint. The case lasts until 98 % of
//!   the pages are written, or for `--limit` seconds (120).
//!
//! Before a case with a checkpoint, buffered commits change each page of the large table, and then
//! fill the log until the first pages are written. Checkpoints are `--checkpoint-mib` MiB
//! of log (64) apart. All cases of `--cases` (`alone,buffered,direct`) are measured in turn, in
//! `--rounds` rounds (3), and each round begins with another case. The last lines are medians over
//! the rounds; ratios compare with `alone` in the same round.

use hdrhistogram::Histogram;
use katydid::{
    Access, AdvancedOptions, Database, Durability, Method, Options, PagedOptions, PagedStat, Read, Result,
    Table, TransactionOptions,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BUFFERED: TransactionOptions =
    TransactionOptions { durability: Durability::Buffered, read: Read::Visible, access: Access::ReadWrite };

/// Rows of the small table, and bytes of their values.
const SMALL_ROWS: u64 = 10_000;
const SMALL_BYTES: usize = 100;

/// Rows of the large table in each MiB, and bytes of their values.
const ROWS_PER_MIB: u64 = 1024;
const VALUE_BYTES: usize = 1000;

/// A page has at least this many rows of the large table, so a change of every seventh row changes
/// every page.
const ROWS_PER_PAGE: u64 = 7;

/// Rows that one transaction changes in the large table.
const BATCH: u64 = 1000;

/// More bytes of log between two checkpoints than any case writes, for a case without checkpoints.
const NO_CHECKPOINT: u64 = 1 << 40;

/// Time between two looks at the progress of the write-back.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Settings {
    folder: PathBuf,
    rounds: usize,
    mib: u64,
    checkpoint_bytes: u64,
    clients: u64,
    seconds: Duration,
    limit: Duration,
    cases: Vec<Case>,
}

/// A case, which is measured once in each round.
#[derive(Debug, Clone)]
struct Case {
    name: String,
    /// Method of writing the pages back; `None` if the case writes no pages.
    pages: Option<Method>,
}

impl FromStr for Case {
    type Err = katydid::device::UnknownMethod;

    fn from_str(name: &str) -> std::result::Result<Case, Self::Err> {
        let pages = if name == "alone" { None } else { Some(name.parse()?) };
        Ok(Case { name: name.to_owned(), pages })
    }
}

impl Case {
    /// Opens the database for this case.
    fn open(&self, settings: &Settings) -> Result<Database> {
        let defaults = AdvancedOptions::default();
        let checkpoint_bytes = self.pages.map_or(NO_CHECKPOINT, |_| settings.checkpoint_bytes);
        let paged = PagedOptions {
            // The cache has twice the size of the data, so that only checkpoints write pages.
            cache_bytes: usize::try_from(2 * settings.mib + 64).expect("megabytes") << 20,
            page_method: self.pages.unwrap_or_default(),
            ..PagedOptions::default()
        };
        let advanced = AdvancedOptions {
            checkpoint_bytes,
            log_soft_bytes: defaults.log_soft_bytes.max(4 * checkpoint_bytes),
            log_hard_bytes: defaults.log_hard_bytes.max(4 * checkpoint_bytes),
            ..defaults
        };
        Database::open_with(
            &settings.folder,
            Options { engine: paged.into(), advanced, ..Options::default() },
        )
    }

    /// Measures the case once.
    fn measure(&self, settings: &Settings) -> Result<Figures> {
        let database = self.open(settings)?;
        let (large, small) = (database.table("large")?, database.table("small")?);
        let mut end = u64::MAX;
        if self.pages.is_some() {
            change_every_page(&database, &large, settings)?;
            let changed = pages(&database)?;
            log_until_pages_are_written(&database, &small, changed.pages_written)?;
            end = changed.pages_written + changed.dirty / 100 * 98;
            database.sync()?;
        }
        let (first, begin) = (pages(&database)?, Instant::now());
        let mut last = first.clone();
        let latencies = clients(&database, &small, settings, || {
            last = pages(&database)?;
            let limit = if self.pages.is_some() { settings.limit } else { settings.seconds };
            Ok(last.pages_written >= end || begin.elapsed() >= limit)
        })?;
        let seconds = begin.elapsed().as_secs_f64();
        database.close()?;
        let micros = |share: f64| latencies.value_at_quantile(share) as f64 / 1000.0;
        Ok(Figures {
            commits: latencies.len() as f64 / seconds,
            p50: micros(0.5),
            p99: micros(0.99),
            p999: micros(0.999),
            max: latencies.max() as f64 / 1000.0,
            mib: ((last.pages_written - first.pages_written) * last.page_bytes) as f64 / f64::from(1 << 20),
            seconds,
        })
    }
}

/// Figures of a case in a round: commits per second, latencies in microseconds, and MiB of pages
/// that were written back meanwhile.
#[derive(Debug, Clone, Copy)]
struct Figures {
    commits: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    mib: f64,
    seconds: f64,
}

impl Figures {
    fn print(&self, label: &str) {
        let Figures { commits, p50, p99, p999, max, mib, seconds } = self;
        println!(
            "{label}: {commits:.0} commits/s, p50 {p50:.0} us, p99 {p99:.0} us, p99.9 {p999:.0} us, max {max:.0} \
             us, {mib:.0} MiB of pages in {seconds:.1} s"
        );
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A value of the large table. Values of different `version` differ in their first bytes.
fn value(number: u64, version: u32) -> [u8; VALUE_BYTES] {
    let mut value = [number as u8; VALUE_BYTES];
    value[..4].copy_from_slice(&version.to_be_bytes());
    value
}

/// Returns the next random number of the sequence in `state`.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A random row of the small table.
fn small_row(state: &mut u64) -> ([u8; 8], [u8; SMALL_BYTES]) {
    (key(random(state) % SMALL_ROWS), [random(state) as u8; SMALL_BYTES])
}

fn pages(database: &Database) -> Result<PagedStat> {
    Ok(database.stat()?.paged().expect("the paged engine").clone())
}

/// Makes the two tables.
fn fill(settings: &Settings) -> Result<()> {
    let folder = settings.folder.display();
    assert!(
        !settings.folder.exists(),
        "{folder} exists: an interrupted run left it, or it is not this program's"
    );
    let database = Case { name: "fill".to_owned(), pages: Some(Method::Buffered) }.open(settings)?;
    let (large, small) = (database.table("large")?, database.table("small")?);
    let rows = settings.mib * ROWS_PER_MIB;
    database.bulk_load(&large, (0..rows).map(|number| (key(number), value(number, 0))))?;
    database.bulk_load(&small, (0..SMALL_ROWS).map(|number| (key(number), [7; SMALL_BYTES])))?;
    database.close()
}

/// Reads the large table into the cache, and makes all of its pages dirty.
fn change_every_page(database: &Database, large: &Table, settings: &Settings) -> Result<()> {
    let view = database.begin_read_only()?;
    let mut range = view.range(large, ..);
    while range.next_ref()?.is_some() {}
    drop(range);
    drop(view);
    let (rows, version) = (settings.mib * ROWS_PER_MIB, database.stat()?.log.incarnation);
    for from in (0..rows).step_by((BATCH * ROWS_PER_PAGE) as usize) {
        let txn = database.begin_with(BUFFERED)?;
        for number in (from..rows.min(from + BATCH * ROWS_PER_PAGE)).step_by(ROWS_PER_PAGE as usize) {
            txn.put(large, key(number), value(number, version))?;
        }
        txn.commit()?;
    }
    Ok(())
}

/// Changes rows of the small table until more than `written` pages were written.
fn log_until_pages_are_written(database: &Database, small: &Table, written: u64) -> Result<()> {
    let mut state = 0x9e37_79b9;
    while pages(database)?.pages_written == written {
        for _ in 0..500 {
            let txn = database.begin_with(BUFFERED)?;
            let (key, value) = small_row(&mut state);
            txn.put(small, key, value)?;
            txn.commit()?;
        }
    }
    Ok(())
}

/// Lets the clients commit until `is_over` returns true. Returns the latencies in nanoseconds.
fn clients(
    database: &Database,
    small: &Table,
    settings: &Settings,
    mut is_over: impl FnMut() -> Result<bool>,
) -> Result<Histogram<u64>> {
    let stop = AtomicBool::new(false);
    let empty = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds");
    std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=settings.clients)
            .map(|client| {
                let (stop, mut latencies) = (&stop, empty.clone());
                scope.spawn(move || {
                    let mut state = client * 77;
                    while !stop.load(Ordering::Relaxed) {
                        let (key, value) = small_row(&mut state);
                        let begin = Instant::now();
                        database.put(small, key, value)?;
                        latencies.saturating_record(begin.elapsed().as_nanos() as u64);
                    }
                    Ok::<_, katydid::Error>(latencies)
                })
            })
            .collect();
        let mut over = is_over();
        while let Ok(false) = over {
            std::thread::sleep(LOOK);
            over = is_over();
        }
        stop.store(true, Ordering::Relaxed);
        let mut all = empty.clone();
        for client in clients {
            all.add(client.join().expect("a client")?).expect("equal bounds");
        }
        over.map(|_| all)
    })
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn settings() -> Settings {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let mut settings = Settings {
        folder: Path::new(&directory).join("writeback-latency"),
        rounds: 3,
        mib: 1024,
        checkpoint_bytes: 64 << 20,
        clients: 8,
        seconds: Duration::from_secs(10),
        limit: Duration::from_secs(120),
        cases: Vec::new(),
    };
    let mut cases = "alone,buffered,direct".to_owned();
    while let Some(flag) = arguments.next() {
        let text = arguments.next().unwrap_or_else(|| panic!("{flag} needs a value"));
        let number = || text.parse::<u64>().unwrap_or_else(|_| panic!("{flag} needs a number, not {text}"));
        match flag.as_str() {
            "--rounds" => settings.rounds = number().max(1) as usize,
            "--mib" => settings.mib = number().max(1),
            "--checkpoint-mib" => settings.checkpoint_bytes = number().max(1) << 20,
            "--clients" => settings.clients = number().max(1),
            "--seconds" => settings.seconds = Duration::from_secs(number()),
            "--limit" => settings.limit = Duration::from_secs(number()),
            "--cases" => cases = text,
            _ => panic!("{flag} is not an option of this program"),
        }
    }
    settings.cases =
        cases.split(',').map(|name| name.parse().unwrap_or_else(|error| panic!("{error}"))).collect();
    settings
}

fn main() -> Result<()> {
    let settings = settings();
    fill(&settings)?;
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); settings.cases.len()];
    for round in 0..settings.rounds {
        for turn in 0..settings.cases.len() {
            let nth = (round + turn) % settings.cases.len();
            let figures = settings.cases[nth].measure(&settings)?;
            figures.print(&format!("round {}, {}", round + 1, settings.cases[nth].name));
            rounds[nth].push(figures);
        }
    }
    let alone = settings.cases.iter().position(|case| case.pages.is_none());
    for (case, figures) in settings.cases.iter().zip(&rounds) {
        let of = |get: fn(&Figures) -> f64| median(figures.iter().map(get).collect());
        let all = Figures {
            commits: of(|figures| figures.commits),
            p50: of(|figures| figures.p50),
            p99: of(|figures| figures.p99),
            p999: of(|figures| figures.p999),
            max: of(|figures| figures.max),
            mib: of(|figures| figures.mib),
            seconds: of(|figures| figures.seconds),
        };
        all.print(&format!("median, {}", case.name));
        if let Some(alone) = alone.filter(|_| case.pages.is_some()) {
            let ratio = |get: fn(&Figures) -> f64| {
                median(figures.iter().zip(&rounds[alone]).map(|(one, alone)| get(one) / get(alone)).collect())
            };
            println!(
                "median, {}, to alone: p50 {:.2} x, p99 {:.2} x, p99.9 {:.2} x, commits/s {:.2} x",
                case.name,
                ratio(|figures| figures.p50),
                ratio(|figures| figures.p99),
                ratio(|figures| figures.p999),
                ratio(|figures| figures.commits)
            );
        }
    }
    std::fs::remove_dir_all(&settings.folder).expect("the folder is ours");
    Ok(())
}
