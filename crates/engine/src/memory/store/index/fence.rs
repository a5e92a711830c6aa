//! Keys made quick to compare: their first bytes as a number, then all of them.

use super::super::record::Key;

/// The first sixteen bytes, zeros behind a shorter key: in the order of the keys, but for keys that
/// agree in them.
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

/// The lower end of what a leaf is responsible for, inclusive.
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
