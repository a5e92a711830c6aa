//! Claims of Aether's text about its figures on whole transactions, with the paper's numbers and
//! the systems that a claim must reject.
//!
//! Pure functions.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::{difference, greatest, least, ratio, steps};
use crate::reproduce::rows::Rows;

/// Share of the processors that a system leaves idle with 60 clients.
fn idle(rows: &Rows, system: &str) -> Option<f64> {
    rows.with(&[("system", system), ("threads", "60")]).only("idle_share")
}

const TWO_PAPER: PaperRows = PaperRows(
    "idle_share over threads 60
     system=baseline: 0.75
     system=+ early release: 0.2
     system=+ flush pipelining: 0.01",
);

const TWO_WAITS: CounterExample = CounterExample {
    system: "clients that wait for locks and for the device whatever is removed",
    rows: "idle_share over threads 60
     system=baseline: 0.75
     system=+ early release: 0.75
     system=+ flush pipelining: 0.75",
};

const TWO_BUSY: CounterExample = CounterExample {
    system: "a baseline without contention for locks, whose clients keep all processors busy",
    rows: "idle_share over threads 60
     system=baseline: 0.02
     system=+ early release: 0.02
     system=+ flush pipelining: 0.01",
};

pub const TWO: &[Criterion] = &[
    Criterion::new(
        "because of contention for locks the baseline is idle 75 % of the time, with 60 clients",
        "1.1, Figure 2",
        (Unit::Share, |rows| idle(rows, "baseline")),
        Bounds { above: 0.4, below: 0.95 },
        TWO_PAPER,
        TWO_BUSY,
    ),
    Criterion::new(
        "early release removes most of that; its idle share below the baseline's",
        "1.1, Figure 2",
        (Unit::Points, |rows| difference(idle(rows, "+ early release"), idle(rows, "baseline"))),
        Bounds { above: -1.0, below: -0.2 },
        TWO_PAPER,
        TWO_WAITS,
    ),
    Criterion::new(
        "and with flush pipelining the hardware is used fully; its idle share",
        "1.1, Figure 2",
        (Unit::Share, |rows| idle(rows, "+ flush pipelining")),
        Bounds { above: -0.001, below: 0.1 },
        TWO_PAPER,
        TWO_WAITS,
    ),
];

fn speed_up(rows: &Rows, delay_us: &str, skew: &str) -> Option<f64> {
    rows.with(&[("lock_release", "early"), ("delay_us", delay_us), ("skew", skew)]).only("speed_up")
}

/// The greatest speed-up over all skews above 0.
fn peak(rows: &Rows, delay_us: &str) -> Option<f64> {
    greatest(["0.85", "1.25", "2", "5"].map(|skew| speed_up(rows, delay_us, skew)))
}

const THREE_PAPER: PaperRows = PaperRows(
    "speed_up over skew 0 0.85 1.25 2 5
     lock_release=early, delay_us=0: 1 1.1 1.2 1.1 1
     lock_release=early, delay_us=100: 1 1.7 2 1.6 1
     lock_release=early, delay_us=1000: 1.1 6 9 5 1.5
     lock_release=early, delay_us=10000: 1.3 25 35 20 3",
);

const THREE_NOTHING: CounterExample = CounterExample {
    system: "locks that are held through the log flush all the same",
    rows: "speed_up over skew 0 0.85 1.25 2 5
     lock_release=early, delay_us=0: 1 1 1 1 1
     lock_release=early, delay_us=100: 1 1 1 1 1
     lock_release=early, delay_us=1000: 1 1 1 1 1
     lock_release=early, delay_us=10000: 1 1 1 1 1",
};

const THREE_EVERYWHERE: CounterExample = CounterExample {
    system: "a baseline with one lock for all data, so that early release gains at every skew alike",
    rows: "speed_up over skew 0 0.85 1.25 2 5
     lock_release=early, delay_us=0: 2 2 2 2 2
     lock_release=early, delay_us=100: 5 5 5 5 5
     lock_release=early, delay_us=1000: 30 30 30 30 30
     lock_release=early, delay_us=10000: 200 200 200 200 200",
};

pub const THREE: &[Criterion] = &[
    Criterion::new(
        "without skew there is no gain, at 100 us and less; the greater speed-up",
        "3.2, Figure 3",
        (Unit::Times, |rows| greatest(["0", "100"].map(|delay| speed_up(rows, delay, "0")))),
        Bounds { above: 0.7, below: 1.6 },
        THREE_PAPER,
        THREE_EVERYWHERE,
    ),
    Criterion::new(
        "with skew it is 2 times at 100 us, the greatest speed-up",
        "3.2, Figure 3",
        (Unit::Times, |rows| peak(rows, "100")),
        Bounds { above: 1.4, below: 4.0 },
        THREE_PAPER,
        THREE_NOTHING,
    ),
    Criterion::new(
        "with skew it is 35 times at 10 ms, the greatest speed-up",
        "3.2, Figure 3",
        (Unit::Times, |rows| peak(rows, "10000")),
        Bounds { above: 10.0, below: 70.0 },
        THREE_PAPER,
        THREE_NOTHING,
    ),
    Criterion::new(
        "slower devices gain more; the least step of the greatest speed-ups from 100 us to 1 ms to 10 ms",
        "3.2, Figure 3",
        (Unit::Times, |rows| least(steps(["100", "1000", "10000"].map(|delay| peak(rows, delay))))),
        Bounds { above: 1.2, below: 20.0 },
        THREE_PAPER,
        THREE_NOTHING,
    ),
    Criterion::new(
        "very high skew blocks transactions without a flush too, so the gain falls; at 100 us the speed-up at the highest skew to the greatest",
        "3.2, Figure 3",
        (Unit::Times, |rows| ratio(speed_up(rows, "100", "5"), peak(rows, "100"))),
        Bounds { above: 0.2, below: 0.9 },
        THREE_PAPER,
        THREE_EVERYWHERE,
    ),
];

const BASELINE: (&str, &str) = ("pipelined", "1");
const PIPELINED: (&str, &str) = ("pipelined", "100");
const CLIENTS: [&str; 4] = ["1", "4", "16", "64"];

fn of(rows: &Rows, (sync, in_flight): (&str, &str), threads: &str, column: &str) -> Option<f64> {
    let rows = rows.with(&[("sync", sync), ("in_flight", in_flight), ("threads", threads)]);
    rows.with("durability", "durable").only(column)
}

/// Share of processor time that is spent in the kernel.
fn in_system(rows: &Rows, kind: (&str, &str), threads: &str) -> Option<f64> {
    ratio(of(rows, kind, threads, "system_us_per_commit"), of(rows, kind, threads, "cpu_us_per_commit"))
}

const FOUR_PAPER: PaperRows = PaperRows(
    "switches_per_second over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 4000 15000 50000 140000
     durability=durable, sync=pipelined, in_flight=100: 4000 12000 14000 14000
     cores_busy over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 1 4 15 52
     durability=durable, sync=pipelined, in_flight=100: 1 4 16 64
     system_us_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 50 60 80 150
     durability=durable, sync=pipelined, in_flight=100: 30 20 20 20
     cpu_us_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 500 500 500 550
     durability=durable, sync=pipelined, in_flight=100: 500 480 480 480
     voluntary_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 2 2 2 2
     durability=durable, sync=pipelined, in_flight=100: 1 0.5 0.2 0.1",
);

const FOUR_BLOCKS: CounterExample = CounterExample {
    system: "pipelining whose threads block in each commit all the same",
    rows: "switches_per_second over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 4000 15000 50000 140000
     durability=durable, sync=pipelined, in_flight=100: 4000 15000 50000 140000
     cores_busy over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 1 4 15 52
     durability=durable, sync=pipelined, in_flight=100: 1 4 15 52
     system_us_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 50 60 80 150
     durability=durable, sync=pipelined, in_flight=100: 50 60 80 250
     cpu_us_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 500 500 500 550
     durability=durable, sync=pipelined, in_flight=100: 500 500 500 550
     voluntary_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 2 2 2 2
     durability=durable, sync=pipelined, in_flight=100: 2 2 2 2",
};

const FOUR_CALM: CounterExample = CounterExample {
    system: "a baseline whose scheduler has nothing more to do with more clients",
    rows: "switches_per_second over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 4000 4000 4000 4000
     system_us_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 50 50 50 50
     cpu_us_per_commit over threads 1 4 16 64
     durability=durable, sync=pipelined, in_flight=1: 500 500 500 500",
};

pub const FOUR: &[Criterion] = &[
    Criterion::new(
        "without pipelining context switches increase steadily with the clients; the least step of the switches a second from 1 to 4 to 16 to 64",
        "4, Figure 4 left",
        (Unit::Times, |rows| {
            least(steps(CLIENTS.map(|clients| of(rows, BASELINE, clients, "switches_per_second"))))
        }),
        Bounds { above: 1.0, below: 8.0 },
        FOUR_PAPER,
        FOUR_CALM,
    ),
    Criterion::new(
        "without pipelining an increasing fraction of the load is system time; the share with 64 clients above that with 4",
        "4, Figure 4 left",
        (Unit::Points, |rows| difference(in_system(rows, BASELINE, "64"), in_system(rows, BASELINE, "4"))),
        Bounds { above: 0.0, below: 0.6 },
        FOUR_PAPER,
        FOUR_CALM,
    ),
    Criterion::new(
        "with pipelining context switches remain almost steady after an initial increase; the switches a second with 64 clients to those with 16",
        "4.2, Figure 4 right",
        (Unit::Times, |rows| {
            let switches = |clients| of(rows, PIPELINED, clients, "switches_per_second");
            ratio(switches("64"), switches("16"))
        }),
        Bounds { above: 0.4, below: 1.5 },
        FOUR_PAPER,
        FOUR_BLOCKS,
    ),
    Criterion::new(
        "with pipelining system time remains nearly constant; the share with 64 clients above that with 16",
        "4.2, Figure 4 right",
        (Unit::Points, |rows| difference(in_system(rows, PIPELINED, "64"), in_system(rows, PIPELINED, "16"))),
        Bounds { above: -0.1, below: 0.05 },
        FOUR_PAPER,
        FOUR_BLOCKS,
    ),
    Criterion::new(
        "a committing thread does not block; voluntary switches a commit with 64 clients, pipelining to the baseline",
        "4.1, Figure 4",
        (Unit::Times, |rows| {
            let waits = |kind| of(rows, kind, "64", "voluntary_per_commit");
            ratio(waits(PIPELINED), waits(BASELINE))
        }),
        Bounds { above: 0.0, below: 0.2 },
        FOUR_PAPER,
        FOUR_BLOCKS,
    ),
    Criterion::new(
        "pipelining uses the processors that the baseline leaves idle; processors kept busy by 64 clients, pipelining to the baseline",
        "4.2, Figure 4",
        (Unit::Times, |rows| {
            let busy = |kind| of(rows, kind, "64", "cores_busy");
            ratio(busy(PIPELINED), busy(BASELINE))
        }),
        Bounds { above: 1.0, below: 2.5 },
        FOUR_PAPER,
        FOUR_BLOCKS,
    ),
];

fn pipelining(rows: &Rows, clients: &str) -> Option<f64> {
    let rate = |kind| of(rows, kind, clients, "commits_per_second");
    ratio(rate(PIPELINED), rate(BASELINE))
}

const FIVE_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 1 4 16 64
     sync=pipelined, in_flight=1, durability=durable: 1000 3900 14500 45000
     sync=pipelined, in_flight=100, durability=durable: 1000 4000 15500 55000
     sync=adaptive, in_flight=1, durability=written: 1000 4000 15500 55000",
);

const FIVE_NOTHING: CounterExample = CounterExample {
    system: "pipelining that gains nothing over the baseline",
    rows: "commits_per_second over threads 1 4 16 64
     sync=pipelined, in_flight=1, durability=durable: 1000 3900 14500 45000
     sync=pipelined, in_flight=100, durability=durable: 1000 3900 14500 45000
     sync=adaptive, in_flight=1, durability=written: 1000 4000 15500 55000",
};

pub const FIVE: &[Criterion] = &[
    Criterion::new(
        "pipelining is up to 22 % above the baseline, which has group commit and blocks; their rates with 64 clients",
        "4.2, Figure 5",
        (Unit::Times, |rows| pipelining(rows, "64")),
        Bounds { above: 1.05, below: 2.44 },
        FIVE_PAPER,
        FIVE_NOTHING,
    ),
    Criterion::new(
        "the baseline lags more as scheduling overheads increase; the gain with 64 clients to that with 16",
        "4.2, Figure 5",
        (Unit::Times, |rows| ratio(pipelining(rows, "64"), pipelining(rows, "16"))),
        Bounds { above: 1.0, below: 2.0 },
        FIVE_PAPER,
        FIVE_NOTHING,
    ),
    Criterion::new(
        "pipelining is as fast as the unsafe asynchronous commit; their rates with 64 clients",
        "4.1, Figure 5",
        (Unit::Times, |rows| {
            let unsafe_rows = rows.with(&[("durability", "written"), ("threads", "64")]);
            ratio(of(rows, PIPELINED, "64", "commits_per_second"), unsafe_rows.only("commits_per_second"))
        }),
        Bounds { above: 0.9, below: 1.2 },
        FIVE_PAPER,
        FIVE_NOTHING,
    ),
];

/// Ratio of a system's rate to the rate of the system before it in the figure, with 64 clients.
fn step(rows: &Rows, system: &str, before: &str) -> Option<f64> {
    let rate = |system| rows.with(&[("system", system), ("threads", "64")]).only("commits_per_second");
    ratio(rate(system), rate(before))
}

fn pipelining_adds(rows: &Rows) -> Option<f64> {
    step(rows, "+ flush pipelining", "+ early release")
}

fn buffer_adds(rows: &Rows) -> Option<f64> {
    step(rows, "+ log buffer", "+ flush pipelining")
}

const NINE_PAPER: PaperRows = PaperRows(
    "commits_per_second over threads 64
     system=baseline: 50000
     system=+ early release: 50000
     system=+ flush pipelining: 84000
     system=+ log buffer: 89900",
);

const NINE_FLAT: CounterExample = CounterExample {
    system: "parts that add nothing",
    rows: "commits_per_second over threads 64
     system=baseline: 50000
     system=+ early release: 50000
     system=+ flush pipelining: 50000
     system=+ log buffer: 50000",
};

pub const NINE: &[Criterion] = &[
    Criterion::new(
        "flush pipelining gives 68 % more, with 64 clients",
        "6.4, Figure 9",
        (Unit::Times, pipelining_adds),
        Bounds { above: 1.2, below: 3.4 },
        NINE_PAPER,
        NINE_FLAT,
    ),
    Criterion::new(
        "the scalable log buffer adds 7 %, with 64 clients",
        "6.4, Figure 9",
        (Unit::Times, buffer_adds),
        Bounds { above: 1.0, below: 1.3 },
        NINE_PAPER,
        NINE_FLAT,
    ),
    Criterion::new(
        "flush pipelining is the largest single boost; what it gives to what the log buffer adds",
        "6.4, Figure 9",
        (Unit::Times, |rows| ratio(pipelining_adds(rows), buffer_adds(rows))),
        Bounds { above: 1.0, below: 3.2 },
        NINE_PAPER,
        NINE_FLAT,
    ),
];
