//! Restoring a backup to a later moment, with the archived log.
//!
//! On the thread of the caller; no database is open. The result is made as a restored backup is ([`crate::copy`]), with a log that goes on with the archive's
//! bytes up to the end of the last record at or before the wanted point. Opening it recovers what a crash of the source at that end would have left: exactly
//! the transactions whose commit records end there or before (`docs/recovery.md`, "Archives"). Before anything is written,
//!
//! 1. all bytes of the archive that are needed are there and have their checksums, and each of their records its own;
//! 2. the point is not before the end of the backup, whose pages may have everything up to there;
//! 3. no compacting lies between the backup and the point.
//!
//! A crash leaves an incomplete copy, which no call takes for a database.

use crate::CommitStamp;
use crate::archive::Archived;
use crate::backup::{Chain, chain_of, empty, make};
use crate::backup_options::{BackupOptions, BackupReport};
use crate::control::Control;
use crate::copy::{Copied, Extension, Manifest, Unopened};
use crate::database::Database;
use crate::directory::{LOG_FOLDER, existing};
use crate::error::{ArchiveFault, Error, Result};
use crate::ids::EngineKind;
use crate::open;
use crate::options::Options;
use katydid_device::Directory;
use katydid_wal::{ArchivedBytes, Cut, ExtendedLog};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The moment to which a database is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorePoint {
    /// All commits with this stamp or a lower one.
    Stamp(CommitStamp),
    /// All commits that were durable at the last moment that the archive has noted at or before this time. What was committed between that moment
    /// and the time is left out; [`RestoreReport::next_moment`] says how much later the next one is.
    Time(SystemTime),
    /// Everything that is archived.
    End,
}

/// The outcome of restoring to a point.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The copy. Its stamp is that of the last commit in it, or a greater one below that of the next commit.
    pub copy: BackupReport,
    /// A moment when everything in it was durable, as noted by the archive; `None` if the archive was not needed.
    pub moment: Option<SystemTime>,
    /// The next moment that the archive has noted, if there is one. What was committed after it is not in the database.
    pub next_moment: Option<SystemTime>,
}

impl Database {
    /// Makes a database of a backup, increments to it if there are any, and the archived log: as it was at `point`. `from` are the backup and its
    /// increments, as for [`Database::restore_chain`], `archive` is the directory of a [`LogArchive`](crate::LogArchive), and `to` is created
    /// if missing, and must be empty. Nothing in `from` and `archive` is changed. Only the paged engine's databases can be restored so.
    ///
    /// # Errors
    /// [`Error::Archive`] whose [`ArchiveFault`] says why the point cannot be had: it is before the end of the backup or after that of the archive, a part of
    /// the log is missing or damaged (with its file and position), or the database was compacted in between. Those of [`Database::restore_chain`].
    pub fn restore_to(
        from: &[impl AsRef<Path>],
        archive: impl AsRef<Path>,
        point: RestorePoint,
        to: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<RestoreReport> {
        let mut directories: Vec<Arc<dyn Directory>> = Vec::with_capacity(from.len());
        for from in from {
            directories.push(Arc::new(existing(from.as_ref())?));
        }
        let plan = Plan::make(chain_of(&directories)?, Arc::new(existing(archive.as_ref())?), point)?;
        plan.restore(empty(to.as_ref())?, options)
    }

    /// Makes a database as it was at `point`, in directories of any device. See [`Database::restore_to`].
    ///
    /// # Errors
    /// Those of [`Database::restore_to`].
    pub fn restore_to_in(
        from: &[Arc<dyn Directory>],
        archive: Arc<dyn Directory>,
        point: RestorePoint,
        to: Arc<dyn Directory>,
        options: &BackupOptions,
    ) -> Result<RestoreReport> {
        Plan::make(chain_of(from)?, archive, point)?.restore(to, options)
    }
}

/// What is to be restored, found to be possible.
struct Plan {
    chain: Chain,
    last: Manifest,
    extension: Extension,
    next_table: u32,
    moment: Option<SystemTime>,
    next_moment: Option<SystemTime>,
}

impl Plan {
    fn make(chain: Chain, archive: Arc<dyn Directory>, point: RestorePoint) -> Result<Plan> {
        let fault = |fault| Error::archive(archive.as_ref(), fault);
        let Some(Unopened { directory, manifest: last }) = chain.copies.last() else {
            return Err(Error::Option { option: "from", reason: "at least one backup".to_owned() });
        };
        let last = *last;
        if chain.control.engine == EngineKind::Memory {
            return Err(fault(ArchiveFault::MemoryEngine));
        }
        let log = directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| Error::Corrupt {
            place: directory.describe(),
            page: None,
            finding: format!("{LOG_FOLDER} is missing"),
        })?;
        let begin = ExtendedLog::end_of_copy::<Error>(log.as_ref())?;
        let archived = Arc::new(Archived::open(archive.clone(), last.source, begin)?);
        let (backup, end) = (CommitStamp::of_commit_at(begin), CommitStamp::of_commit_at(archived.end()));
        if point == RestorePoint::End && archived.last() < begin {
            let end = CommitStamp::of_commit_at(archived.last());
            return Err(fault(ArchiveFault::EndsBefore { end, wanted: backup }));
        }
        let wanted = match stamp_of(point, &archived) {
            Ok(wanted) => wanted,
            // Perhaps it is known behind a gap.
            Err(unknown) => {
                archived.check_gap()?;
                return Err(fault(unknown));
            }
        };
        if point == RestorePoint::End {
            archived.check_gap()?;
        }
        if wanted < backup {
            return Err(fault(ArchiveFault::BackupIsLater { backup, wanted }));
        }
        if wanted > end {
            archived.check_gap()?;
            return Err(fault(ArchiveFault::EndsBefore { end, wanted }));
        }
        archived.check(begin, &|at| CommitStamp::of_commit_at(at) < wanted)?;
        let extended = ExtendedLog::open::<Error>(log.as_ref(), archived.clone())?;
        let cut = cut(&extended, wanted, archive.as_ref())?;
        let used = archived.places().iter().filter(|place| place.head.from < cut.end);
        let pages = used.clone().map(|place| place.head.pages).max().unwrap_or(0);
        let next_table = used.map(|place| place.head.next_table).max().unwrap_or(0);
        let mut moments = archived.moments().filter(|(to, _)| *to >= cut.end && cut.end > begin);
        let moment = match point {
            // The last one at this position, for the time was looked up so.
            RestorePoint::Time(time) => moments.by_ref().take_while(|(_, moment)| *moment <= time).last(),
            _ => moments.next(),
        };
        let next_moment = archived.moments().find(|(to, _)| *to > cut.end);
        Ok(Plan {
            chain,
            last,
            extension: Extension { log: extended, cut, pages },
            next_table,
            moment: moment.map(|(_, moment)| moment),
            next_moment: next_moment.map(|(_, moment)| moment),
        })
    }

    fn restore(self, to: Arc<dyn Directory>, options: &BackupOptions) -> Result<RestoreReport> {
        let Plan { chain: Chain { copies, control, .. }, last, extension, .. } = &self;
        let settings = Options::default();
        let copy = make(to, None, &settings, options, &|| Ok(()), last.id, |target, pace| {
            pace.expect(extension.log.bytes(extension.cut));
            open::copy_unopened(copies, control, target, pace, Some(extension))?;
            let next_table = control.next_table.max(self.next_table);
            let control = Control { database: target.id, next_table, ..*control };
            let Cut { end, incarnation } = extension.cut;
            Ok(Copied {
                control,
                stamp: CommitStamp::of_commit_at(end),
                incarnations: last.incarnations.max(incarnation.into()),
                log_start: last.log_start,
            })
        })?;
        Ok(RestoreReport { copy, moment: self.moment, next_moment: self.next_moment })
    }
}

/// The greatest stamp of what is wanted.
fn stamp_of(point: RestorePoint, archived: &Archived) -> std::result::Result<CommitStamp, ArchiveFault> {
    let time = match point {
        RestorePoint::Stamp(stamp) => return Ok(stamp),
        RestorePoint::End => return Ok(CommitStamp::of_commit_at(archived.end())),
        RestorePoint::Time(time) => time,
    };
    let before = archived.moments().take_while(|(_, moment)| *moment <= time).last();
    let (first, last) = (archived.moments().next(), archived.moments().last());
    match (before, last) {
        (Some((to, _)), Some((_, last))) if last >= time => Ok(CommitStamp::of_commit_at(to)),
        _ => {
            let moment = |of: Option<(_, SystemTime)>| of.map(|(_, moment)| moment);
            Err(ArchiveFault::TimeUnknown { first: moment(first), last: moment(last) })
        }
    }
}

/// Where the restored log ends.
fn cut(log: &ExtendedLog, wanted: CommitStamp, archive: &dyn Directory) -> Result<Cut> {
    log.cut(&|end| CommitStamp::of_commit_at(end) <= wanted, &mut |record| match open::is_rewriting(record) {
        true => Err(Error::archive(archive, ArchiveFault::Compacted { at: record.lsn })),
        false => Ok(()),
    })
}
