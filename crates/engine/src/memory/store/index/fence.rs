//! Keys that are quick to compare: first by a number made of their first 16 bytes, then by all
//! bytes.

use super::super::record::Key;

/// The first 16 bytes of a key as a big-endian number, with zeros behind a shorter key. Prefixes
/// are in the order of the keys, except that different keys may have the same prefix.
pub(super) fn prefix(key: &[u8]) -> u128 {
    match key.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut bytes = [0; 16];
            bytes[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(bytes)
        }
    }
}

/// The inclusive lower bound of the keys of a leaf.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fence {
    prefix: u128,
    key: Key,
}

impl Fence {
    pub(super) fn at(key: &[u8]) -> Self {
        Fence { prefix: prefix(key), key: Key::from_slice(key) }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_in_the_order_of_their_keys() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut key = || -> Vec<u8> { (0..random.usize(0..20)).map(|_| random.u8(0..2)).collect() };
        for _ in 0..10_000 {
            let (left, right) = (key(), key());
            assert_eq!(Fence::at(&left).cmp(&Fence::at(&right)), left.cmp(&right), "{left:?} {right:?}");
        }
    }
}
