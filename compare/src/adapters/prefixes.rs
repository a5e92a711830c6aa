//! Tables in stores that have only one key space: the keys of a table begin with a byte of their
//! own, as in SurrealDB and MyRocks. The store keeps the byte of each table under a key that begins
//! with 0.

use katydid_workload::{Result, StoreError};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The known bytes by table name.
#[derive(Debug, Default)]
pub struct Prefixes(Mutex<HashMap<String, u8>>);

/// Storage of the entries that name the tables' bytes.
pub trait Kept {
    /// Reads the value of a key.
    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Stores a value.
    fn write(&self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The key under which the number of tables is kept. No table's byte is kept under the same key,
/// because no table has an empty name.
const MANY: &[u8] = &[0];

impl Prefixes {
    /// The byte of a table. Allocates a byte for a new table; only one thread does so at a time,
    /// because this function holds the lock.
    pub fn of(&self, name: &str, kept: &impl Kept) -> Result<u8> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prefix) = known.get(name) {
            return Ok(*prefix);
        }
        let key = [MANY, name.as_bytes()].concat();
        let prefix = match kept.read(&key)?.as_deref() {
            Some([prefix]) => *prefix,
            Some(_) => return Err(StoreError::Inconsistent(format!("the entry of table {name} is none"))),
            None => {
                let many = kept.read(MANY)?.and_then(|value| value.first().copied()).unwrap_or(0);
                let prefix = many.checked_add(1).filter(|prefix| *prefix < u8::MAX);
                let prefix = prefix.ok_or_else(|| StoreError::Failed("there are too many tables".into()))?;
                kept.write(MANY, &[prefix])?;
                kept.write(&key, &[prefix])?;
                prefix
            }
        };
        known.insert(name.to_owned(), prefix);
        Ok(prefix)
    }
}

/// A key with its table's byte in front.
pub fn full(prefix: u8, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(key.len() + 1);
    full.push(prefix);
    full.extend_from_slice(key);
    full
}

/// End of a range: `to` with the table's byte, or the end of the table's keys.
pub fn end(prefix: u8, to: Option<&[u8]>) -> Vec<u8> {
    to.map_or_else(|| vec![prefix + 1], |to| full(prefix, to))
}
