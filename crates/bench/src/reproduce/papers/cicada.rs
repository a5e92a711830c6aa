//! The figures of Cicada with parallel write-ahead logs.

use crate::reproduce::experiment::{Experiment, Judged, Paper, SkippedFigure, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

const REAL: Experiment = Experiment {
    quick: "--rounds 1 --seconds 0.15 --tuples 100000 --threads 1,2,16",
    seconds: 240.0,
    quick_seconds: 25.0,
    ..Experiment::real(Paper::Cicada)
};

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "3",
        title: "One serial log against logging off",
        ran: "20 writes a transaction over threads, a device of 50 us: a serial log with early release and group commit, and no logging",
        here: "the same in the memory engine: logging off, one serial log, and streams for each processor",
        headline: "with a serial log throughput hardly grows with the threads",
        command: "lab cicada --figure 3 --dir {dir} --csv {csv} --svg {svg}",
        judge: three,
        ..REAL
    },
    Experiment {
        figure: "4",
        title: "Lock release and commit, writing only",
        ran: "a million tuples, 20 writes a transaction: early and commit-time release, group and single commit, in parallel logs",
        here: "the same in the memory engine, clients that block and clients with 64 in flight",
        headline: "early release with group commit is best, commit-time release with group commit worst",
        command: "lab cicada --figure 4 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 420.0,
        quick_seconds: 35.0,
        judge: best_of_four,
        ..REAL
    },
    Experiment {
        figure: "5",
        title: "Lock release and commit, 80 % reads",
        ran: "the same with 80 % of the operations reads",
        here: "the same in the memory engine",
        headline: "early release with group commit is best again",
        command: "lab cicada --figure 5 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 420.0,
        quick_seconds: 35.0,
        judge: best_of_four,
        ..REAL
    },
    Experiment {
        figure: "6",
        title: "A device as quick as NVRAM",
        ran: "early release with group commit on a device of 15 us, against no logging",
        here: "the same in the memory engine",
        headline: "hardly any difference",
        command: "lab cicada --figure 6 --dir {dir} --csv {csv} --svg {svg}",
        quick_seconds: 15.0,
        judge: six,
        ..REAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[SkippedFigure {
    paper: Paper::Cicada,
    figures: "Figures 1 and 2, Tables I and II",
    why: "drawings, the four combinations by name, and a machine: nothing is measured",
}];

/// The clients of which a device's latency is hidden.
const IN_FLIGHT: &str = "64";

fn three(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let serial = || rows.with(&[("inserter", "mutex"), ("in_flight", "1")]);
    let few = serial().with("threads", "1").most("commits_per_second");
    let off = |threads: f64| {
        rows.with(&[("durability", "buffered"), ("threads", &threads.to_string())]).most("commits_per_second")
    };
    judged.ask(
        "blocking, with two threads a serial log stays below a third of logging off",
        ratio(serial().with("threads", "2").most("commits_per_second"), off(2.0)),
        |to| format!("{to:.2} times"),
        |to| to < 0.34,
    );
    judged.ask_times(
        "parallel streams are ahead of it, two threads that block: at least 1.5",
        ratio(
            rows.with(&[("in_flight", "1"), ("threads", "2"), ("streams", "2"), ("durability", "durable")])
                .most("commits_per_second"),
            serial().with("threads", "2").most("commits_per_second"),
        ),
        1.5,
    );
    judged.ours = format!(
        "serial {} with one thread; ours {} with 64 in flight",
        rate(few),
        rate(rows.with(&[("in_flight", IN_FLIGHT), ("inserter", "marks")]).most("commits_per_second"))
    );
    judged
}

fn best_of_four(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of = |release: &str, sync: &str| {
        let of = rows.with(&[
            ("inserter", "marks"),
            ("lock_release", release),
            ("sync", sync),
            ("in_flight", IN_FLIGHT),
        ]);
        of.with("threads", "2").most("commits_per_second")
    };
    let early_group = of("early", "pipelined");
    let others = [("early", "per-commit"), ("after-durable", "pipelined"), ("after-durable", "per-commit")];
    let best = others.iter().filter_map(|(release, sync)| of(release, sync)).reduce(f64::max);
    judged.ask_times(
        "early release with group commit is the best of the four, two threads with 64 in flight",
        ratio(early_group, best),
        1.0,
    );
    judged.ask_times(
        "early release gains with group commit",
        ratio(early_group, of("after-durable", "pipelined")),
        1.1,
    );
    judged.ours =
        format!("{}, {:.2} times the next", rate(early_group), ratio(early_group, best).unwrap_or_default());
    judged
}

fn six(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let off = rows.with(&[("durability", "buffered"), ("threads", "2")]).most("commits_per_second");
    let logging = rows.with(&[("durability", "durable"), ("threads", "2"), ("in_flight", IN_FLIGHT)]);
    judged.ask_times(
        "logging to logging off, two threads with 64 in flight: at least 0.8",
        ratio(logging.most("commits_per_second"), off),
        0.8,
    );
    judged.ours = format!("{} with logging, {} without", rate(logging.most("commits_per_second")), rate(off));
    judged
}
