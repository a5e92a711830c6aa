//! Sweep `limits`: every design against the copies and sums without an inserter, and against two designs.
//!
//! Pure. Ratios are taken round by round, since what disturbs a round disturbs all that is in it, and then the median of them.

use super::case::{Row, Subject};
use katydid_wal::InserterKind;

/// Printed with the figures.
pub const NOTE: &str = "private-rings: each thread makes the same header, checksum and copies into a ring of its own; bare-word: one \
                        thread, one fetch_add on a word for each record, the same copies. Nobody finds out what is filled and nobody makes \
                        room in these two. The ratios are the medians of each round's: to private-rings, grasshopper and mutex with as \
                        many threads, and to bare-word with its one thread";

/// What rows are compared with.
pub const REFERENCES: [Subject; 4] = [
    Subject::PrivateRings,
    Subject::BareWord,
    Subject::Design(InserterKind::Grasshopper),
    Subject::Design(InserterKind::Mutex),
];

/// The rate of `row` as a multiple of that of `reference` in the same sweep; `None` if that was not run.
pub fn ratio(rows: &[Row], row: &Row, reference: Subject) -> Option<f64> {
    let same = |other: &&Row| {
        other.case.subject == reference
            && other.case.record == row.case.record
            && (other.case.threads == row.case.threads || reference == Subject::BareWord)
    };
    let other = rows.iter().find(same)?;
    let rounds = row.rounds.iter().zip(&other.rounds);
    let mut ratios: Vec<f64> =
        rounds.map(|(one, other)| one.records_per_second / other.records_per_second.max(1e-9)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len().saturating_sub(1) / 2).copied()
}
