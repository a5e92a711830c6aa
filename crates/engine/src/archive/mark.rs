//! The end of an archive, as an archiver in another process is told of it.

use super::format::{HEAD, Head};
use crate::Lsn;
use crate::error::{ArchiveFault, Error, Result};

/// The end of an archive: how far it has the log, and which record is its last. A [`LogArchiver`](crate::LogArchiver) that goes on there refuses a database whose
/// log is another one. It can be kept and sent as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveMark(pub(super) Head);

impl ArchiveMark {
    /// The position up to which the archive has the log.
    pub fn position(&self) -> Lsn {
        self.0.to
    }

    /// The mark as bytes, with a checksum.
    pub fn to_bytes(&self) -> [u8; HEAD] {
        self.0.encode()
    }

    /// Reads what [`ArchiveMark::to_bytes`] has made.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::Corrupt`] of other bytes, with [`ArchiveFault::NewerVersion`] of those of a newer version.
    pub fn from_bytes(bytes: &[u8]) -> Result<ArchiveMark> {
        decode(bytes, u64::MAX).map(ArchiveMark)
    }
}

/// Reads a head that came from elsewhere, which `left` bytes follow.
pub(super) fn decode(bytes: &[u8], left: u64) -> Result<Head> {
    const PLACE: &str = "an archived stretch";
    let head = Head::decode(bytes, left, PLACE, Lsn::ZERO);
    head.map_err(|fault: ArchiveFault| Error::Archive { place: PLACE.to_owned(), fault: Box::new(fault) })
}
