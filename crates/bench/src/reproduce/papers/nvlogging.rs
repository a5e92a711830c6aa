//! The figures of the report on NV-Logging.

use crate::reproduce::experiment::{Experiment, Judged, Paper, SkippedFigure, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

const REAL: Experiment = Experiment {
    quick: "--rounds 1 --seconds 0.2",
    seconds: 60.0,
    quick_seconds: 12.0,
    ..Experiment::real(Paper::NvLogging)
};

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "6",
        title: "Speed-up over a central log on a memory disk, over the latency of the memory",
        ran: "TPC-C in VanillaDB with 10 clients, 0 to 10 us added to each persist; the unchanged system with its log on a memory disk",
        here: "NewOrders and Payments of TPC-C with 2 and 10 clients; emulated NVRAM with the same latencies, and the disk log behind one mutex \
               on a device in memory whose durable writes take as much longer",
        headline: "1.05 to 1.34 times",
        command: "lab nvram --figure nvlogging6 --threads 2,10 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 0.2 --delay 0,400ns,5us",
        quick_seconds: 12.0,
        seconds: 90.0,
        judge: six,
        ..REAL
    },
    Experiment {
        figure: "7-8",
        title: "Throughput and latency over clients, at 400 ns",
        ran: "1 to 200 clients",
        here: "the same numbers of clients",
        headline: "throughput does not fall beyond 20 clients; latency grows less than the baseline's",
        command: "lab nvram --figure nvlogging7 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 0.15 --threads 1,20,200",
        quick_seconds: 12.0,
        judge: seven_and_eight,
        ..REAL
    },
    Experiment {
        figure: "9",
        title: "The size of the log and the number of checkpoints, at 400 ns",
        ran: "rings of 15 to 2 million entries, 10 clients, 3 minutes",
        here: "logs of 2 to 16 million entries (quick: thousands), checkpoints at 70 %",
        headline: "fewer entries, more checkpoints, less throughput",
        command: "lab nvram --figure nvlogging9 --log nv_logging --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 1 --entries 16384,65536,262144",
        seconds: 120.0,
        quick_seconds: 15.0,
        judge: nine,
        ..REAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[SkippedFigure {
    paper: Paper::NvLogging,
    figures: "Figures 1 to 5, Tables 1 to 3",
    why: "drawings of data structures, and parameters: nothing is measured",
}];

fn six(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let at = |log: &str, threads: &str, delay: &str| {
        rows.with(&[("log", log), ("threads", threads), ("delay_us", delay)]).only("to_disk")
    };
    let ahead = rows.with(&[("log", "nv_logging")]).least("to_disk");
    judged.ask_times("nv_logging is ahead of the central log at every latency: at least 1.05", ahead, 1.05);
    judged.ask_times("with two clients at 400 ns: at least 1.34", at("nv_logging", "2", "0.4"), 1.34);
    let best = rows.with(&[("threads", "2"), ("delay_us", "0.4")]).most("to_disk");
    judged.ours = format!(
        "nv_logging {:.2} times with two clients at 400 ns, {:.2} with ten; the best kind {:.2} with two; the report at most 1.34",
        at("nv_logging", "2", "0.4").unwrap_or_default(),
        at("nv_logging", "10", "0.4").unwrap_or_default(),
        best.unwrap_or_default()
    );
    judged
}

fn seven_and_eight(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let of = |log: &str, threads: &str, column| rows.with(&[("log", log), ("threads", threads)]).only(column);
    judged.ask_times(
        "nv_logging at most clients to itself at 20: at least 0.8",
        ratio(of("nv_logging", &most, "commits_per_second"), of("nv_logging", "20", "commits_per_second")),
        0.8,
    );
    judged.ask_times(
        "mean latency of a transaction at most clients, the central log's to nv_logging's: at least 1",
        ratio(of("disk", &most, "transaction_us"), of("nv_logging", &most, "transaction_us")),
        1.0,
    );
    judged.ours = format!(
        "nv_logging {} at its best",
        rate(rows.with(&[("log", "nv_logging")]).most("commits_per_second"))
    );
    judged
}

fn nine(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let ends = |column| {
        let points = rows.with(&[("log", "nv_logging")]).over("entries", column);
        Some((points.first()?.1, points.last()?.1))
    };
    let checkpoints = ends("checkpoints");
    judged.ask(
        "the smallest log takes more checkpoints than the largest",
        checkpoints.map(|(small, large)| small - large),
        |more| format!("{more:.0} more"),
        |more| more > 0.0,
    );
    judged.ask_times(
        "and the largest gives at least as much throughput",
        ends("commits_per_second").map(|(small, large)| large / small),
        1.0,
    );
    let (small, large) = checkpoints.unwrap_or_default();
    judged.ours = format!("{small:.0} checkpoints with the smallest, {large:.0} with the largest log");
    judged
}
