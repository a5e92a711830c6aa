//! Record of the data that earlier runs of `bench` left in a database. The table `katydid_bench`
//! states, for each workload or table, the shape and progress of its data.
//!
//! An entry says `finished` only while no run is under way, so that the next run notices a run that
//! was killed.

use katydid::{Database, Table};
use katydid_command::failure::{Failure, Result};
use serde_json::{Value, json};

/// Entry of one table, or of the tables of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Description of the contents. Different contents have different descriptions.
    pub shape: String,
    /// The tables, if they differ from the entry's name.
    pub tables: Vec<String>,
    /// Seed of random content.
    pub seed: u64,
    /// Number of the next new record of YCSB, or of the next run of another workload.
    pub next: u64,
    /// Number of keys, or of other counted rows.
    pub count: u64,
    /// True if the last run ended normally.
    pub finished: bool,
}

impl Entry {
    /// Decodes the entry called `name`.
    pub fn parse(name: &str, text: &[u8]) -> Result<Entry> {
        let value: Value = serde_json::from_slice(text).map_err(|error| {
            Failure::failed(format_args!("the entry of {name:?} in table {LEDGER}: {error}"))
        })?;
        Ok(Entry {
            shape: value["shape"].as_str().unwrap_or_default().to_owned(),
            tables: names(&value["tables"]),
            seed: value["seed"].as_u64().unwrap_or_default(),
            next: value["next"].as_u64().unwrap_or_default(),
            count: value["count"].as_u64().unwrap_or_default(),
            finished: value["finished"].as_bool().unwrap_or_default(),
        })
    }

    /// The entry as text.
    pub fn text(&self) -> String {
        let Entry { shape, tables, seed, next, count, finished } = self;
        let value = json!({
            "shape": shape, "tables": tables, "seed": seed, "next": next, "count": count, "finished": finished,
        });
        value.to_string()
    }
}

/// The table of entries.
#[derive(Debug)]
pub struct Ledger {
    database: Database,
    table: Table,
}

/// Name of the table of entries.
pub const LEDGER: &str = "katydid_bench";

impl Ledger {
    /// The ledger of a database. Creates the table if it is missing.
    pub fn open(database: &Database) -> Result<Ledger> {
        Ok(Ledger { table: database.table(LEDGER)?, database: database.clone() })
    }

    /// The entry called `name`, if there is one.
    pub fn read(&self, name: &str) -> Result<Option<Entry>> {
        let bytes = self.database.get(&self.table, name)?;
        bytes.map(|bytes| Entry::parse(name, &bytes)).transpose()
    }

    /// Writes the entry called `name` durably.
    pub fn write(&self, name: &str, entry: &Entry) -> Result<()> {
        self.database.put(&self.table, name, entry.text())?;
        Ok(self.database.sync().map(drop)?)
    }

    /// Deletes the entry called `name`, and drops these tables and the entry's tables. After a
    /// crash between the two steps, no run takes the remaining tables for loaded data.
    pub fn forget(&self, name: &str, tables: &[&str]) -> Result<()> {
        let known = self.read(name).ok().flatten().unwrap_or_default();
        self.database.delete(&self.table, name)?;
        for table in tables.iter().copied().chain(known.tables.iter().map(String::as_str)) {
            self.database.drop_table(table)?;
        }
        Ok(())
    }
}

fn names(value: &Value) -> Vec<String> {
    let names = value.as_array().into_iter().flatten();
    names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// Counts the keys of a table.
pub fn count(database: &Database, name: &str) -> Result<u64> {
    let Some(table) = database.open_table(name)? else { return Ok(0) };
    let transaction = database.begin()?;
    let mut keys = 0;
    for entry in transaction.range(&table, ..) {
        entry?;
        keys += 1;
    }
    transaction.rollback()?;
    Ok(keys)
}
