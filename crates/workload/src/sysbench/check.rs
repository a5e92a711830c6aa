//! Conditions that hold after any number of transactions: all rows exist, and each index has
//! exactly one entry for each row.

use super::{Settings, Table, rows};
use crate::row;
use crate::store::{Client, Intent, Keys, Result, Store, StoreError, Transaction};
use std::collections::HashMap;

/// The tables and their indexes, read in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    tables: Vec<TableTotals>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct TableTotals {
    /// Value of `k` of each row, by the row's number.
    rows: HashMap<u64, u32>,
    /// `k` and the row's number in each entry of the index.
    entries: Vec<(u32, u64)>,
}

/// Fault of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The number of rows differs from the number loaded.
    #[error("table {table} has {found} rows, but {loaded} were loaded")]
    Rows {
        /// The table, counted from 1.
        table: u32,
        /// Number of rows found.
        found: u64,
        /// Number of rows loaded.
        loaded: u64,
    },
    /// The number of entries in the index differs from the number of rows.
    #[error("the index of table {table} has {found} entries, but there are {rows} rows")]
    Entries {
        /// The table, counted from 1.
        table: u32,
        /// Number of entries found.
        found: u64,
        /// Number of rows.
        rows: u64,
    },
    /// An index entry leads to a row with another `k`, or to no row.
    #[error("the index of table {table} leads from {k} to row {number}, which has {found:?}")]
    Entry {
        /// The table, counted from 1.
        table: u32,
        /// Value in the entry.
        k: u32,
        /// The row to which the entry leads.
        number: u64,
        /// `k` of that row, if there is one.
        found: Option<u32>,
    },
}

impl State {
    /// Reads all tables and indexes.
    ///
    /// # Errors
    /// Those of the store. [`StoreError::Inconsistent`] names a row that cannot be decoded.
    pub fn read<S: Store>(store: &S, settings: &Settings) -> Result<State> {
        let names = settings.table_names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut client = store.client(&names)?;
        let mut transaction = client.begin(Intent::ReadOnly)?;
        let tables = (0..settings.tables).map(|table| TableTotals::read(&mut transaction, Table(table)));
        let state = State { tables: tables.collect::<Result<_>>()? };
        transaction.commit()?;
        Ok(state)
    }

    /// Number of rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows.len() as u64).sum()
    }

    /// The sum of all `k`.
    pub fn sum(&self) -> u64 {
        self.tables.iter().flat_map(|table| table.rows.values()).map(|k| u64::from(*k)).sum()
    }

    /// Checks that all rows and entries are present, and that they agree.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, settings: &Settings) -> std::result::Result<(), Fault> {
        (1..).zip(&self.tables).try_for_each(|(table, of)| of.check(table, settings.rows))
    }
}

impl TableTotals {
    fn read<T: Transaction>(transaction: &mut T, table: Table) -> Result<TableTotals> {
        let (mut of, mut wrong) = (TableTotals::default(), None);
        transaction.on(table.rows()).range(Keys::ALL, usize::MAX, &mut |key, row| match rows::number(key)
            .zip(rows::k(row))
        {
            Some((number, k)) => drop(of.rows.insert(number, k)),
            None => wrong = Some(row::wrong(&table.name(), key, "is no row")),
        })?;
        transaction.on(table.by_k()).range(Keys::ALL, usize::MAX, &mut |key, _| match rows::entry(key) {
            Some(entry) => of.entries.push(entry),
            None => wrong = Some(row::wrong(&format!("the index of {}", table.name()), key, "is no entry")),
        })?;
        wrong.map_or(Ok(of), Err)
    }

    fn check(&self, table: u32, loaded: u64) -> std::result::Result<(), Fault> {
        let (found, entries) = (self.rows.len() as u64, self.entries.len() as u64);
        if found != loaded {
            return Err(Fault::Rows { table, found, loaded });
        }
        for &(k, number) in &self.entries {
            let found = self.rows.get(&number).copied();
            if found != Some(k) {
                return Err(Fault::Entry { table, k, number, found });
            }
        }
        match entries == found {
            true => Ok(()),
            false => Err(Fault::Entries { table, found: entries, rows: found }),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        StoreError::Inconsistent(fault.to_string())
    }
}
