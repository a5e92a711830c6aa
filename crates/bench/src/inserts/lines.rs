//! What of a sweep's rows is drawn: the lines of its chart.
//!
//! Pure.

use super::case::Row;
use super::columns::Rows;
use super::{Axis, Shown};
use crate::grid::chart::{Line, Picture, Scale};

/// Every axis and its words, in the order in which they are drawn over if the sweep's own does not vary.
const AXES: [(Axis, &str); 7] = [
    (Axis::Threads, "threads"),
    (Axis::Outlier, "bytes of the outlier"),
    (Axis::Record, "bytes of a record"),
    (Axis::Slots, "slots"),
    (Axis::HopBytes, "bytes hopped over"),
    (Axis::ChunkBytes, "bytes of a chunk"),
    (Axis::WorkMicros, "us of other work"),
];

/// The chart of a sweep. Lines are told apart by everything that varies but what they are drawn over.
pub fn picture(of: &Rows<'_>, title: String) -> Picture {
    let spec = of.sweep.spec();
    let first = of.rows.iter().find(|row| !row.case.is_reference());
    let varies = |axis: Axis| {
        let mut designs = of.rows.iter().filter(|row| !row.case.is_reference());
        designs.any(|row| first.is_some_and(|first| first.case.at(axis) != row.case.at(axis)))
    };
    let over = if varies(spec.axis) { Some(spec.axis) } else { None };
    let over = over.or_else(|| AXES.iter().map(|(axis, _)| *axis).find(|axis| varies(*axis)));
    let over = over.unwrap_or(spec.axis);
    let mut lines: Vec<Line> = Vec::new();
    for row in of.rows {
        let (Some(x), Some(y)) = (row.case.at(over), height(spec.shown, row)) else { continue };
        let mut name = row.case.subject.to_string();
        for (axis, what) in AXES.into_iter().filter(|(axis, _)| *axis != over && varies(*axis)) {
            let short = what.trim_end_matches(" of a record").trim_end_matches(" of other work");
            name += &format!(", {} {short}", row.case.at(axis).unwrap_or(0.0));
        }
        if let Some(device) = row.case.device {
            name += &format!(", {}", device.name());
        }
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, y)),
            None => lines.push(Line { name, points: vec![(x, y)] }),
        }
    }
    let x_name = AXES.iter().find(|(axis, _)| *axis == over).map_or("", |(_, name)| name);
    Picture {
        title,
        subtitle: spec.about.to_owned(),
        x_name: x_name.to_owned(),
        y_name: match spec.shown {
            Shown::Bandwidth => "MB/s",
            Shown::Rate => "records/s",
            Shown::Crawled => "% crawled",
            Shown::Standing => "p99 us",
        }
        .to_owned(),
        x_scale: if matches!(over, Axis::Slots | Axis::WorkMicros) {
            Scale::Linear
        } else {
            Scale::Logarithmic
        },
        y_scale: if spec.shown == Shown::Crawled { Scale::Linear } else { Scale::Logarithmic },
        lines,
    }
}

fn height(shown: Shown, row: &Row) -> Option<f64> {
    match shown {
        Shown::Bandwidth => row.median().map(|round| round.megabytes_per_second.max(0.1)),
        Shown::Rate => row.median().map(|round| round.records_per_second.max(1.0)),
        Shown::Crawled => row.crawled().map(|share| share * 100.0),
        Shown::Standing => row.times().filter(|times| times.count > 0).map(|times| times.p99_us.max(0.1)),
    }
}
