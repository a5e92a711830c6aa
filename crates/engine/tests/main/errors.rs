//! Contents of errors: causes, the table and the key, and the transaction that was in the way.

use crate::common::{options_for, with_advanced};
use katydid::{
    ConflictKind, Contested, ContestedKeys, Database, EngineKind, Error, KeyExcerpt, Options, Table,
};
use std::ops::Bound;
use std::sync::{Arc, mpsc};
use std::time::Duration;

suite! {
    an_error_names_its_table_and_its_key,
    a_key_of_any_bytes_is_shown_short_and_escaped,
    the_cause_of_an_error_is_its_source,
}

fn in_memory(engine: EngineKind, lock_wait: Duration) -> (Database, Table) {
    let options =
        with_advanced(Options { lock_wait, ..options_for(engine) }, |advanced| advanced.retries = 0);
    let database = Database::in_memory_with(options).unwrap();
    let table = database.table("fruit").unwrap();
    (database, table)
}

fn an_error_names_its_table_and_its_key(engine: EngineKind) {
    let (database, table) = in_memory(engine, Duration::ZERO);
    database.put(&table, "apple", "red").unwrap();
    let Err(Error::KeyExists { table: name, key }) = database.insert(&table, "apple", "") else { panic!() };
    assert_eq!((&*name, key), ("fruit", KeyExcerpt::of(b"apple")));
    let long = database.put(&table, [b'k'; 1025], "").unwrap_err();
    assert!(long.to_string().contains(r#"in table "fruit""#), "{long}");
    let large = database.put(&table, "apple", vec![0; (16 << 20) + 1]).unwrap_err();
    assert!(large.to_string().contains(r#"key "apple" of table "fruit""#), "{large}");
    let ids = database.sequence(&table, "apple", 1.try_into().unwrap()).unwrap();
    let no_number = ids.next().unwrap_err();
    assert!(no_number.to_string().contains(r#"at key "apple" of table "fruit""#), "{no_number}");
}

fn a_key_of_any_bytes_is_shown_short_and_escaped(engine: EngineKind) {
    let (database, table) = in_memory(engine, Duration::ZERO);
    let key = [b"\x1b[2J\r\n".as_slice(), &[0xff; 500]].concat();
    database.put(&table, &key, "").unwrap();
    let shown = database.insert(&table, &key, "").unwrap_err().to_string();
    assert!(shown.is_ascii() && !shown.contains(char::is_control), "{shown:?}");
    assert!(shown.len() < 300 && shown.contains("(506 bytes)"), "{shown}");
}

fn the_cause_of_an_error_is_its_source(_: EngineKind) {
    use std::error::Error as _;
    let cause = || Arc::new(Error::ReadOnly);
    let txn = katydid::TxnId::new(7);
    for error in [
        Error::MustRollBack { cause: cause() },
        Error::Poisoned { cause: cause() },
        Error::Unended { txn, cause: cause() },
    ] {
        let source = error.source().expect("its cause");
        assert_eq!(source.to_string(), Error::ReadOnly.to_string());
    }
    let log = Error::Log(Arc::new(katydid::LogError::NoSpace));
    assert_eq!(log.source().expect("the log's").to_string(), katydid::LogError::NoSpace.to_string());
    let torn = katydid::LogOpenError::MissingControl { file: "control".into(), segment: "1".into() };
    let open = Error::LogOpen(Arc::new(torn.clone()));
    assert_eq!(open.source().expect("the log's").to_string(), torn.to_string());
}

/// Runs `hold` in a transaction of another thread. That transaction keeps its locks while `meet`
/// runs, which needs one of these locks.
fn while_held<T>(
    database: &Database,
    hold: impl FnOnce(&katydid::Transaction) + Send,
    meet: impl FnOnce(katydid::TxnId) -> T,
) -> T {
    std::thread::scope(|scope| {
        let (held, is_held) = mpsc::channel();
        let (met, is_met) = mpsc::channel::<()>();
        scope.spawn(move || {
            let txn = database.begin().unwrap();
            hold(&txn);
            held.send(txn.id()).unwrap();
            // The wait ends when the other thread has met the lock, or has failed.
            let _met = is_met.recv();
        });
        let outcome = meet(is_held.recv().unwrap());
        drop(met);
        outcome
    })
}

fn contested(error: Error, holder: katydid::TxnId) -> Contested {
    let Error::Conflict {
        holder: Some(found), kind: ConflictKind::Timeout, contested: Some(contested), ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*found, holder);
    assert!(contested.holder_open.is_some(), "{error}");
    let shown = format!("gave way to transaction {holder} (open for ");
    assert!(error.to_string().contains(&shown), "{error}");
    *contested.clone()
}

#[test]
fn a_conflict_says_who_holds_what() {
    let (database, table) = in_memory(EngineKind::Paged, Duration::ZERO);
    let name: Arc<str> = "fruit".into();
    let met = while_held(
        &database,
        |txn| txn.put(&table, "apple", "red").unwrap(),
        |holder| contested(database.get(&table, "apple").unwrap_err(), holder),
    );
    assert_eq!((met.table, met.keys), (name.clone(), ContestedKeys::Key(KeyExcerpt::of(b"apple"))));
    let met = while_held(
        &database,
        |txn| txn.put(&table, "apple", "red").unwrap(),
        |holder| {
            let txn = database.begin().unwrap();
            contested(txn.count(&table, "a".."c").unwrap_err(), holder)
        },
    );
    let ContestedKeys::Range(Bound::Included(low), _) = &met.keys else { panic!("{met}") };
    assert_eq!(low.start(), b"a");
    let met = while_held(
        &database,
        |txn| drop(txn.get(&table, "apple").unwrap()),
        |holder| contested(database.drop_table("fruit").unwrap_err(), holder),
    );
    assert_eq!((met.table, met.keys), (name, ContestedKeys::All));
}

#[test]
fn a_conflict_of_the_memory_engine_names_what_was_changed() {
    let (database, table) = in_memory(EngineKind::Memory, Duration::ZERO);
    database.put(&table, "apple", "red").unwrap();
    let txn = database.begin().unwrap();
    txn.get(&table, "apple").unwrap();
    database.put(&table, "apple", "yellow").unwrap();
    let error = txn.put(&table, "apple", "green").and_then(|()| txn.commit()).unwrap_err();
    let Error::Conflict { kind: ConflictKind::Changed, contested: Some(contested), .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(contested.to_string(), r#"key "apple" of table "fruit""#);
    assert_eq!(contested.holder_open, None, "it has ended");
}
