//! The entries and the heap of `nv_entries` and `nv_logging`: where they lie, and the words by
//! which entries name objects.
//!
//! ```text
//! region: | header, 4 KiB | entries, 8 bytes each, a power of two of them | heap: chunks of equal size, of a power of two each | head and tail |
//! entry:  | lap u16 | sum u16 | object u32 |     a word, little-endian: the object lies at 8 * `object` in the heap
//! object: a physical record (`record.rs`) that lies apart, with zero for its position; it does not cross a chunk's end
//! ```
//!
//! The report on NV-Logging numbers the records of the log. A position here is that number times 8,
//! the bytes of an entry; so the entry of position `p` lies at `p` modulo the bytes of all entries.
//! The report stores an index beside the LSN in head and tail. Here position 0 has index 0, so the
//! index follows from the position and is not stored.
//!
//! `lap` serves as the report's persistent flag, and numbers the uses of the entry. It is the
//! number of times that positions had gone round all entries before `p`, modulo 2^16 - 1, plus 1.
//! So `lap` is never 0. An entry with an earlier lap, or with none, reads as not set, so
//! `nv_entries` resets nothing when the start moves. An entry that kept its lap while positions go
//! round 65,535 times would read as set again. No entry keeps its lap that long: an entry is set
//! again each time that positions go round, and an opening resets the entries beyond the log's end
//! that read as set.
//!
//! `sum` is the low half of the object's own checksum. An object does not store its position. If
//! the memory loses the write of an object, an earlier whole object may still be at its place; the
//! checksum of that object differs from the entry's except in one case of 65,536.
//!
//! Head and tail (`pointers`) are those of `nv_logging`; `nv_entries` has none. Rules:
//!
//! 1. Only the thread that got the place of an object from `arena` writes the object, before the
//!    object's position counts as filled.
//! 2. In `nv_entries` the thread that reserved a position stores its entry once, without a lap: the
//!    entry names the object for the threads that commit. This store is not persisted, and only
//!    committing threads read it. In `nv_logging` the thread persists the object, then sets the
//!    entry with its lap and persists it ([`Entries::set`]), before the position counts as filled.
//! 3. In `nv_entries` a committing thread gives entries their laps ([`Entries::persist`]), after
//!    their objects were persisted. An entry with its lap therefore names a whole record, also
//!    after a crash. An entry is one word, so a crash leaves it set or not set.
//! 4. Readers read entries and objects only from the start up to the persisted position. Committing
//!    threads also read above that position. A thread that has the region alone may read all of
//!    them.
//! 5. Whatever value an entry has, the bytes that are read lie in one chunk of the heap.

use super::pointers::{POINTERS_BYTES, Pointers};
use super::ring::RING_AT;
use crate::medium_options::LogKind;
use katydid_device::nvram::NvRegion;
use katydid_kernels::checksum::read_u32;
use katydid_kernels::insert::PhysicalRecord;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::{HEADER_BYTES, Layout, PHYSICAL_BYTES_MAX, RECORD_ALIGNMENT};
use katydid_kernels::sync_shim::Ordering;
use std::sync::Arc;

/// Bytes of an entry, and the number of positions that a record takes.
pub(crate) const ENTRY: u64 = RECORD_ALIGNMENT as u64;
/// Minimum bytes of a chunk, for small heaps. `CHUNK_BYTES_MAX` is the maximum, for large heaps.
const CHUNK_BYTES_MIN: u64 = 2 << 10;
const CHUNK_BYTES_MAX: u64 = 4 * PHYSICAL_BYTES_MAX as u64;
/// Number of chunks of a heap, unless the chunks would be too small or too large.
const CHUNKS: u64 = 64;
/// Offset of the checksum in a record.
const SUM_AT: usize = 4;
/// Offset of the position in a record.
const POSITION_AT: usize = 8;

/// A region with entries and a heap. Shared by all threads that use the log.
#[derive(Debug)]
pub(crate) struct Entries {
    region: Arc<NvRegion>,
    /// Bytes of all entries, less 1.
    mask: u64,
    heap_bytes: u64,
    chunk_bytes: u64,
    /// Head and tail, in `nv_logging`.
    pointers: Option<Pointers>,
}

/// The object that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// Nothing: the entry was not set in this lap.
    Nothing,
    /// An object at offset `at` of the heap. `room` is the number of bytes from there to the end of
    /// its chunk, `sum` the low half of its checksum.
    Object { at: u64, room: u64, sum: u16 },
    /// A value that is no place of an object.
    Nowhere,
}

impl Entries {
    /// Returns the number of bytes of a region for this number of entries and a heap of this size.
    pub(crate) fn region_bytes(kind: LogKind, entries: u64, heap_bytes: u64) -> u64 {
        let pointers = if kind == LogKind::NvLogging { POINTERS_BYTES } else { 0 };
        RING_AT + entries * ENTRY + heap_bytes + pointers
    }

    /// Makes the entries and the heap in a region that has [`Entries::region_bytes`]. `entries` and
    /// `heap_bytes` are powers of two.
    pub(crate) fn new(kind: LogKind, region: Arc<NvRegion>, entries: u64, heap_bytes: u64) -> Self {
        debug_assert!(region.len() >= Self::region_bytes(kind, entries, heap_bytes), "it was made so");
        let pointers = (kind == LogKind::NvLogging)
            .then(|| Pointers::new(region.clone(), RING_AT + entries * ENTRY + heap_bytes));
        let chunk_bytes = (heap_bytes / CHUNKS).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        Entries { region, mask: entries * ENTRY - 1, heap_bytes, chunk_bytes, pointers }
    }

    /// Returns the head and the tail. Only a log whose appenders persist and set their own entries
    /// has them.
    pub(super) fn pointers(&self) -> Option<&Pointers> {
        self.pointers.as_ref()
    }

    pub(crate) fn region(&self) -> &NvRegion {
        &self.region
    }

    /// Returns the number of bytes of all entries, which is the number of positions that exist at
    /// once.
    pub(crate) fn bytes(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn heap_bytes(&self) -> u64 {
        self.heap_bytes
    }

    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.heap_bytes / self.chunk_bytes
    }

    /// Returns the maximum number of bytes of an object: a quarter of a chunk, so that at most a
    /// quarter is lost at a chunk's end.
    pub(crate) fn physical_bytes_max(&self) -> usize {
        (self.chunk_bytes as usize / 4).min(PHYSICAL_BYTES_MAX)
    }

    #[inline(always)]
    fn heap_at(&self, at: u64) -> u64 {
        RING_AT + self.bytes() + at
    }

    #[inline(always)]
    fn entry_at(&self, lsn: Lsn) -> u64 {
        RING_AT + (lsn.get() & self.mask)
    }

    #[inline(always)]
    fn lap(&self, lsn: Lsn) -> u64 {
        (lsn.get() >> self.bytes().trailing_zeros()) % u64::from(u16::MAX) + 1
    }

    /// Puts an object into the heap, without persisting it.
    ///
    /// # Safety
    /// The caller has [`PhysicalRecord::bytes`] at `at` for itself (rule 1).
    #[inline(always)]
    pub(crate) unsafe fn put(&self, at: u64, record: &PhysicalRecord<'_>) {
        let from = self.heap_at(at);
        let mut to = from;
        record.each_part(Lsn::ZERO, |part| {
            // SAFETY: follows from this function's contract.
            unsafe { self.region.write(to, part) };
            to += part.len() as u64;
        });
    }

    /// Stores in the entry of `lsn`, without setting the entry, that the object is at `at` (rule
    /// 2).
    #[inline(always)]
    pub(crate) fn announce(&self, lsn: Lsn, at: u64) {
        let word = (at / ENTRY) << 32;
        self.region.word(self.entry_at(lsn)).store(word.to_le(), Ordering::Release);
    }

    /// Persists the object at `at`, then sets the entry of `lsn` to name the object, and persists
    /// the entry (rule 2). Two fences.
    ///
    /// # Safety
    /// The object was put at `at`, and no thread writes to it meanwhile.
    pub(crate) unsafe fn set(&self, lsn: Lsn, at: u64, bytes: u64) {
        self.region.persist(self.heap_at(at), bytes);
        // SAFETY: follows from this function's contract.
        let sum = unsafe { self.object_sum(at) };
        let word = self.lap(lsn) | u64::from(sum) << 16 | (at / ENTRY) << 32;
        self.region.word(self.entry_at(lsn)).store(word.to_le(), Ordering::Release);
        self.region.persist(self.entry_at(lsn), ENTRY);
    }

    /// Moves the tail from entry to entry, from `from` up to the first entry that is not set, and
    /// no further than `to`. Returns whether the tail has reached `to`. The call costs one fence.
    ///
    /// The caller passes a `to` up to which the sessions' marks say that appenders have set and
    /// persisted all entries. The walk checks once more that they are set: if it meets an entry
    /// that is not, the tail stops there and the result is false.
    pub(super) fn move_tail(&self, pointers: &Pointers, from: Lsn, to: Lsn) -> bool {
        let mut at = from;
        while at < to && self.named(at) != Named::Nothing {
            at = at.plus(ENTRY);
        }
        pointers.move_tail(at);
        at == to
    }

    /// Resets the entries of `[from, to)`, which the head has passed, and persists the change.
    pub(super) fn reset_passed(&self, from: Lsn, to: Lsn) {
        (from.get()..to.get()).step_by(ENTRY as usize).for_each(|at| self.reset(Lsn::new(at)));
        self.write_back_entries(from, to);
        self.region.fence();
    }

    fn write_back_entries(&self, from: Lsn, to: Lsn) {
        let len = to.since(from);
        let first = len.min(self.bytes() - (from.get() & self.mask));
        self.region.write_back(self.entry_at(from), first);
        self.region.write_back(RING_AT, len - first);
    }

    /// Persists the records of `[from, to)`: persists their objects, sets their entries, and
    /// persists the entries (rule 3). Two fences.
    ///
    /// # Safety
    /// The entries were announced and their objects put. Meanwhile no thread writes to the entries
    /// or to the memory of the objects.
    pub(crate) unsafe fn persist(&self, from: Lsn, to: Lsn) {
        let entries = (from.get()..to.get()).step_by(ENTRY as usize).map(Lsn::new);
        // The range to write back next. Appenders put objects one behind the other, so a line that
        // two objects share is written back once.
        let (mut begin, mut end) = (0, 0);
        for lsn in entries.clone() {
            let at = self.announced(lsn);
            if at != end {
                self.region.write_back(self.heap_at(begin), end - begin);
                begin = at;
            }
            // SAFETY: follows from this function's contract.
            end = at + unsafe { self.object_bytes(at) };
        }
        self.region.write_back(self.heap_at(begin), end - begin);
        self.region.fence();
        for lsn in entries {
            let at = self.announced(lsn);
            // SAFETY: follows from this function's contract.
            let sum = unsafe { self.object_sum(at) };
            let word = self.lap(lsn) | u64::from(sum) << 16 | (at / ENTRY) << 32;
            self.region.word(self.entry_at(lsn)).store(word.to_le(), Ordering::Release);
        }
        self.write_back_entries(from, to);
        self.region.fence();
    }

    /// Returns the place of the object of `lsn`, which was announced.
    #[inline(always)]
    fn announced(&self, lsn: Lsn) -> u64 {
        let word = u64::from_le(self.region.word(self.entry_at(lsn)).load(Ordering::Acquire));
        (word >> 32) * ENTRY
    }

    /// Returns the object that the entry of `lsn` names.
    pub(crate) fn named(&self, lsn: Lsn) -> Named {
        let word = u64::from_le(self.region.word(self.entry_at(lsn)).load(Ordering::Acquire));
        if word & u64::from(u16::MAX) != self.lap(lsn) {
            return Named::Nothing;
        }
        let at = (word >> 32) * ENTRY;
        let room = self.chunk_bytes - at % self.chunk_bytes;
        if at < self.heap_bytes && room >= HEADER_BYTES as u64 {
            Named::Object { at, room, sum: (word >> 16) as u16 }
        } else {
            Named::Nowhere
        }
    }

    /// Copies the record at `lsn` into `buffer`, with its position in the header. Returns the
    /// number of bytes. If the entry names no record, the bytes are not a valid record: they have
    /// another position if the entry is not set, and are damaged otherwise.
    ///
    /// # Safety
    /// No thread writes the entry or its object meanwhile (rule 4).
    pub(crate) unsafe fn read(&self, lsn: Lsn, buffer: &mut [u8]) -> usize {
        let mut head = [0; HEADER_BYTES];
        let mut object: &[u8] = &[];
        let mut position = lsn.get();
        match self.named(lsn) {
            Named::Nothing => position = !position,
            Named::Nowhere => {}
            Named::Object { at, room, sum } => {
                // SAFETY: follows from this function's contract.
                let found = unsafe { self.region.slice(self.heap_at(at), room) };
                if let Some(start) = found.first_chunk::<HEADER_BYTES>()
                    && Layout::Apart.is_of(start)
                    && sum_of(start) == sum
                {
                    let len = (read_u32(start, 0) as usize).clamp(HEADER_BYTES, found.len());
                    (head, object) = (*start, &found[HEADER_BYTES..len]);
                }
            }
        }
        head[POSITION_AT..POSITION_AT + 8].copy_from_slice(&position.to_le_bytes());
        let front = buffer.len().min(HEADER_BYTES);
        buffer[..front].copy_from_slice(&head[..front]);
        let body = (buffer.len() - front).min(object.len());
        buffer[front..front + body].copy_from_slice(&object[..body]);
        front + body
    }

    /// Returns the length of the object at `at`, padding included, from the object's header.
    ///
    /// # Safety
    /// A valid object is at `at`, and no thread writes the object during the call (rule 4).
    pub(crate) unsafe fn object_bytes(&self, at: u64) -> u64 {
        // SAFETY: follows from this function's contract.
        let len = read_u32(unsafe { self.region.slice(self.heap_at(at), 4) }, 0);
        u64::from(len).next_multiple_of(ENTRY)
    }

    /// Returns the low half of the checksum of the object at `at`.
    ///
    /// # Safety
    /// A valid object is at `at`, and no thread writes to it meanwhile.
    #[inline(always)]
    unsafe fn object_sum(&self, at: u64) -> u16 {
        // SAFETY: follows from this function's contract.
        sum_of(unsafe { self.region.slice(self.heap_at(at), HEADER_BYTES as u64) })
    }

    /// Writes back the cache lines of the object at `at`; the next fence persists them.
    pub(crate) fn write_back_object(&self, at: u64, bytes: u64) {
        self.region.write_back(self.heap_at(at), bytes);
    }

    /// Persists all entries.
    pub(crate) fn persist_all(&self) {
        self.region.persist(RING_AT, self.bytes());
    }

    /// Makes the entry of `lsn` name nothing, without persisting it.
    pub(crate) fn reset(&self, lsn: Lsn) {
        self.region.word(self.entry_at(lsn)).store(0, Ordering::Release);
    }
}

/// Returns the half of an object's checksum that is in its entry.
fn sum_of(object: &[u8]) -> u16 {
    read_u32(object, SUM_AT) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::nvram::SimNvram;
    use katydid_kernels::record::{Chain, HeaderFields, Kind, Part, decode, prepare_header};

    fn entries() -> (SimNvram, Entries) {
        let memory = SimNvram::new(Entries::region_bytes(LogKind::NvEntries, 64, 16 << 10));
        let region = Arc::new(memory.region());
        (memory, Entries::new(LogKind::NvEntries, region, 64, 16 << 10))
    }

    fn put(entries: &Entries, lsn: Lsn, at: u64, body: &[u8]) {
        let fields = HeaderFields {
            incarnation: 1,
            kind: Kind::USER,
            txn: 9,
            chain: Chain::NONE,
            durable: Lsn::ZERO,
            layout: Layout::Apart,
        };
        let prepared = prepare_header(&fields, Part::Whole, None, std::iter::once(body));
        let record = PhysicalRecord { prepared: &prepared, payload: &[body], after: Lsn::ZERO };
        // SAFETY: one thread.
        unsafe { entries.put(at, &record) };
        entries.announce(lsn, at);
        assert_eq!(entries.named(lsn), Named::Nothing, "recovery does not count it");
        // SAFETY: one thread.
        unsafe { entries.persist(lsn, lsn.plus(ENTRY)) };
    }

    /// Sets an entry to a value that it gets only by damage.
    fn set(entries: &Entries, lsn: Lsn, at: u64) {
        // The entry gets the checksum of the object that may be at `at`, so that the checksum is
        // not the reason for a refusal.
        let sum = if at + 48 <= entries.heap_bytes() {
            // SAFETY: one thread.
            unsafe { entries.object_sum(at) }
        } else {
            0
        };
        let word = entries.lap(lsn) | u64::from(sum) << 16 | (at / ENTRY) << 32;
        entries.region.word(entries.entry_at(lsn)).store(word.to_le(), Ordering::Release);
    }

    fn read(entries: &Entries, lsn: Lsn) -> Vec<u8> {
        let mut buffer = vec![1; PHYSICAL_BYTES_MAX];
        // SAFETY: one thread.
        let got = unsafe { entries.read(lsn, &mut buffer) };
        buffer.truncate(got);
        buffer
    }

    #[test]
    fn an_entry_names_its_object_in_its_lap_only() {
        let (memory, entries) = entries();
        let (first, later) = (Lsn::new(40), Lsn::new(40 + 5 * 64 * 8));
        put(&entries, first, 72, b"first");
        assert_eq!(decode(&read(&entries, first), first, Layout::Apart).expect("valid").body, b"first");
        assert_eq!(
            decode(&read(&entries, later), later, Layout::Apart).unwrap_err(),
            katydid_kernels::record::Invalid::Position
        );
        put(&entries, later, 2048, b"later");
        assert_eq!(decode(&read(&entries, later), later, Layout::Apart).expect("valid").body, b"later");
        assert_eq!(entries.named(first), Named::Nothing);
        let kept = memory.reopen_after_crash(1);
        let entries = Entries::new(LogKind::NvEntries, Arc::new(kept.region()), 64, 16 << 10);
        assert_eq!(decode(&read(&entries, later), later, Layout::Apart).expect("persisted").body, b"later");
        entries.reset(later);
        assert_eq!(entries.named(later), Named::Nothing);
    }

    /// The memory acknowledges a write of the heap, and loses it.
    #[test]
    fn an_earlier_object_at_the_place_of_a_lost_one_is_not_taken_for_it() {
        let (_, entries) = entries();
        let (earlier, later) = (Lsn::new(40), Lsn::new(48));
        put(&entries, earlier, 72, b"as long");
        put(&entries, later, 72, b"and new");
        assert_eq!(decode(&read(&entries, later), later, Layout::Apart).expect("valid").body, b"and new");
        // Changes the object, but not the entry of `later`.
        put(&entries, Lsn::new(56), 72, b"as long");
        let found = read(&entries, later);
        assert_eq!(
            decode(&found, later, Layout::Apart).unwrap_err(),
            katydid_kernels::record::Invalid::Length
        );
    }

    #[test]
    fn laps_are_distinguished_and_never_zero() {
        let (_, entries) = entries();
        let lap = |number: u64| entries.lap(Lsn::new(number * 64 * 8));
        assert_eq!([lap(0), lap(1), lap(u64::from(u16::MAX) - 1)], [1, 2, u64::from(u16::MAX)]);
        assert_eq!(lap(u64::from(u16::MAX)), 1);
        assert_eq!(entries.named(Lsn::ZERO), Named::Nothing, "a new region has no records");
    }

    #[test]
    fn what_an_entry_says_is_not_believed_outside_the_heap() {
        let (_, entries) = entries();
        let lsn = Lsn::new(16);
        let decoded =
            |entries: &Entries| decode(&read(entries, lsn), lsn, Layout::Apart).map(|found| found.header.len);
        for at in [16 << 10, u64::from(u32::MAX) * 8, 2048 - 40] {
            set(&entries, lsn, at);
            assert_eq!(entries.named(lsn), Named::Nowhere);
            assert_eq!(decoded(&entries), Err(katydid_kernels::record::Invalid::Length));
        }
        // A record that does not lie apart is refused, and so is one that would reach into the next
        // chunk.
        set(&entries, lsn, 0);
        assert_eq!(decoded(&entries), Err(katydid_kernels::record::Invalid::Length));
        put(&entries, lsn, 2048 - 56, &[7; 100]);
        assert!(matches!(decoded(&entries), Err(katydid_kernels::record::Invalid::Short(148))));
    }
}
