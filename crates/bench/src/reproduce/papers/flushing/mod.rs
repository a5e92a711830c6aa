//! The figures of Efficient flushing for key-value stores.

mod criteria;
mod replicated;

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
    Experiment {
        figure: "7",
        title: "Inserts at one replica and at three",
        ran: "20-byte keys and 100-byte values with 8 to 128 client threads, at one server and at three: the existing flushing and the proposed",
        here: "the same at servers that are processes of this machine: the existing scheme (slotted), the proposed one (aggregated) and ours; beside \
               them a Raft group that acknowledges by a majority, and by all",
        headline: "1.3, 2.5, 1.93, 1.5 and 1.45 times at one replica, 4.6, 8.1, 9.7, 5.15 and 2.26 times at three; at 32 threads three replicas \
                   cost the existing scheme 12.4 times its rate, the proposed one 2.4 times",
        command: "lab replication --figure flushing7 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 240.0,
        quick_seconds: 160.0,
        criteria: replicated::SEVEN,
        ours: seven,
        ..REPLICATED
    },
    Experiment {
        figure: "8",
        title: "sysbench's transactions at one replica and at three",
        ran: "sysbench's OLTP, an update, a delete and an insert in a transaction, with 8 to 128 client threads, at one server and at three",
        here: "oltp_write_only, each transaction one message to all servers; its reads ask one server before. The existing scheme (slotted), the \
               proposed one (aggregated) and ours",
        headline: "1.25, 2.1, 1.92, 1.38 and 1.3 times at one replica; 1.06, 1.01, 8.19, 4.52 and 1.65 times at three",
        command: "lab replication --figure flushing8 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 150.0,
        quick_seconds: 80.0,
        criteria: replicated::EIGHT,
        ours: eight,
        ..REPLICATED
    },
    Experiment {
        figure: "table-2",
        title: "Where the time of an insert goes at one replica",
        ran: "times of an insert at client and server, waiting for lock and syncs, and counts, 8 to 128 threads",
        here: "the same counters",
        headline: "1.9 times as fast at the server at 8 threads, 3.7 times at 32; aggregated requests grow from 4.9 to 8.4",
        command: "lab replication --figure flushing-table2 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 75.0,
        quick_seconds: 40.0,
        criteria: replicated::TABLE_TWO,
        ours: |rows| table_of(rows, "1"),
        ..REPLICATED
    },
    Experiment {
        figure: "table-3",
        title: "Where the time of an insert goes at three replicas",
        ran: "as Table 2, at three servers",
        here: "the same counters, as means over the servers",
        headline: "2.3 times as fast at the servers at 8 threads, 3.8 times at 32; 6.8 and 12.6 times at the client; aggregated requests grow from 3.4 to 7.6",
        command: "lab replication --figure flushing-table3 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 90.0,
        quick_seconds: 60.0,
        criteria: replicated::TABLE_THREE,
        ours: |rows| table_of(rows, "3"),
        ..REPLICATED
    },
];

const REPLICATED: Experiment = Experiment {
    differs: "client and servers share 2 processors instead of 4 machines of 4 cores, loopback with 60 us added instead of 10 GbE, and memory with 115 us \
              added to each sync instead of an SSD for each server",
    ..REAL
};

pub const NOT_RUN: &[SkippedFigure] = &[SkippedFigure {
    paper: Paper::Flushing,
    figures: "Figures 1 to 4",
    why: "drawings of designs: nothing is measured",
}];

/// The rate of the best protocol, and its ratio to the best rate of the proposed scheme.
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

/// The rates of `schemes` with this number of replicas and 32 threads.
fn beside_raft(rows: &Rows, replicas: &str, schemes: &[&str]) -> String {
    let of = |scheme: &&str| {
        let one = rows.with(&[("replicas", replicas), ("sync", scheme), ("threads", "32")]);
        format!("{scheme} {}", rate(one.only("commits_per_second")))
    };
    format!("{replicas} replicas, 32 threads: {}", schemes.iter().map(of).collect::<Vec<_>>().join(", "))
}

fn seven(rows: &Rows) -> String {
    beside_raft(rows, "3", &["slotted", "aggregated", "adaptive", "raft-quorum", "raft-all"])
}

fn eight(rows: &Rows) -> String {
    beside_raft(rows, "3", &["slotted", "aggregated", "adaptive"])
}

fn table_of(rows: &Rows, replicas: &str) -> String {
    let us = |sync: &str| {
        let one = rows.with(&[("replicas", replicas), ("sync", sync), ("threads", "32")]);
        one.only("server_us").unwrap_or_default()
    };
    format!(
        "us of an insert at a server at 32 threads: existing {:.0}, proposed {:.0}, adaptive {:.0}",
        us("slotted"),
        us("aggregated"),
        us("adaptive")
    )
}
