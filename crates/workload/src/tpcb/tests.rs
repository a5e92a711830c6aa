//! TPC-B on the store in memory.

use super::*;
use crate::drive::{Outcome, Plan, Source, Workload, drive};
use crate::memory_store::MemoryStore;
use crate::store::{Keys, Transaction};
use fastrand::Rng;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const SMALL: Settings = Settings { branches: 3, accounts_of_branch: 40, skew: 0.85 };

fn run<W: Workload>(
    store: &MemoryStore,
    workload: &Arc<W>,
    threads: usize,
    in_flight: usize,
    many: u64,
) -> Outcome {
    let plan = Plan { threads, in_flight, transactions: Some(many), ..Default::default() };
    drive(store, &tables("history"), workload, &plan, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

fn totals(store: &MemoryStore) -> Totals {
    // This store refuses some transactions by design, so a refused read is tried once more.
    let read = || Totals::read(store, &tables("history")).map_err(|error| assert!(error.is_retryable()));
    read().or_else(|()| read()).unwrap()
}

#[test]
fn all_sums_are_the_same_with_every_plan() {
    for (threads, in_flight) in [(1, 1), (4, 1), (4, 50)] {
        let store = MemoryStore { conflict_every: 7, ..Default::default() };
        run(&store, &TpcbLoad::new(&SMALL), 2, in_flight, u64::MAX);
        assert_eq!(store.len() as u64, SMALL.rows());
        assert_eq!(totals(&store), Totals::default());
        for number in 0..2 {
            let outcome = run(&store, &TpcbRun::new(&SMALL, number), threads, in_flight, 1000);
            assert!(outcome.conflicts > 0);
            let sums = totals(&store);
            sums.check(0).unwrap();
            assert_eq!(sums.transfers, (number + 1) * outcome.transactions);
        }
        assert_ne!(totals(&store).branches, 0, "nothing was moved");
    }
}

#[test]
fn a_lost_row_or_note_is_found() {
    let prefixes = ["branches/", "tellers/", "accounts/", "history/"];
    for prefix in prefixes {
        let store = MemoryStore::default();
        run(&store, &TpcbLoad::new(&SMALL), 1, 1, u64::MAX);
        run(&store, &TpcbRun::new(&SMALL, 0), 2, 1, 500);
        // Finds the first balance of the table that is not 0, and sets it to 0.
        let mut map = store.map.lock().unwrap();
        let (_, row) = map
            .iter_mut()
            .find(|(key, row)| key.starts_with(prefix.as_bytes()) && rows::amount(row) != Some(0))
            .unwrap();
        row[..8].fill(0);
        drop(map);
        let error = totals(&store).check(0).unwrap_err().to_string();
        assert!(error.starts_with("inconsistent: branches hold"), "{prefix}: {error}");
    }
}

#[test]
fn a_history_that_is_gone_is_carried() {
    let store = MemoryStore::default();
    run(&store, &TpcbLoad::new(&SMALL), 1, 1, u64::MAX);
    run(&store, &TpcbRun::new(&SMALL, 0), 1, 1, 100);
    let before = totals(&store);
    store.map.lock().unwrap().retain(|key, _| !key.starts_with(b"history/"));
    run(&store, &TpcbRun::new(&SMALL, 0), 1, 1, 100);
    let after = totals(&store);
    after.check(before.history).unwrap();
    after.check(before.history + 1).unwrap_err();
}

/// Remembers which rows a transfer touches.
#[derive(Default)]
struct Touched {
    table: usize,
    rows: Vec<(usize, u64)>,
}

impl Transaction for Touched {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = table;
        self
    }
    fn get(&mut self, _: &[u8]) -> crate::Result<Option<Vec<u8>>> {
        Ok(Some(rows::empty_row().to_vec()))
    }
    fn get_for_update(&mut self, key: &[u8]) -> crate::Result<Option<Vec<u8>>> {
        self.get(key)
    }
    fn put(&mut self, key: &[u8], _: &[u8]) -> crate::Result<()> {
        self.rows.push((self.table, u64::from_be_bytes(key.try_into().unwrap())));
        Ok(())
    }
    fn insert(&mut self, key: &[u8], value: &[u8]) -> crate::Result<()> {
        self.put(key, value)
    }
    fn delete(&mut self, _: &[u8]) -> crate::Result<bool> {
        Ok(false)
    }
    fn range(&mut self, _: Keys<'_>, _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> crate::Result<usize> {
        Ok(0)
    }
    fn commit(self) -> crate::Result<()> {
        Ok(())
    }
    fn commit_with(self, _: impl FnOnce(crate::Result<()>) + Send + 'static) {}
}

#[test]
fn rows_are_chosen_as_the_benchmark_says_and_the_skew_asks() {
    const DRAWS: usize = 200_000;
    for (skew, hottest) in [(0.0, 1.0 / 100.0), (1.0, 1.0 / 5.187_378), (2.0, 1.0 / 1.634_984)] {
        let settings = Settings { branches: 10, accounts_of_branch: 50, skew };
        let mut source = TpcbRun::new(&settings, 0).source(3, Rng::with_seed(5));
        let (mut tellers, mut own) = (HashMap::<u64, usize>::new(), 0);
        for _ in 0..DRAWS {
            source.plan().unwrap();
            let mut touched = Touched::default();
            source.run(&mut touched).unwrap();
            let [(ACCOUNTS, account), (TELLERS, teller), (BRANCHES, branch), (HISTORY, _)] = touched.rows[..]
            else {
                panic!("other tables, or in another order: {:?}", touched.rows)
            };
            assert!(account < 500 && teller < 100 && branch == teller / TELLERS_OF_BRANCH);
            *tellers.entry(teller).or_default() += 1;
            own += usize::from(account / 50 == branch);
        }
        assert_eq!(tellers.len(), 100);
        let share = *tellers.values().max().unwrap() as f64 / DRAWS as f64;
        assert!((share / hottest - 1.0).abs() < 0.1, "skew {skew}: {share} instead of {hottest}");
        assert!((0.84..0.86).contains(&(own as f64 / DRAWS as f64)), "{own} in their own branch");
        // The most popular tellers belong to different branches. Only with skew 2 are the counts of
        // the first five far enough apart for a test.
        let mut ranked: Vec<_> = tellers.into_iter().collect();
        ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if skew == 2.0 {
            let mut branches: Vec<_> = ranked[..5].iter().map(|(teller, _)| teller / 10).collect();
            branches.sort_unstable();
            branches.dedup();
            assert_eq!(branches.len(), 5);
        }
    }
}
