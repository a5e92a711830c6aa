//! Parsers for values of flags that several commands have.
//!
//! Pure functions. The error messages say what was expected; clap adds the flag and the value.

use clap::ValueEnum;
use katydid_wal::{FileOptions, MediumOptions, Options};
use std::str::FromStr;
use std::time::Duration;

/// Parses a word by the `FromStr` of a library's type.
pub fn word<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Returns the word that stands for a value on the command line.
pub fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |known| known.get_name().to_owned())
}

/// Parses the length of a measurement in seconds, from 1 ms to 365 days.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=86_400.0 * 365.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.001 to 31536000".to_owned()),
    }
}

/// Parses an added latency of a device or memory: `0`, `400ns`, `15us`, `1.5ms`; at most 1 s.
pub fn delay(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 0, 15us, 100us or 1ms, at most 1s".to_owned();
    let at = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let micros = match unit {
        "" if number == 0.0 => 0.0,
        "ns" => number / 1e3,
        "us" => number,
        "ms" => number * 1e3,
        "s" => number * 1e6,
        _ => return Err(wrong()),
    };
    match (0.0..=1e6).contains(&micros) {
        true => Ok(Duration::from_nanos((micros * 1e3).round() as u64)),
        false => Err(wrong()),
    }
}

/// Checks `value` as an option of a log in files, to which `set` assigns it. Returns `value`, or
/// the text of the log's own check as the error.
pub fn file_option<T: Copy>(value: T, set: impl FnOnce(&mut FileOptions, T)) -> Result<T, String> {
    let mut files = FileOptions::default();
    set(&mut files, value);
    medium_option(value, files.into())
}

/// Returns `value` if `medium`, which contains it, passes the log's own check. The error has the
/// text of that check.
pub fn medium_option<T>(value: T, medium: MediumOptions) -> Result<T, String> {
    let options = Options { medium, reserve_bytes: 0, ..Options::default() };
    options.validate().map(|()| value).map_err(|error| format!("must be {}", error.range))
}
