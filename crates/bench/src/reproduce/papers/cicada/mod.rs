//! The figures of Cicada with parallel write-ahead logs.

mod criteria;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;
use criteria::IN_FLIGHT;

const REAL: Experiment = Experiment {
    full: "--rounds 5 --seconds 0.2",
    quick: "--rounds 5 --seconds 0.05 --tuples 100000 --threads 1,2,16",
    seconds: 260.0,
    quick_seconds: 30.0,
    differs: PROCESSORS,
    ..Experiment::real(Paper::Cicada)
};

const PROCESSORS: &str = "2 processors instead of 24 cores, of which waits of up to 50 us take their part; commit-time release of a group is by a helper thread, when the \
                          worker has written it";

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "3",
        title: "One serial log against logging off",
        ran: "20 writes a transaction over threads, a device of 50 us: a serial log with early release and group commit, and no logging",
        here: "the same in the memory engine: logging off, one serial log, and streams for each processor",
        headline: "a serial log decreases performance and hardly grows with the threads; without logging it scales up",
        command: "lab cicada --figure 3 --dir {dir} --csv {csv} --svg {svg}",
        differs: "2 processors instead of 24 cores; a device of 50 us, where the paper prints 50 ms",
        criteria: criteria::THREE,
        ours: three,
        ..REAL
    },
    Experiment {
        figure: "4",
        title: "Lock release and commit, writing only",
        ran: "a million tuples, 20 writes a transaction: early and commit-time release, group and single commit, in parallel logs",
        here: "the same in the memory engine, a stream for each thread; single commit with clients that block, group commit by the workers with 64 in flight",
        headline: "early release with group commit is best by far; the order is completed by single commit with early release, single commit with commit-time release, \
                   and group commit with commit-time release",
        command: "lab cicada --figure 4 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 450.0,
        quick_seconds: 45.0,
        criteria: criteria::FOUR,
        ours: best_of_four,
        ..REAL
    },
    Experiment {
        figure: "5",
        title: "Lock release and commit, 80 % reads",
        ran: "the same with 80 % of the operations reads",
        here: "the same in the memory engine",
        headline: "early release with group commit is best again",
        command: "lab cicada --figure 5 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 450.0,
        quick_seconds: 45.0,
        criteria: criteria::FOUR,
        ours: best_of_four,
        ..REAL
    },
    Experiment {
        figure: "6",
        title: "A device as quick as NVRAM",
        ran: "early release with group commit on a device of 15 us, against no logging",
        here: "the same in the memory engine",
        headline: "hardly any difference",
        command: "lab cicada --figure 6 --dir {dir} --csv {csv} --svg {svg}",
        criteria: criteria::SIX,
        ours: six,
        ..REAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[SkippedFigure {
    paper: Paper::Cicada,
    figures: "Figures 1 and 2, Tables I and II",
    why: "drawings, the four combinations by name, and a machine: nothing is measured",
}];

fn three(rows: &Rows) -> String {
    let serial = rows.with(&[("inserter", "mutex"), ("threads", "1")]).most("commits_per_second");
    let ours = rows.with(&[("in_flight", IN_FLIGHT), ("inserter", "marks")]).most("commits_per_second");
    format!("serial {} with one thread; ours {} with {IN_FLIGHT} in flight", rate(serial), rate(ours))
}

fn best_of_four(rows: &Rows) -> String {
    let of = |sync: &str| {
        let rows = rows.with(&[
            ("lock_release", "early"),
            ("sync", sync),
            ("in_flight", IN_FLIGHT),
            ("threads", "2"),
        ]);
        rows.with("inserter", "marks").most("commits_per_second")
    };
    let ahead = ratio(of("adaptive"), of("inline")).unwrap_or_default();
    format!("adaptive with 2 threads {}, {ahead:.2} times the paper's groups", rate(of("adaptive")))
}

fn six(rows: &Rows) -> String {
    let at = |durability: &str| {
        rows.with(&[("durability", durability), ("threads", "2")]).most("commits_per_second")
    };
    format!("{} with logging at the best, {} without", rate(at("durable")), rate(at("buffered")))
}
