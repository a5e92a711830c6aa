//! Comparisons of our best results with Aether's, in words.
//!
//! Pure functions.

use crate::reproduce::experiment::rate;
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

fn most(rows: &Rows) -> String {
    rows.all().most("threads").unwrap_or_default().to_string()
}

pub fn two(rows: &Rows) -> String {
    let idle = |system: &str| {
        let share = rows.with(&[("system", system), ("threads", "60")]).only("idle_share");
        100.0 * share.unwrap_or_default()
    };
    format!(
        "idle with 60 clients: the baseline {:.0} %, with flush pipelining {:.0} %, ours {:.0} %",
        idle("baseline"),
        idle("+ flush pipelining"),
        idle("ours")
    )
}

pub fn three(rows: &Rows) -> String {
    let best = rows.with(&[("lock_release", "early"), ("delay_us", "10000")]).most("speed_up");
    format!("{:.0} times at 10 ms, the paper 35 times at most", best.unwrap_or_default())
}

pub fn four(rows: &Rows) -> String {
    let most = most(rows);
    let of = |sync: &str, flight: &str| {
        let rows = rows.with(&[("sync", sync), ("in_flight", flight), ("threads", &most)]);
        rows.only("voluntary_per_commit").unwrap_or_default()
    };
    format!(
        "{:.2} switches a commit for the baseline, {:.3} pipelined, {:.3} adaptive with 100 in flight",
        of("pipelined", "1"),
        of("pipelined", "100"),
        of("adaptive", "100")
    )
}

pub fn five(rows: &Rows) -> String {
    let most = most(rows);
    let of = |sync: &str, flight: &str| {
        rows.with(&[("sync", sync), ("in_flight", flight), ("threads", &most), ("durability", "durable")])
            .only("commits_per_second")
    };
    let ours = of("adaptive", "100");
    let ahead = ratio(ours, of("pipelined", "1")).unwrap_or_default();
    format!("adaptive {}, {ahead:.1} times the baseline; the paper 1.22", rate(ours))
}

pub fn seven(rows: &Rows) -> String {
    let at = rows.with(&[("threads", &most(rows))]);
    let kept = ratio(at.only("central-counter"), at.only("parallel-counter"));
    let lost = 100.0 * (1.0 - kept.unwrap_or(1.0));
    format!("one log with `marks` loses {lost:.0} % at {} threads", most(rows))
}

fn at_most_threads(rows: &Rows, design: &str) -> Option<f64> {
    rows.with(&[("inserter", design), ("threads", &most(rows))]).most("megabytes_per_second")
}

pub fn eight_left(rows: &Rows) -> String {
    let best = rows.with(&[("threads", &most(rows))]).most("megabytes_per_second");
    let ahead = ratio(best, at_most_threads(rows, "hybrid")).unwrap_or_default();
    format!("our best inserter {ahead:.1} times the hybrid at {} threads", most(rows))
}

pub fn eight_right(rows: &Rows) -> String {
    let cached = rows.with(&[("sweep", "size-cached")]);
    format!(
        "cached: hybrid {:.1} GB/s, our best {:.1} GB/s; the paper 21 GB/s",
        cached.clone().with("inserter", "hybrid").most("megabytes_per_second").unwrap_or_default() / 1e3,
        cached.most("megabytes_per_second").unwrap_or_default() / 1e3
    )
}

pub fn nine(rows: &Rows) -> String {
    let of =
        |system: &str| rows.with(&[("system", system), ("threads", &most(rows))]).only("commits_per_second");
    let to_baseline = |system| ratio(of(system), of("baseline")).unwrap_or_default();
    format!(
        "all parts {:.1} times the baseline, adaptive with marks {:.1} times; the paper about 1.8",
        to_baseline("+ log buffer"),
        to_baseline("ours")
    )
}

pub fn nine_on_cores(rows: &Rows) -> String {
    let to_mutex =
        |design| ratio(at_most_threads(rows, design), at_most_threads(rows, "mutex")).unwrap_or_default();
    format!(
        "hybrid {:.2} times, marks {:.2} times one lock at {} threads; the paper 1.07",
        to_mutex("hybrid"),
        to_mutex("marks"),
        most(rows)
    )
}

pub fn eleven(rows: &Rows) -> String {
    let largest = rows.all().most("outlier").unwrap_or_default().to_string();
    let at = || rows.with(&[("outlier", &largest)]);
    let delegated = at().with("inserter", "delegated").only("megabytes_per_second");
    let ahead = ratio(at().most("megabytes_per_second"), delegated).unwrap_or_default();
    format!("our best inserter {ahead:.1} times delegated release with the largest outlier")
}

pub fn twelve(rows: &Rows) -> String {
    let hybrid = || rows.with(&[("inserter", "hybrid"), ("threads", &most(rows))]);
    let four = hybrid().with("slots", "4").only("megabytes_per_second");
    let gain = 100.0 * (ratio(hybrid().most("megabytes_per_second"), four).unwrap_or(1.0) - 1.0);
    format!("4 is the default; at {} threads the best number gives the hybrid {gain:.0} % more", most(rows))
}

pub fn thirteen(rows: &Rows) -> String {
    let of = |workload: &str, by: &str| {
        let share = rows.with(&[("workload", workload), ("dealt_by", by)]).only("spanning");
        100.0 * share.unwrap_or_default()
    };
    format!(
        "commits that span logs: TPC-C {:.0} % dealt by transaction, {:.0} % by page; TPC-B {:.0} and {:.0} %",
        of("tpcc", "transaction"),
        of("tpcc", "page"),
        of("tpcb", "transaction"),
        of("tpcb", "page")
    )
}
