//! What each figure of ELEDA is asked.
//!
//! Pure.

use crate::reproduce::experiment::{Judged, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

pub fn fourteen(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let ours = || rows.with(&[("sync", "adaptive"), ("work", "log")]);
    let sizes = ours().over("payload", "commits_per_second");
    let bandwidth = ours().over("payload", "megabytes_per_second");
    let ends = |points: &[(f64, f64)]| Some((points.first()?.1, points.last()?.1));
    judged.ask(
        "commits a second fall from the smallest to the largest",
        ends(&sizes).map(|(small, large)| large / small),
        |to| format!("{to:.2} times"),
        |to| to < 0.8,
    );
    judged.ask_times(
        "bandwidth does not: the largest to the smallest, at least 1",
        ends(&bandwidth).map(|(small, large)| large / small),
        1.0,
    );
    let insert = |sync: &str, column| rows.with(&[("sync", sync), ("work", "insert")]).most(column);
    judged.ask_times(
        "inserts: ours to one sync a commit, at its best size, at least 3",
        ratio(insert("adaptive", "commits_per_second"), insert("per-commit", "commits_per_second")),
        3.0,
    );
    judged.ours = format!(
        "{:.0} MB/s, {:.0} % of the device's best sequential durable writes of the same round (the paper about 90 % of two SSDs)",
        ours().most("megabytes_per_second").unwrap_or_default(),
        100.0 * ours().most("bandwidth_to_raw").unwrap_or_default()
    );
    judged
}

pub fn fifteen(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let mut told = Vec::new();
    for work in rows.all().words("work") {
        let of = |threads: &str, log: &str| rows.with(&[("work", &work), ("threads", threads), ("log", log)]);
        let counts = rows.with(&[("work", &work)]).words("threads");
        let to = counts.iter().filter_map(|threads| {
            let nvram = ["nv_entries", "nv_logging", "nv_direct", "nv_ring"]
                .iter()
                .filter_map(|log| of(threads, log).with("delay_us", "0.4").most("commits_per_second"));
            ratio(of(threads, "disk").most("commits_per_second"), nvram.reduce(f64::max))
        });
        let (least, most) = to.fold((f64::MAX, f64::MIN), |(least, most), to| (least.min(to), most.max(to)));
        let least = Some(least).filter(|least| *least < f64::MAX);
        judged.ask_times(
            format!("{work}: the disk log to the best in NVRAM at 400 ns, at its worst number of clients: at least 0.9"),
            least,
            0.9,
        );
        told.push(format!("{work} {:.2} to {:.2}", least.unwrap_or_default(), most.max(0.0)));
    }
    judged.ours = format!("disk with callbacks to NVRAM: {}", told.join(", "));
    judged
}

pub fn sixteen(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of = |design: &str, device: &str| rows.with(&[("inserter", design), ("device", device)]);
    let smallest = rows.all().least("record").unwrap_or_default().to_string();
    let largest = rows.all().most("record").unwrap_or_default().to_string();
    let rate_of = |design: &str, device: &str, record: &str| {
        of(design, device).with("record", record).most("records_per_second")
    };
    judged.ask(
        "records a second fall with their size",
        ratio(rate_of("marks", "file", &largest), rate_of("marks", "file", &smallest)),
        |to| format!("{to:.2} times"),
        |to| to < 0.5,
    );
    judged.ask_times(
        "bandwidth grows with it: at least 1.5 times",
        ratio(
            of("marks", "file").with("record", &largest).most("megabytes_per_second"),
            of("marks", "file").with("record", &smallest).most("megabytes_per_second"),
        ),
        1.5,
    );
    let best = rows.with(&[("device", "file"), ("record", &smallest)]).most("records_per_second");
    judged.ours = format!(
        "{} transactions on this disk with two processors; the paper 1.34 million/s with 36",
        rate(best.map(|records| records / 3.0))
    );
    judged
}

pub fn eighteen(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of = |unit: &str, payload: &str, threads: &str| {
        rows.with(&[("sync", "pipelined"), ("payload", payload), ("threads", threads), ("io_unit", unit)])
    };
    let (small, large) = ("65536", "524288");
    judged.ask_times(
        "4 KiB with 1,000 in flight: 512 KiB moves more than 64 KiB, at least 1.3 times",
        ratio(
            of(large, "4096", "2").only("megabytes_per_second"),
            of(small, "4096", "2").only("megabytes_per_second"),
        ),
        1.3,
    );
    judged.ask(
        "120 bytes, 32 clients: a commit is told much sooner with 64 KiB than with 512, the paper ten times: at most 0.3 of the time",
        ratio(of(small, "120", "32").only("p50_us"), of(large, "120", "32").only("p50_us")),
        |times| format!("{times:.2} of the time"),
        |times| times <= 0.3,
    );
    let none = |column| {
        let all = rows.with(&[("sync", "pipelined"), ("payload", "4096"), ("threads", "2")]);
        all.without("io_unit").only(column)
    };
    judged.ours = format!(
        "{:.0} MB/s without a unit, {:.0} and {:.0} with 64 and 512 KiB",
        none("megabytes_per_second").unwrap_or_default(),
        of(small, "4096", "2").only("megabytes_per_second").unwrap_or_default(),
        of(large, "4096", "2").only("megabytes_per_second").unwrap_or_default()
    );
    judged
}

pub fn twenty(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let of = |hop: &str, threads: f64| {
        rows.with(&[("hop_bytes", hop), ("record", "120"), ("threads", &threads.to_string())]).only("crawled")
    };
    let most = rows.all().most("threads").unwrap_or_default();
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    judged.ask("one thread crawls most of its bytes", of("4194304", 1.0), percent, |share| share > 0.5);
    judged.ask(
        "with the short distance most threads crawl less than with the long one",
        of("16384", most).zip(of("4194304", most)).map(|(short, long)| short - long),
        |less| format!("{:.0} points", 100.0 * less),
        |less| less <= 0.0,
    );
    judged.ours = "`marks`, our default, neither crawls nor hops".to_owned();
    judged
}

pub fn twenty_one(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let ratio_of = |record: &str, threads: &str| {
        let of = |design: &str| {
            rows.with(&[("inserter", design), ("record", record), ("threads", threads)])
                .only("megabytes_per_second")
        };
        ratio(of("grasshopper"), of("bitmap"))
    };
    judged.ask_times(
        "at most threads, 120 bytes: grasshopper ahead of the bitmap",
        ratio_of("120", &most),
        1.0,
    );
    judged.ask_times("and with 4 KiB", ratio_of("4096", &most), 1.0);
    judged.ask_times(
        "by more than with one thread",
        ratio(ratio_of("4096", &most), ratio_of("4096", "1")),
        1.0,
    );
    judged.ours = format!(
        "{:.1} and {:.1} times the bitmap at {most} threads with 120 bytes and 4 KiB",
        ratio_of("120", &most).unwrap_or_default(),
        ratio_of("4096", &most).unwrap_or_default()
    );
    judged
}
