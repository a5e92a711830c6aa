//! Runs random transactions and views on a map of keys that stands for the leaves. Each view must
//! show, by point and by range, what the map held when the view began, without the changes of the
//! transactions that were open then. Every image that remains must be needed by a view.

use super::super::versions::{Before, Versions};
use super::super::{TxnImages, View, Views};
use crate::direction::Direction;
use crate::paged::page::Value;
use crate::pause::scheduler::for_each_seed;
use crate::{Lsn, TableId};
use fastrand::Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

const KEYS: u8 = 12;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct Open {
    images: Arc<TxnImages>,
    /// Keys that the transaction has written, with their former values.
    written: Undo,
}

/// An open view.
struct Seen {
    view: View,
    /// Rows that the view must show.
    rows: Rows,
    /// Number of views that had been opened before it.
    opened_before: u64,
}

type Undo = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

struct Rig {
    views: Views,
    versions: Arc<Versions>,
    /// Rows as the leaves have them.
    leaf: Rows,
    /// Rows as the last commit left them.
    committed: Rows,
    open: Vec<Open>,
    seen: Vec<Seen>,
    commits: u64,
    /// The commits of each key. A commit is noted as the number of views that had been opened
    /// before it.
    history: BTreeMap<Vec<u8>, Vec<u64>>,
    opened: u64,
}

impl Rig {
    fn new(bytes_max: u64) -> Self {
        Rig {
            views: Views::new(bytes_max),
            versions: Arc::new(Versions::new(TableId::new(1))),
            leaf: Rows::new(),
            committed: Rows::new(),
            open: Vec::new(),
            seen: Vec::new(),
            commits: 0,
            history: BTreeMap::new(),
            opened: 0,
        }
    }

    fn write(&mut self, at: usize, key: Vec<u8>, value: Option<Vec<u8>>) {
        // A database would refuse this write, because another transaction holds the key's lock.
        if self.open.iter().enumerate().any(|(other, open)| other != at && open.written.contains_key(&key)) {
            return;
        }
        let open = &mut self.open[at];
        let before = self.leaf.get(&key).cloned();
        self.views.keep(&open.images, &self.versions, &key, before.as_deref().map(Value::Inline));
        open.written.entry(key.clone()).or_insert(before);
        match value {
            Some(value) => drop(self.leaf.insert(key, value)),
            None => drop(self.leaf.remove(&key)),
        }
    }

    fn commit(&mut self, at: usize) {
        let open = self.open.swap_remove(at);
        self.commits += 1;
        self.views.committed(&open.images, Lsn::new(self.commits));
        for key in open.written.into_keys() {
            match self.leaf.get(&key) {
                Some(value) => drop(self.committed.insert(key.clone(), value.clone())),
                None => drop(self.committed.remove(&key)),
            }
            self.history.entry(key).or_default().push(self.opened);
        }
        self.views.ended(&open.images);
        self.views.give_images(open.images);
    }

    fn abort(&mut self, at: usize) {
        let open = self.open.swap_remove(at);
        for (key, before) in open.written {
            match before {
                Some(value) => drop(self.leaf.insert(key, value)),
                None => drop(self.leaf.remove(&key)),
            }
        }
        self.views.ended(&open.images);
        self.views.give_images(open.images);
    }

    fn shown(
        &self,
        view: &View,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let is_empty = super::super::versions::is_empty(low, high);
        let inside = self.leaf.iter().filter(|(key, _)| !is_empty && (low, high).contains_key(key));
        let mut up = inside.map(|(key, value)| (&key[..], Value::Inline(&value[..])));
        let rows: Vec<_>;
        let mut down;
        let leaf: &mut dyn Iterator<Item = (&[u8], Value<'_>)> = match direction {
            Direction::Up => &mut up,
            Direction::Down => {
                rows = up.collect();
                down = rows.into_iter().rev();
                &mut down
            }
        };
        let mut shown = Vec::new();
        let all = self.versions.merge(view.stamp, (low, high), direction, leaf, &mut |key, value| {
            let Value::Inline(value) = value else { panic!("no value here is long") };
            shown.push((key.to_vec(), value.to_vec()));
            true
        });
        assert!(all);
        shown
    }

    /// Reads some of the keys through some of the views. A view visits the transactions before it
    /// reads a key that a transaction has written, or a range.
    fn check(&mut self, random: &mut Rng) {
        for at in 0..self.seen.len() {
            if random.bool() {
                self.check_points(at, random);
            }
            if random.u8(..4) == 0 {
                self.check_ranges(at, random);
            }
        }
    }

    fn is_unknown(&self, view: &View) -> bool {
        view.is_given_up() || view.has_forgotten(self.versions.table())
    }

    fn check_points(&mut self, at: usize, random: &mut Rng) {
        for key in (0..KEYS).map(|key| vec![key]) {
            if random.u8(..3) == 0 {
                continue;
            }
            let Seen { view, rows, .. } = &mut self.seen[at];
            if self.open.iter().any(|open| open.written.contains_key(&key)) {
                self.views.visit(view);
            }
            let value = self.versions.look(&key, view.stamp, |image| match image {
                None => self.leaf.get(&key).cloned(),
                Some(Before::Absent) => None,
                Some(Before::Bytes(bytes)) => Some(bytes.to_vec()),
                Some(other) => panic!("{other:?}"),
            });
            let expected = rows.get(&key).cloned();
            let view = &self.seen[at].view;
            assert!(self.is_unknown(view) || value == expected, "key {key:?} at {:?}: {value:?}", view.stamp);
        }
    }

    fn check_ranges(&mut self, at: usize, random: &mut Rng) {
        self.views.visit(&mut self.seen[at].view);
        let Seen { view, rows, .. } = &self.seen[at];
        if self.is_unknown(view) {
            return;
        }
        let (from, to) = ([random.u8(..KEYS)], [random.u8(..KEYS)]);
        let bound = |key, kind| match kind {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        let (low, high) = (bound(&from[..], random.u8(..3)), bound(&to[..], random.u8(..3)));
        let mut expected: Vec<_> = rows.iter().filter(|(key, _)| (low, high).contains_key(key)).collect();
        if super::super::versions::is_empty(low, high) {
            expected.clear();
        }
        for direction in [Direction::Up, Direction::Down] {
            let shown = self.shown(view, low, high, direction);
            assert!(
                shown.iter().map(|(key, value)| (key, value)).eq(expected.iter().copied()),
                "{low:?} {high:?}"
            );
            expected.reverse();
        }
    }

    /// Number of images of committed transactions that an open view needs. A view needs an image if
    /// the view was opened after the commit of the key's previous writer and before the commit of
    /// the image's transaction.
    fn needed(&self) -> usize {
        self.history
            .values()
            .map(|commits| {
                let before = std::iter::once(&0).chain(commits);
                before
                    .zip(commits)
                    .filter(|(before, own)| {
                        // A view sees the commits that had no more views before them than the view
                        // itself.
                        let mut views = self.seen.iter().map(|seen| seen.opened_before);
                        views.any(|view| **before <= view && view < **own)
                    })
                    .count()
            })
            .sum()
    }
}

trait Contains {
    fn contains_key(&self, key: &[u8]) -> bool;
}

impl Contains for (Bound<&[u8]>, Bound<&[u8]>) {
    fn contains_key(&self, key: &[u8]) -> bool {
        let low = match self.0 {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
        };
        let high = match self.1 {
            Bound::Unbounded => true,
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
        };
        low && high
    }
}

fn run(seed: u64, bytes_max: u64, value_bytes: usize) -> Rig {
    let mut random = Rng::with_seed(seed);
    let mut rig = Rig::new(bytes_max);
    for _ in 0..300 {
        match random.u8(..20) {
            0..2 if rig.open.len() < 4 => {
                rig.open.push(Open { images: rig.views.take_images(), written: BTreeMap::new() });
            }
            2..12 if !rig.open.is_empty() => {
                let at = random.usize(..rig.open.len());
                let value = (random.u8(..3) > 0).then(|| vec![random.u8(..); random.usize(..value_bytes)]);
                rig.write(at, vec![random.u8(..KEYS)], value);
            }
            12..15 if !rig.open.is_empty() => {
                let at = random.usize(..rig.open.len());
                if random.u8(..4) == 0 { rig.abort(at) } else { rig.commit(at) }
            }
            15..17 if rig.seen.len() < 4 => {
                let view = rig.views.open(|| Lsn::ZERO);
                rig.seen.push(Seen { view, rows: rig.committed.clone(), opened_before: rig.opened });
                rig.opened += 1;
            }
            17..19 if !rig.seen.is_empty() => {
                let at = random.usize(..rig.seen.len());
                let seen = rig.seen.swap_remove(at);
                rig.views.close(seen.view);
            }
            _ => {}
        }
        rig.check(&mut random);
        if rig.open.is_empty() && rig.views.stat().given_up == 0 {
            assert_eq!(rig.versions.images(), rig.needed(), "images that views need");
        }
    }
    while let Some(last) = rig.open.len().checked_sub(1) {
        rig.commit(last);
    }
    rig.check(&mut random);
    rig
}

fn assert_nothing_is_left(mut rig: Rig) {
    for seen in std::mem::take(&mut rig.seen) {
        rig.views.close(seen.view);
    }
    assert_eq!((rig.versions.images(), rig.views.stat().bytes), (0, 0));
}

#[test]
fn a_view_shows_what_was_committed_when_it_began() {
    for_each_seed(300, |seed| {
        let rig = run(seed, 1 << 30, 9);
        assert_eq!(rig.views.stat().given_up, 0);
        assert_nothing_is_left(rig);
    });
}

/// Views that are given up, and views beside transactions that keep no images, get an error. All
/// other views show the right rows.
#[test]
fn a_view_shows_the_truth_or_is_too_old() {
    let given_up = Cell::new(0);
    for_each_seed(300, |seed| {
        let rig = run(seed, 4000, 400);
        given_up.set(given_up.get() + rig.views.stat().given_up);
        assert_nothing_is_left(rig);
    });
    assert!(given_up.get() > 0, "the limit was never met");
}

/// While a committed transaction holds its locks, the lock table does not know its commit. A view
/// that sees the transaction depends on this commit all the same.
#[test]
fn a_view_depends_on_a_commit_that_holds_its_locks() {
    let rig = Rig::new(1 << 30);
    let images = rig.views.take_images();
    rig.views.keep(&images, &rig.versions, b"k", None);
    let depends = || {
        let mut view = rig.views.open(|| Lsn::new(90));
        rig.views.visit(&mut view);
        let depends = view.depends_on(Lsn::new(1));
        rig.views.close(view);
        depends
    };
    assert_eq!(depends(), Lsn::new(1), "nothing of it is seen");
    rig.views.committed(&images, Lsn::new(70));
    assert_eq!(depends(), Lsn::new(70));
    rig.views.ended(&images);
    assert_eq!(depends(), Lsn::new(1), "the released locks name the commit");
    let view = rig.views.open(|| Lsn::new(90));
    assert_eq!(view.depends_on(Lsn::new(100)), Lsn::new(90), "what it sees lies below the end of the log");
    rig.views.close(view);
    assert_nothing_is_left(rig);
}
