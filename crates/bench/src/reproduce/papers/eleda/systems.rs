//! What ELEDA's figures are asked that set systems beside each other.
//!
//! Pure.

use crate::reproduce::experiment::{Judged, rate};
use crate::reproduce::quantity::ratio;
use crate::reproduce::rows::Rows;

/// Rows of one work in a file with several systems.
struct Systems<'a> {
    rows: &'a Rows,
    work: &'a str,
}

impl Systems<'_> {
    fn threads(&self) -> Vec<String> {
        self.rows.with(&[("work", self.work)]).words("threads")
    }

    fn most(&self) -> String {
        self.threads().last().cloned().unwrap_or_default()
    }

    fn fewest(&self) -> String {
        self.threads().first().cloned().unwrap_or_default()
    }

    fn of(&self, system: &str, threads: &str, column: &str) -> Option<f64> {
        self.rows.with(&[("work", self.work), ("system", system), ("threads", threads)]).only(column)
    }

    fn rate(&self, system: &str, threads: &str) -> Option<f64> {
        self.of(system, threads, "commits_per_second")
    }

    /// One system's rate to another's.
    fn to(&self, system: &str, other: &str, threads: &str) -> Option<f64> {
        ratio(self.rate(system, threads), self.rate(other, threads))
    }
}

fn with(threads: &str) -> String {
    match threads {
        "1" => "one thread".to_owned(),
        threads => format!("{threads} threads"),
    }
}

fn times(times: f64) -> String {
    format!("{times:.2} times")
}

/// Figures 8 and 9, or 10 and 11. The paper saw ten times with one thread and more with many, each on a core of its own.
fn throughput_and_latency(rows: &Rows, work: &str) -> Judged {
    const FEW: f64 = 5.0;
    const MANY: f64 = 2.0;
    let mut judged = Judged::default();
    let systems = Systems { rows, work };
    let (fewest, most) = (systems.fewest(), systems.most());
    judged.ask_times(
        format!("{}, ELEDA to vanilla on disk: at least {FEW}", with(&fewest)),
        systems.to("ELEDA", "vanilla", &fewest),
        FEW,
    );
    judged.ask_times(
        format!("{most} threads, ELEDA to vanilla on disk: at least {MANY}"),
        systems.to("ELEDA", "vanilla", &most),
        MANY,
    );
    let mean = |system| systems.of(system, &most, "mean_us");
    judged.ask_times(
        format!("{most} threads, its commits are told later, mean time to vanilla's: at least 1.5"),
        ratio(mean("ELEDA"), mean("vanilla")),
        1.5,
    );
    judged.ours = format!(
        "ELEDA {:.1} and {:.1} times vanilla with {} and {most}, ours {:.1} and {:.1}; ours blocking {:.1} times with {most}, told in {:.2} \
         ms instead of {:.2}",
        systems.to("ELEDA", "vanilla", &fewest).unwrap_or_default(),
        systems.to("ELEDA", "vanilla", &most).unwrap_or_default(),
        with(&fewest),
        systems.to("ours", "vanilla", &fewest).unwrap_or_default(),
        systems.to("ours", "vanilla", &most).unwrap_or_default(),
        systems.to("ours, blocking", "vanilla", &most).unwrap_or_default(),
        mean("ours, blocking").unwrap_or_default() / 1e3,
        mean("vanilla").unwrap_or_default() / 1e3
    );
    judged
}

pub fn key_value(rows: &Rows) -> Judged {
    throughput_and_latency(rows, "update-search")
}

pub fn oltp(rows: &Rows) -> Judged {
    throughput_and_latency(rows, "sysbench-write")
}

pub fn key_value_on_cores(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let most = rows.all().most("threads").unwrap_or_default().to_string();
    let at = |design: &str, threads: &str| {
        rows.with(&[("inserter", design), ("threads", threads)]).only("megabytes_per_second")
    };
    let best = |design: &str| rows.with(&[("inserter", design)]).most("megabytes_per_second");
    judged.ask(
        "consolidated collapses: at most threads to its best at most 0.8",
        ratio(at("consolidated", &most), best("consolidated")),
        times,
        |to| to <= 0.8,
    );
    judged.ask_times(
        "grasshopper grows: at most threads to one, at least 16",
        ratio(at("grasshopper", &most), at("grasshopper", "1")),
        16.0,
    );
    judged.ask_times(
        "and is ahead there: at least 4 times consolidated",
        ratio(at("grasshopper", &most), at("consolidated", &most)),
        4.0,
    );
    judged.ours = format!(
        "grasshopper {:.1} times consolidated at {most} threads, marks {:.1} times; the paper 71 with the device's latency",
        ratio(at("grasshopper", &most), at("consolidated", &most)).unwrap_or_default(),
        ratio(at("marks", &most), at("consolidated", &most)).unwrap_or_default()
    );
    judged
}

pub fn twelve(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let systems = Systems { rows, work: "tpcc-pair" };
    let most = systems.most();
    let best = |system: &str| rows.with(&[("system", system)]).most("commits_per_second");
    judged.ask_times(
        "ELEDA does not collapse: at most threads to its best at least 0.8",
        ratio(systems.rate("ELEDA", &most), best("ELEDA")),
        0.8,
    );
    judged.ask_times(
        "with the fewest threads it is ahead of vanilla on disk: at least 1.5",
        systems.to("ELEDA", "vanilla", &systems.fewest()),
        1.5,
    );
    judged.ask_times(
        "and hides the device: at most threads ELEDA to vanilla in memory at least 0.5, as vanilla on disk has not",
        systems.to("ELEDA", "vanilla in memory", &most),
        0.5,
    );
    let per_minute = |system: &str| best(system).unwrap_or_default() * 60.0 / 2.0 / 1e3;
    judged.ours = format!(
        "thousand NewOrders a minute at the best number of threads: vanilla {:.0}, in memory {:.0}, ELEDA {:.0}, ours {:.0}",
        per_minute("vanilla"),
        per_minute("vanilla in memory"),
        per_minute("ELEDA"),
        per_minute("ours")
    );
    judged
}

pub fn thirteen(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let mut told = Vec::new();
    for work in rows.all().words("work") {
        let systems = Systems { rows, work: &work };
        let most = systems.most();
        judged.ask_times(
            format!("{work}: ELEDA to vanilla on disk, most threads, at least 2"),
            systems.to("ELEDA", "vanilla", &most),
            2.0,
        );
        judged.ask_times(
            format!("{work}: vanilla in memory to vanilla on disk, which waits for the device, fewest threads, at least 5"),
            systems.to("vanilla in memory", "vanilla", &systems.fewest()),
            5.0,
        );
        told.push(format!(
            "{work}: many versions {:.2} times locks at {most} threads, {}",
            systems.to("ours", "ours, locks", &most).unwrap_or_default(),
            rate(systems.rate("ours", &most))
        ));
    }
    judged.ours = told.join("; ");
    judged
}

pub fn nineteen(rows: &Rows) -> Judged {
    let mut judged = Judged::default();
    let mut told = Vec::new();
    for work in rows.all().words("work") {
        let systems = Systems { rows, work: &work };
        let fewest = systems.fewest();
        let hiding = systems.to("hiding", "vanilla", &fewest);
        judged.ask_times(
            format!("{work}: hiding the latency gains, fewest threads: at least 4 times"),
            hiding,
            4.0,
        );
        judged.ask_times(
            format!("{work}: which is the greater part there: at least twice what GRASSHOPPER gains on top"),
            ratio(hiding, systems.to("ELEDA", "hiding", &fewest)),
            2.0,
        );
        judged.ask_times(
            format!("{work}: with most threads GRASSHOPPER does not lose, though processors are too few for its gain: at least 0.8"),
            systems.to("ELEDA", "hiding", &systems.most()),
            0.8,
        );
        told.push(format!(
            "{work}: hiding {:.1} times, GRASSHOPPER {:.2} on top with {} and {:.2} with {}",
            hiding.unwrap_or_default(),
            systems.to("ELEDA", "hiding", &fewest).unwrap_or_default(),
            with(&fewest),
            systems.to("ELEDA", "hiding", &systems.most()).unwrap_or_default(),
            systems.most()
        ));
    }
    judged.ours = told.join("; ");
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::criterion::Verdict;

    /// Rates of vanilla, hiding and ELEDA with one thread and with 32, of both works.
    fn rows(few: [u32; 3], many: [u32; 3]) -> Rows {
        let mut text = "work,system,threads,commits_per_second,mean_us\n".to_owned();
        for work in ["update-search", "sysbench-write"] {
            for (threads, rates) in [(1, few), (32, many)] {
                for (system, rate) in ["vanilla", "hiding", "ELEDA"].iter().zip(rates) {
                    let mean_us = if *system == "vanilla" { 500 } else { 1300 };
                    text += &format!("{work},{system},{threads},{rate},{mean_us}\n");
                }
            }
        }
        Rows::parse(&text)
    }

    #[test]
    fn the_papers_rates_have_its_shape_and_flat_ones_have_another() {
        let paper = rows([20_000, 190_000, 200_000], [55_000, 700_000, 3_900_000]);
        let flat = rows([20_000; 3], [20_000; 3]);
        for judge in [key_value, oltp, nineteen] {
            let judged = judge(&paper);
            assert_eq!(judged.verdict(), Verdict::Same, "{judged:?}");
            assert_ne!(judge(&flat).verdict(), Verdict::Same);
            assert_eq!(judge(&Rows::default()).verdict(), Verdict::NotDecided);
        }
    }
}
