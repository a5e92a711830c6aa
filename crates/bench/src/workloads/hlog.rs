//! Latencies as an HdrHistogram log, which common plotters read. It has one line per second for
//! reads (tag `READ`) and one for durable commits (tag `COMMIT`), in nanoseconds.

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use katydid_command::failure::{Failure, Result};
use katydid_workload::drive::Outcome;
use std::path::Path;

/// Nanoseconds in the unit of the column of maxima. Plotters expect milliseconds.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// Writes the intervals of a run to `file`.
pub fn write(file: &Path, comment: &str, outcome: &Outcome) -> Result<()> {
    katydid_command::whole_file::write(file, &encode(comment, outcome)?)
}

fn encode(comment: &str, outcome: &Outcome) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(comment)
        .with_start_time(outcome.started_at)
        .with_base_time(outcome.started_at)
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(&mut text, &mut serializer)
        .map_err(Failure::failed)?;
    for interval in &outcome.intervals {
        let of_kind = [("READ", &interval.latencies.reads), ("COMMIT", &interval.latencies.commits)];
        for (tag, histogram) in of_kind.into_iter().filter(|(_, histogram)| !histogram.is_empty()) {
            writer
                .write_histogram(histogram, interval.start, interval.length, Tag::new(tag))
                .map_err(Failure::failed)?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use katydid_workload::drive::Interval;
    use katydid_workload::measure::Latencies;
    use std::time::{Duration, SystemTime};

    #[test]
    fn is_read_back() {
        let mut latencies = Latencies::default();
        latencies.reads.record(1_500_000).unwrap();
        let interval = Interval { start: Duration::from_secs(1), length: Duration::from_secs(1), latencies };
        let outcome = Outcome {
            started_at: SystemTime::UNIX_EPOCH + Duration::from_secs(100),
            elapsed: Duration::from_secs(2),
            transactions: 1,
            rolled_back: 0,
            conflicts: 0,
            cpu: Duration::ZERO,
            latencies: Latencies::default(),
            intervals: vec![interval],
            counters: Default::default(),
            stopped: false,
        };
        let text = encode("made in a test", &outcome).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&text).map(|entry| entry.unwrap()).collect();
        let intervals: Vec<_> = entries
            .iter()
            .filter_map(|entry| match entry {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        assert_eq!(intervals.len(), 1);
        assert_eq!(intervals[0].tag().unwrap().as_str(), "READ");
        assert_eq!(intervals[0].start_timestamp(), Duration::from_secs(1));
        assert!((intervals[0].max() - 1.5).abs() < 0.01);
    }
}
