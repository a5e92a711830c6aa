//! Layout of the fields of a YCSB record in one value. Pure functions.
//!
//! ```text
//! width (1 byte: 1, 2 or 4) | count (2 bytes) | length of each field (width bytes each) | the fields, end to end
//! ```
//!
//! All numbers are little-endian. A field that is replaced by a field of the same length changes no
//! other byte of the value, so a store that logs differences logs one field. Decoders reject bytes
//! of any other form and never allocate.

use std::ops::Range;

/// Maximum number of fields in a record.
pub const FIELDS_MAX: usize = u16::MAX as usize;

const HEADER: usize = 3;

/// Replaces the content of `out` by a record of the given fields.
pub fn encode(fields: &[&[u8]], out: &mut Vec<u8>) {
    assert!(fields.len() <= FIELDS_MAX, "more fields than a record can have");
    let longest = fields.iter().map(|field| field.len()).max().unwrap_or(0);
    let width = match longest {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    };
    out.clear();
    out.push(width as u8);
    out.extend_from_slice(&(fields.len() as u16).to_le_bytes());
    for field in fields {
        let length = u32::try_from(field.len()).expect("a field is shorter than 4 GiB");
        out.extend_from_slice(&length.to_le_bytes()[..width]);
    }
    fields.iter().for_each(|field| out.extend_from_slice(field));
}

/// A decoded record.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    value: &'a [u8],
    width: usize,
    count: usize,
}

impl<'a> Record<'a> {
    /// Decodes `value`; `None` if it is no record.
    pub fn decode(value: &'a [u8]) -> Option<Record<'a>> {
        let (&[width, low, high], _) = value.split_first_chunk::<HEADER>()?;
        let width = usize::from(width);
        if !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let record = Record { value, width, count: usize::from(u16::from_le_bytes([low, high])) };
        if value.len() < record.fields_at() {
            return None;
        }
        let total = (0..record.count).map(|field| record.length(field) as u64).sum::<u64>();
        (record.fields_at() as u64 + total == value.len() as u64).then_some(record)
    }

    /// Number of fields.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Range of bytes of field number `field` in the value.
    pub fn range(&self, field: usize) -> Option<Range<usize>> {
        if field >= self.count {
            return None;
        }
        let start = self.fields_at() + (0..field).map(|before| self.length(before)).sum::<usize>();
        Some(start..start + self.length(field))
    }

    /// Field number `field`.
    pub fn field(&self, field: usize) -> Option<&'a [u8]> {
        self.value.get(self.range(field)?)
    }

    /// All fields in order.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let (this, mut at) = (*self, self.fields_at());
        (0..self.count).map(move |field| {
            let start = at;
            at += this.length(field);
            &this.value[start..at]
        })
    }

    fn fields_at(&self) -> usize {
        HEADER + self.count * self.width
    }

    fn length(&self, field: usize) -> usize {
        let at = HEADER + field * self.width;
        let mut bytes = [0; 4];
        bytes[..self.width].copy_from_slice(&self.value[at..at + self.width]);
        u32::from_le_bytes(bytes) as usize
    }
}

/// Replaces field number `field` of the record in `value`. Returns whether the record has this
/// field.
pub fn replace(value: &mut Vec<u8>, field: usize, content: &[u8]) -> bool {
    let Some(record) = Record::decode(value) else { return false };
    let Some(range) = record.range(field) else { return false };
    if range.len() == content.len() {
        value[range].copy_from_slice(content);
        return true;
    }
    let old = value.clone();
    let Some(record) = Record::decode(&old) else { return false };
    let mut fields: Vec<&[u8]> = record.fields().collect();
    fields[field] = content;
    encode(&fields, value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: &[u8]) -> Vec<&[u8]> {
        Record::decode(value).unwrap().fields().collect()
    }

    #[test]
    fn reads_back_what_was_written() {
        let long = vec![7; 70_000];
        let sets: [&[&[u8]]; 5] = [&[], &[b""], &[b"a", b"", b"ccc"], &[&long[..300], b"x"], &[b"x", &long]];
        for set in sets {
            let mut value = vec![1, 2, 3];
            encode(set, &mut value);
            assert_eq!(fields(&value), set);
            let record = Record::decode(&value).unwrap();
            for (number, field) in set.iter().enumerate() {
                assert_eq!(record.field(number), Some(*field));
            }
            assert_eq!(record.field(set.len()), None);
        }
    }

    #[test]
    fn one_field_changes_only_its_bytes() {
        let field = [b'a'; 100];
        let mut value = Vec::new();
        encode(&[&field[..]; 10], &mut value);
        assert_eq!(value.len(), 1013);
        let before = value.clone();
        assert!(replace(&mut value, 3, &[b'b'; 100]));
        let changed: Vec<usize> = (0..value.len()).filter(|at| value[*at] != before[*at]).collect();
        assert_eq!(changed.len(), 100);
        assert_eq!(changed[99] - changed[0], 99);
        assert!(replace(&mut value, 9, &[b'c'; 300]));
        assert_eq!(fields(&value)[9], [b'c'; 300]);
        assert_eq!(fields(&value)[3], [b'b'; 100]);
        assert!(!replace(&mut value, 10, b""));
    }

    #[test]
    fn refuses_other_bytes() {
        let mut rng = fastrand::Rng::with_seed(9);
        for _ in 0..20_000 {
            let mut noise = vec![0; rng.usize(..40)];
            rng.fill(&mut noise);
            if let Some(record) = Record::decode(&noise) {
                assert_eq!(record.fields().count(), record.count());
            }
            replace(&mut noise, rng.usize(..5), b"abc");
        }
        let mut value = Vec::new();
        encode(&[b"abc", b"de"], &mut value);
        for cut in 0..value.len() {
            assert!(Record::decode(&value[..cut]).is_none());
        }
        assert!(Record::decode(&[4, 255, 255, 255, 255]).is_none());
    }
}
