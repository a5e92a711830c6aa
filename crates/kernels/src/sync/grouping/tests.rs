//! Tests of a group's number of bytes and its time limit, with a virtual clock.

use super::super::rounds::{Ask, Plan, Planned};
use super::super::tally::SyncTally;
use super::*;
use crate::durability::Durability;
use crate::lsn::Lsn;
use std::cell::Cell;

const UNIT: u64 = 64 << 10;
const LIMIT: Duration = Duration::from_micros(1000);
const ELEDA: Group = Group { commits: 0, bytes: UNIT, microseconds: 1000 };

/// A log with a reserved and a written frontier.
struct Reserved {
    reserved: Cell<u64>,
    written: u64,
    is_over: bool,
    tally: SyncTally,
}

impl Reserved {
    fn new(reserved: u64, written: u64) -> Self {
        Reserved { reserved: Cell::new(reserved), written, is_over: false, tally: SyncTally::default() }
    }
}

impl Rounds for Reserved {
    fn plan(&self, _: Ask) -> Plan {
        unreachable!("nothing is written")
    }

    fn perform(&self, _: &Planned) {}

    fn sync(&self, _: bool) {}

    fn settled(&self, _: Lsn, _: Durability) -> bool {
        false
    }

    fn ended(&self, _: Lsn) -> bool {
        false
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(self.reserved.get())
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn written(&self) -> Lsn {
        Lsn::new(self.written)
    }

    fn start_syncer(&self, _: usize) -> bool {
        false
    }

    fn tally(&self) -> &SyncTally {
        &self.tally
    }
}

/// Waits for a group. `append` is called before each sleep, and may end it early by returning a
/// shorter time. Returns the duration of the wait, and the time for which each sleep was meant.
fn waited(
    group: Group,
    log: &Reserved,
    mut append: impl FnMut(&Grouping, Duration) -> Option<Duration>,
) -> (Duration, Vec<Duration>) {
    let grouping = Grouping::new(group);
    let now = Cell::new(Duration::ZERO);
    let mut sleeps = Vec::new();
    grouping.wait_by(
        log,
        || now.get(),
        |over, left| {
            sleeps.push(left);
            drop(over);
            let ends_after = append(&grouping, now.get()).unwrap_or(left).min(left);
            now.set(now.get() + ends_after);
            grouping.over.lock().expect("not poisoned")
        },
    );
    (now.get(), sleeps)
}

#[test]
fn a_round_waits_until_a_unit_is_full() {
    let log = Reserved::new(UNIT, UNIT);
    let quarter = Duration::from_micros(100);
    let (took, sleeps) = waited(ELEDA, &log, |_, _| {
        log.reserved.set(log.reserved.get() + UNIT / 4);
        Some(quarter)
    });
    assert_eq!(took, quarter * 4, "a unit is full after four quarters");
    assert_eq!(sleeps.len(), 4);
    // A full unit begins a round at once, whatever its position in the log.
    assert_eq!(waited(ELEDA, &Reserved::new(7 * UNIT + 8, 6 * UNIT + 8), |_, _| None).1, []);
    assert_eq!(waited(ELEDA, &Reserved::new(7 * UNIT, 6 * UNIT + 8), |_, _| None).1.len(), 1);
}

#[test]
fn a_round_of_less_than_a_unit_begins_after_the_time() {
    // Without a notification there is one sleep of the whole time.
    let log = Reserved::new(1, 0);
    assert_eq!(waited(ELEDA, &log, |_, _| None), (LIMIT, vec![LIMIT]));
    // If notifications come before the unit is full, each sleep is for the rest of the time.
    let step = LIMIT / 4;
    let (took, sleeps) = waited(ELEDA, &log, |_, _| Some(step));
    assert_eq!(took, LIMIT);
    assert_eq!(sleeps, [LIMIT, step * 3, step * 2, step]);
}

#[test]
fn commits_are_counted_from_round_to_round() {
    let three = Group { commits: 3, bytes: 0, microseconds: 1000 };
    let log = Reserved::new(1 << 30, 0);
    let grouping = Grouping::new(three);
    for round in 0..2 {
        let mut came = 0;
        let slept = Cell::new(0);
        grouping.wait_by(
            &log,
            || Duration::from_micros(slept.get()),
            |over, _| {
                drop(over);
                grouping.one_more(&log);
                came += 1;
                slept.set(slept.get() + 1);
                grouping.over.lock().expect("not poisoned")
            },
        );
        assert_eq!(came, 3, "round {round}: bytes have no rule");
    }
}

#[test]
fn closing_and_a_failure_end_the_wait() {
    let log = Reserved::new(1, 0);
    let (took, sleeps) = waited(ELEDA, &log, |grouping, _| {
        grouping.end();
        Some(Duration::ZERO)
    });
    assert_eq!((took, sleeps.len()), (Duration::ZERO, 1));
    let failed = Reserved { is_over: true, ..Reserved::new(1, 0) };
    assert_eq!(waited(ELEDA, &failed, |_, _| None).1, []);
}
