//! Comparisons of our best results with ELEDA's, in words.
//!
//! Pure functions.

use super::systems::{KEY_VALUE, OLTP, TPCC};
use crate::reproduce::experiment::rate;
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

fn of(rows: &Rows, work: &str, system: &str, threads: &str, column: &str) -> Option<f64> {
    rows.with(&[("work", work), ("system", system), ("threads", threads)]).only(column)
}

fn to(rows: &Rows, work: &str, system: &str, other: &str, threads: &str) -> f64 {
    let rate = |system| of(rows, work, system, threads, "commits_per_second");
    ratio(rate(system), rate(other)).unwrap_or_default()
}

fn throughput_and_latency(rows: &Rows, work: &str) -> String {
    let mean = |system| of(rows, work, system, "32", "mean_us").unwrap_or_default() / 1e3;
    format!(
        "ELEDA {:.1} and {:.1} times vanilla with one thread and 32, ours {:.1} and {:.1}; ours blocking {:.1} times with 32, acknowledged in {:.2} ms \
         instead of {:.2}",
        to(rows, work, "ELEDA", "vanilla", "1"),
        to(rows, work, "ELEDA", "vanilla", "32"),
        to(rows, work, "ours", "vanilla", "1"),
        to(rows, work, "ours", "vanilla", "32"),
        to(rows, work, "ours, blocking", "vanilla", "32"),
        mean("ours, blocking"),
        mean("vanilla")
    )
}

pub fn key_value(rows: &Rows) -> String {
    throughput_and_latency(rows, KEY_VALUE)
}

pub fn oltp(rows: &Rows) -> String {
    throughput_and_latency(rows, OLTP)
}

fn most(rows: &Rows) -> String {
    rows.all().most("threads").unwrap_or_default().to_string()
}

pub fn on_cores(rows: &Rows) -> String {
    let at = |design: &str| {
        rows.with(&[("inserter", design), ("threads", &most(rows))]).only("megabytes_per_second")
    };
    let to_groups = |design| ratio(at(design), at("consolidated")).unwrap_or_default();
    format!(
        "grasshopper {:.1} times consolidated at {} threads, marks {:.1} times",
        to_groups("grasshopper"),
        most(rows),
        to_groups("marks")
    )
}

pub fn twelve(rows: &Rows) -> String {
    let per_minute = |system: &str| {
        let rows = rows.with(&[("work", TPCC), ("system", system)]);
        rows.most("commits_per_second").unwrap_or_default() * 60.0 / 2.0 / 1e3
    };
    format!(
        "thousand NewOrders a minute at the best number of threads: vanilla {:.0}, in memory {:.0}, ELEDA {:.0}, ours {:.0}",
        per_minute("vanilla"),
        per_minute("vanilla in memory"),
        per_minute("ELEDA"),
        per_minute("ours")
    )
}

pub fn thirteen(rows: &Rows) -> String {
    let most = most(rows);
    let work = |work: &str| {
        format!(
            "{work}: many versions {:.2} times locks at {most} threads, {}",
            to(rows, work, "ours", "ours, locks", &most),
            rate(of(rows, work, "ours", &most, "commits_per_second"))
        )
    };
    format!("{}; {}", work(KEY_VALUE), work(OLTP))
}

pub fn fourteen(rows: &Rows) -> String {
    let ours = || rows.with(&[("system", "ours")]);
    format!(
        "{:.0} MB/s, {:.0} % of the device's best sequential durable writes of the same round (the paper about 90 % of two SSDs)",
        ours().most("megabytes_per_second").unwrap_or_default(),
        100.0 * ours().most("bandwidth_to_raw").unwrap_or_default()
    )
}

pub fn fifteen(rows: &Rows) -> String {
    let work = |work: &str| {
        let to = rows.with(&[("work", work)]).words("threads").into_iter().filter_map(|threads| {
            let of = |log: &str| {
                rows.with(&[("work", work), ("threads", &threads), ("log", log), ("delay_us", "0")])
            };
            let ours = of("disk").with("sync", "adaptive").most("commits_per_second");
            ratio(ours, of("nv_direct").only("commits_per_second"))
        });
        let (least, most) =
            to.fold((f64::MAX, 0.0), |(least, most), to| (f64::min(least, to), f64::max(most, to)));
        format!("{work} {:.2} to {most:.2}", least.min(most))
    };
    format!("our log on disk with callbacks to the log in NVRAM: {}, {}", work("update"), work("tpcc-pair"))
}

pub fn sixteen(rows: &Rows) -> String {
    let smallest = rows.all().least("record").unwrap_or_default().to_string();
    let of = |design| {
        let rows = rows.with(&[("device", "file"), ("record", &smallest), ("inserter", design)]);
        rate(rows.most("records_per_second"))
    };
    format!(
        "marks {} transactions of three records on this disk, grasshopper {}; the paper 1.34 million/s with 36 threads",
        of("marks"),
        of("grasshopper")
    )
}

pub fn eighteen(rows: &Rows) -> String {
    let none = rows.with(&[("sync", "adaptive"), ("payload", "4096"), ("threads", "2")]).without("io_unit");
    format!("{:.0} MB/s by adaptive without a unit", none.most("megabytes_per_second").unwrap_or_default())
}

pub fn nineteen(rows: &Rows) -> String {
    let work = |work: &str| {
        format!(
            "{work}: hiding {:.1} times, GRASSHOPPER {:.2} on top with one thread and {:.2} with 32",
            to(rows, work, "hiding", "vanilla", "1"),
            to(rows, work, "ELEDA", "hiding", "1"),
            to(rows, work, "ELEDA", "hiding", "32")
        )
    };
    format!("{}; {}", work(KEY_VALUE), work(OLTP))
}

pub fn twenty(rows: &Rows) -> String {
    let crawled = |hop: &str| {
        rows.with(&[("hop_bytes", hop), ("record", "120"), ("threads", "32")])
            .only("crawled")
            .unwrap_or_default()
    };
    format!(
        "32 threads crawl over {:.0} % with hops of 4 MiB and {:.0} % with 16 KiB; `marks`, our default, neither crawls nor hops",
        100.0 * crawled("4194304"),
        100.0 * crawled("16384")
    )
}

pub fn twenty_one(rows: &Rows) -> String {
    let to_bitmap = |record: &str| {
        let at = |design: &str| {
            rows.with(&[("inserter", design), ("record", record), ("threads", &most(rows))])
                .only("megabytes_per_second")
        };
        ratio(at("grasshopper"), at("bitmap")).unwrap_or_default()
    };
    format!(
        "{:.1} and {:.1} times the bitmap at {} threads with 120 bytes and 4 KiB",
        to_bitmap("120"),
        to_bitmap("4096"),
        most(rows)
    )
}

pub fn seventeen(rows: &Rows) -> String {
    let of = |system: &str, column: &str| {
        let rows = rows.with(&[("system", system), ("threads", "32")]);
        100.0 * rows.only(column).unwrap_or_default()
    };
    format!(
        "with 32 threads: vanilla waits for the log {:.0} % of the clients' time, ELEDA {:.0} %, ours {:.0} %; in the kernel {:.0}, {:.0} and {:.0} % of the processors",
        of("vanilla", "log_wait_share"),
        of("ELEDA", "log_wait_share"),
        of("ours", "log_wait_share"),
        of("vanilla", "system_share"),
        of("ELEDA", "system_share"),
        of("ours", "system_share")
    )
}
