//! Measures the rates of the parts of a log of several streams: `cargo run --release -p katydid-wal
//! --example streams -- append|complete|replay [FOLDER]`.
//!
//! Only the processor limits these rates: the log is in memory, unless `replay` gets a folder. The
//! program makes that folder and does not remove it.

use katydid_device::{Directory, FileDirectory, MemoryDirectory, Method};
use katydid_wal::{Append, CommitStamp, Dependencies, Durability, FileOptions, Kind, Log, Options};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let folder = words.next();
    match what.as_str() {
        "append" => append(),
        "complete" => complete(),
        "replay" => replay(folder.as_deref()),
        _ => Err("what? append, complete or replay".into()),
    }
}

fn memory(streams: u16, options: Options) -> Outcome<Log> {
    Ok(Log::open_in(Arc::new(MemoryDirectory::new()), Options { streams, ..options })?)
}

/// Returns options with a ring that takes all appended bytes.
fn roomy() -> Options {
    Options {
        medium: FileOptions { ring_bytes: 64 << 20, ..FileOptions::default() }.into(),
        run_ahead_bytes: 32 << 20,
        ..Options::default()
    }
}

/// Compares an append without a stamp with appends of commits that depend on no, one and two
/// positions.
fn append() -> Outcome<()> {
    const COUNT: u32 = 200_000;
    let payload = [7; 100];
    let mut least = [Duration::MAX; 4];
    for _ in 0..15 {
        for (kind, least) in least.iter_mut().enumerate() {
            let log = memory(3, roomy())?;
            let other = |stream: usize| -> Outcome<_> {
                let mut session = log.streams()[stream].session()?;
                Ok(session
                    .append(&Append::new(Kind::USER, &[&payload]).stamp(CommitStamp::new(1)))?
                    .position())
            };
            let places = [other(1)?, other(2)?];
            let took = if kind == 0 {
                let mut session = log.streams()[0].session()?;
                let begun = Instant::now();
                for number in 0..COUNT {
                    black_box(session.append(&Append::new(Kind::USER, &[&payload]).txn(number.into()))?);
                }
                begun.elapsed()
            } else {
                let depends: Dependencies = places[..kind - 1].iter().copied().collect();
                let mut session = log.streams()[0].session()?;
                let begun = Instant::now();
                for number in 0..COUNT {
                    black_box(
                        session.append(
                            &Append::new(Kind::USER, &[&payload])
                                .commit(CommitStamp::new(number.into()), &depends),
                        )?,
                    );
                }
                begun.elapsed()
            };
            *least = (*least).min(took);
        }
    }
    for (name, took) in ["no stamp", "stamp", "one position", "two positions"].iter().zip(least) {
        println!("{name:13} {:6.1} ns", took.as_nanos() as f64 / f64::from(COUNT));
    }
    Ok(())
}

/// Runs two threads, each of which appends transactions to its own stream and queues them until
/// they are durable. Every fourth transaction depends on everything appended before it that is not
/// durable.
fn complete() -> Outcome<()> {
    const COUNT: u64 = 2_000_000;
    let log = memory(
        2,
        Options {
            medium: FileOptions { segment_bytes: 1 << 30, ..FileOptions::default() }.into(),
            ..Options::default()
        },
    )?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let log = &log;
                scope.spawn(move || -> Result<u64, String> {
                    let fail = |error: &dyn Error| error.to_string();
                    let mut session = log.streams()[index].session().map_err(|error| fail(&error))?;
                    let mut queue = log.completions();
                    let mut completed = 0;
                    for number in 0..COUNT {
                        let depends =
                            if number % 4 == 0 { log.everything() } else { Dependencies::default() };
                        let place = session
                            .append(
                                &Append::new(Kind::USER, &[&[7; 40]])
                                    .commit(CommitStamp::new(number), &depends),
                            )
                            .map_err(|error| fail(&error))?
                            .position();
                        queue.push(place, &depends, Durability::Durable, number);
                        queue.wait_below_with(10_000, |_, _| completed += 1);
                    }
                    queue.drain_with(|_, _| completed += 1);
                    Ok(completed)
                })
            })
            .collect();
        for thread in threads {
            println!("{:?}", thread.join());
        }
    });
    let rate = 2.0 * COUNT as f64 / begun.elapsed().as_secs_f64();
    println!("appended, queued and completed: {:.2} million a second", rate / 1e6);
    // Measures the cost of the queue alone.
    let mut session = log.streams()[0].session()?;
    let mut places = Vec::new();
    for number in 0..1000 {
        places.push(
            session.append(&Append::new(Kind::USER, &[&[7; 40]]).stamp(CommitStamp::new(number)))?.position(),
        );
    }
    let other = log.streams()[1]
        .session()?
        .append(&Append::new(Kind::USER, &[b"x"]).stamp(CommitStamp::new(1)))?
        .position();
    let depends = Dependencies::from_iter([other]);
    log.sync()?;
    let mut least = Duration::MAX;
    for _ in 0..200 {
        let mut queue = log.completions();
        let begun = Instant::now();
        for place in &places {
            queue.push(*place, &depends, Durability::Durable, 1u64);
        }
        let mut sum = 0;
        queue.drain_with(|number, _| sum += number);
        least = least.min(begun.elapsed());
        black_box(sum);
    }
    println!("the queue alone: {:.1} ns each", least.as_nanos() as f64 / places.len() as f64);
    Ok(())
}

/// Reads 1 KiB records of one and two streams.
fn replay(folder: Option<&str>) -> Outcome<()> {
    let bytes = 1u64 << 29;
    for streams in [1, 2] {
        let directory: Arc<dyn Directory> = match folder {
            None => Arc::new(MemoryDirectory::new()),
            Some(folder) => Arc::new(FileDirectory::open(format!("{folder}/{streams}"))?),
        };
        for method in
            if folder.is_some() { &[Method::Buffered, Method::Direct][..] } else { &[Method::Buffered] }
        {
            let options = Options { method: *method, streams, ..Options::default() };
            let log = Log::open_in(directory.clone(), options.clone())?;
            if log.space().live < bytes {
                fill(&log, bytes)?;
            }
            log.close()?;
            drop(log);
            let begun = Instant::now();
            let log = Log::open_in(directory.clone(), options)?;
            println!("{streams} streams, {method}: opened in {:.2} s", begun.elapsed().as_secs_f64());
            let starts: Vec<_> = log.streams().iter().map(katydid_wal::Stream::start).collect();
            for _ in 0..3 {
                let begun = Instant::now();
                let visit = |record: katydid_wal::Replayed<'_>| -> Result<(), String> {
                    black_box(record.payload);
                    Ok(())
                };
                let report = log.replay(&starts, &visit, &|_| {}).map_err(|error| error.to_string())?;
                let rate = report.bytes as f64 / begun.elapsed().as_secs_f64() / 1e9;
                println!("  {} records, {:.2} GB/s", report.records, rate);
            }
        }
    }
    Ok(())
}

fn fill(log: &Log, bytes: u64) -> Outcome<()> {
    let payload = [7; 1024];
    let mut sessions = Vec::new();
    for index in 0..log.streams().len() {
        sessions.push(log.streams()[index].session()?);
    }
    let mut before = Dependencies::default();
    for number in 0..bytes / 1080 {
        let which = number as usize % sessions.len();
        let place = sessions[which]
            .append(&Append::new(Kind::USER, &[&payload]).commit(CommitStamp::new(number), &before))?
            .position();
        before = Dependencies::from_iter([place]);
    }
    log.sync()?;
    Ok(())
}
