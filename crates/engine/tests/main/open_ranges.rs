//! Several ranges of one transaction, with writes and rollbacks to savepoints between the steps of
//! the ranges. Each step must return what a map holds at that moment.

use crate::common::{self, Rng, options_for};
use katydid::{Database, EngineKind, Error, Range, Table, Transaction};
use std::collections::BTreeMap;
use std::ops::Bound;

suite! {
    ranges_see_the_writes_of_their_transaction,
    a_range_goes_on_where_it_was_after_a_write_to_its_table,
    keys_written_ahead_of_a_range_are_found_until_it_has_ended,
    a_table_can_be_emptied_while_it_is_walked,
    a_range_of_a_foreign_table_fails_once_and_ends,
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A range, and the bounds of the keys that it has not returned yet.
struct Open<'t> {
    range: Range<'t>,
    table: usize,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    left: usize,
    ended: bool,
}

fn key(random: &mut Rng) -> Vec<u8> {
    format!("{:03}", random.u32(0..300)).into_bytes()
}

/// Returns a value, mostly a short one; some are longer than a page.
fn value(random: &mut Rng) -> Vec<u8> {
    let length = if random.u32(0..40) == 0 { random.usize(5_000..30_000) } else { random.usize(0..200) };
    vec![random.u8(..); length]
}

fn bound(random: &mut Rng) -> Bound<Vec<u8>> {
    match random.u32(0..5) {
        0 => Bound::Included(key(random)),
        1 => Bound::Excluded(key(random)),
        _ => Bound::Unbounded,
    }
}

impl<'t> Open<'t> {
    fn new(txn: &'t Transaction, tables: &[Table; 2], random: &mut Rng) -> Self {
        let (table, low, high) = (random.usize(0..2), bound(random), bound(random));
        let mut range = txn.range(&tables[table], (low.clone(), high.clone()));
        let mut left = usize::MAX;
        if random.u32(0..3) == 0 {
            left = random.usize(0..200);
            range = range.limit(left);
        }
        Open { range, table, low, high, left, ended: false }
    }

    fn step(&mut self, models: &[Model; 2], up: bool) {
        let found = if up { self.range.next() } else { self.range.next_back() };
        let rows = common::model_range(&models[self.table], &self.low, &self.high, !up, 1);
        let expected = rows.into_iter().next().filter(|_| !self.ended && self.left > 0);
        let found = found.transpose().expect("a step");
        assert!(found == expected, "{found:?} instead of {expected:?}");
        let Some((key, _)) = expected else {
            self.ended = true;
            return;
        };
        self.left -= 1;
        if up {
            self.low = Bound::Excluded(key);
        } else {
            self.high = Bound::Excluded(key);
        }
    }
}

fn ranges_see_the_writes_of_their_transaction(engine: EngineKind) {
    for seed in common::seeds(20, 1, 1) {
        println!("KATYDID_SEED={seed}");
        let mut random = Rng::with_seed(seed);
        let database = Database::in_memory_with(options_for(engine)).unwrap();
        let tables = ["one", "two"].map(|name| database.table(name).unwrap());
        let mut models = [Model::new(), Model::new()];
        for _ in 0..30 {
            let mut next = models.clone();
            let txn = database.begin().unwrap();
            let mut ranges: Vec<Open<'_>> = (0..3).map(|_| Open::new(&txn, &tables, &mut random)).collect();
            let mut mark = None;
            let steps_in_ten = random.u32(2..10);
            for _ in 0..random.usize(1..300) {
                let which = random.usize(0..3);
                if random.u32(0..10) < steps_in_ten {
                    // Take several steps in one direction, so that a range may use up its fetched
                    // entries or keep some.
                    let up = random.bool();
                    for _ in 0..random.usize(1..30) {
                        ranges[which].step(&next, up);
                    }
                    continue;
                }
                let table = random.usize(0..2);
                let (key, value) = (key(&mut random), value(&mut random));
                match random.u32(0..12) {
                    0 => ranges[which] = Open::new(&txn, &tables, &mut random),
                    1 => mark = Some((txn.savepoint(), next.clone())),
                    2 => {
                        if let Some((savepoint, then)) = &mark {
                            txn.rollback_to(savepoint).unwrap();
                            next = then.clone();
                        }
                    }
                    3..6 => {
                        assert_eq!(
                            txn.delete(&tables[table], &key).unwrap(),
                            next[table].remove(&key).is_some()
                        );
                    }
                    6 => assert_eq!(txn.get(&tables[table], &key).unwrap(), next[table].get(&key).cloned()),
                    _ => {
                        txn.put(&tables[table], &key, &value).unwrap();
                        next[table].insert(key, value);
                    }
                }
            }
            drop(ranges);
            match random.u32(0..5) {
                0 => txn.rollback().unwrap(),
                _ => {
                    txn.commit().unwrap();
                    models = next;
                }
            }
        }
    }
}

/// A write makes the fetched entries of a range stale after any number of steps from either end.
/// The range continues where it was, and returns the new values.
fn a_range_goes_on_where_it_was_after_a_write_to_its_table(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let rows = 40_u8;
    for (from_below, from_above) in (0..rows).flat_map(|below| (0..rows).map(move |above| (below, above))) {
        if from_below + from_above > rows {
            continue;
        }
        let txn = database.begin().unwrap();
        (0..rows).for_each(|row| txn.put(&table, [row], "before").unwrap());
        let mut range = txn.range(&table, ..).limit(1_000);
        for row in 0..from_below {
            assert_eq!(range.next().unwrap().unwrap().0, [row]);
        }
        for row in 0..from_above {
            assert_eq!(range.next_back().unwrap().unwrap().0, [rows - 1 - row]);
        }
        (0..rows).for_each(|row| txn.put(&table, [row], "after").unwrap());
        let rest: Vec<_> = range.collect::<katydid::Result<_>>().unwrap();
        let expected: Vec<_> =
            (from_below..rows - from_above).map(|row| (vec![row], b"after".to_vec())).collect();
        assert_eq!(rest, expected, "{from_below} from below, {from_above} from above");
    }
}

type Step = fn(&mut Range<'_>) -> Option<katydid::Result<common::Row>>;

fn keys_written_ahead_of_a_range_are_found_until_it_has_ended(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let bounds = [
        (Bound::Unbounded, Bound::Unbounded),
        (Bound::Excluded("a"), Bound::Excluded("z")),
        (Bound::Included("a"), Bound::Included("z")),
    ];
    // A step from each end of the range, and the key that lies ahead of the step. Both keys are
    // written later.
    let ends: [(Step, &str); 2] = [(|range| range.next(), "q"), (|range| range.next_back(), "c")];
    for (bounds, (step, ahead)) in bounds.into_iter().flat_map(|bounds| ends.map(|end| (bounds, end))) {
        let txn = database.begin().unwrap();
        txn.put(&table, "m", "").unwrap();
        let savepoint = txn.savepoint();
        let mut range = txn.range(&table, bounds);
        let mut next = |expected: Option<&str>| {
            let found = step(&mut range).transpose().unwrap();
            assert_eq!(found.map(|(key, _)| key), expected.map(|key| key.as_bytes().to_vec()), "{bounds:?}");
        };
        next(Some("m"));
        // The range has fetched and returned everything.
        for key in ["c", "q"] {
            txn.put(&table, key, "").unwrap();
        }
        next(Some(ahead));
        for key in ["b", "r"] {
            txn.put(&table, key, "").unwrap();
        }
        txn.rollback_to(&savepoint).unwrap();
        next(None);
        for key in ["b", "r"] {
            txn.put(&table, key, "").unwrap();
        }
        next(None);
    }
}

fn a_table_can_be_emptied_while_it_is_walked(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let (queue, done) = (database.table("queue").unwrap(), database.table("done").unwrap());
    let moved = database.transact(|txn| {
        (0..1_000_u32).try_for_each(|job| txn.put(&queue, job.to_be_bytes(), ""))?;
        let mut moved = 0;
        let mut range = txn.range(&queue, ..);
        while let Some((job, _)) = range.next_ref()? {
            txn.put(&done, job, "")?;
            txn.delete(&queue, job)?;
            moved += 1;
        }
        Ok(moved)
    });
    assert_eq!(moved.unwrap(), 1_000);
    let count = |table| database.transact(|txn| txn.count(table, ..)).unwrap();
    assert_eq!((count(&queue), count(&done)), (0, 1_000));
}

fn a_range_of_a_foreign_table_fails_once_and_ends(engine: EngineKind) {
    let open = || Database::in_memory_with(options_for(engine)).unwrap();
    let (database, other) = (open(), open());
    let (own, foreign) = (database.table("t").unwrap(), other.table("t").unwrap());
    let txn = database.begin().unwrap();
    txn.put(&own, "a", "1").unwrap();
    let (mut bad, mut good) = (txn.range(&foreign, ..), txn.prefix(&own, "a"));
    assert!(matches!(bad.next(), Some(Err(Error::ForeignTable { .. }))));
    assert!(bad.next().is_none());
    assert_eq!(good.next().unwrap().unwrap(), (b"a".to_vec(), b"1".to_vec()));
}
