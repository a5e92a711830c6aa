//! Encoding of rows of several fields, and the ways in which transactions find and change them.
//! Fields follow each other; numbers are little-endian; a text has its length in front.
//!
//! Bytes that are too short or too long are no row. A decoder allocates nothing for a length that
//! exceeds the bytes.

use crate::store::{Result, Shown, StoreError, Transaction};

/// A part of a row.
pub(crate) trait Field: Sized {
    /// Appends the field to `out`.
    fn write(&self, out: &mut Vec<u8>);

    /// Takes the field from the front of `bytes`; `None` if `bytes` has no such field.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// A row of one table.
pub(crate) trait Row: Sized {
    /// Number of the row's table in the workload's order of tables. `NAME` is the table's name.
    const TABLE: usize;
    const NAME: &'static str;

    /// Appends the row's bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes a row; `None` if the bytes are not exactly one row.
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                let (number, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$number>::from_le_bytes(*number))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64);

impl<const N: usize> Field for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (text, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*text)
    }
}

/// Text of up to 65,535 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl Field for Text {
    fn write(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        length.write(out);
        out.extend_from_slice(&self.0[..usize::from(length)]);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let length = u16::read(bytes)?;
        let (text, rest) = bytes.split_at_checked(usize::from(length))?;
        *bytes = rest;
        Some(Text(text.to_vec()))
    }
}

/// Declares rows of tables by their fields.
macro_rules! rows {
    ($($(#[$about:meta])* $row:ident in $table:ident { $($(#[$of_field:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) struct $row {
            $($(#[$of_field])* pub(super) $field: $kind,)*
        }

        impl $crate::row::Row for $row {
            const TABLE: usize = $table;
            const NAME: &'static str = TABLES[$table];

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::row::Field::write(&self.$field, out);)*
            }

            fn read(mut bytes: &[u8]) -> Option<Self> {
                let row = $row { $($field: $crate::row::Field::read(&mut bytes)?,)* };
                bytes.is_empty().then_some(row)
            }
        }
    )*};
}

pub(crate) use rows;

fn decode<R: Row>(key: &[u8], bytes: &[u8]) -> Result<R> {
    R::read(bytes).ok_or_else(|| wrong(R::NAME, key, "is cut"))
}

fn missing<R: Row>(key: &[u8]) -> StoreError {
    wrong(R::NAME, key, "is missing")
}

/// The error for a wrong row of a table.
pub(crate) fn wrong(table: &str, key: &[u8], how: &str) -> StoreError {
    StoreError::Inconsistent(format!("{} of {table} {how}", Shown(key)))
}

/// Reads the row of a key. A missing row is an error.
pub(crate) fn read<R: Row, T: Transaction>(transaction: &mut T, key: &[u8]) -> Result<R> {
    find(transaction, key)?.ok_or_else(|| missing::<R>(key))
}

/// Reads the row of a key, if there is one.
pub(crate) fn find<R: Row, T: Transaction>(transaction: &mut T, key: &[u8]) -> Result<Option<R>> {
    let bytes = transaction.on(R::TABLE).get(key)?;
    bytes.map(|bytes| decode(key, &bytes)).transpose()
}

/// Changes the row of a key and returns the new row. A missing row is an error.
pub(crate) fn change<R: Row, T: Transaction>(
    transaction: &mut T,
    key: &[u8],
    change: impl FnOnce(&mut R),
) -> Result<R> {
    try_change(transaction, key, change)?.ok_or_else(|| missing::<R>(key))
}

/// Changes the row of a key, if there is one, and returns the new row.
pub(crate) fn try_change<R: Row, T: Transaction>(
    transaction: &mut T,
    key: &[u8],
    change: impl FnOnce(&mut R),
) -> Result<Option<R>> {
    let Some(mut bytes) = transaction.on(R::TABLE).get_for_update(key)? else { return Ok(None) };
    let mut row: R = decode(key, &bytes)?;
    change(&mut row);
    bytes.clear();
    row.write(&mut bytes);
    transaction.on(R::TABLE).put(key, &bytes)?;
    Ok(Some(row))
}

/// Inserts a row. An existing row is an error.
pub(crate) fn add<R: Row, T: Transaction>(transaction: &mut T, key: &[u8], row: &R) -> Result<()> {
    let mut bytes = Vec::with_capacity(128);
    row.write(&mut bytes);
    transaction.on(R::TABLE).insert(key, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_back_and_cut_ones_are_none() {
        let mut bytes = Vec::new();
        7_u8.write(&mut bytes);
        300_u16.write(&mut bytes);
        (-5_i64).write(&mut bytes);
        (*b"ABC").write(&mut bytes);
        Text(b"hello".to_vec()).write(&mut bytes);
        let read = |mut bytes: &[u8]| -> Option<(u8, u16, i64, [u8; 3], Text, usize)> {
            let bytes = &mut bytes;
            let fields = (u8::read(bytes)?, u16::read(bytes)?, i64::read(bytes)?, <[u8; 3]>::read(bytes)?);
            Some((fields.0, fields.1, fields.2, fields.3, Text::read(bytes)?, bytes.len()))
        };
        assert_eq!(read(&bytes), Some((7, 300, -5, *b"ABC", Text(b"hello".to_vec()), 0)));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None, "{length} bytes");
        }
    }
}
