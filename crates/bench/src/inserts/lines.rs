//! Lines of the chart of a sweep's rows.
//!
//! Pure functions.

use super::case::{Case, Row};
use super::sweep::{ChartAxis, ChartMetric, Sweep};
use crate::grid::axis::{Axis, distributions, lines};
use crate::grid::chart::{Picture, Scale};
use crate::grid::columns::Rows;

/// An axis that always distinguishes lines.
const SUBJECT: Axis<Case> = Axis::of_words("inserter", |case| case.subject.to_string());

const DEVICE: Axis<Case> =
    Axis::of_words("device", |case| case.device.map_or(String::new(), |device| device.name().to_owned()));

/// Axes that may be the x axis. The first axis that varies is used if the sweep's own x axis does
/// not vary.
const AXES: [(ChartAxis, Axis<Case>); 7] = [
    (
        ChartAxis::Threads,
        Axis::of_numbers(
            "threads",
            Scale::Logarithmic,
            |case| format!("{} threads", case.threads),
            |case| Some(case.threads as f64),
        ),
    ),
    (
        ChartAxis::Outlier,
        Axis::of_numbers(
            "bytes of the outlier",
            Scale::Logarithmic,
            |case| format!("{} bytes of the outlier", case.outlier.unwrap_or(0)),
            |case| case.outlier.map(|bytes| bytes as f64),
        ),
    ),
    (
        ChartAxis::Record,
        Axis::of_numbers(
            "bytes of a record",
            Scale::Logarithmic,
            |case| format!("{} bytes", case.record),
            |case| Some(case.record as f64),
        ),
    ),
    (
        ChartAxis::Slots,
        Axis::of_numbers(
            "slots",
            Scale::Linear,
            |case| format!("{} slots", case.slots),
            |case| Some(case.slots as f64),
        ),
    ),
    (
        ChartAxis::HopBytes,
        Axis::of_numbers(
            "bytes hopped over",
            Scale::Logarithmic,
            |case| format!("{} bytes hopped over", case.hop_bytes),
            |case| Some(case.hop_bytes as f64),
        ),
    ),
    (
        ChartAxis::ChunkBytes,
        Axis::of_numbers(
            "bytes of a chunk",
            Scale::Logarithmic,
            |case| format!("{} bytes of a chunk", case.chunk_bytes),
            |case| Some(case.chunk_bytes as f64),
        ),
    ),
    (
        ChartAxis::WorkMicros,
        Axis::of_numbers(
            "us of other work",
            Scale::Linear,
            |case| format!("{} us", case.work_ns / 1e3),
            |case| Some(case.work_ns / 1e3),
        ),
    ),
];

/// The chart of a sweep.
pub fn picture(of: &Rows<'_, Sweep>) -> Picture {
    let spec = of.grid.spec();
    let own = AXES.iter().filter(|(over, _)| *over == spec.over);
    let varying = own.clone().chain(&AXES).find(|(_, axis)| of.varies_on(axis));
    let (_, over) = varying.or(own.into_iter().next()).unwrap_or(&AXES[0]);
    let varying = AXES.iter().map(|(_, axis)| axis).filter(|axis| of.varies_on(axis));
    let apart: Vec<&Axis<Case>> = [&SUBJECT].into_iter().chain(varying).chain([&DEVICE]).collect();
    let lines = lines(of.rows, over, &apart, |row| height(spec.metric, row));
    let y_name = match spec.metric {
        ChartMetric::Bandwidth => "MB/s",
        ChartMetric::Rate => "records/s",
        ChartMetric::Crawled => "% crawled",
        ChartMetric::Standing => "p99 us",
    };
    Picture {
        title: spec.about.to_owned(),
        subtitle: of.setting.title.clone(),
        x_name: over.name.to_owned(),
        y_name: y_name.to_owned(),
        x_scale: over.scale_of(&lines),
        y_scale: if spec.metric == ChartMetric::Crawled { Scale::Linear } else { Scale::Logarithmic },
        lines,
    }
}

/// Latencies of commits with the smallest records of sweep `txn`, with one line for each inserter,
/// number of threads and device (ELEDA, Figure 16c).
pub fn latency(of: &Rows<'_, Sweep>) -> Option<Picture> {
    let least = of.rows.iter().map(|row| row.case.record).min().filter(|_| of.grid == Sweep::Txn)?;
    let rows: Vec<Row> = of.rows.iter().filter(|row| row.case.record == least).cloned().collect();
    let threads = AXES.iter().filter(|(over, _)| *over == ChartAxis::Threads).map(|(_, axis)| axis);
    let apart: Vec<&Axis<Case>> = [&SUBJECT].into_iter().chain(threads).chain([&DEVICE]).collect();
    Some(Picture {
        title: format!("Latency of commits, transactions of records of {least} bytes (ELEDA, Figure 16c)"),
        subtitle: of.setting.title.clone(),
        x_name: "commit latency in us".to_owned(),
        y_name: "% of commits".to_owned(),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Linear,
        lines: distributions(&rows, &apart),
    })
}

fn height(metric: ChartMetric, row: &Row) -> Option<f64> {
    let round = row.median_round()?;
    match metric {
        ChartMetric::Bandwidth => Some(round.megabytes_per_second.max(0.1)),
        ChartMetric::Rate => Some(round.records_per_second.max(1.0)),
        ChartMetric::Crawled => round.crawled().map(|share| share * 100.0),
        ChartMetric::Standing => {
            row.summary().filter(|times| times.count > 0).map(|times| times.p99_us.max(0.1))
        }
    }
}
