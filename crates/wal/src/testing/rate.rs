//! The rate of inserters alone on real threads.

use crate::options::Options;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{
    Chain, HEADER_BYTES, HeaderFields, Kind, Layout, Part, padded_len, prepare_header,
};
use katydid_kernels::rig::Rig;
use katydid_kernels::ring::Ring;
use katydid_kernels::sizes::Sizes;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The load of real threads: inserts, with nothing but `work` between two of them.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Number of threads, all of which insert.
    pub threads: usize,
    /// Sizes of records.
    pub sizes: Sizes,
    /// Other work between two inserts of a thread, in [turns](turns_in_a_microsecond).
    pub work: u64,
    /// Approximate duration of the run.
    pub time: Duration,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tally {
    /// Inserted records.
    pub records: u64,
    /// Bytes of the inserted records, headers included.
    pub bytes: u64,
    /// Seconds from the beginning of the first thread to the end of the last one.
    pub seconds: f64,
    /// The fewest and the most records of one thread.
    pub of_one_thread: (u64, u64),
    /// Bytes by which the filled frontier of `Grasshopper` moved by crawling, and by hopping.
    pub travelled: (u64, u64),
}

fn rig(options: &Options, threads: usize) -> Rig {
    let files = options.medium.files().expect("a ring in memory");
    Rig::new(&files.inserter, &options.buffer_sizes(files.ring_bytes), threads)
}

impl Tally {
    /// Returns the number of records per second.
    pub fn records_per_second(&self) -> f64 {
        self.records as f64 / self.seconds
    }
}

/// Inserts with real threads, and runs the tracker if the design has one. After each insert, the
/// thread calls `look` with the rig and the number of its insert; the measured time includes these
/// calls.
///
/// # Panics
/// If the options are not of a log in files: only such a log has its ring in memory.
pub fn run(options: &Options, load: &Load, look: impl Fn(&Rig, u64) + Sync) -> Tally {
    let Load { threads, sizes, work, time } = *load;
    let rig = rig(options, threads);
    let batch = batch(sizes.largest());
    let insert = |session: usize| {
        let payload = vec![session as u8; sizes.largest() - HEADER_BYTES];
        // Large records come at a different time in each thread.
        let mut number = session as u64 * 7;
        let (rig, look) = (&rig, &look);
        let mut inserts = rig.session(session);
        move || {
            let mut bytes = 0;
            for _ in 0..batch {
                let size = sizes.of(number);
                inserts.insert(&payload[..size - HEADER_BYTES]);
                look(rig, number);
                if work > 0 {
                    other_work(work);
                }
                number += 1;
                bytes += size as u64;
            }
            (batch, bytes)
        }
    };
    let tally = std::thread::scope(|scope| {
        if rig.tracks() {
            scope.spawn(|| rig.track());
        }
        let _stopped = StopTracking(&rig);
        on_threads(threads, time, insert)
    });
    Tally { travelled: rig.travelled(), ..tally }
}

/// Ends the tracker when this guard is dropped, even if an inserting thread has panicked.
struct StopTracking<'a>(&'a Rig);

impl Drop for StopTracking<'_> {
    fn drop(&mut self) {
        self.0.stop_tracking();
    }
}

/// Returns the number of records between two reads of the flag that ends the run. A thread inserts
/// about 8 KiB between two reads, so reading the flag costs little. Inserting threads read no
/// clock.
pub(super) fn batch(largest: usize) -> u64 {
    (8192 / largest as u64).clamp(1, 64)
}

/// Starts `threads` threads. Each thread calls `begin` with its number, and runs the returned
/// function again and again until the time is over. That function returns the number of its records
/// and their bytes.
pub(super) fn on_threads<B>(threads: usize, time: Duration, begin: impl Fn(usize) -> B + Sync) -> Tally
where
    B: FnMut() -> (u64, u64),
{
    let (ready, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let one = |number: usize| {
        let mut act = begin(number);
        let (mut records, mut bytes) = (0, 0);
        ready.wait();
        let since = Instant::now();
        // A thread that begins late still runs once.
        loop {
            let done = act();
            records += done.0;
            bytes += done.1;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        (records, bytes, since, Instant::now())
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let one = &one;
        let workers: Vec<_> = (0..threads).map(|number| scope.spawn(move || one(number))).collect();
        ready.wait();
        let since = Instant::now();
        while let Some(left) = time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            // An earlier `unpark` may end the park early, so the thread parks again for the rest of
            // the time.
            std::thread::park_timeout(left);
        }
        stop.store(true, Ordering::Relaxed);
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    // With more threads than cores some threads begin late. If each thread's rate were taken over
    // its own time, the sum of these rates would be higher than the rate of all threads together.
    let first = all.iter().map(|thread| thread.2).min();
    let last = all.iter().map(|thread| thread.3).max();
    let seconds = first.zip(last).map_or(0.0, |(first, last)| last.duration_since(first).as_secs_f64());
    let counts = all.iter().map(|thread| thread.0);
    Tally {
        records: counts.clone().sum(),
        bytes: all.iter().map(|thread| thread.1).sum(),
        seconds: seconds.max(1e-9),
        of_one_thread: (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)),
        travelled: (0, 0),
    }
}

/// Returns the number of turns of other work that this machine does in a microsecond: the best of
/// several tries, because the slower tries were disturbed.
pub fn turns_in_a_microsecond() -> f64 {
    const TURNS: u64 = 100_000;
    let one = || {
        let since = Instant::now();
        other_work(TURNS);
        TURNS as f64 / (since.elapsed().as_secs_f64() * 1e6).max(1e-3)
    };
    (0..20).map(|_| one()).fold(0.0, f64::max)
}

/// Does arithmetic, each turn on the result of the turn before. Reads no clock and accesses no
/// memory.
#[inline(never)]
fn other_work(turns: u64) {
    let mut number = turns;
    for _ in 0..turns {
        number = (number ^ (number >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    black_box(number);
}

/// Cost of an insert without any sharing: nanoseconds for a record of one thread, which has a ring
/// of its own.
#[derive(Debug, Clone, Copy)]
pub struct SoloCost {
    /// Nanoseconds for the header with its checksum.
    pub prepare_ns: f64,
    /// Nanoseconds for the copies.
    pub copy_ns: f64,
}

/// Makes `times` inserts on each of `threads` threads, each with a ring of its own. Returns the
/// mean cost of an insert.
///
/// # Panics
/// If a record is larger than the ring.
pub fn alone(ring_bytes: usize, threads: usize, record: usize, times: u64) -> SoloCost {
    assert!(padded_len(record) <= ring_bytes, "a record of {record} bytes in a ring of {ring_bytes}");
    let one = |begin: &Barrier| {
        let ring = Ring::new(ring_bytes);
        let payload = vec![7_u8; record.saturating_sub(HEADER_BYTES)];
        let fields = HeaderFields {
            incarnation: 1,
            kind: Kind::USER,
            txn: 1,
            chain: Chain::NONE,
            durable: Lsn::ZERO,
            layout: Layout::InLine,
        };
        let prepare = |txn: u64| {
            let fields = HeaderFields { txn, ..fields };
            prepare_header(&fields, Part::Whole, None, std::iter::once(&payload[..]))
        };
        begin.wait();
        let since = Instant::now();
        for number in 0..times {
            black_box(prepare(black_box(number)));
        }
        let prepare_ns = since.elapsed().as_nanos() as f64 / times as f64;
        let prepared = prepare(0);
        begin.wait();
        let since = Instant::now();
        let mut at = Lsn::ZERO;
        for _ in 0..times {
            let head = black_box(&prepared).header(at);
            // SAFETY: the ring is this thread's own, nothing reads it, and the record is no larger
            // than the ring (checked above).
            unsafe {
                ring.fill(at, &[&head], 0);
                ring.fill(at.plus(head.len() as u64), black_box(&[&payload[..]]), 0);
            }
            at = at.plus(prepared.padded() as u64);
        }
        SoloCost { prepare_ns, copy_ns: since.elapsed().as_nanos() as f64 / times as f64 }
    };
    let begin = Barrier::new(threads);
    let all: Vec<SoloCost> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| one(&begin))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mean = |of: fn(&SoloCost) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    SoloCost { prepare_ns: mean(|alone| alone.prepare_ns), copy_ns: mean(|alone| alone.copy_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium_options::FileOptions;
    use katydid_kernels::insert::InserterKind;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_design_gets_somewhere_and_leaves_no_hole() {
        for inserter in InserterKind::ALL {
            let options = Options {
                medium: FileOptions {
                    inserter: inserter.into(),
                    ring_bytes: 64 << 10,
                    ..FileOptions::default()
                }
                .into(),
                run_ahead_bytes: 16 << 10,
                ..Options::default()
            };
            let sizes = Sizes::Bimodal { small: 120, times: 5, large: 20_000 };
            let load = Load { threads: 3, sizes, work: 10, time: Duration::from_millis(5) };
            let looks = AtomicU64::new(0);
            let tally = run(&options, &load, |_, _| {
                looks.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(tally.records, looks.into_inner(), "{inserter}");
            assert!(
                tally.records_per_second() > 0.0 && tally.bytes > tally.records * 120,
                "{inserter}: {tally:?}"
            );
            let rig = rig(&options, 1);
            // Inserts more than the ring holds, and one record larger than a physical record may
            // be.
            let mut session = rig.session(0);
            let again =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rig.session(0).insert(&[7; 72])));
            again.expect_err("a session that two threads may use");
            for _ in 0..1000 {
                session.insert(&[7; 72]);
            }
            session.insert(&[7; 20_000]);
            // With `chunked` the first scan only notes which chunks are open; the second passes
            // those that have not moved.
            rig.filled();
            assert_eq!(rig.filled(), rig.bytes(), "{inserter}");
            assert!(rig.bytes() >= 120_000 + 20_000, "{inserter}");
        }
    }
}
