//! The run phase: transfers.
//!
//! Rules:
//!
//! 1. Running a planned transfer again (after a conflict) repeats the same operations, because all
//!    random choices are made when it is planned.
//! 2. The note of a transfer has a number that no transfer of another thread or run has.

use super::{ACCOUNTS, BRANCHES, HISTORY, Settings, TELLERS, TELLERS_OF_BRANCH, rows};
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::generate::Zipfian;
use crate::insert::first_number;
use crate::store::{Result, StoreError, Transaction};
use fastrand::Rng;
use std::sync::Arc;

/// The largest amount.
const AMOUNT_MAX: i64 = 999_999;
/// Percentage of transfers to an account of the teller's own branch.
const OWN_BRANCH: u32 = 85;

/// Endless transfers; the driver's limits end the run.
#[derive(Debug)]
pub struct TpcbRun {
    settings: Settings,
    tellers: Zipfian,
    accounts: Zipfian,
    run: u64,
}

impl TpcbRun {
    /// Transfers in a loaded bank. Each run on the same history needs another `run`, which is less
    /// than [`RUNS_MAX`](crate::insert::RUNS_MAX).
    pub fn new(settings: &Settings, run: u64) -> Arc<Self> {
        let Settings { branches, accounts_of_branch, skew } = *settings;
        Arc::new(TpcbRun {
            settings: *settings,
            tellers: Zipfian::new(branches * TELLERS_OF_BRANCH, skew),
            accounts: Zipfian::new(accounts_of_branch, skew),
            run,
        })
    }
}

impl Workload for TpcbRun {
    type Source = TpcbSource;

    fn source(self: &Arc<Self>, thread: usize, rng: Rng) -> TpcbSource {
        let next = first_number(self.run, thread);
        TpcbSource { run: Arc::clone(self), rng, next, transfer: Transfer::default() }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Transfer {
    note: u64,
    teller: u64,
    account: u64,
    amount: i64,
}

/// Source of one thread's transfers.
#[derive(Debug)]
pub struct TpcbSource {
    run: Arc<TpcbRun>,
    rng: Rng,
    next: u64,
    transfer: Transfer,
}

impl TpcbSource {
    /// The teller of a popularity rank. Tellers of neighbouring ranks belong to different branches.
    fn teller(&self, rank: u64) -> u64 {
        let branches = self.run.settings.branches;
        rank % branches * TELLERS_OF_BRANCH + rank / branches
    }

    fn branch_of_account(&mut self, own: u64) -> u64 {
        let branches = self.run.settings.branches;
        if branches == 1 || self.rng.u32(..100) < OWN_BRANCH {
            return own;
        }
        let other = self.rng.u64(..branches - 1);
        if other < own { other } else { other + 1 }
    }
}

impl Source for TpcbSource {
    fn plan(&mut self) -> Option<Planned> {
        let rank = self.run.tellers.next(&mut self.rng);
        let teller = self.teller(rank);
        let branch = self.branch_of_account(self.run.settings.branch_of(teller));
        let account = branch * self.run.settings.accounts_of_branch + self.run.accounts.next(&mut self.rng);
        let amount = self.rng.i64(-AMOUNT_MAX..=AMOUNT_MAX);
        self.transfer = Transfer { note: self.next, teller, account, amount };
        self.next += 1;
        Some(Planned { class: Class::Write, ticket: None })
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let Transfer { note, teller, account, amount } = self.transfer;
        let branch = self.run.settings.branch_of(teller);
        for (table, number) in [(ACCOUNTS, account), (TELLERS, teller), (BRANCHES, branch)] {
            let mut whole = true;
            let change = &mut |row: &mut Vec<u8>| whole = rows::add(row, amount);
            if !transaction.on(table).read_modify_write(&rows::key(number), change)? || !whole {
                let name = super::tables("")[table];
                return Err(StoreError::Inconsistent(format!(
                    "number {number} of the {name} is missing or cut"
                )));
            }
        }
        transaction.on(HISTORY).insert(&rows::key(note), &rows::note(amount, account, teller))?;
        Ok(Ending::Commit)
    }
}
