//! Rows about replication as a table, as CSV and as charts.
//!
//! Pure functions.

use super::case::Case;
use super::figures::Figure;
use super::run::{Row, Run};
use crate::grid::axis::{Axis, lines};
use crate::grid::chart::{Drawing, Picture, Scale};
use crate::grid::columns::{Chart, Column, Grid, Rows, Setting, of_times, optional, places};
use crate::grid::row::Round;
use katydid_command::bytes::grouped;
use katydid_command::table::wrapped;
use katydid_replica::client_driven::ReplicaStat;

const THREADS: Axis<Case> = Axis::of_numbers(
    "threads",
    Scale::Logarithmic,
    |case| format!("{} threads", case.threads),
    |case| Some(case.threads as f64),
);
const REPLICAS: Axis<Case> = Axis::of_words("replicas", |case| match case.replicas {
    1 => "1 replica".to_owned(),
    more => format!("{more} replicas"),
});
const SCHEME: Axis<Case> = Axis::of_words("sync", |case| case.scheme.to_string());

/// The median of a quantity over the rounds; `None` if a round lacks the quantity.
fn median(row: &Row, quantity: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    row.rounds
        .iter()
        .all(|run| quantity(run).is_some())
        .then(|| row.median(|run| quantity(run).unwrap_or(0.0)))
}

fn us(row: &Row, nanoseconds: fn(&ReplicaStat) -> u64) -> String {
    let of = |run: &Run| run.of_servers(|stat| stat.us_per_commit(nanoseconds(stat)));
    optional(median(row, of).map(places::<3>))
}

fn count(row: &Row, counter: fn(&ReplicaStat) -> u64) -> String {
    optional(median(row, |run| run.of_servers(|stat| counter(stat) as f64)).map(places::<0>))
}

fn mean(row: &Row, quantity: fn(&ReplicaStat) -> f64) -> String {
    optional(median(row, |run| run.of_servers(quantity)).map(places::<2>))
}

/// All columns of the CSV file. Counters are means over the servers.
const CSV: &[Column<Figure>] = &[
    ("figure", |of, _| of.grid.name().to_owned()),
    ("commit", |of, _| optional(of.setting.commit)),
    ("machine", |of, _| of.setting.machine.clone()),
    ("device", |of, _| of.setting.device.to_owned()),
    ("servers", |of, _| of.setting.method.clone()),
    ("millis", |of, _| of.setting.millis.to_string()),
    ("work", |_, row| row.case.work.name().to_owned()),
    ("replicas", |_, row| row.case.replicas.to_string()),
    ("sync", |_, row| row.case.scheme.to_string()),
    ("threads", |_, row| row.case.threads.to_string()),
    ("rounds", |_, row| row.rounds.len().to_string()),
    ("commits", |_, row| places::<0>(row.median(|run| run.commits as f64))),
    ("commits_per_second", |_, row| places::<0>(row.median(Run::per_second))),
    ("slowest_round", |_, row| places::<0>(row.spread().0)),
    ("fastest_round", |_, row| places::<0>(row.spread().1)),
    ("mean_us", |_, row| places::<1>(row.median(Run::client_us))),
    ("p50_us", |_, row| of_times(row, |times| times.p50_us)),
    ("p99_us", |_, row| of_times(row, |times| times.p99_us)),
    ("server_us", |_, row| optional(median(row, Run::server_us).map(places::<1>))),
    ("slowest_server_us", |_, row| optional(median(row, Run::slowest_us).map(places::<1>))),
    ("outside_us", |_, row| optional(median(row, Run::outside_us).map(places::<1>))),
    ("lock_us_per_commit", |_, row| us(row, |stat| stat.lock_ns)),
    ("sync_us_per_commit", |_, row| us(row, |stat| stat.sync_ns)),
    ("wait_us_per_commit", |_, row| us(row, |stat| stat.wait_ns)),
    ("sync_locks", |_, row| count(row, |stat| stat.locks)),
    ("syncs", |_, row| count(row, |stat| stat.syncs)),
    ("released", |_, row| count(row, |stat| stat.released)),
    ("threads_per_slot", |_, row| mean(row, ReplicaStat::threads_per_slot)),
    ("requests_per_queue", |_, row| mean(row, ReplicaStat::requests_per_queue)),
    ("conflicts", |_, row| places::<0>(row.median(|run| run.conflicts as f64))),
    ("checked", |_, row| places::<0>(row.median(|run| run.checked as f64))),
];

const VARYING: &[Column<Figure>] = &[
    ("replicas", |_, row| row.case.replicas.to_string()),
    ("sync", |_, row| row.case.scheme.to_string()),
    ("clients", |_, row| row.case.threads.to_string()),
];

const P50: Column<Figure> = ("p50 us", |_, row| of_times(row, |times| times.p50_us));
const P99: Column<Figure> = ("p99 us", |_, row| of_times(row, |times| times.p99_us));
const CLIENT: Column<Figure> = ("trx(c) us", |_, row| places::<1>(row.median(Run::client_us)));
const SERVER: Column<Figure> = ("trx(s) us", |_, row| optional(median(row, Run::server_us).map(places::<1>)));
const GAIN: Column<Figure> = ("to slotted", |of, row| optional(to_slotted(of.rows, row).map(places::<2>)));
const CONFLICTS: Column<Figure> =
    ("conflicts", |_, row| grouped(row.median(|run| run.conflicts as f64) as u64));

const RATES: &[Column<Figure>] = &[GAIN, P50, P99, CLIENT, SERVER, CONFLICTS];
const TIMES: &[Column<Figure>] = &[
    CLIENT,
    SERVER,
    ("slowest us", |_, row| optional(median(row, Run::slowest_us).map(places::<1>))),
    ("outside us", |_, row| optional(median(row, Run::outside_us).map(places::<1>))),
    ("lock us", |_, row| us(row, |stat| stat.lock_ns)),
    ("sync us", |_, row| us(row, |stat| stat.sync_ns)),
    ("wait us", |_, row| us(row, |stat| stat.wait_ns)),
    ("locks", |_, row| count(row, |stat| stat.locks)),
    ("syncs", |_, row| count(row, |stat| stat.syncs)),
    ("threads/slot", |_, row| mean(row, ReplicaStat::threads_per_slot)),
    ("requests/queue", |_, row| mean(row, ReplicaStat::requests_per_queue)),
];

/// Commits per second as a multiple of those of the paper's existing scheme with the same clients
/// and replicas.
fn to_slotted(rows: &[Row], row: &Row) -> Option<f64> {
    let same = |other: &&Row| {
        let of = |case: &Case| (case.work, case.replicas, case.threads);
        of(&other.case) == of(&row.case) && other.case.scheme.to_string() == "slotted"
    };
    rows.iter().find(same).map(|slotted| row.ratio(slotted, Run::per_second))
}

impl Grid for Figure {
    type Case = Case;
    type Round = Run;

    const CSV: &'static [Column<Self>] = CSV;
    const VARYING: &'static [Column<Self>] = VARYING;
    const CONSTANT: &'static [Column<Self>] = VARYING;
    const SILENT: &'static [&'static str] = &[""];

    fn rate(self) -> &'static str {
        "commits/s"
    }

    fn first(self) -> &'static [Column<Self>] {
        &[]
    }

    fn measured(self) -> &'static [Column<Self>] {
        if self.is_table() { TIMES } else { RATES }
    }

    fn head(rows: &Rows<'_, Self>) -> Vec<String> {
        let (spec, setting) = (rows.grid.spec(), rows.setting);
        let mut lines = wrapped(&format!("{}: {}", spec.name, spec.about));
        lines.extend(wrapped(&format!("the paper saw: {}", spec.saw)));
        lines.extend(wrapped(spec.note).iter().map(|line| format!("  {line}")));
        lines.push(format!(
            "  {} rounds of {} s; the same in all: device={} {} {}",
            rows.rows.first().map_or(0, |row| row.rounds.len()),
            setting.millis / 1e3,
            setting.device,
            setting.method,
            rows.constants()
        ));
        lines
    }

    fn charts(rows: &Rows<'_, Self>) -> Vec<Chart> {
        let apart: Vec<&Axis<Case>> =
            [&REPLICAS, &SCHEME].into_iter().filter(|axis| rows.varies_on(axis)).collect();
        let chart = |name: &str, y_name: &str, height: &dyn Fn(&Row) -> Option<f64>| {
            let lines = lines(rows.rows, &THREADS, &apart, height);
            let picture = Picture {
                title: rows.grid.spec().about.to_owned(),
                subtitle: format!("{}; {} {}", rows.setting.title, rows.setting.method, rows.constants()),
                x_name: THREADS.name.to_owned(),
                y_name: y_name.to_owned(),
                x_scale: THREADS.scale_of(&lines),
                y_scale: Scale::Logarithmic,
                lines,
            };
            Chart { name: format!("{}-{name}", rows.grid.name()), drawing: Drawing::Lines(picture) }
        };
        let rate = |row: &Row| Some(row.median(Run::per_second).max(1.0));
        let rates = chart("rate", "commits/s", &rate);
        match rows.grid.is_table() {
            true => vec![
                chart("server", "us of a transaction at a server", &|row| median(row, Run::server_us)),
                rates,
            ],
            false => vec![
                rates,
                chart("client", "us of a transaction at the client", &|row| Some(row.median(Run::client_us))),
            ],
        }
    }
}

/// Setting of all rows. `servers` names the servers' delays.
pub fn setting_of(
    machine: String,
    device: &'static str,
    servers: String,
    commit: Option<&'static str>,
) -> Setting {
    Setting { commit, title: machine.clone(), machine, device, method: servers, ..Setting::default() }
}

/// Meanings of the columns.
pub const LEGEND: &str = "Figures are medians over the rounds, slowest and fastest are rounds, percentiles are of all rounds. us: of one \
    transaction. trx(c): at the client, until all servers had answered. trx(s): at a server, from the decoded request until the commit; \
    slowest: at the server that took longest for the transaction. outside: trx(c) without slowest, which is network and queues for \
    processors. lock, sync, wait: waiting for the sync lock, in writes and syncs, waiting for another thread's sync. Counters are means \
    over the servers. to slotted: the ratio of commits a second to those of the existing scheme in the same round";
