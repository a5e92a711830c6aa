//! Conditions that hold after any number of transactions: every row has legal values and belongs to
//! a loaded subscriber, and each table has the expected number of rows.

use super::population::{Counts, START_TIMES};
use super::rows::{self, AccessInfo, CallForwarding, SpecialFacility, Subscriber};
use super::settings::Settings;
use super::tables::{
    ACCESS_INFO, CALL_FORWARDING, SPECIAL_FACILITY, SUBSCRIBER, SUBSCRIBER_BY_NUMBER, TABLES,
};
use crate::row::Row;
use crate::store::{Client, Intent, Keys, Result, Shown, Store, StoreError, Transaction};

/// Result of reading all tables in one transaction: the number of rows of each table, and the first
/// fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Number of rows of each table.
    rows: [u64; TABLES.len()],
    fault: Option<Fault>,
}

/// Fault of a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The number of rows differs from the number loaded plus inserted minus deleted.
    #[error("table {table} has {found} rows, not {expected}")]
    Rows {
        /// The table.
        table: &'static str,
        /// Number of rows found.
        found: u64,
        /// Number of rows that there should be.
        expected: u64,
    },
    /// A row cannot be decoded, has a wrong value, or refers to a missing row.
    #[error("{key} of {table} {how}")]
    Row {
        /// The table.
        table: &'static str,
        /// The row's key.
        key: String,
        /// The fault.
        how: &'static str,
    },
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        StoreError::Inconsistent(fault.to_string())
    }
}

const CUT: &str = "is no row";
const OF_NOBODY: &str = "is of no subscriber";

/// Verdict on a row: sound, or its fault.
type Verdict = std::result::Result<(), &'static str>;

fn ensure(holds: bool, how: &'static str) -> Verdict {
    if holds { Ok(()) } else { Err(how) }
}

impl State {
    /// Reads all tables.
    ///
    /// # Errors
    /// Those of the store. [`check`](Self::check) reports wrong rows.
    pub fn read<S: Store>(store: &S, settings: &Settings) -> Result<State> {
        let mut client = store.client(&TABLES)?;
        let mut transaction = client.begin(Intent::ReadOnly)?;
        let mut state = State { rows: [0; TABLES.len()], fault: None };
        let known = 1..=settings.subscribers;
        // For each subscriber, one bit for each type of special facility.
        let mut facilities = vec![0_u8; settings.subscribers as usize + 1];
        state.each(&mut transaction, SUBSCRIBER, |key, row| {
            let subscriber = rows::read_subscriber(key).ok_or(CUT)?;
            let row = Subscriber::read(row).ok_or(CUT)?;
            ensure(known.contains(&subscriber), "was never loaded")?;
            ensure(row.number == rows::number(subscriber), "has the number of another one")?;
            let small = row.bits.iter().all(|bit| *bit < 2) && row.hexes.iter().all(|hex| *hex < 16);
            ensure(small && row.msc_location > 0 && row.vlr_location > 0, "has values out of range")
        })?;
        state.each(&mut transaction, SUBSCRIBER_BY_NUMBER, |key, row| {
            let subscriber = rows::read_subscriber(row).ok_or(CUT)?;
            ensure(known.contains(&subscriber), "leads to nobody")?;
            ensure(key == rows::number(subscriber), "leads to one who has another number")
        })?;
        state.each(&mut transaction, ACCESS_INFO, |key, row| {
            let (subscriber, [kind]) = rows::split(key).ok_or(CUT)? else { return Err(CUT) };
            AccessInfo::read(row).ok_or(CUT)?;
            ensure(known.contains(&subscriber), OF_NOBODY)?;
            ensure((1..=4).contains(kind), "is of no known type")
        })?;
        state.each(&mut transaction, SPECIAL_FACILITY, |key, row| {
            let (subscriber, [kind]) = rows::split(key).ok_or(CUT)? else { return Err(CUT) };
            let row = SpecialFacility::read(row).ok_or(CUT)?;
            ensure(known.contains(&subscriber), OF_NOBODY)?;
            ensure((1..=4).contains(kind) && row.active < 2, "is of no known type")?;
            facilities[subscriber as usize] |= 1 << kind;
            Ok(())
        })?;
        state.each(&mut transaction, CALL_FORWARDING, |key, row| {
            let (subscriber, [kind, start]) = rows::split(key).ok_or(CUT)? else { return Err(CUT) };
            let row = CallForwarding::read(row).ok_or(CUT)?;
            ensure(known.contains(&subscriber), OF_NOBODY)?;
            let there = *kind < 8 && facilities[subscriber as usize] & (1 << kind) != 0;
            ensure(there, "is of a special facility that is not there")?;
            ensure(START_TIMES.contains(start) && (1..=24).contains(&row.end_time), "is at no known time")?;
            ensure(row.number.iter().all(u8::is_ascii_digit), "leads to no number")
        })?;
        transaction.commit()?;
        Ok(state)
    }

    /// Number of call forwardings.
    pub fn call_forwardings(&self) -> u64 {
        self.rows[CALL_FORWARDING]
    }

    /// Checks that no row is wrong, and that each table has the expected number of rows.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, expected: &Counts) -> std::result::Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        // Keys are distinct, and each belongs to a loaded subscriber. So if the numbers agree, no
        // subscriber and no telephone number is missing. In each other table the number shows a
        // missing row, unless the table also has a row too many.
        let expected = [
            expected.subscribers,
            expected.access_infos,
            expected.special_facilities,
            expected.call_forwardings,
            expected.subscribers,
        ];
        for ((table, found), expected) in TABLES.into_iter().zip(self.rows).zip(expected) {
            if found != expected {
                return Err(Fault::Rows { table, found, expected });
            }
        }
        Ok(())
    }

    /// Passes every row of a table to `judge`, and stores the first fault.
    fn each<T: Transaction>(
        &mut self,
        transaction: &mut T,
        table: usize,
        mut judge: impl FnMut(&[u8], &[u8]) -> Verdict,
    ) -> Result<()> {
        let fault = &mut self.fault;
        let seen = transaction.on(table).range(Keys::ALL, usize::MAX, &mut |key, row| {
            if let (Err(how), None) = (judge(key, row), &fault) {
                *fault = Some(Fault::Row { table: TABLES[table], key: Shown(key).to_string(), how });
            }
        })?;
        self.rows[table] = seen as u64;
        Ok(())
    }
}
