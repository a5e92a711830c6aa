//! Encodes and decodes keys and rows. Pure functions.
//!
//! Keys are big-endian numbers. A row is `k` (4 bytes, little-endian), then `c` (120 bytes), then
//! `pad` (60 bytes). The texts are groups of eleven digits, each followed by a dash.

use fastrand::Rng;

const C_BYTES: usize = 120;
const PAD_BYTES: usize = 60;
/// Bytes of a row.
pub(super) const ROW_BYTES: usize = 4 + C_BYTES + PAD_BYTES;

pub(super) type Row = [u8; ROW_BYTES];

pub(super) fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

pub(super) fn index_key(k: u32, number: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&k.to_be_bytes());
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Decodes a key.
pub(super) fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// Decodes an entry of the index.
pub(super) fn entry(key: &[u8]) -> Option<(u32, u64)> {
    let (k, rest) = key.split_first_chunk()?;
    Some((u32::from_be_bytes(*k), number(rest)?))
}

pub(super) fn row(k: u32, rng: &mut Rng) -> Row {
    let mut row = [0; ROW_BYTES];
    set_k(&mut row, k);
    row[4..4 + C_BYTES].copy_from_slice(&c(rng));
    row[4 + C_BYTES..].copy_from_slice(&digits::<PAD_BYTES>(rng));
    row
}

/// Draws a new text `c`.
pub(super) fn c(rng: &mut Rng) -> [u8; C_BYTES] {
    digits(rng)
}

fn digits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|at| if at % 12 == 11 { b'-' } else { rng.u8(b'0'..=b'9') })
}

/// `k` of a row; `None` if the bytes are no row.
pub(super) fn k(row: &[u8]) -> Option<u32> {
    let row: &Row = row.try_into().ok()?;
    row.first_chunk().map(|k| u32::from_le_bytes(*k))
}

pub(super) fn set_k(row: &mut Row, k: u32) {
    row[..4].copy_from_slice(&k.to_le_bytes());
}

pub(super) fn set_c(row: &mut Row, c: &[u8; C_BYTES]) {
    row[4..4 + C_BYTES].copy_from_slice(c);
}
