//! TPC-B: a bank's transfers, the workload on which Aether (3.2, 4.2) measures early lock release
//! and flush pipelining.
//!
//! A transaction adds an amount to an account, to a teller and to the teller's branch, and inserts
//! a note into the history. Four sums are therefore equal after any number of transactions: the
//! balances of all branches, of all tellers and of all accounts, and the amounts in the history. A
//! difference shows a lost, repeated or torn transaction ([`Totals`]).
//!
//! As in the benchmark, a branch has 10 tellers. In 85 of 100 transactions the account belongs to
//! the teller's own branch, in the rest to another branch. Amounts lie between -999,999 and
//! 999,999. Rows have 100 bytes, and notes 50 bytes. Three things differ:
//!
//! 1. The number of branches does not follow the rate, and the number of accounts of a branch can
//!    be chosen, while the benchmark has 100,000.
//! 2. Tellers, and the accounts of a branch, are drawn with a zipfian skew; skew 0 draws uniformly,
//!    as in the benchmark. The most popular tellers belong to different branches, so that rows are
//!    popular, but no single branch is.
//! 3. A transaction locks its account, its teller and its branch in this order, so that
//!    transactions cannot deadlock.

mod check;
mod load;
mod rows;
mod run;
#[cfg(test)]
mod tests;

pub use check::Totals;
pub use load::{TpcbLoad, TpcbLoadSource};
pub use run::{TpcbRun, TpcbSource};

/// Numbers of the tables in the workload's order.
pub(crate) const BRANCHES: usize = 0;
pub(crate) const TELLERS: usize = 1;
pub(crate) const ACCOUNTS: usize = 2;
pub(crate) const HISTORY: usize = 3;

/// The names of the tables. The history is called `history`, so that each run may have a history of
/// its own.
pub fn tables(history: &str) -> [&str; 4] {
    ["branches", "tellers", "accounts", history]
}

/// Number of tellers of a branch.
pub const TELLERS_OF_BRANCH: u64 = 10;

/// Size of the bank, and choice of its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of branches, the benchmark's scale factor; at least 1.
    pub branches: u64,
    /// Number of accounts of each branch; at least 1.
    pub accounts_of_branch: u64,
    /// Skew of the choice of tellers and accounts: the exponent of a zipfian distribution, at
    /// least 0.
    pub skew: f64,
}

impl Settings {
    /// Number of rows to load.
    pub fn rows(&self) -> u64 {
        self.branches * (1 + TELLERS_OF_BRANCH + self.accounts_of_branch)
    }

    /// The branch of a teller.
    pub(crate) fn branch_of(&self, teller: u64) -> u64 {
        teller / TELLERS_OF_BRANCH
    }
}
