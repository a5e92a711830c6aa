//! Time that the filled frontier stands still while bytes behind it are reserved and not filled.
//!
//! Real threads. The appenders look, each after every eighth of its inserts, when it owns no hole;
//! one of them at a time, the others go on. A thread of its own would be the cleaner observer with
//! a core to spare. With as many appenders as cores it is not: it runs when it preempts an
//! appender, so it makes the holes that it finds, and it sees nothing while it waits for its turn,
//! so that it cannot tell its own delay from the frontier's.
//!
//! 1. A look asks the inserter how far the log is filled, as the leader of a write would, and
//!    compares with what was reserved before it asked.
//! 2. A standstill begins with the first look that finds the frontier at a place with reserved
//!    bytes behind it, and ends with the first look that finds it elsewhere, or nothing reserved
//!    behind it. So it is as much as one distance between looks too long or too short, and what is
//!    shorter than that is mostly not seen: the distance is reported.
//! 3. While all appenders are refused room no thread looks: that time counts, as the frontier stood
//!    still in it.

use super::case::{Case, Inserted};
use crate::grid::row;
use hdrhistogram::Histogram;
use katydid_command::failure::{Failure, Result};
use katydid_wal::InserterKind;
use katydid_wal::testing::rate::{Load, run};
use katydid_wal::testing::rig::Rig;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Inserts between two looks of a thread.
const EVERY: u64 = 8;

/// Findings of the looks so far.
#[derive(Debug)]
struct Standstills {
    times: Histogram<u64>,
    looks: u64,
    /// Position at which the frontier stands, with something reserved behind it, and since when.
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
        // A hole at 100, seen three times, filled at 50 us; another one there at once, seen once.
        look(200, 100, 10);
        look(300, 100, 20);
        look(300, 100, 40);
        look(300, 250, 50);
        look(400, 400, 53);
        // Nothing is reserved behind the frontier: it may stand.
        look(400, 400, 90);
        assert_eq!((found.times.len(), found.looks), (2, 7));
        let close = |found: u64, to: u64| found.abs_diff(to) <= to / 50;
        assert!(close(found.times.max(), 40_000) && close(found.times.min(), 3_000), "{:?}", found.times);
    }
}
