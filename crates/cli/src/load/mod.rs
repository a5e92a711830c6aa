//! `load`: puts the lines of a file into a table, durably and in file order.
//!
//! `bulk` and `sort` load a whole file at once, in key order.
//!
//! All other loads are in batches: one thread reads the file, and the main thread parses and
//! commits one batch at a time, and waits until the batch is durable. A crash at any point leaves
//! whole batches: all acknowledged ones, and perhaps the next one.

mod bulk;
pub mod lines;
pub mod parse;
mod sort;

use crate::text;
use bulk::Order;
use clap::Args;
use katydid::Database;
use katydid_command::bytes::{counted, grouped, shown};
use katydid_command::database::{DatabaseDir, EngineFlags, close_after, listen};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use katydid_command::signals;
use lines::{Batch, Csv, Event, Lines, Record};
use parse::{Format, Parser};
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Put the lines of a file into a table, durably and in file order
///
/// The command creates the database and the table if they are missing. In a TSV file the key is the
/// first field (or --key-column), and the value is the rest of the line. In a CSV file fields may
/// be in quotes. The value is the field that is not the key or, if there are several such fields, a
/// CSV record of them. In a JSON Lines file each line is an object with "key" and "value". Lines
/// end in \n or \r\n. A key that exists already gets the new value.
///
/// Each batch of lines is one transaction, and is acknowledged when it is durable. A line that
/// cannot be read ends the load; the lines before it are kept. SIGINT and SIGTERM end the load
/// after the current batch. Other commands can read the database during the load.
///
/// With --sorted or --sort the whole file is loaded into an empty table at once: all lines or,
/// after a failure or a crash, none. This is faster, and packs the table densely.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid load --dir ./db unicode UnicodeData.txt --separator ';'\n  \
                        katydid scan --dir ./db fruit | katydid load --dir ./other fruit -\n  \
                        katydid load --dir ./db events events.jsonl --batch 100 --acks\n  \
                        katydid load --dir ./fast events events.jsonl --engine memory\n  \
                        LC_ALL=C sort words.tsv | katydid load --dir ./db words - --sorted\n  \
                        katydid load --dir ./db words words.tsv --sort")]
pub struct Load {
    #[command(flatten)]
    source: Source,
    /// Load all lines at once into an empty table; the keys must ascend by their bytes
    ///
    /// A line that is out of order ends the load, and the message has its number.
    #[arg(long, conflicts_with_all = ["batch", "acks"])]
    sorted: bool,
    /// Sort the lines by their keys, and load them all at once into an empty table
    ///
    /// The command sorts 256 MiB at a time in memory, and keeps sorted lines in files in the
    /// database's folder. Of several lines with the same key the last one counts.
    #[arg(long, conflicts_with_all = ["sorted", "batch", "acks"])]
    sort: bool,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    place: DatabaseDir,
}

/// The file to load, and the format of its lines.
#[derive(Debug, Args)]
pub struct Source {
    /// Name of the table
    table: String,
    /// File to load; - is standard input
    file: PathBuf,
    /// Format of the lines [default: jsonl for *.jsonl, *.ndjson and *.json, csv for *.csv, else
    /// tsv]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Separator of the fields: text in a TSV file, one byte in a CSV file [default: a tab; a comma
    /// in a CSV file]
    ///
    /// \t stands for a tab, and \xNN for the byte with the hexadecimal number NN.
    #[arg(long, value_name = "TEXT")]
    separator: Option<String>,
    /// Skip the first record of a CSV file, which names the columns
    #[arg(long)]
    header: bool,
    /// Number of the field that is the key, counted from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    key_column: u16,
    /// Read backslashes in TSV and CSV files literally, not as escapes
    #[arg(long)]
    raw: bool,
    /// Maximum number of lines in a transaction
    ///
    /// A transaction of fewer lines also ends when it has 4 MiB.
    #[arg(long, value_name = "LINES", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Print "acknowledged N lines" on standard output after each durable batch
    #[arg(long)]
    acks: bool,
    /// Print one JSON object at the end
    #[arg(long, conflicts_with = "acks")]
    json: bool,
}

impl Load {
    pub fn run(self) -> Result<()> {
        let input = self.source.open()?;
        let database = self.place.open_or_create(&self.engine)?;
        let socket = listen(&database, &self.place.dir);
        let result = match self.order() {
            Some(order) => self.source.load_at_once(input, order, &database, &self.place.dir),
            None => self.load_in_batches(input, &database),
        };
        drop(socket);
        // All acknowledged lines are durable already; closing only makes the next opening fast.
        close_after(&database, result)
    }
}

impl Load {
    fn order(&self) -> Option<Order> {
        match (self.sorted, self.sort) {
            (true, _) => Some(Order::Sorted),
            (_, true) => Some(Order::ToSort),
            _ => None,
        }
    }

    fn load_in_batches(&self, input: Input, database: &Database) -> Result<()> {
        let table = database.table(&self.source.table)?;
        self.source.load(input, |entries| {
            Ok(database.transact(|transaction| {
                entries.iter().try_for_each(|(key, value)| transaction.put(&table, key, value))
            })?)
        })
    }
}

/// An open file of which no line is read yet.
pub struct Input {
    parser: Parser,
    input: Box<dyn Read + Send>,
    /// Bytes in the file; 0 if that is not known.
    length: u64,
    sender: SyncSender<Event>,
    events: Receiver<Event>,
}

impl Source {
    /// Returns the name of the table.
    #[cfg(feature = "replica")]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Opens the file, and begins to watch for signals.
    pub fn open(&self) -> Result<Input> {
        let parser = self.parser()?;
        let (input, length): (Box<dyn Read + Send>, u64) = if self.file == Path::new("-") {
            (Box::new(std::io::stdin()), 0)
        } else {
            let cannot = |error: std::io::Error| {
                Failure::failed(format_args!("cannot read {}: {error}", self.file.display()))
            };
            let file = File::open(&self.file).map_err(cannot)?;
            let metadata = file.metadata().map_err(cannot)?;
            if metadata.is_dir() {
                return Err(Failure::failed(format_args!(
                    "cannot read {}: it is a folder",
                    self.file.display()
                )));
            }
            (Box::new(file), metadata.len())
        };
        let (sender, events) = sync_channel(2);
        let stopper = sender.clone();
        signals::on_stop(move || drop(stopper.send(Event::Stop)))?;
        Ok(Input { parser, input, length, sender, events })
    }

    /// Reads the file to its end, commits its lines with `commit`, one batch at a time, and prints
    /// a report.
    pub fn load(&self, input: Input, mut commit: impl FnMut(&Entries) -> Result<()>) -> Result<()> {
        let Input { parser, input, length, sender, events } = input;
        self.start_reading(&parser, input, sender)?;
        let mut loading = Loading {
            commit: &mut commit,
            table: &self.table,
            parser,
            name: self.file_name(),
            length,
            acks: self.acks,
            progress: Progress::new(format!("load {}", text::escaped(self.table.as_bytes()))),
            started: Instant::now(),
            lines: 0,
            bytes: 0,
        };
        let result = loading.run(&events);
        let report = if self.json { loading.report_json() } else { loading.report() };
        drop(loading);
        // The failure of the load counts even if no program reads the report.
        let said = say(report);
        result.and(said)
    }

    /// Returns the name of the file for messages.
    fn file_name(&self) -> String {
        match self.file == Path::new("-") {
            true => "standard input".to_owned(),
            false => self.file.display().to_string(),
        }
    }

    fn parser(&self) -> Result<Parser> {
        let format = self.format.unwrap_or_else(|| Format::guess(&self.file));
        let written = self.separator.as_deref().unwrap_or(if format == Format::Csv { "," } else { "\\t" });
        let separator = text::argument(written)
            .map_err(|error| Failure::usage(format_args!("the separator {written:?}: {error}")))?;
        if separator.is_empty() || separator.contains(&b'\n') {
            return Err(Failure::usage("the separator must have at least one byte, and no line end"));
        }
        if format == Format::Csv && (separator.len() != 1 || separator == b"\"") {
            return Err(Failure::usage("the separator of a CSV file must be one byte other than a quote"));
        }
        if self.header && format != Format::Csv {
            return Err(Failure::usage("--header is wrong here: only a CSV file has a header record"));
        }
        Ok(Parser { format, separator, key_column: usize::from(self.key_column), raw: self.raw })
    }

    fn start_reading(
        &self,
        parser: &Parser,
        input: Box<dyn Read + Send>,
        sender: SyncSender<Event>,
    ) -> Result<()> {
        let (batch, header) = (self.batch as usize, self.header);
        let csv = (parser.format == Format::Csv).then(|| parser.separator[0]);
        let body = move || match csv {
            Some(separator) => lines::read(Csv::of(input, separator, header), batch, &sender),
            None => lines::read(Lines::of(BufReader::with_capacity(1 << 16, input)), batch, &sender),
        };
        match std::thread::Builder::new().name("reader".to_owned()).spawn(body) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::failed(format_args!("cannot start a thread: {error}"))),
        }
    }
}

/// Keys and values of a batch.
type Entries = [(Vec<u8>, Vec<u8>)];

struct Loading<'d> {
    /// Commits a batch, which is durable when the call returns.
    commit: &'d mut dyn FnMut(&Entries) -> Result<()>,
    table: &'d str,
    parser: Parser,
    name: String,
    /// Bytes in the file; 0 if that is not known.
    length: u64,
    acks: bool,
    progress: Progress,
    started: Instant,
    /// Number of acknowledged lines.
    lines: u64,
    /// Bytes of acknowledged keys and values.
    bytes: u64,
}

impl Loading<'_> {
    fn run(&mut self, events: &Receiver<Event>) -> Result<()> {
        for event in events {
            match event {
                Event::Batch(batch) => self.batch(&batch)?,
                Event::End => return Ok(()),
                Event::Broken(line, why) => return Err(self.bad_line(line, &why)),
                Event::Stop => return Err(Failure::failed("stopped by a signal")),
            }
        }
        Ok(())
    }

    fn batch(&mut self, batch: &Batch) -> Result<()> {
        let mut parsed = Vec::with_capacity(batch.records.len());
        let mut bad = None;
        for Record { number, text } in &batch.records {
            let number = *number;
            match self.parser.parse(text) {
                Ok(entry) => parsed.push(entry),
                Err(error) => bad = Some((number, error.to_string())),
            }
            if bad.is_some() {
                break;
            }
        }
        if !parsed.is_empty() {
            let first = batch.records.first().map_or(0, |record| record.number);
            self.commit(first, &parsed)?;
            let (lines, started, unit) = (self.lines, self.started, self.unit());
            let fraction = (self.length > 0).then(|| batch.bytes_read as f64 / self.length as f64);
            self.progress.show(fraction, || {
                let seconds = started.elapsed().as_secs_f64();
                let rate = lines as f64 / seconds.max(1e-9);
                let left = fraction.filter(|done| *done > 0.0).map_or(String::new(), |done| {
                    format!(", {:.0} s left", seconds * (1.0 - done.min(1.0)) / done)
                });
                format!("acknowledged {}, {} a second{left}", counted(lines, unit), grouped(rate as u64))
            });
        }
        match bad {
            Some((number, why)) => Err(self.bad_line(number, &why)),
            None => Ok(()),
        }
    }

    /// Commits a batch, whose first record has the number `first`, and prints the acknowledgement
    /// if `acks` is set.
    fn commit(&mut self, first: u64, entries: &Entries) -> Result<()> {
        (self.commit)(entries).map_err(|failure| match failure {
            Failure::Failed(why) => self.bad_batch(first, entries.len() as u64, &why),
            failure => failure,
        })?;
        self.lines += entries.len() as u64;
        self.bytes += entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        if !self.acks {
            return Ok(());
        }
        match say(format!("acknowledged {}", plain(self.lines))) {
            // The load ends before the end of the file, so the exit code must report a failure.
            Err(Failure::NobodyReads) => Err(Failure::failed(format_args!(
                "no program reads the acknowledgements; {} durable",
                are(self.lines)
            ))),
            said => said,
        }
    }

    /// Returns the noun for a part of the file: line or record.
    fn unit(&self) -> &'static str {
        self.parser.format.unit()
    }

    fn bad_line(&self, number: u64, why: &str) -> Failure {
        let unit = self.unit();
        Failure::failed(format_args!(
            "{}: {unit} {number}: {why}; {}",
            self.name,
            match self.lines {
                0 => "nothing was put".to_owned(),
                1 => format!("the {unit} before it is durable"),
                lines => format!("the {lines} {unit}s before it are durable"),
            }
        ))
    }

    fn bad_batch(&self, first: u64, count: u64, why: &str) -> Failure {
        let unit = self.unit();
        let records = match count {
            1 => format!("{unit} {first}"),
            count => format!("{unit}s {first} to {}", first + count - 1),
        };
        let before = match self.lines {
            1 => format!("1 {unit} was"),
            lines => format!("{lines} {unit}s were"),
        };
        Failure::failed(format_args!("{}: {records}: {why}; {before} acknowledged before", self.name))
    }

    fn report(&self) -> String {
        format!(
            "acknowledged {} ({}) in {:.2} s: durable in table {:?}",
            counted(self.lines, self.unit()),
            shown(self.bytes),
            self.started.elapsed().as_secs_f64(),
            self.table,
        )
    }

    fn report_json(&self) -> String {
        json!({
            "table": self.table,
            "lines": self.lines,
            "bytes": self.bytes,
            "seconds": self.started.elapsed().as_secs_f64(),
        })
        .to_string()
    }
}

/// Returns a number of lines with its verb.
fn are(lines: u64) -> String {
    format!("{} {}", plain(lines), if lines == 1 { "is" } else { "are" })
}

/// Returns a number of lines without digit grouping, for programs that read the output.
fn plain(lines: u64) -> String {
    format!("{lines} line{}", if lines == 1 { "" } else { "s" })
}
