//! Ratios between rows of one figure.
//!
//! Pure functions. A ratio is the median of the ratios of rounds that ran together.

use super::case::{Case, Work};
use super::run::{Row, Run};
use crate::grid::row::Round;
use katydid::LockRelease;
use katydid_wal::{Durability, InserterKind, LogKind};

/// Gain of early lock release over release after durability, for rows with early release.
pub fn speed_up(rows: &[Row], row: &Row) -> Option<f64> {
    if row.case.release != LockRelease::Early {
        return None;
    }
    let other = partner(rows, row, |case| case.release = LockRelease::AfterDurable)?;
    Some(row.ratio(other, Run::per_second))
}

/// The rate as a multiple of the rate of `adaptive` under the same load.
pub fn to_adaptive(rows: &[Row], row: &Row) -> Option<f64> {
    if row.case.log.in_nvram() {
        return None;
    }
    let ours = partner(rows, row, |case| {
        case.sync = Default::default();
        case.group = None;
        (case.contention, case.old_versions) = Default::default();
    })?;
    Some(row.ratio(ours, Run::per_second))
}

/// The rate as a share of the rate of the same work when no transaction waits for the log.
pub fn to_logging_off(rows: &[Row], row: &Row) -> Option<f64> {
    let off = |other: &&Row| {
        other.case.durability == Durability::Buffered
            && (other.case.work, other.case.threads) == (row.case.work, row.case.threads)
    };
    Some(row.ratio(rows.iter().find(off)?, Run::per_second))
}

/// The rate as a multiple of the best serial log's rate with the same clients. A serial log is one
/// stream under a mutex.
pub fn to_serial(rows: &[Row], row: &Row) -> Option<f64> {
    let clients = |row: &Row| (row.case.work, row.case.threads, row.case.in_flight, row.case.delay);
    let serial = |other: &&Row| is_serial(&other.case) && clients(other) == clients(row);
    let ratios = rows.iter().filter(serial).map(|other| row.ratio(other, Run::per_second));
    ratios.min_by(f64::total_cmp)
}

/// The rate as a multiple of the best disk log's rate with the same work and threads. If disk logs
/// with the same delay exist, only these count.
pub fn to_disk(rows: &[Row], row: &Row) -> Option<f64> {
    if !row.case.log.in_nvram() {
        return None;
    }
    let alike = |other: &&Row| {
        other.case.log == LogKind::Disk
            && (other.case.work, other.case.threads) == (row.case.work, row.case.threads)
    };
    let of_delay = rows.iter().filter(alike).filter(|other| other.case.delay == row.case.delay);
    let with_delay: Vec<&Row> = of_delay.collect();
    let all: Vec<&Row> = if with_delay.is_empty() { rows.iter().filter(alike).collect() } else { with_delay };
    all.into_iter().map(|other| row.ratio(other, Run::per_second)).min_by(f64::total_cmp)
}

/// The readers' rate as a share of their rate without writers.
pub fn to_alone(rows: &[Row], row: &Row) -> Option<f64> {
    row.case.work.writers()?;
    let alone = partner(rows, row, |case| case.work = Work::Readers { writers: 0 })?;
    Some(row.ratio(alone, Run::per_second))
}

/// The readers' rate per second of their processor time, as a share of the same rate without
/// writers. The share leaves out the loss that comes from sharing the processors with writers.
pub fn to_alone_by_cpu(rows: &[Row], row: &Row) -> Option<f64> {
    row.case.work.writers()?;
    let alone = partner(rows, row, |case| case.work = Work::Readers { writers: 0 })?;
    Some(row.ratio(alone, Run::per_cpu_second))
}

fn is_serial(case: &Case) -> bool {
    case.streams == Some(1)
        && case.inserter == InserterKind::Mutex
        && case.release == LockRelease::Early
        && case.durability == Durability::Durable
}

/// The row of the case that `change` makes of this row's case, if there is one.
fn partner<'r>(rows: &'r [Row], row: &Row, change: impl Fn(&mut Case)) -> Option<&'r Row> {
    let mut case = row.case.clone();
    change(&mut case);
    rows.iter().find(|other| other.case == case)
}
