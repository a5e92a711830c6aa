//! Sweep `limits` compares every design with four references: two subjects that copy and compute
//! checksums without an inserter, and two designs.
//!
//! Pure functions. A ratio is the median of the ratios of all rounds, because a disturbance of a
//! round affects all runs in it.

use super::case::{Row, Subject};
use katydid_wal::InserterKind;

/// Subjects with which rows are compared.
pub const REFERENCES: [Subject; 4] = [
    Subject::PrivateRings,
    Subject::BareWord,
    Subject::Design(InserterKind::Grasshopper),
    Subject::Design(InserterKind::Mutex),
];

/// The rate of `row` as a multiple of the rate of `reference` with records of the same size and,
/// except for the bare word, as many threads. `None` if the reference was not run.
pub fn ratio_to(rows: &[Row], row: &Row, reference: Subject) -> Option<f64> {
    let same = |other: &&Row| {
        other.case.subject == reference
            && other.case.record == row.case.record
            && (other.case.threads == row.case.threads || reference == Subject::BareWord)
    };
    Some(row.ratio(rows.iter().find(same)?, |round| round.records_per_second))
}
