//! Cost of the store's operations without a log. The test prints figures, and asserts only that the
//! operations succeed.
//!
//! `cargo test --release -p katydid --lib memory::store::tests::figures -- --nocapture
//! --test-threads=1`. The test is small unless `KATYDID_FIGURES` is set.

use super::super::{Settings, Source, Store, Table};
use super::{FakeLog, LONG};
use crate::error::Error;
use crate::ids::TableId;
use crate::options::Access;
use fastrand::Rng;
use katydid_wal::{Lsn, StreamId, StreamLsn};
use std::sync::Arc;
use std::time::Instant;

fn key(number: u64) -> [u8; 20] {
    let mut key = *b"user0000000000000000";
    let mut rest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

struct Rig {
    store: Arc<Store>,
    table: Arc<Table>,
    keys: u64,
    calls: u64,
}

impl Rig {
    fn measure(&self, what: &str, one: impl Fn(&Rig, &mut Rng) + Sync) {
        for threads in [1, 2] {
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let one = &one;
                    scope.spawn(move || {
                        let mut random = Rng::with_seed(thread + 1);
                        (0..self.calls).for_each(|_| one(self, &mut random));
                    });
                }
            });
            let each = begun.elapsed().as_nanos() as f64 / self.calls as f64;
            println!(
                "{what}, {threads} threads: {each:.0} ns each, {:.2} million/s",
                1e3 * threads as f64 / each
            );
        }
    }

    fn commit(&self, running: super::ActiveTxn) -> Result<(), Error> {
        let validated = running.validate()?;
        let seen_to = validated.seen_to();
        validated.pre_committed(StreamLsn { stream: StreamId::new(0), end: Lsn::new(1) });
        self.store.acknowledge(seen_to);
        Ok(())
    }

    fn transact(&self, access: Access, body: impl Fn(&mut super::ActiveTxn) -> Result<(), Error>) {
        loop {
            let mut running = self.store.begin(access, LONG).expect("begin");
            match body(&mut running).and_then(|()| self.commit(running)) {
                Ok(()) => return,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    }
}

#[test]
fn figures() {
    let is_large = std::env::var_os("KATYDID_FIGURES").is_some();
    let (keys, calls) = if is_large { (1_000_000, 1_000_000) } else { (2000, 2000) };
    let settings = Settings::new(8 << 30, 4095, Source::monotonic());
    let store = Store::new(settings, Arc::new(FakeLog::default()));
    let table = store.table(TableId::new(1));
    let begun = Instant::now();
    for number in 0..keys {
        let mut running = store.begin(Access::ReadWrite, LONG).expect("begin");
        running.insert(&table, &key(number), &[7; 100]).expect("insert");
        running.validate().expect("alone").committed();
    }
    println!("insert + commit: {} ns each", begun.elapsed().as_nanos() as u64 / keys);
    println!("{} bytes for each row", store.used() / keys);
    let rig = Rig { store, table, keys, calls };
    rig.measure("index lookup", |rig, random| {
        let found = rig.table.index.get(&key(random.u64(0..rig.keys)));
        assert!(found.is_some());
    });
    rig.measure("begin + commit, empty", |rig, _| rig.transact(Access::ReadWrite, |_| Ok(())));
    rig.measure("begin + get + commit, read only", |rig, random| {
        let number = random.u64(0..rig.keys);
        rig.transact(Access::ReadOnly, |running| running.get(&rig.table, &key(number)).map(drop));
    });
    rig.measure("begin + get + commit", |rig, random| {
        let number = random.u64(0..rig.keys);
        rig.transact(Access::ReadWrite, |running| running.get(&rig.table, &key(number)).map(drop));
    });
    rig.measure("begin + put + commit", |rig, random| {
        let number = random.u64(0..rig.keys);
        rig.transact(Access::ReadWrite, |running| running.put(&rig.table, &key(number), &[8; 100]));
    });
    rig.measure("begin + 10 gets + commit", |rig, random| {
        let first = random.u64(0..rig.keys);
        rig.transact(Access::ReadWrite, |running| {
            (0..10)
                .try_for_each(|nth| running.get(&rig.table, &key((first + nth * 7919) % rig.keys)).map(drop))
        });
    });
    rig.measure("begin + get + put + commit, 100 hot keys", |rig, random| {
        let number = random.u64(0..100);
        rig.transact(Access::ReadWrite, |running| {
            running.get(&rig.table, &key(number))?;
            running.put(&rig.table, &key(number), &[8; 100])
        });
    });
    println!("{} bytes for each row, {} uncollected", rig.store.used() / keys, rig.store.uncollected());
}
