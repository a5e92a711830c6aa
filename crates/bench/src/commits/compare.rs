//! Rows beside each other: what one is to another of the same figure.
//!
//! Pure. Ratios are of rounds that ran together; their median counts.

use super::case::{Case, Work};
use super::run::{Row, Run};
use crate::grid::row::Round;
use katydid::LockRelease;
use katydid_wal::{Durability, InserterKind, LogKind};

/// Gain of early release over the other, for rows of early release.
pub fn speed_up(rows: &[Row], row: &Row) -> Option<f64> {
    if row.case.release != LockRelease::Early {
        return None;
    }
    let other = partner(rows, row, |case| case.release = LockRelease::AfterDurable)?;
    Some(row.ratio(other, Run::per_second))
}

/// The rate as a multiple of that of our own protocol under the same load.
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

/// The rate as a share of that of the same work when nothing waits for the log.
pub fn to_logging_off(rows: &[Row], row: &Row) -> Option<f64> {
    let off = |other: &&Row| {
        other.case.durability == Durability::Buffered
            && (other.case.work, other.case.threads) == (row.case.work, row.case.threads)
    };
    Some(row.ratio(rows.iter().find(off)?, Run::per_second))
}

/// The rate as a multiple of the best serial log's with the same clients: one stream under a mutex.
pub fn to_serial(rows: &[Row], row: &Row) -> Option<f64> {
    let clients = |row: &Row| (row.case.work, row.case.threads, row.case.in_flight, row.case.delay);
    let serial = |other: &&Row| is_serial(&other.case) && clients(other) == clients(row);
    let ratios = rows.iter().filter(serial).map(|other| row.ratio(other, Run::per_second));
    ratios.min_by(f64::total_cmp)
}

/// The rate as a multiple of the disk log's under the same threads, and the same latency where it
/// is varied there: of the best of them.
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

/// Readers' rate as a share of theirs without writers.
pub fn to_alone(rows: &[Row], row: &Row) -> Option<f64> {
    row.case.work.writers()?;
    let alone = partner(rows, row, |case| case.work = Work::Readers { writers: 0 })?;
    Some(row.ratio(alone, Run::per_second))
}

/// Ratio to readers alone for each second of processor time that the readers got: what is left when
/// they share the processors with writers.
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

/// The row that differs from this one's case in what `change` changes, if it was run.
fn partner<'r>(rows: &'r [Row], row: &Row, change: impl Fn(&mut Case)) -> Option<&'r Row> {
    let mut case = row.case.clone();
    change(&mut case);
    rows.iter().find(|other| other.case == case)
}
