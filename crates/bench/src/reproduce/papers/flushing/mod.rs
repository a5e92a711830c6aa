//! The figures of efficient flushing for key-value stores.

mod criteria;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

const REAL: Experiment = Experiment {
    full: "--rounds 5",
    quick: "--rounds 5 --seconds 0.05",
    seconds: 80.0,
    quick_seconds: 25.0,
    ..Experiment::real(Paper::Flushing)
};

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "5",
        title: "Inserts, and updates with searches, over client threads",
        ran: "20-byte keys and 100-byte values in WiredTiger with 8 to 128 threads: the existing flushing and the proposed",
        here: "the same in the paged engine, through the page cache: the existing scheme (slotted), the proposed one (aggregated) and our other protocols",
        headline: "inserts 3.9, 5.5, 1.83, 1.72 and 1.3 times at 8 to 128 threads, updates with searches 1.6, 2.8, 4.1, 1.7 and 1.6 times",
        differs: "2 processors instead of 16 cores, a virtual disk instead of an NVMe SSD, and slots that form at the commit instead of at the append",
        command: "lab commit --figure flushing5 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 150.0,
        quick_seconds: 40.0,
        criteria: criteria::FIVE,
        ours: five,
        ..REAL
    },
    Experiment {
        figure: "6",
        title: "sysbench's transactions over client threads",
        ran: "sysbench's OLTP, an update, a delete and an insert in a transaction, in WiredTiger with 8 to 128 threads: the existing flushing and the proposed",
        here: "oltp_write_only in the paged engine, through the page cache: the existing scheme (slotted), the proposed one (aggregated) and ours (adaptive)",
        headline: "6.4, 3.3, 2.3, 1.7 and 1.4 times at 8 to 128 threads; both grow with the threads",
        differs: "as in Figure 5; two updates in a transaction instead of one, on a table with a secondary index",
        command: "lab commit --figure flushing6 --keys 20000 --sync slotted,aggregated,adaptive --dir {dir} --csv {csv} --svg {svg}",
        criteria: criteria::SIX,
        ours: six,
        ..REAL
    },
    Experiment {
        figure: "table-1",
        title: "Where the time of an insert goes, and how often the log is locked and synced",
        ran: "mean times of an insert and counts of locks and syncs, 8 to 128 threads",
        here: "the same counters of our protocols",
        headline: "the existing scheme waits for the sync lock 82.4, 82.7 and 41.6 % of an insert at 8, 16 and 32 threads; the proposed one takes a \
                   quarter of the locks and syncs at 8",
        differs: "as in Figure 5; counts are for each commit, because our runs last a time and the paper's a number of inserts",
        command: "lab commit --figure flushing-table1 --sync slotted,aggregated,adaptive --dir {dir} --csv {csv} --svg {svg}",
        criteria: criteria::TABLE_ONE,
        ours: table_one,
        ..REAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[
    SkippedFigure {
        paper: Paper::Flushing,
        figures: "Figures 1 to 4",
        why: "drawings of designs: nothing is measured",
    },
    SkippedFigure {
        paper: Paper::Flushing,
        figures: "Figures 7 and 8, Tables 2 and 3",
        why: "replication with one and three replicas: crates/replica has it, and no command measures it yet",
    },
];

/// Commits a second of the best protocol, and how far it is ahead of the proposed scheme at its
/// best.
fn best(rows: &Rows, work: &str) -> String {
    let of = |sync: Option<&str>| {
        let rows = rows.with(&[("work", work)]);
        sync.map_or(rows.clone(), |sync| rows.with("sync", sync)).most("commits_per_second")
    };
    let ahead = ratio(of(None), of(Some("aggregated"))).unwrap_or_default();
    format!("our best protocol {}, {ahead:.1} times the proposed scheme at its best", rate(of(None)))
}

fn five(rows: &Rows) -> String {
    best(rows, criteria::INSERT)
}

fn six(rows: &Rows) -> String {
    best(rows, criteria::SYSBENCH)
}

fn table_one(rows: &Rows) -> String {
    let per_sync = |sync: &str| {
        rows.with(&[("sync", sync), ("threads", "32")]).only("commits_per_sync").unwrap_or_default()
    };
    format!(
        "commits a sync at 32 threads: existing {:.1}, proposed {:.1}, adaptive {:.1}",
        per_sync("slotted"),
        per_sync("aggregated"),
        per_sync("adaptive")
    )
}
