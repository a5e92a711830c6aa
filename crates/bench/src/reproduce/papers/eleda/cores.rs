//! Claims of ELEDA's text about many cores, with the paper's numbers and the systems that a claim
//! must reject.
//!
//! Pure functions. All rows are simulated.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{difference, greatest, least, ratio};
use crate::reproduce::rows::Rows;
use crate::reproduce::simulator::{LATCH, WORDS};

const THREADS: [&str; 6] = ["1", "2", "4", "8", "16", "32"];

fn bandwidth(rows: &Rows, design: &str, record: &str, threads: &str) -> Option<f64> {
    rows.with(&[("inserter", design), ("record", record), ("threads", threads)]).only("megabytes_per_second")
}

fn of(rows: &Rows, design: &str, threads: &str) -> Option<f64> {
    bandwidth(rows, design, "1120", threads)
}

const EIGHT_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over threads 1 2 4 8 16 32
     inserter=consolidated, record=1120: 110 220 414 340 120 16
     inserter=grasshopper, record=1120: 112 218 430 780 1400 2180",
);

const EIGHT_SCALES: CounterExample = CounterExample {
    system: "a consolidation array without a lock that collapses",
    rows: "megabytes_per_second over threads 1 2 4 8 16 32
     inserter=consolidated, record=1120: 110 220 430 780 1400 2180
     inserter=grasshopper, record=1120: 112 218 430 780 1400 2180",
};

const EIGHT_ONE_LOCK: CounterExample = CounterExample {
    system: "holes that are tracked under a lock that collapses",
    rows: "megabytes_per_second over threads 1 2 4 8 16 32
     inserter=consolidated, record=1120: 110 220 414 340 120 16
     inserter=grasshopper, record=1120: 110 220 414 340 120 16",
};

pub const EIGHT: &[Criterion] = &[
    Criterion::new(
        "vanilla in memory peaks with 4 threads and then severely falls; the consolidation array with 32 threads to its greatest",
        "6.2.1, Figure 8a",
        (Unit::Times, |rows| {
            let most = greatest(THREADS.map(|threads| of(rows, "consolidated", threads)));
            ratio(of(rows, "consolidated", "32"), most)
        }),
        Bounds { above: 0.005, below: 0.7 },
        EIGHT_PAPER,
        EIGHT_SCALES,
    )
    .simulated(LATCH),
    Criterion::new(
        "ELEDA grows up to 32 threads; GRASSHOPPER with 32 to one",
        "6.2.1, Figure 8a",
        (Unit::Times, |rows| ratio(of(rows, "grasshopper", "32"), of(rows, "grasshopper", "1"))),
        Bounds { above: 8.0, below: 44.0 },
        EIGHT_PAPER,
        EIGHT_ONE_LOCK,
    )
    .simulated(WORDS),
    Criterion::new(
        "and is far ahead there; GRASSHOPPER to the consolidation array",
        "6.2.1, Figure 8a",
        (Unit::Times, |rows| ratio(of(rows, "grasshopper", "32"), of(rows, "consolidated", "32"))),
        Bounds { above: 2.0, below: 300.0 },
        EIGHT_PAPER,
        EIGHT_SCALES,
    )
    .simulated(LATCH),
];

/// Share of bytes over which the filled frontier crawls, with hops of 4 MiB.
fn crawled(rows: &Rows, record: &str, threads: &str) -> Option<f64> {
    rows.with(&[("hop_bytes", "4194304"), ("record", record), ("threads", threads)]).only("crawled")
}

const TWENTY_PAPER: PaperRows = PaperRows(
    "crawled over threads 1 2 4 8 16 32
     hop_bytes=4194304, record=120: 0.95 0.9 0.85 0.7 0.5 0.3
     hop_bytes=4194304, record=480: 0.98 0.95 0.9 0.8 0.65 0.5
     hop_bytes=4194304, record=1920: 1 1 0.97 0.92 0.85 0.75",
);

const TWENTY_CRAWLS: CounterExample = CounterExample {
    system: "a tracker that keeps up by crawling at any load",
    rows: "crawled over threads 1 2 4 8 16 32
     hop_bytes=4194304, record=120: 1 1 1 1 1 1
     hop_bytes=4194304, record=480: 1 1 1 1 1 1
     hop_bytes=4194304, record=1920: 1 1 1 1 1 1",
};

const TWENTY_HOPS: CounterExample = CounterExample {
    system: "a tracker that hops only",
    rows: "crawled over threads 1 2 4 8 16 32
     hop_bytes=4194304, record=120: 0 0 0 0 0 0",
};

pub const TWENTY: &[Criterion] = &[
    Criterion::new(
        "crawling makes the principal contribution with few threads; its share with one, 120 bytes",
        "6.5.4, Figure 20",
        (Unit::Share, |rows| crawled(rows, "120", "1")),
        Bounds { above: 0.5, below: 1.001 },
        TWENTY_PAPER,
        TWENTY_HOPS,
    )
    .simulated(WORDS),
    Criterion::new(
        "as threads increase crawling falls behind and hopping plays a key role; the share with 32 threads below that with one, 120 bytes",
        "6.5.4, Figure 20",
        (Unit::Points, |rows| difference(crawled(rows, "120", "32"), crawled(rows, "120", "1"))),
        Bounds { above: -1.0, below: -0.2 },
        TWENTY_PAPER,
        TWENTY_CRAWLS,
    )
    .simulated(WORDS),
    Criterion::new(
        "and as payloads decrease; the share with 120 bytes below that with 1,920, 32 threads",
        "6.5.4, Figure 20",
        (Unit::Points, |rows| difference(crawled(rows, "120", "32"), crawled(rows, "1920", "32"))),
        Bounds { above: -1.0, below: -0.1 },
        TWENTY_PAPER,
        TWENTY_CRAWLS,
    )
    .simulated(WORDS),
];

fn to_bitmap(rows: &Rows, record: &str, threads: &str) -> Option<f64> {
    ratio(bandwidth(rows, "grasshopper", record, threads), bandwidth(rows, "bitmap", record, threads))
}

const TWENTY_ONE_PAPER: PaperRows = PaperRows(
    "megabytes_per_second over threads 1 2 4 8 16 36
     inserter=bitmap, record=120: 30 42 42 42 42 42
     inserter=grasshopper, record=120: 35 70 130 250 450 700
     inserter=bitmap, record=4096: 35 42 42 42 42 42
     inserter=grasshopper, record=4096: 110 220 430 780 1400 2200",
);

const TWENTY_ONE_KEEPS_UP: CounterExample = CounterExample {
    system: "a scan that keeps up with any number of threads",
    rows: "megabytes_per_second over threads 1 2 4 8 16 36
     inserter=bitmap, record=120: 35 70 130 250 450 700
     inserter=grasshopper, record=120: 35 70 130 250 450 700
     inserter=bitmap, record=4096: 110 220 430 780 1400 2200
     inserter=grasshopper, record=4096: 110 220 430 780 1400 2200",
};

pub const TWENTY_ONE: &[Criterion] = &[
    Criterion::new(
        "scanning hits its maximum even with 2 threads; with 36 to 2, the greater of 120 bytes and 4 KiB",
        "6.5.4, Figure 21",
        (Unit::Times, |rows| {
            greatest(["120", "4096"].map(|record| {
                ratio(bandwidth(rows, "bitmap", record, "36"), bandwidth(rows, "bitmap", record, "2"))
            }))
        }),
        Bounds { above: 0.2, below: 8.0 },
        TWENTY_ONE_PAPER,
        TWENTY_ONE_KEEPS_UP,
    )
    .simulated(LATCH),
    Criterion::new(
        "GRASSHOPPER is ahead with most threads; with 36, the lesser of 120 bytes and 4 KiB",
        "6.5.4, Figure 21",
        (Unit::Times, |rows| least(["120", "4096"].map(|record| to_bitmap(rows, record, "36")))),
        Bounds { above: 1.0, below: 200.0 },
        TWENTY_ONE_PAPER,
        TWENTY_ONE_KEEPS_UP,
    )
    .simulated(LATCH),
    Criterion::new(
        "and by more than with one thread; the lead with 36 to that with one, 4 KiB",
        "6.5.4, Figure 21",
        (Unit::Times, |rows| ratio(to_bitmap(rows, "4096", "36"), to_bitmap(rows, "4096", "1"))),
        Bounds { above: 2.0, below: 100.0 },
        TWENTY_ONE_PAPER,
        TWENTY_ONE_KEEPS_UP,
    )
    .simulated(LATCH),
];
