//! The form of an archived stretch. Pure.
//!
//! A head of 128 bytes, then the bytes of the log. The head: magic `KTYDARCH`, version u32, checksum u32 (CRC-32C of the head without these four bytes), id
//! of the database u128, first position u64, exclusive end u64, moment u64 (milliseconds since 1970), pages u64, next table u32, checksum of the bytes
//! u32, position of the last record u64, its checksum u32, zeros. Numbers are little-endian.
//!
//! 1. A file is one stretch or several that follow each other, so files are joined by writing one behind the other.
//! 2. A stretch of no bytes notes a moment only. Its last record is that of the stretch before it.
//! 3. Decoding is total: what no program has written is refused, and no length is believed before it was compared with the file's.

use crate::Lsn;
use crate::error::ArchiveFault;
use katydid_device::Id;
use katydid_wal::RecordMark;
use std::time::{Duration, SystemTime};

pub(super) const MAGIC: [u8; 8] = *b"KTYDARCH";
pub(super) const VERSION: u32 = 1;
/// Bytes of a head.
pub(super) const HEAD: usize = 128;
/// Bytes of log in a stretch, at most: one that is read is in memory.
pub(super) const STRETCH_BYTES: usize = 4 << 20;

/// What the head of a stretch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) database: Id,
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    /// Milliseconds since 1970 at a moment when everything below `to` was durable.
    pub(crate) moment: u64,
    /// Pages that the database file has for the records below `to`.
    pub(crate) pages: u64,
    /// Numbers of tables that records below `to` name are below this.
    pub(crate) next_table: u32,
    /// CRC-32C of the bytes.
    pub(crate) sum: u32,
    pub(crate) last: RecordMark,
}

impl Head {
    /// Bytes of log that follow the head.
    pub(crate) fn bytes(&self) -> u64 {
        self.to.since(self.from)
    }

    /// The name of a file of the stretch.
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
        put(8, &VERSION.to_le_bytes());
        put(16, &self.database.to_le_bytes());
        put(32, &self.from.get().to_le_bytes());
        put(40, &self.to.get().to_le_bytes());
        put(48, &self.moment.to_le_bytes());
        put(56, &self.pages.to_le_bytes());
        put(64, &self.next_table.to_le_bytes());
        put(68, &self.sum.to_le_bytes());
        put(72, &self.last.lsn.get().to_le_bytes());
        put(80, &self.last.sum.to_le_bytes());
        let sum = head_sum(&head);
        head[12..16].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Total. `left` bytes of the file follow the head. `file` and `at`, the position where the stretch should begin, are for the error.
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
        if word(head, 8) != VERSION {
            return Err(ArchiveFault::NewerVersion {
                file: file.to_owned(),
                found: word(head, 8),
                known: VERSION,
            });
        }
        let lsn = |at| Some(Lsn::new(long(head, at))).filter(|lsn| *lsn <= Lsn::LIMIT);
        let (Some(from), Some(to), Some(last)) = (lsn(32), lsn(40), lsn(72)) else {
            return Err(corrupt("a position is out of range"));
        };
        if to < from || to.since(from) > left {
            return Err(corrupt("it is cut short"));
        }
        if to.since(from) > STRETCH_BYTES as u64 {
            return Err(corrupt("a stretch is longer than any is made"));
        }
        Ok(Head {
            database: Id::from_le_bytes(std::array::from_fn(|nth| head[16 + nth])),
            from,
            to,
            moment: long(head, 48),
            pages: long(head, 56),
            next_table: word(head, 64),
            sum: word(head, 68),
            last: RecordMark { lsn: last, sum: word(head, 80) },
        })
    }
}

/// The name of the file of the log between two positions.
pub(crate) fn file_name(from: Lsn, to: Lsn) -> String {
    format!("{:016x}-{:016x}.katydid-log", from.get(), to.get())
}

/// The positions that a file's name says; `None` if it is no archived log.
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
        }
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
