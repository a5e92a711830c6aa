//! TATP on Katydid: all rows belong to each other and every acknowledged change is present, also
//! after the database is opened again. Runs vary the engine, the rule for lock release, and whether
//! commits block or have callbacks.

use katydid::{AdvancedOptions, Database, EngineKind, LockRelease, MemoryOptions, Options, PagedOptions};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Outcome, Plan, Workload, drive};
use katydid_workload::tatp::{Counts, Kind, Mix, Settings, State, TABLES, TatpLoad, TatpRun};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const REGISTER: Settings = Settings { subscribers: 150 };
const SEED: u64 = 7;

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

fn checked(store: &KatydidStore, counts: &Counts) -> State {
    let state = State::read(store, &REGISTER).unwrap();
    state.check(counts).unwrap();
    state
}

#[test]
fn all_rows_belong_to_each_other_on_both_engines_and_every_acknowledged_change_survives() {
    println!("the seeds are {SEED} for what is loaded and 1, 2, 3 for what is run");
    for (engine, release) in [
        (EngineKind::Paged, LockRelease::Early),
        (EngineKind::Paged, LockRelease::AfterDurable),
        (EngineKind::Memory, LockRelease::Early),
        (EngineKind::Memory, LockRelease::AfterDurable),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let open = || KatydidStore::new(Database::open_with(dir.path(), small(engine, release)).unwrap());
        let store = open();
        let mut counts = Counts::loaded(&REGISTER, SEED);
        run(&store, &TatpLoad::new(&REGISTER, SEED), &Plan { threads: 2, in_flight: 8, ..Plan::default() });
        checked(&store, &counts);
        let runs = [(Mix::Standard, 4, 1), (Mix::Standard, 3, 20), (Mix::UpdateLocation, 2, 10)];
        for (seed, (mix, threads, in_flight)) in (1..).zip(runs) {
            let plan = Plan {
                threads,
                in_flight,
                seed,
                transactions: Some(1500),
                conflict_retries: u32::MAX,
                ..Plan::default()
            };
            let tatp = TatpRun::new(&REGISTER, mix);
            let outcome = run(&store, &tatp, &plan);
            assert_eq!(outcome.transactions + outcome.rolled_back, 1500);
            let acknowledged: u64 = Kind::ALL.iter().map(|kind| tatp.acknowledged(*kind)).sum();
            let failed: u64 = Kind::ALL.iter().map(|kind| tatp.failed(*kind)).sum();
            assert_eq!((acknowledged, failed), (outcome.transactions, outcome.rolled_back));
            counts.call_forwardings = tatp.call_forwardings(counts.call_forwardings);
            checked(&store, &counts);
        }
        let before = checked(&store, &counts);
        store.database().close().unwrap();
        drop(store);
        assert_eq!(checked(&open(), &counts), before, "{engine}, {release}");
    }
}
