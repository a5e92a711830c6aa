//! A stored value, which transactions share: a short one lies inline, a long one in memory of its
//! own.
//!
//! This code does no I/O. A copy of a short value needs no allocation; a copy of a long value
//! copies only the reference.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Maximum bytes of an inline value: the most that fit into the 24 bytes of a [`Value`].
const SHORT_MAX: usize = 22;

/// A value of a key.
#[derive(Clone)]
pub(crate) struct Value(Form);

#[derive(Clone)]
enum Form {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Arc<[u8]>),
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        if value.len() > SHORT_MAX {
            return Value(Form::Long(value.into()));
        }
        let mut bytes = [0; SHORT_MAX];
        bytes[..value.len()].copy_from_slice(value);
        Value(Form::Short { length: value.len() as u8, bytes })
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::Short { length, bytes } => &bytes[..usize::from(*length)],
            Form::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_lengths_are_what_they_were_made_of() {
        let bytes: Vec<u8> = (1..=100).collect();
        for length in 0..=bytes.len() {
            let value = Value::from(&bytes[..length]);
            assert_eq!((&*value, &*value.clone()), (&bytes[..length], &bytes[..length]));
            assert!(length == 0 || value != Value::from(&bytes[..length - 1]));
        }
        assert_eq!(size_of::<Option<Value>>(), 24);
    }
}
