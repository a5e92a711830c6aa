//! `backup` and `restore`: whole copies of a database.

use crate::verify;
use clap::Args;
use katydid::{
    BackupOptions, BackupReport, CommitStamp, Database, EngineKind, RestorePoint, RestoreReport, VerifyReport,
};
use katydid_command::bytes::{self, shown};
use katydid_command::database::{DatabaseDir, close_after};
use katydid_command::failure::{Failure, Result};
use katydid_command::look::Look;
use katydid_command::output::say;
use katydid_command::progress::Progress;
use katydid_command::signals::on_stop;
use katydid_observe::{Bytes, Client, Reply, Request};
use serde_json::json;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

/// Copy the database into a new or empty folder
///
/// A whole copy is a database of its own: it can be opened, or kept and restored. An incremental
/// copy can only be restored. An interrupted backup leaves a folder that no command accepts as a
/// database; remove it. If a process has the database open and listens at its socket, that process
/// writes the copy, with its own rights and its own view of the folders. This command then shows
/// the progress, and a signal to it cancels the copy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid backup --dir ./db /mnt/backup/monday --verify\n  \
                        katydid backup --dir ./db ./copy --rate 50MiB\n  \
                        katydid backup --dir ./db ./tuesday --incremental ./monday")]
pub struct Backup {
    /// Folder of the copy, which must be new or empty
    to: PathBuf,
    /// Copy only the changes since the backup in this folder, which may itself be incremental
    #[arg(long, value_name = "BASE", conflicts_with = "verify")]
    incremental: Option<PathBuf>,
    #[command(flatten)]
    flags: CopyFlags,
    #[command(flatten)]
    place: DatabaseDir,
}

/// Make a database in a new or empty folder from a backup and its incremental backups
///
/// The command does not change the folders of the backups. It refuses a backup that was opened
/// after it was made: that folder is now a database, which can be opened or backed up.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid restore /mnt/backup/monday ./db --verify\n  \
                        katydid restore ./monday ./tuesday ./wednesday ./db\n  \
                        katydid restore ./monday ./db --archive ./archive --to 2026-11-25T09:30:00Z")]
pub struct Restore {
    /// Folders of the whole backup and of its incremental backups, oldest first; last the folder of
    /// the new database
    ///
    /// The folder of the new database must be new or empty.
    #[arg(required = true, num_args = 2.., value_names = ["FROM", "TO"])]
    folders: Vec<PathBuf>,
    /// Apply the log in this archive, which `archive` has made, after the backups
    #[arg(long, value_name = "ARCHIVE", requires = "to")]
    archive: Option<PathBuf>,
    /// Point to restore to: the stamp of a commit, a time (RFC 3339 in UTC) or `end`
    ///
    /// A time stands for the last moment before it that the archive has noted.
    #[arg(long, value_name = "STAMP|TIME|end", value_parser = point, requires = "archive")]
    to: Option<RestorePoint>,
    #[command(flatten)]
    flags: CopyFlags,
}

/// Flags of a copy.
#[derive(Debug, Args)]
struct CopyFlags {
    /// Maximum bytes to copy per second [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rate: Option<NonZeroU64>,
    /// Check the copy afterwards, as `verify` does
    ///
    /// The exit code is 1 if the check finds a fault.
    #[arg(long)]
    verify: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> std::result::Result<NonZeroU64, String> {
    NonZeroU64::new(bytes::parse(text)?).ok_or_else(|| "expected at least 1 byte".to_owned())
}

impl Backup {
    pub fn run(self) -> Result<()> {
        let look = self.place.look()?;
        let engine = Database::engine_at(&self.place.dir)?;
        let database = match look {
            Look::Closed(database) => database,
            Look::Running(client) => {
                let made = self.copy_running(client)?;
                return self.flags.report(&made, None, engine, &self.to);
            }
        };
        let (options, progress) = self.flags.options("backup")?;
        let made = match &self.incremental {
            Some(base) => database.backup_changes(&self.to, base, &options),
            None => database.backup_with(&self.to, &options),
        };
        drop(options);
        progress.end();
        let reported = made
            .map_err(Failure::from)
            .and_then(|report| self.flags.report(&report.into(), None, engine, &self.to));
        close_after(&database, reported)
    }

    /// Asks the process that has the database open for the copy. Checks the copy in this process.
    fn copy_running(&self, mut client: Client) -> Result<CopyMade> {
        let cannot = |error| Failure::failed(format_args!("cannot prepare to stop the connection: {error}"));
        let stopper = client.stopper().map_err(cannot)?;
        on_stop(move || stopper.stop())?;
        let path = |path: &Path| {
            let absolute = std::path::absolute(path);
            let cannot = |error| Failure::failed(format_args!("{}: {error}", path.display()));
            absolute.map(|path| Bytes(path.into_os_string().into_vec())).map_err(cannot)
        };
        let request = Request::Backup {
            to: path(&self.to)?,
            base: self.incremental.as_deref().map(path).transpose()?,
            bytes_per_second: self.flags.rate,
        };
        let (mut progress, begun) = (Progress::new("backup"), Instant::now());
        let reply = client.ask_with_progress(&request, |done, of| show(&mut progress, begun, done, of));
        drop(progress);
        let (id, stamp, bytes, micros) = match reply.map_err(Failure::failed)? {
            Reply::Copied { id, stamp, bytes, micros } => (id, stamp, bytes, micros),
            other => {
                return Err(Failure::failed(format_args!(
                    "the process that has the database open sent an unexpected reply: {other:?}"
                )));
            }
        };
        let verified = match self.flags.verify {
            true => Some(Database::verify_path(&self.to, None)?),
            false => None,
        };
        Ok(CopyMade { id, stamp, bytes, seconds: micros as f64 / 1e6, verified })
    }
}

/// A finished copy, made by this process or by the one that has the database open.
struct CopyMade {
    id: String,
    stamp: u64,
    bytes: u64,
    seconds: f64,
    verified: Option<VerifyReport>,
}

impl From<BackupReport> for CopyMade {
    fn from(report: BackupReport) -> CopyMade {
        CopyMade {
            id: report.id.to_string(),
            stamp: report.stamp.get(),
            bytes: report.bytes,
            seconds: report.elapsed.as_secs_f64(),
            verified: report.verified,
        }
    }
}

fn show(progress: &mut Progress, begun: Instant, done: u64, of: u64) {
    let fraction = (of > 0).then(|| done as f64 / of as f64);
    let per_second = (done as f64 / begun.elapsed().as_secs_f64().max(1e-3)) as u64;
    progress.show(fraction, || format!("{} of {}, {}/s", shown(done), shown(of), shown(per_second)));
}

impl Restore {
    pub fn run(self) -> Result<()> {
        let Some((to, from)) = self.folders.split_last() else {
            return Err(Failure::usage("the folders of a backup and of the new database are needed"));
        };
        for dir in from.iter().take(1) {
            DatabaseDir { dir: dir.clone() }.must_exist()?;
        }
        let (options, progress) = self.flags.options("restore")?;
        let made = match (&self.archive, self.to) {
            (Some(archive), Some(point)) => Database::restore_to(from, archive, point, to, &options)
                .map(|report| (report.copy.clone(), Some(report))),
            _ => Database::restore_chain(from, to, &options).map(|report| (report, None)),
        };
        drop(options);
        progress.end();
        let (report, reached) = made?;
        let engine = Database::engine_at(to)?;
        self.flags.report(&report.into(), reached.as_ref().zip(self.to), engine, to)
    }
}

/// Reads the value of `--to`.
fn point(text: &str) -> std::result::Result<RestorePoint, String> {
    if text == "end" {
        return Ok(RestorePoint::End);
    }
    if let Ok(stamp) = text.parse() {
        return Ok(RestorePoint::Stamp(CommitStamp::new(stamp)));
    }
    let time = humantime::parse_rfc3339_weak(text);
    time.map(RestorePoint::Time).map_err(|_| {
        "expected `end`, the stamp of a commit, or a time such as 2026-11-25T09:30:00Z".to_owned()
    })
}

fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// Returns the report of a restore to a point, in words.
fn restored(report: &RestoreReport, point: RestorePoint, engine: EngineKind) -> String {
    let RestoreReport { copy, moment, next_moment, .. } = report;
    let mut text = match (engine, point) {
        // Commits become durable in another order than that of their stamps, so commits with
        // smaller stamps may be missing.
        (EngineKind::Memory, RestorePoint::Time(_) | RestorePoint::End) => {
            format!("no commit in the database has a greater stamp than {}", copy.stamp)
        }
        _ => format!("the database has every commit up to stamp {}", copy.stamp),
    };
    if let Some(moment) = moment {
        text += &format!(", all durable at {}", time(*moment));
    }
    if let Some(next) = next_moment {
        text += &format!("; the next moment that the archive has noted is {}", time(*next));
    }
    text
}

/// The progress bar of a copy. It must be removed before other output is printed.
struct CopyBar(Arc<Mutex<Option<Progress>>>);

impl CopyBar {
    fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl CopyFlags {
    fn options(&self, what: &str) -> Result<(BackupOptions, CopyBar)> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = is_stopped.clone();
        on_stop(move || stop.store(true, Ordering::Relaxed))?;
        let progress = Arc::new(Mutex::new(Some(Progress::new(what))));
        let (showing, begun) = (progress.clone(), Instant::now());
        let on_progress = move |done: u64, of: u64| {
            if let Some(progress) = &mut *showing.lock().unwrap_or_else(PoisonError::into_inner) {
                show(progress, begun, done, of);
            }
            match is_stopped.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let options = BackupOptions {
            bytes_per_second: self.rate,
            verify: self.verify,
            on_progress: Some(Arc::new(on_progress)),
        };
        Ok((options, CopyBar(progress)))
    }

    /// Prints the report of a copy, and the findings of the check.
    fn report(
        &self,
        made: &CopyMade,
        reached: Option<(&RestoreReport, RestorePoint)>,
        engine: EngineKind,
        to: &Path,
    ) -> Result<()> {
        let (seconds, checked) = (made.seconds, made.verified.as_ref());
        checked.iter().for_each(|checked| verify::print_faults(checked));
        let text = if self.json {
            let object = json!({
                "id": made.id,
                "stamp": made.stamp,
                "bytes": made.bytes,
                "seconds": seconds,
                "verified": checked.map(verify::as_json),
                "moment": reached.and_then(|(reached, _)| reached.moment).map(time),
                "next_moment": reached.and_then(|(reached, _)| reached.next_moment).map(time),
            });
            object.to_string()
        } else {
            let mut text = format!("copied {} to {} in {seconds:.1} s", shown(made.bytes), to.display());
            if let Some((reached, point)) = reached {
                text += &format!("\n{}", restored(reached, point, engine));
            }
            if let Some(checked) = checked.filter(|checked| checked.is_sound()) {
                text += &format!("\n{}", verify::summary(checked, engine));
            }
            text
        };
        let said = say(text);
        // A fault sets the exit code even if no program reads the output.
        match checked {
            Some(checked) if !checked.is_sound() => Err(Failure::Said),
            _ => said,
        }
    }
}
