//! Claims of Aether's text about a distributed log (A.5), with shares that agree with its drawing,
//! and the systems that a claim must reject.
//!
//! Pure functions. The dependencies are counted in logs of real threads.

use crate::reproduce::criterion::{Bounds, CounterExample, Criterion, PaperRows, Unit};
use crate::reproduce::quantity::least;
use crate::reproduce::rows::Rows;

/// The value of column `share` for TPC-C with eight clients, if the log's records are assigned to
/// eight logs by rule `by`.
fn dealt(rows: &Rows, by: &str, share: &str) -> Option<f64> {
    rows.with(&[("workload", "tpcc"), ("dealt_by", by), ("threads", "8"), ("logs", "8")]).only(share)
}

/// The paper has only a drawing. These shares agree with it and with the text.
const THIRTEEN_PAPER: PaperRows = PaperRows(
    "crossing over threads 8
     workload=tpcc, dealt_by=transaction, logs=8: 0.4
     workload=tpcc, dealt_by=page, logs=8: 0
     tight over threads 8
     workload=tpcc, dealt_by=transaction, logs=8: 0.15
     workload=tpcc, dealt_by=page, logs=8: 0
     spanning over threads 8
     workload=tpcc, dealt_by=transaction, logs=8: 0.8
     workload=tpcc, dealt_by=page, logs=8: 0.95",
);

const THIRTEEN_PARTITIONED: CounterExample = CounterExample {
    system: "a workload that is almost perfectly partitioned, of which each transaction keeps to the pages of one log",
    rows: "crossing over threads 8
     workload=tpcc, dealt_by=transaction, logs=8: 0.02
     workload=tpcc, dealt_by=page, logs=8: 0
     tight over threads 8
     workload=tpcc, dealt_by=transaction, logs=8: 0.005
     workload=tpcc, dealt_by=page, logs=8: 0
     spanning over threads 8
     workload=tpcc, dealt_by=transaction, logs=8: 0.03
     workload=tpcc, dealt_by=page, logs=8: 0.05",
};

pub const THIRTEEN: &[Criterion] = &[
    Criterion::new(
        "dependences are widespread and frequent; the share of records that depend on another log, dealt by transaction",
        "A.5, Figure 13",
        (Unit::Share, |rows| dealt(rows, "transaction", "crossing")),
        Bounds { above: 0.1, below: 1.001 },
        THIRTEEN_PAPER,
        THIRTEEN_PARTITIONED,
    ),
    Criterion::new(
        "and can be very tight, on one of the five most recent records of the other log; that share",
        "A.5, Figure 13",
        (Unit::Share, |rows| dealt(rows, "transaction", "tight")),
        Bounds { above: 0.03, below: 1.001 },
        THIRTEEN_PAPER,
        THIRTEEN_PARTITIONED,
    ),
    Criterion::new(
        "most transactions flush several logs at commit, whichever way records are assigned; the lesser share, dealt by transaction and by page",
        "A.5, Figure 13",
        (Unit::Share, |rows| least(["transaction", "page"].map(|by| dealt(rows, by, "spanning")))),
        Bounds { above: 0.5, below: 1.001 },
        THIRTEEN_PAPER,
        THIRTEEN_PARTITIONED,
    ),
];
