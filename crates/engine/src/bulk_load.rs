//! Bulk loads: the checks that need no engine.
//!
//! The thread of the caller does all work. The caller's iterator never runs inside of a `Call`
//! ([`crate::opening`]), so it may close the database.

use crate::body::Body;
use crate::contested::KeyExcerpt;
use crate::database::Database;
use crate::engine::{Engine, EngineLoad, EngineTable};
use crate::error::{Error, Result};
use crate::table::Table;
use crate::transaction::{check_key, check_value};

impl Database {
    /// Fills an empty table with `entries`, whose keys ascend. The table gets all entries or none.
    /// Returns the number of entries, which are durable when the call returns.
    ///
    /// A load is the fastest way to fill a table. Paged engine: the load builds full pages one
    /// after the other and logs pages instead of keys. Its memory does not grow with the number of
    /// entries, and it does not keep the log from being trimmed. Until the load ends, the table is
    /// empty for read views and locked for all other transactions. Memory engine: the load is one
    /// transaction that inserts all entries.
    ///
    /// A crash before the end leaves the table empty; the next opening frees the pages that the
    /// load has written (paged engine). Read views that are open before the end of the load go on
    /// seeing an empty table.
    ///
    /// For a load, the feed of the paged engine has one
    /// [`Change::TableLoaded`](crate::Change::TableLoaded) instead of the entries.
    ///
    /// ```
    /// # fn main() -> katydid::Result<()> {
    /// # let database = katydid::Database::in_memory()?;
    /// let squares = database.table("squares")?;
    /// let entries = (0..10_000_u32).map(|number| {
    ///     (number.to_be_bytes(), (u64::from(number) * u64::from(number)).to_string())
    /// });
    /// assert_eq!(database.bulk_load(&squares, entries)?, 10_000);
    /// assert_eq!(database.get(&squares, 12_u32.to_be_bytes())?.as_deref(), Some(&b"144"[..]));
    ///
    /// let unsorted = [("b", ""), ("a", "")];
    /// let refused = database.bulk_load(&database.table("letters")?, unsorted);
    /// assert!(matches!(refused, Err(katydid::Error::Unsorted { nth: 2, .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Error::Unsorted` if a key is not above the one before it; `Error::TableNotEmpty`;
    /// `Error::ReadOnly`; `Error::ForeignTable`, `Error::TableDropped`; `Error::KeyTooLong`,
    /// `Error::ValueTooLong`. `Error::Conflict` if transactions that use the table did not end in
    /// time; from the memory engine also if another transaction has put a key into the table.
    /// `Error::WaitsForItself` if one of these transactions belongs to the calling thread.
    /// `Error::Nested` inside of a body of [`Database::transact`]; the iterator gets the same error
    /// from calls that run a transaction of their own, like [`Database::get`]. `Error::LogFull`,
    /// `Error::MemoryFull` or `Error::NoSpace` if there is no room; `Error::Closed`; failures of
    /// the device. After `Error::Poisoned` the next opening decides whether the table has all
    /// entries or none. After any other error the table is unchanged.
    #[track_caller]
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &Table,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        self.try_bulk_load(table, entries.into_iter().map(Ok))
    }

    /// Fills an empty table as [`Database::bulk_load`] does, from an iterator that may fail. The
    /// first error of the iterator ends the load and is returned unchanged; the table stays empty.
    ///
    /// ```
    /// use std::io::{BufRead, BufReader};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = katydid::Database::in_memory()?;
    /// # let file: &[u8] = b"apple\npear\n";
    /// let words = database.table("words")?;
    /// let lines = BufReader::new(file).lines();
    /// let loaded = database.try_bulk_load(&words, lines.map(|line| {
    ///     line.map(|word| (word, "")).map_err(Box::<dyn std::error::Error>::from)
    /// }))?;
    /// assert_eq!(loaded, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of `entries`, unchanged. The errors of [`Database::bulk_load`], converted
    /// from [`Error`].
    #[track_caller]
    pub fn try_bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>, E: From<Error>>(
        &self,
        table: &Table,
        entries: impl IntoIterator<Item = std::result::Result<(K, V), E>>,
    ) -> std::result::Result<u64, E> {
        self.check_access()?;
        table.check(self.opening().id())?;
        let _body = Body::begin(self.key(), self.options().lock_wait)?;
        let mut load = self.of.load(&table.of)?;
        let (mut last, mut count) = (Vec::new(), 0);
        for entry in entries {
            let (key, value) = entry?;
            let key = check_key(table, key.as_ref())?;
            let value = check_value(table, key, value.as_ref())?;
            if count > 0 && last.as_slice() >= key {
                let table = table.of.name().to_string();
                return Err(Error::Unsorted { table, nth: count + 1, key: KeyExcerpt::of(key) }.into());
            }
            load.push(key, value)?;
            last.clear();
            last.extend_from_slice(key);
            count += 1;
        }
        load.finish()?;
        Ok(count)
    }
}
