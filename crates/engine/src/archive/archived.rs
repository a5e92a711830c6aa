//! An archive as it is restored from: which file has which stretch, and the bytes of the log by
//! stream and position.
//!
//! Any thread; `held` is a leaf latch, held while one stretch is read from its file. Nothing is
//! written. What lies in the directory is believed after its checksums: heads when the archive is
//! opened, bytes when they are read.

use super::format::{HEAD, Head, STRETCH_BYTES, StretchHead, positions, sum_of};
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
    pub(crate) at: StretchHead,
    /// A moment when all of it was durable. None is before that of a stretch before: the clock may
    /// have been set back.
    pub(crate) moment: SystemTime,
    file: Arc<str>,
    /// Offset of its bytes in the file.
    offset: u64,
}

impl LocatedStretch {
    /// Returns true if it ends in each stream at or below `ends`.
    fn ends_within(&self, ends: &[Lsn]) -> bool {
        self.at.parts.iter().zip(ends).all(|(part, end)| part.to <= *end)
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Archived {
    directory: Arc<dyn Directory>,
    /// In order of positions. Between two there may be a gap.
    places: Vec<LocatedStretch>,
    /// In each stream, where what goes on from the wanted position without a gap ends.
    ends: Vec<Lsn>,
    /// Part that was read last.
    held: Mutex<Option<HeldPart>>,
}

/// The bytes that a stream has in a stretch.
#[derive(Debug)]
struct HeldPart {
    file: Arc<str>,
    /// Offset of the bytes in the file.
    offset: u64,
    bytes: Vec<u8>,
}

/// One stream of an archive.
#[derive(Debug)]
pub(crate) struct ArchivedStream {
    archived: Arc<Archived>,
    stream: usize,
}

impl Archived {
    /// The archived files among these names, by position; of files that begin at the same one the
    /// longest first.
    pub(super) fn names(names: &[String]) -> Vec<(String, Lsn, Lsn)> {
        let mut found: Vec<(String, Lsn, Lsn)> = names
            .iter()
            .filter_map(|name| positions(name).map(|(from, to)| (name.clone(), from, to)))
            .collect();
        found.sort_by_key(|(_, from, to)| (*from, std::cmp::Reverse(*to)));
        found
    }

    /// The head of the last stretch in a file that begins at `from`.
    pub(super) fn last_head(directory: &dyn Directory, name: &str, from: Lsn) -> Result<Option<StretchHead>> {
        let mut last = None;
        heads(directory, name, from, &mut |at, _| {
            last = Some(at.clone());
            Ok(())
        })?;
        Ok(last)
    }

    /// The archive in `directory`, which must be of the log of `database`, and what it has from
    /// `from` on, a position of each stream.
    pub(crate) fn open(directory: Arc<dyn Directory>, database: Id, from: &[Lsn]) -> Result<Archived> {
        let names = Self::names(&directory.list()?);
        if names.is_empty() {
            return Err(Error::archive(directory.as_ref(), ArchiveFault::Empty));
        }
        let mut places: Vec<LocatedStretch> = Vec::new();
        let (mut reached, mut latest) = (Lsn::ZERO, SystemTime::UNIX_EPOCH);
        for (name, first, to) in names {
            // Joined with others, and not removed before a crash.
            if to < reached || to == reached && first < to {
                continue;
            }
            let file: Arc<str> = name.into();
            heads(directory.as_ref(), &file, first, &mut |at, offset| {
                let head = &at.head;
                let fault = |fault| Err(Error::archive(directory.as_ref(), fault));
                if head.database != database {
                    let (file, found) = (file.to_string(), head.database);
                    return fault(ArchiveFault::OtherDatabase { file, found, wanted: database });
                }
                let corrupt = |finding: &str| {
                    let (file, at, finding) = (file.to_string(), head.from, finding.to_owned());
                    fault(ArchiveFault::Corrupt { file, at, finding })
                };
                if at.parts.len() != from.len() {
                    return corrupt(&format!(
                        "it is of {} streams, the log has {}",
                        at.parts.len(),
                        from.len()
                    ));
                }
                if head.to <= reached && head.from != head.to {
                    return Ok(());
                }
                if let Some(last) = places.last().filter(|last| last.at.head.to == head.from)
                    && !at.follows(&last.at)
                {
                    return corrupt("it goes on elsewhere than the stretch before ends");
                }
                latest = latest.max(head.time());
                places.push(LocatedStretch { at: at.clone(), moment: latest, file: file.clone(), offset });
                Ok(())
            })?;
            reached = reached.max(to);
        }
        // Files may overlap that were copied together from several places.
        places.sort_by_key(|place| place.at.head.from);
        let mut ends = from.to_vec();
        for LocatedStretch { at, .. } in &places {
            if at.parts.iter().zip(&ends).all(|(part, end)| part.from <= *end) {
                ends.iter_mut().zip(&at.parts).for_each(|(end, part)| *end = part.to.max(*end));
            }
        }
        Ok(Archived { directory, places, ends, held: Mutex::default() })
    }

    /// In each stream the end of what goes on from the wanted position without a gap.
    pub(crate) fn ends(&self) -> &[Lsn] {
        &self.ends
    }

    /// The end of the last stretch, whatever is missing before it.
    pub(crate) fn last(&self) -> Lsn {
        self.places.iter().map(|place| place.at.head.to).max().unwrap_or(Lsn::ZERO)
    }

    /// The stretches in order.
    pub(crate) fn places(&self) -> &[LocatedStretch] {
        &self.places
    }

    /// The stretches to whose end a database can be restored, as far as there is no gap.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = &LocatedStretch> {
        self.places.iter().filter(|place| place.at.is_cut() && place.ends_within(&self.ends))
    }

    /// Fails if something lies beyond the ends.
    pub(crate) fn check_gap(&self) -> Result<()> {
        let is_beyond = |place: &&LocatedStretch| {
            place.at.parts.iter().zip(&self.ends).any(|(part, end)| part.from > *end)
        };
        match self.places.iter().find(is_beyond) {
            Some(LocatedStretch { at, .. }) => {
                let from = self.ends.iter().map(|end| end.get()).fold(0, u64::saturating_add);
                let fault = ArchiveFault::Missing { from: Lsn::new(from), to: at.head.from };
                Err(Error::archive(self.directory.as_ref(), fault))
            }
            None => Ok(()),
        }
    }

    /// Reads all stretches that have something behind `from` and are `wanted`, and compares their
    /// checksums.
    pub(crate) fn check(&self, from: &[Lsn], wanted: &dyn Fn(&LocatedStretch) -> bool) -> Result<()> {
        let mut needed = self.places.iter().filter(|place| !place.ends_within(from) && wanted(place));
        needed.try_for_each(|place| self.bytes_of(place).map(drop))
    }

    /// The streams of the archive, to be read behind a copy.
    pub(crate) fn streams(self: &Arc<Self>) -> Vec<Arc<dyn ArchivedBytes>> {
        let stream =
            |stream| Arc::new(ArchivedStream { archived: self.clone(), stream }) as Arc<dyn ArchivedBytes>;
        (0..self.ends.len()).map(stream).collect()
    }

    fn bytes_of(&self, LocatedStretch { at, file, offset, .. }: &LocatedStretch) -> Result<Vec<u8>> {
        let opened = self.directory.open_read_only(file)?;
        read_bytes(opened.as_ref(), &at.head, file, *offset).map_err(|fault| match fault {
            StretchError::Device(error) => error.into(),
            StretchError::Archive(fault) => Error::archive(self.directory.as_ref(), fault),
        })
    }

    /// The stretch that has a position of a stream, and where that stream's bytes begin in the
    /// file.
    fn place(&self, stream: usize, at: Lsn) -> Option<(&LocatedStretch, u64)> {
        let below = self.places.partition_point(|place| place.at.parts[stream].from <= at);
        let place = self.places[..below].iter().rev().find(|place| place.at.parts[stream].to > at)?;
        let before: u64 = place.at.parts[..stream].iter().map(|part| part.to.since(part.from)).sum();
        Some((place, place.offset + before))
    }

    /// The bytes of a stream in a stretch. The checksum is that of the bytes of all streams: where
    /// there are several, it was compared before ([`Archived::check`]), and their records have
    /// checksums of their own.
    fn part_of(&self, place: &LocatedStretch, stream: usize, offset: u64) -> Result<Vec<u8>> {
        if place.at.parts.len() == 1 {
            return self.bytes_of(place);
        }
        let part = place.at.parts[stream];
        let mut bytes = vec![0; (part.to.since(part.from) as usize).min(STRETCH_BYTES)];
        let got = self.directory.open_read_only(&place.file)?.read_at(&mut bytes, offset)?;
        if got < bytes.len() {
            let (file, at, finding) =
                (place.file.to_string(), place.at.head.from, "it is cut short".to_owned());
            return Err(Error::archive(self.directory.as_ref(), ArchiveFault::Corrupt { file, at, finding }));
        }
        Ok(bytes)
    }
}

impl ArchivedBytes for ArchivedStream {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let ArchivedStream { archived, stream } = self;
        let mut done = 0;
        let mut held = archived.held.lock();
        while done < buffer.len() {
            let at = at.plus(done as u64);
            if at >= archived.ends[*stream] {
                break;
            }
            let Some((place, offset)) = archived.place(*stream, at) else { break };
            if held.as_ref().is_none_or(|held| held.file != place.file || held.offset != offset) {
                let bytes = archived.part_of(place, *stream, offset).map_err(|error| match error {
                    Error::Device(error) => error,
                    error => device::Error::from_io(Verb::Read, &*place.file, io::Error::other(error)),
                })?;
                *held = Some(HeldPart { file: place.file.clone(), offset, bytes });
            }
            let Some(HeldPart { bytes, .. }) = held.as_ref() else { break };
            let rest = &bytes[at.since(place.at.parts[*stream].from) as usize..];
            let here = rest.len().min(buffer.len() - done);
            buffer[done..done + here].copy_from_slice(&rest[..here]);
            done += here;
        }
        Ok(done)
    }

    fn end(&self) -> Lsn {
        self.archived.ends[self.stream]
    }

    fn file_name(&self, at: Lsn) -> String {
        let found = self.archived.place(self.stream, at);
        found.map_or_else(|| format!("the archive at {at}"), |(place, _)| place.file.to_string())
    }
}

/// Visits the heads of the stretches in a file, each with where its bytes begin.
fn heads(
    directory: &dyn Directory,
    name: &str,
    from: Lsn,
    visit: &mut dyn FnMut(&StretchHead, u64) -> Result<()>,
) -> Result<()> {
    let file = directory.open_read_only(name)?;
    let (length, mut offset, mut at) = (file.len()?, 0, from);
    let corrupt = |at: Lsn, finding: &str| {
        let (file, finding) = (name.to_owned(), finding.to_owned());
        Error::archive(directory, ArchiveFault::Corrupt { file, at, finding })
    };
    while offset < length {
        let mut bytes = [0; HEAD];
        let got = file.read_at(&mut bytes, offset)?;
        offset += HEAD as u64;
        let head = Head::decode(&bytes[..got], length.saturating_sub(offset), name, at);
        let head = head.map_err(|fault| Error::archive(directory, fault))?;
        if head.from != at {
            return Err(corrupt(at, &format!("it goes on at position {}", head.from)));
        }
        // At most that of 1,024 streams.
        let mut table = vec![0; head.table_bytes()];
        if !table.is_empty() && file.read_at(&mut table, offset)? < table.len() {
            return Err(corrupt(at, "it is cut short"));
        }
        let stretch = StretchHead::of(head, &table).map_err(|finding| corrupt(at, finding))?;
        offset += table.len() as u64;
        visit(&stretch, offset)?;
        offset += head.bytes();
        at = head.to;
    }
    match positions(name) {
        Some((_, to)) if to != at => Err(corrupt(at, "it is cut short")),
        _ => Ok(()),
    }
}

/// Visits the stretches in a file with their bytes, whose checksums are compared.
pub(super) fn read_whole(
    directory: &dyn Directory,
    name: &str,
    from: Lsn,
    visit: &mut dyn FnMut(&StretchHead, &[u8]) -> Result<()>,
) -> Result<()> {
    let file = directory.open_read_only(name)?;
    heads(directory, name, from, &mut |at, offset| {
        let bytes = read_bytes(file.as_ref(), &at.head, name, offset).map_err(|fault| match fault {
            StretchError::Device(error) => error.into(),
            StretchError::Archive(fault) => Error::archive(directory, fault),
        })?;
        visit(at, &bytes)
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
