//! What each figure of Aether is asked.
//!
//! Pure.

use crate::reproduce::experiment::{Judged, rate, ratio};
use crate::reproduce::rows::Rows;

pub fn three(rows: &Rows) -> Judged {
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

pub fn four(rows: &Rows) -> Judged {
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

pub fn five(rows: &Rows) -> Judged {
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

pub fn seven(rows: &Rows) -> Judged {
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

pub fn eight_left(rows: &Rows) -> Judged {
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

pub fn eight_right(rows: &Rows) -> Judged {
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

pub fn nine(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let of = |system: &str| rows.with(&[("system", system), ("threads", &most)]).only("commits_per_second");
    let steps = ["baseline", "+ early release", "+ flush pipelining", "+ log buffer"].map(of);
    let gain = |step: usize| ratio(steps[step], steps[step - 1]);
    judged.ask_times("flush pipelining gains, most clients: at least 1.68", gain(2), 1.68);
    judged.ask(
        "early release alone neither gains nor loses much without contention (0.7 to 1.4 times)",
        gain(1),
        |times| format!("{times:.2} times"),
        |times| (0.7..=1.4).contains(&times),
    );
    judged.ask_times("the log buffer does not lose: at least 0.9", gain(3), 0.9);
    judged.ours = format!(
        "all parts {:.1} times the baseline, adaptive with marks {:.1} times; the paper about 1.8",
        ratio(steps[3], steps[0]).unwrap_or_default(),
        ratio(of("ours"), steps[0]).unwrap_or_default()
    );
    judged
}

pub fn nine_on_cores(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let to_mutex = |design: &str, threads: Option<f64>| {
        let of = |design: &str| {
            rows.with(&[("inserter", design), ("threads", &threads?.to_string())])
                .only("megabytes_per_second")
        };
        ratio(of(design), of("mutex"))
    };
    let (fewest, most) = (rows.all().least("threads"), rows.all().most("threads"));
    judged.ask_times("at most threads the hybrid to one lock: at least 1.07", to_mutex("hybrid", most), 1.07);
    judged.ask(
        "with one thread it neither gains nor loses (0.95 to 1.05 times)",
        to_mutex("hybrid", fewest),
        |times| format!("{times:.2} times"),
        |times| (0.95..=1.05).contains(&times),
    );
    judged.ours = format!(
        "hybrid {:.2} times, marks {:.2} times one lock at {} threads; the paper 1.07",
        to_mutex("hybrid", most).unwrap_or_default(),
        to_mutex("marks", most).unwrap_or_default(),
        most.unwrap_or_default()
    );
    judged
}

pub fn eleven(rows: &Rows) -> Judged {
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

pub fn twelve(rows: &Rows) -> Judged {
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
