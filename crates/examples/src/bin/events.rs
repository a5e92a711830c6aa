//! Events on the log alone, without the store: durable appends by several threads, and a second log
//! that follows the first and goes on where it was after either process died.
//!
//! Run: `cargo run -p katydid-examples --bin events -- write FOLDER N`,
//! `... replicate FOLDER COPY N` or `... tail FOLDER`.

use anyhow::{Result, bail};
use katydid_wal::{Append, Durability, Error, FileOptions, Kind, Log, Lsn, Options, ReadError, Record};
use std::path::Path;
use std::thread;

const EVENT: Kind = Kind::USER;
const THREADS: u64 = 4;
/// Number of events after which the follower waits for its own log and acknowledges them.
const BATCH: usize = 500;
/// Bytes of the first log that are kept at most for a follower that is behind.
const BEHIND_MAX: u64 = 1 << 30;

fn open(folder: &str) -> Result<Log> {
    let files = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    let options = Options { medium: files.into(), reserve_bytes: 64 << 10, ..Options::default() };
    let log = Log::open(folder, options)?;
    eprintln!("{folder}: {:?}", log.first().recovery().finding);
    Ok(log)
}

/// Appends `events` events, each durable before its thread makes the next one.
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

/// Appends each event of `log` to `copy`, behind its position in `log`, until `log` is closed; how
/// many.
fn follow(log: &Log, copy: &Log) -> Result<u64> {
    let consumer = log.consumer("copy", BEHIND_MAX, 0, &[log.first().start()])?;
    let place = consumer.stat()?;
    let mut events = log.first().follow(place.from[0])?;
    // The last event that was copied, if the follower died before it acknowledged that one.
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
        // What the follower has is dropped, and no more: the consumer keeps the rest.
        let acknowledged = consumer.acknowledge(copy.first().durable().get(), &[events.position()]);
        match acknowledged.and_then(|()| log.first().trim(events.position())) {
            // It was closed meanwhile: the next run acknowledges these.
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

/// The events of a log that no process has open, and the first two of them.
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
