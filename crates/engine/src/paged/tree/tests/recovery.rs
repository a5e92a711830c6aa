//! Tests of crashes. The log's records are redone over the pages that have reached the device,
//! whatever the state of these pages. Then the transactions that had not ended are undone.

use super::rig::{Checkpoint, Rig, Sizes, TREE, Txn, assert_same, key, some_key, value};
use crate::paged::page::key_bytes_max;
use crate::paged::page::tests::for_seeds;
use fastrand::Rng;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A transaction that runs beside others on keys of its own.
struct Running {
    txn: Txn,
    lane: u8,
    model: Model,
}

fn lane_key(rng: &mut Rng, sizes: Sizes, lane: u8) -> Vec<u8> {
    let mut key = key(rng, sizes);
    key.push(lane);
    key
}

fn step(rig: &Rig, rng: &mut Rng, sizes: Sizes, running: &mut Running) -> crate::Result<()> {
    let present = if rng.u32(0..3) == 0 { some_key(rng, &running.model) } else { None };
    let previous = match present {
        Some(key) => {
            let previous = TREE.delete(rig.pages(), &key, &mut running.txn)?;
            running.model.remove(&key);
            previous
        }
        None => {
            let (key, value) = (lane_key(rng, sizes, running.lane), value(rng, sizes));
            let previous = TREE.put(rig.pages(), &key, &value, &mut running.txn)?;
            running.model.insert(key, value);
            previous
        }
    };
    running.txn.freed.extend(previous.chain.map(|chain| chain.head));
    Ok(())
}

const LANES: u8 = 3;

/// Runs transactions side by side until the log refuses a record, which counts as the crash. Each
/// transaction has a lane, which is a set of keys of its own. `committed` gets the committed
/// contents of each lane.
fn run(rig: &Rig, rng: &mut Rng, sizes: Sizes, committed: &mut [Model], checkpoint: &mut Option<Checkpoint>) {
    let mut running: Vec<Running> = (0..LANES)
        .map(|lane| Running { txn: rig.begin(), lane, model: committed[usize::from(lane)].clone() })
        .collect();
    loop {
        let at = rng.usize(0..running.len());
        match rng.u32(0..40) {
            0 => {
                if rng.u32(0..4) == 0 {
                    rig.pool.flush_all().expect("a flush");
                }
                *checkpoint = Some(Checkpoint::take(rig));
            }
            1..5 => {
                let lane = running[at].lane;
                let Running { mut txn, model, .. } = running.swap_remove(at);
                if rng.u32(0..3) == 0 {
                    txn.freed.clear();
                    if txn.roll_back(rig.pages()).is_err() {
                        return;
                    }
                } else {
                    if txn.commit_only().is_err() {
                        return;
                    }
                    committed[usize::from(lane)] = model;
                    if txn.free(rig.pages()).is_err() {
                        return;
                    }
                }
                let model = committed[usize::from(lane)].clone();
                running.push(Running { txn: rig.begin(), lane, model });
            }
            _ => {
                if step(rig, rng, sizes, &mut running[at]).is_err() {
                    return;
                }
            }
        }
    }
}

#[test]
fn committed_changes_survive_crashes_and_others_do_not() {
    for_seeds(16, |rng| {
        let page_bytes = 4096;
        let sizes = Sizes {
            keys: [40, 400][rng.usize(0..2)],
            key_bytes_max: [8, key_bytes_max(page_bytes) - 1][rng.usize(0..2)],
            value_bytes_max: [20, 600, 5 * page_bytes][rng.usize(0..3)],
        };
        let mut rig = Rig::new(page_bytes, [16, 64, 1000][rng.usize(0..3)]);
        let mut committed = vec![Model::new(); usize::from(LANES)];
        for _ in 0..6 {
            rig.log.fail_after(rng.u64(1..600));
            let mut checkpoint = None;
            run(&rig, rng, sizes, &mut committed, &mut checkpoint);
            rig = rig.crash(checkpoint.as_ref());
            let expected: Model = committed.clone().into_iter().flatten().collect();
            assert_same(&rig.contents(TREE), &expected);
            rig.verify(&[TREE]);
        }
    });
}

#[test]
fn recovery_that_crashes_is_repeated() {
    for_seeds(10, |rng| {
        let page_bytes = 4096;
        let sizes = Sizes { keys: 200, key_bytes_max: 100, value_bytes_max: 3 * page_bytes };
        let mut rig = Rig::new(page_bytes, 16);
        let mut committed = vec![Model::new(); usize::from(LANES)];
        rig.log.fail_after(700);
        let mut checkpoint = None;
        run(&rig, rng, sizes, &mut committed, &mut checkpoint);
        for _ in 0..4 {
            // Redo runs, some of its pages reach the device, and redo runs again. The second run
            // begins at the same checkpoint, or at a new one that was taken while pages that redo
            // had changed were not in place.
            rig = rig.crash(checkpoint.as_ref());
            if rng.bool() {
                checkpoint = Some(Checkpoint::take(&rig));
            }
        }
        let expected: Model = committed.clone().into_iter().flatten().collect();
        assert_same(&rig.contents(TREE), &expected);
        rig.verify(&[TREE]);
    });
}

/// If the log refuses a record, the pages that the record was to change are dirty and unchanged.
/// These pages may reach the device in that state.
#[test]
fn refused_records_do_not_harm_recovery() {
    for_seeds(12, |rng| {
        let page_bytes = 4096;
        let sizes = Sizes { keys: 150, key_bytes_max: 200, value_bytes_max: [650, 9000][rng.usize(0..2)] };
        let mut rig = Rig::new(page_bytes, [16, 300][rng.usize(0..2)]);
        let mut model = Model::new();
        let mut checkpoint = None;
        for round in 0..2000 {
            let mut txn = rig.begin();
            // Phases in which the tree grows alternate with phases in which it shrinks, so that
            // pages are allocated and freed.
            let present = if rng.u32(0..10) < [2, 8][round / 30 % 2] { some_key(rng, &model) } else { None };
            let (key, value) = match present {
                Some(key) => (key, None),
                None => (
                    key(rng, sizes),
                    Some(vec![rng.u8(..); rng.usize(sizes.value_bytes_max / 2..sizes.value_bytes_max)]),
                ),
            };
            if rng.bool() {
                rig.log.fail_after(rng.u64(0..2));
            }
            let done = match &value {
                Some(value) => TREE.put(rig.pages(), &key, value, &mut txn),
                None => TREE.delete(rig.pages(), &key, &mut txn),
            };
            rig.log.fail_after(u64::MAX);
            match done {
                Ok(previous) => {
                    txn.freed.extend(previous.chain.map(|chain| chain.head));
                    txn.commit(rig.pages()).expect("a commit");
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
                Err(_) => txn.roll_back(rig.pages()).expect("a rollback"),
            }
            match rng.u32(0..100) {
                0 => checkpoint = Some(Checkpoint::take(&rig)),
                1..8 => drop(rig.pool.flush_all().expect("a flush")),
                8..11 => {
                    rig = rig.crash(checkpoint.as_ref());
                    assert_same(&rig.contents(TREE), &model);
                    rig.verify(&[TREE]);
                }
                _ => {}
            }
        }
    });
}
