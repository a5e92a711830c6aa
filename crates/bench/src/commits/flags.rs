//! Flags that `lab log-commit`, `lab commit` and the other commit measurements share, and the
//! functions that read their values.

use super::stage::{Stage, Tuned};
use crate::grid::flags as log_flags;
use crate::grid::results::{Files, is_svg};
use crate::host::device::{Device, MethodName};
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::{file_option, seconds};
use katydid_command::log_flags::{NvramFlags, segment_bytes};
use katydid_device::Waiting;
use katydid_wal::{FileOptions, Group, Heuristic, LogKind, NvramOptions, SyncDesign, SyncKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default bytes of a log in NVRAM, so large that no checkpoint begins during a run.
const NVRAM_BYTES: u64 = 512 << 20;

/// Flags of all commands that measure commits.
#[derive(Debug, Args)]
pub struct Common {
    /// Folder to work in, which must be new or empty; the command removes what it writes there
    #[arg(long, value_name = "DIR", default_value = "katydid-commit")]
    pub dir: PathBuf,
    /// Seconds of each run of a case [default: the figure's own, from 0.3 to 3; 0.7 in log-commit]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Number of rounds, each of which runs every case once [default: the figure's own, 2 or 3; 3
    /// in log-commit]
    #[arg(long, value_name = "N", value_parser = log_flags::rounds)]
    pub rounds: Option<usize>,
    /// Run one round with 0.05 seconds for each case, to test that everything works
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    pub quick: bool,
    /// Device of the log [default: file; memory in the figures of Cicada and of NV-Logging]
    #[arg(long, value_enum)]
    pub device: Option<Device>,
    /// Folders on different devices, over which the log's files are striped in units of 512 KiB
    /// (ELEDA)
    ///
    /// The folders must be new or empty; the command removes what it writes there.
    #[arg(long, value_name = "DIR,DIR", value_delimiter = ',')]
    stripe: Vec<PathBuf>,
    /// I/O method of the log [default: direct; buffered in the figures of efficient flushing]
    #[arg(long, value_enum)]
    pub method: Option<MethodName>,
    /// Bytes of the log's ring, a power of two [default: 256KiB for each processor, from 2MiB to
    /// 64MiB]
    ///
    /// The cases of ELEDA's own design use 32 MiB if this flag is absent.
    #[arg(long, value_name = "BYTES", value_parser = log_flags::ring)]
    pub ring: Option<usize>,
    /// Bytes of a segment of the log [default: 64MiB]
    #[arg(long, value_name = "BYTES", value_parser = segment_bytes)]
    segment: Option<u64>,
    /// Number of segments that the log keeps prepared beyond the segment that it writes
    #[arg(long, value_name = "N", default_value = "4", value_parser = spare)]
    spare: usize,
    /// Maximum number of writes in flight, with sync protocol adaptive
    #[arg(long, value_name = "N", default_value = "1", value_parser = depth)]
    depth: u32,
    /// Numbers of commits, bytes and microseconds after which a round begins, whichever comes
    /// first, with sync protocol pipelined or inline
    ///
    /// A number of commits or bytes of 0 never begins a round; with 0 microseconds each round
    /// begins at once. The figures of Cicada use 5,0,500 if this flag is absent.
    #[arg(long, value_name = "COMMITS,BYTES,US", default_value = "0,0,0", value_parser = group)]
    pub group: Group,
    /// Way to wait out an added delay: auto (sleep, and spin for the last 50 us), spin, or timer
    /// (sleep, which may end late)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = waiting)]
    waiting: Waiting,
    #[command(flatten)]
    tuning: log_flags::Tuning,
    #[command(flatten)]
    nvram: NvramFlags,
    /// Folder for logs in NVRAM, which must be new or empty [default: katydid-nvram-PID in
    /// /dev/shm, or in --dir if there is no /dev/shm]
    ///
    /// The command removes what it writes there.
    #[arg(long, value_name = "DIR")]
    nvram_dir: Option<PathBuf>,
    /// Write all rows to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the rows of each round separately to this file, as CSV
    #[arg(long, value_name = "FILE")]
    rounds_csv: Option<PathBuf>,
    /// Draw charts into this folder
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub svg: Option<PathBuf>,
}

impl Common {
    /// Names of the files for rows and charts.
    pub fn files(&self) -> Files {
        Files { csv: self.csv.clone(), rounds_csv: self.rounds_csv.clone(), svg: self.svg.clone() }
    }

    /// Time of each run, and number of rounds: the command line's, or else `seconds` and `rounds`.
    pub fn length(&self, seconds: f64, rounds: usize) -> (Duration, usize) {
        let (seconds, rounds) = match self.quick {
            true => (0.05, 1),
            false => (self.seconds.unwrap_or(seconds), self.rounds.unwrap_or(rounds)),
        };
        (Duration::from_secs_f64(seconds), rounds)
    }

    /// Makes the stage in the folder, which must be new or empty.
    pub fn stage(&self) -> Result<Stage> {
        let own = FileOptions::default();
        let tuned = Tuned {
            ring_bytes: self.ring.unwrap_or(own.ring_bytes),
            segment_bytes: self.segment.unwrap_or(own.segment_bytes),
            spare_segments: self.spare,
            slots: self.tuning.slots,
            hop_bytes: self.tuning.hop_bytes,
            chunk_bytes: self.tuning.chunk_bytes,
            depth: self.depth,
            group: self.group,
            nvram: self.nvram.apply(NvramOptions { bytes: NVRAM_BYTES, ..NvramOptions::default() })?,
            waiting: self.waiting,
        };
        let device = self.device.unwrap_or(Device::File);
        Stage::new(self.dir.clone(), self.nvram_dir(), &self.stripe, device, tuned)
    }

    /// Name of a device. Files over several folders are called `stripes`.
    pub fn device_name(&self, device: Device) -> &'static str {
        if device == Device::File && !self.stripe.is_empty() { "stripes" } else { device.name() }
    }

    fn nvram_dir(&self) -> PathBuf {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared } else { &self.dir };
        let own = || parent.join(format!("katydid-nvram-{}", std::process::id()));
        self.nvram_dir.clone().unwrap_or_else(own)
    }

    /// Options of the log, in words.
    pub fn options(&self) -> String {
        let own = FileOptions::default();
        format!(
            "ring={} segment={} spare={} depth={} group={},{},{} waiting={}",
            self.ring.unwrap_or(own.ring_bytes),
            self.segment.unwrap_or(own.segment_bytes),
            self.spare,
            self.depth,
            self.group.commits,
            self.group.bytes,
            self.group.microseconds,
            waiting_word(self.waiting)
        )
    }
}

fn depth(text: &str) -> std::result::Result<u32, String> {
    let number = text.parse().map_err(|_| "expected a whole number".to_owned())?;
    file_option(number, |files, depth| files.sync = SyncDesign::adaptive(depth))
}

fn group(text: &str) -> std::result::Result<Group, String> {
    let numbers: Vec<u64> = text.split(',').filter_map(|part| part.parse().ok()).collect();
    match numbers[..] {
        [commits, bytes, microseconds] => {
            let group = Group { commits, bytes, microseconds };
            file_option(group, |files, group| files.sync = SyncDesign::pipelined(group))
        }
        _ => Err("expected COMMITS,BYTES,US, such as 64,65536,100".to_owned()),
    }
}

fn waiting_word(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::Auto => "auto",
        Waiting::Spin => "spin",
        Waiting::Timer => "timer",
    }
}

fn waiting(text: &str) -> std::result::Result<Waiting, String> {
    let known = [Waiting::Auto, Waiting::Spin, Waiting::Timer];
    let found = known.into_iter().find(|waiting| waiting_word(*waiting) == text);
    found.ok_or_else(|| "must be auto, spin or timer".to_owned())
}

fn spare(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().map_err(|_| "expected a whole number".to_owned())?;
    file_option(number, |files, spare| files.spare_segments = spare)
}

fn folder(text: &str) -> std::result::Result<PathBuf, String> {
    match is_svg(Path::new(text)) {
        true => Err("must name a folder: there are several charts".to_owned()),
        false => Ok(text.into()),
    }
}

/// The protocols with these names; `all` stands for all protocols.
pub fn syncs(words: &[String]) -> Result<Vec<SyncKind>> {
    if words.iter().any(|word| word == "all") {
        return Ok(SyncKind::ALL.to_vec());
    }
    let read = |word: &String| {
        word.parse().map_err(|_| {
            let known: Vec<_> = SyncKind::ALL.iter().map(ToString::to_string).collect();
            Failure::usage(format_args!("no sync protocol {word:?}; there are {}, or all", known.join(", ")))
        })
    };
    words.iter().map(read).collect()
}

/// The heuristics with these names; `all` stands for all heuristics.
pub fn heuristics(words: &[String]) -> Result<Vec<Heuristic>> {
    let known = Heuristic::ALL.map(|heuristic| heuristic.to_string());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let chosen = log_flags::chosen(words, &known, "heuristic")?;
    Ok(Heuristic::ALL.into_iter().filter(|one| chosen.contains(&one.to_string().as_str())).collect())
}

/// The kinds of logs with these names; `all` stands for all kinds.
pub fn logs(words: &[String]) -> Result<Vec<LogKind>> {
    let known = LogKind::ALL.map(|kind| kind.to_string());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let chosen = log_flags::chosen(words, &known, "kind of log")?;
    Ok(LogKind::ALL.into_iter().filter(|kind| chosen.contains(&kind.to_string().as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::super::case::Delay;
    use super::*;
    use katydid_command::flags::delay;

    #[test]
    fn delays_are_read_and_written() {
        for (text, micros) in
            [("0", 0), ("15us", 15), ("100us", 100), ("1ms", 1000), ("10ms", 10_000), ("1s", 1_000_000)]
        {
            let read = delay(text).unwrap();
            assert_eq!(read, Duration::from_micros(micros));
            assert_eq!(delay(&Delay(read).to_string()), Ok(read), "{text}");
        }
        assert_eq!(Delay(delay("0.5us").unwrap()).to_string(), "0.5us");
        assert_eq!(delay("400ns"), Ok(Duration::from_nanos(400)));
        for bad in ["", "15", "us", "-1us", "2s", "1m", "nanus"] {
            assert!(delay(bad).is_err(), "{bad}");
        }
    }
}
