//! Bytes in JSON. Pure functions.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A key or a value. Its JSON form is a string of hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl<B: Into<Vec<u8>>> From<B> for Bytes {
    fn from(bytes: B) -> Bytes {
        Bytes(bytes.into())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in &self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("expected pairs of hexadecimal digits");
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
        let pairs = text.as_bytes().chunks(2);
        let bytes: Result<Vec<u8>, D::Error> = pairs
            .map(|pair| match *pair {
                [high, low] => Ok((digit(high)? * 16 + digit(low)?) as u8),
                _ => Err(wrong()),
            })
            .collect();
        Ok(Bytes(bytes?))
    }
}
