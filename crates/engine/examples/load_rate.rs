//! Rows per second when an empty table is filled, in turn by puts in the order of a hash, by puts
//! in the order of the keys, and by a bulk load: `load_rate DIRECTORY [ROWS] [ROUNDS] [CACHE_MIB]`.
//!
//! Each run fills a new database in a folder below the directory, and closes the database, so that
//! all pages are in place. Then the folder is removed. Rows have keys of 8 bytes and values of
//! 1,016 bytes. Without `CACHE_MIB` the cache has its default size.

use katydid::{Database, Options, PagedOptions, Result, Table};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows of a transaction of puts.
const BATCH: u64 = 1000;

fn value(number: u64) -> [u8; 1016] {
    let mut value = [number as u8; 1016];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

/// Puts the rows in transactions. `key` returns the key of the row with this number.
fn put(database: &Database, table: &Table, rows: u64, key: fn(u64) -> u64) -> Result<()> {
    for from in (0..rows).step_by(BATCH as usize) {
        database.transact(|txn| {
            let mut numbers = from..rows.min(from + BATCH);
            numbers.try_for_each(|number| txn.put(table, key(number).to_be_bytes(), value(number)))
        })?;
    }
    Ok(())
}

/// The finalizer of MurmurHash3, which gives each number another one.
fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

fn by_hashed_puts(database: &Database, table: &Table, rows: u64) -> Result<()> {
    put(database, table, rows, hash)
}

fn by_puts(database: &Database, table: &Table, rows: u64) -> Result<()> {
    put(database, table, rows, |number| number)
}

fn by_load(database: &Database, table: &Table, rows: u64) -> Result<()> {
    let loaded = database.bulk_load(table, (0..rows).map(|number| (number.to_be_bytes(), value(number))))?;
    assert_eq!(loaded, rows);
    Ok(())
}

type Fill = fn(&Database, &Table, u64) -> Result<()>;

/// Returns the time until all rows are durable, and the time until the database is closed.
fn measured(folder: &Path, options: &Options, fill: Fill, rows: u64) -> Result<(Duration, Duration)> {
    let database = Database::open_with(folder, options.clone())?;
    let table = database.table("rows")?;
    let start = Instant::now();
    fill(&database, &table, rows)?;
    let durable = start.elapsed();
    database.close()?;
    let closed = start.elapsed();
    std::fs::remove_dir_all(folder).expect("the folder is ours");
    Ok((durable, closed))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (rows, rounds, cache_mib) = (number(500_000), number(3), number(0));
    let mut options = Options::default();
    if cache_mib > 0 {
        let cache_bytes = usize::try_from(cache_mib << 20).expect("a size of memory");
        options.engine = PagedOptions { cache_bytes, ..PagedOptions::default() }.into();
    }
    let fills: [(&str, Fill); 3] =
        [("puts in hashed order", by_hashed_puts), ("puts", by_puts), ("bulk load", by_load)];
    for round in 1..=rounds {
        let mut rates = Vec::new();
        for (name, fill) in fills {
            let folder = Path::new(&directory).join(format!("load-rate-{round}-{}", rates.len()));
            let (durable, closed) = measured(&folder, &options, fill, rows)?;
            let rate = |time: Duration| rows as f64 / time.as_secs_f64() / 1000.0;
            println!(
                "round {round}, {name}: {:.1} thousand rows/s until durable, {:.1} until closed",
                rate(durable),
                rate(closed)
            );
            rates.push((rate(durable), rate(closed)));
        }
        println!(
            "round {round}: bulk load to puts {:.2} until durable, {:.2} until closed",
            rates[2].0 / rates[1].0,
            rates[2].1 / rates[1].1
        );
    }
    Ok(())
}
