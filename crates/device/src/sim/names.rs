//! The names of one simulated directory: which file each name means now, and which file it means
//! after a crash.
//!
//! All functions of this file run under the device's latch. Invariants:
//!
//! 1. `kept` holds the names that the last directory sync made durable. `changes`, applied to
//!    `kept` in order, gives `seen`, except for changes that a failed directory sync has lost:
//!    these are in neither `kept` nor `changes`.
//! 2. A rename is one change: a crash leaves the file under the old name or under the new one.
//!
//! The names after a crash are those of `kept`, to which a prefix or any subset of `changes` is
//! applied in order.

use super::world::Inode;
use crate::survival::Survival;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Entries = BTreeMap<String, Arc<Inode>>;

#[derive(Debug, Clone)]
enum Change {
    Create(String, Arc<Inode>),
    Rename(String, String, Arc<Inode>),
    Remove(String, Arc<Inode>),
}

impl Change {
    fn apply(&self, entries: &mut Entries) {
        let remove = |entries: &mut Entries, name: &str, inode: &Arc<Inode>| {
            if entries.get(name).is_some_and(|found| Arc::ptr_eq(found, inode)) {
                entries.remove(name);
            }
        };
        match self {
            Change::Create(name, inode) => {
                entries.insert(name.clone(), inode.clone());
            }
            Change::Rename(from, to, inode) => {
                remove(entries, from, inode);
                entries.insert(to.clone(), inode.clone());
            }
            Change::Remove(name, inode) => remove(entries, name, inode),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    seen: Entries,
    kept: Entries,
    changes: Vec<Change>,
    /// True if a failed directory sync may have lost changes.
    lossy: bool,
}

impl Names {
    pub(super) fn seen(&self) -> &Entries {
        &self.seen
    }

    pub(super) fn is_lossy(&self) -> bool {
        self.lossy
    }

    pub(super) fn un_synced(&self) -> usize {
        self.changes.len()
    }

    /// Makes names whose entries are all durable.
    pub(super) fn durable(entries: Entries) -> Self {
        Names { seen: entries.clone(), kept: entries, changes: Vec::new(), lossy: false }
    }

    pub(super) fn create(&mut self, name: &str, inode: Arc<Inode>) {
        self.change(Change::Create(name.to_owned(), inode));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, inode: Arc<Inode>) {
        self.change(Change::Rename(from.to_owned(), to.to_owned(), inode));
    }

    pub(super) fn remove(&mut self, name: &str, inode: Arc<Inode>) {
        self.change(Change::Remove(name.to_owned(), inode));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.changes.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.changes.drain(..).for_each(|change| change.apply(&mut self.kept));
    }

    /// Makes a directory sync fail: some changes reach the device, the others never will.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        self.kept = self.survivor(Survival::Random, rng);
        self.changes.clear();
        self.lossy = true;
    }

    /// Returns the names after a crash.
    pub(super) fn survivor(&self, survival: Survival, rng: &mut Rng) -> Entries {
        let mut entries = self.kept.clone();
        let prefix = match survival {
            Survival::DropAll => 0,
            Survival::KeepAll => self.changes.len(),
            Survival::Random | Survival::Prefix | Survival::Trash if rng.bool() => {
                rng.usize(0..=self.changes.len())
            }
            Survival::Random | Survival::Prefix | Survival::Trash => {
                self.changes.iter().filter(|_| rng.bool()).for_each(|change| change.apply(&mut entries));
                0
            }
        };
        self.changes[..prefix].iter().for_each(|change| change.apply(&mut entries));
        entries
    }

    /// Returns these names with every file replaced by the result of `copy`.
    pub(super) fn map(&self, mut copy: impl FnMut(&Arc<Inode>) -> Arc<Inode>) -> Names {
        let seen = self.seen.iter().map(|(name, inode)| (name.clone(), copy(inode))).collect();
        let kept = self.kept.iter().map(|(name, inode)| (name.clone(), copy(inode))).collect();
        let changes = self
            .changes
            .iter()
            .map(|change| match change {
                Change::Create(name, inode) => Change::Create(name.clone(), copy(inode)),
                Change::Rename(from, to, inode) => Change::Rename(from.clone(), to.clone(), copy(inode)),
                Change::Remove(name, inode) => Change::Remove(name.clone(), copy(inode)),
            })
            .collect();
        Names { seen, kept, changes, lossy: self.lossy }
    }
}
