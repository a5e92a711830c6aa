//! `load --sorted` and `load --sort`: load a whole file at once into an empty table.

use super::lines::{Event, Record};
use super::parse::Parser;
use super::sort::{Entry, Sorter};
use super::{Input, Source};
use crate::text;
use katydid::Database;
use katydid_command::bytes::{counted, shown};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use serde_json::json;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Bytes of entries that are sorted in memory at a time.
const SORT_BYTES: usize = 256 << 20;

/// Number of entries between two checks for a signal.
const LOOK: u64 = 1024;

/// The order of the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The keys ascend.
    Sorted,
    /// The keys have any order, and are sorted first.
    ToSort,
}

/// The keys and values of a file, in file order.
struct Rows<'s> {
    events: &'s Receiver<Event>,
    parser: &'s Parser,
    name: &'s str,
    batch: std::vec::IntoIter<Record>,
    progress: Progress,
    length: u64,
    /// Number of lines that were read, and bytes of their keys and values.
    lines: u64,
    bytes: u64,
}

impl Rows<'_> {
    fn bad_line(&self, number: u64, why: &str) -> Failure {
        let unit = self.parser.format.unit();
        Failure::failed(format_args!("{}: {unit} {number}: {why}; nothing was put", self.name))
    }

    /// Reads the next key and value, with the number of their line.
    fn next_row(&mut self) -> Result<Option<(u64, Entry)>> {
        loop {
            if let Some(Record { number, text }) = self.batch.next() {
                let entry =
                    self.parser.parse(&text).map_err(|why| self.bad_line(number, &why.to_string()))?;
                self.lines += 1;
                self.bytes += (entry.0.len() + entry.1.len()) as u64;
                return Ok(Some((number, entry)));
            }
            match self.events.recv() {
                Ok(Event::Batch(batch)) => {
                    let fraction = (self.length > 0).then(|| batch.bytes_read as f64 / self.length as f64);
                    let (lines, unit) = (self.lines, self.parser.format.unit());
                    self.progress.show(fraction, || format!("read {}", counted(lines, unit)));
                    self.batch = batch.records.into_iter();
                }
                Ok(Event::Broken(number, why)) => return Err(self.bad_line(number, &why)),
                Ok(Event::Stop) => return Err(stopped()),
                Ok(Event::End) | Err(_) => return Ok(None),
            }
        }
    }
}

fn stopped() -> Failure {
    Failure::failed("stopped by a signal; nothing was put")
}

impl Source {
    /// Loads all lines of the file at once into the table, which must be empty, and prints a
    /// report. `folder` is for entries that do not fit in memory.
    pub fn load_at_once(&self, input: Input, order: Order, database: &Database, folder: &Path) -> Result<()> {
        let started = Instant::now();
        let Input { parser, input, length, sender, events } = input;
        self.start_reading(&parser, input, sender)?;
        let name = self.file_name();
        let table = database.table(&self.table)?;
        let mut rows = Rows {
            events: &events,
            parser: &parser,
            name: &name,
            batch: Vec::new().into_iter(),
            progress: Progress::new(format!("load {}", text::escaped(self.table.as_bytes()))),
            length,
            lines: 0,
            bytes: 0,
        };
        let put = match order {
            Order::Sorted => database.try_bulk_load(&table, in_order(&mut rows))?,
            Order::ToSort => {
                let cannot = |error| Failure::failed(format_args!("{name}: cannot sort the lines: {error}"));
                let mut sorter = Sorter::new(folder, SORT_BYTES);
                while let Some((_, entry)) = rows.next_row()? {
                    sorter.push(entry).map_err(cannot)?;
                }
                let mut taken = 0;
                let entries = sorter.finish().map_err(cannot)?.map(|entry| {
                    taken += 1;
                    if taken % LOOK == 0 && matches!(events.try_recv(), Ok(Event::Stop)) {
                        return Err(stopped());
                    }
                    entry.map_err(cannot)
                });
                database.try_bulk_load(&table, entries)?
            }
        };
        let Rows { lines, bytes, .. } = rows;
        let (seconds, table) = (started.elapsed().as_secs_f64(), &self.table);
        say(match self.json {
            true => {
                json!({ "table": table, "lines": lines, "keys": put, "bytes": bytes, "seconds": seconds })
                    .to_string()
            }
            false => format!(
                "loaded {} ({}) in {seconds:.2} s: {} durable in table {table:?}",
                counted(lines, parser.format.unit()),
                shown(bytes),
                counted(put, "key"),
            ),
        })
    }
}

/// Returns the rows. If a row's key is not above the previous key, the row becomes an error that
/// names the row's line.
fn in_order(rows: &mut Rows<'_>) -> impl Iterator<Item = Result<Entry>> {
    let mut last: Option<Vec<u8>> = None;
    std::iter::from_fn(move || {
        let (number, (key, value)) = match rows.next_row().transpose()? {
            Ok(row) => row,
            Err(failure) => return Some(Err(failure)),
        };
        if last.as_ref().is_some_and(|last| *last >= key) {
            let unit = rows.parser.format.unit();
            let why = format!(
                "its key \"{}\" is not above that of the {unit} before it (--sort sorts the file first)",
                text::escaped(&key)
            );
            return Some(Err(rows.bad_line(number, &why)));
        }
        last = Some(key.clone());
        Some(Ok((key, value)))
    })
}
