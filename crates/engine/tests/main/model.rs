//! Reads and writes that are made of other calls, compared with a map: random transactions on one
//! thread, some rolled back.

use crate::common::{self, Rng, options_for};
use katydid::{Database, EngineKind, KeyRange, Prefix, Table, Transaction};
use std::collections::BTreeMap;
use std::ops::Bound;

suite! {
    reads_and_writes_match_a_map,
    ranges_longer_than_a_batch_are_deleted,
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Returns a word of few letters, so that keys are prefixes of each other. No byte is greater than
/// the letter 0xff.
fn word(random: &mut Rng) -> Vec<u8> {
    let letters = [0, b'a', b'b', 0xff];
    (0..random.usize(0..4)).map(|_| letters[random.usize(0..letters.len())]).collect()
}

fn bounds(random: &mut Rng) -> Bounds {
    let (low, high) = (word(random), word(random));
    match random.u32(0..9) {
        0 => (..).into_bounds(),
        1 => (low..high).into_bounds(),
        2 => (low..=high).into_bounds(),
        3 => (low..).into_bounds(),
        4 => (..high).into_bounds(),
        5 => (..=high).into_bounds(),
        6 => (Bound::Excluded(low), Bound::Unbounded).into_bounds(),
        7 => (Bound::Excluded(low), Bound::Included(high)).into_bounds(),
        _ => Prefix(low).into_bounds(),
    }
}

fn rows(model: &Model, (low, high): &Bounds) -> Vec<common::Row> {
    common::model_range(model, low, high, false, usize::MAX)
}

fn set(model: &mut Model, key: Vec<u8>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => drop(model.insert(key, value)),
        None => drop(model.remove(&key)),
    }
}

/// Makes one random call, whose answer must be the map's.
fn step(txn: &Transaction, table: &Table, model: &mut Model, random: &mut Rng) -> katydid::Result<()> {
    let key = word(random);
    match random.u32(0..STEPS) {
        0 => assert_eq!(txn.contains(table, &key)?, model.contains_key(&key)),
        1 => {
            let keys: Vec<_> = (0..random.usize(0..5)).map(|_| word(random)).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
            assert_eq!(txn.multi_get(table, &keys)?, expected);
        }
        2 => assert_eq!(txn.first(table)?, model.clone().pop_first()),
        3 => assert_eq!(txn.last(table)?, model.clone().pop_last()),
        4 => assert_eq!(txn.is_empty(table)?, model.is_empty()),
        5 => {
            let bounds = bounds(random);
            assert_eq!(txn.count(table, bounds.clone())?, rows(model, &bounds).len() as u64, "{bounds:?}");
        }
        6 => {
            let found: Vec<_> = txn.prefix(table, &key).collect::<katydid::Result<_>>()?;
            let begins = |row: &(&Vec<u8>, &Vec<u8>)| row.0.starts_with(&key);
            let expected: Vec<_> = model.iter().filter(begins).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(found, expected, "prefix {key:?}");
        }
        7 => {
            let bounds = bounds(random);
            let found: Vec<_> = txn.range(table, bounds.clone()).rev().collect::<katydid::Result<_>>()?;
            let mut expected = rows(model, &bounds);
            expected.reverse();
            assert_eq!(found, expected, "{bounds:?}");
        }
        8 => {
            let value = random.bool().then(|| vec![random.u8(..); random.usize(0..300)]);
            let change = |old: Option<Vec<u8>>| {
                assert_eq!(old.as_ref(), model.get(&key));
                value.clone()
            };
            assert_eq!(txn.update(table, &key, change)?, value);
            set(model, key, value);
        }
        9 => {
            let is_right = random.bool();
            let expected = if is_right { model.get(&key).cloned() } else { Some(vec![random.u8(..)]) };
            let new = random.bool().then(|| vec![random.u8(..); random.usize(0..300)]);
            let swaps = expected.as_ref() == model.get(&key);
            assert_eq!(txn.compare_and_swap(table, &key, expected.as_deref(), new.as_deref())?, swaps);
            if swaps {
                set(model, key, new);
            }
        }
        10 => assert_eq!(txn.pop_first(table)?, model.pop_first()),
        11 => {
            let bounds = bounds(random);
            let gone = rows(model, &bounds);
            assert_eq!(txn.delete_range(table, bounds.clone())?, gone.len() as u64, "{bounds:?}");
            for (key, _) in gone {
                model.remove(&key);
            }
        }
        12 if random.u32(0..8) == 0 => {
            assert_eq!(txn.clear(table)?, model.len() as u64);
            model.clear();
        }
        13 => {
            assert_eq!(txn.delete(table, &key)?, model.remove(&key).is_some());
        }
        14 => {
            let mut entry = || (word(random), vec![random.u8(..); random.usize(0..300)]);
            let entries: Vec<_> = (0..5).map(|_| entry()).collect();
            txn.put_all(table, entries.clone())?;
            model.extend(entries);
        }
        _ => {
            let value = vec![random.u8(..); random.usize(0..300)];
            txn.put(table, &key, &value)?;
            model.insert(key, value);
        }
    }
    Ok(())
}

const STEPS: u32 = 24;

fn reads_and_writes_match_a_map(engine: EngineKind) {
    for seed in common::seeds(20, 1, 1) {
        println!("KATYDID_SEED={seed}");
        let mut random = Rng::with_seed(seed);
        let database = Database::in_memory_with(options_for(engine)).unwrap();
        let table = database.table("t").unwrap();
        let mut model = Model::new();
        for _ in 0..600 {
            let mut next = model.clone();
            let txn = database.begin().unwrap();
            let mut mark = None;
            for _ in 0..random.usize(1..12) {
                step(&txn, &table, &mut next, &mut random).unwrap();
                match (&mark, random.u32(0..10)) {
                    (_, 0) => mark = Some((txn.savepoint(), next.clone())),
                    (Some((savepoint, then)), 1) => {
                        txn.rollback_to(savepoint).unwrap();
                        next = then.clone();
                    }
                    _ => {}
                }
            }
            match random.u32(0..5) {
                0 => txn.rollback().unwrap(),
                _ => {
                    txn.commit().unwrap();
                    model = next;
                }
            }
            if random.u32(0..100) == 0 {
                common::assert_sound(&database.verify(None).unwrap());
            }
        }
        assert_eq!(common::contents(&database, &table), model);
    }
}

fn ranges_longer_than_a_batch_are_deleted(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    // The counts lie next to the number of entries that are read at once, and next to multiples of
    // that number.
    for count in [127, 128, 129, 255, 256, 257, 1000] {
        let txn = database.begin().unwrap();
        for number in 0..count {
            txn.put(&table, common::key(number), b"v").unwrap();
        }
        assert_eq!(txn.delete_range(&table, common::key(1)..common::key(count - 1)).unwrap(), count - 2);
        let left: Vec<_> = txn.range(&table, ..).map(|row| row.unwrap().0).collect();
        assert_eq!(left, [common::key(0), common::key(count - 1)]);
        assert_eq!(txn.clear(&table).unwrap(), 2);
        assert!(txn.is_empty(&table).unwrap());
        txn.commit().unwrap();
    }
    common::assert_sound(&database.verify(None).unwrap());
}
