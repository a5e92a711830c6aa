//! The end of an archive, in a form that can be sent to an archiver in another process.

use super::format::{HEAD, Head, StretchHead};
use crate::Lsn;
use crate::error::{ArchiveFault, Error, Result};

/// Name of a stretch in errors, if its file is not known.
const PLACE: &str = "an archived stretch";

/// The end of an archive: its position, and its last records. A [`LogArchiver`](crate::LogArchiver)
/// that is opened with a mark refuses a database with another log. A mark can be stored and sent as
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveMark(pub(super) StretchHead);

impl ArchiveMark {
    /// The position up to which the archive has the log. In the memory engine it is the sum of the
    /// positions in all streams.
    pub fn position(&self) -> Lsn {
        self.0.head.to
    }

    /// The mark as bytes, with a checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// Decodes the bytes that [`ArchiveMark::to_bytes`] has made.
    ///
    /// # Errors
    /// [`Error::Archive`] with [`ArchiveFault::Corrupt`] if the bytes are no mark, and with
    /// [`ArchiveFault::NewerVersion`] if a newer version has made them.
    pub fn from_bytes(bytes: &[u8]) -> Result<ArchiveMark> {
        let (head, rest) = decode(bytes, u64::MAX)?;
        if rest.len() != head.head.table_bytes() {
            return Err(corrupt(&format!("{} bytes follow the mark", rest.len() - head.head.table_bytes())));
        }
        Ok(ArchiveMark(head))
    }
}

/// Decodes the head of a stretch that was stored or sent as bytes. Also returns the bytes behind
/// the fixed head. Refuses a head that announces more than `left` bytes of table and log.
pub(super) fn decode(bytes: &[u8], left: u64) -> Result<(StretchHead, &[u8])> {
    let head = Head::decode(bytes, left, PLACE, Lsn::ZERO);
    let head = head.map_err(|fault| Error::Archive { place: PLACE.to_owned(), fault: Box::new(fault) })?;
    let rest = bytes.get(HEAD..).unwrap_or_default();
    let Some(table) = rest.get(..head.table_bytes()) else { return Err(corrupt("it is cut short")) };
    let stretch = StretchHead::of(head, table).map_err(corrupt)?;
    Ok((stretch, rest))
}

fn corrupt(finding: &str) -> Error {
    let fault = ArchiveFault::Corrupt { file: PLACE.to_owned(), at: Lsn::ZERO, finding: finding.to_owned() };
    Error::Archive { place: PLACE.to_owned(), fault: Box::new(fault) }
}
