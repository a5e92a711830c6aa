//! Runs random transactions on many threads, and checks their locks against a separate record of
//! the holders.
//!
//! A run prints its seed when it fails; `KATYDID_SEED=<seed>` repeats its random choices, but not
//! the order of the threads.

use super::PointMode::{Exclusive, Shared, Update};
use super::*;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const KEYS: usize = 12;

/// The holders and their locks, recorded apart from the lock manager. A transaction adds a lock
/// after the grant and removes it before the release.
#[derive(Default)]
struct Claims {
    points: Vec<HashMap<TxnId, PointMode>>,
    ranges: HashMap<TxnId, Vec<RangeInclusive<usize>>>,
}

impl Claims {
    fn check(&self) {
        for (key, holders) in self.points.iter().enumerate() {
            for (a, mode) in holders {
                for (b, other) in holders {
                    assert!(a == b || mode.admits(*other), "{a} {mode:?} and {b} {other:?} on {key}");
                }
                let scanned =
                    self.ranges.iter().any(|(b, ranges)| b != a && ranges.iter().any(|r| r.contains(&key)));
                assert!(*mode != Exclusive || !scanned, "{a} writes {key} inside a range");
            }
        }
    }
}

struct World {
    rig: Rig,
    claims: Mutex<Claims>,
    /// For each key, the commit end of its last writer.
    committed: Vec<AtomicU64>,
    ids: AtomicU64,
    log: AtomicU64,
}

fn key(at: usize) -> String {
    format!("key{at:02}")
}

impl World {
    fn transaction(&self, random: &mut fastrand::Rng) {
        let mut txn = self.rig.txn(self.ids.fetch_add(1, SeqCst));
        let mut depends_on = Lsn::ZERO;
        let mut written = Vec::new();
        let mut cursor: Option<(usize, usize)> = None;
        self.rig.locks.acquire_table(&mut txn, TableId::new(7), TableMode::Shared).unwrap();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..KEYS);
            let outcome = match random.u8(..10) {
                0..6 => {
                    let mode = *random.choice(&[Shared, Update, Exclusive]).unwrap();
                    self.rig.point(&mut txn, &key(at), mode).map(|needs| {
                        depends_on = depends_on.max(needs);
                        let mut claims = self.claims.lock().unwrap();
                        let held = claims.points[at].entry(txn.id()).or_insert(mode);
                        *held = mode.max(*held);
                        claims.check();
                        if mode == Exclusive {
                            written.push(at);
                        }
                        self.assert_depends(depends_on, at..=at, &written);
                    })
                }
                6..8 => {
                    let to = random.usize(at..KEYS);
                    self.rig.range(&mut txn, Bound::Included(&key(at)), Bound::Included(&key(to))).map(
                        |grant| {
                            depends_on = depends_on.max(grant.depends_on);
                            cursor = Some((at, to));
                            self.claim_range(txn.id(), at..=to, depends_on, &written);
                        },
                    )
                }
                _ => {
                    let Some((low, high)) = cursor else { continue };
                    let (low, high) = if random.bool() {
                        (low, random.usize(high..KEYS))
                    } else {
                        (random.usize(..=low), high)
                    };
                    let (low_key, high_key) = (key(low), key(high));
                    let (from, to) = (Bound::Included(&*low_key), Bound::Included(&*high_key));
                    self.rig.range(&mut txn, from, to).map(|grant| {
                        depends_on = depends_on.max(grant.depends_on);
                        cursor = Some((low, high));
                        self.claim_range(txn.id(), low..=high, depends_on, &written);
                    })
                }
            };
            if let Err(conflict) = outcome {
                assert_eq!(conflict.victim, txn.id());
                return self.finish(txn, None, &[]);
            }
            if random.u8(..4) == 0 {
                thread::yield_now();
            }
        }
        let end = (random.u8(..8) != 0).then(|| Lsn::new(self.log.fetch_add(10, SeqCst)));
        self.finish(txn, end, &written);
    }

    fn claim_range(&self, txn: TxnId, keys: RangeInclusive<usize>, depends_on: Lsn, written: &[usize]) {
        let mut claims = self.claims.lock().unwrap();
        claims.ranges.entry(txn).or_default().push(keys.clone());
        claims.check();
        self.assert_depends(depends_on, keys, written);
    }

    /// Asserts that the dependency returned to a transaction includes the last commit of every key
    /// that it may read.
    fn assert_depends(&self, depends_on: Lsn, keys: RangeInclusive<usize>, written: &[usize]) {
        for at in keys.filter(|at| !written.contains(at)) {
            let committed = self.committed[at].load(SeqCst);
            assert!(depends_on >= Lsn::new(committed), "{at}: {depends_on} < {committed}");
        }
    }

    fn finish(&self, mut txn: TxnLocks, end: Option<Lsn>, written: &[usize]) {
        {
            let mut claims = self.claims.lock().unwrap();
            for holders in &mut claims.points {
                holders.remove(&txn.id());
            }
            claims.ranges.remove(&txn.id());
        }
        if let Some(end) = end {
            written.iter().for_each(|at| self.committed[*at].store(end.get(), SeqCst));
        }
        self.rig.locks.release_all(&mut txn, end);
    }
}

fn run(name: &str, lock_wait: Duration, threads: u64, transactions: usize) -> LockStat {
    let seed = std::env::var("KATYDID_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    println!("{name}: replay with KATYDID_SEED={seed}");
    let world = World {
        rig: Rig::new(lock_wait),
        claims: Mutex::new(Claims { points: vec![HashMap::new(); KEYS], ranges: HashMap::new() }),
        committed: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
        ids: AtomicU64::new(1),
        log: AtomicU64::new(10),
    };
    thread::scope(|scope| {
        for thread in 0..threads {
            let world = &world;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(thread));
                (0..transactions).for_each(|_| world.transaction(&mut random));
            });
        }
    });
    let stat = world.rig.locks.stat();
    println!("{name}: {stat:?}");
    world.rig.assert_vacant();
    stat
}

#[test]
fn random_transactions_exclude_each_other_and_all_end() {
    let stat = run("random", LONG, 8, 3_000);
    assert_eq!(stat.timeouts, 0, "a wake-up was lost or a deadlock not seen");
}

#[test]
fn random_transactions_that_run_out_of_patience_leave_nothing_behind() {
    run("impatient", Duration::from_micros(200), 8, 3_000);
}
