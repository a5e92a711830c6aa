//! A growing directory of archived stretches.
//!
//! The program's thread runs this code. Stretches that are archived by one call go into one file,
//! until the file has [`FILE_BYTES`]. A new file is joined with the preceding file if it is at
//! least half as large as that file, and if both together have at most [`FILE_BYTES`]. So there are
//! few files even if small stretches are archived often. The number of times that a byte is
//! rewritten grows only with the logarithm of its file's size.
//!
//! A note is a stretch of no bytes that records a moment. It is put into a file of its own, which
//! is joined with its neighbours by the same rule as other files. Until then a later note of the
//! same position replaces this file.

use super::archived::{Archived, read_whole};
use super::archiver::{LogArchiver, LogStretch};
use super::format::{StretchHead, file_name};
use super::mark::ArchiveMark;
use crate::database::Database;
use crate::error::{ArchiveFault, Error, Result};
use crate::{CommitStamp, Lsn};
use katydid_device::{Create, Directory, DirectoryLock, File, FileDirectory, Method, WriteMode};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

/// Name of the file that is being written.
const UNFINISHED: &str = "unfinished.new";

/// Bytes of a file after which the next file is begun. Two files that together have more bytes are
/// not joined.
const FILE_BYTES: u64 = 64 << 20;

/// A receiver of progress: bytes archived since the call began, and bytes of durable log that are
/// still to be archived.
type OnProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// A directory in which the log of one database is archived, as files that [`Database::restore_to`]
/// reads.
///
/// A file may be removed if all its positions lie below the start of the log of the oldest backup
/// that you keep. The archive ignores files whose names are not of the form of
/// [`LogStretch::file_name`].
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let [path, backup, kept, restored] = ["db", "monday", "kept", "restored"].map(|name| folder.path().join(name));
/// use katydid::{BackupOptions, Database, LogArchive, RestorePoint};
///
/// let db = Database::open(path)?;
/// let fruit = db.table("fruit")?;
/// db.backup(&backup)?;
/// let txn = db.begin()?;
/// txn.put(&fruit, "apple", "red")?;
/// let wanted = txn.commit()?;
/// db.put(&fruit, "apple", "rotten")?;
///
/// let mut archive = LogArchive::open(&kept)?;
/// let mut archiver = archive.archiver(&db, "nightly", 1 << 30)?;
/// archive.take(&mut archiver)?;
/// # drop(archive);
///
/// let point = RestorePoint::Stamp(wanted);
/// Database::restore_to(&[backup], kept, point, &restored, &BackupOptions::default())?;
/// let db = Database::open(restored)?;
/// assert_eq!(db.get(&db.table("fruit")?, "apple")?.as_deref(), Some(&b"red"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogArchive {
    directory: Arc<dyn Directory>,
    /// The files in order of positions, without overlaps.
    files: Vec<ArchivedFile>,
    /// The head of the last stretch.
    last: Option<StretchHead>,
    _lock: Box<dyn DirectoryLock>,
}

#[derive(Debug)]
struct ArchivedFile {
    from: Lsn,
    to: Lsn,
    bytes: u64,
}

impl ArchivedFile {
    fn name(&self) -> String {
        file_name(self.from, self.to)
    }
}

impl LogArchive {
    /// Opens the archive in directory `path`, which is created if missing.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process archives there; [`Error::Archive`] if the last file is
    /// damaged; failures of the device.
    pub fn open(path: impl AsRef<Path>) -> Result<LogArchive> {
        Self::open_in(Arc::new(FileDirectory::open(path.as_ref())?))
    }

    /// Opens the archive in a directory of any device. See [`LogArchive::open`].
    ///
    /// # Errors
    /// Those of [`LogArchive::open`].
    pub fn open_in(directory: Arc<dyn Directory>) -> Result<LogArchive> {
        let lock = directory.lock()?;
        directory.sync()?;
        let names = directory.list()?;
        if names.iter().any(|name| name == UNFINISHED) {
            directory.remove(UNFINISHED)?;
        }
        let (mut files, mut superseded) = (Vec::<ArchivedFile>::new(), Vec::new());
        for (name, from, to) in Archived::names(&names) {
            match files.last() {
                // The preceding file has the bytes of this file, which is left only because a crash
                // interrupted its removal. A note (`from == to`) is kept, because a file that ends
                // at the note's position need not contain the note.
                Some(last) if to < last.to || to == last.to && from < to => superseded.push(name),
                _ => {
                    let bytes = directory.open_read_only(&name)?.len()?;
                    files.push(ArchivedFile { from, to, bytes });
                }
            }
        }
        let last = match files.last() {
            None => None,
            Some(file) => Archived::last_head(directory.as_ref(), &file.name(), file.from)?,
        };
        for name in &superseded {
            directory.remove(name)?;
        }
        Ok(LogArchive { directory, files, last, _lock: lock })
    }

    /// The end of the archived log; `None` if the archive is empty. In the memory engine it is the
    /// sum of the positions in all streams.
    pub fn end(&self) -> Option<Lsn> {
        self.last.as_ref().map(|last| last.head.to)
    }

    /// The last stamp that a backup can be restored to: the archive has every commit up to it.
    /// `None` if the archive is empty, or if the last stretch of a memory engine's archive ends
    /// between two cuts.
    pub fn stamp(&self) -> Option<CommitStamp> {
        self.last.as_ref().filter(|last| last.is_cut()).map(StretchHead::complete_to)
    }

    /// The end of the archive, for an archiver in another process; `None` if the archive is empty.
    pub fn mark(&self) -> Option<ArchiveMark> {
        self.last.clone().map(ArchiveMark)
    }

    /// Returns an archiver that begins where this archive ends. If the archive is empty, the
    /// archiver continues after the last acknowledgement of the archiver of this name. See
    /// [`Database::log_archiver`].
    ///
    /// # Errors
    /// Those of [`Database::log_archiver`]; [`Error::Archive`] with [`ArchiveFault::OtherDatabase`]
    /// or [`ArchiveFault::OtherHistory`] if the archive is of another log.
    pub fn archiver(&self, database: &Database, name: &str, bytes_max: u64) -> Result<LogArchiver> {
        match self.mark() {
            Some(mark) => database.log_archiver_after(name, bytes_max, &mark),
            None => database.log_archiver(name, bytes_max),
        }
    }

    /// Archives all log that is durable now, notes the moment, and returns the number of archived
    /// bytes. When this returns, the files and their names are durable, and the database need not
    /// keep that log any more.
    ///
    /// # Errors
    /// Those of [`LogArchiver::try_next`] and [`LogArchiver::acknowledge`]; failures of the
    /// archive's device, after which the call can be repeated with a new archiver.
    pub fn take(&mut self, archiver: &mut LogArchiver) -> Result<u64> {
        self.take_with(archiver, &mut |_, _| ())
    }

    /// Archives all log that is durable now, and reports the progress. See [`LogArchive::take`].
    ///
    /// # Errors
    /// Those of [`LogArchive::take`].
    pub fn take_with(&mut self, archiver: &mut LogArchiver, on_progress: OnProgress<'_>) -> Result<u64> {
        let mut taken = 0;
        while let Some(first) = archiver.try_next()? {
            let mut file = self.begin()?;
            let from = first.from();
            let mut next = Some(first);
            while let Some(stretch) = next {
                file.push(&stretch)?;
                taken += stretch.bytes.len() as u64;
                on_progress(taken, archiver.left());
                next = if file.bytes < FILE_BYTES { archiver.try_next()? } else { None };
            }
            self.finish(file, from)?;
            archiver.acknowledge()?;
        }
        if let Some(note) = archiver.note()? {
            self.push(&note)?;
        }
        Ok(taken)
    }

    /// Archives one stretch, which may come from an archiver in another process. The stretch is
    /// durable when this returns.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::Missing`] if the stretch does not begin where the
    /// archive ends, and with [`ArchiveFault::OtherDatabase`] if the stretch is of another log;
    /// failures of the device.
    pub fn push(&mut self, stretch: &LogStretch) -> Result<()> {
        let mut file = self.begin()?;
        file.push(stretch)?;
        self.finish(file, stretch.from())
    }

    fn begin(&self) -> Result<Unfinished> {
        let file = self.directory.open(UNFINISHED, Create::IfMissing, Method::Buffered)?;
        file.truncate(0)?;
        Ok(Unfinished { place: self.directory.describe(), file, bytes: 0, last: self.last.clone() })
    }

    /// Makes the file durable under its name, and joins it with files that precede it in the
    /// archive.
    fn finish(&mut self, file: Unfinished, from: Lsn) -> Result<()> {
        let Some(last) = file.last.clone() else { return Ok(()) };
        let made = ArchivedFile { from, to: last.head.to, bytes: file.bytes };
        self.name(&file, &made)?;
        self.last = Some(last);
        // A note replaces an earlier note of the same position, whose file has the same name.
        self.files.retain(|other| other.name() != made.name());
        self.files.push(made);
        while let [.., before, last] = &self.files[..] {
            let is_half_or_more = last.bytes.saturating_mul(2) >= before.bytes;
            if !is_half_or_more || before.bytes + last.bytes > FILE_BYTES || before.to != last.from {
                break;
            }
            self.join()?;
        }
        Ok(())
    }

    fn name(&self, file: &Unfinished, made: &ArchivedFile) -> Result<()> {
        file.file.sync()?;
        self.directory.rename(UNFINISHED, &made.name())?;
        Ok(self.directory.sync()?)
    }

    /// Joins the last two files.
    fn join(&mut self) -> Result<()> {
        let (Some(last), Some(before)) = (self.files.pop(), self.files.pop()) else { return Ok(()) };
        let joined = ArchivedFile { from: before.from, to: last.to, bytes: before.bytes + last.bytes };
        let mut file = Unfinished { last: None, ..self.begin()? };
        for part in [&before, &last] {
            read_whole(self.directory.as_ref(), &part.name(), part.from, &mut |head, bytes| {
                file.push(&LogStretch { at: head.clone(), bytes: bytes.to_vec() })
            })?;
        }
        self.name(&file, &joined)?;
        for part in [&before, &last] {
            if part.name() != joined.name() {
                self.directory.remove(&part.name())?;
            }
        }
        self.files.push(joined);
        Ok(())
    }
}

/// The file that is being written. It does not have its final name yet.
struct Unfinished {
    place: String,
    file: Arc<dyn File>,
    bytes: u64,
    last: Option<StretchHead>,
}

impl Unfinished {
    fn push(&mut self, LogStretch { at, bytes }: &LogStretch) -> Result<()> {
        let head = &at.head;
        if let Some(last) = &self.last {
            let (from, to) = (last.head.to, head.from);
            let fault = if last.head.database != head.database {
                let (file, found) = (file_name(head.from, head.to), head.database);
                Some(ArchiveFault::OtherDatabase { file, found, wanted: last.head.database })
            } else {
                (!at.follows(last)).then_some(ArchiveFault::Missing { from, to })
            };
            if let Some(fault) = fault {
                return Err(Error::Archive { place: self.place.clone(), fault: Box::new(fault) });
            }
        }
        let encoded = at.encode();
        let parts = [IoSlice::new(&encoded), IoSlice::new(bytes)];
        self.file.write_at(&parts, self.bytes, WriteMode::Written)?;
        self.bytes += (encoded.len() + bytes.len()) as u64;
        self.last = Some(at.clone());
        Ok(())
    }
}
