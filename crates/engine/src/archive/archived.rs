//! An archive as it is restored from: which file has which stretch, and the bytes of the log by position.
//!
//! Any thread; `held` is a leaf latch, held while one stretch is read from its file. Nothing is written. What lies in the directory is believed after
//! its checksums: heads when the archive is opened, bytes when they are read.

use super::format::{HEAD, Head, STRETCH_BYTES, positions, sum_of};
use crate::Lsn;
use crate::error::{ArchiveFault, Error, Result};
use crate::latch::Mutex;
use katydid_device::{self as device, Directory, File, Id, Verb};
use katydid_wal::ArchivedBytes;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// A stretch, and where it lies.
#[derive(Debug, Clone)]
pub(crate) struct LocatedStretch {
    pub(crate) head: Head,
    file: Arc<str>,
    /// Where its bytes begin in the file.
    offset: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Archived {
    directory: Arc<dyn Directory>,
    /// In order of positions. Between two there may be a gap.
    places: Vec<LocatedStretch>,
    /// Where what goes on from the wanted position without a gap ends.
    end: Lsn,
    /// The stretch that was read last.
    held: Mutex<Option<(Lsn, Vec<u8>)>>,
}

impl Archived {
    /// The archived files among these names, by position; of files that begin at the same one the longest first.
    pub(super) fn names(names: &[String]) -> Vec<(String, Lsn, Lsn)> {
        let mut found: Vec<(String, Lsn, Lsn)> = names
            .iter()
            .filter_map(|name| positions(name).map(|(from, to)| (name.clone(), from, to)))
            .collect();
        found.sort_by_key(|(_, from, to)| (*from, std::cmp::Reverse(*to)));
        found
    }

    /// The head of the last stretch in a file that begins at `from`.
    pub(super) fn last_head(directory: &dyn Directory, name: &str, from: Lsn) -> Result<Option<Head>> {
        let mut last = None;
        heads(directory, name, from, &mut |head, _| {
            last = Some(*head);
            Ok(())
        })?;
        Ok(last)
    }

    /// The archive in `directory`, which must be of the log of `database`, and what it has from `from` on.
    pub(crate) fn open(directory: Arc<dyn Directory>, database: Id, from: Lsn) -> Result<Archived> {
        let names = Self::names(&directory.list()?);
        if names.is_empty() {
            return Err(Error::archive(directory.as_ref(), ArchiveFault::Empty));
        }
        let mut places = Vec::new();
        let mut reached = Lsn::ZERO;
        for (name, first, to) in names {
            // Joined with others, and not removed before a crash.
            if to < reached || to == reached && first < to {
                continue;
            }
            let file: Arc<str> = name.into();
            heads(directory.as_ref(), &file, first, &mut |head, offset| {
                if head.database != database {
                    let (file, found) = (file.to_string(), head.database);
                    let fault = ArchiveFault::OtherDatabase { file, found, wanted: database };
                    return Err(Error::archive(directory.as_ref(), fault));
                }
                if head.to > reached || head.from == head.to {
                    places.push(LocatedStretch { head: *head, file: file.clone(), offset });
                }
                Ok(())
            })?;
            reached = reached.max(to);
        }
        let mut end = from;
        for LocatedStretch { head, .. } in &places {
            if head.from <= end {
                end = end.max(head.to);
            }
        }
        Ok(Archived { directory, places, end, held: Mutex::default() })
    }

    /// The end of the last stretch, whatever is missing before it.
    pub(crate) fn last(&self) -> Lsn {
        self.places.iter().map(|place| place.head.to).max().unwrap_or(Lsn::ZERO)
    }

    /// The stretches in order.
    pub(crate) fn places(&self) -> &[LocatedStretch] {
        &self.places
    }

    /// The end of each stretch, and the moment that it notes, in order. Moments never go back: one that does was noted by a clock that was set back, and
    /// counts as the one before.
    pub(crate) fn moments(&self) -> impl Iterator<Item = (Lsn, SystemTime)> {
        let reached = self.places.iter().filter(|place| place.head.to <= self.end);
        reached.scan(SystemTime::UNIX_EPOCH, |latest, place| {
            *latest = place.head.time().max(*latest);
            Some((place.head.to, *latest))
        })
    }

    /// Fails if something lies beyond the end.
    pub(crate) fn check_gap(&self) -> Result<()> {
        match self.places.iter().map(|place| place.head.from).find(|from| *from > self.end) {
            Some(to) => {
                let fault = ArchiveFault::Missing { from: self.end, to };
                Err(Error::archive(self.directory.as_ref(), fault))
            }
            None => Ok(()),
        }
    }

    /// Reads all stretches from a position on that begin where they are `wanted`, and compares their checksums.
    pub(crate) fn check(&self, from: Lsn, wanted: &dyn Fn(Lsn) -> bool) -> Result<()> {
        let mut needed = self.places.iter().filter(|place| place.head.to > from && wanted(place.head.from));
        needed.try_for_each(|place| self.bytes_of(place).map(drop))
    }

    fn bytes_of(&self, LocatedStretch { head, file, offset }: &LocatedStretch) -> Result<Vec<u8>> {
        let opened = self.directory.open_read_only(file)?;
        read_bytes(opened.as_ref(), head, file, *offset).map_err(|fault| match fault {
            StretchError::Device(error) => error.into(),
            StretchError::Archive(fault) => Error::archive(self.directory.as_ref(), fault),
        })
    }

    /// The stretch that has a position.
    fn place(&self, at: Lsn) -> Option<&LocatedStretch> {
        let below = self.places.partition_point(|place| place.head.from <= at);
        self.places[..below].iter().rev().find(|place| place.head.to > at)
    }
}

impl ArchivedBytes for Archived {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let mut done = 0;
        let mut held = self.held.lock();
        while done < buffer.len() {
            let at = at.plus(done as u64);
            let Some(place) = self.place(at).filter(|_| at < self.end) else { break };
            if held.as_ref().is_none_or(|(from, _)| *from != place.head.from) {
                let bytes = self.bytes_of(place).map_err(|error| match error {
                    Error::Device(error) => error,
                    error => device::Error::from_io(Verb::Read, &*place.file, io::Error::other(error)),
                })?;
                *held = Some((place.head.from, bytes));
            }
            let Some((from, bytes)) = held.as_ref() else { break };
            let rest = &bytes[at.since(*from) as usize..];
            let here = rest.len().min(buffer.len() - done);
            buffer[done..done + here].copy_from_slice(&rest[..here]);
            done += here;
        }
        Ok(done)
    }

    fn end(&self) -> Lsn {
        self.end
    }

    fn file_name(&self, at: Lsn) -> String {
        self.place(at).map_or_else(|| format!("the archive at {at}"), |place| place.file.to_string())
    }
}

/// Visits the heads of the stretches in a file, each with where its bytes begin.
fn heads(
    directory: &dyn Directory,
    name: &str,
    from: Lsn,
    visit: &mut dyn FnMut(&Head, u64) -> Result<()>,
) -> Result<()> {
    let file = directory.open_read_only(name)?;
    let (length, mut offset, mut at) = (file.len()?, 0, from);
    while offset < length {
        let mut bytes = [0; HEAD];
        let got = file.read_at(&mut bytes, offset)?;
        offset += HEAD as u64;
        let fault = |fault| Error::archive(directory, fault);
        let head = Head::decode(&bytes[..got], length.saturating_sub(offset), name, at).map_err(fault)?;
        if head.from != at {
            let finding = format!("it goes on at position {}", head.from);
            return Err(fault(ArchiveFault::Corrupt { file: name.to_owned(), at, finding }));
        }
        visit(&head, offset)?;
        offset += head.bytes();
        at = head.to;
    }
    match positions(name) {
        Some((_, to)) if to != at => {
            let finding = "it is cut short".to_owned();
            Err(Error::archive(directory, ArchiveFault::Corrupt { file: name.to_owned(), at, finding }))
        }
        _ => Ok(()),
    }
}

/// Visits the stretches in a file with their bytes, whose checksums are compared.
pub(super) fn read_whole(
    directory: &dyn Directory,
    name: &str,
    from: Lsn,
    visit: &mut dyn FnMut(&Head, &[u8]) -> Result<()>,
) -> Result<()> {
    let file = directory.open_read_only(name)?;
    heads(directory, name, from, &mut |head, offset| {
        let bytes = read_bytes(file.as_ref(), head, name, offset).map_err(|fault| match fault {
            StretchError::Device(error) => error.into(),
            StretchError::Archive(fault) => Error::archive(directory, fault),
        })?;
        visit(head, &bytes)
    })
}

enum StretchError {
    Device(device::Error),
    Archive(ArchiveFault),
}

fn read_bytes(
    file: &dyn File,
    head: &Head,
    name: &str,
    offset: u64,
) -> std::result::Result<Vec<u8>, StretchError> {
    // A head says no more (`Head::decode`).
    let mut bytes = vec![0; (head.bytes() as usize).min(STRETCH_BYTES)];
    let got = file.read_at(&mut bytes, offset).map_err(StretchError::Device)?;
    let corrupt = |finding: &str| {
        let (file, finding) = (name.to_owned(), finding.to_owned());
        Err(StretchError::Archive(ArchiveFault::Corrupt { file, at: head.from, finding }))
    };
    if got < bytes.len() {
        return corrupt("it is cut short");
    }
    if sum_of(&bytes) != head.sum {
        return corrupt("the checksum of its bytes does not match");
    }
    Ok(bytes)
}
