//! Labels of a set's directories, and the header that says which parts belong to a file: encoding
//! and decoding. Pure functions.
//!
//! Each directory of a set holds a label, a text file named `STRIPES`:
//!
//! ```text
//! katydid stripes 1
//! set 5f0e... (32 hex digits)
//! index 0
//! count 2
//! unit 524288
//! state complete
//! sum ... (16 hex digits)
//! ```
//!
//! A file that has parts begins, in directory 0, with a header of 4 KiB. Only the header's first
//! sector is used, so the header is never torn. If the header is all zeros, or the file is too
//! short for a header, the file has no parts. Otherwise the header is:
//!
//! ```text
//! "KATYDSTR" | 8 version u32 | 12 zero u32 | 16 set u128 | 32 id u64 | 40 sum u64 | zeros
//! ```

use crate::error::StripesFault;
use crate::id::Id;
use crate::sum::sum;
use std::fmt::Write as _;

/// Newest version of labels and headers that this program reads, and the one it writes.
const VERSION: u32 = 1;
const TITLE: &str = "katydid stripes ";
const MAGIC: &[u8; 8] = b"KATYDSTR";
/// Bytes of the header, which precedes a file's first byte in directory 0.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Bytes of a header that are checked.
const SEALED_BYTES: usize = 48;
/// Longest label in bytes.
pub(super) const LABEL_BYTES_MAX: usize = 512;

/// Progress of making a set; only directory 0's label is ever `Making`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Making,
    Complete,
}

/// Contents of a directory's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) set: Id,
    pub(super) index: usize,
    pub(super) count: usize,
    pub(super) unit: u64,
    pub(super) state: State,
}

impl Label {
    pub(super) fn encode(&self) -> String {
        let state = match self.state {
            State::Making => "making",
            State::Complete => "complete",
        };
        let Label { set, index, count, unit, .. } = self;
        let mut text = format!(
            "{TITLE}{VERSION}\nset {set}\nindex {index}\ncount {count}\nunit {unit}\nstate {state}\n"
        );
        let sum = sum(text.as_bytes());
        // Writing to a string does not fail.
        writeln!(text, "sum {sum:016x}").ok();
        text
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Label, StripesFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| StripesFault::Damaged)?;
        let version = text.lines().next().and_then(|line| line.strip_prefix(TITLE)?.parse().ok());
        match version {
            None => return Err(StripesFault::Damaged),
            Some(version) if version > VERSION => return Err(StripesFault::Newer(version)),
            Some(_) => {}
        }
        Label::fields(text).ok_or(StripesFault::Damaged)
    }

    fn fields(text: &str) -> Option<Label> {
        let (said, seal) = text.split_at(text.rfind("sum ")?);
        if seal != format!("sum {:016x}\n", sum(said.as_bytes())) {
            return None;
        }
        let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let label = Label {
            set: Id::new(u128::from_str_radix(field("set")?, 16).ok()?),
            index: field("index")?.parse().ok()?,
            count: field("count")?.parse().ok()?,
            unit: field("unit")?.parse().ok()?,
            state: match field("state")? {
                "making" => State::Making,
                "complete" => State::Complete,
                _ => return None,
            },
        };
        let sensible =
            super::is_count(label.count) && label.index < label.count && super::is_unit(label.unit);
        sensible.then_some(label)
    }
}

/// Returns the header of a file with parts of this id.
pub(super) fn header(set: Id, id: u64) -> Vec<u8> {
    let mut block = vec![0; HEADER_BYTES as usize];
    block[..8].copy_from_slice(MAGIC);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    block[16..32].copy_from_slice(&set.to_le_bytes());
    block[32..40].copy_from_slice(&id.to_le_bytes());
    let sum = sum(&block[..40]);
    block[40..48].copy_from_slice(&sum.to_le_bytes());
    block
}

/// Returns the id of a file's parts, from the bytes that were read of its header; `None` if the
/// file has no parts.
pub(super) fn id_of_header(read: &[u8], set: Id) -> Result<Option<u64>, StripesFault> {
    let Some(block) = read.first_chunk::<SEALED_BYTES>() else { return Ok(None) };
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|nth| block[at + nth]));
    if block[..8] != *MAGIC || sum(&block[..40]) != word(40) {
        return Err(StripesFault::Damaged);
    }
    let version = word(8) as u32;
    if version > VERSION {
        return Err(StripesFault::Newer(version));
    }
    let found = Id::from_le_bytes(std::array::from_fn(|nth| block[16 + nth]));
    if found != set {
        return Err(StripesFault::Foreign { expected: set, found });
    }
    Ok(Some(word(32)))
}

/// Returns the name of a part in the directories from 1 on.
pub(super) fn part_name(id: u64) -> String {
    format!("part.{id:016x}")
}

/// Returns the id of the file that a part of this name belongs to.
pub(super) fn id_of_part(name: &str) -> Option<u64> {
    let id = u64::from_str_radix(name.strip_prefix("part.")?, 16).ok()?;
    (part_name(id) == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_back_and_damage_noticed() {
        for state in [State::Making, State::Complete] {
            let label = Label { set: Id::new(0x1234 << 100 | 7), index: 1, count: 3, unit: 8192, state };
            let text = label.encode();
            assert!(text.len() <= LABEL_BYTES_MAX);
            assert_eq!(Label::decode(text.as_bytes()), Ok(label));
            for at in 0..text.len() {
                let mut damaged = text.clone().into_bytes();
                damaged[at] ^= 1;
                assert!(Label::decode(&damaged).is_err(), "byte {at}");
                assert_eq!(Label::decode(&text.as_bytes()[..at]), Err(StripesFault::Damaged), "cut at {at}");
            }
        }
        assert_eq!(Label::decode(b"katydid stripes 2\n"), Err(StripesFault::Newer(2)));
        let bad = Label { set: Id::new(1), index: 3, count: 3, unit: 8192, state: State::Complete };
        for bad in [bad, Label { index: 0, unit: 5000, ..bad }, Label { index: 0, count: 0, ..bad }] {
            assert_eq!(Label::decode(bad.encode().as_bytes()), Err(StripesFault::Damaged), "{bad:?}");
        }
    }

    #[test]
    fn a_header_is_read_back_and_damage_noticed() {
        let block = header(Id::new(77), 5);
        assert_eq!(id_of_header(&block, Id::new(77)), Ok(Some(5)));
        assert_eq!(
            id_of_header(&block, Id::new(78)),
            Err(StripesFault::Foreign { expected: Id::new(78), found: Id::new(77) })
        );
        assert_eq!(id_of_header(&[0; 4096], Id::new(77)), Ok(None));
        assert_eq!(id_of_header(&[], Id::new(77)), Ok(None));
        for at in 0..SEALED_BYTES {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert_eq!(id_of_header(&damaged, Id::new(77)), Err(StripesFault::Damaged), "byte {at}");
        }
    }

    #[test]
    fn names_of_parts_are_read_back() {
        for id in [0, 1, u64::MAX] {
            assert_eq!(id_of_part(&part_name(id)), Some(id));
        }
        for other in ["part.1", "part.+000000000000001", "part.00000000000000AB", "STRIPES", "x"] {
            assert_eq!(id_of_part(other), None, "{other}");
        }
    }
}
