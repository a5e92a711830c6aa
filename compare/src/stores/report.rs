//! Results as a table, as CSV and as JSON. All functions are pure, except those that print and the
//! one that describes the machine.

use super::settings::Settings;
use super::{Measured, Row};
use crate::adapters::Commits;
use crate::statistics::{extremes, median};
use katydid_workload::measure::Summary;
use serde_json::{Value, json};

/// Speed of the first row of the workload and case, as a multiple of the speed of this row.
fn ratio(row: &Row, rows: &[Row]) -> Option<f64> {
    let first = rows.iter().find(|other| (other.work, other.case) == (row.work, row.case))?;
    let comparable = !row.rounds.is_empty() && !first.rounds.is_empty();
    comparable.then(|| first.times(row))
}

fn per(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

fn commits(settings: &Settings) -> &'static str {
    match settings.commits {
        Commits::Durable => "durable",
        Commits::Unsafe => "unsafe",
    }
}

pub fn print(settings: &Settings, measured: &Measured) {
    println!(
        "{}, {} commits{}, {} s, {} rounds; raw durable 4 KiB write: {:.1} us (median round)",
        settings.work_names(),
        commits(settings),
        settings.memory_bytes.map_or(String::new(), |bytes| format!(", {} MiB of memory", bytes >> 20)),
        settings.time.as_secs_f64(),
        settings.rounds,
        measured.raw_us
    );
    let first = settings.stores.first().map_or("", |store| store.name);
    let ours = format!("{first} is");
    println!(
        "{}",
        line([
            "store",
            "threads",
            "per s",
            "slowest",
            "fastest",
            &ours,
            "write p50",
            "p99",
            "read p50",
            "p99",
            "per sync",
            "conflicts",
        ])
    );
    for (nth, row) in measured.rows.iter().enumerate() {
        if settings.works.len() > 1 && (nth == 0 || measured.rows[nth - 1].work != row.work) {
            println!("{}:", row.work);
        }
        print_row(row, &measured.rows);
    }
}

fn print_row(row: &Row, rows: &[Row]) {
    let name = row.store.name;
    if let Some(failure) = &row.failure {
        println!("{name:<20}{:>8}  failed: {failure}", row.case);
        return;
    }
    let rates = row.rates();
    let (slowest, fastest) = extremes(&rates);
    let ratio = ratio(row, rows).map_or(String::new(), |ratio| format!("{ratio:.2} x"));
    let latencies = row.latencies();
    let times = |summary: Summary| match summary.count {
        0 => ["-".to_owned(), "-".to_owned()],
        _ => [format!("{:.1}", summary.p50_us), format!("{:.1}", summary.p99_us)],
    };
    let write = times(Summary::of(&latencies.commits));
    let read = times(Summary::of(&latencies.reads));
    let syncs = match row.syncs() {
        Some(syncs) if syncs > 0 => format!("{:.1}", per(latencies.commits.len(), syncs)),
        _ => "-".to_owned(),
    };
    let threads = row.case.to_string();
    let [median, slowest, fastest] = [median(rates), slowest, fastest].map(|rate| format!("{rate:.0}"));
    let conflicts = format!("{:.2}", 1000.0 * per(row.conflicts(), row.transactions()));
    println!(
        "{}",
        line([
            name, &threads, &median, &slowest, &fastest, &ratio, &write[0], &write[1], &read[0], &read[1],
            &syncs, &conflicts,
        ])
    );
}

/// One line of the table.
fn line(cells: [&str; 12]) -> String {
    const WIDTHS: [usize; 12] = [19, 8, 10, 10, 10, 12, 10, 10, 10, 10, 10, 11];
    let mut line = format!("{:<1$}", cells[0], WIDTHS[0]);
    for (cell, width) in cells.iter().zip(WIDTHS).skip(1) {
        line += &format!("{cell:>width$}");
    }
    line
}

pub fn csv(settings: &Settings, measured: &Measured) -> String {
    let mut lines = String::from(
        "workload,commits,store,version,threads,in_flight,round,per_second,transactions,conflicts,syncs,\
         write_p50_us,write_p99_us,read_p50_us,read_p99_us\n",
    );
    for row in &measured.rows {
        for (round, run) in row.rounds.iter().enumerate() {
            let (write, read) = (Summary::of(&run.latencies.commits), Summary::of(&run.latencies.reads));
            lines += &format!(
                "{},{},{},\"{}\",{},{},{},{:.1},{},{},{},{:.1},{:.1},{:.1},{:.1}\n",
                row.work,
                commits(settings),
                row.store.name,
                run.version,
                row.case.threads,
                row.case.in_flight,
                round + 1,
                run.per_second,
                run.transactions,
                run.conflicts,
                run.syncs.map_or(String::new(), |syncs| syncs.to_string()),
                write.p50_us,
                write.p99_us,
                read.p50_us,
                read.p99_us,
            );
        }
    }
    lines
}

fn summary(summary: Summary) -> Value {
    json!({
        "count": summary.count, "mean_us": summary.mean_us, "p50_us": summary.p50_us, "p95_us": summary.p95_us,
        "p99_us": summary.p99_us, "p999_us": summary.p999_us, "max_us": summary.max_us,
    })
}

/// Version of the JSON object. It grows when a field is removed or changes its meaning.
const SCHEMA: u32 = 1;

pub fn json(settings: &Settings, measured: &Measured) -> String {
    let rows: Vec<Value> = measured.rows.iter().map(|row| json_row(row, &measured.rows)).collect();
    let all = json!({
        "schema": SCHEMA,
        "commit": option_env!("KATYDID_COMMIT"),
        "dirty": option_env!("KATYDID_DIRTY").map(|dirty| dirty == "true"),
        "rustc": option_env!("KATYDID_RUSTC"),
        "profile": option_env!("KATYDID_PROFILE"),
        // The seed of a round is the number of the round.
        "seed": "round",
        "workload": settings.work_names(),
        "commits": commits(settings),
        "seconds": settings.time.as_secs_f64(),
        "rounds": settings.rounds,
        "records": settings.records,
        "fields": settings.fields,
        "field_bytes": settings.field_bytes,
        "lent": settings.lent,
        "branches": settings.branches,
        "warehouses": settings.warehouses,
        "subscribers": settings.subscribers,
        "cache_bytes": settings.cache_bytes,
        "memory_bytes": settings.memory_bytes,
        "raw_durable_4kib_write_us": measured.raw_us,
        "machine": machine(),
        "rows": rows,
    });
    format!("{all:#}\n")
}

fn json_row(row: &Row, rows: &[Row]) -> Value {
    let latencies = row.latencies();
    json!({
        "workload": row.work.to_string(),
        "store": row.store.name,
        "version": row.rounds.first().map(|run| &run.version),
        "threads": row.case.threads,
        "in_flight": row.case.in_flight,
        "failure": row.failure,
        "per_second": row.rates(),
        "per_second_median": median(row.rates()),
        "first_is_times_as_fast": ratio(row, rows),
        "transactions": row.transactions(),
        "conflicts": row.conflicts(),
        "syncs": row.syncs(),
        "writes": summary(Summary::of(&latencies.commits)),
        "reads": summary(Summary::of(&latencies.reads)),
    })
}

/// Description of the machine, without which a figure means little. Empty if the system does not
/// provide one.
fn machine() -> Value {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    json!({
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "model": model.trim_start_matches([' ', '\t', ':']),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
