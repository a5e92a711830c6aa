//! The figures of the report on NV-Logging.

mod criteria;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

const REAL: Experiment =
    Experiment { seconds: 150.0, quick_seconds: 25.0, ..Experiment::real(Paper::NvLogging) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "6",
        title: "Speed-up over a central log on a memory disk, over the latency of the memory",
        ran: "TPC-C in VanillaDB with 10 clients, 0 to 10 us added to each persist; the unchanged system with its log on a memory disk",
        here: "NewOrders and Payments of TPC-C with 10 clients; emulated NVRAM with the same latencies, and the disk log behind one mutex on a device in memory \
               without added latency",
        headline: "1.05 to 1.34 times, with latencies from 0 to 10 us",
        differs: "emulated memory (a mapped file, with write-back and fence) instead of a Java heap with delays; a sync protocol shared by clients instead of \
                  VanillaDB's log under one lock; 2 processors instead of 4 cores",
        command: "lab nvram --figure nvlogging6 --threads 10 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 5 --seconds 0.1 --delay 0,400ns,10us",
        criteria: criteria::SIX,
        ours: six,
        ..REAL
    },
    Experiment {
        figure: "7-8",
        title: "Throughput and latency over clients, at 400 ns",
        ran: "1 to 200 clients",
        here: "the same numbers of clients",
        headline: "throughput does not fall beyond 20 clients; latency grows less than the baseline's",
        differs: "as in Figure 6; 200 clients on 4 warehouses wait for each other's rows, whatever the log",
        command: "lab nvram --figure nvlogging7 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 5 --seconds 0.05 --threads 1,20,200",
        criteria: criteria::SEVEN_AND_EIGHT,
        ours: seven_and_eight,
        ..REAL
    },
    Experiment {
        figure: "9",
        title: "The size of the log and the number of checkpoints, at 400 ns",
        ran: "rings of 15 to 2 million entries, 10 clients, 3 minutes",
        here: "logs of 131 thousand to a million entries, where a run of 3 s fills 1.5 to 2.9 million (quick: 16 to 262 thousand); checkpoints at 70 %",
        headline: "fewer entries, more checkpoints, less throughput",
        command: "lab nvram --figure nvlogging9 --log nv_logging --dir {dir} --csv {csv} --svg {svg}",
        differs: "runs of seconds instead of minutes, and logs that are smaller in proportion",
        full: "--rounds 5 --entries 131072,262144,524288,1048576",
        quick: "--rounds 5 --seconds 0.4 --entries 16384,65536,262144",
        seconds: 180.0,
        quick_seconds: 30.0,
        criteria: criteria::NINE,
        ours: nine,
        ..REAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[SkippedFigure {
    paper: Paper::NvLogging,
    figures: "Figures 1 to 5, Tables 1 to 3",
    why: "drawings of data structures, and parameters: nothing is measured",
}];

fn six(rows: &Rows) -> String {
    let at = |log: Option<&str>, delay: &str| {
        let rows = rows.with(&[("threads", "10"), ("delay_us", delay)]);
        log.map_or(rows.clone(), |log| rows.with("log", log)).most("commits_per_second")
    };
    let to_central = |rate| ratio(rate, at(Some("disk"), "0")).unwrap_or_default();
    format!(
        "nv_logging {:.2} times at 400 ns, our nv_entries {:.2}, the best kind {:.2}; the report at most 1.34",
        to_central(at(Some("nv_logging"), "0.4")),
        to_central(at(Some("nv_entries"), "0.4")),
        to_central(at(None, "0.4"))
    )
}

fn seven_and_eight(rows: &Rows) -> String {
    let best = |log| rate(rows.with(&[("log", log)]).most("commits_per_second"));
    format!("at their best: nv_logging {}, our nv_entries {}", best("nv_logging"), best("nv_entries"))
}

fn nine(rows: &Rows) -> String {
    let checkpoints = rows.with(&[("log", "nv_logging")]).over("entries", "checkpoints");
    let (small, large) = checkpoints
        .first()
        .zip(checkpoints.last())
        .map(|(first, last)| (first.1, last.1))
        .unwrap_or_default();
    format!("{small:.0} checkpoints with the smallest, {large:.0} with the largest log")
}
