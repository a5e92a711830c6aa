//! `crash-writer`: commits from several threads and prints each acknowledgement, until it is
//! killed. `tests/main/kill9.rs` kills it, and compares the printed acknowledgements with the
//! database.
//!
//! Thread `t` commits transactions numbered 1, 2, 3 ... Transaction `n` sets the thread's counter
//! to `n`, inserts the row `n` and deletes the row `n - WINDOW`. So if each transaction survives
//! whole or not at all, a thread's counter determines the thread's rows, even after the loss of the
//! last transactions. A line `t n` is printed after `n` is acknowledged.

use clap::Args;
use katydid::{AdvancedOptions, Database, LockRelease, Options, PagedOptions, Session, Table, Transaction};
use katydid_command::database::{DatabaseDir, EngineFlags, open};
use katydid_command::failure::Result;
use katydid_command::flags::word;
use std::io::Write;

/// Number of rows of a thread that exist at a time.
const WINDOW: u64 = 40;

/// Commit from several threads and print each acknowledgement, until a test kills the process
#[derive(Debug, Args)]
pub struct CrashWriter {
    /// Number of writer threads
    #[arg(long, default_value = "4")]
    threads: u64,
    /// Transactions in flight of each thread: with 1 a thread blocks in each commit, with more it
    /// uses callbacks
    #[arg(long, default_value = "1")]
    in_flight: usize,
    /// Bytes of log after which the database takes a checkpoint
    #[arg(long, default_value = "1MiB", value_parser = katydid_command::bytes::parse)]
    checkpoint: u64,
    /// Paged engine: number of pages kept in memory
    #[arg(long, default_value = "64")]
    cache_pages: usize,
    /// Time at which a commit releases its locks: early or after-durable
    #[arg(long, default_value = "early", value_parser = word::<LockRelease>)]
    lock_release: LockRelease,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    place: DatabaseDir,
}

impl CrashWriter {
    pub fn run(self) -> Result<()> {
        let pages = PagedOptions::default();
        let cache_bytes = self.cache_pages * pages.page_bytes;
        let options = Options {
            engine: PagedOptions { cache_bytes, ..pages }.into(),
            advanced: AdvancedOptions {
                checkpoint_bytes: self.checkpoint,
                lock_release: self.lock_release,
                ..AdvancedOptions::default()
            },
            ..Options::default()
        };
        let options = self.engine.apply(&self.place.dir, options)?;
        let database = open(&self.place.dir, options, self.engine.log.if_found()?)?;
        let counters = database.table("counters")?;
        let rows = database.table("rows")?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let mut writer = Writer { database: &database, counters: &counters, rows: &rows, thread };
                    let in_flight = self.in_flight;
                    scope.spawn(move || writer.run(in_flight))
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}

struct Writer<'d> {
    database: &'d Database,
    counters: &'d Table,
    rows: &'d Table,
    thread: u64,
}

impl Writer<'_> {
    fn run(&mut self, in_flight: usize) -> Result<()> {
        let session: Session = self.database.session();
        let mut number = match self.database.get(self.counters, self.thread.to_be_bytes())? {
            Some(bytes) => u64::from_be_bytes(bytes.try_into().unwrap_or_default()),
            None => 0,
        };
        loop {
            number += 1;
            let transaction = self.database.begin()?;
            self.fill(&transaction, number)?;
            let thread = self.thread;
            if in_flight == 1 {
                transaction.commit()?;
                acknowledge(thread, number);
            } else {
                transaction.commit_with(&session, move |result| match result {
                    Ok(_) => acknowledge(thread, number),
                    Err(error) => panic!("the commit of {thread} {number} failed: {error}"),
                });
                session.poll();
                session.wait_below(in_flight)?;
            }
        }
    }

    fn fill(&self, transaction: &Transaction, number: u64) -> Result<()> {
        transaction.put(self.counters, self.thread.to_be_bytes(), number.to_be_bytes())?;
        transaction.insert(self.rows, row_key(self.thread, number), row_value(self.thread, number))?;
        if let Some(old) = number.checked_sub(WINDOW).filter(|old| *old > 0) {
            transaction.delete(self.rows, row_key(self.thread, old))?;
        }
        Ok(())
    }
}

fn acknowledge(thread: u64, number: u64) {
    // Each line is one write, so lines of several threads do not mix, and a kill can cut only the
    // last line.
    let line = format!("{thread} {number}\n");
    let mut out = std::io::stdout().lock();
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        // The test has ended, so this process ends as well.
        std::process::exit(1);
    }
}

fn row_key(thread: u64, number: u64) -> Vec<u8> {
    format!("{thread:04}/{number:012}").into_bytes()
}

/// Returns 0 to 3,000 bytes that thread and number determine.
fn row_value(thread: u64, number: u64) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) % 3001) as usize;
    (0..length as u64).map(|at| (at ^ number ^ (thread << 5)) as u8).collect()
}
