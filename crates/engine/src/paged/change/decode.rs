//! Reading fixed-width little-endian numbers out of a payload, without ever reading beyond it.

use super::malformed::Malformed;

/// The rest of a payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Rest(payload)
    }

    /// The next `length` bytes.
    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("a record is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed("a record is cut short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Everything that is left of the payload.
    pub(super) fn all(self) -> &'a [u8] {
        self.0
    }

    /// Fails if something is left of the payload.
    pub(super) fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("a record is longer than its contents")) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
