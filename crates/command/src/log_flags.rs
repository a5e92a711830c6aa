//! Flags for the medium of a log: files, or NVRAM that is real or emulated.
//!
//! A database stores the kind of its log, and the size of a log in NVRAM. Without a flag the kind
//! is the database's own. Opening with another kind fails, changes nothing, and names the
//! database's kind.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::flags::{delay, file_option, medium_option, word};
use clap::{Args, ValueEnum};
use katydid_wal::{LogKind, MediumSettings, NvramOptions, Options, Persistence};
use std::time::Duration;

/// Flags for the medium of a log.
#[derive(Debug, Clone, Copy, Args)]
pub struct LogFlags {
    /// Kind of the log: disk, or nv_direct, nv_ring, nv_entries or nv_logging in NVRAM [default:
    /// the database's kind; disk for a new database]
    #[arg(long = "log", value_name = "KIND", value_parser = word::<LogKind>)]
    pub kind: Option<LogKind>,
    /// Log on disk: bytes of a segment of a new database's log [default: 64MiB]
    #[arg(long, value_name = "BYTES", value_parser = segment_bytes)]
    pub segment: Option<u64>,
    /// Flags of the memory of a log in NVRAM.
    #[command(flatten)]
    pub nvram: NvramFlags,
}

/// Memory for logs in NVRAM.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct NvramFlags {
    /// Log in NVRAM: bytes of a new log, a power of two [default: 64MiB; 512MiB in `lab`]
    #[arg(long, value_name = "BYTES", value_parser = nvram_bytes)]
    pub nvram_bytes: Option<u64>,
    /// Log in NVRAM: memory to use [default: auto; emulated with --nvram-latency]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub nvram: Option<NvramSource>,
    /// Log in emulated NVRAM: time added to each persist, such as 400ns or 2us [default: 0]
    #[arg(long, value_name = "TIME", value_parser = delay)]
    pub nvram_latency: Option<Duration>,
}

/// The memory to use as NVRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NvramSource {
    /// Real NVRAM if the machine has some, else emulated NVRAM
    Auto,
    /// A file on a DAX file system; the command fails on any other file system
    Real,
    /// A file on any file system, or memory
    Emulated,
}

impl LogFlags {
    /// Returns the options with the values of the flags.
    pub fn apply(&self, log: Options) -> Result<Options> {
        let medium = self.settings(log.medium.into())?.medium(self.kind.unwrap_or(log.medium.kind()));
        Ok(Options { medium, ..log })
    }

    /// Returns the settings with which the log is opened if the database has a log of another kind.
    /// Returns `None` if the flags name a kind, because another kind is an error then.
    pub fn if_found(&self) -> Result<Option<MediumSettings>> {
        let settings = self.settings(MediumSettings::default())?;
        Ok(self.kind.is_none().then_some(settings))
    }

    /// Returns the settings of every medium, with the values of the flags.
    pub fn settings(&self, own: MediumSettings) -> Result<MediumSettings> {
        let mut settings = MediumSettings { memory: self.nvram.apply(own.memory)?, ..own };
        settings.files.segment_bytes = self.segment.unwrap_or(settings.files.segment_bytes);
        Ok(settings)
    }
}

impl NvramFlags {
    /// Returns the options with the values of the flags.
    pub fn apply(&self, mut nvram: NvramOptions) -> Result<NvramOptions> {
        let latency = self.nvram_latency;
        let want = match (self.nvram, latency) {
            (None, None) => nvram.want,
            (Some(NvramSource::Auto), None) => Persistence::Auto,
            (Some(NvramSource::Real), None) => Persistence::Real,
            (Some(NvramSource::Emulated) | None, latency) => {
                Persistence::Emulated { latency: latency.unwrap_or_default() }
            }
            (Some(NvramSource::Auto | NvramSource::Real), Some(_)) => {
                return Err(Failure::usage(
                    "--nvram-latency needs emulated NVRAM: use --nvram emulated, or no --nvram",
                ));
            }
        };
        nvram.want = want;
        nvram.bytes = self.nvram_bytes.unwrap_or(nvram.bytes);
        Ok(nvram)
    }
}

/// Returns the kind of log that a database has, if it was opened as another kind.
pub fn kind_found(error: &katydid::Error) -> Option<LogKind> {
    let katydid::Error::LogOpen(error) = error else { return None };
    error.other_kind()
}

/// Parses the bytes of a segment, in the log's range.
pub fn segment_bytes(text: &str) -> std::result::Result<u64, String> {
    file_option(bytes::parse(text)?, |files, bytes| files.segment_bytes = bytes)
}

fn nvram_bytes(text: &str) -> std::result::Result<u64, String> {
    let bytes = bytes::parse(text)?;
    let memory = NvramOptions { bytes, ..NvramOptions::default() };
    medium_option(bytes, MediumSettings { memory, ..MediumSettings::default() }.medium(LogKind::NvRing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_was_asked_for() {
        let ns = Duration::from_nanos(400);
        let flags = |nvram, nvram_latency| NvramFlags { nvram, nvram_latency, nvram_bytes: None };
        let want = |flags: NvramFlags| flags.apply(NvramOptions::default()).map(|nvram| nvram.want);
        let emulated = |latency| Persistence::Emulated { latency };
        assert_eq!(want(flags(None, None)).unwrap(), Persistence::Auto);
        assert_eq!(want(flags(Some(NvramSource::Real), None)).unwrap(), Persistence::Real);
        assert_eq!(want(flags(Some(NvramSource::Emulated), None)).unwrap(), emulated(Duration::ZERO));
        assert_eq!(want(flags(None, Some(ns))).unwrap(), emulated(ns));
        assert_eq!(want(flags(Some(NvramSource::Emulated), Some(ns))).unwrap(), emulated(ns));
        want(flags(Some(NvramSource::Real), Some(ns))).unwrap_err();
        want(flags(Some(NvramSource::Auto), Some(ns))).unwrap_err();
        assert_eq!(delay("400ns"), Ok(ns));
        for bad in ["100000", "12k", "1"] {
            nvram_bytes(bad).unwrap_err();
        }
        assert_eq!(nvram_bytes("1MiB"), Ok(1 << 20));
    }
}
