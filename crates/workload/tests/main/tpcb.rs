//! TPC-B on Katydid: all sums agree, also after the database is opened again. Runs vary the rule
//! for lock release, and whether commits block or have callbacks.

use katydid::{AdvancedOptions, Database, LockRelease, Options, PagedOptions};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Plan, Workload, drive};
use katydid_workload::tpcb::{Settings, Totals, TpcbLoad, TpcbRun, tables};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const BANK: Settings = Settings { branches: 5, accounts_of_branch: 100, skew: 1.0 };

fn run<W: Workload>(store: &KatydidStore, workload: &Arc<W>, plan: &Plan) -> u64 {
    let never = AtomicBool::new(false);
    drive(store, &tables("history"), workload, plan, &never, &mut |_| ()).unwrap().transactions
}

fn small(lock_release: LockRelease) -> Options {
    let paged = PagedOptions { cache_bytes: 8 << 20, ..PagedOptions::default() };
    let mut options = Options {
        engine: paged.into(),
        advanced: AdvancedOptions { lock_release, ..AdvancedOptions::default() },
        ..Options::default()
    };
    options.advanced.log.medium =
        katydid::FileOptions { segment_bytes: 1 << 20, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 64 << 10;
    options
}

#[test]
fn everything_adds_up_with_either_lock_release_blocking_and_with_callbacks() {
    for release in [LockRelease::Early, LockRelease::AfterDurable] {
        let dir = tempfile::tempdir().unwrap();
        let store = KatydidStore::new(Database::open_with(dir.path(), small(release)).unwrap());
        run(&store, &TpcbLoad::new(&BANK), &Plan { in_flight: 4, ..Plan::default() });
        let mut transfers = 0;
        for (number, (threads, in_flight)) in [(4, 1), (2, 20)].into_iter().enumerate() {
            let plan = Plan { threads, in_flight, transactions: Some(400), ..Plan::default() };
            transfers += run(&store, &TpcbRun::new(&BANK, number as u64), &plan);
            let sums = Totals::read(&store, &tables("history")).unwrap();
            sums.check(0).unwrap();
            assert_eq!(sums.transfers, transfers, "{release}, {in_flight} in flight");
        }
        assert_eq!(transfers, 800);
        let before = Totals::read(&store, &tables("history")).unwrap();
        store.database().close().unwrap();
        drop(store);
        let store = KatydidStore::new(Database::open_with(dir.path(), small(release)).unwrap());
        assert_eq!(Totals::read(&store, &tables("history")).unwrap(), before);
    }
}
