//! Archives of the log: every finished stretch of the log is copied into an archive, so that a
//! backup can be restored to a later commit.
//!
//! A [`LogArchiver`] gives a program the durable log in stretches. A named consumer keeps the log
//! until the program acknowledges the stretches. A [`LogArchive`] is a directory that has the
//! stretches as files; [`Archived`] is such a directory opened for restoring. A [`LogArchiver`] or
//! [`LogArchive`] belongs to one thread at a time; threads may share an [`Archived`]. None of the
//! three holds a latch of the engine between two calls.
//!
//! Invariants:
//!
//! 1. An archive is a byte-for-byte copy of durable log of one database. So the archived log that
//!    follows a backup is the log that recovery would read after a crash. A restored database is
//!    what a crash at the archive's end would have left (`docs/recovery.md`, "Archives").
//! 2. The database keeps its log until the archive has that log: [`LogArchive::take`] acknowledges
//!    stretches only after their file and its name are durable.
//! 3. A gap is an error that names both ends of the gap. The code looks for gaps when a stretch is
//!    archived, and again when the archive is restored.
//! 4. A file has its name only when it is whole and durable. A file that a longer file replaces is
//!    removed after the longer file has its name.
//! 5. An archiver that continues an archive compares the last record in the archive with the log's
//!    record at the same position. So an archive is never continued with another history. In the
//!    paged engine the log keeps that record for the archiver. In the memory engine the last record
//!    of each stream is compared if the log still has it.
//! 6. A database of the paged engine is restored to the end of a record, a database of the memory
//!    engine to the end of a stretch, if that end is a cut of all streams.
//!
//! What a crash leaves depends on the step that it interrupts:
//!
//! - Before a file has its name: an unfinished file, which the next opening removes.
//! - Before the acknowledgement: a file with stretches that are not acknowledged. The next archiver
//!   begins at the end of the archive, so it does not return these stretches again.
//! - While files are joined: the joined file, and one or both of the files that it replaces.
//!   Readers use the joined file, because it is the longest.

mod archived;
mod archiver;
mod directory;
mod format;
pub(crate) mod fuzz;
mod mark;

pub(crate) use archived::{Archived, LocatedStretch};
pub use archiver::{LogArchiver, LogStretch};
pub use directory::LogArchive;
pub(crate) use format::StreamPart;
pub use mark::ArchiveMark;
