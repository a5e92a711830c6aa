//! The physical record: a 48-byte header and its payload, as bytes.
//!
//! Pure functions. `docs/log-format.md` draws the format.
//!
//! ```text
//! 0     4     8     16            20     21      22             24    32              40        48
//! | len | sum | lsn | incarnation | kind | flags | dependencies | txn | prev or stamp | durable | payload ... | zeros to 8 |
//! ```
//!
//! Rules:
//!
//! 1. The sum covers `len` and everything from `incarnation` to the end of the payload. The sum
//!    does not cover `lsn`, so a thread can compute the sum before it knows the position. Instead,
//!    the reader compares `lsn` with the position at which it reads the record.
//! 2. The sum covers `durable`, so `durable` is the durable frontier as read *before* the
//!    reservation. A value that is too low is harmless, because recovery uses it only as a lower
//!    bound.
//! 3. Between its reservation and its copy, a thread fills in only the position. In memory it also
//!    binds the sum to the position (rule 5).
//! 4. The reader checks `len` against [`PHYSICAL_BYTES_MAX`] before it reads or allocates `len`
//!    bytes.
//! 5. In memory (bit 3 of `flags`) the sum is bound to the position, because a crash may persist
//!    single words of a record. If the sum were not bound, and only the word with the position
//!    arrived, the old record at that place would become valid. On a device this word arrives
//!    together with its neighbours.
//! 6. A record that lies apart (bit 2 of `flags`) takes 8 positions, whatever its length. The
//!    stored `lsn` of such a record is zero; readers put in the position of the entry that led them
//!    to the record (`nvram/entries.rs`).
//! 7. Bits 0 and 1 of `flags` encode the [`Part`] of every record.
//! 8. Bit 4 of `flags` (`STAMPED`) says what the word at offset 32 is. If the bit is clear, the
//!    word is the LSN of the transaction's previous record. If it is set, this record is the only
//!    one of its transaction, and the word is the transaction's commit stamp. Only records of users
//!    are stamped, and only stamped records have dependencies. These lie before the payload and
//!    have [`DEPENDENCY_BYTES`] each ([`Chain`]). A stamp is never read as a position, nor a
//!    position as a stamp.

mod fragment;

pub use fragment::{Link, split};

use crate::checksum::{Sum, read_u32, read_u64};
use crate::lsn::Lsn;
use crate::stamp::CommitStamp;
use std::fmt;

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 48;
/// Records start at positions that are multiples of this number of bytes.
pub const RECORD_ALIGNMENT: usize = 8;
/// Maximum bytes of one record, header and payload: 64 MiB. Larger records are refused.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of one physical record, header and payload, whatever the options: 64 KiB.
pub const PHYSICAL_BYTES_MAX: usize = 64 << 10;
/// Bytes of one dependency. The dependencies of a stamped record lie between its header and its
/// payload. A log of several streams defines the content of a dependency.
pub const DEPENDENCY_BYTES: usize = 16;
/// Offset of `incarnation`, from which on the sum covers the header.
const SUMMED_FROM: usize = 16;

/// Kind of a record. Kinds below [`Kind::USER`] belong to the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u8);

impl Kind {
    /// The first kind for users: users define the meaning of this kind and of all higher ones.
    pub const USER: Kind = Kind(16);
    /// First record after every recovery. This record and all later ones have a larger incarnation
    /// than the records before.
    pub const RESTART: Kind = Kind(1);
    /// Last record of a closed log. The record contains the log's durable frontier.
    pub const MARK: Kind = Kind(2);
    /// Fills reserved bytes that no record needed.
    pub const PADDING: Kind = Kind(3);

    /// Drops the records in a range of lower positions. The body of this record names the range.
    pub const TRUNCATE: Kind = Kind(4);

    /// The kind with the given number. Users can append only kinds from [`Kind::USER`] on.
    pub const fn new(number: u8) -> Self {
        Kind(number)
    }

    /// The number of this kind.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns whether users may append records of this kind.
    pub const fn is_user(self) -> bool {
        self.0 >= Self::USER.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kind::RESTART => f.pad("restart"),
            Kind::MARK => f.pad("mark"),
            Kind::PADDING => f.pad("padding"),
            Kind::TRUNCATE => f.pad("truncate"),
            Kind(number) => number.fmt(f),
        }
    }
}

/// The part of a logical record that a physical record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The whole record.
    Whole,
    /// The first fragment of several.
    First,
    /// A fragment between the first and the last.
    Middle,
    /// The last fragment: its LSN is the logical record's identity.
    Last,
}

impl Part {
    const fn to_flags(self) -> u8 {
        match self {
            Part::Whole => 0,
            Part::First => 1,
            Part::Middle => 2,
            Part::Last => 3,
        }
    }

    const fn from_flags(flags: u8) -> Option<Self> {
        match flags {
            0 => Some(Part::Whole),
            1 => Some(Part::First),
            2 => Some(Part::Middle),
            3 => Some(Part::Last),
            _ => None,
        }
    }
}

/// The link of a record to other records. A record that is the only one of its transaction is
/// linked to other commits; any other record is linked to the previous record of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// The transaction may have several records. The value is the LSN of the previous one, as the
    /// appender gave it, or [`Lsn::ZERO`] if there is none.
    Previous(Lsn),
    /// The record is the only one of its transaction.
    Commit {
        /// The transaction's place in the order of the commits of all streams.
        stamp: CommitStamp,
        /// Number of dependencies before the payload. The dependencies are part of the record's
        /// body.
        dependencies: u16,
    },
}

impl Chain {
    /// No previous record, and no stamp.
    pub const NONE: Chain = Chain::Previous(Lsn::ZERO);
    /// The bit of `flags` that says that the record has a commit stamp.
    const STAMPED: u8 = 1 << 4;

    /// The LSN of the transaction's previous record, if this record names one. The result is below
    /// this record's LSN.
    #[inline]
    pub const fn previous(self) -> Option<Lsn> {
        match self {
            Chain::Previous(Lsn::ZERO) | Chain::Commit { .. } => None,
            Chain::Previous(previous) => Some(previous),
        }
    }

    /// The commit stamp, if the record has one.
    #[inline]
    pub const fn stamp(self) -> Option<CommitStamp> {
        match self {
            Chain::Previous(_) => None,
            Chain::Commit { stamp, .. } => Some(stamp),
        }
    }

    /// Bytes of the dependencies before the payload.
    #[inline]
    pub const fn dependency_bytes(self) -> usize {
        match self {
            Chain::Previous(_) => 0,
            Chain::Commit { dependencies, .. } => dependencies as usize * DEPENDENCY_BYTES,
        }
    }

    /// Returns the word at offset 32, and the bits that the chain sets in the word at offset 16:
    /// the flag, and the number of dependencies.
    #[inline(always)]
    const fn encode(self) -> (u64, u64) {
        match self {
            Chain::Previous(previous) => (previous.get(), 0),
            Chain::Commit { stamp, dependencies } => {
                (stamp.get(), (Self::STAMPED as u64) << 40 | (dependencies as u64) << 48)
            }
        }
    }

    /// Decodes the given fields of a header. Returns `None` if no valid record has these fields.
    const fn decode(flags: u8, dependencies: u16, word: u64) -> Option<Self> {
        match (flags & Self::STAMPED != 0, dependencies) {
            (true, dependencies) => Some(Chain::Commit { stamp: CommitStamp::new(word), dependencies }),
            (false, 0) => Some(Chain::Previous(Lsn::new(word))),
            (false, _) => None,
        }
    }
}

/// Placement of a record's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// The record lies at its position, and takes as many positions as it has bytes.
    #[default]
    InLine,
    /// Like `InLine`, but in memory, where a crash may persist single words (rule 5).
    InMemory,
    /// The record lies elsewhere. The [`RECORD_ALIGNMENT`] bytes at its position name the place
    /// (rule 6).
    Apart,
}

impl Layout {
    /// The bit of `flags` for [`Layout::Apart`].
    const APART: u8 = 1 << 2;
    const IN_MEMORY: u8 = 1 << 3;
    const FLAGS: u8 = Self::APART | Self::IN_MEMORY;
    /// Offset of `flags` in a header.
    const FLAGS_AT: usize = 21;

    const fn to_flags(self) -> u8 {
        match self {
            Layout::InLine => 0,
            Layout::InMemory => Self::IN_MEMORY,
            Layout::Apart => Self::APART,
        }
    }

    /// Returns whether the layout bits of `flags` name this layout. Other bits are ignored.
    const fn is_in(self, flags: u8) -> bool {
        flags & Self::FLAGS == self.to_flags()
    }

    /// Returns whether a header that begins with `head` names this layout.
    pub fn is_of(self, head: &[u8; HEADER_BYTES]) -> bool {
        self.is_in(head[Self::FLAGS_AT])
    }

    /// Number of positions that a record takes; `padded` is its size in bytes with padding.
    #[inline(always)]
    pub const fn positions(self, padded: u64) -> u64 {
        match self {
            Layout::InLine | Layout::InMemory => padded,
            Layout::Apart => RECORD_ALIGNMENT as u64,
        }
    }
}

/// Returns `bytes` rounded up to a multiple of [`RECORD_ALIGNMENT`], where the next record may
/// start.
pub const fn padded_len(bytes: usize) -> usize {
    bytes.next_multiple_of(RECORD_ALIGNMENT)
}

/// Value that is mixed into the sum of a record in memory (rule 5). Two positions whose distance is
/// the size of a ring (a power of two up to 16 GiB) have different values. No other distance
/// matters, because the old bytes at a place of the ring are always from the previous lap.
#[inline(always)]
fn bound_to(lsn: Lsn) -> u32 {
    let step = lsn.get() / RECORD_ALIGNMENT as u64;
    ((step ^ step >> 32) as u32).wrapping_mul(0x9e37_79b1)
}

/// Fields of a header that the writer of the record chooses. The other fields follow from the
/// payload and the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderFields {
    /// Incarnation of the log in which the record is written.
    pub incarnation: u32,
    /// Kind of the record.
    pub kind: Kind,
    /// The id of the transaction, as the appender gave it.
    pub txn: u64,
    /// The chain of the record.
    pub chain: Chain,
    /// The durable frontier, read before the reservation (rule 2).
    pub durable: Lsn,
    /// Layout of the log's records.
    pub layout: Layout,
}

/// A physical record that is complete but for its position.
#[derive(Debug, Clone, Copy)]
pub struct PreparedRecord {
    /// The words of the header, without the second, which is the position.
    words: [u64; HEADER_BYTES / 8 - 1],
    /// The link of a fragment; `None` in a whole record.
    link: Option<[u8; Link::BYTES]>,
    len: u32,
}

impl PreparedRecord {
    /// Returns the header for this position.
    #[inline(always)]
    pub fn header(&self, lsn: Lsn) -> [u8; HEADER_BYTES] {
        let [mut front, what, txn, chain, durable] = self.words;
        if what & u64::from(Layout::IN_MEMORY) << 40 != 0 {
            front ^= u64::from(bound_to(lsn)) << 32;
        }
        let mut header = [0; HEADER_BYTES];
        let fields = header.as_chunks_mut().0.iter_mut().zip([front, lsn.get(), what, txn, chain, durable]);
        fields.for_each(|(field, word)| *field = word.to_le_bytes());
        header
    }

    /// The bytes between header and payload: the link of a fragment, or none.
    #[inline]
    pub fn link(&self) -> &[u8] {
        self.link.as_ref().map_or(&[], |link| link)
    }

    /// Returns header and link, one after the other.
    pub fn head(&self, lsn: Lsn) -> Vec<u8> {
        [&self.header(lsn)[..], self.link()].concat()
    }

    /// Bytes of the record, header included, without padding.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a record has a header")]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Number of bytes to reserve. The bytes beyond [`PreparedRecord::len`] must be written as
    /// zeros.
    pub fn padded(&self) -> usize {
        padded_len(self.len())
    }
}

/// Prepares a header over `payload`. Header, link and payload together must have at most
/// [`PHYSICAL_BYTES_MAX`] bytes.
// The function is inlined and works on whole words, so that the fields stay in registers. If the
// fields were stored one by one and read again immediately as wider words, each read would wait for
// the stores, and these waits would cost more than the checksum.
#[inline(always)]
pub fn prepare_header<'a>(
    fields: &HeaderFields,
    part: Part,
    link: Option<Link>,
    payload: impl Iterator<Item = &'a [u8]> + Clone,
) -> PreparedRecord {
    let link = link.map(Link::encode);
    let link_bytes = link.map_or(0, |link| link.len());
    let len = HEADER_BYTES + link_bytes + payload.clone().map(<[u8]>::len).sum::<usize>();
    assert!(len <= PHYSICAL_BYTES_MAX, "a physical record of {len} bytes");
    let flags = part.to_flags() | fields.layout.to_flags();
    let (chain, chained) = fields.chain.encode();
    let what =
        u64::from(fields.incarnation) | u64::from(fields.kind.get()) << 32 | u64::from(flags) << 40 | chained;
    let words = [what, fields.txn, chain, fields.durable.get()];
    let mut summed = [0; HEADER_BYTES - SUMMED_FROM];
    summed.as_chunks_mut().0.iter_mut().zip(words).for_each(|(field, word)| *field = word.to_le_bytes());
    let mut sum = Sum::new();
    sum.update(&(len as u32).to_le_bytes());
    sum.update(&summed);
    if let Some(link) = &link {
        sum.update(link);
    }
    payload.for_each(|slice| sum.update(slice));
    let front = len as u64 | u64::from(sum.finish()) << 32;
    let [what, txn, chain, durable] = words;
    PreparedRecord { words: [front, what, txn, chain, durable], link, len: len as u32 }
}

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the physical record, header included, without padding.
    pub len: u32,
    /// Position at which the record starts.
    pub lsn: Lsn,
    /// Incarnation of the log in which the record was written.
    pub incarnation: u32,
    /// Kind of the record.
    pub kind: Kind,
    /// Part of a logical record.
    pub part: Part,
    /// The transaction's id, as its appender gave it.
    pub txn: u64,
    /// The chain of the record, as its appender gave it.
    pub chain: Chain,
    /// Position up to which the log was known to be durable when the record was prepared.
    pub durable: Lsn,
    layout: Layout,
}

impl Header {
    /// Bytes that the record takes in the log's memory or files, padding included.
    pub fn padded(&self) -> u64 {
        padded_len(self.len as usize) as u64
    }

    /// Start of the next record.
    pub fn end(&self) -> Lsn {
        self.lsn.plus(self.layout.positions(self.padded()))
    }
}

/// A valid physical record.
#[derive(Debug, Clone, Copy)]
pub struct Decoded<'a> {
    /// Header of the record.
    pub header: Header,
    /// Everything after the header, a fragment's link included.
    pub body: &'a [u8],
}

impl Decoded<'_> {
    /// Layout that the record names.
    pub fn layout(&self) -> Layout {
        self.header.layout
    }
}

/// Reason why bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// There are too few bytes: at least this number is needed to decide.
    Short(usize),
    /// The position in the record differs from the position at which it was read, so the record was
    /// not written there in this use of the file.
    Position,
    /// The length is not that of a record.
    Length,
    /// The sum does not match.
    Sum,
    /// The checksum matches, but a field has a value that no record of this version has.
    Field,
}

impl Invalid {
    /// Returns the reason in words, for messages.
    pub const fn reason(self) -> &'static str {
        match self {
            Invalid::Short(_) => "the log ends inside it",
            Invalid::Position => "it carries another position",
            Invalid::Length => "its length is out of range",
            Invalid::Sum => "its checksum does not match",
            Invalid::Field => "it has a kind, a flag or a number of dependencies that no record has",
        }
    }
}

/// Decodes the physical record at the start of `bytes`, which were read at `at` from a log of this
/// layout. A record that names another layout is invalid. If one of the two layouts is `Apart`, the
/// reader would look for the next record at the wrong position; otherwise the sum would not match.
pub fn decode(bytes: &[u8], at: Lsn, layout: Layout) -> Result<Decoded<'_>, Invalid> {
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(Invalid::Short(HEADER_BYTES)) };
    // This test comes first, because nearly all bytes that are not a record fail it. So a search
    // for records is fast.
    if read_u64(head, 8) != at.get() {
        return Err(Invalid::Position);
    }
    let len = read_u32(head, 0);
    let wanted = len as usize;
    if !(HEADER_BYTES..=PHYSICAL_BYTES_MAX).contains(&wanted) || at.checked_add(len.into()).is_none() {
        return Err(Invalid::Length);
    }
    let Some(record) = bytes.get(..wanted) else { return Err(Invalid::Short(wanted)) };
    let mut sum = Sum::new();
    sum.update(&record[0..4]);
    sum.update(&record[SUMMED_FROM..]);
    let bound = if layout == Layout::InMemory { bound_to(at) } else { 0 };
    if sum.finish() ^ bound != read_u32(head, 4) {
        return Err(Invalid::Sum);
    }
    let kind = Kind(head[20]);
    let flags = head[Layout::FLAGS_AT];
    let Some(part) = Part::from_flags(flags & !(Layout::FLAGS | Chain::STAMPED)) else {
        return Err(Invalid::Field);
    };
    let dependencies = u16::from_le_bytes([head[22], head[23]]);
    let Some(chain) = Chain::decode(flags, dependencies, read_u64(head, 32)) else {
        return Err(Invalid::Field);
    };
    let least = match part {
        Part::Whole => HEADER_BYTES + chain.dependency_bytes(),
        // The dependencies may reach beyond the first fragment. The reader that joins the fragments
        // checks them.
        Part::First | Part::Middle | Part::Last => HEADER_BYTES + Link::BYTES,
    };
    let is_stamped_own = chain.stamp().is_some() && !kind.is_user();
    if !layout.is_in(flags) || kind.get() == 0 || is_stamped_own || wanted < least {
        return Err(Invalid::Field);
    }
    let header = Header {
        len,
        lsn: at,
        incarnation: read_u32(head, 16),
        kind,
        part,
        txn: read_u64(head, 24),
        chain,
        durable: Lsn::new(read_u64(head, 40)),
        layout,
    };
    Ok(Decoded { header, body: &record[HEADER_BYTES..] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> HeaderFields {
        let layout = Layout::InLine;
        HeaderFields {
            incarnation: 7,
            kind: Kind::new(20),
            txn: 11,
            chain: Chain::Previous(Lsn::new(64)),
            durable: Lsn::new(32),
            layout,
        }
    }

    fn whole(payload: &[&[u8]], lsn: Lsn) -> Vec<u8> {
        whole_of(&fields(), payload, lsn)
    }

    fn whole_of(fields: &HeaderFields, payload: &[&[u8]], lsn: Lsn) -> Vec<u8> {
        let prepared = prepare_header(fields, Part::Whole, None, payload.iter().copied());
        let mut bytes = prepared.head(lsn);
        payload.iter().for_each(|slice| bytes.extend_from_slice(slice));
        assert_eq!(bytes.len(), prepared.len());
        bytes.resize(prepared.padded(), 0);
        bytes
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for size in [0, 1, 7, 8, 100, 219, 220, 221, 5000] {
            let payload = vec![0x5a; size];
            let lsn = Lsn::new(4096);
            let (left, right) = payload.split_at(size / 3);
            let bytes = whole(&[left, right], lsn);
            assert_eq!(bytes.len() % 8, 0);
            let decoded = decode(&bytes, lsn, Layout::InLine).unwrap();
            assert_eq!(decoded.body, &payload[..]);
            assert_eq!(decoded.header.end(), Lsn::new(4096 + bytes.len() as u64));
            assert_eq!(
                (decoded.header.txn, decoded.header.chain, decoded.header.durable.get()),
                (11, Chain::Previous(Lsn::new(64)), 32)
            );
            assert_eq!((decoded.header.kind, decoded.header.incarnation), (Kind::new(20), 7));
        }
    }

    /// Asserts that a header with these fields is decoded as it was encoded, for each part.
    fn assert_read_back(fields: &HeaderFields, lsn: Lsn) {
        for part in [Part::Whole, Part::First, Part::Middle, Part::Last] {
            let link = Link { previous: lsn, offset: u32::MAX, total: 7 };
            let payload = [0x5a; 2 * DEPENDENCY_BYTES];
            let link = (part != Part::Whole).then_some(link);
            let prepared = prepare_header(fields, part, link, std::iter::once(&payload[..]));
            let bytes = [&prepared.head(lsn)[..], &payload].concat();
            let found = decode(&bytes, lsn, fields.layout).map(|decoded| decoded.header);
            let HeaderFields { incarnation, kind, txn, chain, durable, layout } = *fields;
            let len = prepared.len() as u32;
            let expected = Header { len, lsn, incarnation, kind, part, txn, chain, durable, layout };
            assert_eq!(found, Ok(expected));
        }
    }

    #[test]
    fn a_header_is_read_back_whatever_is_in_it() {
        // Sets one bit of each field at a time, so that a field that is cut, moved or mixed with
        // another one is noticed.
        for bit in 0..64 {
            let word = 1u64 << bit;
            let (stamp, previous) = (CommitStamp::new(word), Lsn::new(word));
            let commits = [0, 1, 2].map(|dependencies| Chain::Commit { stamp, dependencies });
            let lsn = Lsn::new((word | 8) & (Lsn::LIMIT.get() - 8));
            for layout in [Layout::InLine, Layout::InMemory, Layout::Apart] {
                for chain in commits.into_iter().chain([Chain::NONE, Chain::Previous(previous)]) {
                    let kind = Kind::new(16 | 1 << (bit % 8));
                    let (incarnation, txn, durable) = (1 << (bit % 32), word.rotate_left(1), Lsn::new(!word));
                    let fields = HeaderFields { incarnation, kind, txn, chain, durable, layout };
                    assert_read_back(&fields, lsn);
                }
            }
        }
    }

    #[test]
    fn stamp_and_dependencies_lie_where_the_format_says() {
        let (stamp, lsn) = (CommitStamp::new(0x0102_0304_0506_0708), Lsn::new(4096));
        let chain = Chain::Commit { stamp, dependencies: 0x0102 };
        let payload = vec![0; 0x0102 * DEPENDENCY_BYTES];
        let bytes = whole_of(&HeaderFields { chain, ..fields() }, &[&payload], lsn);
        assert_eq!(bytes[20..24], [20, 1 << 4, 2, 1]);
        assert_eq!(bytes[32..40], [8, 7, 6, 5, 4, 3, 2, 1]);
        let bytes = whole(&[], lsn);
        assert_eq!((&bytes[20..24], &bytes[32..40]), (&[20, 0, 0, 0][..], &[64, 0, 0, 0, 0, 0, 0, 0][..]));
    }

    #[test]
    fn every_damaged_bit_is_noticed() {
        let lsn = Lsn::new(800);
        let bytes = whole(&[b"thirteen bytes"], lsn);
        let len = HEADER_BYTES + 14;
        for bit in 0..len * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, lsn, Layout::InLine).is_err(), "bit {bit}");
        }
        assert_eq!(decode(&bytes, Lsn::new(808), Layout::InLine).unwrap_err(), Invalid::Position);
        for cut in 0..len {
            assert!(
                matches!(decode(&bytes[..cut], lsn, Layout::InLine), Err(Invalid::Short(_))),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_record_that_lies_apart_takes_one_step() {
        let fields = HeaderFields { layout: Layout::Apart, ..fields() };
        let prepared = prepare_header(&fields, Part::Whole, None, std::iter::once(&b"payload"[..]));
        let mut bytes = prepared.head(Lsn::new(800));
        bytes.extend_from_slice(b"payload");
        let header = decode(&bytes, Lsn::new(800), Layout::Apart).unwrap().header;
        assert_eq!((header.layout, header.part, header.end()), (Layout::Apart, Part::Whole, Lsn::new(808)));
        assert_eq!((header.len, header.padded()), (55, 56));
        assert_eq!(decode(&bytes, Lsn::new(800), Layout::InLine).unwrap_err(), Invalid::Field);
    }

    #[test]
    fn the_position_alone_makes_no_valid_record_of_an_old_one_in_memory() {
        let fields = HeaderFields { layout: Layout::InMemory, ..fields() };
        let prepared = prepare_header(&fields, Part::Whole, None, std::iter::once(&b"payload!"[..]));
        let ring = 1 << 20;
        let old = Lsn::new(800);
        let mut bytes = prepared.head(old);
        bytes.extend_from_slice(b"payload!");
        let header = decode(&bytes, old, Layout::InMemory).expect("valid where it is").header;
        assert_eq!((header.layout, header.end()), (Layout::InMemory, Lsn::new(856)));
        for laps in [1, 2, 3, 1000, 1 << 11] {
            let new = Lsn::new(800 + laps * ring);
            bytes[8..16].copy_from_slice(&new.get().to_le_bytes());
            assert_eq!(decode(&bytes, new, Layout::InMemory).unwrap_err(), Invalid::Sum, "{laps} laps");
        }
        // A record in memory is not valid on a device, and a record on a device is not valid in
        // memory.
        assert!(decode(&prepared.head(old), old, Layout::InLine).is_err());
        assert!(decode(&whole(&[b"x"], old), old, Layout::InMemory).is_err());
    }

    #[test]
    fn a_field_that_no_record_has_under_a_good_sum_is_refused() {
        let lsn = Lsn::new(8);
        let body = [b'x'; 20];
        // All flags except those of a part and of a stamp. The body is long enough for a link.
        let flags = (0..=255).filter(|flags| flags & !(3 | 1 << 4) != 0).map(|flags| (21, flags));
        // The other two faults: dependencies without a stamp, and kind 0.
        for (at, value) in flags.chain([(22, 1), (23, 1), (20, 0)]) {
            let mut bytes = whole(&[&body], lsn);
            bytes[at] = value;
            let mut sum = Sum::new();
            sum.update(&bytes[0..4]);
            sum.update(&bytes[16..HEADER_BYTES + body.len()]);
            bytes[4..8].copy_from_slice(&sum.finish().to_le_bytes());
            let refused = decode(&bytes, lsn, Layout::InLine).map(|decoded| decoded.header);
            assert_eq!(refused, Err(Invalid::Field), "{value} at {at}");
        }
    }

    #[test]
    fn dependencies_that_no_record_can_have_are_refused() {
        let lsn = Lsn::new(8);
        let stamped = |kind, dependencies| {
            let chain = Chain::Commit { stamp: CommitStamp::new(9), dependencies };
            let bytes = whole_of(&HeaderFields { kind, chain, ..fields() }, &[&[0; 40]], lsn);
            decode(&bytes, lsn, Layout::InLine).map(|decoded| decoded.header.chain.dependency_bytes())
        };
        assert_eq!(stamped(Kind::USER, 0), Ok(0));
        assert_eq!(stamped(Kind::USER, 2), Ok(32));
        assert_eq!(stamped(Kind::USER, 3), Err(Invalid::Field), "more than the body has bytes for");
        assert_eq!(stamped(Kind::USER, u16::MAX), Err(Invalid::Field));
        for own in [Kind::RESTART, Kind::MARK, Kind::PADDING, Kind::new(15)] {
            assert_eq!(stamped(own, 0), Err(Invalid::Field), "the log's own records have no stamp");
        }
    }
}
