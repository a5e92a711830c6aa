//! Restoring a backup to a later moment, with the archived log.
//!
//! The thread of the caller does all work; no database is open. The result is made in the same
//! steps as a restored backup ([`crate::copy`]). The log of the result continues with the archive's
//! bytes, up to the end of the last record at or before the wanted point. Opening the result
//! recovers the state that a crash of the source at that end would have left: exactly the
//! transactions whose commit records end there or before (`docs/recovery.md`, "Archives").
//!
//! The memory engine's stamps are no positions. A restored log of the memory engine ends at a cut
//! of all streams that the archive has noted. If a stamp is wanted, the log ends at the first cut
//! below which all commits up to the stamp lie. Commits with a greater stamp are left out.
//!
//! These conditions are checked before anything is written:
//!
//! 1. all needed bytes of the archive are there, with the right checksums of the bytes and of each
//!    record;
//! 2. the point is not before the end of the backup, whose pages or rows may have every change up
//!    to its end;
//! 3. no compaction lies between the backup and the point.
//!
//! A crash leaves an incomplete copy, which no call accepts as a database.

use crate::archive::{Archived, LocatedStretch, StreamPart};
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
use crate::{CommitStamp, Lsn};
use katydid_device::Directory;
use katydid_wal::{Cut, ExtendedLog};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The moment to which a database is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorePoint {
    /// All commits with this stamp or a lower one.
    Stamp(CommitStamp),
    /// All commits that were durable at the last moment that the archive has noted at or before
    /// this time. The commits between that moment and this time are left out.
    /// [`RestoreReport::next_moment`] is the next moment that the archive has noted.
    Time(SystemTime),
    /// Everything that is archived.
    End,
}

/// The outcome of restoring to a point.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The report of the copy. Its stamp is that of the last commit in the copy, or a greater one
    /// below the stamp of the next commit. If a database of the memory engine was restored to a
    /// time or to the end, the stamp is only a bound: the copy has no commit with a greater stamp,
    /// and has all commits that were durable at `moment`.
    pub copy: BackupReport,
    /// A moment, noted by the archive, when everything in the copy was durable; `None` if the
    /// archive was not needed.
    pub moment: Option<SystemTime>,
    /// The next moment that the archive has noted, if there is one. Commits after it are not in the
    /// copy.
    pub next_moment: Option<SystemTime>,
}

impl Database {
    /// Makes a database in the state that it had at `point`, from a backup, increments to it if
    /// there are any, and the archived log. `from` are the backup and its increments, as for
    /// [`Database::restore_chain`]. `archive` is the directory of a
    /// [`LogArchive`](crate::LogArchive). `to` is created if missing, and must be empty. The call
    /// changes nothing in `from` and `archive`. Restoring a database of the memory engine to a
    /// stamp holds the whole database in memory.
    ///
    /// # Errors
    /// [`Error::Archive`], with the reason why the point cannot be restored ([`ArchiveFault`]): the
    /// point is before the end of the backup or after the end of the archive; a part of the log is
    /// missing or damaged (with its file and position); the database was compacted between the
    /// backup and the point. The errors of [`Database::restore_chain`].
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

    /// Makes a database as it was at `point`, in directories of any device. See
    /// [`Database::restore_to`].
    ///
    /// # Errors
    /// The errors of [`Database::restore_to`].
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

/// A restoration that was found to be possible.
struct Plan {
    chain: Chain,
    last: Manifest,
    extension: Extension,
    /// The stamp for [`RestoreReport::copy`].
    stamp: CommitStamp,
    next_table: u32,
    moment: Option<SystemTime>,
    next_moment: Option<SystemTime>,
}

/// A backup and an archive, opened and compared.
struct Material {
    log: Arc<dyn Directory>,
    /// The end of the backup's log in each stream.
    begin: Vec<Lsn>,
    /// The stamp of the backup.
    backup: CommitStamp,
    directory: Arc<dyn Directory>,
    archived: Arc<Archived>,
}

impl Plan {
    fn make(chain: Chain, archive: Arc<dyn Directory>, point: RestorePoint) -> Result<Plan> {
        let Some(Unopened { directory, manifest: last }) = chain.copies.last() else {
            return Err(Error::Option { option: "from", reason: "at least one backup".to_owned() });
        };
        let last = *last;
        let log = directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| Error::Corrupt {
            place: directory.describe(),
            page: None,
            finding: format!("{LOG_FOLDER} is missing"),
        })?;
        let begin = ExtendedLog::ends_of_copy::<Error>(&log)?;
        let archived = Arc::new(Archived::open(archive.clone(), last.source, &begin)?);
        let (engine, backup) = (chain.control.engine, last.stamp);
        let material = Material { log, begin, backup, directory: archive, archived };
        match engine {
            EngineKind::Paged => material.by_position(chain, last, point),
            EngineKind::Memory => material.by_cut(chain, last, point),
        }
    }

    fn restore(self, to: Arc<dyn Directory>, options: &BackupOptions) -> Result<RestoreReport> {
        let Plan { chain: Chain { copies, control, .. }, last, extension, stamp, .. } = &self;
        let settings = Options::default();
        let copy = make(to, None, &settings, options, &|| Ok(()), last.id, |target, pace| {
            let Extension { log, cuts, .. } = extension;
            pace.expect(log.bytes(cuts));
            let control = open::copy_unopened(copies, control, target, pace, Some(extension))?;
            let next_table = control.next_table.max(self.next_table);
            let control = Control { database: target.id, next_table, ..control };
            let incarnations = last.incarnations.max(log.incarnations(cuts));
            Ok(Copied { control, stamp: *stamp, incarnations, log_start: last.log_start })
        })?;
        Ok(RestoreReport { copy, moment: self.moment, next_moment: self.next_moment })
    }
}

impl Material {
    fn fault(&self, fault: ArchiveFault) -> Error {
        Error::archive(self.directory.as_ref(), fault)
    }

    /// Returns the error of a gap in the archive if there is one, because the wanted point may lie
    /// in the gap or above it. Otherwise returns the error of `fault`.
    fn fault_or_gap(&self, fault: ArchiveFault) -> Error {
        self.archived.check_gap().err().unwrap_or_else(|| self.fault(fault))
    }

    /// Returns the plan of an extension. Its `next_table` is the greatest one that a used stretch
    /// names.
    fn plan(
        self,
        chain: Chain,
        last: Manifest,
        extension: Extension,
        is_used: &dyn Fn(&LocatedStretch) -> bool,
    ) -> Plan {
        let used = self.archived.places().iter().filter(|place| is_used(place));
        let next_table = used.map(|place| place.at.head.next_table).max().unwrap_or(0);
        let stamp = last.stamp;
        Plan { chain, last, extension, stamp, next_table, moment: None, next_moment: None }
    }

    /// Returns the plan for the paged engine, whose stamps are positions.
    fn by_position(self, chain: Chain, last: Manifest, point: RestorePoint) -> Result<Plan> {
        let (archived, begin) = (self.archived.clone(), self.begin[0]);
        let of = CommitStamp::of_commit_at;
        let (backup, end) = (of(begin), of(archived.ends()[0]));
        if point == RestorePoint::End && archived.last() < begin {
            return Err(self.fault(ArchiveFault::EndsBefore { end: of(archived.last()), wanted: backup }));
        }
        let wanted = match point {
            RestorePoint::Stamp(stamp) => stamp,
            RestorePoint::End => end,
            // The stretch that notes the wanted moment may lie above a gap.
            RestorePoint::Time(time) => match noted_at(&archived, time) {
                Ok(place) => of(place.at.head.to),
                Err(unknown) => return Err(self.fault_or_gap(unknown)),
            },
        };
        if point == RestorePoint::End {
            archived.check_gap()?;
        }
        if wanted < backup {
            return Err(self.fault(ArchiveFault::BackupIsLater { backup, wanted }));
        }
        if wanted > end {
            return Err(self.fault_or_gap(ArchiveFault::EndsBefore { end, wanted }));
        }
        archived.check(&self.begin, &|place| of(place.at.head.from) < wanted)?;
        let log = ExtendedLog::open::<Error>(&self.log, archived.streams())?;
        // The file of the source may have been longer at the wanted point than at the end of any
        // archived stretch, because a compaction shortens it. So the length is found from the
        // records.
        let mut pages = 0;
        let cut = log.cut(0, &|end| of(end) <= wanted, &mut |record| {
            if open::is_rewriting(record) {
                return Err(self.fault(ArchiveFault::Compacted { at: record.lsn }));
            }
            pages = pages.max(open::pages_named(record)?);
            Ok(())
        })?;
        let mut at_or_behind = archived.cuts().filter(|place| place.at.head.to >= cut.end && cut.end > begin);
        let moment = match point {
            // Several stretches may end at the same position, with different moments. `noted_at`
            // has chosen the last moment up to `time`.
            RestorePoint::Time(time) => at_or_behind.take_while(|place| place.moment <= time).last(),
            _ => at_or_behind.next(),
        };
        let moment = moment.map(|place| place.moment);
        let next_moment = archived.cuts().find(|place| place.at.head.to > cut.end).map(|place| place.moment);
        let extension = Extension { log, cuts: vec![cut], pages, until: None };
        let plan = self.plan(chain, last, extension, &|place| place.at.head.from < cut.end);
        Ok(Plan { stamp: of(cut.end), moment, next_moment, ..plan })
    }

    /// Returns the plan for the memory engine, whose restored log ends at a cut that the archive
    /// has noted.
    fn by_cut(self, chain: Chain, last: Manifest, point: RestorePoint) -> Result<Plan> {
        let (archived, backup) = (self.archived.clone(), self.backup);
        let has_the_backup = |place: &&LocatedStretch| {
            place.at.parts.iter().zip(&self.begin).all(|(part, begin)| part.to >= *begin)
        };
        // The stamp up to which all commits lie below the cut.
        let complete_to = |place: &LocatedStretch| place.at.complete_to();
        let end = archived.cuts().last().map_or(CommitStamp::new(0), complete_to);
        let chosen = match point {
            RestorePoint::End => {
                archived.check_gap()?;
                let last = archived.cuts().filter(has_the_backup).last();
                last.ok_or_else(|| self.fault(ArchiveFault::EndsBefore { end, wanted: backup }))?
            }
            RestorePoint::Time(time) => {
                let place = noted_at(&archived, time).map_err(|unknown| self.fault_or_gap(unknown))?;
                if !has_the_backup(&place) {
                    let wanted = complete_to(place);
                    return Err(self.fault(ArchiveFault::BackupIsLater { backup, wanted }));
                }
                place
            }
            RestorePoint::Stamp(wanted) if wanted < backup => {
                return Err(self.fault(ArchiveFault::BackupIsLater { backup, wanted }));
            }
            RestorePoint::Stamp(wanted) => {
                let mut cuts = archived.cuts().filter(has_the_backup);
                let first = cuts.find(|place| complete_to(place) >= wanted);
                first.ok_or_else(|| self.fault_or_gap(ArchiveFault::EndsBefore { end, wanted }))?
            }
        };
        let to = chosen.at.head.to;
        let is_used = |place: &LocatedStretch| place.at.head.to <= to;
        archived.check(&self.begin, &is_used)?;
        let log = ExtendedLog::open::<Error>(&self.log, archived.streams())?;
        let cut = |(stream, part): (usize, &StreamPart)| {
            let cut = log.cut::<Error>(stream, &|end| end <= part.to, &mut |_| Ok(()))?;
            if cut.end != part.to {
                let (file, at) = (archived.streams()[stream].file_name(cut.end), cut.end);
                let finding = format!("in stream {stream} no record ends at the end of the stretch");
                return Err(self.fault(ArchiveFault::Corrupt { file, at, finding }));
            }
            Ok(cut)
        };
        let cuts: Vec<Cut> = chosen.at.parts.iter().enumerate().map(cut).collect::<Result<_>>()?;
        let until = match point {
            RestorePoint::Stamp(stamp) => Some(stamp),
            RestorePoint::Time(_) | RestorePoint::End => None,
        };
        let of_streams =
            archived.places().iter().filter(|place| is_used(place)).filter_map(|place| place.at.head.streams);
        let greatest = of_streams.map(|streams| streams.greatest).max().unwrap_or(backup).max(backup);
        let (stamp, moment) = (until.unwrap_or(greatest), Some(chosen.moment));
        let next_moment = archived.cuts().find(|place| place.at.head.to > to).map(|place| place.moment);
        let extension = Extension { log, cuts, pages: 0, until };
        let plan = self.plan(chain, last, extension, &is_used);
        Ok(Plan { stamp, moment, next_moment, ..plan })
    }
}

/// Returns the last stretch that notes a moment at or before `time`. A moment at or after `time`
/// must be noted as well, because otherwise more commits may have happened by `time`.
fn noted_at(archived: &Archived, time: SystemTime) -> std::result::Result<&LocatedStretch, ArchiveFault> {
    let before = archived.cuts().take_while(|place| place.moment <= time).last();
    let (first, last) = (archived.cuts().next(), archived.cuts().last());
    match (before, last) {
        (Some(before), Some(last)) if last.moment >= time => Ok(before),
        _ => {
            let moment = |of: Option<&LocatedStretch>| of.map(|place| place.moment);
            Err(ArchiveFault::TimeUnknown { first: moment(first), last: moment(last) })
        }
    }
}
