//! How fast inserters are on real threads, by themselves.

use super::rig::Rig;
use crate::lsn::Lsn;
use crate::options::Options;
use crate::record::{Draft, HEADER_BYTES, Kind, Part, prepare_header};
use crate::ring::Ring;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Inserts a second of `threads` real threads that do nothing else, for about `time`, with records of `record` bytes, header included.
pub fn insert_rate(options: &Options, threads: usize, record: usize, time: Duration) -> f64 {
    let rig = Rig::new(options, threads);
    let (begin, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let payload = record.saturating_sub(HEADER_BYTES);
    std::thread::scope(|scope| {
        let run = |session: usize| {
            let (rig, begin, stop) = (&rig, &begin, &stop);
            move || {
                let payload = vec![session as u8; payload];
                let mut inserts = 0_u64;
                begin.wait();
                let since = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    // The word is looked at seldom, the clock once.
                    for _ in 0..64 {
                        rig.insert(session, &payload);
                    }
                    inserts += 64;
                }
                inserts as f64 / since.elapsed().as_secs_f64()
            }
        };
        let workers: Vec<_> = (0..threads).map(|session| scope.spawn(run(session))).collect();
        begin.wait();
        let since = Instant::now();
        while let Some(left) = time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            // A token left by somebody ends it early.
            std::thread::park_timeout(left);
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap_or(0.0)).sum()
    })
}

/// What one insert takes without any sharing: nanoseconds of one thread, for records of `record` bytes into a ring of its own.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    /// The header with its checksum.
    pub prepare_ns: f64,
    /// The copies.
    pub copy_ns: f64,
}

/// Measures that, `times` times over, each of `threads` threads with a ring of its own; the means.
pub fn alone(ring_bytes: usize, threads: usize, record: usize, times: u64) -> Alone {
    let one = |begin: &Barrier| {
        let ring = Ring::new(ring_bytes);
        let payload = vec![7_u8; record.saturating_sub(HEADER_BYTES)];
        let draft = Draft { incarnation: 1, kind: Kind::USER, txn: 1, prev: Lsn::ZERO, durable: Lsn::ZERO };
        let prepare = |txn: u64| {
            let draft = Draft { txn, ..draft };
            prepare_header(&draft, Part::Whole, None, std::iter::once(&payload[..]))
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
            // SAFETY: the ring is this thread's own, and nobody reads it.
            unsafe {
                ring.fill(at, &[&head], 0);
                ring.fill(at.plus(head.len() as u64), black_box(&[&payload[..]]), 0);
            }
            at = at.plus(prepared.padded() as u64);
        }
        Alone { prepare_ns, copy_ns: since.elapsed().as_nanos() as f64 / times as f64 }
    };
    let begin = Barrier::new(threads);
    let all: Vec<Alone> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| one(&begin))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mean = |of: fn(&Alone) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    Alone { prepare_ns: mean(|alone| alone.prepare_ns), copy_ns: mean(|alone| alone.copy_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::InserterKind;

    #[test]
    fn every_design_gets_somewhere_and_leaves_no_hole() {
        for inserter in InserterKind::ALL {
            let options =
                Options { inserter, ring_bytes: 64 << 10, run_ahead_bytes: 16 << 10, ..Options::default() };
            let rate = insert_rate(&options, 3, 120, Duration::from_millis(5));
            assert!(rate > 0.0, "{inserter}");
            let rig = Rig::new(&options, 1);
            // More than the ring holds, and one record larger than a physical one may be.
            for _ in 0..1000 {
                rig.insert(0, &[7; 72]);
            }
            rig.insert(0, &[7; 20_000]);
            assert_eq!(rig.filled(), rig.bytes(), "{inserter}");
            assert!(rig.bytes() >= 120_000 + 20_000, "{inserter}");
        }
    }
}
