//! The figures of efficient flushing for key-value stores.

use crate::reproduce::experiment::{Experiment, Judged, Paper, SkippedFigure, rate, ratio};
use crate::reproduce::rows::Rows;

const REAL: Experiment =
    Experiment { seconds: 40.0, quick_seconds: 15.0, ..Experiment::real(Paper::Flushing) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "5",
        title: "Inserts, and updates with searches, over client threads",
        ran: "20-byte keys and 100-byte values in WiredTiger with 8 to 128 threads: the existing flushing (slotted) and the proposed (aggregated)",
        here: "the same in the paged engine, through the page cache as in the paper, every sync protocol",
        headline: "aggregated 3.9, 5.5, 1.83, 1.72 and 1.3 times slotted for inserts at 8 to 128 threads; 1.6 to 4.1 times with searches",
        command: "lab commit --figure flushing5 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 60.0,
        quick_seconds: 15.0,
        judge: five,
        ..REAL
    },
    Experiment {
        figure: "6",
        title: "sysbench's transactions over client threads",
        ran: "sysbench's OLTP, an update, a delete and an insert in a transaction, in WiredTiger with 8 to 128 threads: slotted and aggregated",
        here: "oltp_write_only in the paged engine, two updates, a delete and an insert on a table with a secondary index, through the page cache as in \
               the paper, every sync protocol",
        headline: "aggregated 6.4, 3.3, 2.3, 1.7 and 1.4 times slotted at 8 to 128 threads",
        command: "lab commit --figure flushing6 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 0.15 --sync slotted,aggregated,adaptive",
        seconds: 45.0,
        quick_seconds: 10.0,
        judge: six,
        ..REAL
    },
    Experiment {
        figure: "table-1",
        title: "Where the time of an insert goes, and how often the log is locked and synced",
        ran: "mean times of an insert and counts of locks and syncs, 8 to 128 threads",
        here: "the same counters of our protocols",
        headline: "slotted waits for the lock 82 % of an insert at 8 threads; aggregated takes a quarter of the locks and syncs",
        command: "lab commit --figure flushing-table1 --dir {dir} --csv {csv} --svg {svg}",
        quick_seconds: 7.0,
        judge: table_one,
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
        why: "replication to one and three other nodes, which Katydid does not have yet",
    },
];

fn aggregated_to_slotted(rows: &Rows, work: &str, threads: &str) -> Option<f64> {
    let of = |sync: &str| {
        rows.with(&[("work", work), ("sync", sync), ("threads", threads)]).only("commits_per_second")
    };
    ratio(of("aggregated"), of("slotted"))
}

fn five(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let counts = rows.all().words("threads");
    for work in rows.all().words("work") {
        let least =
            counts.iter().filter_map(|threads| aggregated_to_slotted(rows, &work, threads)).reduce(f64::min);
        judged.ask_times(
            format!("{work}: aggregated over slotted at every number of threads, at least 1.1"),
            least,
            1.1,
        );
    }
    let times: Vec<String> = counts
        .iter()
        .filter_map(|threads| Some(format!("{:.1}", aggregated_to_slotted(rows, "insert", threads)?)))
        .collect();
    let best = rows.with(&[("work", "insert")]).most("commits_per_second");
    let aggregated = rows.with(&[("work", "insert"), ("sync", "aggregated")]).most("commits_per_second");
    judged.ours = format!(
        "inserts, aggregated over slotted: {}; our best protocol {}, {:.1} times aggregated at its best",
        times.join(", "),
        rate(best),
        ratio(best, aggregated).unwrap_or_default()
    );
    judged
}

fn six(rows: &Rows) -> Judged {
    const WORK: &str = "sysbench-write";
    let mut judged = Judged::default();
    let counts = rows.all().words("threads");
    let gains: Vec<f64> =
        counts.iter().filter_map(|threads| aggregated_to_slotted(rows, WORK, threads)).collect();
    judged.ask_times(
        "aggregated over slotted at every number of threads, at least 1.1",
        gains.iter().copied().reduce(f64::min).filter(|_| gains.len() == counts.len()),
        1.1,
    );
    judged.ask_times("and at its best at least 2", gains.iter().copied().reduce(f64::max), 2.0);
    let gains: Vec<String> = gains.iter().map(|times| format!("{times:.1}")).collect();
    let most = |sync: &str| rows.with(&[("sync", sync)]).most("commits_per_second");
    judged.ours = format!(
        "aggregated over slotted: {}; adaptive {}, {:.1} times aggregated at its best",
        gains.join(", "),
        rate(most("adaptive")),
        ratio(most("adaptive"), most("aggregated")).unwrap_or_default()
    );
    judged
}

fn table_one(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of =
        |sync: &str, threads: &str, column| rows.with(&[("sync", sync), ("threads", threads)]).only(column);
    let waiting =
        |threads| ratio(of("slotted", threads, "lock_us_per_commit"), of("slotted", threads, "mean_us"));
    judged.ask(
        "slotted waits for the lock for at least half of an insert at 32 threads",
        waiting("32"),
        |share| format!("{:.0} %", 100.0 * share),
        |share| share >= 0.5,
    );
    let per_sync = |sync: &str| of(sync, "32", "commits_per_sync");
    judged.ask_times(
        "aggregated syncs for more commits at 32 threads, at least 2",
        ratio(per_sync("aggregated"), per_sync("slotted")),
        2.0,
    );
    judged.ours = format!(
        "commits a sync at 32 threads: slotted {:.1}, aggregated {:.1}, adaptive {:.1}",
        per_sync("slotted").unwrap_or_default(),
        per_sync("aggregated").unwrap_or_default(),
        per_sync("adaptive").unwrap_or_default()
    );
    judged
}
