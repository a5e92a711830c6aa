//! Unique numbers, which are not part of the transaction that asks for one: a rollback does not
//! make a number available again.
//!
//! Any thread may call this code. Invariant: a number is returned only after a durable commit has
//! set the stored value above it. So no number is returned twice, neither by two handles nor after
//! a crash.
//!
//! Latch: `reserved`, held during the transaction that reserves numbers.

use crate::Durability;
use crate::contested::KeyExcerpt;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::options::TransactionOptions;
use crate::table::Table;
use crate::transaction::{Transaction, check_key};
use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::ops::Range;

/// The first number of a sequence whose key has no value.
const FIRST: u64 = 1;

/// Numbers that grow and are never returned twice, like SQL's sequences. See
/// [`Database::sequence`].
///
/// A sequence reserves several numbers at a time, so most calls of [`Sequence::next`] neither
/// commit nor wait. Reserved numbers that were not returned when the handle is dropped or the
/// process ends are lost. A sequence keeps the database open.
#[derive(Debug)]
pub struct Sequence {
    database: Database,
    table: Table,
    key: Vec<u8>,
    at_once: NonZeroU64,
    reserved: Mutex<Range<u64>>,
}

impl Database {
    /// Returns the sequence whose state is stored at `key` in `table`. Use that key for nothing
    /// else. The numbers begin with 1. The sequence reserves `at_once` numbers in one durable
    /// commit, and reads and reserves nothing before the first call of [`Sequence::next`].
    ///
    /// The value at `key` is the first number that is not reserved, in 8 bytes with the most
    /// significant byte first. To start at another number, store that number at `key`.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let (orders, numbers) = (database.table("orders")?, database.table("numbers")?);
    /// let ids = database.sequence(&numbers, "orders", 100.try_into().expect("not zero"))?;
    /// database.transact(|txn| txn.put(&orders, ids.next()?.to_be_bytes(), "two apples"))?;
    /// assert_eq!(database.get(&orders, 1u64.to_be_bytes())?, Some(b"two apples".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::ForeignTable`; `Error::KeyTooLong`.
    pub fn sequence(&self, table: &Table, key: impl AsRef<[u8]>, at_once: NonZeroU64) -> Result<Sequence> {
        table.check(self.opening().id())?;
        let key = check_key(table, key.as_ref())?.to_owned();
        Ok(Sequence {
            database: self.clone(),
            table: table.clone(),
            key,
            at_once,
            reserved: Mutex::new(0..0),
        })
    }
}

impl Sequence {
    /// Returns the next number, which is greater than all numbers that this handle has returned
    /// before. Numbers that this handle skips may be returned by other handles on the same key.
    ///
    /// The call may be made inside the body of [`Database::transact`], but is not part of the
    /// transaction: a number is not returned again if the transaction rolls back, or if the body
    /// runs again.
    ///
    /// # Errors
    /// `Error::Sequence` if the value at the key is not that of a sequence, or no number is left.
    /// If the call has to reserve numbers, also the errors of [`Database::begin`], of reading and
    /// writing the key, and of [`Transaction::commit`]. After a conflict the call tries again, at
    /// most `AdvancedOptions::retries` times, and then returns the conflict.
    pub fn next(&self) -> Result<u64> {
        let mut reserved = self.reserved.lock();
        if reserved.is_empty() {
            *reserved = self.reserve()?;
        }
        let number = reserved.start;
        reserved.start += 1;
        Ok(number)
    }

    fn reserve(&self) -> Result<Range<u64>> {
        let options = TransactionOptions { durability: Durability::Durable, ..TransactionOptions::default() };
        let mut left = self.database.options().advanced.retries;
        loop {
            let txn = self.database.begin_with(options)?;
            let outcome = match self.advance(&txn) {
                Ok(range) => txn.commit().map(|_| range),
                Err(error) => txn.rollback().and(Err(error)),
            };
            match outcome {
                Err(error) if left > 0 && error.asks_to_run_again() => left -= 1,
                outcome => return outcome,
            }
            std::thread::yield_now();
        }
    }

    fn advance(&self, txn: &Transaction) -> Result<Range<u64>> {
        let refused = |finding| Error::Sequence {
            table: self.table.name().to_owned(),
            key: KeyExcerpt::of(&self.key),
            finding,
        };
        let from = match txn.get_for_update(&self.table, &self.key)? {
            None => FIRST,
            Some(value) => {
                let value =
                    value.try_into().map_err(|_| refused("the value at its key is not 8 bytes long"))?;
                u64::from_be_bytes(value)
            }
        };
        let to = from.saturating_add(self.at_once.get());
        if from == to {
            return Err(refused("its last number was given out"));
        }
        txn.put(&self.table, &self.key, to.to_be_bytes())?;
        Ok(from..to)
    }
}
