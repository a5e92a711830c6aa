//! Sysbench's OLTP scripts on Katydid: with both engines, rows and index agree and no update is
//! lost, also after the database is opened again.

use katydid::{Database, EngineKind, MemoryOptions, Options, PagedOptions};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Plan, Workload, drive};
use katydid_workload::sysbench::{Script, Settings, State, SysbenchLoad, SysbenchRun};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SMALL: Settings = Settings { tables: 2, rows: 1000, skew: 0.5 };

fn run<W: Workload>(store: &KatydidStore, workload: &Arc<W>, plan: &Plan) -> u64 {
    let never = AtomicBool::new(false);
    let names = SMALL.table_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    drive(store, &names, workload, plan, &never, &mut |_| ()).unwrap().transactions
}

#[test]
fn rows_and_index_agree_on_both_engines() {
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        let dir = tempfile::tempdir().unwrap();
        let paged = PagedOptions { cache_bytes: 16 << 20, ..PagedOptions::default() };
        let memory = MemoryOptions { streams: 2, ..MemoryOptions::default() };
        let mut options = Options { engine: engine.with(paged, memory), ..Options::default() };
        options.advanced.log.medium =
            katydid::FileOptions { segment_bytes: 1 << 20, ..Default::default() }.into();
        options.advanced.log.reserve_bytes = 64 << 10;
        let open = || KatydidStore::new(Database::open_with(dir.path(), options.clone()).unwrap());
        let store = open();
        run(&store, &SysbenchLoad::new(&SMALL, 3), &Plan { threads: 2, in_flight: 8, ..Plan::default() });
        for (script, threads, in_flight) in
            [(Script::ReadWrite, 3, 1), (Script::WriteOnly, 2, 20), (Script::UpdateIndex, 4, 5)]
        {
            let before = State::read(&store, &SMALL).unwrap().sum();
            let plan = Plan {
                threads,
                in_flight,
                transactions: Some(300),
                conflict_retries: u32::MAX,
                ..Plan::default()
            };
            assert_eq!(run(&store, &SysbenchRun::new(&SMALL, script), &plan), 300, "{engine}, {script:?}");
            let state = State::read(&store, &SMALL).unwrap();
            state.check(&SMALL).unwrap();
            assert!(
                script != Script::UpdateIndex || state.sum() == before + 300,
                "{engine}: an update is lost"
            );
        }
        let before = State::read(&store, &SMALL).unwrap();
        store.database().close().unwrap();
        drop(store);
        assert_eq!(State::read(&open(), &SMALL).unwrap(), before, "{engine}");
    }
}
