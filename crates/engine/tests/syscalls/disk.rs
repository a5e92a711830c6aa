//! A model of a disk that keeps what POSIX promises, and no more. The model makes the states that a
//! crash of the machine may leave after any prefix of a trace.
//!
//! The model does no I/O, and one thread uses it. The model is strict where file systems keep more:
//! syncing a new file does not keep its name, a write without a sync keeps nothing, and a sync
//! covers only calls that ended before it began. Invariants:
//!
//! 1. Each sector of 512 bytes has a kept version, and the un-synced versions since then, in the
//!    order of their writes. A crash leaves any of them.
//! 2. Lengths and names also have kept and un-synced versions; a crash leaves the kept names with a
//!    prefix or a subset of the un-synced changes.
//! 3. A call may take effect in part from its beginning on, and has wholly taken effect at its end.
//!    A call promises something only at its end.

use katydid_device::{Create, Directory, MemoryDirectory, Method, Survival, WriteMode};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: u64 = 512;

/// A file or a folder of a [`Disk`], by its number. The root is folder 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    File(usize),
    Folder(usize),
}

/// A change of a folder's names.
#[derive(Debug, Clone)]
pub enum Naming {
    Create(String, Node),
    Rename(String, String),
    Remove(String),
}

impl Naming {
    pub fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Naming::Create(name, node) => drop(names.insert(name.clone(), *node)),
            Naming::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            Naming::Remove(name) => drop(names.remove(name)),
        }
    }
}

/// Event of a traced program. `call` names one call from its beginning to its end.
#[derive(Debug, Clone)]
pub enum Event {
    Write {
        call: u64,
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The first `count` bytes were written, and are kept from now on if `durable`.
    Wrote {
        call: u64,
        file: usize,
        count: usize,
        durable: bool,
    },
    Length {
        file: usize,
        length: u64,
    },
    Sync {
        call: u64,
    },
    Synced {
        call: u64,
        node: Node,
    },
    Name {
        folder: usize,
        naming: Naming,
    },
    /// A line on the standard output.
    Say(String),
    /// The process has ended. `found` has all files by their paths from the root, with the bytes
    /// that the model should have too.
    Ended {
        found: BTreeMap<String, Vec<u8>>,
    },
}

#[derive(Debug, Clone)]
struct Version {
    number: u64,
    bytes: [u8; SECTOR as usize],
}

#[derive(Debug, Clone, Default)]
struct File {
    kept: Vec<u8>,
    kept_length: u64,
    length: u64,
    /// Un-synced lengths, with the numbers of the changes that made them.
    lengths: Vec<(u64, u64)>,
    pending: BTreeMap<u64, Vec<Version>>,
}

#[derive(Debug, Clone, Default)]
struct Folder {
    kept: BTreeMap<String, Node>,
    changes: Vec<(u64, Naming)>,
}

/// A write that has not returned.
#[derive(Debug, Clone)]
struct Writing {
    number: u64,
    offset: u64,
    length: u64,
}

/// Changes that a sync covers: those up to this number, except those under way when the sync began.
#[derive(Debug, Clone)]
struct Covered {
    number: u64,
    without: BTreeSet<u64>,
}

impl Covered {
    fn has(&self, number: u64) -> bool {
        number <= self.number && !self.without.contains(&number)
    }
}

/// The model of a disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<File>,
    folders: Vec<Folder>,
    /// The number of the last change.
    number: u64,
    writing: BTreeMap<u64, Writing>,
    syncing: BTreeMap<u64, Covered>,
}

impl File {
    fn kept_sector(&self, sector: u64) -> [u8; SECTOR as usize] {
        let mut bytes = [0; SECTOR as usize];
        let from = ((sector * SECTOR) as usize).min(self.kept.len());
        let to = (((sector + 1) * SECTOR) as usize).min(self.kept.len());
        bytes[..to - from].copy_from_slice(&self.kept[from..to]);
        bytes
    }

    fn seen_sector(&self, sector: u64) -> [u8; SECTOR as usize] {
        let last = self.pending.get(&sector).and_then(|versions| versions.last());
        last.map_or_else(|| self.kept_sector(sector), |version| version.bytes)
    }

    fn keep(&mut self, sector: u64, bytes: &[u8]) {
        let end = ((sector + 1) * SECTOR) as usize;
        if self.kept.len() < end {
            self.kept.resize(end, 0);
        }
        self.kept[end - SECTOR as usize..end].copy_from_slice(bytes);
    }

    /// Puts `bytes` over the seen bytes, as the change of this number.
    fn overlay(&mut self, number: u64, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (sector, inside) = (at / SECTOR, (at % SECTOR) as usize);
            let count = (SECTOR as usize - inside).min(bytes.len() - done);
            let mut seen = self.seen_sector(sector);
            seen[inside..inside + count].copy_from_slice(&bytes[done..done + count]);
            self.pending.entry(sector).or_default().push(Version { number, bytes: seen });
            done += count;
        }
    }

    fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) {
        self.overlay(number, offset, bytes);
        let end = offset + bytes.len() as u64;
        if end > self.length {
            self.length = end;
            self.lengths.push((number, end));
        }
    }

    fn set_length(&mut self, number: u64, length: u64) {
        if length < self.length {
            let zeros = vec![0; (self.length - length) as usize];
            self.overlay(number, length, &zeros);
        }
        self.length = length;
        self.lengths.push((number, length));
    }

    /// Takes back the part of a write that was not done.
    fn cut_short(&mut self, writing: &Writing, count: u64) {
        let (done, end) = (writing.offset + count, writing.offset + writing.length);
        let first = if count == 0 { done / SECTOR } else { done.div_ceil(SECTOR) };
        for (_, versions) in self.pending.range_mut(first..end.div_ceil(SECTOR)) {
            versions.retain(|version| version.number != writing.number);
        }
        self.pending.retain(|_, versions| !versions.is_empty());
        self.lengths.retain_mut(|(number, length)| {
            *length = if *number == writing.number { done } else { *length };
            *number != writing.number || count > 0
        });
        self.length = self.lengths.last().map_or(self.kept_length, |(_, length)| *length);
    }

    /// Keeps the first `count` bytes of a durable write.
    fn keep_write(&mut self, writing: &Writing, count: u64) {
        let end = writing.offset + count;
        for sector in writing.offset / SECTOR..end.div_ceil(SECTOR) {
            let Some(versions) = self.pending.get_mut(&sector) else { continue };
            let Some(at) = versions.iter().position(|version| version.number == writing.number) else {
                continue;
            };
            let kept = versions.drain(..=at).next_back().expect("a version").bytes;
            if versions.is_empty() {
                self.pending.remove(&sector);
            }
            self.keep(sector, &kept);
        }
        // These bytes are durable, so each length that a crash may leave must include them. A
        // greater length need not survive.
        self.kept_length = self.kept_length.max(end);
        self.lengths.retain(|(number, _)| *number != writing.number);
        self.lengths.iter_mut().for_each(|(_, length)| *length = (*length).max(end));
    }

    fn is_covered(&self, by: &Covered) -> bool {
        let versions = || self.pending.values().flatten().any(|version| by.has(version.number));
        self.lengths.iter().any(|(number, _)| by.has(*number)) || versions()
    }

    fn sync(&mut self, covered: &Covered) {
        let mut kept = Vec::new();
        self.pending.retain(|sector, versions| {
            if let Some(at) = versions.iter().rposition(|version| covered.has(version.number)) {
                kept.push((*sector, versions.drain(..=at).next_back().expect("a version").bytes));
            }
            !versions.is_empty()
        });
        kept.iter().for_each(|(sector, bytes)| self.keep(*sector, bytes));
        if let Some(at) = self.lengths.iter().rposition(|(number, _)| covered.has(*number)) {
            let (_, length) = self.lengths.drain(..=at).next_back().expect("a length");
            self.kept_length = length;
        }
    }

    fn survivor(&self, survival: Survival, random: &mut fastrand::Rng) -> Vec<u8> {
        let length = match survival {
            Survival::DropAll => self.kept_length,
            Survival::KeepAll => self.length,
            _ => match random.usize(0..=self.lengths.len()) {
                0 => self.kept_length,
                nth => self.lengths[nth - 1].1,
            },
        };
        let mut bytes = self.kept.clone();
        bytes.resize(length as usize, 0);
        // Percent of un-synced sectors that reached the disk.
        let mood = [0, 10, 50, 90, 100][random.usize(0..5)];
        for (sector, versions) in &self.pending {
            let version = match survival {
                Survival::DropAll => None,
                Survival::KeepAll => versions.last(),
                _ if random.u32(0..100) >= mood => None,
                _ if random.bool() => versions.last(),
                _ => Some(&versions[random.usize(..versions.len())]),
            };
            let from = ((sector * SECTOR) as usize).min(bytes.len());
            let to = (((sector + 1) * SECTOR) as usize).min(bytes.len());
            if let Some(version) = version {
                bytes[from..to].copy_from_slice(&version.bytes[..to - from]);
            }
        }
        bytes
    }
}

impl Folder {
    fn survivor(&self, survival: Survival, random: &mut fastrand::Rng) -> BTreeMap<String, Node> {
        let mut names = self.kept.clone();
        let in_order = random.bool();
        let prefix = random.usize(0..=self.changes.len());
        for (nth, (_, change)) in self.changes.iter().enumerate() {
            let survives = match survival {
                Survival::DropAll => false,
                Survival::KeepAll => true,
                _ if in_order => nth < prefix,
                _ => random.bool(),
            };
            if survives {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl Disk {
    /// Makes an empty folder, which is durable.
    pub fn new() -> Disk {
        Disk { folders: vec![Folder::default()], ..Disk::default() }
    }

    fn file(&mut self, number: usize) -> &mut File {
        if self.files.len() <= number {
            self.files.resize(number + 1, File::default());
        }
        &mut self.files[number]
    }

    fn folder(&mut self, number: usize) -> &mut Folder {
        if self.folders.len() <= number {
            self.folders.resize(number + 1, Folder::default());
        }
        &mut self.folders[number]
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Returns whether more is kept after this event than before it.
    pub fn keeps(&self, event: &Event) -> bool {
        match event {
            Event::Wrote { count, durable, .. } => *durable && *count > 0,
            Event::Synced { call, node } => self.syncing.get(call).is_some_and(|covered| match node {
                Node::File(number) => self.files.get(*number).is_some_and(|file| file.is_covered(covered)),
                Node::Folder(number) => self
                    .folders
                    .get(*number)
                    .is_some_and(|folder| folder.changes.iter().any(|(number, _)| covered.has(*number))),
            }),
            _ => false,
        }
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { call, file, offset, bytes } => {
                let number = self.next();
                let writing = Writing { number, offset: *offset, length: bytes.len() as u64 };
                self.writing.insert(*call, writing);
                self.file(*file).write(number, *offset, bytes);
            }
            Event::Wrote { call, file, count, durable } => {
                let writing = self.writing.remove(call).expect("a write that began");
                let (file, count) = (self.file(*file), *count as u64);
                if count < writing.length {
                    file.cut_short(&writing, count);
                }
                if *durable && count > 0 {
                    file.keep_write(&writing, count);
                }
            }
            Event::Length { file, length } => {
                let number = self.next();
                self.file(*file).set_length(number, *length);
            }
            Event::Sync { call } => {
                let without = self.writing.values().map(|writing| writing.number).collect();
                self.syncing.insert(*call, Covered { number: self.number, without });
            }
            Event::Synced { call, node } => {
                let covered = self.syncing.remove(call).expect("a sync that began");
                match node {
                    Node::File(number) => self.file(*number).sync(&covered),
                    Node::Folder(number) => {
                        let folder = self.folder(*number);
                        for (number, change) in std::mem::take(&mut folder.changes) {
                            if covered.has(number) {
                                change.apply(&mut folder.kept);
                            } else {
                                folder.changes.push((number, change));
                            }
                        }
                    }
                }
            }
            Event::Name { folder, naming } => {
                let number = self.next();
                if let Naming::Create(_, node) = naming {
                    // The node exists from now on, even if nothing is ever written to it.
                    match node {
                        Node::File(number) => drop(self.file(*number)),
                        Node::Folder(number) => drop(self.folder(*number)),
                    }
                }
                self.folder(*folder).changes.push((number, naming.clone()));
            }
            Event::Ended { found } => {
                let mut seen = BTreeMap::new();
                self.seen(0, "", &mut seen);
                let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
                assert_eq!(names(&seen), names(found), "the model has other files than there are");
                for (name, bytes) in &seen {
                    assert!(found[name] == *bytes, "{name}: the model has other bytes than the file");
                }
            }
            Event::Say(_) => {}
        }
    }

    /// Collects the files of a folder as programs see them, by path.
    fn seen(&self, folder: usize, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
        let random = &mut fastrand::Rng::with_seed(0);
        for (name, node) in self.folders[folder].survivor(Survival::KeepAll, random) {
            match node {
                Node::Folder(number) => self.seen(number, &format!("{prefix}{name}/"), files),
                Node::File(number) => {
                    let bytes = self.files[number].survivor(Survival::KeepAll, random);
                    files.insert(format!("{prefix}{name}"), bytes);
                }
            }
        }
    }

    /// Returns the folder that a crash of the machine leaves now.
    pub fn survivor(&self, survival: Survival, random: &mut fastrand::Rng) -> MemoryDirectory {
        let root = MemoryDirectory::new();
        self.copy(0, &root, survival, random);
        root
    }

    fn copy(&self, folder: usize, to: &dyn Directory, survival: Survival, random: &mut fastrand::Rng) {
        for (name, node) in self.folders[folder].survivor(survival, random) {
            // This is the lock of a folder, which listings hide.
            if name == "LOCK" {
                continue;
            }
            match node {
                Node::Folder(number) => {
                    let inside = to.subdirectory(&name).expect("a folder in memory");
                    self.copy(number, inside.as_ref(), survival, random);
                }
                Node::File(number) => {
                    let bytes = self.files[number].survivor(survival, random);
                    let file = to.open(&name, Create::New, Method::Buffered).expect("a file in memory");
                    file.write_at(&[IoSlice::new(&bytes)], 0, WriteMode::Durable).expect("memory");
                }
            }
        }
    }
}
