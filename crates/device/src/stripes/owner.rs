//! An [`Owner`] is one opening's right to make and remove the part files of a striped directory,
//! and holds what the opening knows while it has this right.
//!
//! Any thread may call this code. There is one `Owner` for each directory of an opening, however
//! many handles the opening has on the directory. Several openings of one directory, in one process
//! or in several, each have an `Owner`. Openings exclude each other by the lock of the set's first
//! directory.
//!
//! Invariants:
//!
//! 1. Parts are made and removed only by a thread that has a [`Turn`]. A turn has the directory's
//!    lock: either the one that the caller took with [`Owner::lock`], or one that the turn takes
//!    itself. So no two openings have a turn at once. While one opening keeps the lock, a turn of
//!    any other opening fails with `Cause::Locked`.
//! 2. `next` and `doomed` are valid only under the lock under which they were found. Once that lock
//!    was released, another opening may have given the numbers to other files.
//!
//! All state of this file is in memory only. After a crash the operating system releases the lock.

use crate::directory::{Directory, DirectoryLock};
use crate::error::Result;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The owner of one directory in one opening: see the head of this file.
#[derive(Debug, Default)]
pub(super) struct Owner {
    known: Mutex<Known>,
    /// Owners of the directories inside, by name. All handles of one opening on one directory share
    /// one owner.
    inside: Mutex<BTreeMap<String, Arc<Owner>>>,
}

/// Facts that hold while the present lock is held.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The lock that the caller of [`Owner::lock`] has, for as long as it exists.
    lock: Weak<StripedLock>,
    /// Number of successful calls of [`Owner::lock`].
    term: u64,
    /// Number for the next file with parts. `None` until the numbers in use have been read.
    pub(super) next: Option<u64>,
    /// Numbers of parts whose file was removed, if the removal is not durable yet.
    doomed: Vec<u64>,
}

/// Numbers of parts whose file was removed under the lock of this term.
#[derive(Debug)]
pub(super) struct Doomed {
    pub(super) ids: Vec<u64>,
    term: u64,
}

/// The locks of all directories of a set.
#[derive(Debug)]
struct StripedLock {
    _locks: Vec<Box<dyn DirectoryLock>>,
}

impl DirectoryLock for Arc<StripedLock> {}

/// The lock that a turn has. Dropping a lock that the turn took itself releases it.
#[derive(Debug)]
enum HeldLock {
    Callers { _lock: Arc<StripedLock>, term: u64 },
    Own { _lock: Box<dyn DirectoryLock> },
}

/// The right to make and remove parts. `kept` is declared before `known`, so the directory's lock
/// is released before the mutex. In the other order the next thread of this opening could find the
/// directory still locked.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    kept: HeldLock,
    known: MutexGuard<'a, Known>,
}

impl Owner {
    /// Returns the owner of the inner directory with this name.
    pub(super) fn inside(&self, name: &str) -> Arc<Owner> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.entry(name.to_owned()).or_default().clone()
    }

    /// Waits until no thread of this opening is making or removing parts.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock of all directories of a set. A new term (a time with one lock) begins, and
    /// what the owner knew is forgotten: other openings may have changed everything while this
    /// owner had no lock.
    pub(super) fn lock(&self, directories: &[Arc<dyn Directory>]) -> Result<Box<dyn DirectoryLock>> {
        let mut known = self.known();
        let locks = directories.iter().map(|directory| directory.lock()).collect::<Result<_>>()?;
        let lock = Arc::new(StripedLock { _locks: locks });
        *known = Known { lock: Arc::downgrade(&lock), term: known.term + 1, next: None, doomed: Vec::new() };
        Ok(Box::new(lock))
    }

    /// Waits for a turn. `first` is the set's first directory, whose lock the turn takes if this
    /// opening does not have it.
    ///
    /// # Errors
    /// `Cause::Locked` if another opening has the lock, or has a turn.
    pub(super) fn turn(&self, first: &dyn Directory) -> Result<Turn<'_>> {
        let mut known = self.known();
        let kept = match known.lock.upgrade() {
            Some(lock) => HeldLock::Callers { _lock: lock, term: known.term },
            None => {
                let lock = first.lock()?;
                known.next = None;
                HeldLock::Own { _lock: lock }
            }
        };
        Ok(Turn { kept, known })
    }
}

impl Known {
    /// Notes the parts of a file that has lost its name.
    pub(super) fn doom(&mut self, id: Option<u64>) {
        self.doomed.extend(id);
    }

    pub(super) fn take_doomed(&mut self) -> Doomed {
        Doomed { ids: std::mem::take(&mut self.doomed), term: self.term }
    }

    /// Puts back the numbers that [`Known::take_doomed`] returned. If a new term has begun
    /// meanwhile, the numbers are dropped, and the next collection of garbage removes their parts.
    pub(super) fn put_back(&mut self, doomed: Doomed) {
        if doomed.term == self.term {
            self.doomed.extend(doomed.ids);
        }
    }
}

impl Turn<'_> {
    /// Returns whether it is certain that no other opening has had a turn since these numbers were
    /// doomed. This is never certain if the turn took the lock itself.
    pub(super) fn is_sure_of(&self, doomed: &Doomed) -> bool {
        matches!(self.kept, HeldLock::Callers { term, .. } if term == doomed.term)
    }
}

impl Deref for Turn<'_> {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Known {
        &mut self.known
    }
}
