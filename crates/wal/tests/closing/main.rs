//! Closing a log during every other call on it: after the directory's lock was released, no call of
//! the old opening reaches the directory.
//!
//! | file | what |
//! |---|---|
//! | `held` | a directory that holds up one call, and notices calls that come too late |
//! | `asleep` | waiting until every thread sleeps, without a clock |
//! | `pairs` | two calls, one held up at each of its device calls; one of the two closes the log |
//! | `beside` | many threads that make calls and close the log, in random order |
//! | `inside` | closing from inside a device call |

#![cfg(not(miri))] // The tests ask the kernel which threads sleep.

mod asleep;
mod beside;
mod held;
mod inside;
mod pairs;

use katydid_wal::{
    Append, Background, Durability, Error, FileOptions, Id, Kind, Log, LogKind, Lsn, MediumSettings,
    NvramOptions, Options, Record,
};

/// Returns options with small files, so that a few records fill segments, and with no thread that
/// has a timer.
pub fn options(log: LogKind, background: Background) -> Options {
    let settings = MediumSettings {
        files: FileOptions {
            segment_bytes: 16 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        },
        memory: NvramOptions { bytes: 256 << 10, ..NvramOptions::default() },
        entries: 0,
    };
    Options {
        medium: settings.medium(log),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 4 << 10,
        stall_after: std::time::Duration::ZERO,
        log_id: Some(Id::new(1)),
        background,
        ..Options::default()
    }
}

/// Bytes of a record's payload.
pub const PAYLOAD: usize = 1000;

/// Appends records whose first four bytes are their number. Returns the end of the last record.
pub fn append(log: &Log, numbers: std::ops::Range<u32>) -> Result<Lsn, Error> {
    let mut session = log.first().session()?;
    let mut end = log.first().reserved();
    for number in numbers {
        let payload = [&number.to_le_bytes()[..], &[7; PAYLOAD]];
        end = session.append(&Append::new(Kind::USER, &payload))?.end;
    }
    Ok(end)
}

/// Returns the number of a record that [`append`] made.
pub fn number(record: &Record) -> u32 {
    assert_eq!(record.payload.len(), 4 + PAYLOAD);
    u32::from_le_bytes(record.payload[..4].try_into().expect("four bytes"))
}

/// Returns whether a call on a log that another thread closes may have this outcome: success, or
/// the error of a closed log.
pub fn is_fine(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Ok(()) | Err(Error::Closed))
}

/// Appends records, and waits until they are durable.
pub fn make_durable(log: &Log, numbers: std::ops::Range<u32>) -> Result<(), Error> {
    let end = append(log, numbers)?;
    log.first().wait(end, Durability::Durable)
}
