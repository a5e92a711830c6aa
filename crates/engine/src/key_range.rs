//! Ranges of keys as callers name them: Rust's own ranges over anything that is bytes, and the keys
//! with a prefix.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys. Keys are ordered as strings of bytes; a range whose start lies above its end is
/// empty.
///
/// Implemented for `..`, for the ranges `a..b`, `a..=b`, `a..`, `..b` and `..=b` over keys of any
/// type that is `AsRef<[u8]>`, for a pair of [`Bound`]s, and for [`Prefix`].
///
/// Both ends of a range have one type. Byte strings of different lengths have different types. Make
/// the first one a slice: `&b"a"[..]..b"bc"`.
///
/// ```
/// # fn main() -> katydid::Result<()> {
/// use katydid::{Database, Prefix};
/// use std::ops::Bound;
///
/// # let database = Database::in_memory()?;
/// let fruit = database.table("fruit")?;
/// for name in ["apple", "apricot", "banana"] {
///     database.put(&fruit, name, "7")?;
/// }
/// let txn = database.begin()?;
/// assert_eq!(txn.count(&fruit, ..)?, 3);
/// assert_eq!(txn.count(&fruit, "apricot"..)?, 2);
/// assert_eq!(txn.count(&fruit, String::from("a")..=String::from("apple"))?, 1);
/// assert_eq!(txn.count(&fruit, (Bound::Excluded("apple"), Bound::Unbounded))?, 2);
/// assert_eq!(txn.count(&fruit, &b"a"[..]..b"apricot")?, 1);
/// assert_eq!(txn.count(&fruit, Prefix("ap"))?, 2);
/// # Ok(())
/// # }
/// ```
pub trait KeyRange {
    /// Returns the lower and the upper bound of the range.
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

/// The keys that begin with these bytes. An empty prefix stands for all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix<P>(pub P);

impl<P: AsRef<[u8]>> KeyRange for Prefix<P> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let prefix = self.0.as_ref();
        (Bound::Included(prefix.to_vec()), end_of_prefix(prefix))
    }
}

/// The bound behind all keys that begin with `prefix`: the least string of bytes that is greater
/// than all of them, if there is one.
fn end_of_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let Some(at) = prefix.iter().rposition(|byte| *byte != u8::MAX) else { return Bound::Unbounded };
    let mut end = prefix[..=at].to_vec();
    end[at] += 1;
    Bound::Excluded(end)
}

fn copied<K: AsRef<[u8]>>(bounds: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bound = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (bound(bounds.start_bound()), bound(bounds.end_bound()))
}

impl KeyRange for RangeFull {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! ranges {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
                copied(&self)
            }
        }
    )*};
}

ranges! { Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>) }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_string_that_does_not_begin_with_it() {
        let end = |prefix: &[u8]| Prefix(prefix).into_bounds().1;
        assert_eq!(end(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(end(b"a\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(end(b"a\xfe\xff\xff"), Bound::Excluded(b"a\xff".to_vec()));
        assert_eq!(end(b"\xff\xff"), Bound::Unbounded);
        assert_eq!(end(b""), Bound::Unbounded);
    }
}
