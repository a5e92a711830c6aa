//! Values and lists that several commands accept, with their ranges. The log defines the ranges of
//! its own options.
//!
//! Pure functions.

use clap::Args;
use katydid_command::bytes;
use katydid_command::failure::Failure;
use katydid_command::flags::file_option;
use katydid_wal::{InserterDesign, InserterKind, InserterSettings};
use std::result::Result;

/// Settings of inserters. Each applies to some designs.
#[derive(Debug, Clone, Copy, Args)]
pub struct Tuning {
    /// Number of slots in which threads form groups, with inserter consolidated, hybrid or
    /// delegated
    #[arg(long, value_name = "N", default_value = "4", value_parser = slots)]
    pub slots: usize,
    /// Bytes of the range that the filled frontier hops over, with inserter grasshopper
    #[arg(long, value_name = "BYTES", default_value = "4MiB", value_parser = hop_bytes)]
    pub hop_bytes: u64,
    /// Maximum bytes that a session reserves at a time, with inserter chunked
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = chunk_bytes)]
    pub chunk_bytes: usize,
}

impl Tuning {
    /// The design of this kind, with these settings.
    pub fn design(&self, kind: InserterKind) -> InserterDesign {
        inserter(kind, self.slots, self.hop_bytes, self.chunk_bytes)
    }
}

/// The design of this kind. Settings that the design does not have are ignored.
pub fn inserter(kind: InserterKind, slots: usize, hop_bytes: u64, chunk_bytes: usize) -> InserterDesign {
    InserterSettings { consolidation_slots: slots, hop_bytes, chunk_bytes, ..InserterSettings::default() }
        .design(kind)
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    usize::try_from(bytes::parse(text)?).map_err(|_| "more bytes than there can be".to_owned())
}

pub fn slots(text: &str) -> Result<usize, String> {
    file_option(whole(text)?, |files, slots| {
        files.inserter = InserterDesign::Consolidated { consolidation_slots: slots };
    })
}

pub fn hop_bytes(text: &str) -> Result<u64, String> {
    file_option(bytes::parse(text)?, |files, hop| {
        files.inserter = InserterDesign::Grasshopper { hop_bytes: hop };
    })
}

pub fn chunk_bytes(text: &str) -> Result<usize, String> {
    file_option(size(text)?, |files, chunk| {
        files.inserter = InserterDesign::Chunked { chunk_bytes: chunk, always: false };
    })
}

/// Bytes of a ring. The minimum is 64 KiB. The log's own minimum is lower, but the records of many
/// threads do not fit into so small a ring.
pub fn ring(text: &str) -> Result<usize, String> {
    match size(text)? {
        ring if ring.is_power_of_two() && (64 << 10..=1 << 30).contains(&ring) => Ok(ring),
        _ => Err("must be a power of two from 64 KiB to 1 GiB".to_owned()),
    }
}

pub fn threads(text: &str) -> Result<usize, String> {
    match whole(text)? {
        threads @ 1..=1024 => Ok(threads),
        _ => Err("must be from 1 to 1024".to_owned()),
    }
}

pub fn record(text: &str) -> Result<usize, String> {
    match size(text)? {
        record @ 48..=0x100_0000 => Ok(record),
        _ => Err("must be from 48 (the header) to 16777216 bytes".to_owned()),
    }
}

pub fn work(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(work) if (0.0..=1e9).contains(&work) => Ok(work),
        _ => Err("must be from 0 to 1e9 nanoseconds".to_owned()),
    }
}

pub fn rounds(text: &str) -> Result<usize, String> {
    match whole(text)? {
        rounds @ 1..=1000 => Ok(rounds),
        _ => Err("must be from 1 to 1000".to_owned()),
    }
}

/// Number of threads, and number of commits that each thread may have in flight, such as `2x1000`.
pub fn callbacks(text: &str) -> Result<(usize, usize), String> {
    let wrong = || "expected THREADSxIN_FLIGHT, such as 2x1000".to_owned();
    let (number, in_flight) = text.split_once('x').ok_or_else(wrong)?;
    let in_flight = in_flight.parse().map_err(|_| wrong())?;
    match threads(number)? {
        threads if (2..=1_000_000).contains(&in_flight) => Ok((threads, in_flight)),
        _ => Err("must have from 2 to 1000000 commits in flight per thread".to_owned()),
    }
}

/// Commits in flight of a client that does not block in each commit.
pub fn in_flight(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(many @ 2..=1_000_000) => Ok(many),
        _ => Err("must be from 2 to 1000000".to_owned()),
    }
}

/// The known names that were given, or all known names for `all`.
pub fn chosen<'k>(given: &[String], known: &[&'k str], what: &str) -> Result<Vec<&'k str>, Failure> {
    if given == ["all"] {
        return Ok(known.to_vec());
    }
    if let Some(name) = given.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(Failure::usage(format_args!("no {what} {name:?}; there are {known}, or all")));
    }
    Ok(known.iter().copied().filter(|name| given.iter().any(|given| given == name)).collect())
}

/// Bytes of a commit's record without the header.
pub fn payload(text: &str) -> Result<usize, String> {
    match bytes::parse(text)? {
        bytes @ 0..=0x10_0000 => Ok(bytes as usize),
        _ => Err("must be from 0 to 1 MiB".to_owned()),
    }
}

/// Maximum bytes of a write.
pub fn io_unit(text: &str) -> Result<usize, String> {
    let bytes =
        usize::try_from(bytes::parse(text)?).map_err(|_| "more bytes than there can be".to_owned())?;
    file_option(bytes, |files, bytes| files.write_bytes_max = bytes)
}

/// A zipfian exponent.
pub fn skew(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(skew) if (0.0..=10.0).contains(&skew) => Ok(skew),
        _ => Err("must be from 0 to 10".to_owned()),
    }
}

/// Returns the list of the command line, or `own` if the command line gives no list.
pub fn or<'a, T>(given: &'a [T], own: &'a [T]) -> &'a [T] {
    if given.is_empty() { own } else { given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_would_refuse_is_refused_with_its_words() {
        assert_eq!((slots("10"), hop_bytes("64k"), chunk_bytes("256")), (Ok(10), Ok(65536), Ok(256)));
        assert_eq!(slots("65").unwrap_err(), "must be from 1 to 64");
        assert!(hop_bytes("5000").unwrap_err().contains("a power of two"));
        assert!(chunk_bytes("128KiB").unwrap_err().contains("from 256"));
        assert!(
            slots("many").is_err() && ring("1000").is_err() && record("47").is_err() && work("-1").is_err()
        );
    }

    #[test]
    fn clients_with_callbacks_are_read() {
        assert_eq!(callbacks("2x1000"), Ok((2, 1000)));
        for bad in ["2", "2x", "x2", "0x10", "2x1", "2x1000001", "axb"] {
            assert!(callbacks(bad).is_err(), "{bad}");
        }
    }
}
