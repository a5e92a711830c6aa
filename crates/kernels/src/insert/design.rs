//! The designs by name, and the settings of each.
//!
//! Pure functions.

use super::aether::{Aether, InTurn, ReleaseQueue, UnderLatch};
use super::bitmap::BitmapInserter;
use super::chunked::ChunkedInserter;
use super::grasshopper::GrasshopperInserter;
use super::marks::MarksInserter;
use super::mutex::MutexInserter;
use super::{BufferSizes, Inserter, consolidated, decoupled, delegated, hybrid};
use crate::lsn::Lsn;

/// A design by which threads put records into the log buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InserterKind {
    /// One lock around reservation and copy. There are no holes.
    Mutex,
    /// Threads that meet at the lock reserve as a group and copy concurrently, one group at a time
    /// (Aether's C).
    Consolidated,
    /// A thread holds the lock only for the reservation. Copies are released in order (Aether's D).
    Decoupled,
    /// Groups as in `Consolidated`, and copies released in order as in `Decoupled` (Aether's CD).
    Hybrid,
    /// Like `Hybrid`, except that a thread may leave its range to the owner of the previous range,
    /// which releases it (Aether's CDME).
    Delegated,
    /// One `fetch_add` reserves, and lists and an index of ranges say where holes are (ELEDA's
    /// GRASSHOPPER).
    Grasshopper,
    /// One `fetch_add` reserves, and a bit for each byte says whether it is filled (ELEDA's slow
    /// baseline).
    Bitmap,
    /// A session reserves a chunk at a time. A thread that scans fills the rest of an idle chunk
    /// with padding. A record may lie below older records of other sessions, unless its append
    /// names the record that it comes after (`Append::after`).
    Chunked,
    /// One `fetch_add` reserves, and one mark for each session says where holes are.
    #[default]
    Marks,
}

crate::words!(
    InserterKind,
    "mutex, consolidated, decoupled, hybrid, delegated, grasshopper, bitmap, chunked, marks",
    Mutex = "mutex",
    Consolidated = "consolidated",
    Decoupled = "decoupled",
    Hybrid = "hybrid",
    Delegated = "delegated",
    Grasshopper = "grasshopper",
    Bitmap = "bitmap",
    Chunked = "chunked",
    Marks = "marks"
);

impl InserterKind {
    /// Every design.
    pub const ALL: [InserterKind; 9] = [
        InserterKind::Mutex,
        InserterKind::Consolidated,
        InserterKind::Decoupled,
        InserterKind::Hybrid,
        InserterKind::Delegated,
        InserterKind::Grasshopper,
        InserterKind::Bitmap,
        InserterKind::Chunked,
        InserterKind::Marks,
    ];

    /// Returns whether a record lies above all records that any session has appended before it. If
    /// not, an append must name the record that it comes after (`Append::after`, `Log::barrier`).
    pub const fn keeps_order(self) -> bool {
        !matches!(self, InserterKind::Chunked)
    }
}

/// An inserter and its settings.
///
/// For example, `InserterKind::Hybrid.into()` is `Hybrid` with default settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InserterDesign {
    /// See [`InserterKind::Mutex`].
    Mutex,
    /// See [`InserterKind::Consolidated`].
    Consolidated {
        /// Number of slots in which threads form groups, from 1 to 64. Default: 4. More slots mean
        /// more and smaller groups.
        consolidation_slots: usize,
    },
    /// See [`InserterKind::Decoupled`].
    Decoupled,
    /// See [`InserterKind::Hybrid`].
    Hybrid {
        /// Number of slots in which threads form groups, from 1 to 64. Default: 4. More slots mean
        /// more and smaller groups.
        consolidation_slots: usize,
    },
    /// See [`InserterKind::Delegated`].
    Delegated {
        /// Number of slots in which threads form groups, from 1 to 64. Default: 4. More slots mean
        /// more and smaller groups.
        consolidation_slots: usize,
    },
    /// See [`InserterKind::Grasshopper`].
    Grasshopper {
        /// Bytes of a range that the tracker hops over: a power of two from 4 KiB to 1 GiB.
        /// Default: 4 MiB. The tracker hops over smaller ranges sooner.
        hop_bytes: u64,
    },
    /// See [`InserterKind::Bitmap`].
    Bitmap,
    /// See [`InserterKind::Chunked`].
    Chunked {
        /// Maximum bytes of a chunk, from 256 bytes to 64 KiB. Default: 16 KiB. If the largest
        /// physical record is smaller, its size is the maximum instead. With larger chunks sessions
        /// touch the shared word less often, and lose more bytes to padding.
        chunk_bytes: usize,
        /// True if a session always reserves `chunk_bytes`, even if it appends little. Default:
        /// false. Tests of order use it, because many records then lie below older ones.
        #[doc(hidden)]
        always: bool,
    },
    /// See [`InserterKind::Marks`].
    #[default]
    Marks,
}

/// Settings of all inserters. [`InserterSettings::design`] uses the settings of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InserterSettings {
    /// Consolidation slots of `Consolidated`, `Hybrid` and `Delegated`. Default: 4.
    pub consolidation_slots: usize,
    /// Hop range of `Grasshopper` in bytes. Default: 4 MiB.
    pub hop_bytes: u64,
    /// Chunk size of `Chunked` in bytes. Default: 16 KiB.
    pub chunk_bytes: usize,
    /// Makes `Chunked` always reserve a whole chunk. Default: false.
    #[doc(hidden)]
    pub chunk_always: bool,
}

impl Default for InserterSettings {
    fn default() -> Self {
        InserterSettings {
            consolidation_slots: 4,
            hop_bytes: 4 << 20,
            chunk_bytes: 16 << 10,
            chunk_always: false,
        }
    }
}

impl InserterSettings {
    /// Returns the design of this kind with these settings.
    pub const fn design(self, kind: InserterKind) -> InserterDesign {
        let InserterSettings { consolidation_slots, hop_bytes, chunk_bytes, chunk_always } = self;
        match kind {
            InserterKind::Mutex => InserterDesign::Mutex,
            InserterKind::Consolidated => InserterDesign::Consolidated { consolidation_slots },
            InserterKind::Decoupled => InserterDesign::Decoupled,
            InserterKind::Hybrid => InserterDesign::Hybrid { consolidation_slots },
            InserterKind::Delegated => InserterDesign::Delegated { consolidation_slots },
            InserterKind::Grasshopper => InserterDesign::Grasshopper { hop_bytes },
            InserterKind::Bitmap => InserterDesign::Bitmap,
            InserterKind::Chunked => InserterDesign::Chunked { chunk_bytes, always: chunk_always },
            InserterKind::Marks => InserterDesign::Marks,
        }
    }
}

impl From<InserterKind> for InserterDesign {
    fn from(kind: InserterKind) -> Self {
        InserterSettings::default().design(kind)
    }
}

/// Error: a setting has a value outside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfRange {
    /// Name of the setting.
    pub option: &'static str,
    /// Value that was given.
    pub value: u64,
    /// Range of legal values.
    pub range: &'static str,
}

impl InserterDesign {
    /// The kind of this design.
    pub const fn kind(self) -> InserterKind {
        match self {
            InserterDesign::Mutex => InserterKind::Mutex,
            InserterDesign::Consolidated { .. } => InserterKind::Consolidated,
            InserterDesign::Decoupled => InserterKind::Decoupled,
            InserterDesign::Hybrid { .. } => InserterKind::Hybrid,
            InserterDesign::Delegated { .. } => InserterKind::Delegated,
            InserterDesign::Grasshopper { .. } => InserterKind::Grasshopper,
            InserterDesign::Bitmap => InserterKind::Bitmap,
            InserterDesign::Chunked { .. } => InserterKind::Chunked,
            InserterDesign::Marks => InserterKind::Marks,
        }
    }

    /// Returns whether a record lies above all records appended before it:
    /// [`InserterKind::keeps_order`].
    pub const fn keeps_order(self) -> bool {
        self.kind().keeps_order()
    }

    /// Refuses values outside their documented ranges.
    ///
    /// # Errors
    /// [`OutOfRange`] names the setting, its value and its range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let (good, option, value, range) = match *self {
            InserterDesign::Consolidated { consolidation_slots: slots }
            | InserterDesign::Hybrid { consolidation_slots: slots }
            | InserterDesign::Delegated { consolidation_slots: slots } => {
                ((1..=64).contains(&slots), "consolidation_slots", slots as u64, "from 1 to 64")
            }
            InserterDesign::Grasshopper { hop_bytes } => {
                let good = hop_bytes.is_power_of_two() && (4 << 10..=1 << 30).contains(&hop_bytes);
                (good, "hop_bytes", hop_bytes, "a power of two from 4096 to 1073741824")
            }
            InserterDesign::Chunked { chunk_bytes, .. } => {
                let good = (256..=64 << 10).contains(&chunk_bytes);
                (good, "chunk_bytes", chunk_bytes as u64, "from 256 to 65536")
            }
            InserterDesign::Mutex
            | InserterDesign::Decoupled
            | InserterDesign::Bitmap
            | InserterDesign::Marks => return Ok(()),
        };
        if good { Ok(()) } else { Err(OutOfRange { option, value, range }) }
    }

    /// Makes the inserter of this design, for a log of these sizes that ends at `end`. Padding
    /// records of the inserter have this incarnation.
    #[doc(hidden)]
    pub fn inserter(&self, sizes: &BufferSizes, incarnation: u32, end: Lsn) -> Box<dyn Inserter> {
        match *self {
            InserterDesign::Mutex => Box::new(MutexInserter::default()),
            InserterDesign::Consolidated { consolidation_slots: slots } => {
                let inserter: Aether<UnderLatch> = consolidated::inserter(slots, sizes);
                Box::new(inserter)
            }
            InserterDesign::Decoupled => Box::new(decoupled::inserter()),
            InserterDesign::Hybrid { consolidation_slots: slots } => {
                let inserter: Aether<InTurn> = hybrid::inserter(slots, sizes);
                Box::new(inserter)
            }
            InserterDesign::Delegated { consolidation_slots: slots } => {
                let inserter: Aether<ReleaseQueue> = delegated::inserter(slots, sizes);
                Box::new(inserter)
            }
            InserterDesign::Grasshopper { hop_bytes } => {
                Box::new(GrasshopperInserter::new(hop_bytes, sizes, end))
            }
            InserterDesign::Bitmap => Box::new(BitmapInserter::new(sizes, end)),
            InserterDesign::Chunked { chunk_bytes, always } => {
                Box::new(ChunkedInserter::new(chunk_bytes, always, sizes, incarnation))
            }
            InserterDesign::Marks => Box::new(MarksInserter::new(sizes.slots())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for inserter in InserterKind::ALL {
            assert_eq!(inserter.to_string().parse::<InserterKind>().unwrap(), inserter);
        }
        let error = "marx".parse::<InserterKind>().unwrap_err();
        assert!(error.to_string().starts_with("`marx` is not one of mutex, consolidated"), "{error}");
    }

    #[test]
    fn each_bad_value_is_named() {
        for (name, design) in [
            ("consolidation_slots", InserterDesign::Hybrid { consolidation_slots: 65 }),
            ("hop_bytes", InserterDesign::Grasshopper { hop_bytes: 5000 }),
            ("chunk_bytes", InserterDesign::Chunked { chunk_bytes: 255, always: false }),
        ] {
            assert_eq!(design.validate().unwrap_err().option, name);
        }
        InserterDesign::Delegated { consolidation_slots: 64 }.validate().unwrap();
        InserterDesign::Marks.validate().unwrap();
    }
}
