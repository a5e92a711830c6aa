//! TPC-B: a bank's transfers, the workload on which Aether (3.2, 4.2) measures early lock release
//! and flush pipelining.
//!
//! A transaction adds an amount to an account, to the teller where that happens and to the teller's
//! branch, and notes it in the history. So after any number of transactions the balances of all
//! branches, of all tellers and of all accounts and the amounts of the history have the same sum: a
//! lost, doubled or torn transaction is found by adding up ([`Totals`]).
//!
//! As the benchmark has it: 10 tellers to a branch, an account of the teller's own branch in 85 of
//! 100 transactions and of any other in the rest, amounts from -999,999 to 999,999, rows of 100
//! bytes, notes of 50. Different here:
//!
//! 1. The number of branches does not follow the rate, and that of accounts to a branch can be
//!    chosen: 100,000 in the benchmark.
//! 2. Tellers, and the accounts of a branch, are drawn with a zipfian skew; 0 draws all alike, as
//!    the benchmark does. The most popular tellers belong to different branches, so it is rows that
//!    are popular and not one branch.
//! 3. A transaction locks its account, its teller and its branch in that order, so that none waits
//!    for another in a circle.

mod check;
mod load;
mod rows;
mod run;
#[cfg(test)]
mod tests;

pub use check::Totals;
pub use load::{TpcbLoad, TpcbLoadSource};
pub use run::{TpcbRun, TpcbSource};

/// The tables, in the order in which the workload knows them.
pub(crate) const BRANCHES: usize = 0;
pub(crate) const TELLERS: usize = 1;
pub(crate) const ACCOUNTS: usize = 2;
pub(crate) const HISTORY: usize = 3;

/// The names of the tables, with the history in one called `history`: a run may have one of its
/// own.
pub fn tables(history: &str) -> [&str; 4] {
    ["branches", "tellers", "accounts", history]
}

/// Tellers of a branch.
pub const TELLERS_OF_BRANCH: u64 = 10;

/// Size of the bank, and choice of its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The benchmark's scale factor; at least 1.
    pub branches: u64,
    /// Accounts of each branch; at least 1.
    pub accounts_of_branch: u64,
    /// Skew of the choice of tellers and accounts: the exponent of a zipfian distribution, at
    /// least 0.
    pub skew: f64,
}

impl Settings {
    /// Rows to load.
    pub fn rows(&self) -> u64 {
        self.branches * (1 + TELLERS_OF_BRANCH + self.accounts_of_branch)
    }

    /// The branch of a teller.
    pub(crate) fn branch_of(&self, teller: u64) -> u64 {
        teller / TELLERS_OF_BRANCH
    }
}
