//! Charts of a figure's rows.
//!
//! Pure functions. A chart has one line for each combination of values of the axes that vary, the x
//! axis excepted. In a figure that compares systems, only the system, the work and the number of
//! threads count for this ([`SYSTEM`]).

use super::case::{Case, Delay};
use super::compare::{speed_up, to_disk};
use super::facts::forms;
use super::figures::Figure;
use super::figures::nvram::NvramFigure;
use super::quantities::{cores, idle_share, log_wait_share, switches, system_share, user_share, whole_us};
use super::run::{Row, Run};
use super::study::Study;
use crate::grid::axis::{Axis, distributions, lines};
use crate::grid::bars::{Bar, Bars};
use crate::grid::chart::{Drawing, Line, Picture, Scale};
use crate::grid::columns::{Chart, Rows};
use crate::grid::row::Round;
use katydid_command::bytes::shown;

/// The axis of compared systems. In a figure that compares systems, only this axis, the work and
/// the number of threads distinguish lines.
const SYSTEM: Axis<Case> = Axis::of_words("system", |case| case.system.unwrap_or_default().to_owned());

const THREADS: Axis<Case> = Axis::of_numbers(
    "threads",
    Scale::Logarithmic,
    |case| format!("{} threads", case.threads),
    |case| Some(case.threads as f64),
);
const BYTES: Axis<Case> = Axis::of_numbers(
    "bytes",
    Scale::Logarithmic,
    |case| case.work.payload().map_or(String::new(), |bytes| format!("{bytes} bytes")),
    |case| case.work.payload().map(|bytes| bytes as f64),
);
const SKEW: Axis<Case> = Axis::of_numbers(
    "skew",
    Scale::Linear,
    |case| case.work.skew().map_or(String::new(), |skew| format!("skew {skew}")),
    |case| case.work.skew(),
);
const DELAY: Axis<Case> = Axis::of_numbers(
    "delay in us",
    Scale::Logarithmic,
    |case| format!("delay {}", Delay(case.delay)),
    |case| Some(case.delay.as_secs_f64() * 1e6),
);
const ENTRIES: Axis<Case> = Axis::of_numbers(
    "entries",
    Scale::Logarithmic,
    |case| case.entries.map_or(String::new(), |entries| format!("{entries} entries")),
    |case| case.entries.map(|entries| entries as f64),
);
const WORK: Axis<Case> = Axis::of_words("work", |case| case.work.name().to_owned());

/// Axes that may be the x axis. The first axis that varies is used if the figure's own x axis does
/// not vary.
const OVER: [&Axis<Case>; 5] = [&THREADS, &BYTES, &SKEW, &DELAY, &ENTRIES];

/// Axes that distinguish lines, but are never the x axis.
const WORDS: [Axis<Case>; 12] = [
    Axis::of_words("log", |case| case.log.to_string()),
    WORK,
    Axis::of_words("sync", |case| case.sync.to_string()),
    Axis::of_words("in flight", |case| match case.in_flight {
        1 => "blocking".to_owned(),
        many => format!("{many} in flight"),
    }),
    Axis::of_words("unit", |case| case.io_unit.map_or("no unit".to_owned(), |bytes| shown(bytes as u64))),
    Axis::of_words("durability", |case| case.durability.to_string()),
    Axis::of_words("release", |case| case.release.to_string()),
    Axis::of_words("streams", |case| match case.streams {
        None => String::new(),
        Some(streams) if usize::from(streams) == case.threads => "a stream per thread".to_owned(),
        Some(streams) => format!("{streams} streams"),
    }),
    Axis::of_words("without", |case| {
        case.without.map_or(String::new(), |heuristic| format!("without {heuristic}"))
    }),
    Axis::of_words("group", |case| if case.group.is_some() { "grouped".to_owned() } else { String::new() }),
    Axis::of_words("reads", |case| {
        case.work.reads_percent().map_or(String::new(), |reads| format!("{reads} % reads"))
    }),
    Axis::of_words("writers", |case| {
        case.work.writers().map_or(String::new(), |writers| format!("{writers} writers"))
    }),
];
const INSERTER: Axis<Case> = Axis::of_words("inserter", |case| case.inserter.to_string());

/// Axes that vary and distinguish lines.
fn apart(of: &Rows<'_, Study>) -> Vec<&'static Axis<Case>> {
    let all: Vec<&Axis<Case>> = match of.rows.iter().any(|row| row.case.system.is_some()) {
        true => vec![&THREADS, &WORK, &SYSTEM],
        false => OVER.into_iter().chain(&WORDS).chain([&INSERTER]).collect(),
    };
    all.into_iter().filter(|axis| of.varies_on(axis)).collect()
}

/// All charts of a figure.
pub fn charts(of: &Rows<'_, Study>) -> Vec<Chart> {
    let rate = |row: &Row| Some(row.median(Run::per_second).max(1.0));
    let p99 = |row: &Row| row.summary().map(|times| times.p99_us).filter(|us| *us > 0.0);
    let chart = |name: &str,
                 y_name: &str,
                 over: &'static Axis<Case>,
                 y_scale,
                 height: &dyn Fn(&Row) -> Option<f64>| {
        let over = [over].into_iter().chain(OVER).find(|axis| of.varies_on(axis)).unwrap_or(over);
        let lines = lines(of.rows, over, &apart(of), height);
        named(of, name, over.name, y_name, (over.scale_of(&lines), y_scale), lines)
    };
    let log_wait = || {
        chart("log-wait", "% of clients' time waiting for the log", &THREADS, Scale::Linear, &|row| {
            Some(100.0 * row.median(|run| log_wait_share(run, &row.case)))
        })
    };
    match of.grid {
        Study::Figure(Figure::Aether3) => {
            let gain = |row: &Row| speed_up(of.rows, row);
            vec![
                chart("speed-up", "early / after-durable", &SKEW, Scale::Logarithmic, &gain),
                chart("rate", "transactions/s", &SKEW, Scale::Logarithmic, &rate),
            ]
        }
        Study::Figure(Figure::Aether4) => vec![
            chart("switches", "context switches/s", &THREADS, Scale::Logarithmic, &|row| {
                Some(row.median(switches).max(1.0))
            }),
            chart("cpu", "cores busy", &THREADS, Scale::Linear, &|row| Some(row.median(cores))),
            chart("rate", "transactions/s", &THREADS, Scale::Logarithmic, &rate),
        ],
        Study::Figure(Figure::Aether2) => vec![breakdown(of), log_wait()],
        Study::Figure(Figure::Eleda14) => vec![
            chart("rate", "commits/s", &BYTES, Scale::Logarithmic, &rate),
            chart("bandwidth", "MB/s of log", &BYTES, Scale::Logarithmic, &|row| {
                Some(row.median(Run::megabytes_per_second).max(0.1))
            }),
        ],
        Study::Figure(Figure::Eleda18) => {
            vec![latency(of, "commit latency in us")]
        }
        Study::Figure(Figure::Eleda8 | Figure::Eleda10) => {
            let most = of.rows.iter().map(|row| row.case.threads).max();
            let rows: Vec<Row> =
                of.rows.iter().filter(|row| Some(row.case.threads) == most).cloned().collect();
            let most_threads = Rows { rows: &rows, ..*of };
            let x_name = format!("commit latency in us with {} threads", most.unwrap_or_default());
            let mut charts = vec![
                chart("rate", "transactions/s", &THREADS, Scale::Logarithmic, &rate),
                latency(&most_threads, &x_name),
            ];
            if of.grid == Study::Figure(Figure::Eleda8) {
                // Figure 17 breaks down the time of the same runs.
                charts.extend([breakdown(of), log_wait()]);
            }
            charts
        }
        Study::Figure(Figure::Aether9 | Figure::Eleda12 | Figure::Eleda13 | Figure::Eleda19) => {
            vec![chart("rate", "transactions/s", &THREADS, Scale::Logarithmic, &rate)]
        }
        Study::Nvram(NvramFigure::Latency) => vec![
            chart("speed-up", "to the disk log", &DELAY, Scale::Linear, &|row| to_disk(of.rows, row)),
            chart("rate", "transactions/s", &DELAY, Scale::Logarithmic, &rate),
        ],
        Study::Nvram(NvramFigure::Clients) => vec![
            chart("rate", "transactions/s", &THREADS, Scale::Logarithmic, &rate),
            chart("latency", "us of a transaction", &THREADS, Scale::Logarithmic, &|row| {
                Some(row.median(|run| whole_us(run, &row.case)))
            }),
        ],
        Study::Nvram(NvramFigure::Entries) => vec![
            chart("checkpoints", "checkpoints", &ENTRIES, Scale::Linear, &|row| {
                Some(row.median(|run| run.checkpoints as f64))
            }),
            chart("rate", "transactions/s", &ENTRIES, Scale::Logarithmic, &rate),
        ],
        Study::LogCommit
        | Study::Nvram(NvramFigure::BesideDisk | NvramFigure::Append)
        | Study::Cicada(_)
        | Study::Figure(Figure::Aether5 | Figure::Flushing5 | Figure::Flushing6 | Figure::FlushingTable1) => {
            vec![
                chart("rate", "commits/s", &THREADS, Scale::Logarithmic, &rate),
                chart("p99", "p99 us", &THREADS, Scale::Logarithmic, &p99),
            ]
        }
    }
}

fn named(
    of: &Rows<'_, Study>,
    name: &str,
    x_name: &str,
    y_name: &str,
    scales: (Scale, Scale),
    lines: Vec<Line>,
) -> Chart {
    let (x_scale, y_scale) = scales;
    let (x_name, y_name) = (x_name.to_owned(), y_name.to_owned());
    let (title, subtitle) = titles(of);
    let picture = Picture { title, subtitle, x_name, y_name, x_scale, y_scale, lines };
    Chart { name: format!("{}-{name}", of.grid.name()), drawing: Drawing::Lines(picture) }
}

/// The title of a figure's charts, and the settings that all rows share.
fn titles(of: &Rows<'_, Study>) -> (String, String) {
    let about = of.grid.spec().map_or("records in the log alone, one a commit", |spec| spec.about);
    let mut same = format!("{}; {}", of.setting.title, of.constants());
    let forms = forms(of);
    if let Some(form) = forms.first() {
        same += &format!(", {form}");
    }
    if forms.len() > 1 {
        same += "; with other delays, those are added";
    }
    (about.to_owned(), same)
}

/// Shares of the processors' time, as a bar for each system and number of threads.
fn breakdown(of: &Rows<'_, Study>) -> Chart {
    type Share = fn(&Run) -> f64;
    const PARTS: [(&str, Share); 3] = [
        ("in programs", user_share),
        ("in the kernel", system_share),
        ("idle, or in other processes", idle_share),
    ];
    let (title, subtitle) = titles(of);
    let mut bars: Vec<Bar> = Vec::new();
    for row in of.rows {
        let bar = Bar {
            group: (SYSTEM.word)(&row.case),
            name: (THREADS.word)(&row.case),
            parts: PARTS.map(|(_, share)| 100.0 * row.median(share)).to_vec(),
        };
        let after = bars.iter().rposition(|other| other.group == bar.group);
        bars.insert(after.map_or(bars.len(), |at| at + 1), bar);
    }
    let parts = PARTS.map(|(name, _)| name.to_owned()).to_vec();
    let of_what = "% of the processors' time".to_owned();
    let drawing = Drawing::Bars(Bars { title, subtitle, of: of_what, parts, bars });
    Chart { name: format!("{}-breakdown", of.grid.name()), drawing }
}

/// The distribution of commit times of each row.
fn latency(of: &Rows<'_, Study>, x_name: &str) -> Chart {
    let scales = (Scale::Logarithmic, Scale::Linear);
    named(of, "latency", x_name, "% of commits", scales, distributions(of.rows, &apart(of)))
}
