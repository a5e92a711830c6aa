//! The format of an archived stretch: encoding and decoding of bytes, without I/O.
//!
//! A stretch is a head of 128 bytes, then in version 2 the table of streams, then the bytes of the
//! log. The head is: magic `KTYDARCH`, version u32, checksum u32 (CRC-32C of the head without these
//! four bytes), id of the database u128, first position u64, exclusive end u64, moment u64
//! (milliseconds since 1970), pages u64, next table u32, checksum of the bytes u32, position of the
//! last record u64, its checksum u32. Numbers are little-endian.
//!
//! The paged engine, whose log has one stream, writes version 1; the rest of a version 1 head is
//! zeros. The memory engine writes version 2. A head of version 2 has zero as the position of the
//! last record, and the checksum of the table in place of that record's checksum. After these
//! fields come the number of streams u16 and a flag u16 (1 if the ends of the streams are a cut: a
//! crash could have left all streams at these ends). Two stamps follow, each u64: the stamp up to
//! which a cut has every commit, and the greatest archived stamp. The rest is zeros. The table has
//! 32 bytes for each stream: first position u64, exclusive end u64, position of the last record u64
//! (all ones: none), checksum of that record u32, zeros u32. The bytes of the log are those of the
//! first stream, then of the second, and so on. Each position in the head is the sum of the
//! positions of all streams.
//!
//! Rules:
//!
//! 1. A file is one stretch or several that follow each other, so two files are joined by appending
//!    the second to the first.
//! 2. A stretch of no bytes, a note, records only a moment. It names the same last records as the
//!    preceding stretch.
//! 3. No input causes a panic in decoding: bytes that no encoder writes are refused, and a length
//!    is compared with the length of the file before it is used.
//! 4. A database can be restored to the end of a version 2 stretch only if that end is a cut. If
//!    the end is no cut, the next stretch belongs to the same round of the archiver (see
//!    `archiver`).

use crate::error::ArchiveFault;
use crate::{CommitStamp, Lsn};
use katydid_device::Id;
use katydid_wal::{RecordMark, STREAMS_MAX};
use std::time::{Duration, SystemTime};

pub(super) const MAGIC: [u8; 8] = *b"KTYDARCH";
/// Version of stretches of a log of the paged engine.
const VERSION_ONE_STREAM: u32 = 1;
/// Version of stretches of a log of the memory engine.
const VERSION_STREAMS: u32 = 2;
/// Bytes of a head.
pub(super) const HEAD: usize = 128;
/// Number of bytes of a head in use in version 1, and in version 2; the other bytes are zeros.
const USED: [usize; 2] = [84, 104];
/// Bytes of the table for each stream.
const ENTRY: usize = 32;
/// Maximum bytes of log in a stretch. A stretch is read into memory whole.
pub(super) const STRETCH_BYTES: usize = 4 << 20;
/// Value that the table has as the position of the last record if no record of the stream was
/// archived.
const NO_RECORD: u64 = u64::MAX;

/// Head of a stretch, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) database: Id,
    /// The first position; in the memory engine, the sum of the first positions of all streams.
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    /// Milliseconds since 1970 at a moment when everything below `to` was durable.
    pub(crate) moment: u64,
    /// Number of pages of the database file, read when everything below `to` was durable. A restore
    /// does not use the number, because a compaction may have shortened the file before the number
    /// was read.
    pub(crate) pages: u64,
    /// Exclusive limit of the table numbers in records below `to`.
    pub(crate) next_table: u32,
    /// CRC-32C of the bytes of the log.
    pub(crate) sum: u32,
    /// The last record. In the memory engine the position is zero, and the checksum is that of the
    /// table.
    pub(crate) last: RecordMark,
    /// `Some` in the memory engine, `None` in the paged engine.
    pub(crate) streams: Option<StreamsHead>,
}

/// The fields of the head that only a log of the memory engine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamsHead {
    pub(crate) count: u16,
    /// True if the ends of the stretch are a cut of the log.
    pub(crate) is_cut: bool,
    /// The stamp up to which every commit lies below the ends. Zero if the ends are no cut.
    pub(crate) complete_to: CommitStamp,
    /// The greatest stamp of a record that was archived.
    pub(crate) greatest: CommitStamp,
}

/// Part of a stretch that belongs to one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamPart {
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    /// The last record before `to`; `None` if none was archived.
    pub(crate) last: Option<RecordMark>,
}

/// The head of a stretch, and the stretch's part of each stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StretchHead {
    pub(crate) head: Head,
    /// The parts in the order of the streams; one part in the paged engine.
    pub(crate) parts: Vec<StreamPart>,
}

impl StretchHead {
    /// Returns the bytes of the head, and of the table in version 2.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let table = if self.head.streams.is_some() { table_of(&self.parts) } else { Vec::new() };
        [&self.head.encode()[..], &table].concat()
    }

    /// Builds the description of a stretch from its head and the table behind the head.
    pub(super) fn of(head: Head, table: &[u8]) -> Result<StretchHead, &'static str> {
        let parts = match head.streams {
            None => vec![StreamPart { from: head.from, to: head.to, last: Some(head.last) }],
            Some(_) => parts_of(&head, table)?,
        };
        Ok(StretchHead { head, parts })
    }

    /// Returns true if this stretch begins in each stream where `before` ends.
    pub(super) fn follows(&self, before: &StretchHead) -> bool {
        self.parts.iter().map(|part| part.from).eq(before.parts.iter().map(|part| part.to))
            && self.head.streams.is_some() == before.head.streams.is_some()
    }

    /// Returns true if a database can be restored to the end of this stretch.
    pub(crate) fn is_cut(&self) -> bool {
        self.head.streams.is_none_or(|streams| streams.is_cut)
    }

    /// The stamp up to which every commit lies below the end of this stretch; zero if that end is
    /// no cut.
    pub(crate) fn complete_to(&self) -> CommitStamp {
        let at = || CommitStamp::of_commit_at(self.head.to);
        self.head.streams.map_or_else(at, |streams| streams.complete_to)
    }
}

/// Encodes the table of streams.
pub(super) fn table_of(parts: &[StreamPart]) -> Vec<u8> {
    let mut table = Vec::with_capacity(parts.len() * ENTRY);
    for StreamPart { from, to, last } in parts {
        let (lsn, sum) = last.map_or((NO_RECORD, 0), |last| (last.lsn.get(), last.sum));
        for number in [from.get(), to.get(), lsn, sum.into()] {
            table.extend_from_slice(&number.to_le_bytes());
        }
    }
    table
}

fn parts_of(head: &Head, table: &[u8]) -> Result<Vec<StreamPart>, &'static str> {
    if table.len() != head.table_bytes() || sum_of(table) != head.last.sum {
        return Err("the checksum of its table of streams does not match");
    }
    let parts: Option<Vec<StreamPart>> = table.as_chunks::<ENTRY>().0.iter().map(part_of).collect();
    let parts = parts.ok_or("a position is out of range")?;
    let sum = |of: fn(&StreamPart) -> Lsn| parts.iter().map(|part| u128::from(of(part).get())).sum::<u128>();
    let is_sum =
        sum(|part| part.from) == head.from.get().into() && sum(|part| part.to) == head.to.get().into();
    if is_sum { Ok(parts) } else { Err("the positions of its streams are not those of its head") }
}

fn part_of(entry: &[u8; ENTRY]) -> Option<StreamPart> {
    let lsn = |at| Some(Lsn::new(long(entry, at))).filter(|lsn| *lsn <= Lsn::LIMIT);
    let (from, to, sum) = (lsn(0)?, lsn(8)?, u32::try_from(long(entry, 24)).ok()?);
    let last = match long(entry, 16) {
        NO_RECORD => None,
        _ => Some(RecordMark { lsn: lsn(16)?, sum }),
    };
    (from <= to && (last.is_some() || sum == 0)).then_some(StreamPart { from, to, last })
}

impl Head {
    /// Bytes of log in the stretch.
    pub(crate) fn bytes(&self) -> u64 {
        self.to.since(self.from)
    }

    /// Bytes of the table behind the head.
    pub(crate) fn table_bytes(&self) -> usize {
        self.streams.map_or(0, |streams| usize::from(streams.count) * ENTRY)
    }

    /// Bytes of the stretch behind the head.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.table_bytes() as u64 + self.bytes()
    }

    /// The name of the file that has only this stretch.
    pub(crate) fn file_name(&self) -> String {
        file_name(self.from, self.to)
    }

    /// The moment as a time.
    pub(crate) fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.moment)
    }

    pub(crate) fn encode(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &if self.streams.is_none() { VERSION_ONE_STREAM } else { VERSION_STREAMS }.to_le_bytes());
        put(16, &self.database.to_le_bytes());
        put(32, &self.from.get().to_le_bytes());
        put(40, &self.to.get().to_le_bytes());
        put(48, &self.moment.to_le_bytes());
        put(56, &self.pages.to_le_bytes());
        put(64, &self.next_table.to_le_bytes());
        put(68, &self.sum.to_le_bytes());
        put(72, &self.last.lsn.get().to_le_bytes());
        put(80, &self.last.sum.to_le_bytes());
        if let Some(StreamsHead { count, is_cut, complete_to, greatest }) = self.streams {
            put(84, &count.to_le_bytes());
            put(86, &u16::from(is_cut).to_le_bytes());
            put(88, &complete_to.get().to_le_bytes());
            put(96, &greatest.get().to_le_bytes());
        }
        mend(&mut head);
        head
    }

    /// Decodes a head from the first bytes of a stretch. No input causes a panic. The file has
    /// `left` more bytes behind the head. The error names `file` and the position `at`, where the
    /// stretch should begin.
    pub(crate) fn decode(bytes: &[u8], left: u64, file: &str, at: Lsn) -> Result<Head, ArchiveFault> {
        let corrupt =
            |finding: &str| ArchiveFault::Corrupt { file: file.to_owned(), at, finding: finding.to_owned() };
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Err(corrupt("it is cut short")) };
        if head[..8] != MAGIC {
            return Err(corrupt("no archived log begins there"));
        }
        if word(head, 12) != head_sum(head) {
            return Err(corrupt("the checksum of a head does not match"));
        }
        let version = word(head, 8);
        let (used, streams) = match version {
            VERSION_ONE_STREAM => (USED[0], None),
            VERSION_STREAMS => (
                USED[1],
                Some(streams_of(head).ok_or_else(|| corrupt("a number of streams is out of range"))?),
            ),
            found => {
                let (file, known) = (file.to_owned(), VERSION_STREAMS);
                return Err(ArchiveFault::NewerVersion { file, found, known });
            }
        };
        if head[used..].iter().any(|byte| *byte != 0) {
            return Err(corrupt("a head has bytes that its version does not use"));
        }
        let lsn = |at| Some(Lsn::new(long(head, at))).filter(|lsn| *lsn <= Lsn::LIMIT);
        let (Some(from), Some(to), Some(last)) = (lsn(32), lsn(40), lsn(72)) else {
            return Err(corrupt("a position is out of range"));
        };
        let decoded = Head {
            database: Id::from_le_bytes(std::array::from_fn(|nth| head[16 + nth])),
            from,
            to,
            moment: long(head, 48),
            pages: long(head, 56),
            next_table: word(head, 64),
            sum: word(head, 68),
            last: RecordMark { lsn: last, sum: word(head, 80) },
            streams,
        };
        if to < from || decoded.body_bytes() > left {
            return Err(corrupt("it is cut short"));
        }
        if decoded.bytes() > STRETCH_BYTES as u64 {
            return Err(corrupt("a stretch has more than 4 MiB of log"));
        }
        Ok(decoded)
    }
}

/// The fields of a version 2 head that describe its streams.
fn streams_of(head: &[u8; HEAD]) -> Option<StreamsHead> {
    let [count, cut] = [84, 86].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
    let streams = StreamsHead {
        count,
        is_cut: cut == 1,
        complete_to: CommitStamp::new(long(head, 88)),
        greatest: CommitStamp::new(long(head, 96)),
    };
    let is_sound = (1..=STREAMS_MAX).contains(&count) && cut <= 1 && long(head, 72) == 0;
    (is_sound && (streams.is_cut || long(head, 88) == 0)).then_some(streams)
}

/// The name of the file that has the log between two positions.
pub(crate) fn file_name(from: Lsn, to: Lsn) -> String {
    format!("{:016x}-{:016x}.katydid-log", from.get(), to.get())
}

/// The positions in a file's name; `None` if the file is no archived log.
pub(crate) fn positions(name: &str) -> Option<(Lsn, Lsn)> {
    let (from, to) = name.strip_suffix(".katydid-log")?.split_once('-')?;
    let lsn = |digits: &str| {
        let canonical = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let number = canonical.then(|| u64::from_str_radix(digits, 16).ok())??;
        Some(Lsn::new(number)).filter(|lsn| *lsn <= Lsn::LIMIT)
    };
    let (from, to) = (lsn(from)?, lsn(to)?);
    (from <= to).then_some((from, to))
}

/// The checksum of the bytes of a stretch.
pub(crate) fn sum_of(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Writes the checksum of a head into the head.
pub(super) fn mend(head: &mut [u8; HEAD]) {
    let sum = head_sum(head);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
}

fn head_sum(head: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&head[..12]);
    digest.update(&head[16..HEAD]);
    digest.finalize() as u32
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|nth| bytes[at + nth]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            database: Id::new(7 << 90),
            from: Lsn::new(1 << 60),
            to: Lsn::new((1 << 60) + 800),
            moment: 1 << 50,
            pages: 77,
            next_table: 5,
            sum: 0x0102_0304,
            last: RecordMark { lsn: Lsn::new((1 << 60) + 700), sum: 9 },
            streams: None,
        }
    }

    fn of_streams() -> StretchHead {
        let part = |from, to, last: Option<u64>| StreamPart {
            from: Lsn::new(from),
            to: Lsn::new(to),
            last: last.map(|lsn| RecordMark { lsn: Lsn::new(lsn), sum: 3 }),
        };
        let parts = vec![part(96, 192, Some(144)), part(0, 0, None), part(48, 48, Some(0))];
        let streams = StreamsHead {
            count: 3,
            is_cut: true,
            complete_to: CommitStamp::new(1 << 40),
            greatest: CommitStamp::new(1 << 41),
        };
        let last = RecordMark { lsn: Lsn::ZERO, sum: sum_of(&table_of(&parts)) };
        let (from, to) = (Lsn::new(144), Lsn::new(240));
        StretchHead { head: Head { from, to, last, streams: Some(streams), ..head() }, parts }
    }

    #[test]
    fn a_table_of_streams_is_read_back_and_damage_noticed() {
        let written = of_streams();
        let bytes = written.encode();
        assert_eq!(bytes.len(), HEAD + 3 * ENTRY);
        let read = |bytes: &[u8]| {
            let head = Head::decode(bytes, 96 + 96, "file", Lsn::ZERO).map_err(|fault| fault.to_string())?;
            StretchHead::of(head, &bytes[HEAD..]).map_err(str::to_owned)
        };
        assert_eq!(read(&bytes), Ok(written.clone()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            read(&damaged).expect_err("damage");
        }
        // Each changed head has valid checksums, but contents that no encoder writes.
        let changed = |change: fn(&mut StretchHead)| {
            let mut of = written.clone();
            change(&mut of);
            of.head.last.sum = sum_of(&table_of(&of.parts));
            read(&of.encode()).expect_err("refused")
        };
        assert!(changed(|of| of.parts[0].to = Lsn::new(200)).contains("not those of its head"));
        assert!(changed(|of| of.parts[1].from = Lsn::new(48)).contains("out of range"));
        assert!(
            changed(|of| of.head.streams = Some(StreamsHead { count: 0, ..of.head.streams.unwrap() }))
                .contains("number")
        );
        assert!(
            changed(|of| of.head.streams = Some(StreamsHead { count: 2, ..of.head.streams.unwrap() }))
                .contains("table")
        );
    }

    #[test]
    fn a_head_is_read_back_and_damage_noticed() {
        let bytes = head().encode();
        assert_eq!(Head::decode(&bytes, 800, "file", Lsn::ZERO), Ok(head()));
        for at in 0..HEAD {
            let mut damaged = bytes;
            damaged[at] ^= 0x20;
            Head::decode(&damaged, 800, "file", Lsn::ZERO).expect_err("damage");
        }
        for short in [0, 8, 127] {
            Head::decode(&bytes[..short], 800, "file", Lsn::ZERO).expect_err("a part");
        }
        let cut = Head::decode(&bytes, 799, "file", Lsn::new(3)).expect_err("cut short");
        assert!(
            matches!(&cut, ArchiveFault::Corrupt { file, at, .. } if file == "file" && *at == Lsn::new(3))
        );
    }

    #[test]
    fn a_stretch_follows_another_in_each_stream() {
        let before = of_streams();
        let after = |from: [u64; 3]| {
            let parts = from.map(|from| StreamPart { from: Lsn::new(from), to: Lsn::new(from), last: None });
            StretchHead { parts: parts.to_vec(), ..before.clone() }
        };
        assert!(after([192, 0, 48]).follows(&before));
        // The sum of the positions is right, but one stream has a gap.
        assert!(!after([144, 48, 48]).follows(&before));
        assert!(!StretchHead { parts: Vec::new(), ..before.clone() }.follows(&before));
    }

    #[test]
    fn names_say_positions_and_others_say_none() {
        let (from, to) = (Lsn::new(0), Lsn::new(1 << 40));
        assert_eq!(positions(&file_name(from, to)), Some((from, to)));
        let long = format!("{:016x}-{:017x}.katydid-log", 1, 2);
        let back = file_name(to, from);
        for name in ["", "katydid.lock", "0-1.katydid-log", &long, &back, "unfinished.new"] {
            assert_eq!(positions(name), None, "{name}");
        }
    }
}
