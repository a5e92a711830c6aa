//! Claims of the text about each figure of Efficient flushing, with the paper's numbers and the
//! systems that a claim must reject.
//!
//! Pure functions. Rates of Figure 5a are clients divided by the latencies of Table 1. Where the
//! text has only ratios, the rows are rates with these ratios.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{difference, greatest, least, mean, ratio, steps};
use crate::reproduce::rows::Rows;

pub const INSERT: &str = "insert";
pub const SYSBENCH: &str = "sysbench-write";
const SEARCH: &str = "update-search";
const THREADS: [&str; 5] = ["8", "16", "32", "64", "128"];
const EXISTING: &str = "slotted";
const PROPOSED: &str = "aggregated";

fn rate(rows: &Rows, work: &str, sync: &str, threads: &str) -> Option<f64> {
    rows.with(&[("work", work), ("sync", sync), ("threads", threads)]).only("commits_per_second")
}

/// Ratio of the proposed scheme's rate to that of the existing scheme.
fn gain(rows: &Rows, work: &str, threads: &str) -> Option<f64> {
    ratio(rate(rows, work, PROPOSED, threads), rate(rows, work, EXISTING, threads))
}

fn gains<'a>(
    rows: &'a Rows,
    work: &'a str,
    threads: &'a [&'a str],
) -> impl Iterator<Item = Option<f64>> + 'a {
    threads.iter().map(move |threads| gain(rows, work, threads))
}

const FIVE_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 8 16 32 64 128
     work=insert, sync=slotted: 12442 17131 61776 65507 54237
     work=insert, sync=aggregated: 47619 94675 110727 112281 70407
     work=update-search, sync=slotted: 10000 10000 10000 10000 10000
     work=update-search, sync=aggregated: 16000 28000 41000 17000 16000",
);

const NOTHING_GAINED: CounterExample = CounterExample {
    system: "aggregation that gains nothing",
    rows: "commits_per_second over threads 8 16 32 64 128
     work=insert, sync=slotted: 10000 20000 30000 40000 30000
     work=insert, sync=aggregated: 10000 20000 30000 40000 30000
     work=update-search, sync=slotted: 10000 20000 30000 40000 30000
     work=update-search, sync=aggregated: 10000 20000 30000 40000 30000",
};

/// Earlier results of Katydid, when its baseline, `grouped`, took the sync lock in each commit.
const GAIN_GROWS: CounterExample = CounterExample {
    system: "one lock for all syncs in place of slots, so that the gain grows with the threads and throughput with it",
    rows: "commits_per_second over threads 8 16 32 64 128
     work=insert, sync=slotted: 6000 6200 6500 6600 6700
     work=insert, sync=aggregated: 18000 34700 43600 65300 83100
     work=update-search, sync=slotted: 6000 6200 6500 6600 6700
     work=update-search, sync=aggregated: 18000 34700 45500 69300 90500",
};

pub const FIVE: &[Criterion] = &[
    Criterion::new(
        "inserts: the proposed scheme is ahead at each of 8 to 128 threads; the least gain",
        "4.1.1, Figure 5a",
        (Unit::Times, |rows| least(gains(rows, INSERT, &THREADS))),
        Bounds { above: 1.0, below: 5.5 },
        FIVE_PAPER,
        NOTHING_GAINED,
    ),
    Criterion::new(
        "inserts: the gain is much larger at 8 and 16 threads, where there is almost no consolidation; the lesser of these two to the greatest beyond",
        "4.1.1, Figure 5a",
        (Unit::Times, |rows| {
            let few = least(gains(rows, INSERT, &["8", "16"]));
            ratio(few, greatest(gains(rows, INSERT, &["32", "64", "128"])))
        }),
        Bounds { above: 1.2, below: 4.5 },
        FIVE_PAPER,
        GAIN_GROWS,
    ),
    Criterion::new(
        "inserts: the gain at 16 threads is within a factor of two of the paper's 5.5",
        "4.1.1, Figure 5a",
        (Unit::Times, |rows| gain(rows, INSERT, "16")),
        Bounds { above: 2.75, below: 11.0 },
        FIVE_PAPER,
        NOTHING_GAINED,
    ),
    Criterion::new(
        "inserts: both schemes peak at 64 threads and fall beyond; the greater of their rates at 128 to those at 64",
        "4.1.1, Figure 5a",
        (Unit::Times, |rows| {
            let fall = |sync| ratio(rate(rows, INSERT, sync, "128"), rate(rows, INSERT, sync, "64"));
            greatest([EXISTING, PROPOSED].map(fall))
        }),
        Bounds { above: 0.3, below: 1.0 },
        FIVE_PAPER,
        GAIN_GROWS,
    ),
    Criterion::new(
        "updates with searches: the proposed scheme is ahead at each of 8 to 128 threads; the least gain",
        "4.1.1, Figure 5b",
        (Unit::Times, |rows| least(gains(rows, SEARCH, &THREADS))),
        Bounds { above: 1.0, below: 4.1 },
        FIVE_PAPER,
        NOTHING_GAINED,
    ),
    Criterion::new(
        "updates with searches: the gain is largest at 32 threads; it to the greatest elsewhere",
        "4.1.1, Figure 5b",
        (Unit::Times, |rows| {
            ratio(gain(rows, SEARCH, "32"), greatest(gains(rows, SEARCH, &["8", "16", "64", "128"])))
        }),
        Bounds { above: 1.0, below: 3.0 },
        FIVE_PAPER,
        GAIN_GROWS,
    ),
    Criterion::new(
        "the gap is less with searches than with inserts; the means of the five gains",
        "4.1.1, Figure 5",
        (Unit::Times, |rows| ratio(mean(gains(rows, SEARCH, &THREADS)), mean(gains(rows, INSERT, &THREADS)))),
        Bounds { above: 0.4, below: 1.0 },
        FIVE_PAPER,
        GAIN_GROWS,
    ),
];

const SIX_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 8 16 32 64 128
     work=sysbench-write, sync=slotted: 1000 2200 3500 5000 6500
     work=sysbench-write, sync=aggregated: 6400 7260 8050 8500 9100",
);

const SIX_FLAT: CounterExample = CounterExample {
    system: "aggregation that gains nothing, on a device that takes so many syncs and no more",
    rows: "commits_per_second over threads 8 16 32 64 128
     work=sysbench-write, sync=slotted: 6000 6000 6000 6000 6000
     work=sysbench-write, sync=aggregated: 6000 6000 6000 6000 6000",
};

/// Earlier results of Katydid, when its baseline took the sync lock in each commit.
const SIX_GROWS: CounterExample = CounterExample {
    system: "one lock for all syncs in place of slots, so that the gain grows with the threads",
    rows: "commits_per_second over threads 8 16 32 64 128
     work=sysbench-write, sync=slotted: 5000 5500 6000 6500 7000
     work=sysbench-write, sync=aggregated: 14500 19250 28200 44850 49000",
};

pub const SIX: &[Criterion] = &[
    Criterion::new(
        "the proposed scheme is ahead at each of 8 to 128 threads; the least gain",
        "4.1.2, Figure 6",
        (Unit::Times, |rows| least(gains(rows, SYSBENCH, &THREADS))),
        Bounds { above: 1.0, below: 6.4 },
        SIX_PAPER,
        SIX_FLAT,
    ),
    Criterion::new(
        "the gain falls from 8 threads to 128; the first to the last",
        "4.1.2, Figure 6",
        (Unit::Times, |rows| ratio(gain(rows, SYSBENCH, "8"), gain(rows, SYSBENCH, "128"))),
        Bounds { above: 1.5, below: 9.2 },
        SIX_PAPER,
        SIX_GROWS,
    ),
    Criterion::new(
        "the gain falls with each doubling of the threads; the greatest step",
        "4.1.2, Figure 6",
        (Unit::Times, |rows| greatest(steps(gains(rows, SYSBENCH, &THREADS)))),
        Bounds { above: 0.25, below: 1.0 },
        SIX_PAPER,
        SIX_GROWS,
    ),
    Criterion::new(
        "the gain at 8 threads is within a factor of two of the paper's 6.4",
        "4.1.2, Figure 6",
        (Unit::Times, |rows| gain(rows, SYSBENCH, "8")),
        Bounds { above: 3.2, below: 12.8 },
        SIX_PAPER,
        SIX_FLAT,
    ),
    Criterion::new(
        "both schemes grow with the threads; the least of their rates at 128 to those at 8",
        "4.1.2, Figure 6",
        (Unit::Times, |rows| {
            let growth = |sync| ratio(rate(rows, SYSBENCH, sync, "128"), rate(rows, SYSBENCH, sync, "8"));
            least([EXISTING, PROPOSED].map(growth))
        }),
        Bounds { above: 1.0, below: 16.0 },
        SIX_PAPER,
        SIX_FLAT,
    ),
];

fn counter(rows: &Rows, sync: &str, threads: &str, column: &str) -> Option<f64> {
    rows.with(&[("work", INSERT), ("sync", sync), ("threads", threads)]).only(column)
}

/// Share that `column` has of an insert's time, in the existing scheme.
fn share(rows: &Rows, threads: &str, column: &str) -> Option<f64> {
    let of = |column| counter(rows, EXISTING, threads, column);
    ratio(of(column), of("mean_us"))
}

/// Ratio of the counts for each commit in the proposed scheme to those in the existing scheme.
fn fewer(rows: &Rows, threads: &str, column: &str) -> Option<f64> {
    let each = |sync| ratio(counter(rows, sync, threads, column), counter(rows, sync, threads, "commits"));
    ratio(each(PROPOSED), each(EXISTING))
}

/// The paper gives counts of operations in tens of thousands, and has 50,000 commits for each
/// thread.
const TABLE_PAPER: PaperRows = PaperRows(
    "commits over threads 8 16 32 64 128
     work=insert, sync=slotted: 400000 800000 1600000 3200000 6400000
     work=insert, sync=aggregated: 400000 800000 1600000 3200000 6400000
     mean_us over threads 8 16 32 64 128
     work=insert, sync=slotted: 643 934 518 977 2360
     work=insert, sync=aggregated: 168 169 289 570 1818
     lock_us_per_commit over threads 8 16 32 64 128
     work=insert, sync=slotted: 530 773 216 176 230
     work=insert, sync=aggregated: 119 90 101 107 173
     sync_us_per_commit over threads 8 16 32 64 128
     work=insert, sync=slotted: 70 48 12 8.3 7.8
     work=insert, sync=aggregated: 19 9.3 6.3 5 4.8
     slot_wait_us_per_commit over threads 8 16 32 64 128
     work=insert, sync=slotted: 2.6 70 193 551 1641
     work=insert, sync=aggregated: 2.8 37 135 375 1342
     sync_locks over threads 8 16 32 64 128
     work=insert, sync=slotted: 1569000 4345000 2355000 1306000 1119000
     work=insert, sync=aggregated: 394000 668000 813000 787000 809000
     syncs over threads 8 16 32 64 128
     work=insert, sync=slotted: 230000 333000 193000 211000 318000
     work=insert, sync=aggregated: 59000 64000 96000 144000 241000
     threads_per_slot over threads 8 16 32 64 128
     work=insert, sync=slotted: 0 1.2 4.5 6.2 9.4
     work=insert, sync=aggregated: 0 1.2 1.8 3.5 6.2
     requests_per_queue over threads 8 16 32 64 128
     work=insert, sync=slotted: 0 0 0 0 0
     work=insert, sync=aggregated: 7.7 11.4 9.4 6.4 4.4",
);

const NO_SLOTS: CounterExample = CounterExample {
    system: "syncs without slots that cover all that was written, so that the lock is most of the time only where there are many threads",
    rows: "commits over threads 8 16 32 64 128
     work=insert, sync=slotted: 6000 6000 6000 6000 6000
     work=insert, sync=aggregated: 6000 6000 6000 6000 6000
     mean_us over threads 8 16 32 64 128
     work=insert, sync=slotted: 300 500 900 1800 3600
     work=insert, sync=aggregated: 300 500 900 1800 3600
     lock_us_per_commit over threads 8 16 32 64 128
     work=insert, sync=slotted: 130 280 620 1500 3300
     work=insert, sync=aggregated: 130 280 620 1500 3300
     sync_us_per_commit over threads 8 16 32 64 128
     work=insert, sync=slotted: 100 60 30 20 10
     work=insert, sync=aggregated: 100 60 30 20 10
     slot_wait_us_per_commit over threads 8 16 32 64 128
     work=insert, sync=slotted: 0 0 0 0 0
     work=insert, sync=aggregated: 0 0 0 0 0
     sync_locks over threads 8 16 32 64 128
     work=insert, sync=slotted: 6000 6000 6000 6000 6000
     work=insert, sync=aggregated: 6000 6000 6000 6000 6000
     syncs over threads 8 16 32 64 128
     work=insert, sync=slotted: 3000 3000 3000 3000 3000
     work=insert, sync=aggregated: 3000 3000 3000 3000 3000
     threads_per_slot over threads 8 16 32 64 128
     work=insert, sync=slotted: 0 0 0 0 0
     work=insert, sync=aggregated: 0 0 0 0 0
     requests_per_queue over threads 8 16 32 64 128
     work=insert, sync=slotted: 0 0 0 0 0
     work=insert, sync=aggregated: 2 8 16 32 64",
};

pub const TABLE_ONE: &[Criterion] = &[
    Criterion::new(
        "waiting for the sync lock is 82 % of an insert at 8 and at 16 threads in the existing scheme; the lesser share",
        "4.1.3, Table 1",
        (Unit::Share, |rows| least(["8", "16"].map(|threads| share(rows, threads, "lock_us_per_commit")))),
        Bounds { above: 0.7, below: 1.0 },
        TABLE_PAPER,
        NO_SLOTS,
    ),
    Criterion::new(
        "and much less at 32; the difference to the lesser of these",
        "4.1.3, Table 1",
        (Unit::Points, |rows| {
            let lock = |threads| share(rows, threads, "lock_us_per_commit");
            difference(lock("32"), least([lock("8"), lock("16")]))
        }),
        Bounds { above: -0.8, below: -0.15 },
        TABLE_PAPER,
        NO_SLOTS,
    ),
    Criterion::new(
        "waiting for the slot's last thread takes its place at 64 and 128 threads; the lesser share there above the greater at 8 and 16",
        "4.1.3, Table 1",
        (Unit::Points, |rows| {
            let wait = |threads| share(rows, threads, "slot_wait_us_per_commit");
            difference(least([wait("64"), wait("128")]), greatest([wait("8"), wait("16")]))
        }),
        Bounds { above: 0.25, below: 1.0 },
        TABLE_PAPER,
        NO_SLOTS,
    ),
    Criterion::new(
        "the proposed scheme takes a quarter of the sync locks and syncs at 8 threads and less at 16; the greatest share",
        "4.1.3, Table 1",
        (Unit::Times, |rows| {
            let pairs = [("8", "sync_locks"), ("8", "syncs"), ("16", "sync_locks"), ("16", "syncs")];
            greatest(pairs.map(|(threads, column)| fewer(rows, threads, column)))
        }),
        Bounds { above: 0.1, below: 0.4 },
        TABLE_PAPER,
        NO_SLOTS,
    ),
    Criterion::new(
        "fewer requests aggregate as threads grow from 16 to 128; requests a queue, the last to the first",
        "4.1.3, Table 1",
        (Unit::Times, |rows| {
            let requests = |threads| counter(rows, PROPOSED, threads, "requests_per_queue");
            ratio(requests("128"), requests("16"))
        }),
        Bounds { above: 0.15, below: 0.75 },
        TABLE_PAPER,
        NO_SLOTS,
    ),
    Criterion::new(
        "the slower existing scheme consolidates more threads; threads a slot to the proposed scheme's, the least of 32 to 128",
        "4.1.3, Table 1",
        (Unit::Times, |rows| {
            let threads = |sync, threads| counter(rows, sync, threads, "threads_per_slot");
            let pair = |at| {
                let (existing, proposed) = (threads(EXISTING, at)?, threads(PROPOSED, at)?);
                // Slots that no threads share have no mean; they count as one thread each.
                Some(existing.max(1.0) / proposed.max(1.0))
            };
            least(["32", "64", "128"].map(pair))
        }),
        Bounds { above: 1.0, below: 5.0 },
        TABLE_PAPER,
        NO_SLOTS,
    ),
];
