//! Flags of the log's options that several commands have, and their ranges, which are the log's own.

use clap::Args;
use katydid_command::bytes;
use katydid_command::flags::log_option;
use std::result::Result;

/// How the designs that have one are set.
#[derive(Debug, Clone, Copy, Args)]
pub struct Tuning {
    /// Slots in which groups form, with consolidated, hybrid and delegated
    #[arg(long, value_name = "N", default_value = "4", value_parser = slots)]
    pub slots: usize,
    /// Bytes of the range that grasshopper hops over
    #[arg(long, value_name = "BYTES", default_value = "4MiB", value_parser = hop_bytes)]
    pub hop_bytes: u64,
    /// Most bytes that chunked reserves at a time for one session
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = chunk_bytes)]
    pub chunk_bytes: usize,
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    usize::try_from(bytes::parse(text)?).map_err(|_| "more bytes than there can be".to_owned())
}

pub fn slots(text: &str) -> Result<usize, String> {
    log_option(whole(text)?, |options, slots| options.consolidation_slots = slots)
}

pub fn hop_bytes(text: &str) -> Result<u64, String> {
    log_option(bytes::parse(text)?, |options, hop| options.hop_bytes = hop)
}

pub fn chunk_bytes(text: &str) -> Result<usize, String> {
    log_option(size(text)?, |options, chunk| options.chunk_bytes = chunk)
}

/// Larger than the log's smallest, which has no room for the records of many threads.
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
}
