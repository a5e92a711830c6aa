//! Paged engine: scenes that a log without order between sessions could break. Each scene is
//! repeated with crashes that cut the write of the log at many places. The scene of a replaced key
//! needs positions of records, so it is a unit test (`src/paged/order_tests.rs`).
//!
//! In each scene client A's session has an open chunk low in the log, and client B's chunk is above
//! it. So a record that A appends without naming its dependencies lies below records that B has
//! appended earlier. A scene ends with an un-synced log, of which a crash leaves a prefix.

use crate::common::Rng;
use crate::machine::Machine;
use crate::worker::Worker;
use katydid::testing::Background;
use katydid::{Database, Durability, EngineKind, InserterKind, Transaction, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};

/// A seed with early release, direct writes and chunks of 2 KiB.
const SEED: u64 = 1;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct Stage {
    database: Database,
    a: Worker,
    b: Worker,
}

impl Stage {
    fn run<T: Send + 'static>(&self, on: &Worker, job: impl FnOnce(&Database) -> T + Send + 'static) -> T {
        let database = self.database.clone();
        on.run(move || job(&database))
    }

    fn begin(&self) -> Transaction {
        let options = TransactionOptions { durability: Durability::Durable, ..Default::default() };
        self.database.begin_with(options).expect("begin")
    }

    fn put(
        &self,
        on: &Worker,
        txn: Transaction,
        table: &str,
        key: &'static str,
        value: Vec<u8>,
    ) -> Transaction {
        let table = self.database.open_table(table).expect("open table").expect("the table");
        on.run(move || {
            txn.put(&table, key, value).expect("put");
            txn
        })
    }

    fn delete(&self, on: &Worker, txn: Transaction, table: &str, key: &'static str) -> Transaction {
        let table = self.database.open_table(table).expect("open table").expect("the table");
        on.run(move || {
            txn.delete(&table, key).expect("delete");
            txn
        })
    }

    /// Commits without waiting: the next transaction finds the locks released and the commit not
    /// durable.
    fn commit(&self, on: &Worker, txn: Transaction) {
        on.run(move || drop(txn.commit_async()));
    }

    /// Puts a row on A's thread, which opens A's chunk below all later records. Returns the open
    /// transaction.
    fn open_low(&self) -> Transaction {
        self.put(&self.a, self.begin(), "a", "low", b"x".to_vec())
    }
}

/// Makes tables with some durable rows, and runs the scene, which returns transactions that stay
/// open. Then runs `last`; the device crashes when `last` writes the log. Checks what is left, for
/// many places at which the write is cut.
fn each_cut(
    scene: impl Fn(&Stage) -> Vec<Transaction>,
    last: impl Fn(&Stage),
    check: impl Fn(&dyn Fn(&str) -> Option<Rows>),
) {
    let mut seen = BTreeSet::new();
    for cut in 0..80 {
        let machine =
            Machine::new(EngineKind::Paged, SEED, Background::Caller).with_inserter(InserterKind::Chunked);
        let database = machine.open(SEED).expect("open");
        for name in ["a", "b", "shared", "brief"] {
            let table = database.table(name).expect("table");
            for key in ["k", "k2"] {
                database.put(&table, key, "old").expect("put");
            }
        }
        let stage = Stage { database, a: Worker::start(), b: Worker::start() };
        let open = scene(&stage);
        machine.device.crash_at(machine.device.steps());
        last(&stage);
        assert!(machine.device.is_crashed());
        drop((open, stage));
        let machine = machine.restart_cut(&mut Rng::with_seed(cut));
        let database =
            machine.open(SEED).unwrap_or_else(|error| panic!("cut {cut}: recovery failed: {error}"));
        let found = crate::everything(&database);
        println!("cut {cut}");
        check(&|table| found.get(table).cloned());
        crate::common::assert_sound(&database.verify(None).expect("verify"));
        seen.insert(format!("{found:?}"));
    }
    assert!(seen.len() > 1, "the cuts made no difference");
}

fn sync(stage: &Stage) {
    assert!(stage.database.sync().is_err());
}

fn value(rows: Option<&Rows>, key: &str) -> Option<Vec<u8>> {
    rows.and_then(|rows| rows.get(key.as_bytes()).cloned())
}

#[test]
fn a_commit_lies_above_the_commit_it_has_read_from() {
    each_cut(
        |stage| {
            let reader = stage.open_low();
            let writer = stage.put(&stage.b, stage.begin(), "shared", "k", b"new".to_vec());
            stage.commit(&stage.b, writer);
            let shared = stage.database.open_table("shared").expect("open table").expect("the table");
            let reader = stage.a.run(move || {
                let reader = reader;
                assert_eq!(reader.get(&shared, "k").expect("get").as_deref(), Some(&b"new"[..]));
                reader
            });
            stage.commit(&stage.a, reader);
            Vec::new()
        },
        sync,
        |rows| {
            let reader = value(rows("a").as_ref(), "low").is_some();
            let writer = value(rows("shared").as_ref(), "k").expect("the key") == b"new";
            assert!(writer || !reader, "the reader is there, what it has read is not");
        },
    );
}

#[test]
fn a_table_is_dropped_above_the_commits_of_its_users() {
    each_cut(
        |stage| {
            let low = stage.open_low();
            let user = stage.put(&stage.b, stage.begin(), "b", "k", b"new".to_vec());
            let user = stage.put(&stage.b, user, "brief", "k", b"new".to_vec());
            stage.commit(&stage.b, user);
            vec![low]
        },
        |stage| assert!(stage.run(&stage.a, |database| database.drop_table("brief")).is_err()),
        |rows| {
            let user = value(rows("b").as_ref(), "k").expect("the key") == b"new";
            assert!(user || rows("brief").is_some(), "the table is dropped, its user is lost");
        },
    );
}

#[test]
fn pages_given_back_and_given_out_again_are_in_order() {
    each_cut(
        |stage| {
            let low = stage.open_low();
            let long = stage.put(&stage.b, stage.begin(), "shared", "k", vec![1; 9000]);
            stage.commit(&stage.b, long);
            // A frees the pages that B has filled, and fills them again.
            let freed = stage.delete(&stage.a, low, "shared", "k");
            stage.commit(&stage.a, freed);
            let other = stage.put(&stage.a, stage.begin(), "a", "k", vec![2; 9000]);
            stage.commit(&stage.a, other);
            Vec::new()
        },
        sync,
        |rows| {
            let shared = value(rows("shared").as_ref(), "k");
            let low = value(rows("a").as_ref(), "low").is_some();
            let again = value(rows("a").as_ref(), "k").expect("the key");
            assert!(shared.is_none() == low, "the transaction that deleted is there whole or not at all");
            assert!(shared.is_none_or(|value| value == b"old" || value == [1; 9000]));
            assert!(again == b"old" || (low && again == [2; 9000]));
        },
    );
}

#[test]
fn keys_of_a_transaction_that_rolled_back_are_replaced_above_its_compensations() {
    each_cut(
        |stage| {
            let low = stage.open_low();
            let mut undone = stage.put(&stage.b, stage.begin(), "shared", "k", b"never".to_vec());
            undone = stage.put(&stage.b, undone, "b", "k", vec![7; 1000]);
            undone = stage.put(&stage.b, undone, "b", "k2", vec![7; 1000]);
            stage.b.run(move || undone.rollback().expect("rollback"));
            let low = stage.put(&stage.a, low, "b", "k2", b"new".to_vec());
            stage.commit(&stage.a, low);
            Vec::new()
        },
        sync,
        |rows| {
            let low = value(rows("a").as_ref(), "low").is_some();
            let expected: &[u8] = if low { b"new" } else { b"old" };
            assert_eq!(value(rows("b").as_ref(), "k2").as_deref(), Some(expected));
            assert_eq!(value(rows("b").as_ref(), "k").as_deref(), Some(&b"old"[..]));
            assert_eq!(value(rows("shared").as_ref(), "k").as_deref(), Some(&b"old"[..]));
        },
    );
}
