//! Claims of Aether's text about its figures on the log buffer, with the paper's numbers and the
//! systems that a claim must reject.
//!
//! Pure functions. All rows are simulated.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{difference, greatest, least, mean, ratio};
use crate::reproduce::rows::Rows;
use crate::reproduce::simulator::{LATCH, ONE_THREAD};

/// Share of transactions that one log behind a lock loses, compared with a log for each thread.
/// Both systems take timestamps from one counter.
fn lost(rows: &Rows, threads: &str) -> Option<f64> {
    let of = |design| rows.with(&[("threads", threads)]).only(design);
    Some(1.0 - ratio(of("serial"), of("parallel-counter"))?)
}

const SEVEN_PAPER: PaperRows = PaperRows(
    "parallel-counter over threads 1 8 16 32 64
     : 20000 160000 320000 640000 1280000
     serial over threads 1 8 16 32 64
     : 20000 156000 300000 520000 820000",
);

const SEVEN_FREE: CounterExample = CounterExample {
    system: "a log buffer that threads do not contend for",
    rows: "parallel-counter over threads 1 8 16 32 64
     : 20000 160000 320000 640000 1280000
     serial over threads 1 8 16 32 64
     : 19900 159000 318000 636000 1270000",
};

pub const SEVEN: &[Criterion] = &[
    Criterion::new(
        "at full load contention for the log buffer takes more than 35 % of the execution time; the share lost with 64 threads",
        "6.2, Figure 7",
        (Unit::Share, |rows| lost(rows, "64")),
        Bounds { above: 0.35, below: 0.95 },
        SEVEN_PAPER,
        SEVEN_FREE,
    )
    .simulated(LATCH),
    Criterion::new(
        "the time in contention grows with the load; the share with 64 threads above that with 8",
        "6.2, Figure 7",
        (Unit::Points, |rows| difference(lost(rows, "64"), lost(rows, "8"))),
        Bounds { above: 0.1, below: 0.95 },
        SEVEN_PAPER,
        SEVEN_FREE,
    )
    .simulated(LATCH),
];

fn bandwidth(rows: &Rows, design: &str, threads: &str) -> Option<f64> {
    rows.with(&[("inserter", design), ("threads", threads)]).only("megabytes_per_second")
}

const THREADS: [&str; 7] = ["1", "2", "4", "8", "16", "32", "64"];

const EIGHT_LEFT_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over threads 1 2 4 8 16 32 64
     inserter=mutex: 90 130 140 138 132 126 120
     inserter=consolidated: 60 90 140 280 550 1050 1500
     inserter=decoupled: 88 170 320 500 400 260 180
     inserter=hybrid: 80 160 310 620 1200 2000 2400",
);

/// A log buffer without the effects of the designs.
const EIGHT_LEFT_LOCKS: CounterExample = CounterExample {
    system: "designs that are one lock, each",
    rows: "megabytes_per_second over threads 1 2 4 8 16 32 64
     inserter=mutex: 90 130 140 138 132 126 120
     inserter=consolidated: 90 130 140 138 132 126 120
     inserter=decoupled: 90 130 140 138 132 126 120
     inserter=hybrid: 90 130 140 138 132 126 120",
};

const EIGHT_LEFT_SCALES: CounterExample = CounterExample {
    system: "a lock that does not saturate",
    rows: "megabytes_per_second over threads 1 2 4 8 16 32 64
     inserter=mutex: 90 170 340 680 1300 2500 5000",
};

pub const EIGHT_LEFT: &[Criterion] = &[
    Criterion::new(
        "the baseline is quickly saturated; its greatest rate to that of one thread",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| {
            let most = greatest(THREADS.map(|threads| bandwidth(rows, "mutex", threads)));
            ratio(most, bandwidth(rows, "mutex", "1"))
        }),
        Bounds { above: 0.5, below: 8.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_SCALES,
    )
    .simulated(LATCH),
    Criterion::new(
        "and falls slowly; its rate with 64 threads to its greatest",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| {
            let most = greatest(THREADS.map(|threads| bandwidth(rows, "mutex", threads)));
            ratio(bandwidth(rows, "mutex", "64"), most)
        }),
        Bounds { above: 0.3, below: 1.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_SCALES,
    )
    .simulated(LATCH),
    Criterion::new(
        "consolidation starts out lower than the baseline; with one thread",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| ratio(bandwidth(rows, "consolidated", "1"), bandwidth(rows, "mutex", "1"))),
        Bounds { above: 0.2, below: 1.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_LOCKS,
    )
    .simulated(ONE_THREAD),
    Criterion::new(
        "and then scales linearly; from 8 threads to 64",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| {
            ratio(bandwidth(rows, "consolidated", "64"), bandwidth(rows, "consolidated", "8"))
        }),
        Bounds { above: 3.0, below: 10.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "decoupling performs better at first; with 8 threads to consolidation",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| ratio(bandwidth(rows, "decoupled", "8"), bandwidth(rows, "consolidated", "8"))),
        Bounds { above: 1.0, below: 12.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "and worse than consolidation at last; consolidation to it with 64 threads",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| {
            ratio(bandwidth(rows, "consolidated", "64"), bandwidth(rows, "decoupled", "64"))
        }),
        Bounds { above: 1.0, below: 60.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "the hybrid scales nearly linearly; from 1 thread to 64",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| ratio(bandwidth(rows, "hybrid", "64"), bandwidth(rows, "hybrid", "1"))),
        Bounds { above: 5.0, below: 128.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "the hybrid is ahead of both its parts with 64 threads; to the better of them",
        "6.3.1, Figure 8 left",
        (Unit::Times, |rows| {
            let parts = ["consolidated", "decoupled"].map(|design| bandwidth(rows, design, "64"));
            ratio(bandwidth(rows, "hybrid", "64"), greatest(parts))
        }),
        Bounds { above: 1.0, below: 10.0 },
        EIGHT_LEFT_PAPER,
        EIGHT_LEFT_LOCKS,
    )
    .simulated(LATCH),
];

fn of_size(rows: &Rows, sweep: &str, design: &str, record: &str) -> Option<f64> {
    rows.with(&[("sweep", sweep), ("inserter", design), ("record", record)]).only("megabytes_per_second")
}

/// Ratio of one design's bandwidth to another's, when records of one size are inserted into the
/// ring.
fn at_size(rows: &Rows, design: &str, other: &str, record: &str) -> Option<f64> {
    ratio(of_size(rows, "size", design, record), of_size(rows, "size", other, record))
}

const SIZES: [&str; 8] = ["48", "120", "264", "480", "1024", "1920", "4096", "12288"];

const EIGHT_RIGHT_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over record 48 120 264 480 1024 1920 4096 12288
     sweep=size, inserter=mutex: 60 120 230 350 600 900 1400 2200
     sweep=size, inserter=consolidated: 600 1400 2200 2600 3000 3300 3800 5500
     sweep=size, inserter=decoupled: 90 180 400 800 1900 3800 5200 6400
     sweep=size, inserter=hybrid: 900 2200 3600 4600 5400 6000 6400 6600
     sweep=size-cached, inserter=hybrid: 900 2300 4700 8000 13000 17000 20000 21000",
);

const EIGHT_RIGHT_LOCKS: CounterExample = CounterExample {
    system: "designs that are one lock, each, whose bandwidth does not depend on the size",
    rows: "megabytes_per_second over record 48 120 264 480 1024 1920 4096 12288
     sweep=size, inserter=mutex: 140 140 140 140 140 140 140 140
     sweep=size, inserter=consolidated: 140 140 140 140 140 140 140 140
     sweep=size, inserter=decoupled: 140 140 140 140 140 140 140 140
     sweep=size, inserter=hybrid: 140 140 140 140 140 140 140 140
     sweep=size-cached, inserter=hybrid: 140 140 140 140 140 140 140 140",
};

/// Earlier results of the inserters, when records above 1 KiB formed no groups.
const EIGHT_RIGHT_CLIFF: CounterExample = CounterExample {
    system: "groups of records up to 1 KiB only",
    rows: "megabytes_per_second over record 48 120 264 480 1024 1920 4096 12288
     sweep=size, inserter=mutex: 71 80 110 137 169 197 224 252
     sweep=size, inserter=consolidated: 722 1541 2500 3528 4172 168 159 192
     sweep=size, inserter=decoupled: 68 147 250 383 733 1461 2941 9881
     sweep=size, inserter=hybrid: 1103 2685 5000 9832 9994 1461 2941 9881",
};

pub const EIGHT_RIGHT: &[Criterion] = &[
    Criterion::new(
        "the baseline performs better as records grow; from 48 bytes to 12 KiB",
        "6.3.2, Figure 8 right",
        (Unit::Times, |rows| ratio(of_size(rows, "size", "mutex", "12288"), of_size(rows, "size", "mutex", "48"))),
        Bounds { above: 1.0, below: 256.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "all other designs are more attractive at every size; the least of all to the baseline",
        "6.3.2, Figure 8 right",
        (Unit::Times, |rows| {
            let designs = ["consolidated", "decoupled", "hybrid"];
            least(designs.map(|design| least(SIZES.map(|size| at_size(rows, design, "mutex", size)))))
        }),
        Bounds { above: 1.0, below: 20.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_CLIFF,
    )
    .simulated(LATCH),
    Criterion::new(
        "consolidation performs better than decoupling at small sizes; the lesser ratio of 48 and 120 bytes",
        "6.3.2, Figure 8 right",
        (Unit::Times, |rows| least(["48", "120"].map(|size| at_size(rows, "consolidated", "decoupled", size)))),
        Bounds { above: 1.0, below: 100.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "decoupling fares better over 1 KiB; the least ratio of 1,920 bytes to 12 KiB",
        "6.3.2, Figure 8 right",
        (Unit::Times, |rows| {
            least(["1920", "4096", "12288"].map(|size| at_size(rows, "decoupled", "consolidated", size)))
        }),
        Bounds { above: 1.0, below: 6.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "the hybrid is significantly ahead of both its parts across the range; the least ratio to the better, up to 4 KiB, where memory limits all",
        "6.3.2, Figure 8 right",
        (Unit::Times, |rows| {
            least(SIZES[..7].iter().map(|size| {
                least([at_size(rows, "hybrid", "consolidated", size), at_size(rows, "hybrid", "decoupled", size)])
            }))
        }),
        Bounds { above: 1.1, below: 10.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_CLIFF,
    )
    .simulated(LATCH),
    Criterion::new(
        "into storage that stays in the cache the hybrid scales with the size; from 120 bytes to 4 KiB",
        "6.3.2, Figure 8 right",
        (Unit::Times, |rows| {
            let cached = |size| of_size(rows, "size-cached", "hybrid", size);
            ratio(cached("4096"), cached("120"))
        }),
        Bounds { above: 2.0, below: 40.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_LOCKS,
    )
    .simulated(LATCH),
    Criterion::new(
        "up to 21 GB/s; the greatest, within a factor of two",
        "6.3.2, Figure 8 right",
        (Unit::Megabytes, |rows| greatest(SIZES.map(|size| of_size(rows, "size-cached", "hybrid", size)))),
        Bounds { above: 10_500.0, below: 42_000.0 },
        EIGHT_RIGHT_PAPER,
        EIGHT_RIGHT_LOCKS,
    )
    .simulated(LATCH),
];

/// Ratio of the hybrid's rate to that of one lock.
fn to_one_lock(rows: &Rows, threads: &str) -> Option<f64> {
    ratio(bandwidth(rows, "hybrid", threads), bandwidth(rows, "mutex", threads))
}

const NINE_CORES_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over threads 1 8 16 32 64
     inserter=mutex: 2.4 19 38 75 135
     inserter=hybrid: 2.4 19 38 76 144.5",
);

const NINE_CORES_FLAT: CounterExample = CounterExample {
    system: "a log buffer that gains nothing",
    rows: "megabytes_per_second over threads 1 8 16 32 64
     inserter=mutex: 2.4 19 38 75 135
     inserter=hybrid: 2.4 19 38 75 135",
};

pub const NINE_CORES: &[Criterion] = &[
    Criterion::new(
        "the scalable log buffer adds 7 % with 64 threads; to one lock, no more than twice as much in all",
        "6.4, Figure 9",
        (Unit::Times, |rows| to_one_lock(rows, "64")),
        Bounds { above: 1.0, below: 2.0 },
        NINE_CORES_PAPER,
        NINE_CORES_FLAT,
    )
    .simulated(LATCH),
    Criterion::new(
        "contention grows with the threads; the gain with 64 to that with 8",
        "6.4, Figure 9",
        (Unit::Times, |rows| ratio(to_one_lock(rows, "64"), to_one_lock(rows, "8"))),
        Bounds { above: 1.0, below: 2.0 },
        NINE_CORES_PAPER,
        NINE_CORES_FLAT,
    )
    .simulated(LATCH),
];

fn with_outlier(rows: &Rows, design: &str, outlier: &str) -> Option<f64> {
    rows.with(&[("inserter", design), ("outlier", outlier)]).only("megabytes_per_second")
}

fn delegated_to_hybrid(rows: &Rows, outlier: &str) -> Option<f64> {
    ratio(with_outlier(rows, "delegated", outlier), with_outlier(rows, "hybrid", outlier))
}

const ELEVEN_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over outlier 64 256 1024 4096 8192 16384 65536 262144
     inserter=hybrid: 1000 1050 1200 1600 2000 2050 2100 2200
     inserter=delegated: 900 950 1100 1550 2000 2700 4000 4400",
);

const ELEVEN_SAME: CounterExample = CounterExample {
    system: "delegated release that waits for the order all the same",
    rows: "megabytes_per_second over outlier 64 256 1024 4096 8192 16384 65536 262144
     inserter=hybrid: 1000 1050 1200 1600 2000 2050 2100 2200
     inserter=delegated: 1000 1050 1200 1600 2000 2050 2100 2200",
};

const ELEVEN_IMMUNE: CounterExample = CounterExample {
    system: "release in order that large records do not hold up",
    rows: "megabytes_per_second over outlier 64 256 1024 4096 8192 16384 65536 262144
     inserter=hybrid: 900 950 1100 1550 2000 2700 5000 9000
     inserter=delegated: 900 950 1100 1550 2000 2700 5000 9000",
};

pub const ELEVEN: &[Criterion] = &[
    Criterion::new(
        "delegated release is around 10 % lower under normal circumstances; the mean ratio up to 1 KiB",
        "A.3, Figure 11",
        (Unit::Times, |rows| mean(["64", "256", "1024"].map(|outlier| delegated_to_hybrid(rows, outlier)))),
        Bounds { above: 0.6, below: 1.0 },
        ELEVEN_PAPER,
        ELEVEN_SAME,
    )
    .simulated(LATCH),
    Criterion::new(
        "release in order stops scaling at outliers of 8 KiB; from there to 64 KiB",
        "A.3, Figure 11",
        (Unit::Times, |rows| {
            ratio(with_outlier(rows, "hybrid", "65536"), with_outlier(rows, "hybrid", "8192"))
        }),
        Bounds { above: 0.5, below: 1.5 },
        ELEVEN_PAPER,
        ELEVEN_IMMUNE,
    )
    .simulated(LATCH),
    Criterion::new(
        "delegated release achieves up to double the performance beyond 64 KiB; the greater ratio",
        "A.3, Figure 11",
        (Unit::Times, |rows| greatest(["65536", "262144"].map(|outlier| delegated_to_hybrid(rows, outlier)))),
        Bounds { above: 1.0, below: 4.0 },
        ELEVEN_PAPER,
        ELEVEN_SAME,
    )
    .simulated(LATCH),
];

const SLOTS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

fn with_slots(rows: &Rows, threads: &str, slots: &str) -> Option<f64> {
    rows.with(&[("inserter", "consolidated"), ("threads", threads), ("slots", slots)])
        .only("megabytes_per_second")
}

/// The number of slots with the greatest bandwidth.
fn best_slots(rows: &Rows, threads: &str) -> Option<f64> {
    let most = greatest(SLOTS.map(|slots| with_slots(rows, threads, slots)))?;
    let best = SLOTS.iter().find(|slots| with_slots(rows, threads, slots) == Some(most))?;
    best.parse().ok()
}

const TWELVE_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over slots 1 2 3 4 5 6 7 8 9 10
     inserter=consolidated, threads=4: 150 140 130 125 120 115 112 110 108 105
     inserter=consolidated, threads=16: 400 520 550 540 520 500 490 480 470 460
     inserter=consolidated, threads=64: 700 1100 1400 1500 1480 1450 1420 1400 1380 1350",
);

const TWELVE_MORE: CounterExample = CounterExample {
    system: "an array that gains with each slot, at every number of threads",
    rows: "megabytes_per_second over slots 1 2 3 4 5 6 7 8 9 10
     inserter=consolidated, threads=4: 100 200 300 400 500 600 700 800 900 1000
     inserter=consolidated, threads=16: 100 200 300 400 500 600 700 800 900 1000
     inserter=consolidated, threads=64: 100 200 300 400 500 600 700 800 900 1000",
};

const TWELVE_NOTHING: CounterExample = CounterExample {
    system: "an array whose size does not matter",
    rows: "megabytes_per_second over slots 1 2 3 4 5 6 7 8 9 10
     inserter=consolidated, threads=64: 500 500 500 500 500 500 500 500 500 500",
};

pub const TWELVE: &[Criterion] = &[
    Criterion::new(
        "peak performance is achieved with 3 to 4 slots; four to the best number with 64 threads",
        "A.4, Figure 12",
        (Unit::Times, |rows| {
            ratio(with_slots(rows, "64", "4"), greatest(SLOTS.map(|slots| with_slots(rows, "64", slots))))
        }),
        Bounds { above: 0.85, below: 1.001 },
        TWELVE_PAPER,
        TWELVE_MORE,
    )
    .simulated(LATCH),
    Criterion::new(
        "high thread counts require a larger array; one slot to four with 64 threads",
        "A.4, Figure 12",
        (Unit::Times, |rows| ratio(with_slots(rows, "64", "1"), with_slots(rows, "64", "4"))),
        Bounds { above: 0.05, below: 1.0 },
        TWELVE_PAPER,
        TWELVE_NOTHING,
    )
    .simulated(LATCH),
    Criterion::new(
        "and lower thread counts peak with fewer; the best number with 64 threads less that with 4",
        "A.4, Figure 12",
        (Unit::Count, |rows| difference(best_slots(rows, "64"), best_slots(rows, "4"))),
        Bounds { above: 0.0, below: 5.0 },
        TWELVE_PAPER,
        TWELVE_MORE,
    )
    .simulated(1.0),
];
