//! Faults in the bytes of a page.

use super::id::PageId;
use crate::Error;
use std::fmt;

/// A page whose bytes are not what was written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageFault {
    /// The page that was asked for.
    pub(crate) page: PageId,
    /// The fault.
    pub(crate) reason: FaultReason,
}

/// Reason why a page was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FaultReason {
    #[error("it is cut short: {0} bytes")]
    Short(usize),
    #[error("its checksum is {found:08x}, its bytes give {computed:08x}")]
    Checksum { found: u32, computed: u32 },
    #[error("all its bytes are zero")]
    Zero,
    #[error("it says that it is page {0}")]
    Identity(PageId),
    #[error("it has format version {0}, this program reads version {known}", known = super::header::VERSION)]
    Version(u8),
    #[error("it is of unknown kind {0}")]
    Kind(u8),
    #[error("it is a {found:?} page where a {wanted:?} page belongs")]
    WrongKind { found: super::header::Kind, wanted: super::header::Kind },
    #[error("it links to page {0}, which is not in use")]
    Link(PageId),
    #[error("unknown flags {0:#04x} are set")]
    Flags(u8),
    #[error("level {0} does not go with its kind")]
    Level(u8),
    #[error("its fences are longer than a key may be")]
    FenceLength,
    #[error("its lower fence is not below its upper fence")]
    FenceOrder,
    #[error("its common prefix is {found} bytes long, its fences share {shared}")]
    Prefix { found: u16, shared: u16 },
    #[error("its slots and its heap overlap, or the heap ends beyond the page")]
    Bounds,
    #[error("slot {0} points outside the heap")]
    Slot(u16),
    #[error("the cell of slot {0} overlaps another")]
    Overlap(u16),
    #[error("its cells and its garbage do not add up to its heap")]
    HeapSum,
    #[error("the cell of slot {0} does not decode")]
    Cell(u16),
    #[error("the head of slot {0} is not that of its key")]
    Head(u16),
    #[error("the key of slot {0} is not above the one before")]
    Order(u16),
    #[error("the key of slot {0} is outside the fences")]
    OutsideFences(u16),
    #[error("child {0} cannot be a page of a tree")]
    Child(u16),
    #[error("it says that it holds {0} bytes, more than fit")]
    Payload(u16),
    #[error("it marks one of the file's own pages as free")]
    MapOwnPages,
    #[error("reserved bytes are not zero")]
    Reserved,
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page, self.reason)
    }
}

impl std::error::Error for PageFault {}

impl From<PageFault> for Error {
    fn from(fault: PageFault) -> Error {
        Error::Corrupt {
            place: format!("page {}", fault.page),
            page: Some(fault.page.get()),
            finding: fault.reason.to_string(),
        }
    }
}
