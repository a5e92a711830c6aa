//! Reads records on a separate thread and sends them in batches, so that a signal can end a load
//! that waits for input.
//!
//! 1. Records come in the order of the file, numbered from 1, with a header counted. A record is a
//!    line without its end (`\n` or `\r\n`). In a CSV file a record is the fields of one or more
//!    lines.
//! 2. A batch has a maximum number of records, and ends early once it holds `BATCH_BYTES`.
//! 3. Memory is bounded, because few batches are in flight and a record longer than
//!    `LINE_BYTES_MAX` ends the reading.

use csv::{ByteRecord, ReaderBuilder};
use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Bytes after which a batch ends, even if it has few records.
const BATCH_BYTES: usize = 4 << 20;

/// Length of the longest record in bytes: the longest key and value, with each byte written as
/// `\u00NN`, which is the longest escape of a byte in any format.
pub const LINE_BYTES_MAX: usize = 6 * (katydid::KEY_BYTES_MAX + katydid::VALUE_BYTES_MAX) + 1024;

/// One record of a file.
#[derive(Debug)]
pub struct Record {
    /// Number of the record in the file, from 1.
    pub number: u64,
    pub text: Text,
}

/// Contents of a record.
#[derive(Debug)]
pub enum Text {
    /// A line without its end.
    Line(Vec<u8>),
    /// The fields of a CSV record, without quotes.
    Fields(ByteRecord),
}

/// Consecutive records of a file.
#[derive(Debug, Default)]
pub struct Batch {
    pub records: Vec<Record>,
    /// Bytes read from the file up to the end of the batch.
    pub bytes_read: u64,
}

/// Event for the loading thread.
#[derive(Debug)]
pub enum Event {
    /// Records to load.
    Batch(Batch),
    /// The file has ended.
    End,
    /// The record with this number cannot be read, for this reason.
    Broken(u64, String),
    /// A signal asks to stop.
    Stop,
}

/// Reads records one by one.
pub trait Records {
    /// Reads the next record. Returns the record and its size in memory, or `None` at the end.
    ///
    /// # Errors
    /// The number of the record that cannot be read, and the reason.
    fn next_record(&mut self) -> Result<Option<(Record, usize)>, (u64, String)>;
    /// Returns the bytes read from the file so far.
    fn bytes_read(&self) -> u64;
}

/// Reads all `records` and sends them. Stops if the receiver is dropped.
pub fn read(mut records: impl Records, batch_records: usize, to: &SyncSender<Event>) {
    let mut batch = Batch::default();
    let mut in_batch = 0;
    loop {
        let end = match records.next_record() {
            Ok(Some((record, bytes))) => {
                in_batch += bytes;
                batch.records.push(record);
                None
            }
            Ok(None) => Some(Event::End),
            Err((number, why)) => Some(Event::Broken(number, why)),
        };
        if batch.records.len() >= batch_records
            || in_batch >= BATCH_BYTES
            || (end.is_some() && !batch.records.is_empty())
        {
            batch.bytes_read = records.bytes_read();
            in_batch = 0;
            if to.send(Event::Batch(std::mem::take(&mut batch))).is_err() {
                return;
            }
        }
        if let Some(end) = end {
            // An error only means that the receiver was dropped.
            let _nobody_waits = to.send(end);
            return;
        }
    }
}

/// The lines of a file.
#[derive(Debug)]
pub struct Lines<I> {
    input: I,
    line: u64,
    bytes_read: u64,
}

impl<I: BufRead> Lines<I> {
    pub fn of(input: I) -> Self {
        Lines { input, line: 0, bytes_read: 0 }
    }
}

impl<I: BufRead> Records for Lines<I> {
    fn next_record(&mut self) -> Result<Option<(Record, usize)>, (u64, String)> {
        self.line += 1;
        let Some((line, taken)) =
            next_line(&mut self.input, LINE_BYTES_MAX).map_err(|why| (self.line, why))?
        else {
            return Ok(None);
        };
        self.bytes_read += taken as u64;
        let bytes = line.len();
        Ok(Some((Record { number: self.line, text: Text::Line(line) }, bytes)))
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

/// The records of a CSV file (RFC 4180). A field in quotes may contain separators, line ends and
/// doubled quotes.
#[derive(Debug)]
pub struct Csv<I> {
    reader: csv::Reader<Bounded<I>>,
    number: u64,
    /// Bytes that the current record may still take.
    left: Arc<AtomicU64>,
}

impl<I: Read> Csv<I> {
    /// Reads the records of `input`, without the first one if that is a `header`. `separator`
    /// separates the fields.
    pub fn of(input: I, separator: u8, header: bool) -> Self {
        let left = Arc::new(AtomicU64::new(0));
        let place = PlaceInFile { taken: 0, field: InField::Start, separator };
        let bounded = Bounded { input, left: left.clone(), place, has_ended: false };
        let reader =
            ReaderBuilder::new().delimiter(separator).has_headers(header).flexible(true).from_reader(bounded);
        Csv { reader, number: u64::from(header), left }
    }

    /// Returns whether the record that was read last ends with the input, within quotes. The CSV
    /// reader takes such a record for a whole one.
    fn is_left_open(&self) -> bool {
        let Bounded { place, has_ended, .. } = self.reader.get_ref();
        *has_ended && place.field == InField::Quoted && self.reader.position().byte() == place.taken
    }
}

impl<I: Read> Records for Csv<I> {
    fn next_record(&mut self) -> Result<Option<(Record, usize)>, (u64, String)> {
        // Relaxed, because only this thread uses the number. It is shared because the CSV reader
        // owns the input.
        self.left.store(LINE_BYTES_MAX as u64, Ordering::Relaxed);
        self.number += 1;
        let mut fields = ByteRecord::new();
        match self.reader.read_byte_record(&mut fields) {
            Ok(is_record) if self.is_left_open() => {
                // If there is no record, the header is left open.
                let number = self.number - u64::from(!is_record);
                return Err((number, "a quote is left open at the end of the file".to_owned()));
            }
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err((self.number, format!("cannot read: {error}"))),
        }
        // A record has a number for the end of each field, so empty fields take memory, too.
        let bytes = fields.as_slice().len() + fields.len() * size_of::<usize>();
        Ok(Some((Record { number: self.number, text: Text::Fields(fields) }, bytes)))
    }

    fn bytes_read(&self) -> u64 {
        self.reader.position().byte()
    }
}

/// Place of the last byte in its field, by the rules of the CSV reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InField {
    /// The next byte begins a field.
    Start,
    Unquoted,
    Quoted,
    /// The byte is a quote within quotes: it ends them, unless another quote follows.
    Quote,
}

/// The number of bytes that were read from a CSV file, and the place of the last one.
#[derive(Debug)]
struct PlaceInFile {
    taken: u64,
    field: InField,
    separator: u8,
}

impl PlaceInFile {
    fn pass(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // A byte order mark at the beginning belongs to no field.
            let of_mark = "\u{feff}".as_bytes().get(usize::try_from(self.taken).unwrap_or(usize::MAX));
            self.taken += 1;
            self.field = match (self.field, byte) {
                (InField::Start, _) if of_mark == Some(&byte) => InField::Start,
                (InField::Quoted, b'"') => InField::Quote,
                (InField::Quoted, _) | (InField::Start | InField::Quote, b'"') => InField::Quoted,
                (_, b'\r' | b'\n') => InField::Start,
                _ if byte == self.separator => InField::Start,
                _ => InField::Unquoted,
            };
        }
    }
}

/// Input that fails after `left` bytes, until `left` is set again.
#[derive(Debug)]
struct Bounded<I> {
    input: I,
    left: Arc<AtomicU64>,
    place: PlaceInFile,
    has_ended: bool,
}

impl<I: Read> Read for Bounded<I> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            let why = format!("a record is longer than {LINE_BYTES_MAX} bytes (is a quote left open?)");
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        let most = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.input.read(&mut bytes[..most])?;
        self.place.pass(&bytes[..count]);
        self.has_ended |= count == 0 && most > 0;
        self.left.store(left - count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Reads the next line. Returns the line without its end, and the number of bytes that the line
/// took in the input. Fails with the reason if the line has more than `bytes_max` bytes.
pub fn next_line(input: &mut impl BufRead, bytes_max: usize) -> Result<Option<(Vec<u8>, usize)>, String> {
    let mut line = Vec::new();
    let mut limited = input.take(bytes_max as u64 + 2);
    let taken =
        limited.read_until(b'\n', &mut line).map_err(|error: io::Error| format!("cannot read: {error}"))?;
    if taken == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    if line.len() > bytes_max {
        return Err(format!("it is longer than {bytes_max} bytes"));
    }
    Ok(Some((line, taken)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn events(input: impl Read + Send + 'static, batch_lines: usize) -> Vec<Event> {
        events_of(Lines::of(io::BufReader::new(input)), batch_lines)
    }

    fn events_of(records: impl Records + Send + 'static, batch_records: usize) -> Vec<Event> {
        let (sender, receiver) = sync_channel(1);
        let reader = std::thread::spawn(move || read(records, batch_records, &sender));
        let events = receiver.iter().collect();
        reader.join().unwrap();
        events
    }

    #[test]
    fn lines_come_in_order_and_in_batches() {
        let events = events(io::Cursor::new(&b"a\nb\r\n\nlast"[..]), 3);
        let [Event::Batch(first), Event::Batch(second), Event::End] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((first.bytes_read, second.bytes_read), (6, 10));
        assert_eq!(shown(first), ["1 a", "2 b", "3 "]);
        assert_eq!(shown(second), ["4 last"]);
    }

    fn shown(batch: &Batch) -> Vec<String> {
        let text = |text: &Text| match text {
            Text::Line(line) => String::from_utf8_lossy(line).into_owned(),
            Text::Fields(fields) => format!("{fields:?}"),
        };
        batch.records.iter().map(|record| format!("{} {}", record.number, text(&record.text))).collect()
    }

    #[test]
    fn records_of_a_csv_file_may_be_lines() {
        let text = "key,value\r\na,\"1,\n\"\"2\"\"\"\r\nb,\n\nc,\"x\",y";
        let events = events_of(Csv::of(io::Cursor::new(text), b',', true), 10);
        let [Event::Batch(batch), Event::End] = &events[..] else { panic!("{events:?}") };
        let fields = [r#"["a", "1,\n\"2\""]"#, r#"["b", ""]"#, r#"["c", "x", "y"]"#];
        let numbers = [2, 3, 4];
        let expected: Vec<String> = numbers
            .iter()
            .zip(fields)
            .map(|(number, fields)| format!("{number} ByteRecord({fields})"))
            .collect();
        assert_eq!(shown(batch), expected);
        assert_eq!(batch.bytes_read, text.len() as u64);
    }

    #[test]
    fn a_quote_that_is_never_closed_ends_the_reading() {
        let input = io::Cursor::new(b"a,b\nc,\"").chain(io::repeat(b'x'));
        let events = events_of(Csv::of(input, b',', false), 10);
        assert!(
            matches!(&events[..], [Event::Batch(_), Event::Broken(2, why)] if why.contains("quote left open")),
            "{events:?}"
        );
    }

    #[test]
    fn a_quote_that_the_end_of_the_file_leaves_open_is_no_record() {
        let last = |text: &'static str, header| {
            let events = events_of(Csv::of(io::Cursor::new(text), b';', header), 10);
            match events.last() {
                Some(Event::Broken(number, why)) if why.contains("quote is left open") => Some(*number),
                Some(Event::End) => None,
                _ => panic!("{events:?}"),
            }
        };
        for open in ["a;b\nc;\"d", "a;b\r\n\"c;d\n", "a;b\n\"c\"\"", "a;b\n\"c;d\"\";\n\n", "a;b\n\""] {
            assert_eq!(last(open, false), Some(2), "{open:?}");
        }
        assert_eq!((last("\"a;b\n", true), last("a;b\n\"c;d", true)), (Some(1), Some(2)));
        for closed in
            ["", "a;\"b\"", "a;\"b\"\n", "a;b\"c\n", "a;\"\"\n\n", "a;\"b\"\"\"\n", "\u{feff}\"a;b\";\"\"\n"]
        {
            assert_eq!(last(closed, false), None, "{closed:?}");
        }
    }

    #[test]
    fn a_batch_ends_when_it_is_heavy() {
        let events = events(
            io::Cursor::new(
                vec![b'x'; BATCH_BYTES].repeat(1).into_iter().chain(*b"\ny\n").collect::<Vec<_>>(),
            ),
            100,
        );
        assert!(
            matches!(&events[..], [Event::Batch(a), Event::Batch(b), Event::End] if a.records.len() == 1 && b.records[0].number == 2)
        );
    }

    #[test]
    fn a_batch_of_empty_fields_ends_when_it_is_heavy() {
        let record = ",".repeat(200_000) + "\n";
        let events = events_of(Csv::of(io::Cursor::new(record.repeat(10)), b',', false), 100);
        let records = |event: &Event| if let Event::Batch(batch) = event { batch.records.len() } else { 0 };
        assert_eq!(events.iter().map(records).collect::<Vec<_>>(), [3, 3, 3, 1, 0]);
    }

    #[test]
    fn an_endless_line_ends_the_reading() {
        let input = io::Cursor::new(b"fine\n").chain(io::repeat(b'x'));
        let events = events(input, 10);
        assert!(
            matches!(&events[..], [Event::Batch(_), Event::Broken(2, why)] if why.contains("longer")),
            "{events:?}"
        );
    }

    #[test]
    fn an_empty_file_is_no_lines() {
        assert!(matches!(&events(io::empty(), 10)[..], [Event::End]));
    }
}
