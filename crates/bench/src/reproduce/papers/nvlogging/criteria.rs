//! Claims of the report on NV-Logging about its figures, with the report's numbers and the systems
//! that a claim must reject.
//!
//! Pure functions. The report has pictures and few numbers; rates are estimates that agree with its
//! text.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{greatest, least, ratio, steps};
use crate::reproduce::rows::Rows;

const PAPERS: &str = "nv_logging";
const CENTRAL: &str = "disk";

fn of(rows: &Rows, log: &str, threads: &str, delay_us: &str, column: &str) -> Option<f64> {
    rows.with(&[("log", log), ("threads", threads), ("delay_us", delay_us)]).only(column)
}

/// Ratio of NV-Logging's rate with ten clients to that of the central log on a memory disk without
/// added latency.
fn speed_up(rows: &Rows, delay_us: &str) -> Option<f64> {
    let rate = |log, delay_us| of(rows, log, "10", delay_us, "commits_per_second");
    ratio(rate(PAPERS, delay_us), rate(CENTRAL, "0"))
}

/// Latencies in microseconds that even a quick run measures.
const DELAYS: [&str; 3] = ["0", "0.4", "10"];

const SIX_PAPER: PaperRows = PaperRows(
    "commits_per_second over delay_us 0 0.4 10
     log=disk, threads=10: 1000 - -
     log=nv_logging, threads=10: 1340 1300 1050",
);

const SIX_NOTHING: CounterExample = CounterExample {
    system: "a log in NVRAM that gains nothing over the central one, and to which latency costs nothing",
    rows: "commits_per_second over delay_us 0 0.4 10
     log=disk, threads=10: 1000 - -
     log=nv_logging, threads=10: 1000 1000 1000",
};

pub const SIX: &[Criterion] = &[
    Criterion::new(
        "ahead of the central log on a memory disk at each latency up to 10 us; the least speed-up, the report's 1.05",
        "5.2, Figure 6",
        (Unit::Times, |rows| least(DELAYS.map(|delay| speed_up(rows, delay)))),
        Bounds { above: 1.0, below: 1.34 },
        SIX_PAPER,
        SIX_NOTHING,
    ),
    Criterion::new(
        "up to 1.34 times; the greatest speed-up",
        "5.2, Figure 6",
        (Unit::Times, |rows| greatest(DELAYS.map(|delay| speed_up(rows, delay)))),
        Bounds { above: 1.15, below: 1.8 },
        SIX_PAPER,
        SIX_NOTHING,
    ),
    Criterion::new(
        "less of it with 10 us than without added latency; the first to the second",
        "5.2, Figure 6",
        (Unit::Times, |rows| ratio(speed_up(rows, "10"), speed_up(rows, "0"))),
        Bounds { above: 0.5, below: 1.0 },
        SIX_PAPER,
        SIX_NOTHING,
    ),
];

/// Ratio of the time of a transaction with 200 clients to the time with 20.
fn longer(rows: &Rows, log: &str) -> Option<f64> {
    let latency = |threads| of(rows, log, threads, "0.4", "transaction_us");
    ratio(latency("200"), latency("20"))
}

const SEVEN_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 20 200
     log=disk, delay_us=0.4: 400 1000 700
     log=nv_logging, delay_us=0.4: 450 1300 1300
     transaction_us over threads 1 20 200
     log=disk, delay_us=0.4: 2500 20000 285000
     log=nv_logging, delay_us=0.4: 2200 15400 154000",
);

const SEVEN_DROPS: CounterExample = CounterExample {
    system: "a log in NVRAM that is as central as the other",
    rows: "commits_per_second over threads 1 20 200
     log=disk, delay_us=0.4: 400 1000 700
     log=nv_logging, delay_us=0.4: 400 1000 700
     transaction_us over threads 1 20 200
     log=disk, delay_us=0.4: 2500 20000 285000
     log=nv_logging, delay_us=0.4: 2500 20000 285000",
};

pub const SEVEN_AND_EIGHT: &[Criterion] = &[
    Criterion::new(
        "throughput does not drop beyond 20 clients; with 200 to 20",
        "5.3, Figure 7",
        (Unit::Times, |rows| {
            let rate = |threads| of(rows, PAPERS, threads, "0.4", "commits_per_second");
            ratio(rate("200"), rate("20"))
        }),
        Bounds { above: 0.9, below: 2.0 },
        SEVEN_PAPER,
        SEVEN_DROPS,
    ),
    Criterion::new(
        "latency increases less than the central log's; from 20 clients to 200, its growth to the other's",
        "5.3, Figure 8",
        (Unit::Times, |rows| ratio(longer(rows, PAPERS), longer(rows, CENTRAL))),
        Bounds { above: 0.2, below: 0.95 },
        SEVEN_PAPER,
        SEVEN_DROPS,
    ),
];

/// A column's values over the entries of the log, from the fewest to the most entries.
fn over_entries(rows: &Rows, column: &str) -> Vec<Option<f64>> {
    rows.with(&[("log", PAPERS)]).over("entries", column).into_iter().map(|(_, value)| Some(value)).collect()
}

/// Ratio of the value with the smallest log to the value with the largest log.
fn smallest_to_largest(rows: &Rows, column: &str) -> Option<f64> {
    let values = over_entries(rows, column);
    ratio(*values.first()?, *values.get(1..)?.last()?)
}

const NINE_PAPER: PaperRows = PaperRows(
    "checkpoints over entries 2000000 4000000 8000000 15000000
     log=nv_logging: 30 15 8 4
     commits_per_second over entries 2000000 4000000 8000000 15000000
     log=nv_logging: 1000 1100 1200 1300",
);

const NINE_FREE: CounterExample = CounterExample {
    system: "checkpoints that cost nothing and come at a fixed time",
    rows: "checkpoints over entries 2000000 4000000 8000000 15000000
     log=nv_logging: 10 10 10 10
     commits_per_second over entries 2000000 4000000 8000000 15000000
     log=nv_logging: 1300 1300 1300 1300",
};

pub const NINE: &[Criterion] = &[
    Criterion::new(
        "the number of checkpoints increases as that of the entries decreases; the fewest entries to the most",
        "5.4, Figure 9",
        (Unit::Times, |rows| smallest_to_largest(rows, "checkpoints")),
        Bounds { above: 1.5, below: 60.0 },
        NINE_PAPER,
        NINE_FREE,
    ),
    Criterion::new(
        "with each step of the size; the greatest step from fewer entries to more",
        "5.4, Figure 9",
        (Unit::Times, |rows| greatest(steps(over_entries(rows, "checkpoints")))),
        Bounds { above: 0.05, below: 1.0 },
        NINE_PAPER,
        NINE_FREE,
    ),
    Criterion::new(
        "throughput drops as the number of checkpoints increases; the fewest entries to the most",
        "5.4, Figure 9",
        (Unit::Times, |rows| smallest_to_largest(rows, "commits_per_second")),
        Bounds { above: 0.1, below: 1.0 },
        NINE_PAPER,
        NINE_FREE,
    ),
];
