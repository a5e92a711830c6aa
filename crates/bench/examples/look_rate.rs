//! Measures how long a second process takes to read from a database:
//! `look_rate --dir D [--records N] [--engine E]`.
//!
//! The first run makes `D/db` with a million rows of 100 bytes; later runs use it again. Each run
//! measures three durations, each from the call until a row is read: a read-only opening of the
//! closed database; a request through the socket of an owner process; and a read-only opening that
//! recovers in memory, after the owner process was killed. The owner process is a second process of
//! this program. It makes 100,000 changes after a checkpoint, and then opens its socket.

use katydid::{Database, EngineKind, Options};
use katydid_observe::{Client, Reply, Request, Socket};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Failed = Box<dyn std::error::Error>;

const ROUNDS: usize = 20;
/// Number of changes that the owner process makes after its checkpoint.
const CHANGES: u64 = 100_000;
const BATCH: u64 = 1_000;

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

/// Writes a row for each of `numbers`, with `BATCH` rows in each transaction.
fn fill(database: &Database, numbers: std::ops::Range<u64>) -> katydid::Result<()> {
    let table = database.table("rows")?;
    for from in numbers.clone().step_by(BATCH as usize) {
        let batch = from..numbers.end.min(from + BATCH);
        database
            .transact(|txn| batch.clone().try_for_each(|row| txn.put(&table, row.to_be_bytes(), [7; 100])))?;
    }
    Ok(())
}

/// A process that has the database open with a socket. Dropping this value kills the process.
struct Owner(Child);

impl Owner {
    fn begin(folder: &Path) -> Result<Owner, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--own").arg("--dir").arg(folder).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut String::new())?;
        Ok(Owner(child))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.0.kill().and_then(|()| self.0.wait()).is_err() {
            eprintln!("process {} was not ended", self.0.id());
        }
    }
}

fn own(folder: &Path) -> Result<(), Failed> {
    let database = Database::open_with(folder.join("db"), options(folder)?)?;
    database.checkpoint()?;
    fill(&database, 0..CHANGES)?;
    let _socket = Socket::open(&database, folder.join("db"))?;
    println!("open");
    loop {
        std::thread::park();
    }
}

/// Options with the engine of the existing database.
fn options(folder: &Path) -> katydid::Result<Options> {
    Ok(Options { engine: Database::engine_at(folder.join("db"))?.into(), ..Options::default() })
}

fn read_only(folder: &Path) -> Result<Duration, Failed> {
    let begin = Instant::now();
    let database = Database::open_read_only(folder.join("db"))?;
    let table = database.open_table("rows")?.ok_or("no table")?;
    database.get(&table, 1_u64.to_be_bytes())?.ok_or("no row")?;
    let took = begin.elapsed();
    database.close()?;
    Ok(took)
}

fn print_times(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{name}: median {:.2} ms, longest {:.2} ms of {}", ms(median), ms(last), times.len());
}

fn times(measure: impl Fn() -> Result<Duration, Failed>) -> Result<Vec<Duration>, Failed> {
    (0..ROUNDS).map(|_| measure()).collect()
}

fn main() -> Result<(), Failed> {
    let folder = PathBuf::from(flag("--dir").ok_or("--dir is needed: the device to measure on")?);
    if std::env::args().any(|argument| argument == "--own") {
        return own(&folder);
    }
    let records: u64 = flag("--records").map_or(Ok(1_000_000), |text| text.parse())?;
    let engine: EngineKind = flag("--engine").map_or(Ok(EngineKind::Paged), |word| word.parse())?;
    let options = Options { engine: engine.into(), ..Options::default() };
    let database = Database::open_with(folder.join("db"), options)?;
    let table = database.table("rows")?;
    if database.get(&table, (records - 1).to_be_bytes())?.is_none() {
        fill(&database, 0..records)?;
    }
    database.close()?;
    println!("{engine} engine, {records} rows of 100 bytes, on {}", folder.display());
    print_times("read-only opening of a closed database", times(|| read_only(&folder))?);
    let owner = Owner::begin(&folder)?;
    let through_the_socket = times(|| {
        let begin = Instant::now();
        let mut client = Client::connect(folder.join("db"))?;
        let reply =
            client.ask(&Request::Get { table: "rows".to_owned(), key: 1_u64.to_be_bytes().into() })?;
        let took = begin.elapsed();
        match reply {
            Reply::Value(Some(_)) => Ok(took),
            other => Err(format!("{other:?}").into()),
        }
    });
    print_times("request to a process that has it open", through_the_socket?);
    drop(owner);
    print_times("read-only opening after that process was killed", times(|| read_only(&folder))?);
    Ok(())
}
