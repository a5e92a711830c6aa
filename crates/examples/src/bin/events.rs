//! An event log that uses the log without the store. Several threads append events durably. A
//! second log follows the first, and continues at its last position after a crash of either
//! process.
//!
//! Run: `cargo run -p katydid-examples --bin events -- write FOLDER N`,
//! `... replicate FOLDER COPY N` or `... tail FOLDER`.

use anyhow::{Result, bail};
use katydid_wal::{Append, Durability, Error, FileOptions, Kind, Log, Lsn, Options, ReadError, Record};
use std::path::Path;
use std::thread;

const EVENT: Kind = Kind::USER;
const THREADS: u64 = 4;
/// Number of events after which the follower waits until the copy is durable, and then acknowledges
/// these events.
const BATCH: usize = 500;
/// Maximum bytes that the first log retains for a follower that is behind.
const BEHIND_MAX: u64 = 1 << 30;

fn open(folder: &str) -> Result<Log> {
    let files = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    let options = Options { medium: files.into(), reserve_bytes: 64 << 10, ..Options::default() };
    let log = Log::open(folder, options)?;
    eprintln!("{folder}: {:?}", log.first().recovery().finding);
    Ok(log)
}

/// Appends `events` events. Each is durable before its thread makes the next.
fn write(log: &Log, events: u64) -> Result<()> {
    let stream = log.first();
    let each = |thread: u64| -> Result<(), Error> {
        let mut session = stream.session()?;
        for number in 0..events / THREADS {
            let event: [&[u8]; 2] = [&number.to_be_bytes(), b" something happened"];
            let end = session.append(&Append::new(EVENT, &event).txn(thread))?.end;
            stream.wait(end, Durability::Durable)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || each(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer"))
    })?;
    Ok(())
}

/// Appends each event of `log` to `copy`, together with its position in `log`, until `log` is
/// closed. Returns the number of copied events.
fn follow(log: &Log, copy: &Log) -> Result<u64> {
    let consumer = log.consumer("copy", BEHIND_MAX, 0, &[log.first().start()])?;
    let place = consumer.stat()?;
    let mut events = log.first().follow(place.from[0])?;
    // The last copied event. A follower that crashed may not have acknowledged this event.
    let unacknowledged = copy.first().reader(Lsn::new(place.mark).max(copy.first().start()))?;
    let had = unacknowledged.last().transpose()?.and_then(|event| event.payload.first_chunk().copied());
    let (had, mut session, mut copied) = (had.map(u64::from_be_bytes), copy.session()?, 0);
    loop {
        match events.wait() {
            Err(Error::Closed) => return Ok(copied),
            outcome => outcome?,
        }
        for _ in 0..BATCH {
            let Some(event) = events.try_next()? else { break };
            if had.is_none_or(|had| event.lsn.get() > had) {
                let payload: [&[u8]; 2] = [&event.lsn.get().to_be_bytes(), event.payload];
                session.append(&Append::new(event.kind, &payload).txn(event.txn))?;
                copied += 1;
            }
        }
        copy.sync()?;
        // The log drops only events that the follower has, because the consumer retains all others.
        let acknowledged = consumer.acknowledge(copy.first().durable().get(), &[events.position()]);
        match acknowledged.and_then(|()| log.first().trim(events.position())) {
            // The log was closed in the meantime; the next run acknowledges these events.
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn replicate(folder: &str, copy: &str, events: u64) -> Result<()> {
    let (log, copy) = (open(folder)?, open(copy)?);
    let copied = thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&log, &copy));
        let outcome = write(&log, events).and(Ok(log.close()?));
        let copied = follower.join().expect("the follower");
        outcome.and(copied)
    })?;
    println!("copied {copied}; the copy has {:?}", copy.first().space());
    Ok(copy.close()?)
}

/// Prints the number of events of a log that no process has open, and the first two events.
fn tail(folder: &str) -> Result<()> {
    let log = open(folder)?;
    let events: Vec<Record> = log.first().reader(log.first().start())?.collect::<Result<_, ReadError>>()?;
    for event in events.iter().take(2) {
        println!("{} {}", event.lsn, event.payload.escape_ascii());
    }
    println!("{} events", events.len());
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["write", folder, events] => {
            let log = open(folder)?;
            write(&log, events.parse()?)?;
            println!("{events} events, durable to {}", log.first().durable());
            Ok(log.close()?)
        }
        ["replicate", folder, copy, events] => replicate(folder, copy, events.parse()?),
        ["tail", folder] if Path::new(folder).exists() => tail(folder),
        _ => bail!("events write FOLDER N|replicate FOLDER COPY N|tail FOLDER"),
    }
}
