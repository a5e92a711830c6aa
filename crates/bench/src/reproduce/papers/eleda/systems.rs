//! Claims of ELEDA's text about its figures that compare systems, with the paper's numbers and the
//! systems that a claim must reject.
//!
//! Pure functions. `vanilla` is WiredTiger on a device, `vanilla in memory` is WiredTiger on tmpfs.
//! In the paper's numbers, the rates of these two systems with 32 threads in Figures 8 and 10 are
//! threads divided by the latencies of Figures 9 and 11.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{greatest, least, ratio};
use crate::reproduce::rows::Rows;

pub const KEY_VALUE: &str = "update-search";
pub const OLTP: &str = "sysbench-write";
pub const TPCC: &str = "tpcc-pair";
const INSERT: &str = "insert";
const VANILLA: &str = "vanilla";
const IN_MEMORY: &str = "vanilla in memory";
const HIDING: &str = "hiding";
const ELEDA: &str = "ELEDA";

fn of(rows: &Rows, work: &str, system: &str, threads: &str, column: &str) -> Option<f64> {
    rows.with(&[("work", work), ("system", system), ("threads", threads)]).only(column)
}

fn rate(rows: &Rows, work: &str, system: &str, threads: &str) -> Option<f64> {
    of(rows, work, system, threads, "commits_per_second")
}

/// Ratio of one system's rate to another system's rate.
fn to(rows: &Rows, work: &str, system: &str, other: &str, threads: &str) -> Option<f64> {
    ratio(rate(rows, work, system, threads), rate(rows, work, other, threads))
}

/// Ratio of a system's rate with `threads` threads to its rate with `from` threads.
fn growth(rows: &Rows, work: &str, system: &str, from: &str, threads: &str) -> Option<f64> {
    ratio(rate(rows, work, system, threads), rate(rows, work, system, from))
}

const EIGHT_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 8 32
     work=update-search, system=vanilla: 20000 30000 45000 55000
     work=update-search, system=vanilla in memory: 250000 450000 600000 29000
     work=update-search, system=ELEDA: 200000 390000 1400000 3900000
     mean_us over threads 32
     work=update-search, system=vanilla: 576
     work=update-search, system=vanilla in memory: 1100
     work=update-search, system=ELEDA: 1300",
);

const EIGHT_BLOCKS: CounterExample = CounterExample {
    system: "clients that block in each commit all the same",
    rows: "commits_per_second over threads 1 2 8 32
     work=update-search, system=vanilla: 20000 40000 160000 640000
     work=update-search, system=ELEDA: 20000 40000 160000 640000
     mean_us over threads 32
     work=update-search, system=vanilla: 50
     work=update-search, system=ELEDA: 50",
};

pub const EIGHT: &[Criterion] = &[
    Criterion::new(
        "hiding the latency gains 10 times with one thread; ELEDA to vanilla, within a factor of two",
        "6.2.1, Figure 8a",
        (Unit::Times, |rows| to(rows, KEY_VALUE, ELEDA, VANILLA, "1")),
        Bounds { above: 5.0, below: 20.0 },
        EIGHT_PAPER,
        EIGHT_BLOCKS,
    ),
    Criterion::new(
        "and 71 times with 32; the gain there to that with one thread",
        "6.2.1, Figure 8a",
        (Unit::Times, |rows| {
            let gain = |threads| to(rows, KEY_VALUE, ELEDA, VANILLA, threads);
            ratio(gain("32"), gain("1"))
        }),
        Bounds { above: 1.0, below: 14.0 },
        EIGHT_PAPER,
        EIGHT_BLOCKS,
    ),
    Criterion::new(
        "vanilla almost flattens out from the beginning; its rate with 32 threads to that with 2",
        "6.2.1, Figure 8a",
        (Unit::Times, |rows| growth(rows, KEY_VALUE, VANILLA, "2", "32")),
        Bounds { above: 0.5, below: 3.0 },
        EIGHT_PAPER,
        EIGHT_BLOCKS,
    ),
    Criterion::new(
        "ELEDA's commits take longer, 1.3 ms instead of 0.58; mean times with 32 threads",
        "6.2.2, Figure 9",
        (Unit::Times, |rows| {
            let mean = |system| of(rows, KEY_VALUE, system, "32", "mean_us");
            ratio(mean(ELEDA), mean(VANILLA))
        }),
        Bounds { above: 1.1, below: 9.0 },
        EIGHT_PAPER,
        EIGHT_BLOCKS,
    ),
];

const TEN_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 8 32
     work=sysbench-write, system=vanilla: 8000 14000 25000 31000
     work=sysbench-write, system=vanilla in memory: 120000 230000 380000 12800
     work=sysbench-write, system=ELEDA: 80000 150000 420000 1000000
     mean_us over threads 32
     work=sysbench-write, system=vanilla: 1000
     work=sysbench-write, system=vanilla in memory: 2500
     work=sysbench-write, system=ELEDA: 3700",
);

const TEN_BLOCKS: CounterExample = CounterExample {
    system: "clients that block in each commit all the same",
    rows: "commits_per_second over threads 1 2 8 32
     work=sysbench-write, system=vanilla: 8000 16000 64000 256000
     work=sysbench-write, system=ELEDA: 8000 16000 64000 256000
     mean_us over threads 32
     work=sysbench-write, system=vanilla: 125
     work=sysbench-write, system=ELEDA: 125",
};

pub const TEN: &[Criterion] = &[
    Criterion::new(
        "hiding the latency gains with one thread as consistently as in Figure 8; ELEDA to vanilla, 5 to 20 times",
        "6.2.1, 6.3.1, Figure 10a",
        (Unit::Times, |rows| to(rows, OLTP, ELEDA, VANILLA, "1")),
        Bounds { above: 5.0, below: 20.0 },
        TEN_PAPER,
        TEN_BLOCKS,
    ),
    Criterion::new(
        "and 32 times with 32 threads; the gain there to that with one",
        "6.3.1, Figure 10a",
        (Unit::Times, |rows| {
            let gain = |threads| to(rows, OLTP, ELEDA, VANILLA, threads);
            ratio(gain("32"), gain("1"))
        }),
        Bounds { above: 1.0, below: 7.0 },
        TEN_PAPER,
        TEN_BLOCKS,
    ),
    Criterion::new(
        "ELEDA's commits take longer, 3.7 ms instead of 1; mean times with 32 threads",
        "6.3.2, Figure 11",
        (Unit::Times, |rows| {
            let mean = |system| of(rows, OLTP, system, "32", "mean_us");
            ratio(mean(ELEDA), mean(VANILLA))
        }),
        Bounds { above: 1.1, below: 15.0 },
        TEN_PAPER,
        TEN_BLOCKS,
    ),
];

const TWELVE_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 8 32
     work=tpcc-pair, system=vanilla: 3000 5000 12000 15000
     work=tpcc-pair, system=vanilla in memory: 12000 24000 80000 30000
     work=tpcc-pair, system=ELEDA: 12000 24000 85000 200000",
);

const TWELVE_COLLAPSES: CounterExample = CounterExample {
    system: "a log whose holes are tracked under one lock, which collapses with ELEDA too",
    rows: "commits_per_second over threads 1 2 8 32
     work=tpcc-pair, system=vanilla: 3000 5000 12000 15000
     work=tpcc-pair, system=vanilla in memory: 12000 24000 80000 30000
     work=tpcc-pair, system=ELEDA: 12000 24000 80000 30000",
};

const TWELVE_WAITS: CounterExample = CounterExample {
    system: "clients that wait for the device, beside a log in memory that does not collapse",
    rows: "commits_per_second over threads 1 2 8 32
     work=tpcc-pair, system=vanilla: 3000 5000 12000 15000
     work=tpcc-pair, system=vanilla in memory: 12000 24000 80000 200000
     work=tpcc-pair, system=ELEDA: 3000 5000 12000 15000",
};

pub const TWELVE: &[Criterion] = &[
    Criterion::new(
        "ELEDA shows no collapse; its rate with 32 threads to its greatest",
        "6.3.3, Figure 12",
        (Unit::Times, |rows| {
            let most = greatest(["1", "2", "8", "32"].map(|threads| rate(rows, TPCC, ELEDA, threads)));
            ratio(rate(rows, TPCC, ELEDA, "32"), most)
        }),
        Bounds { above: 0.8, below: 1.001 },
        TWELVE_PAPER,
        TWELVE_COLLAPSES,
    ),
    Criterion::new(
        "vanilla in memory collapses; its rate with 32 threads to its greatest",
        "6.3.3, Figure 12",
        (Unit::Times, |rows| {
            let most = greatest(["1", "2", "8", "32"].map(|threads| rate(rows, TPCC, IN_MEMORY, threads)));
            ratio(rate(rows, TPCC, IN_MEMORY, "32"), most)
        }),
        Bounds { above: 0.01, below: 0.7 },
        TWELVE_PAPER,
        TWELVE_WAITS,
    ),
    Criterion::new(
        "so that ELEDA is ahead of it; with 32 threads",
        "6.3.3, Figure 12",
        (Unit::Times, |rows| to(rows, TPCC, ELEDA, IN_MEMORY, "32")),
        Bounds { above: 1.0, below: 20.0 },
        TWELVE_PAPER,
        TWELVE_WAITS,
    ),
    Criterion::new(
        "and hides the device; to vanilla with one thread",
        "6.2.1, Figure 12",
        (Unit::Times, |rows| to(rows, TPCC, ELEDA, VANILLA, "1")),
        Bounds { above: 1.5, below: 20.0 },
        TWELVE_PAPER,
        TWELVE_WAITS,
    ),
];

const THIRTEEN_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 8 16 32
     work=update-search, system=vanilla: 20000 30000 45000 50000 55000
     work=update-search, system=vanilla in memory: 250000 450000 500000 150000 29000
     work=update-search, system=ELEDA: 200000 380000 1300000 2100000 2000000
     work=sysbench-write, system=vanilla: 8000 14000 25000 28000 31000
     work=sysbench-write, system=vanilla in memory: 120000 230000 350000 100000 12800
     work=sysbench-write, system=ELEDA: 80000 150000 420000 720000 1000000",
);

const THIRTEEN_WAITS: CounterExample = CounterExample {
    system: "an engine that computes where others wait, so that neither the device nor the clients' waiting matters",
    rows: "commits_per_second over threads 1 2 8 16 32
     work=update-search, system=vanilla: 20000 40000 160000 320000 640000
     work=update-search, system=vanilla in memory: 20000 40000 160000 320000 640000
     work=update-search, system=ELEDA: 20000 40000 160000 320000 640000
     work=sysbench-write, system=vanilla: 8000 16000 64000 128000 256000
     work=sysbench-write, system=vanilla in memory: 8000 16000 64000 128000 256000
     work=sysbench-write, system=ELEDA: 8000 16000 64000 128000 256000",
};

pub const THIRTEEN: &[Criterion] = &[
    Criterion::new(
        "vanilla is held by the device; its log in memory to it with one thread, the lesser of both works",
        "6.4.1, Figure 13",
        (Unit::Times, |rows| least([KEY_VALUE, OLTP].map(|work| to(rows, work, IN_MEMORY, VANILLA, "1")))),
        Bounds { above: 3.0, below: 50.0 },
        THIRTEEN_PAPER,
        THIRTEEN_WAITS,
    ),
    Criterion::new(
        "and in memory by its lock; with 32 threads to 8, the greater of both works",
        "6.4.1, Figure 13",
        (Unit::Times, |rows| {
            greatest([KEY_VALUE, OLTP].map(|work| growth(rows, work, IN_MEMORY, "8", "32")))
        }),
        Bounds { above: 0.01, below: 0.7 },
        THIRTEEN_PAPER,
        THIRTEEN_WAITS,
    ),
    Criterion::new(
        "ELEDA is ahead of both; to the better one with 32 threads, the lesser of both works",
        "6.4.1, Figure 13",
        (Unit::Times, |rows| {
            least(
                [KEY_VALUE, OLTP].map(|work| {
                    least([VANILLA, IN_MEMORY].map(|system| to(rows, work, ELEDA, system, "32")))
                }),
            )
        }),
        Bounds { above: 1.0, below: 100.0 },
        THIRTEEN_PAPER,
        THIRTEEN_WAITS,
    ),
    Criterion::new(
        "taking snapshots limits the key-value work beyond 16 threads and not the OLTP work; the growth from 16 to 32, the first to the second",
        "6.4.1, Figure 13",
        (Unit::Times, |rows| {
            let step = |work| growth(rows, work, ELEDA, "16", "32");
            ratio(step(KEY_VALUE), step(OLTP))
        }),
        Bounds { above: 0.3, below: 0.95 },
        THIRTEEN_PAPER,
        THIRTEEN_WAITS,
    ),
];

const SIZES: [&str; 6] = ["512", "1024", "2048", "3072", "4096", "5120"];

fn of_size(rows: &Rows, system: &str, payload: &str, column: &str) -> Option<f64> {
    rows.with(&[("work", INSERT), ("system", system), ("payload", payload)]).only(column)
}

const FOURTEEN_PAPER: PaperRows = PaperRows(
    "commits_per_second over payload 512 1024 2048 3072 4096 5120
     work=insert, system=vanilla: 55000 55000 55000 55000 55000 55000
     work=insert, system=vanilla in memory: 29000 29000 29000 29000 29000 29000
     work=insert, system=ELEDA: 3900000 3500000 2500000 1900000 1550000 1300000
     megabytes_per_second over payload 512 1024 2048 3072 4096 5120
     work=insert, system=ELEDA: 2300 3900 5300 6000 6400 6650
     bandwidth_to_raw over payload 512 1024 2048 3072 4096 5120
     work=insert, system=ELEDA: 0.31 0.53 0.72 0.81 0.87 0.9",
);

const FOURTEEN_WAITS: CounterExample = CounterExample {
    system: "a log that takes as many commits at every size and leaves the device idle",
    rows: "commits_per_second over payload 512 1024 2048 3072 4096 5120
     work=insert, system=vanilla: 60000 55000 45000 35000 30000 25000
     work=insert, system=vanilla in memory: 60000 55000 45000 35000 30000 25000
     work=insert, system=ELEDA: 55000 55000 55000 55000 55000 55000
     megabytes_per_second over payload 512 1024 2048 3072 4096 5120
     work=insert, system=ELEDA: 300 300 300 300 300 300
     bandwidth_to_raw over payload 512 1024 2048 3072 4096 5120
     work=insert, system=ELEDA: 0.04 0.04 0.04 0.04 0.04 0.04",
};

/// Ratio of a column's value with 5 KiB to its value with 512 bytes.
fn over_sizes(rows: &Rows, system: &str, column: &str) -> Option<f64> {
    ratio(of_size(rows, system, "5120", column), of_size(rows, system, "512", column))
}

pub const FOURTEEN: &[Criterion] = &[
    Criterion::new(
        "ELEDA gradually degrades as payloads grow; its rate with 5 KiB to that with 512 bytes",
        "6.4.2, Figure 14",
        (Unit::Times, |rows| over_sizes(rows, ELEDA, "commits_per_second")),
        Bounds { above: 0.1, below: 0.8 },
        FOURTEEN_PAPER,
        FOURTEEN_WAITS,
    ),
    Criterion::new(
        "the other two remain the same; the lesser of their rates with 5 KiB to those with 512 bytes",
        "6.4.2, Figure 14",
        (Unit::Times, |rows| {
            least([VANILLA, IN_MEMORY].map(|system| over_sizes(rows, system, "commits_per_second")))
        }),
        Bounds { above: 0.75, below: 1.25 },
        FOURTEEN_PAPER,
        FOURTEEN_WAITS,
    ),
    Criterion::new(
        "ELEDA's bandwidth rises with the payload; with 5 KiB to 512 bytes",
        "6.4.2, Figure 14",
        (Unit::Times, |rows| over_sizes(rows, ELEDA, "megabytes_per_second")),
        Bounds { above: 1.3, below: 10.0 },
        FOURTEEN_PAPER,
        FOURTEEN_WAITS,
    ),
    Criterion::new(
        "up to 6.2 GiB/s of 6.9; its share of the device's best sequential writes with 5 KiB",
        "6.4.2, Figure 14",
        (Unit::Share, |rows| of_size(rows, ELEDA, "5120", "bandwidth_to_raw")),
        Bounds { above: 0.75, below: 1.1 },
        FOURTEEN_PAPER,
        FOURTEEN_WAITS,
    ),
    Criterion::new(
        "and it is ahead at every size; the least ratio to the better of the others",
        "6.4.2, Figure 14",
        (Unit::Times, |rows| {
            let rate = |system, size| of_size(rows, system, size, "commits_per_second");
            least(SIZES.map(|size| {
                least([VANILLA, IN_MEMORY].map(|system| ratio(rate(ELEDA, size), rate(system, size))))
            }))
        }),
        Bounds { above: 1.5, below: 100.0 },
        FOURTEEN_PAPER,
        FOURTEEN_WAITS,
    ),
];

const NINETEEN_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 2 8 32
     work=update-search, system=vanilla: 20000 30000 45000 55000
     work=update-search, system=hiding: 190000 330000 600000 250000
     work=update-search, system=ELEDA: 200000 390000 1400000 3900000
     work=sysbench-write, system=vanilla: 8000 14000 25000 31000
     work=sysbench-write, system=hiding: 78000 140000 300000 120000
     work=sysbench-write, system=ELEDA: 80000 150000 420000 1000000",
);

const NINETEEN_ADDS_NOTHING: CounterExample = CounterExample {
    system: "GRASSHOPPER that adds nothing to hiding, which never reaches a limit",
    rows: "commits_per_second over threads 1 2 8 32
     work=update-search, system=vanilla: 20000 30000 45000 55000
     work=update-search, system=hiding: 190000 380000 1400000 5000000
     work=update-search, system=ELEDA: 190000 380000 1400000 5000000
     work=sysbench-write, system=vanilla: 8000 14000 25000 31000
     work=sysbench-write, system=hiding: 78000 150000 420000 1000000
     work=sysbench-write, system=ELEDA: 78000 150000 420000 1000000",
};

const NINETEEN_NO_HIDING: CounterExample = CounterExample {
    system: "a store that GRASSHOPPER makes faster and hiding the latency does not",
    rows: "commits_per_second over threads 1 2 8 32
     work=update-search, system=vanilla: 20000 30000 45000 55000
     work=update-search, system=hiding: 20000 30000 45000 55000
     work=update-search, system=ELEDA: 200000 390000 1400000 3900000
     work=sysbench-write, system=vanilla: 8000 14000 25000 31000
     work=sysbench-write, system=hiding: 8000 14000 25000 31000
     work=sysbench-write, system=ELEDA: 80000 150000 420000 1000000",
};

fn in_both_works(quantity: impl Fn(&str) -> Option<f64>) -> [Option<f64>; 2] {
    [KEY_VALUE, OLTP].map(quantity)
}

pub const NINETEEN: &[Criterion] = &[
    Criterion::new(
        "hiding the latency is dominant with few threads; what it gains to what GRASSHOPPER adds with one, the lesser of both works",
        "6.5.4, Figure 19",
        (Unit::Times, |rows| {
            least(in_both_works(|work| {
                ratio(to(rows, work, HIDING, VANILLA, "1"), to(rows, work, ELEDA, HIDING, "1"))
            }))
        }),
        Bounds { above: 2.0, below: 40.0 },
        NINETEEN_PAPER,
        NINETEEN_NO_HIDING,
    ),
    Criterion::new(
        "hiding alone collapses as load increases; its rate with 32 threads to that with 8, the greater of both works",
        "6.5.4, Figure 19",
        (Unit::Times, |rows| greatest(in_both_works(|work| growth(rows, work, HIDING, "8", "32")))),
        Bounds { above: 0.05, below: 0.8 },
        NINETEEN_PAPER,
        NINETEEN_ADDS_NOTHING,
    ),
    Criterion::new(
        "beyond that GRASSHOPPER plays the major role; what it adds with 32 threads, the lesser of both works",
        "6.5.4, Figure 19",
        (Unit::Times, |rows| least(in_both_works(|work| to(rows, work, ELEDA, HIDING, "32")))),
        Bounds { above: 1.2, below: 40.0 },
        NINETEEN_PAPER,
        NINETEEN_ADDS_NOTHING,
    ),
    Criterion::new(
        "it is of use where locks are contended and of none where the device is waited for; what it adds with 32 threads to what it adds with one",
        "6.5.4, Figure 19",
        (Unit::Times, |rows| {
            least(in_both_works(|work| {
                ratio(to(rows, work, ELEDA, HIDING, "32"), to(rows, work, ELEDA, HIDING, "1"))
            }))
        }),
        Bounds { above: 1.2, below: 40.0 },
        NINETEEN_PAPER,
        NINETEEN_ADDS_NOTHING,
    ),
];

const SEVENTEEN_PAPER: PaperRows = PaperRows(
    "log_wait_share over threads 1 32
     work=update-search, system=vanilla: 0.8 0.88
     work=update-search, system=ELEDA: 0.01 0.01
     system_share over threads 1 32
     work=update-search, system=vanilla: 0.02 0.08
     work=update-search, system=ELEDA: 0.01 0.02
     user_share over threads 1 32
     work=update-search, system=vanilla: 0.02 0.04
     work=update-search, system=ELEDA: 0.03 0.88",
);

const SEVENTEEN_SLEEPS: CounterExample = CounterExample {
    system: "threads that sleep until their own commit is durable, with ELEDA too",
    rows: "log_wait_share over threads 1 32
     work=update-search, system=vanilla: 0.8 0.88
     work=update-search, system=ELEDA: 0.8 0.88
     system_share over threads 1 32
     work=update-search, system=vanilla: 0.02 0.08
     work=update-search, system=ELEDA: 0.02 0.08
     user_share over threads 1 32
     work=update-search, system=vanilla: 0.02 0.04
     work=update-search, system=ELEDA: 0.02 0.04",
};

const SEVENTEEN_BUSY: CounterExample = CounterExample {
    system: "a baseline whose threads hardly wait",
    rows: "log_wait_share over threads 32
     work=update-search, system=vanilla: 0.1
     work=update-search, system=ELEDA: 0.01",
};

/// Share of a system's processor time that it spends in the kernel.
fn in_kernel(rows: &Rows, system: &str) -> Option<f64> {
    let share = |column| of(rows, KEY_VALUE, system, "32", column);
    ratio(share("system_share"), Some(share("system_share")? + share("user_share")?))
}

pub const SEVENTEEN: &[Criterion] = &[
    Criterion::new(
        "vanilla on SSDs spends 88 % of the time in doing nothing but sleeping, with 32 threads",
        "6.5.2, Figure 17",
        (Unit::Share, |rows| of(rows, KEY_VALUE, VANILLA, "32", "log_wait_share")),
        Bounds { above: 0.5, below: 1.001 },
        SEVENTEEN_PAPER,
        SEVENTEEN_BUSY,
    ),
    Criterion::new(
        "ELEDA shows neither spin-waiting nor sleeping, with 32 threads",
        "6.5.2, Figure 17",
        (Unit::Share, |rows| of(rows, KEY_VALUE, ELEDA, "32", "log_wait_share")),
        Bounds { above: -0.001, below: 0.1 },
        SEVENTEEN_PAPER,
        SEVENTEEN_SLEEPS,
    ),
    Criterion::new(
        "its kernel time is negligible, unlike that of others; its share of the processor time to vanilla's, 32 threads",
        "6.5.2, Figure 17",
        (Unit::Times, |rows| ratio(in_kernel(rows, ELEDA), in_kernel(rows, VANILLA))),
        Bounds { above: -0.001, below: 0.5 },
        SEVENTEEN_PAPER,
        SEVENTEEN_SLEEPS,
    ),
];
