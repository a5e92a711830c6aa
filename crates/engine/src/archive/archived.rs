//! An archive that is opened for restoring. The archive finds the file that has a stretch, and
//! reads bytes of the log by stream and position.
//!
//! Any thread may call this code. `held` is a leaf latch. A thread that reads bytes of a stream
//! holds the latch while it reads stretches from their files. No file is written. Checksums are
//! compared before contents are used. The checksums of heads are compared when the archive is
//! opened. The checksums of log bytes are compared when the bytes are read; if the log has several
//! streams, [`Archived::check`] compares them beforehand.

use super::format::{HEAD, Head, STRETCH_BYTES, StretchHead, positions, sum_of};
use crate::Lsn;
use crate::error::{ArchiveFault, Error, Result};
use crate::latch::Mutex;
use katydid_device::{self as device, Directory, File, Id, Verb};
use katydid_wal::ArchivedBytes;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// A stretch, with the file that has it and the stretch's place in that file.
#[derive(Debug, Clone)]
pub(crate) struct LocatedStretch {
    pub(crate) at: StretchHead,
    /// A moment when the whole stretch was durable. The moment is not before the preceding
    /// stretch's moment, even if the clock was set back between these moments.
    pub(crate) moment: SystemTime,
    file: Arc<str>,
    /// Offset of the stretch's bytes in the file.
    offset: u64,
}

impl LocatedStretch {
    /// Returns true if the stretch ends in each stream at or below `ends`.
    fn ends_within(&self, ends: &[Lsn]) -> bool {
        self.at.parts.iter().zip(ends).all(|(part, end)| part.to <= *end)
    }
}

/// An archive that is opened for restoring.
#[derive(Debug)]
pub(crate) struct Archived {
    directory: Arc<dyn Directory>,
    /// The stretches in the order of their ends, perhaps with gaps between them.
    places: Vec<LocatedStretch>,
    /// For each stream, the position up to which the archive has the log without a gap, from the
    /// wanted first position on.
    ends: Vec<Lsn>,
    /// The part that was read last.
    held: Mutex<Option<HeldPart>>,
}

/// The bytes of one stream in one stretch.
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
    /// Returns the archived files among these names, sorted by first position. If several files
    /// have the same first position, the longest comes first.
    pub(super) fn names(names: &[String]) -> Vec<(String, Lsn, Lsn)> {
        let mut found: Vec<(String, Lsn, Lsn)> = names
            .iter()
            .filter_map(|name| positions(name).map(|(from, to)| (name.clone(), from, to)))
            .collect();
        found.sort_by_key(|(_, from, to)| (*from, std::cmp::Reverse(*to)));
        found
    }

    /// Returns the head of the last stretch in the file `name`, whose first position is `from`.
    pub(super) fn last_head(directory: &dyn Directory, name: &str, from: Lsn) -> Result<Option<StretchHead>> {
        let mut last = None;
        heads(directory, name, from, &mut |at, _| {
            last = Some(at.clone());
            Ok(())
        })?;
        Ok(last)
    }

    /// Opens the archive in `directory`, which must have the log of `database`. `from` is the
    /// wanted first position of each stream.
    pub(crate) fn open(directory: Arc<dyn Directory>, database: Id, from: &[Lsn]) -> Result<Archived> {
        let names = Self::names(&directory.list()?);
        if names.is_empty() {
            return Err(Error::archive(directory.as_ref(), ArchiveFault::Empty));
        }
        let mut places: Vec<LocatedStretch> = Vec::new();
        let mut reached = Lsn::ZERO;
        for (name, first, to) in names {
            // A longer file has the bytes of this file. Either a crash interrupted the removal of
            // this file, or a user copied the files of several archives into one directory.
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
                        "it has {} streams, the log has {}",
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
                    return corrupt("it does not begin where the stretch before it ends");
                }
                places.push(LocatedStretch {
                    at: at.clone(),
                    moment: head.time(),
                    file: file.clone(),
                    offset,
                });
                Ok(())
            })?;
            reached = reached.max(to);
        }
        // Files from several archives may overlap.
        places.sort_by_key(|place| (place.at.head.to, place.at.head.from));
        let mut latest = SystemTime::UNIX_EPOCH;
        for place in &mut places {
            latest = latest.max(place.moment);
            place.moment = latest;
        }
        let mut ends = from.to_vec();
        for LocatedStretch { at, .. } in &places {
            if at.parts.iter().zip(&ends).all(|(part, end)| part.from <= *end) {
                ends.iter_mut().zip(&at.parts).for_each(|(end, part)| *end = part.to.max(*end));
            }
        }
        Ok(Archived { directory, places, ends, held: Mutex::default() })
    }

    /// For each stream, the position up to which the archive has the log without a gap, from the
    /// wanted first position on.
    pub(crate) fn ends(&self) -> &[Lsn] {
        &self.ends
    }

    /// The greatest end of a stretch, even if there is a gap before that stretch.
    pub(crate) fn last(&self) -> Lsn {
        self.places.iter().map(|place| place.at.head.to).max().unwrap_or(Lsn::ZERO)
    }

    /// The stretches in the order of their ends.
    pub(crate) fn places(&self) -> &[LocatedStretch] {
        &self.places
    }

    /// The stretches that end at a cut below the first gap. A database can be restored to the end
    /// of each of them.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = &LocatedStretch> {
        self.places.iter().filter(|place| place.at.is_cut() && place.ends_within(&self.ends))
    }

    /// Fails if a stretch begins above `ends` in a stream, because the archive then has a gap below
    /// that stretch.
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

    /// Reads each stretch that is `wanted` and that ends above `from` in at least one stream.
    /// Compares the checksum of each of these stretches.
    pub(crate) fn check(&self, from: &[Lsn], wanted: &dyn Fn(&LocatedStretch) -> bool) -> Result<()> {
        let mut needed = self.places.iter().filter(|place| !place.ends_within(from) && wanted(place));
        needed.try_for_each(|place| self.bytes_of(place).map(drop))
    }

    /// The streams of the archive. A restore appends the log of each stream to the same stream of a
    /// copy.
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

    /// The stretch that has position `at` of `stream`, and the offset in the stretch's file at
    /// which the stretch's bytes of this stream begin.
    fn place(&self, stream: usize, at: Lsn) -> Option<(&LocatedStretch, u64)> {
        let below = self.places.partition_point(|place| place.at.parts[stream].to <= at);
        let has_it = |place: &&LocatedStretch| {
            let part = place.at.parts[stream];
            part.from <= at && part.to > at
        };
        let place = self.places[below..].iter().find(has_it)?;
        let before: u64 = place.at.parts[..stream].iter().map(|part| part.to.since(part.from)).sum();
        Some((place, place.offset + before))
    }

    /// The bytes of a stream in a stretch. The checksum of a stretch covers the bytes of all
    /// streams. If there are several streams, this function does not compare that checksum:
    /// [`Archived::check`] has already compared it, and each record has a checksum of its own.
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

/// Visits the heads of the stretches in a file, each with the offset of its log bytes.
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
            return Err(corrupt(at, &format!("the next stretch begins at position {}", head.from)));
        }
        // The table has at most 32 KiB, for 1,024 streams.
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

/// Compares the checksum of each stretch in a file, and visits the stretch with its bytes.
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
    // `Head::decode` refuses a head that announces more than `STRETCH_BYTES` bytes of log.
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

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::{Create, MemoryDirectory, Method, WriteMode};
    use katydid_wal::RecordMark;
    use std::io::IoSlice;

    /// Writes a file of stretches, each with its positions and its moment.
    fn write(directory: &dyn Directory, stretches: &[(u64, u64, u64)]) {
        let mut bytes = Vec::new();
        for (from, to, moment) in stretches {
            let log = vec![7; (to - from) as usize];
            let head = Head {
                database: Id::new(7),
                from: Lsn::new(*from),
                to: Lsn::new(*to),
                moment: *moment,
                pages: 0,
                next_table: 1,
                sum: sum_of(&log),
                last: RecordMark { lsn: Lsn::new(*from), sum: 1 },
                streams: None,
            };
            bytes.extend(StretchHead { head, parts: Vec::new() }.encode());
            bytes.extend(log);
        }
        let (from, to) = (stretches[0].0, stretches[stretches.len() - 1].1);
        let name = super::super::format::file_name(Lsn::new(from), Lsn::new(to));
        let file = directory.open(&name, Create::New, Method::Buffered).expect("a file");
        file.write_at(&[IoSlice::new(&bytes)], 0, WriteMode::Durable).expect("write");
    }

    /// A user has copied the files of two archives of one database into one directory. One archive
    /// has a note (a stretch of no bytes, which records only a moment) at a position where a
    /// stretch of the other archive ends and the next one begins.
    #[test]
    fn stretches_of_two_archives_come_in_the_order_of_their_ends() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        write(directory.as_ref(), &[(0, 100, 10), (100, 140, 30)]);
        write(directory.as_ref(), &[(50, 100, 12), (100, 100, 20), (100, 200, 40)]);
        let archived = Archived::open(directory, Id::new(7), &[Lsn::ZERO]).expect("open");
        let cuts: Vec<(u64, u64)> = archived
            .cuts()
            .map(|place| {
                let moment = place.moment.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
                (place.at.head.to.get(), moment.as_millis() as u64)
            })
            .collect();
        assert_eq!(cuts, [(100, 10), (100, 20), (140, 30), (200, 40)]);
        assert_eq!(archived.ends(), [Lsn::new(200)]);
        let streams = Arc::new(archived).streams();
        let mut bytes = [0; 300];
        assert_eq!(streams[0].read(Lsn::new(30), &mut bytes).expect("read"), 170);
        assert!(bytes[..170].iter().all(|byte| *byte == 7));
    }
}
