//! What is drawn of a figure's rows.
//!
//! Pure. Lines are told apart by everything that varies but what they are drawn over.

use super::case::{Case, Delay, Row, Run};
use super::columns::{Of, Rows};
use super::compare::{speed_up, to_disk};
use super::figures::Figure;
use super::nvram::NvramFigure;
use super::quantities::{cores, switches, whole_us};
use crate::grid::chart::{Line, Picture, Scale};
use katydid_command::bytes::shown;

/// A chart and what its file's name ends in.
pub struct Named {
    pub name: String,
    pub picture: Picture,
}

/// Something of a case: as a word, and as a number if it has one.
struct Trait {
    name: &'static str,
    word: fn(&Case) -> String,
    number: fn(&Case) -> Option<f64>,
}

/// Tells lines apart by itself, with the work and the number of threads.
const SYSTEM: Trait =
    Trait { name: "system", word: |case| case.system.unwrap_or_default().to_owned(), number: NONE };
const WORK: usize = 6;

const NONE: fn(&Case) -> Option<f64> = |_| None;

const TRAITS: [Trait; 16] = [
    Trait {
        name: "threads",
        word: |case| format!("{} threads", case.threads),
        number: |case| Some(case.threads as f64),
    },
    Trait {
        name: "bytes",
        word: |case| case.work.payload().map_or(String::new(), |bytes| format!("{bytes} bytes")),
        number: |case| case.work.payload().map(|bytes| bytes as f64),
    },
    Trait {
        name: "skew",
        word: |case| case.work.skew().map_or(String::new(), |skew| format!("skew {skew}")),
        number: |case| case.work.skew(),
    },
    Trait {
        name: "delay in us",
        word: |case| format!("delay {}", Delay(case.delay)),
        number: |case| Some(case.delay.as_secs_f64() * 1e6),
    },
    Trait {
        name: "entries",
        word: |case| case.entries.map_or(String::new(), |entries| format!("{entries} entries")),
        number: |case| case.entries.map(|entries| entries as f64),
    },
    Trait { name: "log", word: |case| case.log.to_string(), number: NONE },
    Trait { name: "work", word: |case| case.work.name().to_owned(), number: NONE },
    Trait { name: "sync", word: |case| case.sync.to_string(), number: NONE },
    Trait {
        name: "in flight",
        word: |case| {
            if case.in_flight == 1 { "blocking".to_owned() } else { format!("{} in flight", case.in_flight) }
        },
        number: NONE,
    },
    Trait {
        name: "unit",
        word: |case| case.io_unit.map_or("no unit".to_owned(), |bytes| shown(bytes as u64)),
        number: NONE,
    },
    Trait { name: "durability", word: |case| case.durability.to_string(), number: NONE },
    Trait { name: "release", word: |case| case.release.to_string(), number: NONE },
    Trait {
        name: "streams",
        word: |case| match case.streams {
            None => String::new(),
            Some(streams) if usize::from(streams) == case.threads => "a stream per thread".to_owned(),
            Some(streams) => format!("{streams} streams"),
        },
        number: NONE,
    },
    Trait {
        name: "group",
        word: |case| if case.group.is_some() { "grouped".to_owned() } else { String::new() },
        number: NONE,
    },
    Trait {
        name: "reads",
        word: |case| case.work.reads_percent().map_or(String::new(), |reads| format!("{reads} % reads")),
        number: NONE,
    },
    Trait {
        name: "writers",
        word: |case| case.work.writers().map_or(String::new(), |writers| format!("{writers} writers")),
        number: NONE,
    },
];
const THREADS: usize = 0;
const BYTES: usize = 1;
const SKEW: usize = 2;
/// What can be drawn over, first to last.
const OVER: usize = 5;
const DELAY: usize = 3;
const ENTRIES: usize = 4;
const INSERTER: Trait = Trait { name: "inserter", word: |case| case.inserter.to_string(), number: NONE };

fn varies(rows: &[Row], of: &Trait) -> bool {
    let mut words = rows.iter().map(|row| (of.word)(&row.case));
    let first = words.next();
    words.any(|word| Some(&word) != first.as_ref())
}

/// What tells rows apart.
fn apart(rows: &[Row]) -> Vec<&'static Trait> {
    const OF_SYSTEMS: [&Trait; 3] = [&TRAITS[THREADS], &TRAITS[WORK], &SYSTEM];
    let all: Vec<&Trait> = match rows.iter().any(|row| row.case.system.is_some()) {
        true => OF_SYSTEMS.to_vec(),
        false => TRAITS.iter().chain([&INSERTER]).collect(),
    };
    all.into_iter().filter(|of| varies(rows, of)).collect()
}

/// Lines of `height` over a trait.
fn lines(rows: &[Row], over: &Trait, height: impl Fn(&Row) -> Option<f64>) -> Vec<Line> {
    let apart: Vec<&Trait> = apart(rows).into_iter().filter(|of| of.name != over.name).collect();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (Some(x), Some(y)) = ((over.number)(&row.case), height(row)) else { continue };
        let words: Vec<String> =
            apart.iter().map(|of| (of.word)(&row.case)).filter(|word| !word.is_empty()).collect();
        let name = words.join(", ");
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, y)),
            None => lines.push(Line { name, points: vec![(x, y)] }),
        }
    }
    lines
}

/// All charts of a figure.
pub fn pictures(of: &Rows<'_>) -> Vec<Named> {
    let rate = |row: &Row| Some(row.median(Run::per_second).max(1.0));
    let p99 = |row: &Row| Some(row.summary().p99_us).filter(|us| *us > 0.0);
    let chart = |name: &str, y_name: &str, over: usize, y_scale, height: &dyn Fn(&Row) -> Option<f64>| {
        let over = match varies(of.rows, &TRAITS[over]) {
            true => &TRAITS[over],
            false => TRAITS[..OVER].iter().find(|over| varies(of.rows, over)).unwrap_or(&TRAITS[over]),
        };
        let lines = lines(of.rows, over, height);
        let zero = lines.iter().flat_map(|line| &line.points).any(|(x, _)| *x <= 0.0);
        let x_scale = if zero || over.name == "skew" { Scale::Linear } else { Scale::Logarithmic };
        named(of, name, over.name, y_name, (x_scale, y_scale), lines)
    };
    match of.of {
        Of::Figure(Figure::Aether3) => {
            let gain = |row: &Row| speed_up(of.rows, row);
            vec![
                chart("speed-up", "early / after-durable", SKEW, Scale::Logarithmic, &gain),
                chart("rate", "transactions/s", SKEW, Scale::Logarithmic, &rate),
            ]
        }
        Of::Figure(Figure::Aether4) => vec![
            chart("switches", "context switches/s", THREADS, Scale::Logarithmic, &|row| {
                Some(row.median(switches).max(1.0))
            }),
            chart("cpu", "cores busy", THREADS, Scale::Linear, &|row| Some(row.median(cores))),
            chart("rate", "transactions/s", THREADS, Scale::Logarithmic, &rate),
        ],
        Of::Figure(Figure::Eleda14) => vec![
            chart("rate", "commits/s", BYTES, Scale::Logarithmic, &rate),
            chart("bandwidth", "MB/s of log", BYTES, Scale::Logarithmic, &|row| {
                Some(row.median(Run::megabytes_per_second).max(0.1))
            }),
        ],
        Of::Figure(Figure::Eleda18) => {
            vec![latency(of, of.rows, "commit latency in us")]
        }
        Of::Figure(Figure::Eleda8 | Figure::Eleda10) => {
            let most = of.rows.iter().map(|row| row.case.threads).max();
            let rows: Vec<Row> =
                of.rows.iter().filter(|row| Some(row.case.threads) == most).cloned().collect();
            let x_name = format!("commit latency in us with {} threads", most.unwrap_or_default());
            vec![
                chart("rate", "transactions/s", THREADS, Scale::Logarithmic, &rate),
                latency(of, &rows, &x_name),
            ]
        }
        Of::Figure(Figure::Aether9 | Figure::Eleda12 | Figure::Eleda13 | Figure::Eleda19) => {
            vec![chart("rate", "transactions/s", THREADS, Scale::Logarithmic, &rate)]
        }
        Of::Nvram(NvramFigure::Latency) => vec![
            chart("speed-up", "to the disk log", DELAY, Scale::Linear, &|row| to_disk(of.rows, row)),
            chart("rate", "transactions/s", DELAY, Scale::Logarithmic, &rate),
        ],
        Of::Nvram(NvramFigure::Clients) => vec![
            chart("rate", "transactions/s", THREADS, Scale::Logarithmic, &rate),
            chart("latency", "us of a transaction", THREADS, Scale::Logarithmic, &|row| {
                Some(row.median(|run| whole_us(run, &row.case)))
            }),
        ],
        Of::Nvram(NvramFigure::Entries) => vec![
            chart("checkpoints", "checkpoints", ENTRIES, Scale::Linear, &|row| {
                Some(row.median(|run| run.checkpoints as f64))
            }),
            chart("rate", "transactions/s", ENTRIES, Scale::Logarithmic, &rate),
        ],
        Of::LogCommit
        | Of::Nvram(NvramFigure::BesideDisk | NvramFigure::Append)
        | Of::Cicada(_)
        | Of::Figure(Figure::Aether5 | Figure::Flushing5 | Figure::Flushing6 | Figure::FlushingTable1) => {
            vec![
                chart("rate", "commits/s", THREADS, Scale::Logarithmic, &rate),
                chart("p99", "p99 us", THREADS, Scale::Logarithmic, &p99),
            ]
        }
    }
}

fn named(
    of: &Rows<'_>,
    name: &str,
    x_name: &str,
    y_name: &str,
    scales: (Scale, Scale),
    lines: Vec<Line>,
) -> Named {
    let (x_scale, y_scale) = scales;
    let (x_name, y_name) = (x_name.to_owned(), y_name.to_owned());
    let title = format!("{}: {}", of.of.name(), of.setting.machine);
    let mut same = of.constants();
    let forms = of.forms();
    if let Some(form) = forms.first() {
        same += &format!(", {form}");
    }
    if forms.len() > 1 {
        same += "; with other delays, those are added";
    }
    let picture = Picture { title, subtitle: same, x_name, y_name, x_scale, y_scale, lines };
    Named { name: format!("{}-{name}", of.of.name()), picture }
}

/// The distributions of these rows.
fn latency(of: &Rows<'_>, rows: &[Row], x_name: &str) -> Named {
    let scales = (Scale::Logarithmic, Scale::Linear);
    named(of, "latency", x_name, "% of commits", scales, distributions(rows))
}

/// For each row, how many of a hundred commits were told within a time.
fn distributions(rows: &[Row]) -> Vec<Line> {
    const SHARES: [f64; 15] =
        [0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999];
    let apart = apart(rows);
    let line = |row: &Row| {
        let times = row.times().ok().filter(|times| !times.is_empty())?;
        let at = |share: f64| (times.value_at_quantile(share) as f64 / 1e3, share * 100.0);
        let words: Vec<String> = apart.iter().map(|of| (of.word)(&row.case)).collect();
        Some(Line { name: words.join(", "), points: SHARES.map(at).to_vec() })
    };
    rows.iter().filter_map(line).collect()
}
