//! Tables with types, and their indexes: compared with a model, and with rows that other programs
//! wrote.

use crate::common::{self, options_for};
use katydid::typed::{Index, IndexedTable, TypedTable};
use katydid::{Database, EngineKind, EngineOptions, Error, Prefix, Result, VALUE_BYTES_MAX};
use katydid_device::MemoryDirectory;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

suite! {
    ranges_are_in_the_order_of_the_types,
    what_is_not_of_the_type_is_named_and_the_transaction_goes_on,
    indexes_have_the_entries_of_the_rows,
    an_index_is_made_of_rows_that_were_there,
    an_entry_without_a_row_is_passed_over,
    an_index_has_the_entries_of_the_rows_after_an_error,
    the_former_values_of_an_indexed_row_take_no_memory,
}

fn in_memory(engine: EngineKind) -> Database {
    Database::open_in(Arc::new(MemoryDirectory::new()), options_for(engine)).unwrap()
}

fn all<T>(rows: impl Iterator<Item = Result<T>>) -> Vec<T> {
    rows.collect::<Result<_>>().unwrap()
}

fn ranges_are_in_the_order_of_the_types(engine: EngineKind) {
    let database = in_memory(engine);
    let table = TypedTable::<(i32, String), u64>::new(database.table("t").unwrap());
    let mut model = BTreeMap::new();
    database
        .transact(|txn| {
            for (number, word) in
                [(-1, "b"), (5, ""), (-300, "a"), (5, "a\0b"), (5, "a"), (0, "ab"), (7, "z")]
            {
                table.put(txn, (number, word), number as u64)?;
                model.insert((number, word.to_owned()), number as u64);
            }
            Ok(())
        })
        .unwrap();
    let txn = database.begin().unwrap();
    let model: Vec<_> = model.into_iter().collect();
    assert_eq!(all(table.range(&txn, ..)), model);
    let mut back = all(table.range(&txn, ..).rev());
    back.reverse();
    assert_eq!(back, model);
    assert_eq!(all(table.range(&txn, (0, "")..=(5, "a"))), model[2..5]);
    assert_eq!(all(table.range(&txn, ..(5, "a".to_owned()))), model[..4]);
    assert_eq!(all(table.range(&txn, Prefix((5,)))), model[3..6]);
    assert_eq!(all(table.range(&txn, (Bound::Excluded((5, "a")), Bound::Unbounded))), model[5..]);
    assert_eq!(all(table.range(&txn, ..).limit(2)), model[..2]);
    assert_eq!(table.first(&txn).unwrap().as_ref(), model.first());
    assert_eq!(table.last(&txn).unwrap().as_ref(), model.last());
    assert_eq!(table.count(&txn, (0, "")..).unwrap(), 5);
    assert_eq!(table.get(&txn, &(7, "z".to_owned())).unwrap(), Some(7));
    assert!(table.contains(&txn, (0, "ab")).unwrap() && !table.contains(&txn, (0, "a")).unwrap());
    assert!(table.update(&txn, (7, "z"), |old| old.map(|old| old + 1)).unwrap());
    assert_eq!(table.get_for_update(&txn, (7, "z")).unwrap(), Some(8));
    assert!(!table.update(&txn, (7, "z"), |_| None).unwrap());
    assert!(!table.delete(&txn, (7, "z")).unwrap());
    assert!(matches!(table.insert(&txn, (5, ""), 0u64), Err(Error::KeyExists { .. })));
    assert_eq!(table.delete_range(&txn, Prefix((5,))).unwrap(), 3);
    assert_eq!(all(table.range(&txn, ..)), model[..3]);
    table.put_all(&txn, [((9, "b"), 1u64), ((0, "ab"), 2), ((9, "b"), 3)]).unwrap();
    let found = table.multi_get(&txn, [(9, "b"), (5, ""), (0, "ab"), (9, "b")]).unwrap();
    assert_eq!(found, [Some(3), None, Some(2), Some(3)]);
}

fn what_is_not_of_the_type_is_named_and_the_transaction_goes_on(engine: EngineKind) {
    let database = in_memory(engine);
    let table = TypedTable::<u32, String>::new(database.table("t").unwrap());
    let txn = database.begin().unwrap();
    txn.put(table.table(), 1u32.to_be_bytes(), [0xFF]).unwrap();
    txn.put(table.table(), "long key", "text").unwrap();
    let error = table.get(&txn, 1u32).unwrap_err();
    let shown = r#"the value at key "\x00\x00\x00\x01" of table "t" is no alloc::string::String"#;
    assert_eq!(error.to_string(), shown);
    let error = table.multi_get(&txn, [0u32, 1]).unwrap_err();
    assert_eq!(error.to_string(), shown);
    let rows: Vec<_> = table.range(&txn, ..).collect();
    assert!(
        matches!(
            rows.as_slice(),
            [Err(Error::Undecodable { part: "value", .. }), Err(Error::Undecodable { part: "key", .. })]
        ),
        "{rows:?}"
    );
    let refused = table.pop_first(&txn).unwrap_err();
    assert!(matches!(refused, Error::Undecodable { .. }), "{refused}");
    assert!(txn.contains(table.table(), 1u32.to_be_bytes()).unwrap(), "what is not returned stays");
    let refused = table.update(&txn, 1u32, |_| unreachable!("it is not given what is no value")).unwrap_err();
    assert!(matches!(refused, Error::Undecodable { .. }), "{refused}");
    table.put(&txn, 1u32, "good").unwrap();
    txn.commit().unwrap();
    let txn = database.begin().unwrap();
    assert_eq!(table.get(&txn, 1u32).unwrap(), Some("good".to_owned()));
}

/// Makes an index of each word of the value.
fn words(table: katydid::Table) -> Index<u16, String, String> {
    let finds = |_: &u16, text: &String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    Index::new(table, finds)
}

/// Makes an index of the value's length, if that is odd.
fn odd_lengths(table: katydid::Table) -> Index<u16, String, u64> {
    Index::new(table, |_, text: &String| Some(text.len() as u64).filter(|length| length % 2 == 1))
}

fn indexes_have_the_entries_of_the_rows(engine: EngineKind) {
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    let mut random = common::Rng::with_seed(seed);
    let database = in_memory(engine);
    let table = |name| database.table(name).unwrap();
    let (words, lengths) = (words(table("words")), odd_lengths(table("lengths")));
    let rows = IndexedTable::new(TypedTable::new(table("rows"))).with(&words).with(&lengths);
    let mut model = BTreeMap::<u16, String>::new();
    for _ in 0..60 {
        let mut next = model.clone();
        let txn = database.begin().unwrap();
        for _ in 0..random.usize(1..6) {
            let key = random.u16(..12);
            let text = (0..random.usize(1..4)).map(|_| ["a", "bb", "ccc"][random.usize(..3)]);
            let text = text.collect::<Vec<_>>().join(" ");
            let was_there = match random.u8(..4) {
                0 => rows.delete(&txn, key).unwrap(),
                1 => rows.update(&txn, key, |old| old.map(|old| format!("{old} {text}"))).unwrap(),
                _ => {
                    rows.put(&txn, key, &text).unwrap();
                    next.insert(key, text);
                    continue;
                }
            };
            assert_eq!(was_there, next.contains_key(&key));
            next = rows.rows().range(&txn, ..).map(Result::unwrap).collect();
        }
        if random.bool() {
            txn.commit().unwrap();
            model = next;
        } else {
            txn.rollback().unwrap();
        }
        let txn = database.begin().unwrap();
        assert_eq!(all(rows.rows().range(&txn, ..)), model.clone().into_iter().collect::<Vec<_>>());
        let mut of_word = BTreeMap::<&str, BTreeSet<u16>>::new();
        for (key, text) in &model {
            text.split(' ').for_each(|word| _ = of_word.entry(word).or_default().insert(*key));
        }
        for word in ["a", "b", "bb", "ccc"] {
            let expected: Vec<_> = of_word.remove(word).unwrap_or_default().into_iter().collect();
            assert_eq!(all(words.keys(&txn, word)), expected, "{word}");
            let expected: Vec<_> = expected.into_iter().map(|key| (key, model[&key].clone())).collect();
            assert_eq!(all(rows.find(&txn, &words, word)), expected, "{word}");
            let back: Vec<_> = expected.into_iter().rev().collect();
            assert_eq!(all(rows.find(&txn, &words, word).rev()), back, "{word}");
        }
        let odd: BTreeSet<_> = model.iter().map(|(key, text)| (text.len() as u64, *key)).collect();
        let odd: Vec<_> =
            odd.into_iter().filter(|(length, _)| length % 2 == 1).map(|entry| (entry, ())).collect();
        assert_eq!(all(lengths.entries().range(&txn, ..)), odd);
    }
}

fn an_index_is_made_of_rows_that_were_there(engine: EngineKind) {
    let database = in_memory(engine);
    let rows = TypedTable::<u16, String>::new(database.table("rows").unwrap());
    let words = words(database.table("words").unwrap());
    database
        .transact(|txn| {
            rows.put(txn, 1u16, "red green")?;
            rows.put(txn, 2u16, "green green")?;
            txn.put(words.entries().table(), "what was there before", "")?;
            words.rebuild(txn, &rows)
        })
        .unwrap();
    let txn = database.begin().unwrap();
    assert_eq!(all(words.keys(&txn, "green")), [1, 2]);
    assert_eq!(all(words.keys(&txn, "green").rev()), [2, 1]);
    assert_eq!(words.entries().count(&txn, ..).unwrap(), 3);
}

fn an_entry_without_a_row_is_passed_over(engine: EngineKind) {
    let database = in_memory(engine);
    let words = words(database.table("words").unwrap());
    let rows = IndexedTable::new(TypedTable::new(database.table("rows").unwrap())).with(&words);
    let txn = database.begin().unwrap();
    for key in 1u16..6 {
        rows.put(&txn, key, "green").unwrap();
    }
    // These deletions do not update the index.
    for key in [1u16, 3, 5] {
        assert!(rows.rows().delete(&txn, key).unwrap());
    }
    let green = || rows.find(&txn, &words, "green").map(|row| row.unwrap().0);
    assert_eq!(green().collect::<Vec<_>>(), [2, 4]);
    assert_eq!(green().rev().collect::<Vec<_>>(), [4, 2]);
    assert_eq!(all(words.keys(&txn, "green")), [1, 2, 3, 4, 5]);
}

fn an_index_has_the_entries_of_the_rows_after_an_error(engine: EngineKind) {
    let database = in_memory(engine);
    let table = |name| database.table(name).unwrap();
    let (words, lengths) = (words(table("words")), odd_lengths(table("lengths")));
    let rows = IndexedTable::new(TypedTable::new(table("rows"))).with(&lengths);
    let with_words = rows.clone().with(&words);
    let too_long_a_word = "w".repeat(2001);
    let txn = database.begin().unwrap();
    with_words.put(&txn, 1u16, "red").unwrap();
    let refused = with_words.put(&txn, 1u16, &too_long_a_word);
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    let refused = rows.put(&txn, 2u16, "x".repeat(VALUE_BYTES_MAX + 1));
    assert!(matches!(refused, Err(Error::ValueTooLong { .. })), "{refused:?}");
    rows.put(&txn, 3u16, &too_long_a_word).unwrap();
    let refused = words.rebuild(&txn, rows.rows());
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
    txn.commit().unwrap();
    let txn = database.begin().unwrap();
    assert_eq!(all(rows.rows().range(&txn, ..)), [(1, "red".to_owned()), (3, too_long_a_word)]);
    assert_eq!(all(words.entries().range(&txn, ..)), [(("red".to_owned(), 1), ())]);
    assert_eq!(all(lengths.entries().range(&txn, ..)), [((3, 1), ()), ((2001, 3), ())]);
}

/// One transaction changes a row many times, and once more after a savepoint to which it then rolls
/// back.
fn the_former_values_of_an_indexed_row_take_no_memory(engine: EngineKind) {
    let mut options = options_for(engine);
    if let EngineOptions::Memory(memory) = &mut options.engine {
        memory.memory_bytes = 1 << 20;
    }
    let database = Database::in_memory_with(options).unwrap();
    let lengths = odd_lengths(database.table("lengths").unwrap());
    let rows = IndexedTable::new(TypedTable::new(database.table("rows").unwrap())).with(&lengths);
    let txn = database.begin().unwrap();
    for length in 0..100 {
        rows.put(&txn, 1u16, "x".repeat(30_000 + length)).unwrap();
    }
    let savepoint = txn.savepoint();
    rows.put(&txn, 1u16, "y").unwrap();
    txn.rollback_to(&savepoint).unwrap();
    txn.commit().unwrap();
    let txn = database.begin().unwrap();
    assert_eq!(rows.rows().get(&txn, 1u16).unwrap(), Some("x".repeat(30_099)));
    assert_eq!(all(lengths.keys(&txn, 30_099u64)), [1]);
    assert_eq!(lengths.entries().count(&txn, ..).unwrap(), 1);
}
