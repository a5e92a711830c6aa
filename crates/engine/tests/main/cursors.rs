//! Cursors compared with a map, with the transaction's own writes between their moves.

use crate::common::{Rng, options_for, seeds};
use katydid::{Access, Database, EngineKind, Error, Table, Transaction, TransactionOptions};
use std::collections::BTreeMap;
use std::ops::Bound;

suite! {
    a_cursor_moves_as_one_over_a_map_does,
    a_cursor_of_a_reader_moves_and_does_not_write,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Position that the cursor ought to have.
#[derive(Debug, Clone, PartialEq)]
enum Position {
    Before,
    At(Vec<u8>),
    Behind,
}

struct Model {
    map: Map,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    position: Position,
}

type Row = Option<(Vec<u8>, Vec<u8>)>;

impl Model {
    /// Returns the first entry of the range that `keep` admits, or the last one if `up` is false.
    /// Moves the model's cursor there, or past the end if there is none.
    fn go(&mut self, up: bool, keep: impl Fn(&[u8]) -> bool) -> Row {
        let mut inside = self.map.range::<Vec<u8>, _>((self.low.as_ref(), self.high.as_ref()));
        let found =
            if up { inside.find(|(key, _)| keep(key)) } else { inside.rev().find(|(key, _)| keep(key)) };
        let row = found.map(|(key, value)| (key.clone(), value.clone()));
        self.position = match &row {
            Some((key, _)) => Position::At(key.clone()),
            None if up => Position::Behind,
            None => Position::Before,
        };
        row
    }

    fn step(&mut self, up: bool) -> Row {
        match (self.position.clone(), up) {
            (Position::Behind, true) | (Position::Before, false) => None,
            (Position::At(at), true) => self.go(true, |key| key > &*at),
            (Position::At(at), false) => self.go(false, |key| key < &*at),
            (_, up) => self.go(up, |_| true),
        }
    }
}

fn owned(entry: Option<(&[u8], &[u8])>) -> Row {
    entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

fn some_key(random: &mut Rng) -> Vec<u8> {
    format!("{:03}", random.u32(..400)).into_bytes()
}

fn bound(random: &mut Rng) -> Bound<Vec<u8>> {
    match random.u32(..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(some_key(random)),
        _ => Bound::Excluded(some_key(random)),
    }
}

fn filled(engine: EngineKind, random: &mut Rng) -> (Database, Table, Map) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let map: Map = (0..200).map(|n| (some_key(random), vec![n; random.usize(..300)])).collect();
    let all = |txn: &Transaction| map.iter().try_for_each(|(key, value)| txn.put(&table, key, value));
    database.transact(all).unwrap();
    (database, table, map)
}

fn a_cursor_moves_as_one_over_a_map_does(engine: EngineKind) {
    for seed in seeds(1, 6, 2) {
        let random = &mut Rng::with_seed(seed);
        let (database, table, map) = filled(engine, random);
        let txn = database.begin().unwrap();
        let (mut low, mut high) = (bound(random), bound(random));
        let at = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        if let (Some(from), Some(to)) = (at(&low), at(&high))
            && from >= to
        {
            (low, high) = (Bound::Included(to), Bound::Excluded([from, vec![0]].concat()));
        }
        let mut cursor = txn.cursor(&table, (low.clone(), high.clone()));
        let mut model = Model { map, low, high, position: Position::Before };
        for step in 0..600 {
            let (key, value) = (some_key(random), vec![7; random.usize(..300)]);
            let (found, expected) = match random.u32(..16) {
                0..4 => (owned(cursor.next().unwrap()), model.step(true)),
                4..8 => (owned(cursor.prev().unwrap()), model.step(false)),
                8 => (owned(cursor.first().unwrap()), model.go(true, |_| true)),
                9 => (owned(cursor.last().unwrap()), model.go(false, |_| true)),
                10 => (owned(cursor.seek(&key).unwrap()), model.go(true, |at| at >= &*key)),
                11 => (owned(cursor.seek_back(&key).unwrap()), model.go(false, |at| at <= &*key)),
                12 => {
                    // The transaction itself puts or deletes a key anywhere in the table.
                    if random.bool() {
                        txn.put(&table, &key, &value).unwrap();
                        model.map.insert(key, value);
                    } else {
                        let was_there = txn.delete(&table, &key).unwrap();
                        assert_eq!(was_there, model.map.remove(&key).is_some());
                    }
                    (None, None)
                }
                13 => {
                    let is_put = cursor.put(&value).unwrap();
                    if let Position::At(key) = &model.position {
                        model.map.insert(key.clone(), value);
                    }
                    assert_eq!(is_put, matches!(model.position, Position::At(_)));
                    (None, None)
                }
                14 => {
                    let deleted = cursor.delete().unwrap();
                    let expected = match &model.position {
                        Position::At(key) => model.map.remove(key).is_some(),
                        _ => false,
                    };
                    assert_eq!(deleted, expected);
                    (None, None)
                }
                _ => {
                    let expected = match &model.position {
                        Position::At(key) => model.map.get(key).map(|value| (key.clone(), value.clone())),
                        _ => None,
                    };
                    (owned(cursor.current().unwrap()), expected)
                }
            };
            assert_eq!(found, expected, "seed {seed}, step {step}");
            let at = cursor.key().map(<[u8]>::to_vec);
            let expected = if let Position::At(key) = &model.position { Some(key.clone()) } else { None };
            assert_eq!(at, expected, "seed {seed}, step {step}");
        }
        txn.commit().unwrap();
    }
}

fn a_cursor_of_a_reader_moves_and_does_not_write(engine: EngineKind) {
    let (database, table, map) = filled(engine, &mut Rng::with_seed(1));
    let options = TransactionOptions { access: Access::ReadOnly, ..TransactionOptions::default() };
    let txn = database.begin_with(options).unwrap();
    let mut cursor = txn.cursor(&table, ..);
    let (first, last) = (map.keys().next().unwrap(), map.keys().last().unwrap());
    assert_eq!(cursor.last().unwrap().map(|(key, _)| key.to_vec()).as_ref(), Some(last));
    assert_eq!(cursor.first().unwrap().map(|(key, _)| key.to_vec()).as_ref(), Some(first));
    assert!(matches!(cursor.put("v"), Err(Error::ReadOnly)));
    assert!(matches!(cursor.delete(), Err(Error::ReadOnly)));
}
