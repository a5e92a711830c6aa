//! Fuzz targets for the decoders of archives. A decoder may refuse mutated bytes, but must not
//! panic.

use super::archived::Archived;
use super::format::{
    HEAD, Head, MAGIC, STRETCH_BYTES, StreamPart, StreamsHead, StretchHead, file_name, mend, sum_of, table_of,
};
use super::{ArchiveMark, LogArchive, LogStretch};
use crate::{CommitStamp, Lsn};
use katydid_device::{Create, Directory, Id, MemoryDirectory, Method, WriteMode};
use katydid_wal::RecordMark;
use std::io::IoSlice;
use std::sync::Arc;

const DATABASE: Id = Id::new(0x1122_3344_5566_7788_99AA_BBCC_DDEE_FF00);
/// First position of each sample.
const FROM: Lsn = Lsn::new(4096);

/// Number of streams in samples of the memory engine.
const STREAMS: u64 = 2;

/// A sample stretch of the paged engine.
fn stretch(from: Lsn, bytes: Vec<u8>, moment: u64) -> LogStretch {
    let to = from.plus(bytes.len() as u64);
    let last = RecordMark { lsn: Lsn::new(to.get().saturating_sub(48)), sum: 7 };
    let sum = sum_of(&bytes);
    let head =
        Head { database: DATABASE, from, to, moment, pages: 9, next_table: 3, sum, last, streams: None };
    LogStretch { at: StretchHead { head, parts: vec![StreamPart { from, to, last: Some(last) }] }, bytes }
}

/// A sample stretch of the memory engine. Each stream has half of the bytes. The stretch ends at a
/// cut if the low 20 bits of `moment` are not zero.
fn stretch_of_streams(from: Lsn, bytes: Vec<u8>, moment: u64) -> LogStretch {
    let part = |stream: u64| {
        let from = Lsn::new(from.get() / STREAMS);
        let last = (stream == 0).then_some(RecordMark { lsn: from, sum: 7 });
        StreamPart { from, to: from.plus(bytes.len() as u64 / STREAMS), last }
    };
    let parts: Vec<StreamPart> = (0..STREAMS).map(part).collect();
    let (complete_to, greatest) = (CommitStamp::new(moment & 0xf_ffff), CommitStamp::new(moment));
    let is_cut = complete_to > CommitStamp::new(0);
    let streams = Some(StreamsHead { count: STREAMS as u16, is_cut, complete_to, greatest });
    let last = RecordMark { lsn: Lsn::ZERO, sum: sum_of(&table_of(&parts)) };
    let plain = stretch(from, bytes, moment);
    LogStretch { at: StretchHead { head: Head { last, streams, ..plain.at.head }, parts }, ..plain }
}

/// Samples for [`stretches`]: stretches with and without bytes, and marks, of each engine.
pub(crate) fn stretch_samples() -> Vec<Vec<u8>> {
    let made = [stretch, stretch_of_streams];
    let sound = made.map(|made| [made(FROM, vec![5; 96], 1 << 40), made(FROM, Vec::new(), 1 << 40)]);
    let marks = sound.iter().map(|[of, _]| of.mark().to_bytes());
    sound.as_flattened().iter().map(LogStretch::to_bytes).chain(marks).collect()
}

/// Decodes the input as a stretch and as a mark, first as it is and then with mended checksums. An
/// accepted input must encode to the same bytes.
pub(crate) fn stretches(input: &[u8]) {
    let mut input = input.to_vec();
    for _ in 0..2 {
        if let Ok(stretch) = LogStretch::from_bytes(&input) {
            assert!(stretch.to_bytes() == input, "another stretch than was written");
            assert!(stretch.to().since(stretch.from()) <= input.len() as u64 - HEAD as u64);
            let _shown = (stretch.moment(), stretch.file_name(), stretch.mark());
        }
        if let Ok(mark) = ArchiveMark::from_bytes(&input) {
            assert!(mark.to_bytes()[..] == input, "another mark than was written");
        }
        mend_file(&mut input, &mut |_, _| ());
    }
}

/// Valid files of each engine: one with a single stretch, and one with several stretches, of which
/// two have no bytes.
pub(crate) fn file_samples() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for made in [stretch, stretch_of_streams] {
        let (mut file, mut at) = (Vec::new(), FROM);
        for (nth, length) in [96, 0, 192, 48, 0].into_iter().enumerate() {
            let stretch = made(at, vec![nth as u8; length], (nth as u64) << 19);
            file.extend(stretch.to_bytes());
            at = stretch.to();
        }
        files.extend([made(FROM, vec![5; 96], 1 << 40).to_bytes(), file]);
    }
    files
}

/// Opens an archive for archiving and for restoring. The archive has the input as a file, with
/// mended checksums. In the first round the archive also has a valid file that ends at the start of
/// the samples. In the second round it has a further valid file, which ends 48 bytes above that
/// start.
pub(crate) fn files(input: &[u8]) {
    let mut input = input.to_vec();
    mend_file(&mut input, &mut |_, _| ());
    for made in [stretch, stretch_of_streams] {
        let directory = archive_of(&input);
        for (from, length) in [(0, FROM.get()), (2048, FROM.get() - 2048 + 48)] {
            let before = made(Lsn::new(from), vec![6; length as usize], 1 << 30);
            put(&directory, &before.file_name(), &before.to_bytes());
            let from: Vec<Lsn> = before.at.parts.iter().map(|part| part.from).collect();
            read(&directory, &from);
        }
        if let Ok(archive) = LogArchive::open_in(Arc::new(directory.clone())) {
            let again =
                archive.mark().map(|mark| ArchiveMark::from_bytes(&mark.to_bytes()).ok() == Some(mark));
            assert!(again != Some(false), "a mark that cannot be read");
        }
    }
}

/// Reads all bytes of each stream from its position in `from` on.
fn read(directory: &MemoryDirectory, from: &[Lsn]) {
    let Ok(archived) = Archived::open(Arc::new(directory.clone()), DATABASE, from) else { return };
    let archived = Arc::new(archived);
    let moments: Vec<_> = archived.cuts().map(|place| place.moment).collect();
    assert!(moments.is_sorted(), "a moment goes back");
    let _is_whole = archived.check_gap().is_ok();
    let is_sound = archived.check(from, &|_| true).is_ok();
    for (stream, (from, end)) in archived.streams().iter().zip(from.iter().zip(archived.ends())) {
        let (mut at, mut buffer) = (*from, [0; 1000]);
        // Mutated positions may be far apart, so the number of reads is bounded.
        for _ in 0..64 {
            let _file = stream.file_name(at);
            match stream.read(at, &mut buffer) {
                Ok(0) => break,
                Ok(got) => at = at.plus(got as u64),
                Err(_) => return assert!(!is_sound, "what was checked cannot be read"),
            }
        }
        assert!(at == *end || archived.ends().len() > 1, "an archive ends where it says");
        assert!(at <= *end);
    }
}

/// Makes an archive whose only file has these bytes.
pub(crate) fn archive_of(bytes: &[u8]) -> MemoryDirectory {
    let (mut from, mut to) = (None, FROM);
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let left = rest.len().saturating_sub(HEAD) as u64;
        let Ok(head) = Head::decode(rest, left, "", FROM) else { break };
        from.get_or_insert(head.from);
        to = head.to;
        at += HEAD + head.body_bytes() as usize;
    }
    let from = from.unwrap_or(FROM);
    let directory = MemoryDirectory::new();
    put(&directory, &file_name(from, to.max(from)), bytes);
    directory
}

fn put(directory: &MemoryDirectory, name: &str, bytes: &[u8]) {
    let file = directory.open(name, Create::IfMissing, Method::Buffered);
    let outcome = file.and_then(|file| file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable));
    assert!(outcome.is_ok(), "memory takes everything");
}

/// Corrects the checksum of each head in a file, and of each table and stretch whose length is in
/// range. Before that, `change` gets the bytes of each such stretch and the position of the first
/// byte. The number of pages is reduced to its low byte.
pub(crate) fn mend_file(file: &mut [u8], change: &mut dyn FnMut(&mut [u8], Lsn)) {
    let mut rest = file;
    while let Some((head, behind)) = rest.split_first_chunk_mut::<HEAD>() {
        if head[..8] != MAGIC {
            return;
        }
        let long =
            |head: &[u8; HEAD], at: usize| u64::from_le_bytes(std::array::from_fn(|nth| head[at + nth]));
        let table = if head[8] == 2 { usize::from(u16::from_le_bytes([head[84], head[85]])) * 32 } else { 0 };
        let (from, length) = (long(head, 32), long(head, 40).wrapping_sub(long(head, 32)));
        let most = behind.len().saturating_sub(table).min(STRETCH_BYTES);
        let length = usize::try_from(length).ok().filter(|length| *length <= most && table <= behind.len());
        let (table, behind) = behind.split_at_mut(if length.is_some() { table } else { 0 });
        let (bytes, next) = behind.split_at_mut(length.unwrap_or(0));
        if length.is_some() {
            change(bytes, Lsn::new(from.min(Lsn::LIMIT.get())));
            head[68..72].copy_from_slice(&sum_of(bytes).to_le_bytes());
            if !table.is_empty() {
                head[80..84].copy_from_slice(&sum_of(table).to_le_bytes());
            }
        }
        head[57..64].fill(0);
        mend(head);
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_sound_and_a_mended_change_gets_far() {
        for sample in stretch_samples() {
            stretches(&sample);
            assert!(LogStretch::from_bytes(&sample).is_ok() || ArchiveMark::from_bytes(&sample).is_ok());
        }
        for (nth, mut sample) in file_samples().into_iter().enumerate() {
            let from =
                if nth < 2 { vec![FROM] } else { vec![Lsn::new(FROM.get() / STREAMS); STREAMS as usize] };
            let ends = |sample: &[u8]| {
                let archived = Archived::open(Arc::new(archive_of(sample)), DATABASE, &from)?;
                archived.check(&from, &|_| true).map(|()| archived.ends().to_vec())
            };
            let end = ends(&sample).expect("sound");
            assert!(end > from);
            // A byte of the log in the first stretch.
            let at = HEAD + 3 + if nth < 2 { 0 } else { 32 * STREAMS as usize };
            sample[at] ^= 1;
            ends(&sample).expect_err("damage");
            mend_file(&mut sample, &mut |_, _| ());
            assert_eq!(ends(&sample).expect("mended"), end);
        }
    }
}
