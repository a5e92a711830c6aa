//! Writing, preparing and trimming segments.
//!
//! A leader calls `write` and `sync`, readers call `read`, the maintenance thread and openings call
//! `prepare_next`, any thread calls `trim`. Locks: `upkeep` before `files`; no I/O is done while
//! `files` is held. Rules:
//!
//! 1. A file whose name says that it is a live segment is complete: zero-filled (or recycled, full
//!    of records with lower LSNs), with a durable header that agrees with the name. Content and
//!    header are written under another name. Then the file is renamed, the directory synced, and
//!    the control file updated; only then does `prepared_end` move.
//! 2. Segments appear in order, so a crash never leaves a gap between live ones.
//! 3. The new start is durable in the control file before any segment below it is touched.
//! 4. The segment that holds the start always exists.
//!
//! A crash leaves at most: an unfinished file, which the next opening removes; a trimmed segment
//! under its old name, perhaps already with the header of its next use (the next opening recycles
//! this file again); a complete segment under its new name, or under its old one if the crash takes
//! the renaming back.

use super::files::{SegmentFiles, Source, read_across};
use super::header::{SegmentHeader, UNFINISHED_NAME, name};
use crate::control::{Control, ControlState};
use crate::error::{Error, ReadError, Result};
use crate::geometry::Geometry;
use crate::seal::SEALED_BYTES;
use katydid_device::{
    self as device, AlignedBuffer, Cause, Create, Directory, File, Method, Verb, WriteMode,
};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{self, PHYSICAL_BYTES_MAX};
use katydid_kernels::sync_shim::{AtomicU64, Ordering};
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// All segments of an open log, and its control file.
#[derive(Debug)]
pub(crate) struct SegmentStore {
    directory: Arc<dyn Directory>,
    geometry: Geometry,
    method: Method,
    /// Maximum number of trimmed segments kept for reuse.
    spare_segments: usize,
    files: RwLock<SegmentFiles>,
    /// Written under `upkeep` with Release after the segment is in `files`; read by any thread with
    /// Acquire.
    prepared_end: AtomicU64,
    /// Written under `upkeep` with Release after the start is durable; read by any thread with
    /// Acquire.
    start: AtomicU64,
    /// Bytes of the segments in `upkeep.recyclable`, readable without the lock of `upkeep`, which a
    /// thread holds while it zero-fills a segment.
    recyclable: AtomicU64,
    upkeep: Mutex<Upkeep>,
}

/// State that preparing and trimming share.
#[derive(Debug)]
struct Upkeep {
    control: Control,
    /// Indexes of trimmed segments whose files still exist.
    recyclable: Vec<u64>,
}

impl SegmentStore {
    /// Makes the store of the segments that recovery found: the open live segments, and the indexes
    /// of the segments below the start.
    pub(crate) fn new(
        directory: Arc<dyn Directory>,
        control: Control,
        method: Method,
        spare_segments: usize,
        files: SegmentFiles,
        recyclable: Vec<u64>,
    ) -> Self {
        let store = SegmentStore {
            geometry: control.state().geometry(),
            directory,
            method,
            spare_segments,
            prepared_end: AtomicU64::new(files.prepared_end().get()),
            start: AtomicU64::new(control.state().start.get()),
            recyclable: AtomicU64::new(0),
            files: RwLock::new(files),
            upkeep: Mutex::new(Upkeep { control, recyclable }),
        };
        store.note_recyclable(&store.upkeep());
        store
    }

    /// Updates `recyclable` after `upkeep.recyclable` has changed.
    fn note_recyclable(&self, upkeep: &Upkeep) {
        let bytes = upkeep.recyclable.iter().map(|&index| self.geometry.segment_bytes(index)).sum();
        self.recyclable.store(bytes, Ordering::Relaxed);
    }

    /// Returns the position up to which segments should be prepared: the end of the segment that
    /// holds `at`, plus `segments` segments of the same size.
    pub(crate) fn spare_end(&self, at: Lsn, segments: u64) -> u64 {
        let capacity = self.geometry.capacity(self.geometry.index(at));
        at.get() + self.geometry.left(at) + segments * capacity
    }

    /// Returns whether a position is in the first of all segments.
    pub(crate) fn is_in_first(&self, at: Lsn) -> bool {
        self.geometry.index(at) == 0
    }

    /// Returns the sizes of the segments.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the durable start of the log, up to which it was trimmed.
    pub(crate) fn start(&self) -> Lsn {
        Lsn::new(self.start.load(Ordering::Acquire))
    }

    /// Returns the first position that has no prepared segment. Grows with
    /// [`SegmentStore::prepare_next`].
    pub(crate) fn prepared_end(&self) -> Lsn {
        Lsn::new(self.prepared_end.load(Ordering::Acquire))
    }

    /// Returns the number of bytes of all files of the log.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let live = self.files().bytes();
        live + self.recyclable.load(Ordering::Relaxed) + 2 * SEALED_BYTES as u64
    }

    /// Returns the I/O method of the segment that holds `at`, or will hold it. The method may have
    /// fallen back from the one that the options name.
    pub(crate) fn method(&self, at: Lsn) -> Method {
        let files = self.files();
        files.file(at).or(files.last()).map_or(self.method, |file| file.method())
    }

    /// Writes `parts`, one after the other, from `at` on. `at` is a multiple of 4 KiB and lies
    /// below [`SegmentStore::prepared_end`]. Bytes beyond the end of a segment go to the next one;
    /// each segment gets one write.
    pub(crate) fn write(&self, at: Lsn, parts: &[IoSlice<'_>], mode: WriteMode) -> device::Result<()> {
        debug_assert_eq!(at, at.floor_block());
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total == 0 {
            // There may be no segment yet.
            return Ok(());
        }
        if total as u64 <= self.geometry.left(at) {
            return self.file(at, Verb::Write)?.write_at(parts, self.geometry.offset(at), mode);
        }
        let mut rest = parts.iter().map(|part| &part[..]);
        let mut current: &[u8] = &[];
        let mut done = 0;
        while done < total {
            let from = at.plus(done as u64);
            let mut room = usize::try_from(self.geometry.left(from)).unwrap_or(usize::MAX).min(total - done);
            done += room;
            let mut here = Vec::with_capacity(parts.len());
            while room > 0 {
                if current.is_empty() {
                    let Some(next) = rest.next() else { break };
                    current = next;
                }
                let (now, later) = current.split_at(current.len().min(room));
                here.push(IoSlice::new(now));
                room -= now.len();
                current = later;
            }
            self.file(from, Verb::Write)?.write_at(&here, self.geometry.offset(from), mode)?;
        }
        Ok(())
    }

    /// Makes everything written in `[from, to)` durable.
    pub(crate) fn sync(&self, from: Lsn, to: Lsn) -> device::Result<()> {
        let mut at = from;
        while at < to {
            self.file(at, Verb::Sync)?.sync()?;
            at = at.plus(self.geometry.left(at));
        }
        Ok(())
    }

    /// Syncs the segment that holds `at`, or the last segment if none holds it, whether or not
    /// anything was written to it.
    pub(crate) fn sync_again(&self, at: Lsn) -> device::Result<()> {
        let file = {
            let files = self.files();
            files.file(at).or(files.last()).cloned()
        };
        file.map_or(Ok(()), |file| file.sync())
    }

    /// Makes one more segment ready: recycles a trimmed one, or creates and zero-fills one. If the
    /// device has no room, the error is `Cause::NoSpace` and everything is left as it was. There is
    /// no segment above [`Lsn::LIMIT`], however large the device is.
    pub(crate) fn prepare_next(&self) -> device::Result<()> {
        self.prepare_under(&mut self.upkeep())
    }

    fn prepare_under(&self, upkeep: &mut Upkeep) -> device::Result<()> {
        let index = self.files().next_index();
        if self.geometry.base(index) == Lsn::LIMIT {
            return Err(device::Error::new(Verb::Prepare, name(index), Cause::NoSpace));
        }
        let state = *upkeep.control.state();
        let header = SegmentHeader::new(self.geometry, state.log_id, index, state.incarnation).encode();
        // The header is aligned, so that a direct file writes it without a copy.
        let header = AlignedBuffer::copy_of(&header[..]);
        let recycled = upkeep.recyclable.last().copied();
        let unready = recycled.map_or_else(|| UNFINISHED_NAME.to_owned(), name);
        let bytes = self.geometry.segment_bytes(index);
        // Number of bytes that the file certainly has. Bytes beyond this length may be in the cache
        // only, left by a preparation that failed.
        let from = recycled.map_or(0, |index| self.geometry.segment_bytes(index));
        self.make_ready(&unready, from, bytes, &header[..])?;
        self.directory.rename(&unready, &name(index))?;
        if recycled.is_some() {
            upkeep.recyclable.pop();
            self.note_recyclable(upkeep);
        }
        self.directory.sync()?;
        let file = self.directory.open(&name(index), Create::Never, self.method)?;
        upkeep.control.update(ControlState { prepared_end: self.geometry.base(index + 1), ..state })?;
        let mut files = self.files_mut();
        files.push(file);
        self.prepared_end.store(files.prepared_end().get(), Ordering::Release);
        Ok(())
    }

    /// Gives the file of this name the length `bytes`, zeros from `before` on, and a durable
    /// header. `before` is the length of the file in its last use, or 0 for a new file.
    fn make_ready(&self, unready: &str, before: u64, bytes: u64, header: &[u8]) -> device::Result<()> {
        let file = self.directory.open(unready, Create::IfMissing, self.method)?;
        let from = if before > 0 { file.len()?.min(before) } else { 0 };
        if from < bytes
            && let Err(error) = file.prepare(from, bytes)
        {
            if error.is_no_space() && before == 0 {
                // The part that was prepared must not take space that other files could use.
                drop(file);
                self.directory.remove(unready)?;
            }
            return Err(error);
        }
        file.write_at(&[IoSlice::new(header)], 0, WriteMode::Durable)
    }

    /// Drops the log below `to`. `to` is the start of a record or the durable frontier, and is at
    /// most `durable`. Segments entirely below `to` are kept for reuse, or removed if enough are
    /// kept already. If the start is at or above `to` already, nothing is done.
    ///
    /// When this returns, the new start is durable. If a crash comes before the start is durable,
    /// the log is untrimmed.
    pub(crate) fn trim(&self, to: Lsn, durable: Lsn) -> Result<()> {
        if to > durable {
            return Err(Error::BeyondEnd { at: to, end: durable });
        }
        let mut upkeep = self.upkeep();
        if to <= self.start() {
            return Ok(());
        }
        let state = *upkeep.control.state();
        let start_incarnation = if to == durable { state.incarnation } else { incarnation_at(self, to)? };
        while self.prepared_end() <= to {
            self.prepare_under(&mut upkeep)?;
        }
        let state = *upkeep.control.state();
        upkeep.control.update(ControlState { start: to, start_incarnation, durable, ..state })?;
        self.start.store(to.get(), Ordering::Release);
        let first_live = self.geometry.index(to);
        let mut removed = false;
        while let Some(index) = self.pop_below(first_live) {
            if upkeep.recyclable.len() < self.spare_segments {
                upkeep.recyclable.push(index);
                self.note_recyclable(&upkeep);
            } else {
                self.directory.remove(&name(index))?;
                removed = true;
            }
        }
        if removed {
            self.directory.sync()?;
        }
        Ok(())
    }

    /// Sets the log's incarnation, and the lower bound of its durable frontier, in the control
    /// file, and makes both durable. Called by recovery.
    pub(crate) fn begin_incarnation(&self, incarnation: u32, durable: Lsn) -> device::Result<()> {
        let mut upkeep = self.upkeep();
        let state = *upkeep.control.state();
        upkeep.control.update(ControlState { incarnation, durable, ..state })
    }

    /// Stores durably that the log is durable up to `durable`. Called when the log closes, because
    /// no later record stores that the last record was durable.
    pub(crate) fn note_durable(&self, durable: Lsn) -> device::Result<()> {
        let mut upkeep = self.upkeep();
        let state = *upkeep.control.state();
        upkeep.control.update(ControlState { durable, ..state })
    }

    /// Returns whether the log may have records that truncate.
    pub(crate) fn truncates(&self) -> bool {
        self.upkeep().control.state().truncates
    }

    /// Stores durably that the log may have records that truncate.
    pub(crate) fn allow_truncations(&self) -> device::Result<()> {
        let mut upkeep = self.upkeep();
        let state = *upkeep.control.state();
        if state.truncates {
            return Ok(());
        }
        upkeep.control.update(ControlState { truncates: true, ..state })
    }

    fn file(&self, at: Lsn, verb: Verb) -> device::Result<Arc<dyn File>> {
        let file = self.files().file(at).cloned();
        file.ok_or_else(|| device::Error::new(verb, self.file_name(at), Cause::NotFound))
    }

    /// A function of its own, so that the lock is not held while files are removed.
    fn pop_below(&self, index: u64) -> Option<u64> {
        self.files_mut().pop_below(index)
    }

    // A panic while one of these locks is held leaves nothing half changed, so a poisoned lock is
    // used as it is.
    fn files(&self) -> RwLockReadGuard<'_, SegmentFiles> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, SegmentFiles> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the incarnation of the record that starts at `at`, which is below the durable frontier.
pub(crate) fn incarnation_at(source: &dyn Source, at: Lsn) -> Result<u32> {
    let mut bytes = vec![0; PHYSICAL_BYTES_MAX];
    let got = source.read(at, &mut bytes)?;
    match record::decode(&bytes[..got], at, source.layout()) {
        Ok(decoded) => Ok(decoded.header.incarnation),
        Err(invalid) => {
            let file = source.file_name(at);
            Err(Error::Read(ReadError::Corrupt { at, file, reason: invalid.reason() }))
        }
    }
}

impl Source for SegmentStore {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        read_across(self.geometry, at, buffer, |at| self.files().file(at).cloned())
    }

    fn prepared_end(&self) -> Lsn {
        SegmentStore::prepared_end(self)
    }

    fn file_name(&self, at: Lsn) -> String {
        name(self.geometry.index(at))
    }
}
