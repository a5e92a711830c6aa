//! Sweep `limits`: every design against the copies and sums without an inserter, and against two
//! designs.
//!
//! Pure. Ratios are taken round by round, since what disturbs a round disturbs all that is in it,
//! and then the median of them.

use super::case::{Row, Subject};
use katydid_wal::InserterKind;

/// Subjects that rows are compared with.
pub const REFERENCES: [Subject; 4] = [
    Subject::PrivateRings,
    Subject::BareWord,
    Subject::Design(InserterKind::Grasshopper),
    Subject::Design(InserterKind::Mutex),
];

/// The rate of `row` as a multiple of that of `reference` in the same sweep; `None` if that was not
/// run.
pub fn ratio_to(rows: &[Row], row: &Row, reference: Subject) -> Option<f64> {
    let same = |other: &&Row| {
        other.case.subject == reference
            && other.case.record == row.case.record
            && (other.case.threads == row.case.threads || reference == Subject::BareWord)
    };
    Some(row.ratio(rows.iter().find(same)?, |round| round.records_per_second))
}
