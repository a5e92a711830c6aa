//! A queue of jobs with several consumers. Each job is done once, and a consumer that dies gives
//! its job back.
//!
//! Run: `cargo run --example queue` (in memory), or `cargo run --example queue -- FOLDER`
//! (durable).

use katydid::{Database, Result, Table};
use std::sync::atomic::{AtomicU64, Ordering};

const JOBS: u64 = 200;
const CONSUMERS: usize = 4;

fn main() -> Result<()> {
    let db = match std::env::args().nth(1) {
        Some(folder) => Database::open(folder)?,
        None => Database::in_memory()?,
    };
    run(&db)?;
    db.close()
}

/// Fills the queue, empties it, and prints how many jobs each consumer has done.
pub fn run(db: &Database) -> Result<()> {
    let jobs = db.table("jobs")?;
    let done = db.table("done")?;
    // Keys in the order in which jobs are to be done: big-endian numbers sort as numbers.
    db.transact(|txn| {
        (0..JOBS).try_for_each(|job| txn.put(&jobs, job.to_be_bytes(), format!("mail number {job}")))
    })?;
    let counts: Vec<AtomicU64> = (0..CONSUMERS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let consumers: Vec<_> = counts
            .iter()
            .map(|count| {
                let (jobs, done) = (&jobs, &done);
                scope.spawn(move || {
                    while consume_one(db, jobs, done)? {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Result::Ok(())
                })
            })
            .collect();
        // A consumer that panicked has given its job back.
        consumers.into_iter().try_for_each(|consumer| consumer.join().unwrap_or(Ok(())))
    })?;
    let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    println!("{JOBS} jobs were done by {CONSUMERS} consumers: {counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), JOBS, "each job was done once");
    Ok(())
}

/// Takes the first job that no other consumer works on. Taking the job, doing it and noting the
/// result are one transaction: if the transaction fails or the process dies, the job is still in
/// the queue. Returns `false` if the queue is empty.
fn consume_one(db: &Database, jobs: &Table, done: &Table) -> Result<bool> {
    db.transact(|txn| {
        // Passes over jobs that other consumers have locked, without waiting for them.
        let Some((key, job)) = txn.first_unlocked(jobs, ..)? else { return Ok(false) };
        txn.delete(jobs, &key)?;
        txn.put(done, &key, job)?;
        Ok(true)
    })
}
