//! Tests of subjects that the test suites of other stores have and no other file here has, and a
//! check of the list of all such subjects (`docs/other-suites.md`).

use crate::common::{contents, options_for};
use katydid::{Change, ChangesFrom, Database, EngineKind, Error, Prefix, Result, Table};
use std::ops::Bound;
use std::path::Path;

suite! {
    entries_are_removed_while_a_range_goes_from_both_ends,
    what_a_condition_keeps_is_kept,
    a_range_whose_ends_are_equal_deletes_nothing,
    a_range_that_ends_before_it_begins_deletes_nothing,
    a_key_put_between_two_deletes_of_ranges_stays,
    a_view_keeps_what_a_deleted_range_had,
    a_view_of_a_cleared_table_keeps_its_rows,
    a_view_is_not_changed_by_a_value_of_the_same_length,
    two_views_of_two_moments_differ,
    a_cursor_turns_round_behind_a_seek,
    a_cursor_of_an_empty_table_finds_nothing,
    cursors_of_one_transaction_stand_apart,
    several_keys_are_read_at_one_moment,
    prefixes_find_their_keys_and_no_others,
    a_table_is_removed_and_made_again_empty,
    a_renamed_table_takes_uncommitted_rows_along,
    a_feed_stops_at_the_last_commit_and_goes_on,
    a_feed_goes_on_after_an_opening,
    a_transaction_of_several_tables_is_one_of_the_feed,
    a_copy_stays_as_it_was_made,
    many_threads_insert_and_remove,
}

fn numbers(engine: EngineKind, count: u32) -> (Database, Table) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("numbers").unwrap();
    let put = |number: u32| (number.to_be_bytes(), number.to_string());
    database
        .transact(|txn| (0..count).map(put).try_for_each(|(key, value)| txn.put(&table, key, value)))
        .unwrap();
    (database, table)
}

fn keys(database: &Database, table: &Table) -> Vec<u32> {
    contents(database, table).keys().map(|key| number(key)).collect()
}

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().unwrap())
}

fn words(database: &Database, table: &Table, words: &[&str]) {
    database.transact(|txn| words.iter().try_for_each(|word| txn.put(table, word, word))).unwrap();
}

fn entries_are_removed_while_a_range_goes_from_both_ends(engine: EngineKind) {
    let (database, table) = numbers(engine, 2_000);
    database
        .transact(|txn| {
            let mut range = txn.range_for_update(&table, ..);
            let mut front = true;
            // Every second step takes an entry from the back. Every fourth entry stays.
            for step in 0.. {
                let entry = if front { range.next() } else { range.next_back() };
                let Some(entry) = entry else { break };
                if step % 4 != 0 {
                    assert!(txn.delete(&table, entry?.0)?);
                }
                front = !front;
            }
            Ok(())
        })
        .unwrap();
    let left = keys(&database, &table);
    assert_eq!(left.len(), 500);
    // The entries that stay are those of steps 0, 4, 8 and so on, which took entries from the
    // front.
    assert_eq!(left, (0..500).map(|nth| nth * 2).collect::<Vec<_>>());
}

fn what_a_condition_keeps_is_kept(engine: EngineKind) {
    let (database, table) = numbers(engine, 1_000);
    let retain = |keep: fn(u32) -> bool| {
        let outcome: Result<u32> = database.transact(|txn| {
            let mut removed = 0;
            for entry in txn.range_for_update(&table, ..) {
                let (key, _) = entry?;
                if !keep(number(&key)) {
                    txn.delete(&table, key)?;
                    removed += 1;
                }
            }
            Ok(removed)
        });
        outcome.unwrap()
    };
    assert_eq!(retain(|number| number.is_multiple_of(3)), 666);
    assert_eq!(retain(|number| number == 501), 333);
    assert_eq!(keys(&database, &table), [501]);
    assert_eq!(retain(|_| false), 1);
    assert_eq!(retain(|_| false), 0);
}

fn a_range_whose_ends_are_equal_deletes_nothing(engine: EngineKind) {
    let (database, table) = numbers(engine, 3);
    let at = 1_u32.to_be_bytes();
    assert_eq!(database.transact(|txn| txn.delete_range(&table, at..at)).unwrap(), 0);
    let neither = (Bound::Excluded(at), Bound::Excluded(at));
    assert_eq!(database.transact(|txn| txn.delete_range(&table, neither)).unwrap(), 0);
    assert_eq!(keys(&database, &table), [0, 1, 2]);
    assert_eq!(database.transact(|txn| txn.delete_range(&table, at..=at)).unwrap(), 1);
}

fn a_range_that_ends_before_it_begins_deletes_nothing(engine: EngineKind) {
    let (database, table) = numbers(engine, 3);
    let backwards = 2_u32.to_be_bytes()..0_u32.to_be_bytes();
    assert_eq!(database.transact(|txn| txn.delete_range(&table, backwards.clone())).unwrap(), 0);
    assert_eq!(keys(&database, &table), [0, 1, 2]);
}

fn a_key_put_between_two_deletes_of_ranges_stays(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    words(&database, &table, &["b1"]);
    let deletes = database.transact(|txn| {
        let first = txn.delete_range(&table, "a".."c")?;
        txn.put(&table, "b2", "later")?;
        Ok((first, txn.delete_range(&table, "a".."b")?))
    });
    assert_eq!(deletes.unwrap(), (1, 0));
    assert_eq!(contents(&database, &table), [(b"b2".to_vec(), b"later".to_vec())].into());
}

fn a_view_keeps_what_a_deleted_range_had(engine: EngineKind) {
    let (database, table) = numbers(engine, 300);
    let view = database.begin_read_only().unwrap();
    let middle = 50_u32.to_be_bytes()..250_u32.to_be_bytes();
    assert_eq!(database.transact(|txn| txn.delete_range(&table, middle.clone())).unwrap(), 200);
    database.put(&table, 100_u32.to_be_bytes(), "new").unwrap();
    assert_eq!(view.count(&table, ..).unwrap(), 300);
    assert_eq!(view.get(&table, 100_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"100"[..]));
    assert_eq!(database.begin_read_only().unwrap().count(&table, middle).unwrap(), 1);
}

fn a_view_of_a_cleared_table_keeps_its_rows(engine: EngineKind) {
    let (database, table) = numbers(engine, 500);
    let view = database.begin_read_only().unwrap();
    let mut range = view.range(&table, ..);
    assert_eq!(number(&range.next().unwrap().unwrap().0), 0);
    assert_eq!(database.transact(|txn| txn.clear(&table)).unwrap(), 500);
    assert_eq!(range.count(), 499, "what is left of the range");
    assert!(database.begin_read_only().unwrap().is_empty(&table).unwrap());
}

fn a_view_is_not_changed_by_a_value_of_the_same_length(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "k", "one").unwrap();
    let view = database.begin_read_only().unwrap();
    for value in ["two", "six", "ten"] {
        database.put(&table, "k", value).unwrap();
        assert_eq!(view.get(&table, "k").unwrap().as_deref(), Some(&b"one"[..]));
    }
}

fn two_views_of_two_moments_differ(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let views: Vec<_> = (0..20_u8)
        .map(|moment| {
            database.put(&table, "moment", [moment]).unwrap();
            database.put(&table, [moment], "").unwrap();
            database.begin_read_only().unwrap()
        })
        .collect();
    // The youngest view ends first: what older views need must outlive it.
    for (moment, view) in views.into_iter().enumerate().rev() {
        assert_eq!(view.get(&table, "moment").unwrap(), Some(vec![moment as u8]));
        assert_eq!(view.count(&table, ..).unwrap(), moment as u64 + 2);
    }
}

fn a_cursor_turns_round_behind_a_seek(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    words(&database, &table, &["0", "1", "2", "a", "c"]);
    let txn = database.begin().unwrap();
    let mut cursor = txn.cursor(&table, ..);
    let at = |entry: Option<(&[u8], &[u8])>| entry.map(|(key, _)| String::from_utf8_lossy(key).into_owned());
    assert_eq!(at(cursor.seek("b").unwrap()).as_deref(), Some("c"));
    assert_eq!(at(cursor.prev().unwrap()).as_deref(), Some("a"));
    assert_eq!(at(cursor.seek_back("1x").unwrap()).as_deref(), Some("1"));
    assert_eq!(at(cursor.next().unwrap()).as_deref(), Some("2"));
    // A key that is inserted between the cursor and its neighbour is found, in both directions.
    txn.put(&table, "1y", "").unwrap();
    assert_eq!(at(cursor.prev().unwrap()).as_deref(), Some("1y"));
    assert_eq!(at(cursor.seek("z").unwrap()), None);
    assert_eq!(at(cursor.prev().unwrap()).as_deref(), Some("c"));
}

fn a_cursor_of_an_empty_table_finds_nothing(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let txn = database.begin().unwrap();
    let mut cursor = txn.cursor(&table, ..);
    assert_eq!(cursor.first().unwrap(), None);
    assert_eq!(cursor.last().unwrap(), None);
    assert_eq!(cursor.seek("k").unwrap(), None);
    assert_eq!(cursor.seek_back("k").unwrap(), None);
    assert!(!cursor.delete().unwrap());
    txn.put(&table, "k", "v").unwrap();
    assert_eq!(cursor.first().unwrap(), Some((&b"k"[..], &b"v"[..])));
}

fn cursors_of_one_transaction_stand_apart(engine: EngineKind) {
    let (database, table) = numbers(engine, 10);
    let txn = database.begin().unwrap();
    let (mut one, mut other) = (txn.cursor(&table, ..), txn.cursor(&table, ..));
    for expected in 0..10 {
        assert_eq!(one.next().unwrap().map(|(key, _)| number(key)), Some(expected));
        let from_behind = if expected == 0 { other.last() } else { other.prev() };
        assert_eq!(from_behind.unwrap().map(|(key, _)| number(key)), Some(9 - expected));
    }
}

fn several_keys_are_read_at_one_moment(engine: EngineKind) {
    let (database, table) = numbers(engine, 5);
    let view = database.begin_read_only().unwrap();
    database.transact(|txn| txn.clear(&table)).unwrap();
    let asked = [4, 9, 0_u32].map(u32::to_be_bytes);
    let found = view.multi_get(&table, asked).unwrap();
    assert_eq!(found, [Some(b"4".to_vec()), None, Some(b"0".to_vec())], "in the order asked for");
}

fn prefixes_find_their_keys_and_no_others(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    words(&database, &table, &["", "a", "ab", "abc", "abcd", "ac", "b"]);
    let view = database.begin_read_only().unwrap();
    let found: Vec<_> = view.prefix(&table, "abc").rev().map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, [b"abcd".to_vec(), b"abc".to_vec()]);
    assert_eq!(view.count(&table, Prefix("ab")).unwrap(), 3);
    assert_eq!(view.count(&table, Prefix("")).unwrap(), 7);
    assert_eq!(view.count(&table, Prefix("abd")).unwrap(), 0);
}

fn a_table_is_removed_and_made_again_empty(engine: EngineKind) {
    let (database, table) = numbers(engine, 100);
    assert!(database.drop_table("numbers").unwrap());
    let again = database.table("numbers").unwrap();
    assert!(database.begin_read_only().unwrap().is_empty(&again).unwrap());
    assert!(matches!(database.get(&table, "k"), Err(Error::TableDropped { .. })));
}

fn a_renamed_table_takes_uncommitted_rows_along(engine: EngineKind) {
    let (database, table) = numbers(engine, 3);
    let txn = database.begin().unwrap();
    txn.delete(&table, 1_u32.to_be_bytes()).unwrap();
    assert!(database.rename_table("numbers", "renamed").unwrap());
    txn.commit().unwrap();
    let renamed = database.open_table("renamed").unwrap().expect("it is called so");
    assert_eq!(keys(&database, &renamed), [0, 2]);
}

fn a_feed_stops_at_the_last_commit_and_goes_on(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    let mut feed = database.changes(&ChangesFrom::Now).unwrap();
    for key in ["one", "two"] {
        assert_eq!(feed.try_next().unwrap(), None);
        database.put(&table, key, "v").unwrap();
        let given = feed.try_next().unwrap().expect("it is durable");
        assert!(matches!(&given.changes[..], [Change::Row { key: given, .. }] if given == key.as_bytes()));
    }
}

fn a_feed_goes_on_after_an_opening(engine: EngineKind) {
    let directory = std::sync::Arc::new(katydid::MemoryDirectory::new());
    let database = Database::open_in(directory.clone(), options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    drop(database.consumer("reader", 1 << 20, &ChangesFrom::Now).unwrap());
    database.put(&table, "one", "v").unwrap();
    let second = database.begin().unwrap();
    second.put(&table, "two", "v").unwrap();
    let second = second.commit().unwrap();
    database.close().unwrap();
    drop((table, database));
    let database = Database::open_in(directory, options_for(engine)).unwrap();
    let mut feed = database.consumer("reader", 1 << 20, &ChangesFrom::Now).unwrap();
    let given = [feed.next().unwrap(), feed.next().unwrap()];
    assert!(given[0].stamp < given[1].stamp);
    assert_eq!(given[1].stamp, second);
}

fn a_transaction_of_several_tables_is_one_of_the_feed(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let tables = ["one", "other"].map(|name| database.table(name).unwrap());
    let mut feed = database.changes(&ChangesFrom::Now).unwrap();
    database
        .transact(|txn| {
            txn.put(&tables[0], "k", "v")?;
            txn.put(&tables[1], "k", "w")?;
            txn.put(&tables[0], "l", "v")?;
            txn.delete(&tables[1], "k").map(drop)
        })
        .unwrap();
    let given = feed.next().unwrap();
    let mut names: Vec<_> = given
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Row { name, key, .. } => Some((name.clone()?, key[0])),
            _ => None,
        })
        .collect();
    names.dedup();
    assert!(names.contains(&("one".into(), b'k')) && names.contains(&("one".into(), b'l')), "{names:?}");
    assert_eq!(feed.try_next().unwrap(), None, "all of it at once");
}

fn a_copy_stays_as_it_was_made(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open_with(folder.path().join("db"), options_for(engine)).unwrap();
    let tables = ["one", "two", "three"].map(|name| database.table(name).unwrap());
    let put_all = |value: &str| {
        database.transact(|txn| tables.iter().try_for_each(|table| txn.put(table, "k", value))).unwrap();
    };
    put_all("before");
    database.backup(folder.path().join("copy")).unwrap();
    put_all("after");
    // The copy is opened while the first database is open, and once more after the first is closed.
    for round in 0..2 {
        let copy = Database::open_with(folder.path().join("copy"), options_for(engine)).unwrap();
        for table in &tables {
            let copied = copy.open_table(table.name()).unwrap().expect("all tables");
            assert_eq!(copy.get(&copied, "k").unwrap().as_deref(), Some(&b"before"[..]));
        }
        copy.close().unwrap();
        if round == 0 {
            database.close().unwrap();
        }
    }
}

fn many_threads_insert_and_remove(engine: EngineKind) {
    let database = Database::in_memory_with(options_for(engine)).unwrap();
    let table = database.table("t").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                let own = (0..200).map(|nth| (nth * 4 + thread).to_be_bytes());
                own.clone().for_each(|key| database.put(table, key, "v").unwrap());
                own.step_by(2).for_each(|key| assert!(database.delete(table, key).unwrap()));
            });
        }
    });
    let left = keys(&database, &table);
    assert_eq!(left.len(), 400);
    assert!(left.iter().all(|number| number / 4 % 2 == 1), "{left:?}");
}

/// The list is of no use if it names tests that do not exist.
#[test]
fn the_list_names_fifty_subjects_and_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = std::fs::read_to_string(root.join("../../docs/other-suites.md")).unwrap();
    let rows: Vec<Vec<&str>> = list
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 50, "{} rows", rows.len());
    for row in rows {
        let ours = row[3].trim_matches('`');
        let (file, test) = ours.split_once("::").unwrap_or_else(|| panic!("no test in {row:?}"));
        let source = std::fs::read_to_string(root.join("tests").join(file))
            .unwrap_or_else(|error| panic!("{file} of {row:?}: {error}"));
        assert!(source.contains(&format!("fn {test}(")), "there is no {test} in {file}");
    }
}
