//! Aether's figures.

use super::{real, simulated};
use crate::reproduce::experiment::{Experiment, Judged, Left, Paper, Threads, rate, ratio};
use crate::reproduce::rows::Rows;

const REAL: Experiment = Experiment { seconds: 60.0, quick_seconds: 20.0, ..real(Paper::Aether) };

const VIRTUAL: Experiment = Experiment { seconds: 30.0, quick_seconds: 4.0, ..simulated(Paper::Aether) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "3",
        title: "What early lock release gains over skew and device latency",
        ran: "TPC-B in Shore-MT with 60 clients, log devices of 0 to 10 ms, zipfian skews of 0 to 5; speed-up of early lock release",
        here: "TPC-B in the paged engine with 128 clients that block, delays of 0, 100 us, 1 ms and 10 ms added to each durable write, four skews",
        headline: "no gain without contention; up to 35 times at 10 ms with a skew around 1; about 2 times at 100 us",
        command: "bench commit --figure aether3 --dir {dir} --csv {csv} --svg {svg}",
        quick_seconds: 35.0,
        seconds: 75.0,
        judge: three,
        ..REAL
    },
    Experiment {
        figure: "4",
        title: "Context switches and processor use, without and with flush pipelining",
        ran: "TPC-B over client threads; context switches a second, and total and system processor use",
        here: "TPC-B over 1 to 64 clients, blocking in each commit or with 100 commits in flight",
        headline: "without pipelining switches grow with the clients and processors idle; with it they stay nearly constant and low",
        command: "bench commit --figure aether4 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 40.0,
        quick_seconds: 14.0,
        judge: four,
        ..REAL
    },
    Experiment {
        figure: "5",
        title: "Flush pipelining beside asynchronous commit",
        ran: "TPC-B over client threads: baseline, asynchronous commit, flush pipelining",
        here: "TPC-B over 1 to 64 clients: one sync a commit, ours blocking, 100 in flight, and the unsafe commits `written` and `buffered`",
        headline: "flush pipelining matches asynchronous commit, up to 22 % above the baseline",
        command: "bench commit --figure aether5 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 45.0,
        quick_seconds: 14.0,
        judge: five,
        ..REAL
    },
    Experiment {
        figure: "7",
        title: "The share of time lost to one log as threads grow",
        ran: "TATP UpdateLocation in Shore-MT with early release and flush pipelining; a breakdown of time over load",
        here: "transactions of 1 us and one record of 120 bytes on 64 simulated contexts, with the log's real code; what one log behind a lock loses \
               against none",
        headline: "the log buffer takes more than 35 % of the time at full load",
        threads: Threads::Virtual,
        command: "manycore txn --machine aether --record 120 --csv {csv} --svg {svg}/txn.svg",
        full: "--millis 20",
        quick: "",
        seconds: 10.0,
        quick_seconds: 2.0,
        judge: seven,
        ..REAL
    },
    Experiment {
        figure: "8-left",
        title: "Designs of the log buffer over threads",
        ran: "threads that insert records of 120 bytes into the log buffer, 1 to 64 hardware contexts",
        here: "the same on a simulated machine of 64 contexts, with the inserters' real code",
        headline: "the baseline saturates at about 140 MB/s; the hybrid scales nearly linearly",
        command: "manycore run --machine aether --sweep threads --csv {csv} --svg {svg}",
        judge: eight_left,
        ..VIRTUAL
    },
    Experiment {
        figure: "8-right",
        title: "Designs of the log buffer over sizes of records",
        ran: "64 threads, records of 48 bytes to 12 kB; once more into storage that stays in the cache",
        here: "the same on a simulated machine of 64 contexts",
        headline: "the hybrid is best at every size; 21 GB/s with storage in the cache",
        command: "manycore run --machine aether --sweep size,size-cached --csv {csv} --svg {svg}",
        seconds: 60.0,
        quick_seconds: 6.0,
        judge: eight_right,
        ..VIRTUAL
    },
    Experiment {
        figure: "11",
        title: "One large record among small ones",
        ran: "one record of 64 bytes to 64 kB and more after every 60 of 48 bytes: in-order release (CD) against delegated release (CDME)",
        here: "the same on a simulated machine of 64 contexts, outliers up to 256 KiB",
        headline: "delegated release stays flat where in-order release falls behind",
        command: "manycore run --machine aether --sweep outlier --csv {csv} --svg {svg}",
        seconds: 50.0,
        quick_seconds: 5.0,
        judge: eleven,
        ..VIRTUAL
    },
    Experiment {
        figure: "12",
        title: "How many slots the consolidation array needs",
        ran: "throughput over the number of slots and threads",
        here: "1 to 10 slots at 4, 16 and 64 threads on a simulated machine of 64 contexts",
        headline: "three or four slots are enough; more gain little",
        command: "manycore run --machine aether --sweep slots --csv {csv} --svg {svg}",
        seconds: 40.0,
        quick_seconds: 5.0,
        judge: twelve,
        ..VIRTUAL
    },
];

pub const LEFT: &[Left] = &[
    Left {
        paper: Paper::Aether,
        figures: "Figures 1, 6, 10",
        why: "drawings of timelines, designs and states: nothing is measured",
    },
    Left {
        paper: Paper::Aether,
        figures: "Figure 2",
        why: "a profile of Shore-MT with 60 clients as parts of it are taken away; Figures 3, 4, 5 and 7 show what each part costs here",
    },
    Left {
        paper: Paper::Aether,
        figures: "Figure 13",
        why: "dependences between eight logs in a trace of Shore-MT; what they cost the memory engine's streams is Cicada's Figure 4",
    },
];

fn three(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let early = |delay: &str| rows.with(&[("lock_release", "early"), ("delay_us", delay)]);
    let calm = early("0").with("skew", "0").only("speed_up");
    judged.ask(
        "no delay and no skew: neither gains nor loses much (0.7 to 1.6 times)",
        calm,
        |times| format!("{times:.2} times"),
        |times| (0.7..=1.6).contains(&times),
    );
    let contended = |delay| early(delay).where_number("skew", |skew| skew > 0.0).most("speed_up");
    judged.ask_times("at 100 us with skew: at least 1.5 times", contended("100"), 1.5);
    judged.ask_times("at 10 ms with skew: at least 10 times", contended("10000"), 10.0);
    judged.ask_times(
        "more at 10 ms than at 100 us, in ratio at least 2",
        ratio(contended("10000"), contended("100")),
        2.0,
    );
    let best = contended("10000").map_or("nothing".to_owned(), |times| format!("{times:.0} times"));
    judged.ours = format!("{best} at 10 ms, the paper 35 times at most");
    judged
}

fn four(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let of = |sync: &str, flight: &str| {
        let rows = rows.with(&[("sync", sync), ("in_flight", flight), ("threads", &most)]);
        rows.only("voluntary_per_commit")
    };
    let (baseline, pipelined) = (of("per-commit", "1"), of("pipelined", "100"));
    judged.ask_times(
        "switches for each commit, a blocking sync each over pipelined with 100 in flight, most clients: at least 5",
        ratio(baseline, pipelined),
        5.0,
    );
    let few = rows.with(&[("in_flight", "100")]).where_number("threads", |threads| threads <= 4.0);
    judged.ask(
        "with 100 in flight switches a second do not grow with the clients (less than doubled)",
        ratio(
            rows.with(&[("in_flight", "100"), ("threads", &most)]).most("switches_per_second"),
            few.most("switches_per_second"),
        ),
        |times| format!("{times:.2} times"),
        |times| times < 2.0,
    );
    judged.ours = format!(
        "{:.2} switches a commit for the baseline, {:.3} pipelined, {:.3} ours with 100 in flight",
        baseline.unwrap_or_default(),
        pipelined.unwrap_or_default(),
        of("adaptive", "100").unwrap_or_default()
    );
    judged
}

fn five(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let at = || rows.with(&[("threads", &most)]);
    let in_flight = at().with("in_flight", "100").most("commits_per_second");
    let baseline = at().with("sync", "per-commit").only("commits_per_second");
    judged.ask_times("pipelined over one sync a commit: at least 1.22", ratio(in_flight, baseline), 1.22);
    let unsafe_ = at().with("durability", "buffered").only("commits_per_second");
    judged.ask_times(
        "pipelined to the unsafe asynchronous commit: at least 0.9",
        ratio(in_flight, unsafe_),
        0.9,
    );
    judged.ours = format!(
        "{} durable, {:.1} times the baseline (the paper 1.22)",
        rate(in_flight),
        ratio(in_flight, baseline).unwrap_or_default()
    );
    judged
}

fn seven(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let lost = |threads: Option<f64>, log: &str| {
        let at = rows.with(&[("threads", &threads?.to_string())]);
        Some(100.0 * (1.0 - ratio(at.only(log), at.only("none"))?))
    };
    let most = rows.all().most("threads");
    let percent = |lost: f64| format!("{lost:.0} %");
    judged.ask(
        "at most threads a log behind a lock loses at least 35 %",
        lost(most, "serial"),
        percent,
        |lost| lost >= 35.0,
    );
    let fewest = rows.all().least("threads");
    judged.ask(
        "and more than with one thread",
        lost(most, "serial").zip(lost(fewest, "serial")).map(|(most, fewest)| most - fewest),
        |more| format!("{more:.0} points more"),
        |more| more > 10.0,
    );
    let ours = lost(most, "central").map_or("nothing".to_owned(), percent);
    judged.ours = format!("one log with `marks` loses {ours} at {} threads", most.unwrap_or_default());
    judged
}

fn eight_left(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default();
    let at = |design, threads: f64| {
        rows.with(&[("inserter", design), ("threads", &threads.to_string())]).only("megabytes_per_second")
    };
    judged.ask(
        "the mutex saturates: at most threads at most 1.5 times its rate with one",
        ratio(at("mutex", most), at("mutex", 1.0)),
        |times| format!("{times:.2} times"),
        |times| times <= 1.5,
    );
    judged.ask_times(
        "the hybrid scales: at most threads at least 16 times its rate with one",
        ratio(at("hybrid", most), at("hybrid", 1.0)),
        16.0,
    );
    judged.ask_times(
        "the hybrid is ahead of consolidation alone",
        ratio(at("hybrid", most), at("consolidated", most)),
        1.0,
    );
    judged.ask_times(
        "consolidation is ahead of decoupling alone",
        ratio(at("consolidated", most), at("decoupled", most)),
        1.0,
    );
    let best = rows.with(&[("threads", &most.to_string())]).most("megabytes_per_second");
    judged.ours = format!(
        "our best inserter {:.1} times the hybrid at {most} threads",
        ratio(best, at("hybrid", most)).unwrap_or_default()
    );
    judged
}

fn eight_right(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of = |design: &str, record: &str| {
        rows.with(&[("sweep", "size"), ("inserter", design), ("record", record)]).only("megabytes_per_second")
    };
    let sizes = rows.with(&[("sweep", "size")]).words("record");
    let behind = sizes.iter().filter_map(|size| {
        let others = ["mutex", "consolidated", "decoupled"].iter().filter_map(|design| of(design, size));
        ratio(of("hybrid", size), others.reduce(f64::max))
    });
    judged.ask_times(
        "the hybrid to the best of the others, at its worst size: at least 0.9",
        behind.reduce(f64::min),
        0.9,
    );
    let (small, large) =
        (sizes.first().cloned().unwrap_or_default(), sizes.last().cloned().unwrap_or_default());
    judged.ask_times(
        "the mutex gains with larger records: at least 2 times",
        ratio(of("mutex", &large), of("mutex", &small)),
        2.0,
    );
    let cached = rows.with(&[("sweep", "size-cached"), ("inserter", "hybrid")]).most("megabytes_per_second");
    let best = rows.with(&[("sweep", "size-cached")]).most("megabytes_per_second");
    judged.ours = format!(
        "cached: hybrid {:.1} GB/s, our best {:.1} GB/s; the paper 21 GB/s",
        cached.unwrap_or_default() / 1e3,
        best.unwrap_or_default() / 1e3
    );
    judged
}

fn eleven(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of = |design: &str| rows.with(&[("inserter", design)]).over("outlier", "megabytes_per_second");
    let (hybrid, delegated) = (of("hybrid"), of("delegated"));
    let worst = |points: &[(f64, f64)]| points.last().map(|point| point.1);
    judged.ask_times(
        "with the largest outlier delegated release is ahead of release in order",
        ratio(worst(&delegated), worst(&hybrid)),
        1.0,
    );
    let first = delegated.first().map(|point| point.1);
    judged.ask_times(
        "delegated release keeps at least 0.9 of its bandwidth",
        ratio(worst(&delegated), first),
        0.9,
    );
    let largest = rows.all().most("outlier").unwrap_or_default().to_string();
    let best = rows.with(&[("outlier", &largest)]).most("megabytes_per_second");
    judged.ours = format!(
        "our best inserter {:.1} times delegated release with the largest outlier",
        ratio(best, worst(&delegated)).unwrap_or_default()
    );
    judged
}

fn twelve(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let at = |slots: &str| {
        rows.with(&[("inserter", "hybrid"), ("threads", &most), ("slots", slots)])
            .only("megabytes_per_second")
    };
    let best = rows.with(&[("inserter", "hybrid"), ("threads", &most)]).most("megabytes_per_second");
    judged.ask_times("four slots give at least 0.85 of the best number of slots", ratio(at("4"), best), 0.85);
    judged.ask(
        "one slot gives less than four",
        ratio(at("1"), at("4")),
        |to| format!("{to:.2} times"),
        |to| to < 1.0,
    );
    judged.ours = format!(
        "4 is the default; at {most} threads the best number gains {:.0} %",
        100.0 * (ratio(best, at("4")).unwrap_or(1.0) - 1.0)
    );
    judged
}
