//! What must be so after any number of transactions: all rows are there, and the index leads to each and to nothing else.

use super::{BY_K, ROWS, Settings, TABLES, rows};
use crate::store::{Client, Intent, Keys, Result, Shown, Store, StoreError, Transaction};
use std::collections::HashMap;

/// The table and its index, read in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// `k` of each row.
    rows: HashMap<u64, u32>,
    /// What the index says.
    entries: Vec<(u32, u64)>,
}

/// What is wrong with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There are not as many rows as were loaded.
    #[error("there are {found} rows, but {loaded} were loaded")]
    Rows {
        /// How many there are.
        found: u64,
        /// How many there should be.
        loaded: u64,
    },
    /// There are not as many entries in the index as rows.
    #[error("the index has {found} entries, but there are {rows} rows")]
    Entries {
        /// How many there are.
        found: u64,
        /// How many there should be.
        rows: u64,
    },
    /// An entry leads to a row that has another `k`, or is not there.
    #[error("the index leads from {k} to row {number}, which has {found:?}")]
    Entry {
        /// What the entry says.
        k: u32,
        /// The row it leads to.
        number: u64,
        /// `k` of that row, if there is one.
        found: Option<u32>,
    },
}

impl State {
    /// Reads everything.
    ///
    /// # Errors
    /// Those of the store; [`StoreError::Inconsistent`] names a row that is none.
    pub fn read<S: Store>(store: &S) -> Result<State> {
        let mut client = store.client(&TABLES)?;
        let mut transaction = client.begin(Intent::ReadOnly)?;
        let (mut state, mut wrong) = (State::default(), None);
        transaction.on(ROWS).range(Keys::ALL, usize::MAX, &mut |key, row| match rows::number(key)
            .zip(rows::k(row))
        {
            Some((number, k)) => drop(state.rows.insert(number, k)),
            None => wrong = Some((ROWS, key.to_vec())),
        })?;
        transaction.on(BY_K).range(Keys::ALL, usize::MAX, &mut |key, _| match rows::entry(key) {
            Some(entry) => state.entries.push(entry),
            None => wrong = Some((BY_K, key.to_vec())),
        })?;
        transaction.commit()?;
        match wrong {
            None => Ok(state),
            Some((table, key)) => {
                let text = format!("{} of {} is no row", Shown(&key), TABLES[table]);
                Err(StoreError::Inconsistent(text))
            }
        }
    }

    /// The sum of all `k`.
    pub fn sum(&self) -> u64 {
        self.rows.values().map(|k| u64::from(*k)).sum()
    }

    /// Checks that rows and index agree, and that all are there.
    ///
    /// # Errors
    /// The first fault that is found.
    pub fn check(&self, settings: &Settings) -> std::result::Result<(), Fault> {
        let (found, entries) = (self.rows.len() as u64, self.entries.len() as u64);
        if found != settings.rows {
            return Err(Fault::Rows { found, loaded: settings.rows });
        }
        for &(k, number) in &self.entries {
            let found = self.rows.get(&number).copied();
            if found != Some(k) {
                return Err(Fault::Entry { k, number, found });
            }
        }
        match entries == found {
            true => Ok(()),
            false => Err(Fault::Entries { found: entries, rows: found }),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        StoreError::Inconsistent(fault.to_string())
    }
}
