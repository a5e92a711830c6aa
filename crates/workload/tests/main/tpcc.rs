//! TPC-C on Katydid: the conditions hold and every acknowledged order is present, also after the
//! database is opened again. Runs vary the engine, the rule for lock release, and whether commits
//! block or have callbacks.

use katydid::{AdvancedOptions, Database, EngineKind, LockRelease, MemoryOptions, Options, PagedOptions};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Outcome, Plan, Workload, drive};
use katydid_workload::tpcc::{Kind, Mix, Settings, State, TABLES, TpccLoad, TpccRun};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const COMPANY: Settings = Settings { warehouses: 2, items: 200, customers_of_district: 30 };

fn run<W: Workload>(store: &KatydidStore, workload: &Arc<W>, plan: &Plan) -> Outcome {
    let never = AtomicBool::new(false);
    drive(store, &TABLES, workload, plan, &never, &mut |_| ()).unwrap()
}

fn small(engine: EngineKind, lock_release: LockRelease) -> Options {
    let paged = PagedOptions { cache_bytes: 16 << 20, ..PagedOptions::default() };
    let memory = MemoryOptions { streams: 2, ..MemoryOptions::default() };
    let mut options = Options {
        engine: engine.with(paged, memory),
        advanced: AdvancedOptions { lock_release, ..AdvancedOptions::default() },
        ..Options::default()
    };
    options.advanced.log.medium =
        katydid::FileOptions { segment_bytes: 1 << 20, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 64 << 10;
    options
}

fn checked(store: &KatydidStore, orders: u64) -> State {
    let state = State::read(store).unwrap();
    state.check(&COMPANY).unwrap();
    assert_eq!(state.orders(), orders);
    state
}

#[test]
fn the_conditions_hold_on_both_engines_and_every_acknowledged_order_survives() {
    for (engine, release) in [
        (EngineKind::Paged, LockRelease::Early),
        (EngineKind::Paged, LockRelease::AfterDurable),
        (EngineKind::Memory, LockRelease::Early),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let open = || KatydidStore::new(Database::open_with(dir.path(), small(engine, release)).unwrap());
        let store = open();
        run(&store, &TpccLoad::new(&COMPANY, 7), &Plan { threads: 2, in_flight: 8, ..Plan::default() });
        let mut orders = COMPANY.orders();
        checked(&store, orders);
        let runs = [(Mix::Standard, 4, 1), (Mix::Pair, 2, 20), (Mix::Standard, 3, 10)];
        for (number, (mix, threads, in_flight)) in (0..).zip(runs) {
            let plan = Plan {
                threads,
                in_flight,
                transactions: Some(400),
                conflict_retries: u32::MAX,
                ..Plan::default()
            };
            let tpcc = TpccRun::new(&COMPANY, mix, number);
            let outcome = run(&store, &tpcc, &plan);
            assert_eq!(outcome.transactions + outcome.rolled_back, 400);
            orders += tpcc.acknowledged(Kind::NewOrder);
            checked(&store, orders);
        }
        let before = State::read(&store).unwrap();
        store.database().close().unwrap();
        drop(store);
        assert_eq!(checked(&open(), orders), before, "{engine}, {release}");
    }
}
