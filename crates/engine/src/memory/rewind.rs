//! Bringing a copy of a memory engine's database back to a stamp.
//!
//! The thread that restores runs this code; no database is open. The log of a copy ends at a cut of
//! all streams. Below the cut lie all commits up to the wanted stamp, and some commits with greater
//! stamps. The copy is recovered without the commits of greater stamps, through an overlay that
//! writes no file. The recovered rows are then written as the copy's checkpoint. This checkpoint
//! needs the log only from the cut on, where the log ends.
//!
//! Invariants:
//!
//! 1. A transaction reads only versions with lower stamps than its own. So no transaction that is
//!    kept has read from one that is left out, and the rows are those of all commits up to the
//!    stamp.
//! 2. The clock continues above every stamp in the log, including the stamps that were left out.
//!
//! A crash leaves an incomplete copy, which no call opens as a database.

use super::checkpoint::{self, CheckpointFolder, Manifest, Row as FileRow};
use super::engine::View;
use super::open::share_of;
use super::recovery::{Recovered, Recovery};
use super::store::{Key, Row, SLOTS_MAX, Settings, Source, Store};
use crate::control::Control;
use crate::copy::{Pace, Target};
use crate::directory::LOG_FOLDER;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::{CommitStamp, Lsn};
use katydid_device::{Gate, OverlayDirectory, Watch};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{Background, Options as LogOptions};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Memory limit of this recovery: practically none, because the limit of the database's later
/// openings is not known here.
const MEMORY_BYTES: u64 = 1 << 50;

/// Makes `until` the last commit in the copy, whose log ends at `ends`. Returns the contents for
/// the copy's control file.
pub(super) fn rewind(
    target: &Target,
    control: &Control,
    ends: &[Lsn],
    until: CommitStamp,
    pace: &mut Pace<'_>,
) -> Result<Control> {
    let missing = |name: &str| Error::Corrupt {
        place: target.directory.describe(),
        page: None,
        finding: format!("{name} is missing"),
    };
    let folder = CheckpointFolder::existing(target.directory.as_ref(), target.method, target.id)?;
    let folder = folder.ok_or_else(|| missing(checkpoint::FOLDER))?;
    let settings = Settings::new(MEMORY_BYTES, SLOTS_MAX, Source::monotonic());
    let mut recovery = Recovery::new(settings, Background::Caller, None).until(Timestamp::new(until.get()));
    recovery.checkpoint(&folder, control.checkpoint_number, control.streams)?;
    let options = Options::default();
    let watch = Watch::new(options.advanced.log.stall_after);
    let overlay = Arc::new(OverlayDirectory::over(target.directory.clone()));
    let (directory, gate) = Gate::wrap(watch.before(overlay));
    let log_folder = directory.existing_subdirectory(LOG_FOLDER)?.ok_or_else(|| missing(LOG_FOLDER))?;
    let options = LogOptions {
        log_id: Some(target.id),
        streams: control.streams,
        background: Background::Caller,
        ..share_of(&options.log_options(), control.streams)
    };
    let (log, replayed) = recovery.open_log(log_folder, options, gate.clone(), watch)?;
    let view = View { log: log.clone(), gate, background: Background::Caller };
    let Recovered { store, next_table, .. } = recovery.finish(&replayed?, Arc::new(view))?;
    let (number, next_table) = (control.checkpoint_number + 1, control.next_table.max(next_table));
    write(
        &folder,
        number,
        &store,
        Manifest { next_table, greatest: store.now().get(), from: ends.to_vec(), parts: Vec::new() },
        pace,
    )?;
    folder.remove_all_but(&[number])?;
    Ok(Control { checkpoint_number: number, next_table, ..*control })
}

/// Writes all rows as checkpoint `number`.
fn write(
    folder: &CheckpointFolder,
    number: u64,
    store: &Store,
    manifest: Manifest,
    pace: &mut Pace<'_>,
) -> Result<()> {
    let writer = folder.begin(number)?;
    let mut part = writer.part()?;
    let mut rows: Vec<Row> = Vec::new();
    for table in store.tables() {
        let mut from = Some(Bound::Unbounded);
        while let Some(bound) = from {
            rows.clear();
            let bound = bound.as_ref().map(Key::as_slice);
            // No version is undecided, so there is no wait.
            from = store.rows(&table, bound, Duration::ZERO, &mut rows)?.map(Bound::Included);
            let mut bytes = 0;
            for row in &rows {
                let (key, value) = (row.key.as_slice(), row.value.as_deref());
                part.push(&FileRow { table: table.id(), timestamp: row.timestamp.get(), key, value })?;
                bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
            }
            pace.expect(bytes);
            pace.step(bytes)?;
        }
    }
    writer.finish(Manifest { parts: vec![part.finish()?], ..manifest })
}
