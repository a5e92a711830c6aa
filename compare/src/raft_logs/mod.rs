//! Measures log stores of Raft under the appends of a leader, in turn within each round, in one
//! folder.
//!
//! One thread is the leader. It appends batches of entries without waiting, as long as at most a
//! given number of batches is not yet durable. openraft's core does the same. The leader purges old
//! entries from time to time. After each run, the last acknowledged entry must be the last entry in
//! the store. Nothing is excluded as a warm-up.

mod stores;

use crate::Result;
use crate::flags;
use crate::turns::{Run, Turns, print};
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};
use stores::Store;

const HELP: &str = "\
Measure the appends of a Raft leader to katydid-raft-log and to other log stores, in turn

Usage: katydid-compare raft-logs [--dir DIR] [--batches LIST] [--in-flight LIST] [--stores NAMES] [--payload BYTES] [--seconds S]
                                 [--rounds N]

  --dir DIR         Folder to work in, which must be new or empty [default: katydid-compare]
  --batches LIST    Numbers of entries of an append [default: 1,8,64]
  --in-flight LIST  Numbers of appends that the leader begins before the first of them is durable [default: 1,8,64]
  --stores NAMES    Log stores to measure, of katydid-raft-log, raft-engine, raft-engine-prefilled, raft-log, raft-log-eager
                    [default: all]
  --payload BYTES   Bytes of an entry without its log id [default: 120]
  --seconds S       Seconds of each run [default: 0.6]
  --rounds N        Number of rounds, each of which runs every case once [default: 5]

A row has the entries acknowledged per second in the median, the slowest and the fastest round. `ours is` is the ratio of
katydid-raft-log's rate to the row's rate: the median of all rounds' ratios, and the least and the greatest. Latencies are those of
appends, in all rounds. Entries are acknowledged when they are durable.";

/// Number of entries that the leader keeps at a purge. The leader purges when it has twice this
/// number of entries.
const KEPT: u64 = 64 << 10;

/// Shape of the leader's appends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Number of entries of an append.
    batch: usize,
    /// Maximum number of appends that are not yet durable.
    in_flight: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batches of {}, {} in flight", self.batch, self.in_flight)
    }
}

pub fn main(arguments: Vec<String>) -> Result<()> {
    let turns = Turns {
        dir: "katydid-compare".into(),
        names: stores::NAMES.to_vec(),
        rounds: 5,
        time: Duration::from_millis(600),
    };
    let (mut batches, mut in_flights, mut payload) = (vec![1, 8, 64], vec![1, 8, 64], 120);
    let turns = turns.read(arguments, |turns, flag, value| {
        match flag {
            "--batches" => batches = flags::list(flag, value, flags::many)?,
            "--in-flight" => in_flights = flags::list(flag, value, flags::many)?,
            "--stores" => turns.names = flags::list(flag, value, stores::known)?,
            "--payload" => payload = flags::value(flag, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(turns) = turns else {
        println!("{HELP}");
        return Ok(());
    };
    let shape = |batch| in_flights.iter().map(move |&in_flight| Shape { batch, in_flight });
    let shapes: Vec<Shape> = batches.into_iter().flat_map(shape).collect();
    let rows = flags::in_new_folder(&turns.dir, || {
        turns.measure(&shapes, |name, place, shape| one(name, place, shape, turns.time, payload))
    })?;
    println!("entries of {payload} bytes");
    print(&rows, stores::NAMES[0], "entries");
    Ok(())
}

fn one(name: &str, place: &Path, shape: Shape, time: Duration, payload: usize) -> Result<Run> {
    let mut store = stores::open(name, place)?;
    let run = lead(store.as_mut(), shape, time, &"x".repeat(payload))?;
    let acknowledged = (run.times.len() * shape.batch) as u64;
    let last = store.last()?;
    if last.map_or(0, |last| last + 1) != acknowledged {
        return Err(
            format!("{acknowledged} entries were acknowledged, but the last has index {last:?}").into()
        );
    }
    store.close()?;
    Ok(run)
}

/// Appends for the given time, and waits until all appends are durable.
fn lead(store: &mut dyn Store, shape: Shape, time: Duration, payload: &str) -> Result<Run> {
    let (mut next, mut purged, mut times) = (0, 0, Vec::new());
    let mut in_flight = VecDeque::new();
    let begin = Instant::now();
    loop {
        while in_flight.len() < shape.in_flight && begin.elapsed() < time {
            let since = Instant::now();
            in_flight.push_back((since, store.append(next, vec![payload.to_owned(); shape.batch])?));
            next += shape.batch as u64;
        }
        let Some((since, pending)) = in_flight.pop_front() else { break };
        pending()?;
        times.push(since.elapsed().as_nanos() as u64);
        let durable = (times.len() * shape.batch) as u64;
        if durable - purged > 2 * KEPT {
            purged = durable - KEPT;
            store.purge(purged - 1)?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Run { per_second: (times.len() * shape.batch) as f64 / seconds, times })
}
