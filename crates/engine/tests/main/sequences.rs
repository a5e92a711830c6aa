//! Sequences: no number is returned twice, whatever happens between two calls.

use crate::common::{self, options_for};
use katydid::{Database, Durability, EngineKind, Error, Options, Sequence};
use katydid_device::SimDevice;
use std::num::NonZeroU64;

suite! {
    numbers_differ_over_handles_and_threads,
    numbers_differ_before_and_after_a_crash,
    a_transaction_that_rolls_back_returns_no_number,
    what_is_no_sequence_is_refused_and_left_alone,
}

suite! {
    in_nvram:
    numbers_differ_before_and_after_a_crash,
}

fn sequence(database: &Database, at_once: u64) -> Sequence {
    let table = database.table("numbers").unwrap();
    database.sequence(&table, "orders", NonZeroU64::new(at_once).unwrap()).unwrap()
}

fn in_memory(engine: EngineKind) -> Database {
    Database::open_in(SimDevice::new(common::fresh_seed()).directory(), options_for(engine)).unwrap()
}

fn numbers_differ_over_handles_and_threads(engine: EngineKind) {
    let database = in_memory(engine);
    let (one, other) = (sequence(&database, 3), sequence(&database, 7));
    let take = |of: &Sequence| (0..50).map(|_| of.next().unwrap()).collect::<Vec<u64>>();
    let mut all = std::thread::scope(|scope| {
        let threads = [&one, &one, &other, &other].map(|of| scope.spawn(move || take(of)));
        threads.map(|thread| thread.join().unwrap())
    })
    .concat();
    for of in [&one, &other] {
        let more = take(of);
        assert!(more.is_sorted(), "{more:?}");
        all.extend(more);
    }
    all.sort_unstable();
    let given = all.len();
    all.dedup();
    assert_eq!(all.len(), given, "a number was given out twice");
    assert!(all[0] == 1 && all[given - 1] < 320, "few are lost: {all:?}");
}

/// The database's commits may be lost here, but a commit of a sequence may not.
fn numbers_differ_before_and_after_a_crash(engine: EngineKind) {
    let mut random = common::Rng::with_seed(common::seed(common::fresh_seed()));
    let mut device = SimDevice::new(random.u64(..));
    let options = Options { durability: Durability::Buffered, ..options_for(engine) };
    let mut last = 0;
    for _ in 0..4 {
        let database = Database::open_in(device.directory(), options.clone()).unwrap();
        let ids = sequence(&database, 10);
        for _ in 0..25 {
            let number = ids.next().unwrap();
            assert!(number > last && number <= last + 11, "{number} after {last}");
            last = number;
        }
        device.freeze();
        drop((ids, database));
        device = device.reopen_after_crash(random.u64(..));
    }
}

fn a_transaction_that_rolls_back_returns_no_number(engine: EngineKind) {
    let database = in_memory(engine);
    let (ids, table) = (sequence(&database, 1), database.table("t").unwrap());
    let refused = database.try_transact(|txn| {
        txn.put(&table, ids.next()?.to_be_bytes(), "lost")?;
        Err::<(), _>(Error::ReadOnly)
    });
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    database.transact(|txn| txn.put(&table, ids.next()?.to_be_bytes(), "kept")).unwrap();
    assert_eq!(database.get(&table, 2u64.to_be_bytes()).unwrap(), Some(b"kept".to_vec()));
    assert!(!database.contains(&table, 1u64.to_be_bytes()).unwrap());
}

fn what_is_no_sequence_is_refused_and_left_alone(engine: EngineKind) {
    let database = in_memory(engine);
    let table = database.table("numbers").unwrap();
    let ids = sequence(&database, 5);
    database.put(&table, "orders", "text").unwrap();
    let error = ids.next().unwrap_err();
    assert!(matches!(&error, Error::Sequence { table, .. } if table == "numbers"), "{error}");
    assert_eq!(database.get(&table, "orders").unwrap(), Some(b"text".to_vec()));
    database.put(&table, "orders", (u64::MAX - 2).to_be_bytes()).unwrap();
    assert_eq!((ids.next().unwrap(), ids.next().unwrap()), (u64::MAX - 2, u64::MAX - 1));
    let error = ids.next().unwrap_err();
    assert!(matches!(error, Error::Sequence { .. }), "{error}");
    assert!(database.sequence(&table, [7; 2000], NonZeroU64::MIN).is_err());
    let foreign = in_memory(engine).table("numbers").unwrap();
    let error = database.sequence(&foreign, "orders", NonZeroU64::MIN).unwrap_err();
    assert!(matches!(error, Error::ForeignTable { .. }), "{error}");
}
