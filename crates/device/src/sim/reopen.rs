//! Makes, from a device that ended, the device that a restart finds.
//!
//! Pure functions. The caller holds the old device's latch.

use super::image::{FileImage, Reach};
use super::names::Names;
use super::world::{Folder, Inode, Stalled, SubFolder, World};
use crate::survival::Survival;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The way in which the use of a device ended.
pub(super) enum Ending {
    /// Only the process ended: everything un-synced is in the page cache, and still un-synced.
    Kill,
    /// The machine crashed.
    Crash(Survival, Rng),
}

impl Ending {
    fn names(&mut self, names: &Names) -> Names {
        match self {
            Ending::Kill => names.clone(),
            Ending::Crash(survival, rng) => Names::durable(names.survivor(*survival, rng)),
        }
    }

    fn image(&mut self, inode: u64, image: &FileImage, stalled: &[Stalled]) -> FileImage {
        match self {
            Ending::Kill => image.after_kill(),
            Ending::Crash(Survival::Trash, rng) => {
                let mut image = image.clone();
                for write in stalled.iter().filter(|write| write.inode == inode) {
                    image.write(&write.bytes, write.offset, Reach::Cache);
                    image.interrupt(write.offset, write.offset + write.bytes.len() as u64);
                }
                image.survivor(Survival::Trash, rng)
            }
            Ending::Crash(survival, rng) => image.survivor(*survival, rng),
        }
    }

    /// Returns the entry that a subdirectory has after this ending; `None` if the entry is lost.
    fn entry(&mut self, entry: SubFolder) -> Option<SubFolder> {
        match self {
            Ending::Kill => Some(entry),
            Ending::Crash(survival, rng) => {
                let survives = match survival {
                    Survival::KeepAll => true,
                    Survival::DropAll => entry.kept,
                    Survival::Random | Survival::Prefix | Survival::Trash => rng.bool() || entry.kept,
                };
                survives.then_some(SubFolder { kept: true, ..entry })
            }
        }
    }
}

/// Returns the world that a restart finds after `ending`.
pub(super) fn reopen(old: &World, seed: u64, mut ending: Ending) -> World {
    let mut new = World::new(seed);
    new.capacity = old.capacity;
    copy(old, 0, String::new(), &mut ending, &mut new, &mut BTreeMap::new());
    new
}

fn copy(
    old: &World,
    number: usize,
    prefix: String,
    ending: &mut Ending,
    new: &mut World,
    copies: &mut BTreeMap<u64, Arc<Inode>>,
) -> usize {
    let folder = &old.folders[number];
    let names = ending.names(&folder.names).map(|inode| {
        let fresh = || {
            let content = inode.content();
            new.inode(content.path.clone(), ending.image(inode.id, &content.image, &old.stalled_writes))
        };
        copies.entry(inode.id).or_insert_with(fresh).clone()
    });
    for (name, inode) in names.seen() {
        inode.content().path = format!("{prefix}{name}");
    }
    let place = new.folders.len();
    new.folders.push(Folder { prefix: prefix.clone(), names, ..Folder::default() });
    for (name, entry) in &folder.folders {
        let Some(entry) = ending.entry(*entry) else { continue };
        let number = copy(old, entry.number, format!("{prefix}{name}/"), ending, new, copies);
        new.folders[place].folders.insert(name.clone(), SubFolder { number, ..entry });
    }
    place
}
