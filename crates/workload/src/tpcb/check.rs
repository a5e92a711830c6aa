//! Sums that must agree after any number of transfers.

use super::{ACCOUNTS, BRANCHES, HISTORY, TELLERS, rows};
use crate::store::{Client, Intent, Keys, Result, Store, StoreError, Transaction};

/// The sums of a bank, read in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Sum of the balances of all branches.
    pub branches: i64,
    /// Sum of the balances of all tellers.
    pub tellers: i64,
    /// Sum of the balances of all accounts.
    pub accounts: i64,
    /// Sum of the amounts in the history.
    pub history: i64,
    /// Number of notes in the history.
    pub transfers: u64,
}

impl Totals {
    /// Adds up the bank in these tables, in the order of [`tables`](super::tables).
    ///
    /// # Errors
    /// Those of the store. [`StoreError::Inconsistent`] names a row that cannot be decoded.
    pub fn read<S: Store>(store: &S, tables: &[&str; 4]) -> Result<Totals> {
        let mut client = store.client(tables)?;
        let mut transaction = client.begin(Intent::ReadOnly)?;
        let mut sum = |table: usize| {
            let (mut sum, mut wrong) = (0_i64, None);
            let rows = transaction.on(table).range(
                Keys::ALL,
                usize::MAX,
                &mut |key, row| match rows::amount(row) {
                    Some(amount) => sum = sum.wrapping_add(amount),
                    None => wrong = Some(key.to_vec()),
                },
            )?;
            match wrong {
                Some(key) => {
                    let (key, name) = (key.escape_ascii(), tables[table]);
                    Err(StoreError::Inconsistent(format!("{key} of {name} is too short to be a row")))
                }
                None => Ok((sum, rows as u64)),
            }
        };
        let (branches, tellers, accounts) = (sum(BRANCHES)?.0, sum(TELLERS)?.0, sum(ACCOUNTS)?.0);
        let (history, transfers) = sum(HISTORY)?;
        transaction.commit()?;
        Ok(Totals { branches, tellers, accounts, history, transfers })
    }

    /// Checks that all sums agree. `carried` is the sum of the amounts in histories that were
    /// removed.
    ///
    /// # Errors
    /// [`StoreError::Inconsistent`] with all sums.
    pub fn check(&self, carried: i64) -> Result<()> {
        let Totals { branches, tellers, accounts, history, transfers } = *self;
        let expected = carried.wrapping_add(history);
        if [branches, tellers, accounts].iter().all(|sum| *sum == expected) {
            return Ok(());
        }
        Err(StoreError::Inconsistent(format!(
            "branches hold {branches}, tellers {tellers}, accounts {accounts}, but {transfers} transfers and those before make {expected}"
        )))
    }
}
