//! `get`, `put` and `delete` of one key, and `delete` of all keys with a prefix.

use crate::key_range::key;
use crate::text;
use clap::Args;
use katydid::{Prefix, VALUE_BYTES_MAX};
use katydid_command::bytes::counted;
use katydid_command::database::{self, DatabaseDir, EngineFlags, close_after};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::stderr::warn;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

fn not_found(table: &str, key: &str) -> Failure {
    warn(format_args!("katydid: key {key:?} is not in table {table:?}"));
    Failure::Said
}

/// Print `key<TAB>value` of one key
///
/// The exit code is 1 if the key is absent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid get --dir ./db unicode 1F600\n  \
                        katydid get --dir ./db images logo --raw > logo.png")]
pub struct Get {
    /// Name of the table
    table: String,
    /// Key; \xNN stands for a byte, \\ for a backslash
    key: String,
    /// Print one JSON object
    #[arg(long, conflicts_with = "raw")]
    json: bool,
    /// Print only the value, without escapes and without a line end
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Get {
    pub fn run(self) -> Result<()> {
        let key = key(&self.key)?;
        let mut look = self.place.look()?;
        let value = look.get(&self.table, &key)?;
        let printed = match value {
            Some(value) => {
                let mut out = Output::new();
                let printed = match self.raw {
                    true => out.bytes(&value),
                    false => print_entry(&mut out, &key, &value, self.json),
                };
                printed.and_then(|()| out.flush())
            }
            None => Err(not_found(&self.table, &self.key)),
        };
        look.finish(printed)
    }
}

/// Prints one key and its value.
pub fn print_entry(out: &mut Output, key: &[u8], value: &[u8], as_json: bool) -> Result<()> {
    if as_json {
        let mut object = Map::new();
        text::put_json(&mut object, "key", key);
        text::put_json(&mut object, "value", value);
        return out.json(&Value::Object(object));
    }
    let mut line = Vec::with_capacity(key.len() + value.len() + 1);
    text::escape(key, &mut line);
    line.push(b'\t');
    text::escape(value, &mut line);
    out.line(line)
}

/// Set the value of one key
///
/// The command creates the database and the table if they are missing. The value is durable when
/// the command returns.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid put --dir ./db fruit apple 'red, sweet'\n  \
                        katydid put --dir ./db images logo --value-file logo.png")]
pub struct Put {
    /// Name of the table
    table: String,
    /// Key; \xNN stands for a byte, \\ for a backslash
    key: String,
    /// Value, with the same escapes as the key
    #[arg(required_unless_present = "value_file")]
    value: Option<String>,
    /// Read the value from this file, without escapes
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    value_file: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Put {
    pub fn run(self) -> Result<()> {
        let key = key(&self.key)?;
        let value = match (&self.value, &self.value_file) {
            (_, Some(file)) => value_of(file)?,
            (Some(value), None) => {
                text::argument(value).map_err(|error| Failure::usage(format_args!("the value: {error}")))?
            }
            (None, None) => return Err(Failure::usage("a value is needed")),
        };
        let database = self.place.open_or_create(&self.engine)?;
        let table = database.table(&self.table)?;
        database.put(&table, key, value)?;
        Ok(database.close()?)
    }
}

/// Reads a value from a file: no more bytes than the longest value has, because the file may be
/// endless.
fn value_of(file: &Path) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    let read =
        File::open(file).and_then(|opened| opened.take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut value));
    read.map_err(|error| Failure::failed(format_args!("cannot read {}: {error}", file.display())))?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(Failure::failed(format_args!(
            "{} has more than {VALUE_BYTES_MAX} bytes, the length of the longest value",
            file.display()
        )));
    }
    Ok(value)
}

/// Remove one key, or all keys with a prefix
///
/// With --prefix the command removes all keys in one transaction, and prints their number. The
/// removal is durable when the command returns. Without --prefix the exit code is 1 if the key is
/// absent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid delete --dir ./db fruit apple\n  \
                        katydid delete --dir ./db log --prefix 2025-")]
pub struct Delete {
    /// Name of the table
    table: String,
    /// Key; \xNN stands for a byte, \\ for a backslash
    #[arg(required_unless_present = "prefix")]
    key: Option<String>,
    /// Remove all keys that begin with KEY
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    prefix: Option<String>,
    /// Print the number of removed keys as one JSON object
    #[arg(long, requires = "prefix")]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Delete {
    pub fn run(self) -> Result<()> {
        let (written, is_prefix) = match (&self.key, &self.prefix) {
            (_, Some(prefix)) => (prefix, true),
            (Some(key), None) => (key, false),
            (None, None) => return Err(Failure::usage("a key or --prefix is needed")),
        };
        let bytes = key(written)?;
        let database = self.place.open()?;
        let table = database::table(&database, &self.table)?;
        let outcome = if is_prefix {
            let count = database.transact(|txn| txn.delete_range(&table, Prefix(&bytes)))?;
            let mut out = Output::new();
            let printed = match self.json {
                true => out.json(&json!({ "deleted": count })),
                false => out.line(format!("{} deleted", counted(count, "key"))),
            };
            printed.and_then(|()| out.flush())
        } else if database.delete(&table, bytes)? {
            Ok(())
        } else {
            Err(not_found(&self.table, written))
        };
        close_after(&database, outcome)
    }
}
