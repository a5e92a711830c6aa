//! Time for which the filled frontier stands still while bytes beyond it are reserved and not
//! filled.
//!
//! The sweep uses real threads. Each appender looks at the frontier after every eighth insert, when
//! it owns no hole. Only one appender looks at a time; the others continue. With a spare core, a
//! separate observing thread would disturb the appenders less. With as many appenders as cores a
//! separate thread runs only when it preempts an appender, so it would cause the holes that it
//! finds. It would also see nothing while it waits for a processor, so it could not distinguish its
//! own delay from the frontier's.
//!
//! 1. A look asks the inserter how far the log is filled, as the leader of a write does, and
//!    compares the answer with the reserved frontier as it was before the question.
//! 2. A standstill begins with the first look that finds the frontier at a position with reserved
//!    bytes beyond it. The standstill ends with the first look that finds the frontier elsewhere,
//!    or no reserved bytes beyond the frontier. A measured standstill is therefore too long or too
//!    short by at most one interval between looks, and standstills shorter than an interval are
//!    mostly not seen. The mean interval is reported.
//! 3. While all appenders wait for room in the log, no thread looks. A standstill goes on during
//!    that time, because the frontier does not move.

use super::case::{Case, Inserted};
use crate::grid::row;
use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_wal::InserterKind;
use katydid_wal::testing::rate::{Load, run};
use katydid_wal::testing::rig::Rig;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of inserts between two looks of a thread.
const EVERY: u64 = 8;

/// Results of the looks so far.
#[derive(Debug)]
struct Standstills {
    times: Histogram<u64>,
    looks: u64,
    /// Position at which the frontier stands with reserved bytes beyond it, and the time of the
    /// first look that found the frontier there.
    standing: Option<(u64, Instant)>,
}

impl Standstills {
    fn look(&mut self, reserved: u64, filled: u64, now: Instant) {
        self.looks += 1;
        if let Some((at, since)) = self.standing {
            if at == filled && filled < reserved {
                return;
            }
            let time = now.duration_since(since).as_nanos();
            self.times.saturating_record(u64::try_from(time).unwrap_or(u64::MAX).max(1));
        }
        self.standing = (filled < reserved).then_some((filled, now));
    }
}

/// Runs a case.
pub fn measure(case: &Case, inserter: InserterKind, work: u64, time: Duration) -> Result<Inserted> {
    let found = Mutex::new(Standstills { times: row::times()?, looks: 0, standing: None });
    let load = Load { threads: case.threads, sizes: case.sizes(), work, time };
    let tally = run(&case.options(inserter), &load, |rig: &Rig, number| {
        if number.is_multiple_of(EVERY)
            && let Ok(mut found) = found.try_lock()
        {
            let reserved = rig.bytes();
            let filled = rig.filled();
            found.look(reserved, filled, Instant::now());
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if found.looks == 0 {
        return Err(Failure::failed("no thread looked at the frontier: the run was too short"));
    }
    Ok(Inserted {
        times: Some(found.times),
        look_us: Some(tally.seconds * 1e6 / found.looks as f64),
        ..Inserted::of_tally(&tally)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_lasts_from_the_look_that_finds_it_to_the_one_that_finds_it_over() {
        let begin = Instant::now();
        let mut found = Standstills { times: row::times().unwrap(), looks: 0, standing: None };
        let mut look = |reserved, filled, us| found.look(reserved, filled, begin + Duration::from_micros(us));
        look(100, 100, 0);
        // Three looks see a hole at 100, which is filled at 50 us. At that moment another hole
        // begins at 200. Only one look sees the second hole.
        look(200, 100, 10);
        look(300, 100, 20);
        look(300, 100, 40);
        look(300, 250, 50);
        look(400, 400, 53);
        // Nothing is reserved beyond the frontier, so it does not stand still.
        look(400, 400, 90);
        assert_eq!((found.times.len(), found.looks), (2, 7));
        let close = |found: u64, to: u64| found.abs_diff(to) <= to / 50;
        assert!(close(found.times.max(), 40_000) && close(found.times.min(), 3_000), "{:?}", found.times);
    }
}
