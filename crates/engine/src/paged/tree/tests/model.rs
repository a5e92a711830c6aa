//! Compares random changes with a `BTreeMap`.

use super::rig::{Rig, Sizes, TREE, assert_same, key, some_key, value};
use crate::Error;
use crate::direction::Direction;
use crate::paged::page::key_bytes_max;
use crate::paged::page::tests::for_seeds;
use crate::paged::tree::{Batch, ScanRequest};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn sizes(rng: &mut Rng, page_bytes: usize) -> Sizes {
    Sizes {
        keys: [30, 300, 3000][rng.usize(0..3)],
        key_bytes_max: [8, 40, key_bytes_max(page_bytes)][rng.usize(0..3)],
        value_bytes_max: [20, 600, 5 * page_bytes][rng.usize(0..3)],
    }
}

fn change(rig: &Rig, rng: &mut Rng, sizes: Sizes, model: &mut Model, deletes: u32) {
    let mut txn = rig.begin();
    let key = if rng.u32(0..10) < deletes { some_key(rng, model) } else { None };
    match key {
        Some(key) => {
            let previous = TREE.delete(rig.pages(), &key, &mut txn).expect("a delete");
            assert!(previous.existed);
            txn.freed.extend(previous.chain.map(|chain| chain.head));
            model.remove(&key);
        }
        None => {
            let (key, value) = (super::rig::key(rng, sizes), value(rng, sizes));
            if rng.bool() {
                match TREE.insert(rig.pages(), &key, &value, &mut txn) {
                    Ok(()) => assert!(model.insert(key, value).is_none()),
                    Err(Error::KeyExists { .. }) => assert!(model.contains_key(&key)),
                    Err(error) => panic!("{error}"),
                }
            } else {
                let previous = TREE.put(rig.pages(), &key, &value, &mut txn).expect("a put");
                txn.freed.extend(previous.chain.map(|chain| chain.head));
                assert_eq!(model.insert(key, value).is_some(), previous.existed);
            }
        }
    }
    txn.commit(rig.pages()).expect("a commit");
}

#[test]
fn random_changes_match_a_map() {
    for_seeds(12, |rng| {
        let page_bytes = [4096, 8192][rng.usize(0..2)];
        let rig = Rig::new(page_bytes, [16, 1000][rng.usize(0..2)]);
        let sizes = sizes(rng, page_bytes);
        let mut model = Model::new();
        for phase in 0..4 {
            for _ in 0..400 {
                change(&rig, rng, sizes, &mut model, [2, 5, 8, 3][phase]);
            }
            for _ in 0..50 {
                let key = key(rng, sizes);
                let found = rig.get(TREE, &key);
                assert_eq!(found.as_ref(), model.get(&key));
            }
            assert_same(&rig.contents(TREE), &model);
            let report = rig.verify(&[TREE]);
            assert_eq!(report.keys, model.len() as u64);
        }
    });
}

fn bound(key: &[u8], rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.u32(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key.to_vec()),
        _ => Bound::Excluded(key.to_vec()),
    }
}

/// Returns two random bounds near keys. The first bound may lie beyond the second.
fn bounds(rng: &mut Rng, sizes: Sizes) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (a, b) = (key(rng, sizes), key(rng, sizes));
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    (bound(&low, rng), bound(&high, rng))
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn direction(rng: &mut Rng) -> Direction {
    if rng.bool() { Direction::Up } else { Direction::Down }
}

#[test]
fn scans_of_stretches_match_a_map() {
    for_seeds(12, |rng| {
        let rig = Rig::new(4096, [16, 64][rng.usize(0..2)]);
        let sizes = Sizes { keys: 900, key_bytes_max: 12, value_bytes_max: [40, 600, 5000][rng.usize(0..3)] };
        let mut model = Model::new();
        for _ in 0..600 {
            change(&rig, rng, sizes, &mut model, 2);
        }
        for _ in 0..300 {
            let (low, high) = bounds(rng, sizes);
            let inside = |key: &[u8]| (slice(&low), slice(&high)).contains(key);
            let mut expected: Vec<_> = model.iter().filter(|(key, _)| inside(key)).collect();
            let direction = direction(rng);
            if direction == Direction::Down {
                expected.reverse();
            }
            let (entries, bytes) = (rng.usize(1..40), [1, 3000, 20_000][rng.usize(0..3)]);
            let request = ScanRequest { low: slice(&low), high: slice(&high), direction, entries, bytes };
            let found = rig.scan(TREE, request);
            assert!(found.iter().map(|(key, value)| (key, value)).eq(expected), "{request:?}");
        }
    });
}

#[test]
fn what_is_said_to_be_unchanged_is_what_another_scan_finds() {
    for_seeds(12, |rng| {
        let rig = Rig::new(4096, 64);
        let sizes = Sizes { keys: 600, key_bytes_max: 8, value_bytes_max: [40, 600][rng.usize(0..2)] };
        let mut model = Model::new();
        for _ in 0..500 {
            change(&rig, rng, sizes, &mut model, 1);
        }
        let (mut batch, mut again) = (Batch::default(), Batch::default());
        let (mut same, mut other) = (0, 0);
        // The tree grows and shrinks, so that leaves are split and merged.
        for round in 0..900 {
            let ((low, high), direction) = (bounds(rng, sizes), direction(rng));
            let (entries, bytes) = (rng.usize(1..40), [500, 5000][rng.usize(0..2)]);
            let request = ScanRequest { low: slice(&low), high: slice(&high), direction, entries, bytes };
            TREE.scan(&rig.pool, request, &mut batch).expect("a scan");
            assert!(TREE.is_unchanged(&rig.pool, &batch), "nobody has changed anything");
            for _ in 0..rng.usize(0..6) {
                change(&rig, rng, sizes, &mut model, if round / 150 % 2 == 0 { 9 } else { 2 });
            }
            TREE.scan(&rig.pool, request, &mut again).expect("a scan");
            let is_same = batch.iter().eq(again.iter());
            let unchanged = TREE.is_unchanged(&rig.pool, &batch);
            assert!(is_same || !unchanged, "a changed batch counts as unchanged");
            same += u32::from(unchanged);
            other += u32::from(!is_same);
        }
        assert!(same > 100 && other > 20, "{same} unchanged and {other} others: both have to occur");
    });
}

#[test]
fn deleting_everything_leaves_one_page() {
    for_seeds(6, |rng| {
        let rig = Rig::new(4096, 64);
        let sizes = Sizes { keys: 5000, key_bytes_max: [8, 512][rng.usize(0..2)], value_bytes_max: 300 };
        let mut model = Model::new();
        for _ in 0..2000 {
            change(&rig, rng, sizes, &mut model, 0);
        }
        let full = rig.verify(&[TREE]).pages;
        let mut keys: Vec<_> = model.keys().cloned().collect();
        match rng.u32(0..3) {
            0 => rng.shuffle(&mut keys),
            1 => keys.reverse(),
            _ => {}
        }
        for key in keys {
            let mut txn = rig.begin();
            let previous = TREE.delete(rig.pages(), &key, &mut txn).expect("a delete");
            assert!(previous.existed);
            txn.freed.extend(previous.chain.map(|chain| chain.head));
            txn.commit(rig.pages()).expect("a commit");
        }
        assert!(rig.contents(TREE).is_empty());
        let left = rig.verify(&[TREE]).pages;
        assert!(full > 30 && left <= 5, "{left} of {full} pages are left");
    });
}

#[test]
fn rolled_back_changes_leave_nothing() {
    for_seeds(10, |rng| {
        let page_bytes = 4096;
        let rig = Rig::new(page_bytes, 16);
        let sizes = sizes(rng, page_bytes);
        let mut model = Model::new();
        for _ in 0..60 {
            let mut txn = rig.begin();
            let before = model.clone();
            let (mut kept, mut savepoint) = (before.clone(), 0);
            for _ in 0..rng.usize(0..30) {
                if rng.u32(0..8) == 0 {
                    (savepoint, kept) = (txn.len(), model.clone());
                }
                let (key, value) = (key(rng, sizes), value(rng, sizes));
                let previous = if rng.u32(0..3) == 0 {
                    let key = some_key(rng, &model).unwrap_or(key);
                    model.remove(&key);
                    TREE.delete(rig.pages(), &key, &mut txn)
                } else {
                    model.insert(key.clone(), value.clone());
                    TREE.put(rig.pages(), &key, &value, &mut txn)
                };
                let chain = previous.expect("a change").chain;
                txn.freed.extend(chain.map(|chain| chain.head));
            }
            match rng.u32(0..3) {
                0 => {
                    txn.freed.clear();
                    txn.roll_back(rig.pages()).expect("a rollback");
                    model = before;
                }
                1 => {
                    // The rollback brings back the chains that changes after the savepoint no
                    // longer used. This small model of a transaction does not know which chains
                    // these are. So the test frees no chain, and then rolls the whole transaction
                    // back.
                    txn.roll_back_to(rig.pages(), savepoint).expect("a rollback to a savepoint");
                    txn.freed.clear();
                    txn.roll_back(rig.pages()).expect("a rollback");
                    assert!(kept.len() <= kept.len() + before.len());
                    model = before;
                }
                _ => txn.commit(rig.pages()).expect("a commit"),
            }
            assert_same(&rig.contents(TREE), &model);
        }
        rig.verify(&[TREE]);
    });
}

#[test]
fn an_append_that_fails_changes_nothing() {
    for_seeds(8, |rng| {
        let page_bytes = 4096;
        let rig = Rig::new(page_bytes, 16);
        let sizes = sizes(rng, page_bytes);
        let mut model = Model::new();
        let mut failures = 0;
        for _ in 0..800 {
            let mut txn = rig.begin();
            let key = if rng.u32(0..3) == 0 { some_key(rng, &model) } else { None };
            rig.log.fail_after(if rng.bool() { rng.u64(0..4) } else { u64::MAX });
            let (key, done) = match key {
                Some(key) => {
                    let done = TREE.delete(rig.pages(), &key, &mut txn);
                    (key, done.map(|previous| (previous, None)))
                }
                None => {
                    let (key, value) = (super::rig::key(rng, sizes), value(rng, sizes));
                    let done = TREE.put(rig.pages(), &key, &value, &mut txn);
                    (key, done.map(|previous| (previous, Some(value))))
                }
            };
            rig.log.fail_after(u64::MAX);
            match done {
                Err(error) => {
                    assert!(error.is_no_space(), "{error}");
                    failures += 1;
                    txn.roll_back(rig.pages()).expect("a rollback");
                }
                Ok((previous, value)) => {
                    txn.freed.extend(previous.chain.map(|chain| chain.head));
                    txn.commit(rig.pages()).expect("a commit");
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
            }
            if rng.u32(0..20) == 0 {
                assert_same(&rig.contents(TREE), &model);
                rig.verify(&[TREE]);
            }
        }
        assert!(failures > 0);
        assert_same(&rig.contents(TREE), &model);
        rig.verify(&[TREE]);
    });
}
