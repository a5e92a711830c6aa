//! Measures the time of an append in NVRAM: `cargo run --release -p katydid-wal --example
//! nvram_append -- [FOLDER] [THREADS]`.
//!
//! The program appends records of 120 bytes, header included, to a log of each kind in NVRAM, with
//! and without waiting for each record. Each log lies in a region that a file emulates, without
//! added latency. As a lower bound, the program copies the same bytes one behind the other into
//! such a region, writes them back and fences. Each thread has its own session, and its own part of
//! the plain region. The rounds of the logs alternate. The output is the least and the median time,
//! in ns for each record of a thread.

use katydid_device::nvram::{NvRegion, Persistence};
use katydid_wal::{Append, Durability, Kind, Log, LogKind, MediumSettings, NvramOptions, Options};
use std::error::Error;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 72] = [7; 72];
const RECORD: u64 = 120;
const COUNT: u64 = 20_000;
const ROUNDS: usize = 21;
const PART: u64 = 1 << 20;
const WANT: Persistence = Persistence::Emulated { latency: Duration::ZERO };
const KINDS: [LogKind; 4] = [LogKind::NvDirect, LogKind::NvRing, LogKind::NvEntries, LogKind::NvLogging];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let threads: u64 = std::env::args().nth(2).map_or(Ok(1), |threads| threads.parse())?;
    let folder = std::path::Path::new(&folder).join(format!("nvram_append.{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = measure(&folder, threads);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn measure(folder: &std::path::Path, threads: u64) -> Result<(), Box<dyn Error>> {
    let plain = NvRegion::open(folder.join("plain"), PART * threads, WANT)?;
    println!("{}\n{threads} threads, records of {RECORD} bytes, ns for each: least, median", plain.form());
    let logs = KINDS.map(|kind| {
        let memory = NvramOptions { bytes: 16 << 20, want: WANT };
        let medium = MediumSettings { memory, ..MediumSettings::default() }.medium(kind);
        let options = Options { medium, reserve_bytes: 64 << 10, ..Options::default() };
        Log::open(folder.join(kind.to_string()), options)
    });
    let logs = logs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); 1 + 2 * logs.len()];
    for _ in 0..ROUNDS {
        took[0].push(round(threads, |thread| {
            let mut at = 0;
            for _ in 0..COUNT {
                persist(&plain, thread * PART + at);
                at = if at + 2 * RECORD > PART { 0 } else { at + RECORD };
            }
        }));
        for (nth, log) in logs.iter().enumerate() {
            took[1 + 2 * nth].push(round(threads, |_| append(log, false)));
            log.first().trim(log.first().sync()?)?;
            took[2 + 2 * nth].push(round(threads, |_| append(log, true)));
            log.first().trim(log.first().sync()?)?;
        }
    }
    let names = KINDS.iter().flat_map(|kind| [format!("{kind}, append"), format!("{kind}, append and wait")]);
    let mut least = 0.0;
    for (name, mut took) in std::iter::once("copy and persist".to_owned()).chain(names).zip(took) {
        took.sort_by(f64::total_cmp);
        let median = took[ROUNDS / 2];
        least = if least == 0.0 { median } else { least };
        println!("{name:28} {:7.1} {median:7.1}   {:.2} times the copy", took[0], median / least);
    }
    Ok(())
}

/// Runs `work` on all threads at once. Returns the mean time of the slowest thread for each of its
/// `COUNT` records, in nanoseconds.
fn round(threads: u64, work: impl Fn(u64) + Sync) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let took: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    let begun = Instant::now();
                    work(thread);
                    begun.elapsed()
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    took.into_iter().max().unwrap_or_default().as_nanos() as f64 / COUNT as f64
}

fn append(log: &Log, wait: bool) {
    let Ok(mut session) = log.session() else { return };
    for _ in 0..COUNT {
        let end = match session.append(&Append::new(Kind::USER, &[&PAYLOAD])) {
            Ok(appended) => appended.end,
            Err(error) => panic!("a round fits: {error}"),
        };
        if wait && let Err(error) = log.first().wait(end, Durability::Durable) {
            panic!("{error}");
        }
    }
}

fn persist(region: &NvRegion, at: u64) {
    // SAFETY: each thread writes only its own part of the region, and no thread reads the region.
    unsafe { region.write(at, &[7; RECORD as usize]) };
    region.persist(at, RECORD);
}
