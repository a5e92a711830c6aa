//! Encodes and decodes keys and rows. Pure functions.
//!
//! Keys are numbers (8 bytes, big-endian). A row begins with its balance, a note with its amount (8
//! bytes, little-endian).

/// Bytes of a branch's, teller's or account's row.
pub(super) const ROW_BYTES: usize = 100;
/// Bytes of a note.
pub(super) const NOTE_BYTES: usize = 50;

/// The key of a number.
pub(super) fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A row with balance 0.
pub(super) fn empty_row() -> [u8; ROW_BYTES] {
    let mut row = [b'.'; ROW_BYTES];
    row[..8].fill(0);
    row
}

/// Encodes the note of a transfer.
pub(super) fn note(amount: i64, account: u64, teller: u64) -> [u8; NOTE_BYTES] {
    let mut note = [b'.'; NOTE_BYTES];
    note[..8].copy_from_slice(&amount.to_le_bytes());
    note[8..16].copy_from_slice(&account.to_le_bytes());
    note[16..24].copy_from_slice(&teller.to_le_bytes());
    note
}

/// The balance of a row or the amount of a note; `None` if the bytes are neither.
pub(super) fn amount(row: &[u8]) -> Option<i64> {
    row.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
}

/// Adds `amount` to a balance. Returns whether the row has one.
pub(super) fn add(row: &mut [u8], amount: i64) -> bool {
    let Some(bytes) = row.first_chunk_mut() else { return false };
    *bytes = i64::from_le_bytes(*bytes).wrapping_add(amount).to_le_bytes();
    true
}
