//! The directories of a set: their labels, the numbers of parts, and the removal of parts that no
//! file names.
//!
//! See the head of `mod.rs` for the invariants that are cited here.

use super::helpers::HelperPool;
use super::label::{self, LABEL_BYTES_MAX, Label, State};
use super::layout::Layout;
use super::owner::{Doomed, Owner};
use crate::directory::{Create, Directory, File, Method, WriteMode};
use crate::error::{Cause, Error, Result, StripesFault, Verb};
use crate::id::Id;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;

/// Name of a directory's label; hidden from listings, and refused for other files.
pub(super) const LABEL_NAME: &str = "STRIPES";
/// Name of a label while it is written.
pub(super) const LABEL_NEW_NAME: &str = "STRIPES.new";

/// An open set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) directories: Vec<Arc<dyn Directory>>,
    pub(super) layout: Layout,
    pub(super) helpers: Arc<HelperPool>,
    pub(super) owner: Arc<Owner>,
    id: Id,
}

fn fault(directory: &dyn Directory, fault: StripesFault) -> Error {
    Error::new(Verb::Open, directory.describe(), Cause::Stripes(fault))
}

fn read_label(directory: &dyn Directory) -> Result<Option<Label>> {
    let file = match directory.open_read_only(LABEL_NAME) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let mut text = [0; LABEL_BYTES_MAX];
    let count = file.read_at(&mut text, 0)?;
    Label::decode(&text[..count]).map(Some).map_err(|found| fault(directory, found))
}

/// Returns whether `first`, the first directory of a set, has a readable label that says that the
/// making of the set was finished.
pub(super) fn is_complete(first: &dyn Directory) -> bool {
    matches!(read_label(first), Ok(Some(Label { state: State::Complete, .. })))
}

/// Puts a label into a directory, durably, in place of any it has.
fn write_label(directory: &dyn Directory, label: &Label) -> Result<()> {
    let file = directory.open(LABEL_NEW_NAME, Create::IfMissing, Method::Buffered)?;
    file.truncate(0)?;
    file.write_at(&[IoSlice::new(label.encode().as_bytes())], 0, WriteMode::Written)?;
    file.sync()?;
    directory.rename(LABEL_NEW_NAME, LABEL_NAME)?;
    directory.sync()
}

impl Set {
    /// Opens a set whose making was finished. Returns `None` if there is no set, or one whose
    /// making was not finished.
    pub(super) fn existing(
        directories: Vec<Arc<dyn Directory>>,
        helpers: Arc<HelperPool>,
        owner: Arc<Owner>,
    ) -> Result<Option<Set>> {
        let first = match read_label(&*directories[0])? {
            Some(label) => label,
            None => return Ok(None),
        };
        Self::check(&*directories[0], 0, &first, first.set, directories.len())?;
        if first.state == State::Making {
            return Ok(None);
        }
        for (index, directory) in directories.iter().enumerate().skip(1) {
            let label =
                read_label(&**directory)?.ok_or_else(|| fault(&**directory, StripesFault::Missing))?;
            Self::check(&**directory, index, &label, first.set, directories.len())?;
        }
        let layout = Layout { unit: first.unit, count: first.count };
        Ok(Some(Set { directories, layout, helpers, owner, id: first.set }))
    }

    fn check(directory: &dyn Directory, given: usize, label: &Label, set: Id, count: usize) -> Result<()> {
        let Label { index: belongs, .. } = *label;
        let found = match label {
            label if label.set != set => StripesFault::Foreign { expected: set, found: label.set },
            _ if belongs != given => StripesFault::Misplaced { given, belongs },
            label if label.count != count => StripesFault::Count { given: count, count: label.count },
            _ => return Ok(()),
        };
        Err(fault(directory, found))
    }

    /// Makes a set, or goes on where its making stopped (invariant 3).
    pub(super) fn make(directories: &[Arc<dyn Directory>], unit: u64) -> Result<()> {
        let first = &*directories[0];
        // The lock keeps other openings from making the set meanwhile.
        let _lock = first.lock()?;
        let count = directories.len();
        let label = match read_label(first)? {
            Some(label) => {
                // A label that is seen need not be durable: the process that wrote the label may
                // have been killed before the label was durable.
                first.sync()?;
                label
            }
            None => {
                // All directories are checked before the first write.
                for (index, directory) in directories.iter().enumerate() {
                    if let Some(found) = read_label(&**directory)? {
                        // This directory belongs to a set, and the first directory of every set has
                        // a label. The given first directory has none, so it is the wrong one.
                        Self::check(&**directory, index, &found, found.set, count)?;
                        return Err(fault(first, StripesFault::Missing));
                    }
                    Self::check_empty(&**directory)?;
                }
                let label = Label { set: Id::random(), index: 0, count, unit, state: State::Making };
                write_label(first, &label)?;
                label
            }
        };
        for (index, directory) in directories.iter().enumerate().skip(1) {
            match read_label(&**directory)? {
                Some(found) => {
                    Self::check(&**directory, index, &found, label.set, count)?;
                    directory.sync()?;
                }
                None => {
                    Self::check_empty(&**directory)?;
                    write_label(&**directory, &Label { index, state: State::Complete, ..label })?;
                }
            }
        }
        write_label(first, &Label { state: State::Complete, ..label })
    }

    fn check_empty(directory: &dyn Directory) -> Result<()> {
        match directory.list()?.iter().all(|name| name == LABEL_NEW_NAME) {
            true => Ok(()),
            false => Err(fault(directory, StripesFault::NotEmpty)),
        }
    }

    pub(super) fn first(&self) -> &dyn Directory {
        &*self.directories[0]
    }

    /// Returns the directories that hold parts.
    fn others(&self) -> &[Arc<dyn Directory>] {
        &self.directories[1..]
    }

    /// Returns the number that names a file's parts, if the file has parts. `subject` returns the
    /// place that the error names if the header is invalid or was lost (invariant 7).
    fn read_id(&self, first: &dyn File, subject: impl FnOnce() -> String) -> Result<Option<u64>> {
        // The length is read before the header, because another opening may be giving the file
        // parts, and the file grows only after its header is written.
        let length = first.len()?;
        let mut block = [0; 512];
        let count = first.read_at(&mut block, 0)?;
        let is_spread = self.directories.len() > 1 && length > label::HEADER_BYTES + self.layout.unit;
        let id = match label::id_of_header(&block[..count], self.id) {
            Ok(None) if is_spread => Err(StripesFault::Damaged),
            found => found,
        };
        id.map_err(|found| Error::new(Verb::Open, subject(), Cause::Stripes(found)))
    }

    /// Returns the number that names the parts of a file that was opened to be changed. A header
    /// that is found is not trusted at once: it is made durable and read again (invariant 6). No
    /// other thread has the handle yet, so no other thread syncs the handle meanwhile.
    fn durable_id(&self, first: &dyn File, subject: impl Fn() -> String) -> Result<Option<u64>> {
        if self.read_id(first, &subject)?.is_none() {
            return Ok(None);
        }
        first.sync()?;
        first.drop_cache()?;
        self.read_id(first, subject)
    }

    /// Returns the number that names the parts of the file with this name; `None` if the file has
    /// no parts, does not exist, or is damaged.
    pub(super) fn id_of(&self, name: &str) -> Result<Option<u64>> {
        match self.named_id(name) {
            Err(Error { cause: Cause::NotFound | Cause::Stripes(_), .. }) => Ok(None),
            other => other,
        }
    }

    fn named_id(&self, name: &str) -> Result<Option<u64>> {
        let file = self.first().open_read_only(name)?;
        let _known = self.owner.known();
        self.read_id(&*file, || name.to_owned())
    }

    /// Returns the parts of a file that was just opened, if it has any.
    pub(super) fn parts_of_opened(
        &self,
        first: &dyn File,
        method: Option<Method>,
    ) -> Result<Option<Vec<Arc<dyn File>>>> {
        let _known = self.owner.known();
        let subject = || self.first().describe();
        let id = match method {
            Some(_) => self.durable_id(first, subject)?,
            None => self.read_id(first, subject)?,
        };
        id.map(|id| self.open_parts(id, method)).transpose()
    }

    /// Returns the parts that another handle has given to a file since the caller's handle was
    /// opened, if any.
    pub(super) fn parts_of(
        &self,
        first: &dyn File,
        method: Option<Method>,
    ) -> Result<Option<Vec<Arc<dyn File>>>> {
        let _known = self.owner.known();
        let id = self.read_id(first, || self.first().describe())?;
        id.map(|id| self.open_parts(id, method)).transpose()
    }

    /// Opens a file's parts: to be changed by `method`, or read-only if `method` is `None`.
    fn open_parts(&self, id: u64, method: Option<Method>) -> Result<Vec<Arc<dyn File>>> {
        let name = label::part_name(id);
        let open = |directory: &Arc<dyn Directory>| match method {
            Some(method) => directory.open(&name, Create::Never, method),
            None => directory.open_read_only(&name),
        };
        self.others().iter().map(open).collect()
    }

    /// Returns the parts of a file, and makes them if it has none (invariant 1). If the device has
    /// no room for a part, the parts made so far are removed, now or by a later collection, and the
    /// error's verb is `verb`. The cause is `Cause::Locked` if another opening has the directory's
    /// lock, or has a turn.
    pub(super) fn make_parts(
        &self,
        first: &dyn File,
        method: Method,
        verb: Verb,
    ) -> Result<Vec<Arc<dyn File>>> {
        let mut turn = self.owner.turn(self.first())?;
        if let Some(id) = self.read_id(first, || self.first().describe())? {
            return self.open_parts(id, Some(method));
        }
        let id = match turn.next {
            Some(id) => id,
            None => {
                self.remove_unnamed(self.part_ids()?)?;
                self.next_id()?
            }
        };
        turn.next = Some(id + 1);
        let made = self.begin_parts(id, first, method, verb);
        if made.is_err() {
            // No header names these parts. Parts that cannot be removed now are garbage for a later
            // collection.
            self.remove_parts(id);
        }
        made?;
        // If this write fails, the header may be on the device nevertheless, so the parts stay.
        first.write_at(&[IoSlice::new(&label::header(self.id, id))], 0, WriteMode::Durable)?;
        self.open_parts(id, Some(method))
    }

    fn begin_parts(&self, id: u64, first: &dyn File, method: Method, verb: Verb) -> Result<()> {
        let name = label::part_name(id);
        for directory in self.others() {
            let part = directory.open(&name, Create::New, method);
            part.map_err(|error| if error.is_no_space() { Error { verb, ..error } } else { error })?;
            directory.sync()?;
        }
        if verb != Verb::Prepare {
            // A preparation would sync this file's cached bytes while other threads may sync them,
            // which the gate's invariant 4 forbids.
            return Ok(());
        }
        // After this preparation the header cannot run out of room.
        first.prepare(0, label::HEADER_BYTES)
    }

    fn remove_parts(&self, id: u64) {
        let name = label::part_name(id);
        for directory in self.others() {
            // A part that stays does no harm, and the next collection removes it.
            directory.remove(&name).ok();
        }
    }

    /// Returns one more than any number in use, including the numbers of parts that a crash left.
    fn next_id(&self) -> Result<u64> {
        let ids = self.named_ids()?.into_iter().chain(self.part_ids()?);
        Ok(ids.max().map_or(1, |last| last + 1))
    }

    /// Returns the numbers that files name. Only a thread with a turn may call this.
    fn named_ids(&self) -> Result<BTreeSet<u64>> {
        let mut ids = BTreeSet::new();
        for name in self.first().list()? {
            if name != LABEL_NAME && name != LABEL_NEW_NAME {
                let file = match self.first().open_read_only(&name) {
                    // Another thread has just removed the file.
                    Err(error) if error.is_not_found() => continue,
                    other => other?,
                };
                ids.extend(self.read_id(&*file, || name)?);
            }
        }
        Ok(ids)
    }

    /// Returns the numbers that parts have.
    fn part_ids(&self) -> Result<BTreeSet<u64>> {
        let mut ids = BTreeSet::new();
        for directory in self.others() {
            ids.extend(directory.list()?.iter().filter_map(|name| label::id_of_part(name)));
        }
        Ok(ids)
    }

    /// Removes the parts of `ids` that no file names (invariant 2). Only a thread with a turn may
    /// call this.
    fn remove_unnamed(&self, ids: BTreeSet<u64>) -> Result<()> {
        let named = match self.named_ids() {
            // A damaged header hides which parts its file has, so all parts stay. Opening the
            // damaged file is an error.
            Err(Error { cause: Cause::Stripes(_), .. }) => return Ok(()),
            other => other?,
        };
        let garbage: Vec<u64> = ids.difference(&named).copied().collect();
        if !garbage.is_empty() {
            // A process may have removed names, and been killed before the removal was durable.
            self.first().sync()?;
            garbage.into_iter().for_each(|id| self.remove_parts(id));
        }
        Ok(())
    }

    /// Makes the first directory's names durable, and removes the parts of files that have lost
    /// their names (invariant 2).
    pub(super) fn sync(&self) -> Result<()> {
        let doomed = self.owner.known().take_doomed();
        let outcome = self.first().sync();
        match &outcome {
            // Parts that cannot be removed now are garbage: the next collection removes them, and
            // they do no harm until then.
            Ok(()) => drop(self.bury(doomed)),
            Err(_) => self.owner.known().put_back(doomed),
        }
        outcome
    }

    fn bury(&self, doomed: Doomed) -> Result<()> {
        if doomed.ids.is_empty() {
            return Ok(());
        }
        let turn = self.owner.turn(self.first())?;
        if turn.is_sure_of(&doomed) {
            doomed.ids.into_iter().for_each(|id| self.remove_parts(id));
            return Ok(());
        }
        self.remove_unnamed(doomed.ids.into_iter().collect())
    }
}
