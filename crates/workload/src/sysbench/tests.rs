//! Sysbench's tables on the store in memory.

use super::*;
use crate::drive::{Outcome, Plan, Workload, drive};
use crate::memory_store::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SMALL: Settings = Settings { tables: 2, rows: 350, skew: 0.5 };
const SCRIPTS: [Script; 3] = [Script::ReadWrite, Script::WriteOnly, Script::UpdateIndex];

fn run<W: Workload>(store: &MemoryStore, workload: &Arc<W>, plan: &Plan) -> Outcome {
    let names = SMALL.table_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    drive(store, &names, workload, plan, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

fn state(store: &MemoryStore) -> State {
    // This store refuses some transactions by design, so a refused read is tried once more.
    let read = || State::read(store, &SMALL).map_err(|error| assert!(error.is_retryable(), "{error}"));
    read().or_else(|()| read()).unwrap()
}

#[test]
fn rows_and_index_agree_with_every_plan() {
    for (threads, in_flight) in [(1, 1), (4, 1), (3, 20)] {
        let store = MemoryStore { conflict_every: 7, refuse_every: 11, ..Default::default() };
        let plan = Plan { threads, in_flight, ..Default::default() };
        run(&store, &SysbenchLoad::new(&SMALL, 3), &plan);
        assert_eq!(store.len(), 1400);
        for script in SCRIPTS {
            let before = state(&store).sum();
            let plan = Plan { transactions: Some(600), ..plan.clone() };
            let outcome = run(&store, &SysbenchRun::new(&SMALL, script), &plan);
            assert_eq!((outcome.transactions, outcome.latencies.reads.len()), (600, 0));
            let state = state(&store);
            state.check(&SMALL).unwrap();
            assert_eq!(state.rows(), SMALL.all_rows());
            let grown = state.sum().wrapping_sub(before);
            assert_eq!(grown == 600, script == Script::UpdateIndex, "{script:?}: k grew by {grown}");
        }
    }
}

#[test]
fn a_damage_is_noticed_and_named() {
    let damaged = |damage: fn(&mut MemoryStore)| {
        let mut store = MemoryStore::default();
        run(&store, &SysbenchLoad::new(&SMALL, 3), &Plan::default());
        state(&store).check(&SMALL).unwrap();
        damage(&mut store);
        state(&store).check(&SMALL).unwrap_err()
    };
    let lost_row = damaged(|store| {
        let map = store.map.get_mut().unwrap();
        map.remove(&[b"sbtest2/", &rows::key(5)[..]].concat()).unwrap();
    });
    assert_eq!(lost_row, Fault::Rows { table: 2, found: 349, loaded: 350 });
    let lost_entry = damaged(|store| {
        let map = store.map.get_mut().unwrap();
        let entry = map.keys().find(|key| key.starts_with(b"sbtest1_by_k/")).unwrap().clone();
        map.remove(&entry);
    });
    assert_eq!(lost_entry, Fault::Entries { table: 1, found: 349, rows: 350 });
    let lost_update = damaged(|store| {
        let row = store.map.get_mut().unwrap().get_mut(&[b"sbtest2/", &rows::key(5)[..]].concat()).unwrap();
        row[3] ^= 1;
    });
    assert!(
        matches!(lost_update, Fault::Entry { table: 2, number: 5, k, found: Some(found) } if k != found),
        "{lost_update}"
    );
}
