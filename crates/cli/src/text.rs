//! Conversion of keys and values to text, and back. Pure functions.
//!
//! Valid UTF-8 is printed unchanged, with two exceptions. Backslash, tab, line feed and carriage
//! return become `\\`, `\t`, `\n` and `\r`. Other control characters, characters that separate
//! lines or change the direction of text, and byte order marks are written as one `\xNN` for each
//! byte. A byte that is not UTF-8 becomes `\xNN`.
//!
//! 1. `unescape(escape(bytes)) == bytes` for all bytes.
//! 2. Escaped text has no control character, so no tab or line end in a value looks like a
//!    separator.

use serde_json::{Map, Value};

/// Reason why text cannot be unescaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EscapeError {
    /// `\x` without two hexadecimal digits after it.
    #[error("\\x must be followed by two hexadecimal digits")]
    Hex,
    /// A backslash before a character that is no escape.
    #[error("unknown escape \\{0}: a backslash is written \\\\")]
    Unknown(char),
    /// A backslash at the end.
    #[error("a backslash at the end: a backslash is written \\\\")]
    Trailing,
}

/// Appends `bytes` as escaped text to `out`.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                _ => {
                    let mut buffer = [0; 4];
                    let encoded = character.encode_utf8(&mut buffer).as_bytes();
                    if character.is_control() || is_format(character) {
                        hex(encoded, out)
                    } else {
                        out.extend_from_slice(encoded)
                    }
                }
            }
        }
        hex(chunk.invalid(), out);
    }
}

/// Returns whether a character changes how the text around it is shown or read. Such characters can
/// make one text look like another, and a byte order mark at the beginning of a file is not read as
/// part of the text.
fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

/// Returns `bytes` as escaped text.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Returns the bytes that escaped text stands for.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, EscapeError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        let (byte, taken) = match after.first() {
            Some(b'\\') => (b'\\', 1),
            Some(b't') => (b'\t', 1),
            Some(b'n') => (b'\n', 1),
            Some(b'r') => (b'\r', 1),
            Some(b'x') => (hex_byte(&after[1..]).ok_or(EscapeError::Hex)?, 3),
            Some(_) => return Err(EscapeError::Unknown(first_character(after))),
            None => return Err(EscapeError::Trailing),
        };
        out.push(byte);
        rest = &after[taken..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn first_character(bytes: &[u8]) -> char {
    let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    valid.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Puts `bytes` into a JSON object: under `name` as a string if they are UTF-8, else under
/// `name_hex` in hexadecimal.
pub fn put_json(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), Value::from(text)),
        Err(_) => object.insert(format!("{name}_hex"), Value::from(hex_digits(bytes))),
    };
}

/// Returns `bytes` in hexadecimal.
pub fn hex_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that hexadecimal digits stand for; `None` if they are not pairs of digits.
pub fn from_hex_digits(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| if pair.len() == 2 { hex_byte(pair) } else { None }).collect()
}

/// Returns the bytes that a command-line argument stands for.
pub fn argument(text: &str) -> Result<Vec<u8>, EscapeError> {
    unescape(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("LATIN é 漢字 \u{1F600} ;\"'".as_bytes()), "LATIN é 漢字 \u{1F600} ;\"'");
        assert_eq!(escaped(b"a\\b\tc\nd\re"), "a\\\\b\\tc\\nd\\re");
        assert_eq!(escaped(b"\x00\x7f\xff\xc3"), "\\x00\\x7f\\xff\\xc3");
        assert_eq!(escaped("\u{85}".as_bytes()), "\\xc2\\x85");
        assert_eq!(
            escaped("a\u{202e}b\u{2066}\u{2028}".as_bytes()),
            r"a\xe2\x80\xaeb\xe2\x81\xa6\xe2\x80\xa8"
        );
        assert_eq!(escaped("\u{feff}a".as_bytes()), r"\xef\xbb\xbfa");
        // Joiners stay unescaped, because emoji and words contain them.
        assert_eq!(escaped("\u{200d}\u{200c}".as_bytes()), "\u{200d}\u{200c}");
        assert_eq!(escaped(b""), "");
    }

    #[test]
    fn everything_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(escaped(&all).as_bytes()).unwrap(), all);
        let seed = std::env::var("KATYDID_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("KATYDID_SEED={seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let alphabet = b"\\xt\xff\xc3\xa9\t\n\r0aF";
            let bytes: Vec<u8> = (0..rng.usize(..12))
                .map(|_| if rng.bool() { alphabet[rng.usize(..alphabet.len())] } else { rng.u8(..) })
                .collect();
            let text = escaped(&bytes);
            assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
            assert!(!text.chars().any(char::is_control));
            // Unescaping arbitrary bytes must not panic.
            let _noise = unescape(&bytes);
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert_eq!(unescape(b"\\x4"), Err(EscapeError::Hex));
        assert_eq!(unescape(b"\\xg0"), Err(EscapeError::Hex));
        assert_eq!(unescape(b"ab\\"), Err(EscapeError::Trailing));
        assert_eq!(unescape(b"C:\\dir"), Err(EscapeError::Unknown('d')));
        assert_eq!(unescape("\\é".as_bytes()), Err(EscapeError::Unknown('é')));
        assert_eq!(unescape(b"\\x41\\X"), Err(EscapeError::Unknown('X')));
        assert_eq!(unescape(b"\\x41").unwrap(), b"A");
    }

    #[test]
    fn json_keeps_bytes_apart_from_text() {
        let mut object = Map::new();
        put_json(&mut object, "key", "é\t".as_bytes());
        put_json(&mut object, "value", b"\xff\x00");
        assert_eq!(Value::Object(object).to_string(), "{\"key\":\"é\\t\",\"value_hex\":\"ff00\"}");
        assert_eq!(from_hex_digits("ff00").unwrap(), b"\xff\x00");
        assert!(from_hex_digits("f").is_none() && from_hex_digits("zz").is_none());
        assert!(from_hex_digits("é").is_none());
    }
}
