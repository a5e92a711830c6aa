//! The rules of the papers on Cicada, chosen by the options of a database.

use crate::{BUFFERED, MIB, common, options};
use katydid::{AdvancedOptions, ConflictKind, Contention, Database, Error, OldVersions, Table};
use katydid_device::SimDevice;
use katydid_wal::Background;

/// Opens a database of one thread, whose log is written when that thread asks for it.
fn open(change: impl FnOnce(&mut AdvancedOptions)) -> (Database, Table) {
    let options = common::with_advanced(options(16 * MIB), |advanced| {
        advanced.log.background = Background::Caller;
        change(advanced);
    });
    let database = Database::open_in(SimDevice::new(1).directory(), options).unwrap();
    let table = database.table("t").unwrap();
    database.put(&table, "a", "0").unwrap();
    (database, table)
}

fn pauses(database: &Database) -> u64 {
    database.stat().unwrap().memory().unwrap().pauses
}

fn is_conflict(outcome: katydid::Result<()>) -> bool {
    matches!(outcome, Err(Error::Conflict { kind: ConflictKind::Changed, .. }))
}

#[test]
fn a_conflict_that_a_call_has_met_is_paused_for_where_that_is_asked_for() {
    for (contention, early) in [(Contention::AtValidation, 0), (Contention::Early, 1)] {
        let (database, table) = open(|advanced| advanced.contention = contention);
        // A call reports the conflict. The commit, which rolls back, reports it again, but only one
        // conflict is counted.
        let txn = database.begin().unwrap();
        txn.get(&table, "a").unwrap();
        database.put(&table, "a", "1").unwrap();
        assert!(is_conflict(txn.put(&table, "a", "2")));
        assert_eq!(pauses(&database), 0, "not before it is rolled back");
        assert!(matches!(txn.commit(), Err(Error::MustRollBack { .. })));
        assert_eq!(pauses(&database), early, "{contention}");
        // A transaction that fails in its validation pauses in any case.
        let first = database.begin().unwrap();
        let second = database.begin().unwrap();
        second.get(&table, "a").unwrap();
        second.put(&table, "b", "1").unwrap();
        first.put(&table, "a", "3").unwrap();
        first.commit().unwrap();
        assert!(is_conflict(second.commit().map(drop)));
        assert_eq!(pauses(&database), early + 1, "{contention}");
        // Without a conflict there is no pause.
        drop(database.begin().unwrap());
        assert_eq!(pauses(&database), early + 1, "{contention}");
    }
}

#[test]
fn a_transaction_run_again_after_its_pause_commits() {
    let (database, table) = open(|advanced| advanced.contention = Contention::Early);
    let mut runs = 0;
    database
        .transact(|txn| {
            runs += 1;
            let found = txn.get(&table, "a")?;
            if runs <= 20 {
                // This second transaction has the effect of a transaction of another thread.
                let other = database.begin()?;
                other.put(&table, "a", format!("{runs}"))?;
                other.commit()?;
            }
            txn.put(&table, "a", [found.unwrap_or_default(), b"!".to_vec()].concat())
        })
        .unwrap();
    assert_eq!(database.get(&table, "a").unwrap(), Some(b"20!".to_vec()));
    assert_eq!(pauses(&database), 20);
}

#[test]
fn old_versions_wait_for_the_log_where_that_is_asked_for() {
    for (old_versions, waits) in [(OldVersions::UntilUnread, false), (OldVersions::UntilDurable, true)] {
        let (database, table) = open(|advanced| advanced.old_versions = old_versions);
        database.sync().unwrap();
        for number in 0..50 {
            let txn = database.begin_with(BUFFERED).unwrap();
            txn.put(&table, "a", format!("{number}")).unwrap();
            txn.commit().unwrap();
        }
        let old = || database.stat().unwrap().memory().unwrap().versions_old;
        assert_eq!(old() > 0, waits, "{old_versions}: {}", old());
        database.sync().unwrap();
        assert_eq!(old(), 0, "{old_versions}");
        assert_eq!(database.get(&table, "a").unwrap(), Some(b"49".to_vec()));
    }
}
