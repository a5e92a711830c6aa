//! Rows per second when an empty table is filled in the order of its keys, alternately by puts in
//! transactions and by a bulk load: `load_rate DIRECTORY [ROWS] [ROUNDS]`.
//!
//! Each run fills a new database in a folder below the directory, and closes the database, so that
//! all pages are in place. Then the folder is removed. Rows have keys of 8 bytes and values of
//! 1,016 bytes.

use katydid::{Database, Result, Table};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows of a transaction of puts.
const BATCH: u64 = 1000;

fn value(number: u64) -> [u8; 1016] {
    let mut value = [number as u8; 1016];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

fn by_puts(database: &Database, table: &Table, rows: u64) -> Result<()> {
    for from in (0..rows).step_by(BATCH as usize) {
        database.transact(|txn| {
            let mut numbers = from..rows.min(from + BATCH);
            numbers.try_for_each(|number| txn.put(table, number.to_be_bytes(), value(number)))
        })?;
    }
    Ok(())
}

fn by_load(database: &Database, table: &Table, rows: u64) -> Result<()> {
    let loaded = database.bulk_load(table, (0..rows).map(|number| (number.to_be_bytes(), value(number))))?;
    assert_eq!(loaded, rows);
    Ok(())
}

type Fill = fn(&Database, &Table, u64) -> Result<()>;

/// Returns the time until all rows are durable, and the time until the database is closed.
fn measured(folder: &Path, fill: Fill, rows: u64) -> Result<(Duration, Duration)> {
    let database = Database::open(folder)?;
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
    let (rows, rounds) = (number(500_000), number(3));
    for round in 1..=rounds {
        let mut rates = Vec::new();
        for (name, fill) in [("puts", by_puts as Fill), ("bulk load", by_load as Fill)] {
            let folder = Path::new(&directory).join(format!("load-rate-{round}-{}", rates.len()));
            let (durable, closed) = measured(&folder, fill, rows)?;
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
            rates[1].0 / rates[0].0,
            rates[1].1 / rates[0].1
        );
    }
    Ok(())
}
