//! Reads lines on a thread of its own and hands them on in batches, so that a signal can end a load that waits for input.
//!
//! 1. Lines come in the order of the file, numbered from 1, without their end (`\n` or `\r\n`).
//! 2. A batch has at most so many lines, and ends early once it holds `BATCH_BYTES`.
//! 3. Memory is bounded: few batches are under way, and a line longer than `LINE_BYTES_MAX` ends the reading.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::SyncSender;

/// Bytes after which a batch ends, whatever number of lines it has.
const BATCH_BYTES: usize = 4 << 20;

/// The longest line: the longest key and value, each byte escaped.
const LINE_BYTES_MAX: usize = 4 * (katydid::KEY_BYTES_MAX + katydid::VALUE_BYTES_MAX) + 1024;

/// Some lines.
#[derive(Debug, Default)]
pub struct Batch {
    /// Number of the first line, from 1.
    pub first: u64,
    /// The lines without their ends.
    pub lines: Vec<Vec<u8>>,
    /// Bytes read from the file up to the end of the batch.
    pub bytes_read: u64,
}

/// What the loading thread is told.
#[derive(Debug)]
pub enum Event {
    /// Lines to load.
    Batch(Batch),
    /// The file has ended.
    End,
    /// Line number so much cannot be read, and why.
    Broken(u64, String),
    /// A signal asks to stop.
    Stop,
}

/// Reads `input` to its end. The receiver may go away at any time.
pub fn read(mut input: impl BufRead, batch_lines: usize, to: &SyncSender<Event>) {
    let mut batch = Batch { first: 1, ..Batch::default() };
    let (mut in_batch, mut bytes_read) = (0, 0);
    loop {
        let number = batch.first + batch.lines.len() as u64;
        let end = match next_line(&mut input) {
            Ok(Some((line, taken))) => {
                bytes_read += taken as u64;
                in_batch += line.len();
                batch.lines.push(line);
                None
            }
            Ok(None) => Some(Event::End),
            Err(why) => Some(Event::Broken(number, why)),
        };
        if batch.lines.len() >= batch_lines
            || in_batch >= BATCH_BYTES
            || (end.is_some() && !batch.lines.is_empty())
        {
            batch.bytes_read = bytes_read;
            let next = Batch { first: batch.first + batch.lines.len() as u64, ..Batch::default() };
            in_batch = 0;
            if to.send(Event::Batch(std::mem::replace(&mut batch, next))).is_err() {
                return;
            }
        }
        if let Some(end) = end {
            // An error only means that nobody waits for the end any more.
            let _nobody_waits = to.send(end);
            return;
        }
    }
}

/// The next line without its end, and how many bytes it took.
fn next_line(input: &mut impl BufRead) -> Result<Option<(Vec<u8>, usize)>, String> {
    let mut line = Vec::new();
    let mut limited = input.take(LINE_BYTES_MAX as u64 + 2);
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
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("it is longer than {LINE_BYTES_MAX} bytes"));
    }
    Ok(Some((line, taken)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn events(input: impl Read + Send + 'static, batch_lines: usize) -> Vec<Event> {
        let (sender, receiver) = sync_channel(1);
        let reader = std::thread::spawn(move || read(io::BufReader::new(input), batch_lines, &sender));
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
        assert_eq!((first.first, first.bytes_read), (1, 6));
        assert_eq!(first.lines, [&b"a"[..], b"b", b""]);
        assert_eq!((second.first, second.bytes_read), (4, 10));
        assert_eq!(second.lines, [b"last"]);
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
            matches!(&events[..], [Event::Batch(a), Event::Batch(b), Event::End] if a.lines.len() == 1 && b.first == 2)
        );
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
