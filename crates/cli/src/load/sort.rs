//! External sorting of keys and values that do not fit in memory: sorted runs in files, which are
//! then merged.
//!
//! 1. If several entries have one key, the last pushed one is kept.
//! 2. At most about `run_bytes` of entries are in memory; during a merge, one entry and a buffer of
//!    `BUFFER_BYTES` of each run.
//! 3. The files have no names, so the operating system removes them when the process ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Maximum number of runs that are merged at once. Each run is an open file.
const RUNS_MAX: usize = 64;
/// Approximate bytes that an entry takes in memory besides its key and value.
const ENTRY_BYTES: usize = 96;
/// Bytes of a run that are read or written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Sorts keys and values, as the head of this file describes.
#[derive(Debug)]
pub struct Sorter {
    folder: PathBuf,
    run_bytes: usize,
    held: Vec<Entry>,
    bytes: usize,
    /// Sorted runs, the oldest first.
    runs: Vec<File>,
}

impl Sorter {
    /// Makes a sorter with runs of about `run_bytes` in `folder`.
    pub fn new(folder: &Path, run_bytes: usize) -> Self {
        Sorter { folder: folder.to_path_buf(), run_bytes, held: Vec::new(), bytes: 0, runs: Vec::new() }
    }

    pub fn push(&mut self, entry: Entry) -> io::Result<()> {
        self.bytes += entry.0.len() + entry.1.len() + ENTRY_BYTES;
        self.held.push(entry);
        if self.bytes < self.run_bytes {
            return Ok(());
        }
        self.spill()?;
        if self.runs.len() < RUNS_MAX {
            return Ok(());
        }
        let merged = Merge::of(self.runs.drain(..))?;
        let run = written(&self.folder, merged)?;
        self.runs.push(run);
        Ok(())
    }

    /// Returns the entries in the order of their keys.
    pub fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            return Ok(Sorted::Held(sorted(self.held).into_iter()));
        }
        self.spill()?;
        Ok(Sorted::Merged(Merge::of(self.runs.drain(..))?))
    }

    fn spill(&mut self) -> io::Result<()> {
        self.bytes = 0;
        let held = sorted(std::mem::take(&mut self.held));
        self.runs.push(written(&self.folder, held.into_iter().map(Ok))?);
        Ok(())
    }
}

/// Sorts entries, and keeps the last one of each key.
fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    // `dedup_by` keeps the first of equal entries, which gets the value of the last one.
    entries.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            std::mem::swap(&mut later.1, &mut kept.1);
        }
        is_same
    });
    entries
}

/// Writes the entries to a new file, which is positioned at its beginning.
fn written(folder: &Path, entries: impl Iterator<Item = io::Result<Entry>>) -> io::Result<File> {
    let mut run = BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile_in(folder)?);
    for entry in entries {
        let (key, value) = entry?;
        for length in [key.len(), value.len()] {
            run.write_all(&(length as u32).to_le_bytes())?;
        }
        run.write_all(&key)?;
        run.write_all(&value)?;
    }
    let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?;
    run.rewind()?;
    Ok(run)
}

/// Reads the next entry of a run. Returns `None` at the end of the run.
fn next_entry(run: &mut impl Read) -> io::Result<Option<Entry>> {
    let mut lengths = [0; 8];
    match run.read_exact(&mut lengths[..1]) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    run.read_exact(&mut lengths[1..])?;
    let [a, b, c, d, rest @ ..] = lengths;
    let mut bytes_of = |length: [u8; 4]| {
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        run.read_exact(&mut bytes).map(|()| bytes)
    };
    Ok(Some((bytes_of([a, b, c, d])?, bytes_of(rest)?)))
}

/// A run and its next entry. Runs are ordered by the key of that entry, then from the newest to the
/// oldest.
#[derive(Debug)]
struct Run {
    next: Entry,
    age: Reverse<usize>,
    rest: BufReader<File>,
}

impl Ord for Run {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.next.0.cmp(&other.next.0).then(self.age.cmp(&other.age))
    }
}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Run {}

/// A merge of several runs.
#[derive(Debug)]
pub struct Merge {
    runs: BinaryHeap<Reverse<Run>>,
}

impl Merge {
    /// Merges runs, the oldest first.
    fn of(runs: impl Iterator<Item = File>) -> io::Result<Merge> {
        let mut merge = Merge { runs: BinaryHeap::new() };
        for (number, run) in runs.enumerate() {
            let mut rest = BufReader::with_capacity(BUFFER_BYTES, run);
            if let Some(next) = next_entry(&mut rest)? {
                merge.runs.push(Reverse(Run { next, age: Reverse(number), rest }));
            }
        }
        Ok(merge)
    }

    /// Removes and returns the smallest entry.
    fn take(&mut self) -> io::Result<Option<Entry>> {
        let Some(mut least) = self.runs.peek_mut() else { return Ok(None) };
        let Reverse(run) = &mut *least;
        match next_entry(&mut run.rest)? {
            Some(next) => Ok(Some(std::mem::replace(&mut run.next, next))),
            None => Ok(Some(PeekMut::pop(least).0.next)),
        }
    }
}

impl Iterator for Merge {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        let entry = match self.take().transpose()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        // Drops entries of older runs that have this key.
        while self.runs.peek().is_some_and(|Reverse(run)| run.next.0 == entry.0) {
            if let Err(error) = self.take() {
                return Some(Err(error));
            }
        }
        Some(Ok(entry))
    }
}

/// The pushed entries, in key order.
#[derive(Debug)]
pub enum Sorted {
    /// The entries are in memory.
    Held(std::vec::IntoIter<Entry>),
    /// The entries are in files, which are merged.
    Merged(Merge),
}

impl Iterator for Sorted {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        match self {
            Sorted::Held(entries) => entries.next().map(Ok),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_last_value_of_each_key_comes_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        // The sizes lead to no run, to a few runs, and to more runs than are merged at once.
        for (run_bytes, most) in [(1 << 20, 2000), (4000, 2000), (500, 2000), (1, 300), (10_000, 0)] {
            let mut model = BTreeMap::new();
            let mut sorter = Sorter::new(folder.path(), run_bytes);
            for _ in 0..most {
                let key: Vec<u8> = (0..rng.usize(..4)).map(|_| rng.u8(..6)).collect();
                let value = vec![rng.u8(..); rng.usize(..100)];
                model.insert(key.clone(), value.clone());
                sorter.push((key, value)).unwrap();
                assert!(sorter.runs.len() < RUNS_MAX);
            }
            let found: Vec<Entry> = sorter.finish().unwrap().map(Result::unwrap).collect();
            assert_eq!(found, Vec::from_iter(model));
            assert_eq!(folder.path().read_dir().unwrap().count(), 0, "a file has a name");
        }
    }

    #[test]
    fn a_run_that_is_cut_off_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let entries = [(vec![1], vec![2; 9]), (vec![2], vec![3; 9])];
        let mut bytes = Vec::new();
        let run = written(folder.path(), entries.into_iter().map(Ok));
        run.unwrap().read_to_end(&mut bytes).unwrap();
        let mut cut_off = tempfile::tempfile().unwrap();
        cut_off.write_all(&bytes[..20]).unwrap();
        cut_off.rewind().unwrap();
        let found = Merge::of([cut_off].into_iter()).unwrap();
        let error = found.collect::<io::Result<Vec<Entry>>>().expect_err("it is cut off");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
