//! Copying a database of the memory engine: its last checkpoint, and the log after that.
//!
//! The copying thread runs this code while transactions and checkpoints run. While the thread holds
//! `CheckpointSchedule::turn`, it pins the checkpoint that the control file names, and the log that
//! this checkpoint needs. The thread copies the rows, then takes a cut of the log
//! ([`Log::cut`](katydid_wal::Log::cut)), then copies the log up to the cut.
//!
//! The copy has a state that a crash at the cut might have left: restart keeps the records below
//! the cut whose dependencies are also below the cut, and drops the others (`docs/recovery.md`,
//! "Copies"). A copy that is extended by archived log also ends at a cut, and may be brought back
//! from this cut to a stamp ([`rewind`]). Blocks of rows are copied as they are, with heads for the
//! id of the copy (`checkpoint/copy.rs`).

use super::checkpoint::CheckpointFolder;
use super::engine::Engine;
use super::rewind::rewind;
use crate::checkpoint_schedule::TakesCheckpoints;
use crate::control::{Control, Shutdown};
use crate::copy::{Copied, Extension, Pace, Target, Unopened};
use crate::directory::LOG_FOLDER;
use crate::error::{CopyFault, Error, Result};
use crate::pause::{self, PausePoint};
use crate::{CommitStamp, Lsn};
use katydid_wal::{Background, CopyTarget, Stream, copy_unopened};
use std::sync::atomic::Ordering;

/// Bytes of the log that are read at once.
const STRETCH_BYTES: usize = 1 << 20;

impl Engine {
    /// See [`crate::engine::Engine::copy`].
    pub(crate) fn copy(&self, target: &Target, pace: &mut Pace<'_>) -> Result<Copied> {
        if self.log.first().is_bounded() {
            let fault = CopyFault::LogInNvram { log: self.log.first().kind() };
            return Err(Error::Copy { place: self.place.clone(), fault });
        }
        if target.base.is_some() {
            return Err(Error::Copy { place: self.place.clone(), fault: CopyFault::NoIncrements });
        }
        let (pin, _files, from, control) = {
            let _visit = self.opening.visit()?;
            let _turn = self.schedule().turn.lock();
            let control = self.control.get();
            let from = match control.checkpoint_number {
                0 => vec![Lsn::ZERO; self.log.streams().len()],
                number => self.folder.read(number)?.manifest().from.clone(),
            };
            let pin = self.log.pin(&from, self.options.advanced.log_hard_bytes)?;
            (pin, self.copied.hold(control.checkpoint_number), from, control)
        };
        let ends = self.log.streams().iter().map(Stream::reserved);
        pace.expect(ends.zip(&from).map(|(end, from)| end.since(*from)).sum());
        let background = self.options.advanced.log.background;
        copy_checkpoint(&self.folder, control.checkpoint_number, target, pace, background)?;
        pause::at(PausePoint::PagesCopied);
        let cut = {
            let _visit = self.opening.visit()?;
            self.log.cut()?
        };
        if self.gate.is_shut() {
            return Err(self.poison_error());
        }
        // The control file is read after the cut is known: a table gets its number before a record
        // names the table, so `next_table` is above the numbers of all tables that the log below
        // the cut names.
        let next_table = self.control.get().next_table;
        let folder = target.directory.subdirectory(LOG_FOLDER)?;
        let log = CopyTarget { directory: folder.as_ref(), id: target.id, method: target.method };
        let stamp = self.greatest_stamp(&from, &cut).and_then(|stamp| {
            self.log.copy(&from, &cut, log, &mut |bytes| pace.step(bytes))?;
            Ok(stamp)
        });
        // The pin is checked first: if the pin is lost, the log may have been trimmed while this
        // thread read it. A read error then does not show that the log is damaged.
        target.check_pin(&pin)?;
        let stamp = stamp?;
        let control = Control { database: target.id, shutdown: Shutdown::Unclean, next_table, ..control };
        let incarnations = self.log.streams().iter().map(|log| u64::from(log.recovery().incarnation)).sum();
        Ok(Copied { control, stamp, incarnations, log_start: Lsn::ZERO })
    }
}

impl Engine {
    /// The greatest stamp in the checkpoint and in the log between `from` and a cut. The clock's
    /// time would be an upper bound, too. But the next opening does not know the clock's time, and
    /// may give stamps below it.
    fn greatest_stamp(&self, from: &[Lsn], cut: &[Lsn]) -> Result<CommitStamp> {
        let mut greatest = CommitStamp::new(self.trimmed_stamp.load(Ordering::Acquire));
        for ((stream, from), cut) in self.log.streams().iter().zip(from).zip(cut) {
            let mut at = *from;
            while let Some(stretch) = stream.stretch_until(at, *cut, STRETCH_BYTES)? {
                greatest = greatest.max(stretch.stamp_max);
                at = stretch.to;
            }
        }
        Ok(greatest)
    }
}

/// Copies a copy that was not opened since it was made. See
/// [`crate::engine::EngineFiles::copy_unopened`].
pub(crate) fn copy_files(
    source: &Unopened,
    control: &Control,
    target: &Target,
    pace: &mut Pace<'_>,
    extension: Option<&Extension>,
) -> Result<Control> {
    let missing = |name: &str| Error::Corrupt {
        place: source.directory.describe(),
        page: None,
        finding: format!("{name} is missing"),
    };
    let folder = CheckpointFolder::existing(source.directory.as_ref(), target.method, source.manifest.id)?;
    let folder = folder.ok_or_else(|| missing(super::checkpoint::FOLDER))?;
    copy_checkpoint(&folder, control.checkpoint_number, target, pace, Background::Threads)?;
    let log = source.directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| missing(LOG_FOLDER))?;
    let folder = target.directory.subdirectory(LOG_FOLDER)?;
    let to = CopyTarget { directory: folder.as_ref(), id: target.id, method: target.method };
    let Some(Extension { log, cuts, until, .. }) = extension else {
        copy_unopened::<Error>(&log, to, &mut |bytes| pace.step(bytes))?;
        return Ok(*control);
    };
    log.copy(cuts, to, &mut |bytes| pace.step(bytes))?;
    match until {
        None => Ok(*control),
        Some(until) => {
            let ends: Vec<Lsn> = cuts.iter().map(|cut| cut.end).collect();
            rewind(target, control, &ends, *until, pace)
        }
    }
}

/// Copies checkpoint `number`, if it is not zero. Creates the folder of checkpoints in any case.
fn copy_checkpoint(
    source: &CheckpointFolder,
    number: u64,
    target: &Target,
    pace: &mut Pace<'_>,
    background: Background,
) -> Result<()> {
    let folder = CheckpointFolder::create(target.directory.as_ref(), target.method, target.id)?;
    if number == 0 {
        return Ok(());
    }
    let (reader, writer) = (source.read(number)?, folder.begin(number)?);
    pace.expect(reader.manifest().parts.iter().map(|part| part.bytes).sum());
    reader.copy(writer, background, &mut |bytes| pace.step(bytes))
}
