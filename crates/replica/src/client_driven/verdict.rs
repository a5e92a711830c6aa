//! The verdict of the client library: a transaction's outcome, decided from the answers of all
//! replicas.
//!
//! Pure functions.
//!
//! | replicas that committed | the others | verdict |
//! |---|---|---|
//! | all, with equal reads | | committed |
//! | all, with unequal reads | | diverged |
//! | none | all refused the transaction | refused: no replica has the transaction |
//! | none | one or more gave no answer | unknown |
//! | some | one or more gave no answer, or may commit later | unknown; a retry may complete it |
//! | some | all refused the transaction for good | diverged |

use super::message::{Outcome, Refusal};

/// One replica's answer about a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaAnswer {
    /// The transaction is committed and durable at the replica.
    Committed {
        /// The values that the transaction's reads found.
        found: Vec<Option<Vec<u8>>>,
    },
    /// The transaction changed nothing at the replica.
    Refused(Refusal),
    /// The replica did not answer, or did not know the outcome. The text is the reason.
    Missing(String),
}

impl From<Outcome> for ReplicaAnswer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Committed { found } => ReplicaAnswer::Committed { found },
            Outcome::Refused(refusal) => ReplicaAnswer::Refused(refusal),
            Outcome::InDoubt(why) => ReplicaAnswer::Missing(why),
        }
    }
}

/// The verdict of the client library on a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Committed(Vec<Option<Vec<u8>>>),
    Refused(Refusal),
    Unknown,
    Diverged,
}

/// Returns the verdict on the answers of all replicas. There is at least one answer.
pub(super) fn judge(answers: &[ReplicaAnswer]) -> Verdict {
    let (mut committed, mut refused, mut open) = (Vec::new(), Vec::new(), false);
    for answer in answers {
        match answer {
            ReplicaAnswer::Committed { found } => committed.push(found),
            ReplicaAnswer::Refused(refusal) => refused.push(refusal),
            ReplicaAnswer::Missing(_) => open = true,
        }
    }
    match (committed.first(), refused.first()) {
        (Some(found), None) if !open => match committed.iter().all(|other| other == found) {
            true => Verdict::Committed((*found).clone()),
            false => Verdict::Diverged,
        },
        (None, Some(refusal)) if !open => Verdict::Refused((*refusal).clone()),
        (Some(_), Some(_)) if !open && !refused.iter().any(|refusal| refusal.is_retryable()) => {
            Verdict::Diverged
        }
        _ => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of answers are two commits with different reads, a final refusal, a retryable
    /// refusal, and no answer.
    #[test]
    fn every_combination_of_three_answers_has_its_verdict() {
        let kinds = [
            ReplicaAnswer::Committed { found: vec![None] },
            ReplicaAnswer::Committed { found: vec![Some(vec![1])] },
            ReplicaAnswer::Refused(Refusal::NoSuchKey { operation: 0 }),
            ReplicaAnswer::Refused(Refusal::Conflict(String::new())),
            ReplicaAnswer::Missing(String::new()),
        ];
        for number in 0..5_usize.pow(3) {
            let three = [number % 5, number / 5 % 5, number / 25];
            let count = |kinds: &[usize]| three.iter().filter(|kind| kinds.contains(kind)).count();
            let verdict = judge(&three.map(|kind| kinds[kind].clone()));
            match verdict {
                Verdict::Committed(_) => assert!(count(&[0]) == 3 || count(&[1]) == 3, "{three:?}"),
                Verdict::Refused(_) => assert_eq!(count(&[2, 3]), 3, "{three:?}"),
                Verdict::Diverged => {
                    assert_eq!(count(&[3, 4]), 0, "{three:?}");
                    assert!(count(&[0, 1]) > 0 && count(&[0]) < 3 && count(&[1]) < 3, "{three:?}");
                }
                Verdict::Unknown => {
                    assert!(count(&[4]) > 0 || (count(&[0, 1]) > 0 && count(&[3]) > 0), "{three:?}");
                }
            }
        }
    }
}
