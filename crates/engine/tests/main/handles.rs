//! Every call refuses a handle of another database, of another opening of the same directory, or of
//! an opening of a copy of that directory. The call returns a typed error and changes nothing.
//!
//! Each test goes through all relations between the two openings. The methods are listed in
//! `common/uses.rs`.

use crate::common::uses::each_use_of_a_table;
use crate::common::{self, options_for};
use katydid::{Database, EngineKind, Error, Savepoint, Session, Table, Transaction};
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex};

suite! {
    a_table_of_another_opening_is_refused_by_every_method,
    a_session_of_another_opening_is_refused_and_the_commit_rolled_back,
    a_savepoint_of_another_opening_is_refused,
}

/// Handles of one opening, which the tests pass to another opening.
struct Strangers {
    here: Database,
    /// The opening that made the handles; in one relation it is closed.
    there: Database,
    own: Table,
    table: Table,
    session: Session,
    /// A transaction of `there`, and a savepoint in the transaction.
    transaction: RefCell<Option<Transaction>>,
    savepoint: Savepoint,
    _folders: [tempfile::TempDir; 2],
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

const RELATIONS: [&str; 4] =
    ["another database", "a database of the other engine", "an earlier opening", "a copy of the directory"];

fn strangers(engine: EngineKind, relation: &'static str) -> Strangers {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let open =
        |folder: usize, engine| Database::open_with(folders[folder].path(), options_for(engine)).unwrap();
    let filled = |database: &Database| {
        let table = database.table("t").unwrap();
        database.put(&table, "k", "0").unwrap();
        table
    };
    let other_engine = match engine {
        EngineKind::Paged => EngineKind::Memory,
        _ => EngineKind::Paged,
    };
    let first = open(0, engine);
    let of_first = filled(&first);
    let there = match relation {
        "another database" => open(1, engine),
        "a database of the other engine" => open(1, other_engine),
        "an earlier opening" => first.clone(),
        _ => {
            first.close().unwrap();
            copy(folders[0].path(), folders[1].path());
            open(1, engine)
        }
    };
    let table = filled(&there);
    let session = there.session();
    let transaction = there.begin().unwrap();
    let savepoint = transaction.savepoint();
    let (here, own) = if relation == RELATIONS[0] || relation == RELATIONS[1] {
        (first, of_first)
    } else {
        first.close().unwrap();
        let here = open(0, engine);
        let own = here.open_table("t").unwrap().unwrap();
        (here, own)
    };
    let transaction = RefCell::new(Some(transaction));
    Strangers { here, there, own, table, session, transaction, savepoint, _folders: folders }
}

fn text(value: Option<Vec<u8>>) -> String {
    value.map_or("nothing".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())
}

fn a_table_of_another_opening_is_refused_by_every_method(engine: EngineKind) {
    for relation in RELATIONS {
        let Strangers { here, own, table, there, .. } = &strangers(engine, relation);
        let txn = here.begin().unwrap();
        txn.put(own, "mine", "1").unwrap();
        for (method, attempt) in each_use_of_a_table() {
            match attempt(here, &txn, table) {
                Err(Error::ForeignTable { name }) => assert_eq!(name, "t"),
                other => panic!("{method} with a table of {relation}: {other:?}"),
            }
        }
        // The transaction goes on, and has only its own changes.
        txn.commit().unwrap();
        let rows = |database: &Database, table| {
            common::contents(database, table).into_keys().map(|key| text(Some(key))).collect::<Vec<_>>()
        };
        assert_eq!(rows(here, own), ["k", "mine"], "{relation}");
        assert_eq!(text(here.get(own, "k").unwrap()), "0", "{relation}");
        if let Ok(table) = there.table("t") {
            assert_eq!(rows(there, &table), ["k"], "{relation}");
        }
        common::assert_sound(&here.verify(None).unwrap());
    }
}

fn a_session_of_another_opening_is_refused_and_the_commit_rolled_back(engine: EngineKind) {
    for relation in RELATIONS {
        let Strangers { here, own, session, .. } = &strangers(engine, relation);
        let txn = here.begin().unwrap();
        txn.put(own, "k", "lost").unwrap();
        let seen: Arc<Mutex<Vec<_>>> = Arc::default();
        let sink = seen.clone();
        txn.commit_with(session, move |outcome| sink.lock().unwrap().push(outcome));
        assert!(seen.lock().unwrap().is_empty(), "a callback runs when the session is polled, not before");
        assert_eq!(session.pending(), 1, "{relation}");
        // The transaction's locks are released already.
        here.put(own, "k", "1").unwrap();
        assert_eq!(session.poll(), 1, "{relation}");
        assert_eq!(session.pending(), 0, "{relation}");
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert!(matches!(seen[..], [Err(Error::ForeignSession)]), "{relation}: {seen:?}");
        assert_eq!(text(here.get(own, "k").unwrap()), "1", "{relation}");
    }
}

fn a_savepoint_of_another_opening_is_refused(engine: EngineKind) {
    for relation in RELATIONS {
        let strangers = strangers(engine, relation);
        let Strangers { here, there, own, .. } = &strangers;
        let mut theirs = strangers.transaction.take().unwrap();
        let mut of_theirs = strangers.savepoint;
        let mut txn = here.begin().unwrap();
        // The loop begins transactions until a transaction of each opening has the same number as
        // one of the other, so that only the opening distinguishes their savepoints. In the memory
        // engine numbers are times, which are never equal.
        for _ in 0..1000 {
            match theirs.id().cmp(&txn.id()) {
                std::cmp::Ordering::Less => match there.begin() {
                    Ok(next) => {
                        theirs = next;
                        of_theirs = theirs.savepoint();
                    }
                    Err(Error::Closed) => break,
                    Err(error) => panic!("{error}"),
                },
                std::cmp::Ordering::Equal => break,
                std::cmp::Ordering::Greater => txn = here.begin().unwrap(),
            }
        }
        let of_txn = txn.savepoint();
        txn.put(own, "k", "1").unwrap();
        let outcome = txn.rollback_to(&of_theirs);
        assert!(matches!(outcome, Err(Error::Savepoint)), "{relation}: {outcome:?}");
        assert_eq!(text(txn.get(own, "k").unwrap()), "1", "{relation}: nothing was rolled back");
        txn.rollback_to(&of_txn).unwrap();
        assert_eq!(text(txn.get(own, "k").unwrap()), "0", "{relation}");
        txn.commit().unwrap();
    }
}
