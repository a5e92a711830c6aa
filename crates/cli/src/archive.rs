//! `archive`: copies the log of a database, closed or running, into a folder of archived files.
//!
//! The command opens a closed database itself. The stretches of a running database come through the
//! socket of the process that has it open. The database keeps its log until the archive has it.

use clap::Args;
use katydid::{LogArchive, LogArchiver, LogStretch, Lsn};
use katydid_command::bytes::{self, shown};
use katydid_command::database::{DatabaseDir, close_after};
use katydid_command::failure::Result;
use katydid_command::look::{ArchiveRequest, Look};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use katydid_command::signals::on_stop;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After this time without commits the archive notes the moment, so that a restore can name any
/// time up to that moment.
const NOTE_EVERY: Duration = Duration::from_secs(60);

/// Copy the log into an archive, with which `restore` brings a backup to a later time
///
/// The archive is a folder, which must be new or empty at the first run. Each later run continues
/// where the last one ended. Between two runs the database keeps its log for the archive, up to
/// --keep bytes. If more log is written, the database trims it, and the next run reports a gap:
/// then make a new backup, and begin a new archive. If a process has the database open and listens
/// at its socket, that process sends the log.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid archive --dir ./db /mnt/archive\n  \
                        katydid archive --dir ./db /mnt/archive --follow --every 5s\n  \
                        katydid restore /mnt/backup/monday ./db2 --archive /mnt/archive --to 2026-11-25T09:30:00Z")]
pub struct Archive {
    /// Folder of the archive
    to: PathBuf,
    /// Continue with later commits until SIGINT or SIGTERM
    #[arg(long)]
    follow: bool,
    /// Interval between two checks for new commits
    ///
    /// A restore to a time ends at the last check before that time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every, requires = "follow")]
    every: Duration,
    /// Name of the archiver; the database keeps its log until the archiver of this name has copied
    /// it
    #[arg(long, value_name = "NAME", default_value = "archive")]
    archiver: String,
    /// Maximum bytes of log that the database keeps for a new archiver
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes::parse)]
    keep: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

fn every(text: &str) -> std::result::Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < Duration::from_millis(10) { Err("expected at least 10ms".to_owned()) } else { Ok(time) }
}

/// Source of the stretches (parts) of the log.
enum Source {
    /// An archiver of a database that this process has opened, and the end of the last acknowledged
    /// stretch.
    Own(LogArchiver, Option<Lsn>),
    Running(Look),
}

/// Remembers whether a signal has asked the command to stop.
#[derive(Default)]
struct Stop {
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

impl Stop {
    fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// Waits for the signal for at most `time`. Returns whether the signal has come.
    fn within(&self, time: Duration) -> bool {
        let guard = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.wait_timeout_while(guard, time, |is_stopped| !*is_stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Archive {
    pub fn run(self) -> Result<()> {
        match self.place.open_or_ask()? {
            Look::Closed(database) => {
                let archived = self.archive(|archive| {
                    let archiver = archive.archiver(&database, &self.archiver, self.keep)?;
                    Ok(Source::Own(archiver, None))
                });
                close_after(&database, archived)
            }
            running => self.archive(|_| Ok(Source::Running(running))),
        }
    }

    fn archive(&self, begin: impl FnOnce(&LogArchive) -> Result<Source>) -> Result<()> {
        let stop = Arc::new(Stop::default());
        let stops = stop.clone();
        on_stop(move || stops.stop())?;
        let mut archive = LogArchive::open(&self.to)?;
        let mut source = begin(&archive)?;
        let (mut taken, mut noted) = (0, Instant::now());
        let mut progress = Progress::new("archive");
        loop {
            let mut here = 0;
            while let Some((stretch, left)) = self.next(&mut source, &archive, false)? {
                archive.push(&stretch)?;
                here += stretch.to().since(stretch.from());
                let (done, of) = (taken + here, taken + here + left);
                let fraction = (of > 0).then(|| done as f64 / of as f64);
                progress.show(fraction, || format!("{} of {}", shown(done), shown(of)));
                if stop.within(Duration::ZERO) {
                    break;
                }
            }
            taken += here;
            let ends = !self.follow || stop.within(Duration::ZERO);
            if here > 0 {
                noted = Instant::now();
            }
            if ends || noted.elapsed() >= NOTE_EVERY {
                // This call also acknowledges the last archived stretch.
                if let Some((note, _)) = self.next(&mut source, &archive, true)? {
                    archive.push(&note)?;
                }
                noted = Instant::now();
            }
            if ends {
                break;
            }
            stop.within(self.every);
        }
        drop(progress);
        self.report(&archive, taken)
    }

    /// Acknowledges the archive's end. Returns the stretch that follows the archive's end, and the
    /// bytes of log after that stretch.
    fn next(
        &self,
        source: &mut Source,
        archive: &LogArchive,
        note: bool,
    ) -> Result<Option<(LogStretch, u64)>> {
        match source {
            Source::Own(archiver, acknowledged) => {
                let end = archive.end();
                if end == Some(archiver.position()) && *acknowledged != end {
                    archiver.acknowledge()?;
                    *acknowledged = end;
                }
                let stretch = match archiver.try_next()? {
                    None if note => archiver.note()?,
                    stretch => stretch,
                };
                Ok(stretch.map(|stretch| (stretch, archiver.left())))
            }
            Source::Running(look) => {
                let request = ArchiveRequest { archiver: &self.archiver, keep: self.keep, note };
                look.log_stretch(&request, archive.mark().as_ref())
            }
        }
    }

    fn report(&self, archive: &LogArchive, taken: u64) -> Result<()> {
        let end = archive.stamp().map(|stamp| stamp.get());
        if self.json {
            return say(json!({ "bytes": taken, "stamp": end }).to_string());
        }
        match end {
            Some(end) => {
                say(format!("archived {} in {}, up to stamp {end}", shown(taken), self.to.display()))
            }
            None => say(format!("nothing to archive in {}", self.to.display())),
        }
    }
}
