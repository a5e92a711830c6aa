//! Keys that are values of Rust types, as bytes that have the order of the values. Nothing here
//! does I/O.
//!
//! | type | bytes |
//! |---|---|
//! | `u8` to `u128` | the most significant byte first |
//! | `i8` to `i128` | as unsigned, with the sign bit inverted |
//! | `bool`, `char` | as `u8`, as `u32` |
//! | `String`, `Vec<u8>` | the bytes, with `00 FF` for each `00`, and `00 00` at the end |
//! | `[u8; N]` | the bytes |
//! | `Option<A>` | `00` for `None`; `01` and the bytes of the value for `Some` |
//! | a tuple of one to four | the bytes of each element, one after the other |
//!
//! No encoding of a value begins with the encoding of another value of its type. So a tuple is
//! ordered by its first element, then by its second, and so on.

use crate::key_range::{KeyRange, Prefix};
use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A value that can be used as a key of type `K`: the key, a reference to one, or a borrowed form,
/// such as `str` for `String`. Each element of a tuple may have any of these forms.
pub trait AsKey<K: ?Sized> {
    /// Appends the bytes of the key to `to`. The bytes must have the order of the keys, and the
    /// bytes of one key must not begin with the bytes of another key.
    fn encode_key(&self, to: &mut Vec<u8>);
}

/// The type of a typed table's keys. Implemented for the types in the list of [`crate::typed`].
pub trait Key: AsKey<Self> + Sized {
    /// Takes the bytes of one key from the front of `from`, and returns the key; `None` if the
    /// bytes are not those of a key.
    fn decode_key(from: &mut &[u8]) -> Option<Self>;
}

/// The beginning of a key `K`, for [`Prefix`]: a tuple of the first elements, or the first
/// characters or bytes.
pub trait KeyPrefix<K> {
    /// Appends to `to` the first bytes that all keys with this beginning have.
    fn encode_beginning(&self, to: &mut Vec<u8>);
}

/// A range of keys of type `K`. Implemented for `..`, for all other range expressions (such as
/// `a..b` and `..=b`), for pairs of [`Bound`]s, and for [`Prefix`]. The bounds are values that are
/// [`AsKey`]. `Prefix(("anna",))` stands for the tuples that begin with this element, and
/// `Prefix("an")` for the strings that begin with these characters.
pub trait TypedKeys<K> {
    /// Returns the bounds of the range as bytes.
    fn into_bytes(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

/// Returns the bytes of a key.
pub(super) fn encoded<K>(key: impl AsKey<K>) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_key(&mut bytes);
    bytes
}

/// Returns the key that has exactly these bytes, if there is one.
pub(super) fn decoded<K: Key>(mut bytes: &[u8]) -> Option<K> {
    K::decode_key(&mut bytes).filter(|_| bytes.is_empty())
}

impl<K, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    fn encode_key(&self, to: &mut Vec<u8>) {
        (**self).encode_key(to);
    }
}

impl<K, Q: KeyPrefix<K> + ?Sized> KeyPrefix<K> for &Q {
    fn encode_beginning(&self, to: &mut Vec<u8>) {
        (**self).encode_beginning(to);
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*front)
}

macro_rules! numbers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl AsKey<$unsigned> for $unsigned {
            fn encode_key(&self, to: &mut Vec<u8>) {
                to.extend(self.to_be_bytes());
            }
        }

        impl Key for $unsigned {
            fn decode_key(from: &mut &[u8]) -> Option<Self> {
                take(from).map(Self::from_be_bytes)
            }
        }

        impl AsKey<$signed> for $signed {
            fn encode_key(&self, to: &mut Vec<u8>) {
                to.extend((*self ^ Self::MIN).to_be_bytes());
            }
        }

        impl Key for $signed {
            fn decode_key(from: &mut &[u8]) -> Option<Self> {
                take(from).map(|bytes| Self::from_be_bytes(bytes) ^ Self::MIN)
            }
        }
    )*};
}

numbers! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; }

impl AsKey<bool> for bool {
    fn encode_key(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
}

impl Key for bool {
    fn decode_key(from: &mut &[u8]) -> Option<Self> {
        match u8::decode_key(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl AsKey<char> for char {
    fn encode_key(&self, to: &mut Vec<u8>) {
        u32::from(*self).encode_key(to);
    }
}

impl Key for char {
    fn decode_key(from: &mut &[u8]) -> Option<Self> {
        char::from_u32(u32::decode_key(from)?)
    }
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    fn encode_key(&self, to: &mut Vec<u8>) {
        to.extend(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    fn decode_key(from: &mut &[u8]) -> Option<Self> {
        take(from)
    }
}

impl KeyPrefix<Vec<u8>> for [u8] {
    fn encode_beginning(&self, to: &mut Vec<u8>) {
        for &byte in self {
            to.push(byte);
            if byte == 0 {
                to.push(u8::MAX);
            }
        }
    }
}

impl KeyPrefix<Vec<u8>> for Vec<u8> {
    fn encode_beginning(&self, to: &mut Vec<u8>) {
        self.as_slice().encode_beginning(to);
    }
}

impl AsKey<Vec<u8>> for [u8] {
    fn encode_key(&self, to: &mut Vec<u8>) {
        self.encode_beginning(to);
        to.extend([0, 0]);
    }
}

impl AsKey<Vec<u8>> for Vec<u8> {
    fn encode_key(&self, to: &mut Vec<u8>) {
        self.as_slice().encode_key(to);
    }
}

impl Key for Vec<u8> {
    fn decode_key(from: &mut &[u8]) -> Option<Self> {
        let mut bytes = Vec::new();
        loop {
            let end = from.iter().position(|byte| *byte == 0)?;
            bytes.extend_from_slice(&from[..end]);
            *from = &from[end + 1..];
            match u8::decode_key(from)? {
                0 => return Some(bytes),
                u8::MAX => bytes.push(0),
                _ => return None,
            }
        }
    }
}

impl KeyPrefix<String> for str {
    fn encode_beginning(&self, to: &mut Vec<u8>) {
        self.as_bytes().encode_beginning(to);
    }
}

impl KeyPrefix<String> for String {
    fn encode_beginning(&self, to: &mut Vec<u8>) {
        self.as_bytes().encode_beginning(to);
    }
}

impl AsKey<String> for str {
    fn encode_key(&self, to: &mut Vec<u8>) {
        self.as_bytes().encode_key(to);
    }
}

impl AsKey<String> for String {
    fn encode_key(&self, to: &mut Vec<u8>) {
        self.as_str().encode_key(to);
    }
}

impl Key for String {
    fn decode_key(from: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Vec::decode_key(from)?).ok()
    }
}

impl<A, Q: AsKey<A>> AsKey<Option<A>> for Option<Q> {
    fn encode_key(&self, to: &mut Vec<u8>) {
        to.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode_key(to);
        }
    }
}

impl<A: Key> Key for Option<A> {
    fn decode_key(from: &mut &[u8]) -> Option<Self> {
        match bool::decode_key(from)? {
            true => A::decode_key(from).map(Some),
            false => Some(None),
        }
    }
}

macro_rules! tuples {
    ($(($($key:ident $given:ident $nth:tt),+))*) => {$(
        impl<$($key, $given: AsKey<$key>),+> AsKey<($($key,)+)> for ($($given,)+) {
            fn encode_key(&self, to: &mut Vec<u8>) {
                $(self.$nth.encode_key(to);)+
            }
        }

        impl<$($key: Key),+> Key for ($($key,)+) {
            fn decode_key(from: &mut &[u8]) -> Option<Self> {
                Some(($($key::decode_key(from)?,)+))
            }
        }
    )*};
}

tuples! { (A P 0) (A P 0, B Q 1) (A P 0, B Q 1, C R 2) (A P 0, B Q 1, C R 2, D S 3) }

macro_rules! beginnings {
    ($(($($key:ident $given:ident $nth:tt),+) of ($($rest:ident),+))*) => {$(
        impl<$($key, $given: AsKey<$key>,)+ $($rest),+> KeyPrefix<($($key,)+ $($rest,)+)> for ($($given,)+) {
            fn encode_beginning(&self, to: &mut Vec<u8>) {
                $(self.$nth.encode_key(to);)+
            }
        }
    )*};
}

beginnings! {
    (A P 0) of (B)
    (A P 0) of (B, C)
    (A P 0, B Q 1) of (C)
    (A P 0) of (B, C, D)
    (A P 0, B Q 1) of (C, D)
    (A P 0, B Q 1, C R 2) of (D)
}

impl<K> TypedKeys<K> for RangeFull {
    fn into_bytes(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K, P: KeyPrefix<K>> TypedKeys<K> for Prefix<P> {
    fn into_bytes(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let mut bytes = Vec::new();
        self.0.encode_beginning(&mut bytes);
        Prefix(bytes).into_bounds()
    }
}

macro_rules! ranges {
    ($($range:ty),*) => {$(
        impl<K, Q: AsKey<K>> TypedKeys<K> for $range {
            fn into_bytes(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
                (self.start_bound().map(encoded), self.end_bound().map(encoded))
            }
        }
    )*};
}

ranges! { Range<Q>, RangeInclusive<Q>, RangeFrom<Q>, RangeTo<Q>, RangeToInclusive<Q>, (Bound<Q>, Bound<Q>) }

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::fmt::Debug;

    /// Checks that encodings have the order of the keys, are read back, and that none begins with
    /// another.
    fn check<K: Key + Ord + Debug>(keys: &[K]) {
        for one in keys {
            let bytes = encoded::<K>(one);
            assert_eq!(decoded::<K>(&bytes).as_ref(), Some(one));
            assert_eq!(decoded::<K>(&bytes[..bytes.len() - 1]), None, "cut: {one:?}");
            assert_eq!(decoded::<K>(&[&bytes[..], &[7]].concat()), None, "too long: {one:?}");
            for other in keys {
                let others = encoded::<K>(other);
                assert_eq!(one.cmp(other), bytes.cmp(&others), "{one:?} and {other:?}");
                assert!(one == other || !others.starts_with(&bytes), "{one:?} and {other:?}");
            }
        }
    }

    fn bytes(random: &mut Rng) -> Vec<u8> {
        // These bytes are frequent, because the encoding treats them specially.
        (0..random.usize(..5)).map(|_| [0, 1, 0xFE, 0xFF, b'a'][random.usize(..5)]).collect()
    }

    #[test]
    fn encodings_are_ordered_as_keys_and_read_back() {
        let seed = Rng::new().u64(..);
        println!("seed {seed}");
        let random = &mut Rng::with_seed(seed);
        check(&[u64::MIN, 1, 255, 256, u64::MAX - 1, u64::MAX]);
        check(&[i64::MIN, -256, -255, -1, 0, 1, 255, 256, i64::MAX]);
        check(&[i8::MIN, -1, 0, 1, i8::MAX]);
        check(&[false, true]);
        check(&['\0', 'a', 'z', 'ß', '\u{FFFF}', '\u{10000}', char::MAX]);
        check(&[[0, 1], [1, 0], [0xFF, 0]]);
        check(&(0..100).map(|_| bytes(random)).collect::<Vec<_>>());
        check(&["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b", "ß"].map(String::from));
        check(&(0..100).map(|_| (random.i16(..), bytes(random))).collect::<Vec<_>>());
        check(&(0..100).map(|_| (bytes(random), random.bool().then(|| bytes(random)))).collect::<Vec<_>>());
        let four = |random: &mut Rng| (random.bool(), bytes(random), random.char(..), bytes(random));
        check(&(0..100).map(|_| four(random)).collect::<Vec<_>>());
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        assert_eq!(decoded::<bool>(&[2]), None);
        assert_eq!(decoded::<char>(&0xD800u32.to_be_bytes()), None);
        assert_eq!(decoded::<String>(&[0xFF, 0, 0]), None);
        for bad in [&[][..], &[1], &[1, 0], &[1, 0, 1], &[0, 0xFF], &[0xFF]] {
            assert_eq!(decoded::<Vec<u8>>(bad), None, "{bad:?}");
        }
        assert_eq!(decoded::<Option<u8>>(&[2, 7]), None);
    }

    #[test]
    fn a_beginning_is_that_of_the_whole_key() {
        let whole = encoded::<(String, u32, bool)>(("anna", 7u32, true));
        for beginning in [Prefix(("anna",)).into_bytes_of(), Prefix(("anna", 7u32)).into_bytes_of()] {
            assert!(matches!(beginning, (Bound::Included(bytes), _) if whole.starts_with(&bytes)));
        }
    }

    #[test]
    fn the_keys_of_a_prefix_are_those_that_begin_with_its_bytes() {
        let seed = Rng::new().u64(..);
        println!("seed {seed}");
        let random = &mut Rng::with_seed(seed);
        for _ in 0..10_000 {
            let (key, prefix) = (bytes(random), bytes(random));
            let range = TypedKeys::<Vec<u8>>::into_bytes(Prefix(&prefix));
            assert_eq!(
                range.contains(&encoded::<Vec<u8>>(&key)),
                key.starts_with(&prefix),
                "{key:?}, {prefix:?}"
            );
        }
        let range = TypedKeys::<String>::into_bytes(Prefix("an"));
        assert!(range.contains(&encoded::<String>("anna")) && !range.contains(&encoded::<String>("a")));
    }

    impl<P> Prefix<P> {
        fn into_bytes_of(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>)
        where
            Self: TypedKeys<(String, u32, bool)>,
        {
            self.into_bytes()
        }
    }
}
