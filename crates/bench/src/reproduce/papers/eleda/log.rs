//! Claims of ELEDA's text about its log alone and about a log in NVRAM, with the paper's numbers
//! and the systems that a claim must reject.
//!
//! Pure functions.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{greatest, least, ratio};
use crate::reproduce::rows::Rows;

/// Ratios of ELEDA's rate to the rate of the log of Fang et al. (`nv_direct`), one for each number
/// of threads.
fn to_nvram<'a>(rows: &'a Rows, work: &'a str) -> impl Iterator<Item = Option<f64>> + 'a {
    ["1", "2", "8", "32"].into_iter().map(move |threads| {
        let at = || rows.with(&[("work", work), ("threads", threads), ("delay_us", "0")]);
        let eleda = at().with("log", "disk").with("inserter", "grasshopper").with("sync", "pipelined");
        ratio(eleda.only("commits_per_second"), at().with("log", "nv_direct").only("commits_per_second"))
    })
}

fn in_both_works(rows: &Rows) -> impl Iterator<Item = Option<f64>> + '_ {
    to_nvram(rows, "update").chain(to_nvram(rows, "tpcc-pair"))
}

const FIFTEEN_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 8 32
     work=update, log=disk, inserter=grasshopper, sync=pipelined, delay_us=0: 200000 390000 1400000 3900000
     work=update, log=nv_direct, delay_us=0: 190000 390000 1300000 3700000
     work=tpcc-pair, log=disk, inserter=grasshopper, sync=pipelined, delay_us=0: 80000 150000 420000 1000000
     work=tpcc-pair, log=nv_direct, delay_us=0: 85000 155000 430000 950000",
);

const FIFTEEN_WAITS: CounterExample = CounterExample {
    system: "a log on disk whose clients wait for it",
    rows: "commits_per_second over threads 1 2 8 32
     work=update, log=disk, inserter=grasshopper, sync=pipelined, delay_us=0: 20000 30000 45000 55000
     work=update, log=nv_direct, delay_us=0: 190000 390000 1300000 3700000
     work=tpcc-pair, log=disk, inserter=grasshopper, sync=pipelined, delay_us=0: 8000 14000 25000 31000
     work=tpcc-pair, log=nv_direct, delay_us=0: 85000 155000 430000 950000",
};

pub const FIFTEEN: &[Criterion] = &[
    Criterion::new(
        "ELEDA on SSDs is comparable to the log in NVRAM; the least ratio of both works and all numbers of threads",
        "6.4.3, Figure 15",
        (Unit::Times, |rows| least(in_both_works(rows))),
        Bounds { above: 0.8, below: 1.25 },
        FIFTEEN_PAPER,
        FIFTEEN_WAITS,
    ),
    Criterion::new(
        "and sometimes better; the greatest ratio",
        "6.4.3, Figure 15",
        (Unit::Times, |rows| greatest(in_both_works(rows))),
        Bounds { above: 1.0, below: 3.0 },
        FIFTEEN_PAPER,
        FIFTEEN_WAITS,
    ),
];

fn txn(rows: &Rows, threads: &str, record: &str, column: &str) -> Option<f64> {
    let rows = rows.with(&[
        ("inserter", "grasshopper"),
        ("device", "file"),
        ("threads", threads),
        ("record", record),
    ]);
    rows.only(column)
}

/// Rates are transactions per second.
const SIXTEEN_PAPER: PaperRows = PaperRows(
    "records_per_second over record 128 512 1024 2048 4096
     inserter=grasshopper, device=file, threads=1: 450000 440000 430000 400000 300000
     inserter=grasshopper, device=file, threads=16: 1340000 1330000 1300000 1200000 600000
     megabytes_per_second over record 128 512 1024 2048 4096
     inserter=grasshopper, device=file, threads=1: 200 700 1400 2500 3800
     inserter=grasshopper, device=file, threads=16: 600 2200 4200 7300 7430
     p50_us over record 128
     inserter=grasshopper, device=file, threads=1: 300
     inserter=grasshopper, device=file, threads=16: 600
     p99_us over record 128
     inserter=grasshopper, device=file, threads=1: 500
     inserter=grasshopper, device=file, threads=16: 3000",
);

const SIXTEEN_ONE_LOCK: CounterExample = CounterExample {
    system: "a log that copies under a lock: fewer transactions with each byte and with each thread",
    rows: "records_per_second over record 128 512 1024 2048 4096
     inserter=grasshopper, device=file, threads=1: 450000 110000 56000 28000 28000
     inserter=grasshopper, device=file, threads=16: 150000 37000 19000 9000 9000
     megabytes_per_second over record 128 512 1024 2048 4096
     inserter=grasshopper, device=file, threads=1: 200 200 200 200 350
     inserter=grasshopper, device=file, threads=16: 60 60 60 60 110
     p50_us over record 128
     inserter=grasshopper, device=file, threads=1: 300
     inserter=grasshopper, device=file, threads=16: 5000
     p99_us over record 128
     inserter=grasshopper, device=file, threads=1: 500
     inserter=grasshopper, device=file, threads=16: 6000",
};

pub const SIXTEEN: &[Criterion] = &[
    Criterion::new(
        "throughput increases with the threads; 16 to one, with 128 bytes",
        "6.5.1, Figure 16a",
        (Unit::Times, |rows| {
            let rate = |threads| txn(rows, threads, "128", "records_per_second");
            ratio(rate("16"), rate("1"))
        }),
        Bounds { above: 1.1, below: 16.0 },
        SIXTEEN_PAPER,
        SIXTEEN_ONE_LOCK,
    ),
    Criterion::new(
        "the peak is sustained until records have 2 KiB; the rate there to that with 128 bytes",
        "6.5.1, Figure 16a",
        (Unit::Times, |rows| {
            let rate = |record| txn(rows, "16", record, "records_per_second");
            ratio(rate("2048"), rate("128"))
        }),
        Bounds { above: 0.75, below: 1.2 },
        SIXTEEN_PAPER,
        SIXTEEN_ONE_LOCK,
    ),
    Criterion::new(
        "and then decreases; the rate with 4 KiB to that with 2",
        "6.5.1, Figure 16a",
        (Unit::Times, |rows| {
            let rate = |record| txn(rows, "16", record, "records_per_second");
            ratio(rate("4096"), rate("2048"))
        }),
        Bounds { above: 0.3, below: 0.9 },
        SIXTEEN_PAPER,
        SIXTEEN_ONE_LOCK,
    ),
    Criterion::new(
        "more bandwidth is used as records grow; with 4 KiB to 128 bytes",
        "6.5.1, Figure 16b",
        (Unit::Times, |rows| {
            let bandwidth = |record| txn(rows, "16", record, "megabytes_per_second");
            ratio(bandwidth("4096"), bandwidth("128"))
        }),
        Bounds { above: 3.0, below: 32.0 },
        SIXTEEN_PAPER,
        SIXTEEN_ONE_LOCK,
    ),
    Criterion::new(
        "and with the threads; 16 to one, with 4 KiB",
        "6.5.1, Figure 16b",
        (Unit::Times, |rows| {
            let bandwidth = |threads| txn(rows, threads, "4096", "megabytes_per_second");
            ratio(bandwidth("16"), bandwidth("1"))
        }),
        Bounds { above: 1.1, below: 16.0 },
        SIXTEEN_PAPER,
        SIXTEEN_ONE_LOCK,
    ),
    Criterion::new(
        "more active threads widen the latency distribution; p99 to p50 with 16 threads, to the same with one",
        "6.5.1, Figure 16c",
        (Unit::Times, |rows| {
            let width =
                |threads| ratio(txn(rows, threads, "128", "p99_us"), txn(rows, threads, "128", "p50_us"));
            ratio(width("16"), width("1"))
        }),
        Bounds { above: 1.0, below: 30.0 },
        SIXTEEN_PAPER,
        SIXTEEN_ONE_LOCK,
    ),
];

fn of_unit(rows: &Rows, io_unit: &str, payload: &str, threads: &str, column: &str) -> Option<f64> {
    rows.with(&[("sync", "pipelined"), ("io_unit", io_unit), ("payload", payload), ("threads", threads)])
        .only(column)
}

/// Ratio of the median latency with a unit of 64 KiB to that with a unit of 512 KiB, with 32
/// clients.
fn sooner(rows: &Rows, payload: &str) -> Option<f64> {
    let p50 = |unit| of_unit(rows, unit, payload, "32", "p50_us");
    ratio(p50("65536"), p50("524288"))
}

const EIGHTEEN_PAPER: PaperRows = PaperRows(
    "p50_us over threads 32
     sync=pipelined, io_unit=65536, payload=120: 400
     sync=pipelined, io_unit=524288, payload=120: 4000
     sync=pipelined, io_unit=65536, payload=4096: 300
     sync=pipelined, io_unit=524288, payload=4096: 1500
     megabytes_per_second over threads 2
     sync=pipelined, io_unit=65536, payload=4096: 3400
     sync=pipelined, io_unit=524288, payload=4096: 7400",
);

const EIGHTEEN_CAP: CounterExample = CounterExample {
    system: "a unit that bounds a write and is not waited for, on a device whose speed does not depend on it",
    rows: "p50_us over threads 32
     sync=pipelined, io_unit=65536, payload=120: 400
     sync=pipelined, io_unit=524288, payload=120: 400
     sync=pipelined, io_unit=65536, payload=4096: 1500
     sync=pipelined, io_unit=524288, payload=4096: 1500
     megabytes_per_second over threads 2
     sync=pipelined, io_unit=65536, payload=4096: 3400
     sync=pipelined, io_unit=524288, payload=4096: 3400",
};

pub const EIGHTEEN: &[Criterion] = &[
    Criterion::new(
        "64 KiB answers an order of magnitude sooner than 512; median latencies with 120 bytes",
        "6.5.3, Figure 18",
        (Unit::Times, |rows| sooner(rows, "120")),
        Bounds { above: 0.02, below: 0.3 },
        EIGHTEEN_PAPER,
        EIGHTEEN_CAP,
    ),
    Criterion::new(
        "the smaller unit provides much shorter latencies in all results; median latencies, the greater ratio of 120 bytes and 4 KiB",
        "6.5.3, Figure 18",
        (Unit::Times, |rows| greatest(["120", "4096"].map(|payload| sooner(rows, payload)))),
        Bounds { above: 0.02, below: 0.7 },
        EIGHTEEN_PAPER,
        EIGHTEEN_CAP,
    ),
    Criterion::new(
        "512 KiB moves 6.9 GiB/s and 64 KiB 3.2; bandwidths with 4 KiB",
        "6.5.3, Figure 18",
        (Unit::Times, |rows| {
            let bandwidth = |unit| of_unit(rows, unit, "4096", "2", "megabytes_per_second");
            ratio(bandwidth("524288"), bandwidth("65536"))
        }),
        Bounds { above: 1.3, below: 4.3 },
        EIGHTEEN_PAPER,
        EIGHTEEN_CAP,
    ),
];
