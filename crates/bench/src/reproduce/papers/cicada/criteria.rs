//! Claims of the text of Cicada with parallel write-ahead logs about its figures, with the paper's
//! numbers and the systems that a claim must reject.
//!
//! Pure functions. The paper has pictures and few numbers; rates are estimates that agree with its
//! text.
//!
//! In the paper a worker continues with its next transaction until a group is full, and then writes
//! the group. Without groups, the worker waits for each record. The variants with group commit are
//! therefore rows of protocol `inline` with clients that have transactions in flight, and the other
//! variants are rows of clients that block. All these variants have one stream for each thread; the
//! serial log of Figure 3 has one stream.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{greatest, least, ratio};
use crate::reproduce::rows::Rows;

/// Transactions in flight of clients that do not block in each commit.
pub const IN_FLIGHT: &str = "64";

const EARLY: &str = "early";
const AFTER_DURABLE: &str = "after-durable";

fn logging_off(rows: &Rows, threads: &str) -> Option<f64> {
    rows.with(&[("durability", "buffered"), ("threads", threads)]).only("commits_per_second")
}

/// Rate of early release and group commit in one log under a mutex.
fn serial(rows: &Rows, threads: &str) -> Option<f64> {
    let serial = rows.with(&[
        ("inserter", "mutex"),
        ("lock_release", EARLY),
        ("sync", "inline"),
        ("threads", threads),
    ]);
    serial.with("in_flight", IN_FLIGHT).only("commits_per_second")
}

const THREE_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 16
     durability=buffered: 150000 300000 2300000
     durability=durable, inserter=mutex, lock_release=early, sync=inline, in_flight=64: 30000 32000 35000",
);

const THREE_SCALES: CounterExample = CounterExample {
    system: "a serial log that threads do not contend for",
    rows:
        "commits_per_second over threads 1 2 16
     durability=buffered: 150000 150000 150000
     durability=durable, inserter=mutex, lock_release=early, sync=inline, in_flight=64: 140000 280000 2200000",
};

pub const THREE: &[Criterion] = &[
    Criterion::new(
        "a serial log decreases performance; to logging off, the lesser of 2 and 16 threads",
        "IV-A, Figure 3",
        (Unit::Times, |rows| {
            least(["2", "16"].map(|threads| ratio(serial(rows, threads), logging_off(rows, threads))))
        }),
        Bounds { above: 0.0, below: 0.5 },
        THREE_PAPER,
        THREE_SCALES,
    ),
    Criterion::new(
        "and hardly grows with the threads, for they contend for its buffer; 16 threads to one",
        "IV-A, Figure 3",
        (Unit::Times, |rows| ratio(serial(rows, "16"), serial(rows, "1"))),
        Bounds { above: 0.3, below: 2.0 },
        THREE_PAPER,
        THREE_SCALES,
    ),
    Criterion::new(
        "with logging disabled performance scales up; 2 threads to one",
        "IV-A, Figure 3",
        (Unit::Times, |rows| ratio(logging_off(rows, "2"), logging_off(rows, "1"))),
        Bounds { above: 1.3, below: 2.2 },
        THREE_PAPER,
        THREE_SCALES,
    ),
];

/// Rate of a variant with group commit (inline) or without it (per-commit).
fn arm(rows: &Rows, release: &str, sync: &str, threads: &str) -> Option<f64> {
    let in_flight = if sync == "inline" { IN_FLIGHT } else { "1" };
    let arm = rows.with(&[
        ("lock_release", release),
        ("sync", sync),
        ("threads", threads),
        ("in_flight", in_flight),
    ]);
    arm.with("inserter", "marks").with("streams", threads).only("commits_per_second")
}

fn best(rows: &Rows, threads: &str) -> Option<f64> {
    arm(rows, EARLY, "inline", threads)
}

const FOUR_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 16
     lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=1: 60000 - -
     lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=2: - 120000 -
     lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=16: - - 900000
     lock_release=early, sync=per-commit, in_flight=1, inserter=marks, streams=1: 15000 - -
     lock_release=early, sync=per-commit, in_flight=1, inserter=marks, streams=2: - 30000 -
     lock_release=early, sync=per-commit, in_flight=1, inserter=marks, streams=16: - - 230000
     lock_release=after-durable, sync=per-commit, in_flight=1, inserter=marks, streams=1: 14000 - -
     lock_release=after-durable, sync=per-commit, in_flight=1, inserter=marks, streams=2: - 27000 -
     lock_release=after-durable, sync=per-commit, in_flight=1, inserter=marks, streams=16: - - 180000
     lock_release=after-durable, sync=inline, in_flight=64, inserter=marks, streams=1: 11000 - -
     lock_release=after-durable, sync=inline, in_flight=64, inserter=marks, streams=2: - 20000 -
     lock_release=after-durable, sync=inline, in_flight=64, inserter=marks, streams=16: - - 90000",
);

const FOUR_ALIKE: CounterExample = CounterExample {
    system: "single commits that a helper thread gathers, so that all arms are group commit and none has contention",
    rows: "commits_per_second over threads 1 2 16
     lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=1: 60000 - -
     lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=2: - 60000 -
     lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=16: - - 60000
     lock_release=early, sync=per-commit, in_flight=1, inserter=marks, streams=1: 60000 - -
     lock_release=early, sync=per-commit, in_flight=1, inserter=marks, streams=2: - 60000 -
     lock_release=early, sync=per-commit, in_flight=1, inserter=marks, streams=16: - - 60000
     lock_release=after-durable, sync=per-commit, in_flight=1, inserter=marks, streams=1: 60000 - -
     lock_release=after-durable, sync=per-commit, in_flight=1, inserter=marks, streams=2: - 60000 -
     lock_release=after-durable, sync=per-commit, in_flight=1, inserter=marks, streams=16: - - 60000
     lock_release=after-durable, sync=inline, in_flight=64, inserter=marks, streams=1: 60000 - -
     lock_release=after-durable, sync=inline, in_flight=64, inserter=marks, streams=2: - 60000 -
     lock_release=after-durable, sync=inline, in_flight=64, inserter=marks, streams=16: - - 60000",
};

/// Claims about the order of the four variants with 2 threads, one for each processor of the
/// machine, and about the growth of the best variant.
pub const FOUR: &[Criterion] = &[
    Criterion::new(
        "group commit makes the difference with early release; to single commit, 2 threads",
        "IV-B, Figures 4 and 5",
        (Unit::Times, |rows| ratio(best(rows, "2"), arm(rows, EARLY, "per-commit", "2"))),
        Bounds { above: 1.2, below: 20.0 },
        FOUR_PAPER,
        FOUR_ALIKE,
    ),
    Criterion::new(
        "early release is superior with single commit; to release after durability, 2 threads",
        "IV-B, Figures 4 and 5",
        (Unit::Times, |rows| {
            ratio(arm(rows, EARLY, "per-commit", "2"), arm(rows, AFTER_DURABLE, "per-commit", "2"))
        }),
        Bounds { above: 1.0, below: 5.0 },
        FOUR_PAPER,
        FOUR_ALIKE,
    ),
    Criterion::new(
        "release after durability with group commit holds locks longest and is worst; the single commit to it, 2 threads",
        "III-B, Figures 4 and 5",
        (Unit::Times, |rows| {
            ratio(arm(rows, AFTER_DURABLE, "per-commit", "2"), arm(rows, AFTER_DURABLE, "inline", "2"))
        }),
        Bounds { above: 1.0, below: 10.0 },
        FOUR_PAPER,
        FOUR_ALIKE,
    ),
    Criterion::new(
        "early release with group commit is the optimal method; to the best of the others, the lesser of 2 and 16 threads",
        "IV-B, Figures 4 and 5",
        (Unit::Times, |rows| {
            least(["2", "16"].map(|threads| {
                let others =
                    [(EARLY, "per-commit"), (AFTER_DURABLE, "per-commit"), (AFTER_DURABLE, "inline")];
                let others = others.map(|(release, sync)| arm(rows, release, sync, threads));
                ratio(best(rows, threads), greatest(others))
            }))
        }),
        Bounds { above: 1.0, below: 20.0 },
        FOUR_PAPER,
        FOUR_ALIKE,
    ),
    Criterion::new(
        "and grows with the threads; 2 to one",
        "IV-B, Figures 4 and 5",
        (Unit::Times, |rows| ratio(best(rows, "2"), best(rows, "1"))),
        Bounds { above: 1.2, below: 2.2 },
        FOUR_PAPER,
        FOUR_ALIKE,
    ),
];

/// Ratio of the rate with logging to the rate without logging.
fn kept(rows: &Rows, threads: &str) -> Option<f64> {
    ratio(arm(rows, EARLY, "inline", threads), logging_off(rows, threads))
}

const SIX_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2
     durability=buffered: 150000 300000
     durability=durable, lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=1: 147000 -
     durability=durable, lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=2: - 295000",
);

const SIX_COSTS: CounterExample = CounterExample {
    system: "logging that waits for each record",
    rows: "commits_per_second over threads 1 2
     durability=buffered: 150000 300000
     durability=durable, lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=1: 45000 -
     durability=durable, lock_release=early, sync=inline, in_flight=64, inserter=marks, streams=2: - 90000",
};

pub const SIX: &[Criterion] = &[Criterion::new(
    "on a device of 15 us logging does not decrease performance; to logging off, the lesser of one thread and 2",
    "IV-B.1, Figure 6",
    (Unit::Times, |rows| least(["1", "2"].map(|threads| kept(rows, threads)))),
    Bounds { above: 0.9, below: 1.15 },
    SIX_PAPER,
    SIX_COSTS,
)];
