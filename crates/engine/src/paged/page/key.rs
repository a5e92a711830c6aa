//! Keys in pages: heads, common prefixes, and the shortest key between two keys.
//!
//! The head of a key is its first four bytes after the page's common prefix, read big-endian and
//! padded with zeros if there are fewer. Comparing heads decides most comparisons of a binary
//! search without reading the keys' cells; equal heads decide nothing. The common prefix is what
//! the two fences share: every key between them has it, too.

/// Returns the head of a key. `rest` is the key without the page's common prefix.
#[inline]
pub(crate) fn head(rest: &[u8]) -> u32 {
    match rest.first_chunk::<4>() {
        Some(four) => u32::from_be_bytes(*four),
        None => {
            let mut four = [0; 4];
            four[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(four)
        }
    }
}

/// Number of bytes that two keys share from the front.
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the shortest key that is above `left` and not above `right`, to separate two leaves.
/// `left < right` is required; otherwise the result is a prefix of `right` that separates nothing.
pub(crate) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    &right[..right.len().min(shared(left, right) + 1)]
}
