//! The id of a striped set, a log, or a database. Pure functions, except that a random id is drawn.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The id of a striped set, a log, or a database: 128 bits, shown as 32 hexadecimal digits.
///
/// An id consists of two words. A `u128` would give an alignment of 16 bytes to every error and
/// option that holds an id. The compiler rustc 1.95 has copied such an error by an instruction that
/// works only at multiples of 16, to an address that was only a multiple of 8. The instruction
/// faulted, and the process ended.
///
/// ```
/// use katydid_device::Id;
///
/// let id = Id::new(0x5eed);
/// assert_eq!(id.to_string(), "00000000000000000000000000005eed");
/// assert_ne!(Id::random(), Id::random());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id {
    high: u64,
    low: u64,
}

impl Id {
    /// Returns the id with this number.
    pub const fn new(number: u128) -> Id {
        Id { high: (number >> 64) as u64, low: number as u64 }
    }

    /// Returns the number of the id.
    pub const fn get(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// Makes an id that no other set, log or database has, from 128 random bits.
    pub fn random() -> Id {
        // The standard library seeds each `RandomState` from the operating system.
        let word = || RandomState::new().hash_one(std::time::SystemTime::now());
        Id { high: word(), low: word() }
    }

    /// Returns the bytes of the id as files hold them, the least significant first.
    pub const fn to_le_bytes(self) -> [u8; 16] {
        self.get().to_le_bytes()
    }

    /// Returns the id with these bytes, the least significant first.
    pub const fn from_le_bytes(bytes: [u8; 16]) -> Id {
        Id::new(u128::from_le_bytes(bytes))
    }
}

impl From<u128> for Id {
    fn from(number: u128) -> Id {
        Id::new(number)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_number_its_bytes_and_its_digits() {
        for number in [0, 7, 1 << 64, 0x0123_4567_89AB_CDEF_0011_2233_4455_6677, u128::MAX] {
            let id = Id::new(number);
            assert_eq!((id.get(), id, id.to_string()), (number, number.into(), format!("{number:032x}")));
            assert_eq!(id.to_le_bytes(), number.to_le_bytes());
            assert_eq!(Id::from_le_bytes(id.to_le_bytes()), id);
        }
    }
}
