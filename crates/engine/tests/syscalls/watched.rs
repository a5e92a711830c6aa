//! The watched folder: which names lead to which files, and everything that the calls so far have
//! done to it.
//!
//! The tracing thread runs this code. The state outlives one process, because the next process goes
//! on in the same folder.

use crate::disk::{Event, Naming, Node, SECTOR};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Counts of what was seen, so that a test can ask whether it tested anything.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub direct_opens: usize,
    pub durable_writes: usize,
    pub durable_ring_writes: usize,
    pub file_syncs: usize,
    pub folder_syncs: usize,
}

/// The folder, and what was done to it.
#[derive(Debug)]
pub struct Watched {
    root: PathBuf,
    /// Names and what they lead to, by the folder's number; the root's is 0.
    pub folders: Vec<BTreeMap<String, Node>>,
    /// Number of files seen so far.
    pub files: usize,
    /// Number of calls seen so far.
    pub calls: u64,
    said: String,
    pub events: Vec<Event>,
    pub seen: Seen,
}

impl Watched {
    /// Watches the folder `root`, which is empty and durable.
    pub fn new(root: &Path) -> Watched {
        let root = fs::canonicalize(root).expect("the folder is there");
        let (folders, seen) = (vec![BTreeMap::new()], Seen::default());
        Watched { root, folders, files: 0, calls: 0, said: String::new(), events: Vec::new(), seen }
    }

    /// Splits an absolute path, or one inside an open folder, into a watched folder and the rest.
    /// Returns `None` if the path leads elsewhere.
    pub fn place(&self, base: Option<usize>, path: &Path) -> Option<(usize, Option<String>)> {
        let (mut folder, inside) = match base {
            _ if path.is_absolute() => (0, path.strip_prefix(&self.root).ok()?),
            Some(folder) => (folder, path),
            None => return None,
        };
        let names: Vec<&str> = inside
            .components()
            .filter(|component| *component != Component::CurDir)
            .map(|component| component.as_os_str().to_str().expect("a name that is text"))
            .collect();
        assert!(!names.contains(&".."), "not modelled: {}", path.display());
        let Some((last, above)) = names.split_last() else { return Some((folder, None)) };
        for name in above {
            let Some(Node::Folder(number)) = self.folders[folder].get(*name) else { return None };
            folder = *number;
        }
        Some((folder, Some((*last).to_owned())))
    }

    pub fn name(&mut self, folder: usize, naming: Naming) {
        naming.apply(&mut self.folders[folder]);
        self.events.push(Event::Name { folder, naming });
    }

    pub fn new_folder(&mut self, folder: usize, name: &str) {
        self.folders.push(BTreeMap::new());
        let node = Node::Folder(self.folders.len() - 1);
        self.name(folder, Naming::Create(name.to_owned(), node));
    }

    /// Returns the path of a folder.
    pub fn path(&self, folder: usize) -> PathBuf {
        let above = |names: &BTreeMap<String, Node>| {
            let mut names = names.iter();
            names.find_map(|(name, node)| (*node == Node::Folder(folder)).then(|| name.clone()))
        };
        let found = self.folders.iter().enumerate().find_map(|(number, names)| Some((number, above(names)?)));
        found.map_or_else(|| self.root.clone(), |(number, name)| self.path(number).join(name))
    }

    /// Returns the contents of a file, if it has a name.
    pub fn real(&self, file: usize) -> Option<Vec<u8>> {
        let named = |names: &BTreeMap<String, Node>| {
            let mut names = names.iter();
            names.find_map(|(name, node)| (*node == Node::File(file)).then(|| name.clone()))
        };
        let mut folders = self.folders.iter().enumerate();
        let (folder, name) = folders.find_map(|(number, names)| Some((number, named(names)?)))?;
        fs::read(self.path(folder).join(name)).ok()
    }

    /// Returns whether this name exists although no call was seen to make it.
    pub fn is_new(&self, folder: usize, name: &str) -> bool {
        !self.folders[folder].contains_key(name) && self.path(folder).join(name).exists()
    }

    /// Notes the end of a write that had not returned when the process ended.
    pub fn unfinished_write(&mut self, call: u64, file: usize) {
        let real = self.real(file).unwrap_or_default();
        let begun = self.events.iter().rev().find_map(|event| match event {
            Event::Write { call: number, offset, bytes, .. } if *number == call => Some((*offset, bytes)),
            _ => None,
        });
        let (offset, bytes) = begun.expect("a write that began");
        let real = real.get(offset as usize..).unwrap_or_default();
        let differs = bytes.iter().zip(real).position(|(a, b)| a != b);
        let mut count = differs.unwrap_or(bytes.len().min(real.len()));
        if count < bytes.len() {
            // The model writes whole sectors, so the write ended at the end of a sector. Equal
            // bytes in the next sector were there before the write.
            count = ((offset + count as u64) / SECTOR * SECTOR).saturating_sub(offset) as usize;
        }
        self.events.push(Event::Wrote { call, file, count, durable: false });
    }

    /// Collects the contents of all files.
    pub fn find(&self, folder: usize, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(self.path(folder)).expect("the folder") {
            let entry = entry.expect("a name");
            let name = entry.file_name().into_string().expect("a name that is text");
            if entry.path().is_file() {
                found.insert(format!("{prefix}{name}"), fs::read(entry.path()).expect("a file"));
                continue;
            }
            let Some(Node::Folder(number)) = self.folders[folder].get(&name) else {
                panic!("a folder that was not seen to be made: {}", entry.path().display());
            };
            self.find(*number, &format!("{prefix}{name}/"), found);
        }
    }

    /// Takes bytes from the child's standard output.
    pub fn say(&mut self, bytes: &[u8]) {
        self.said.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.said.find('\n') {
            let line: String = self.said.drain(..=end).collect();
            self.events.push(Event::Say(line.trim_end().to_owned()));
        }
    }
}
