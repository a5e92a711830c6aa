//! `backup` and `restore`: whole copies of a database.

use crate::verify;
use clap::Args;
use katydid::{BackupOptions, BackupReport, Database, EngineKind};
use katydid_command::bytes::{self, shown};
use katydid_command::database::{DatabaseDir, close_after};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::progress::Progress;
use katydid_command::signals::on_stop;
use serde_json::json;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Copy the database into an empty or new folder
///
/// The copy is a database of its own: it can be opened, or kept and restored. A backup that is interrupted leaves a folder that no command takes for a
/// database; remove it. A database that a process has open is refused: programs call Database::backup.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid backup --dir ./db /mnt/backup/monday --verify\n  \
                        katydid backup --dir ./db ./copy --rate 50MiB")]
pub struct Backup {
    /// Folder of the copy: empty, or not there yet
    to: PathBuf,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    place: DatabaseDir,
}

/// Make a database of a backup, in an empty or new folder
///
/// Nothing is changed in the folder of the backup. A backup that was opened after it was made is refused: it is a database, and can be opened or backed up.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid restore /mnt/backup/monday ./db --verify")]
pub struct Restore {
    /// Folder of the backup
    from: PathBuf,
    /// Folder of the database to be made: empty, or not there yet
    to: PathBuf,
    #[command(flatten)]
    how: How,
}

/// How a copy is made and told of.
#[derive(Debug, Args)]
struct How {
    /// Copy at most so many bytes per second
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rate: Option<NonZeroU64>,
    /// Check the copy afterwards, as verify does; exit code 1 if a fault is found
    #[arg(long)]
    verify: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> std::result::Result<NonZeroU64, String> {
    NonZeroU64::new(bytes::parse(text)?).ok_or_else(|| "expected more than no bytes".to_owned())
}

impl Backup {
    pub fn run(self) -> Result<()> {
        self.place.must_exist()?;
        let database = self.place.open_read_only()?;
        let engine = Database::engine_at(&self.place.dir)?;
        let (options, progress) = self.how.options("backup")?;
        let made = database.backup_with(&self.to, &options);
        drop(options);
        progress.end();
        let told = made.map_err(Failure::from).and_then(|report| self.how.tell(&report, engine, &self.to));
        close_after(&database, told)
    }
}

impl Restore {
    pub fn run(self) -> Result<()> {
        DatabaseDir { dir: self.from.clone() }.must_exist()?;
        let (options, progress) = self.how.options("restore")?;
        let made = Database::restore(&self.from, &self.to, &options);
        drop(options);
        progress.end();
        let report = made?;
        let engine = Database::engine_at(&self.to)?;
        self.how.tell(&report, engine, &self.to)
    }
}

/// The bar of a copy. It must go before anything else is printed.
struct Shown(Arc<Mutex<Option<Progress>>>);

impl Shown {
    fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl How {
    fn options(&self, what: &str) -> Result<(BackupOptions, Shown)> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = is_stopped.clone();
        on_stop(move || stop.store(true, Ordering::Relaxed))?;
        let progress = Arc::new(Mutex::new(Some(Progress::new(what))));
        let (showing, begun) = (progress.clone(), Instant::now());
        let on_progress = move |done: u64, of: u64| {
            if let Some(progress) = &mut *showing.lock().unwrap_or_else(PoisonError::into_inner) {
                let fraction = (of > 0).then(|| done as f64 / of as f64);
                let seconds = begun.elapsed().as_secs_f64().max(1e-3);
                let per_second = (done as f64 / seconds) as u64;
                progress
                    .show(fraction, || format!("{} of {}, {}/s", shown(done), shown(of), shown(per_second)));
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
        Ok((options, Shown(progress)))
    }

    /// Says what was made, and what the check has found.
    fn tell(&self, report: &BackupReport, engine: EngineKind, to: &Path) -> Result<()> {
        let seconds = report.elapsed.as_secs_f64();
        let checked = report.verified.as_ref();
        checked.iter().for_each(|checked| verify::tell_faults(checked));
        if self.json {
            let object = json!({
                "id": report.id.to_string(),
                "stamp": report.stamp.get(),
                "bytes": report.bytes,
                "seconds": seconds,
                "verified": checked.map(verify::as_json),
            });
            say(object.to_string())?;
        } else {
            say(format!("copied {} to {} in {seconds:.1} s", shown(report.bytes), to.display()))?;
            if let Some(checked) = checked.filter(|checked| checked.is_sound()) {
                say(verify::summary(checked, engine))?;
            }
        }
        match checked {
            Some(checked) if !checked.is_sound() => Err(Failure::Said),
            _ => Ok(()),
        }
    }
}
