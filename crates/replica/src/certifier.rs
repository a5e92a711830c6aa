//! Decides, in the order of the log, whether a transaction's reads still hold.
//!
//! Each leadership has one certifier, at the leader. Any thread may call it; one latch guards it,
//! and no other latch is taken while a thread holds this one. A transaction reads a view of the
//! applied state at one index. The certifier queues the transaction's entry for the Raft log under
//! the latch, so the order of certification is the order of the log. Invariants:
//!
//! 1. The certifier is made when everything up to an index `first` is applied, the leadership's
//!    first entry included. It serves views at or above `first`. All entries of this leadership
//!    that write rows come from this certifier, and an entry is refused if the leadership has
//!    ended. So every entry that writes rows between a view and a proposal is one of `proposals`.
//! 2. A proposal counts as unseen by a view until the certifier knows that the proposal is applied
//!    at an index that the view includes. If the certifier learns that index late, it refuses
//!    transactions needlessly, but misses no conflict.
//! 3. A proposal is forgotten in three cases: it was refused before it entered the log; it is
//!    applied at or below the index of every view in use; or it is applied and is the oldest of
//!    more than [`PROPOSALS_MAX`]. A view below the index of a forgotten proposal is refused.
//!
//! Therefore a certified transaction has read the same values that it would read at its own entry,
//! and transactions are serializable in the order of the log. A crash of the leader loses the
//! certifier together with the leadership.

use crate::types::Leadership;
use crate::write_set::WriteSet;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of proposals that are remembered for views in use. A transaction whose view needs
/// more is refused with [`Refusal::TooOld`].
const PROPOSALS_MAX: usize = 100_000;

/// A table, and the bounds of the keys that a transaction has scanned.
pub(crate) type ReadRange = (String, Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The read set of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub(crate) keys: Vec<(String, Vec<u8>)>,
    pub(crate) ranges: Vec<ReadRange>,
}

/// Number of a proposal in its leadership.
pub(crate) type Number = u64;

/// Reason why a transaction has to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// This proposal writes a key that the transaction has read.
    Conflict(Number),
    /// The view is so old that a proposal which it does not include has been forgotten.
    TooOld,
}

/// Decides, for one leadership, whether the reads of transactions still hold.
pub(crate) struct Certifier {
    leadership: Leadership,
    inside: Mutex<Inside>,
    told: Condvar,
}

#[derive(Default)]
struct Inside {
    next: Number,
    proposals: BTreeMap<Number, Proposal>,
    /// The proposals that write a key, by table and key.
    writers: BTreeMap<(String, Vec<u8>), Vec<Number>>,
    /// Number of views in use, by a lower bound of their index.
    views: BTreeMap<u64, usize>,
    /// The largest index at which a proposal is known to be applied.
    applied: u64,
    /// Views below this index are refused.
    forgotten: u64,
}

struct Proposal {
    /// Index at which the proposal is applied, once that is known.
    index: Option<u64>,
    keys: Vec<(String, Vec<u8>)>,
}

/// Retains the proposals that a view may conflict with. The guard is made before the view is
/// opened.
pub(crate) struct ViewGuard {
    certifier: Arc<Certifier>,
    floor: u64,
}

impl Certifier {
    /// Makes a certifier for a leadership. Everything up to index `first` is applied, the
    /// leadership's first entry included.
    pub(crate) fn new(leadership: Leadership, first: u64) -> Self {
        let inside = Inside { applied: first, forgotten: first, ..Inside::default() };
        Certifier { leadership, inside: Mutex::new(inside), told: Condvar::new() }
    }

    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    // Poisoning is ignored: the only code of callers under the latch is `hand_over`, which puts an
    // entry into a queue and does not panic.
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the guard of a view. Call it before the view is opened, and keep the guard until the
    /// transaction is certified.
    pub(crate) fn view(self: &Arc<Self>) -> ViewGuard {
        let mut inside = self.inside();
        let floor = inside.applied;
        *inside.views.entry(floor).or_default() += 1;
        ViewGuard { certifier: self.clone(), floor }
    }

    /// Checks whether reads of a view at index `view` still hold. If they do, adds a proposal and
    /// calls `hand_over` with its number.
    pub(crate) fn certify(
        &self,
        view: u64,
        reads: &Reads,
        set: &WriteSet,
        hand_over: impl FnOnce(Number),
    ) -> Result<(), Refusal> {
        let mut inside = self.inside();
        if view < inside.forgotten {
            return Err(Refusal::TooOld);
        }
        if let Some(number) = inside.conflict(view, reads) {
            return Err(Refusal::Conflict(number));
        }
        let number = inside.propose(set);
        hand_over(number);
        Ok(())
    }

    /// Adds a proposal that has read nothing, and calls `hand_over` with its number.
    pub(crate) fn propose(&self, set: &WriteSet, hand_over: impl FnOnce(Number)) {
        hand_over(self.inside().propose(set));
    }

    /// Notes that a proposal is applied at `index`.
    pub(crate) fn applied(&self, number: Number, index: u64) {
        let mut inside = self.inside();
        if let Some(proposal) = inside.proposals.get_mut(&number) {
            proposal.index = Some(index);
        }
        inside.applied = inside.applied.max(index);
        inside.forget();
        self.told.notify_all();
    }

    /// Removes a proposal that was refused before it entered the log.
    pub(crate) fn refused(&self, number: Number) {
        self.inside().remove(number);
        self.told.notify_all();
    }

    /// Waits until the proposal is applied or refused, for at most `at_most`.
    pub(crate) fn wait(&self, number: Number, at_most: Duration) {
        let pending = |inside: &mut Inside| {
            inside.proposals.get(&number).is_some_and(|proposal| proposal.index.is_none())
        };
        // A time-out is not reported, because the transaction runs again and is certified again in
        // either case.
        drop(self.told.wait_timeout_while(self.inside(), at_most, pending));
    }
}

impl Inside {
    fn conflict(&self, view: u64, reads: &Reads) -> Option<Number> {
        let unseen = |numbers: &Vec<Number>| {
            let unseen = |number: &&Number| {
                self.proposals
                    .get(number)
                    .is_some_and(|proposal| proposal.index.is_none_or(|index| index > view))
            };
            numbers.iter().rev().find(unseen).copied()
        };
        let by_key = || {
            // The lookup needs a key of the map's own type, so a read set stores its keys in that
            // form.
            reads.keys.iter().find_map(|read| self.writers.get(read).and_then(unseen))
        };
        let by_range = || {
            reads.ranges.iter().find_map(|(table, low, high)| {
                let from = (table.clone(), bytes_of(low));
                let written = self.writers.range(from..).take_while(|((of, _), _)| of == table);
                written
                    .skip_while(|((_, key), _)| matches!(low, Bound::Excluded(low) if key == low))
                    .take_while(|((_, key), _)| match high {
                        Bound::Included(high) => key <= high,
                        Bound::Excluded(high) => key < high,
                        Bound::Unbounded => true,
                    })
                    .find_map(|(_, numbers)| unseen(numbers))
            })
        };
        by_key().or_else(by_range)
    }

    fn propose(&mut self, set: &WriteSet) -> Number {
        let number = self.next;
        self.next += 1;
        let mut keys: Vec<(String, Vec<u8>)> = set
            .writes
            .iter()
            .filter_map(|write| write.key().map(|key| (write.table().to_owned(), key.to_vec())))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            self.writers.entry(key.clone()).or_default().push(number);
        }
        self.proposals.insert(number, Proposal { index: None, keys });
        number
    }

    fn remove(&mut self, number: Number) {
        let Some(proposal) = self.proposals.remove(&number) else { return };
        for key in proposal.keys {
            if let Some(numbers) = self.writers.get_mut(&key) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.writers.remove(&key);
                }
            }
        }
    }

    /// Forgets the proposals that every view in use includes, and the oldest proposals if there are
    /// more than [`PROPOSALS_MAX`].
    fn forget(&mut self) {
        let floor = self.views.keys().next().copied().unwrap_or(self.applied);
        while let Some((&number, &Proposal { index: Some(index), .. })) = self.proposals.first_key_value() {
            if index > floor && self.proposals.len() <= PROPOSALS_MAX {
                break;
            }
            self.forgotten = self.forgotten.max(index);
            self.remove(number);
        }
    }
}

impl Drop for ViewGuard {
    fn drop(&mut self) {
        let mut inside = self.certifier.inside();
        if let Some(count) = inside.views.get_mut(&self.floor) {
            *count -= 1;
            if *count == 0 {
                inside.views.remove(&self.floor);
            }
        }
        inside.forget();
    }
}

fn bytes_of(bound: &Bound<Vec<u8>>) -> Vec<u8> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.clone(),
        Bound::Unbounded => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certifier() -> Arc<Certifier> {
        Arc::new(Certifier::new(Leadership { term: 3, node_id: 1 }, 10))
    }

    fn key(name: &str) -> Reads {
        Reads { keys: vec![("t".to_owned(), name.into())], ..Reads::default() }
    }

    fn range(low: Bound<&str>, high: Bound<&str>) -> Reads {
        let of = |bound: Bound<&str>| bound.map(|key| key.as_bytes().to_vec());
        Reads { ranges: vec![("t".to_owned(), of(low), of(high))], ..Reads::default() }
    }

    fn put(name: &str) -> WriteSet {
        WriteSet::default().put("t", name, "")
    }

    fn propose(certifier: &Certifier, set: &WriteSet) -> Number {
        let mut number = None;
        certifier.propose(set, |given| number = Some(given));
        number.expect("handed over")
    }

    #[test]
    fn a_read_of_what_a_pending_or_unseen_proposal_writes_is_a_conflict() {
        let certifier = certifier();
        let _view = certifier.view();
        let first = propose(&certifier, &put("b"));
        let none = WriteSet::default();
        let certify = |view, reads: &Reads| certifier.certify(view, reads, &none, |_| ());
        assert_eq!(certify(10, &key("b")), Err(Refusal::Conflict(first)));
        assert_eq!(certify(10, &key("a")), Ok(()));
        certifier.applied(first, 12);
        assert_eq!(certify(11, &key("b")), Err(Refusal::Conflict(first)), "the view does not have it");
        assert_eq!(certify(12, &key("b")), Ok(()));
        let refused = propose(&certifier, &put("c"));
        assert_eq!(certify(12, &key("c")), Err(Refusal::Conflict(refused)));
        certifier.refused(refused);
        assert_eq!(certify(12, &key("c")), Ok(()));
    }

    #[test]
    fn ranges_conflict_with_keys_between_their_bounds() {
        use Bound::{Excluded, Included, Unbounded};
        let certifier = certifier();
        let number = propose(&certifier, &put("m").put("s", "a", ""));
        let hit = [
            range(Unbounded, Unbounded),
            range(Included("m"), Unbounded),
            range(Included("a"), Included("m")),
            range(Excluded("l"), Excluded("n")),
        ];
        let missed = [
            range(Excluded("m"), Unbounded),
            range(Unbounded, Excluded("m")),
            range(Included("n"), Included("z")),
            Reads { ranges: vec![("r".into(), Unbounded, Unbounded)], ..Reads::default() },
        ];
        let set = WriteSet::default();
        for reads in &hit {
            let outcome = certifier.certify(10, reads, &set, |_| ());
            assert_eq!(outcome, Err(Refusal::Conflict(number)), "{reads:?}");
        }
        for reads in &missed {
            assert_eq!(certifier.certify(10, reads, &set, |_| ()), Ok(()), "{reads:?}");
        }
    }

    #[test]
    fn what_a_view_in_use_may_conflict_with_is_kept_and_nothing_else() {
        let certifier = certifier();
        let view = certifier.view();
        let number = propose(&certifier, &put("a"));
        certifier.applied(number, 11);
        let none = WriteSet::default();
        assert_eq!(certifier.certify(10, &key("a"), &none, |_| ()), Err(Refusal::Conflict(number)));
        drop(view);
        assert_eq!(certifier.certify(10, &key("a"), &none, |_| ()), Err(Refusal::TooOld));
        let inside = certifier.inside();
        assert!(inside.writers.is_empty());
        assert!(inside.proposals.values().all(|proposal| proposal.index.is_none()));
    }
}
