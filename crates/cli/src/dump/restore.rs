//! `restore-dump`: makes a new database from a dump.
//!
//! The database is made in a temporary folder beside the final one. The folder gets the final name
//! only after the whole dump was read and its last line was correct. So the final name stands for
//! the whole dump, or does not exist. A failure or a crash leaves the temporary folder, which can
//! be removed.

use super::check::Checked;
use super::format::{self, Line};
use crate::load::lines::{LINE_BYTES_MAX, next_line};
use clap::Args;
use katydid::{Database, Directory, FileDirectory, Table};
use katydid_command::bytes::{counted, grouped};
use katydid_command::database::{DatabaseDir, EngineFlags};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Numbers of rows and bytes after which a transaction is committed.
const BATCH_ROWS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;

/// Make a new database from a dump
///
/// The folder of the database must be new or empty. If the dump is cut off or changed, the command
/// makes no database, and the exit code is 1. A part of the rows is then in the folder
/// DIR.restoring, which can be removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid restore-dump db.jsonl --dir ./new\n  \
                        gunzip < fruit.jsonl.gz | katydid restore-dump --dir ./fruit --engine memory")]
pub struct RestoreDump {
    /// File of the dump; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    place: DatabaseDir,
}

impl RestoreDump {
    pub fn run(self) -> Result<()> {
        let to = &self.place.dir;
        let beside = beside(to)?;
        let input: Box<dyn BufRead> = match self.file.as_os_str() == "-" {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::with_capacity(1 << 16, self.open()?)),
        };
        let database = DatabaseDir { dir: beside.clone() }.open_or_create(&self.engine)?;
        let mut restoring = Restoring {
            database: &database,
            table: None,
            rows: Vec::new(),
            bytes: 0,
            found: Checked::default(),
            progress: Progress::new("restore-dump"),
        };
        let read = restoring.read(input);
        let Restoring { found, .. } = restoring;
        if let Err((line, why)) = read {
            drop(database);
            return Err(Failure::failed(format_args!(
                "{}: line {line}: {why}; a part of the rows is in {}, which can be removed",
                self.file.display(),
                beside.display()
            )));
        }
        database.close()?;
        take_name(&beside, to)?;
        say(format!("{} in {}", counted(found.rows, "row"), counted(found.tables, "table")))
    }

    fn open(&self) -> Result<File> {
        let cannot = |error| Failure::failed(format_args!("cannot read {}: {error}", self.file.display()));
        File::open(&self.file).map_err(cannot)
    }
}

/// Returns the path of the temporary folder, which does not exist yet.
fn beside(to: &Path) -> Result<PathBuf> {
    let is_taken = match fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(_) => true,
    };
    if is_taken {
        return Err(Failure::failed(format_args!(
            "{} is not empty: restore-dump needs a new or empty folder",
            to.display()
        )));
    }
    let Some(name) = to.file_name() else {
        return Err(Failure::usage(format_args!("{} does not end with the name of a folder", to.display())));
    };
    let mut beside = OsString::from(name);
    beside.push(".restoring");
    let beside = to.with_file_name(beside);
    match beside.exists() {
        true => Err(Failure::failed(format_args!(
            "{} exists, left by an earlier restore-dump: remove it first",
            beside.display()
        ))),
        false => Ok(beside),
    }
}

/// Renames the temporary folder to its final name, durably.
fn take_name(beside: &Path, to: &Path) -> Result<()> {
    fs::rename(beside, to).map_err(|error| {
        Failure::failed(format_args!("cannot rename {} to {}: {error}", beside.display(), to.display()))
    })?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(FileDirectory::open(parent)?.sync()?)
}

/// The number of a line, and its fault.
type Fault = (u64, String);

struct Restoring<'d> {
    database: &'d Database,
    table: Option<Table>,
    /// Rows that are not written yet, with the numbers of their lines.
    rows: Vec<(u64, Vec<u8>, Vec<u8>)>,
    bytes: usize,
    found: Checked,
    progress: Progress,
}

impl Restoring<'_> {
    /// Reads a dump to its end.
    fn read(&mut self, mut input: Box<dyn BufRead>) -> std::result::Result<(), Fault> {
        let mut number = 0;
        let mut is_ended = false;
        loop {
            number += 1;
            let wrong = |why: String| (number, why);
            let line = match next_line(&mut input, LINE_BYTES_MAX).map_err(wrong)? {
                Some(_) if is_ended => {
                    return Err(wrong("it comes after the last line of the dump".to_owned()));
                }
                None if is_ended => return Ok(()),
                None => return Err(wrong("the dump is cut off: its last line is missing".to_owned())),
                Some((line, _)) => line,
            };
            let read = format::read(&line).map_err(wrong)?;
            if (number == 1) != (read == Line::Header) {
                return Err(wrong(
                    "the first line of a dump, and no other line, has katydid_dump".to_owned(),
                ));
            }
            if let Line::End(end) = &read {
                self.put()?;
                if let Some(fault) = end.fault(&self.found) {
                    return Err(wrong(fault));
                }
                is_ended = true;
                continue;
            }
            self.found.add(&line);
            self.take(number, read)?;
        }
    }

    fn take(&mut self, number: u64, line: Line) -> std::result::Result<(), Fault> {
        match line {
            Line::Table(name) => {
                self.put()?;
                let table = self.database.table(&name).map_err(|error| (number, error.to_string()))?;
                self.table = Some(table);
                self.found.tables += 1;
            }
            Line::Row(key, value) => {
                if self.table.is_none() {
                    return Err((number, "it is a row before the first table".to_owned()));
                }
                self.bytes += key.len() + value.len();
                self.rows.push((number, key, value));
                self.found.rows += 1;
                if self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
                    self.put()?;
                }
            }
            Line::Header | Line::End(_) => {}
        }
        Ok(())
    }

    /// Writes the rows that were read since the last call. A fault has the line of the refused row,
    /// or of the last row if the commit fails.
    fn put(&mut self) -> std::result::Result<(), Fault> {
        let (rows, found) = (std::mem::take(&mut self.rows), self.found.rows);
        self.bytes = 0;
        let Some(table) = self.table.as_ref().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let mut at = 0;
        let written = self.database.transact(|txn| {
            rows.iter().try_for_each(|(number, key, value)| {
                at = *number;
                txn.insert(table, key, value)
            })
        });
        written.map_err(|error| (at, error.to_string()))?;
        self.progress.show(None, || format!("{} rows", grouped(found)));
        Ok(())
    }
}
