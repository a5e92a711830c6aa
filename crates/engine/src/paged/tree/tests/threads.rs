//! Tests of several threads in one tree.

use super::rig::{EVERYTHING, Rig, TREE, assert_same};
use crate::direction::Direction;
use crate::paged::page::tests::for_seeds;
use crate::paged::tree::ScanRequest;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

const THREADS: u8 = 4;

fn own_key(rng: &mut Rng, thread: u8) -> Vec<u8> {
    let mut key = format!("{:04}", rng.u32(0..1500)).into_bytes();
    key.resize(key.len() + rng.usize(0..2) * 40, b'-');
    key.push(thread);
    key
}

/// Puts and deletes keys that no other thread touches. Checks after each change that the key is
/// there, or gone.
fn work(rig: &Rig, rng: &mut Rng, thread: u8) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    for round in 0..3000u32 {
        let mut txn = rig.begin();
        let key = own_key(rng, thread);
        let shrinking = (round / 500) % 2 == 1;
        let previous = if rng.u32(0..10) < if shrinking { 8 } else { 2 } {
            model.remove(&key);
            TREE.delete(rig.pages(), &key, &mut txn).expect("a delete")
        } else {
            let length = if rng.u32(0..200) == 0 { 9000 } else { rng.usize(0..200) };
            let value = vec![thread; length];
            let previous = TREE.put(rig.pages(), &key, &value, &mut txn).expect("a put");
            model.insert(key.clone(), value);
            previous
        };
        txn.freed.extend(previous.chain.map(|chain| chain.head));
        txn.commit(rig.pages()).expect("a commit");
        let key = if rng.bool() { key } else { own_key(rng, thread) };
        let found = rig.get(TREE, &key);
        assert_eq!(found.as_ref(), model.get(&key));
    }
    model
}

/// Scans while other threads change the tree. The keys must come in order, and all fixed keys must
/// be there. Long values are not read, because the scan has no locks, and a commit of another
/// thread may free their pages.
fn scan(rig: &Rig, rng: &mut Rng, fixed: &[Vec<u8>], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let direction = if rng.bool() { Direction::Up } else { Direction::Down };
        let (entries, bytes) = (rng.usize(1..50), [1, 5_000, 50_000][rng.usize(0..3)]);
        let mut keys = rig.scan_keys(TREE, ScanRequest { direction, entries, bytes, ..EVERYTHING });
        if direction == Direction::Down {
            keys.reverse();
        }
        assert!(keys.is_sorted_by(|a, b| a < b));
        let found: Vec<_> = keys.into_iter().filter(|key| key.last() == Some(&b'f')).collect();
        assert_eq!(found, fixed);
    }
}

#[test]
fn threads_change_and_scan_one_tree() {
    for_seeds(3, |rng| {
        let rig = Rig::new(4096, [16, 400][rng.usize(0..2)]);
        let mut fixed: Vec<Vec<u8>> =
            (0..300).map(|number| format!("{:04}f", number * 5).into_bytes()).collect();
        fixed.sort();
        for key in &fixed {
            let mut txn = rig.begin();
            TREE.insert(rig.pages(), key, b"fixed", &mut txn).expect("an insert");
            txn.commit(rig.pages()).expect("a commit");
        }
        let stop = AtomicBool::new(false);
        let mut seeds: Vec<Rng> = (0..=THREADS).map(|_| rng.fork()).collect();
        let mut scanner = seeds.pop().expect("one more than threads");
        let models: Vec<_> = std::thread::scope(|scope| {
            let (rig, stop, fixed) = (&rig, &stop, &fixed);
            let workers: Vec<_> = (0..THREADS)
                .zip(seeds)
                .map(|(thread, mut rng)| scope.spawn(move || work(rig, &mut rng, thread)))
                .collect();
            let scanner = scope.spawn(move || scan(rig, &mut scanner, fixed, stop));
            let models: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            stop.store(true, Ordering::Relaxed);
            scanner.join().expect("the scanner");
            models.into_iter().map(|model| model.expect("a worker")).collect()
        });
        let mut expected: BTreeMap<_, _> = models.into_iter().flatten().collect();
        expected.extend(fixed.into_iter().map(|key| (key, b"fixed".to_vec())));
        assert_same(&rig.contents(TREE), &expected);
        rig.verify(&[TREE]);
        // The records of all threads, redone in the log's order, must make the same tree.
        let rig = rig.crash(None);
        assert_same(&rig.contents(TREE), &expected);
        rig.verify(&[TREE]);
    });
}
