//! Parses a record of a file into a key and a value. Pure functions.

use crate::load::lines::Text;
use crate::text::{self, EscapeError};
use clap::ValueEnum;
use csv::ByteRecord;
use katydid::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use serde_json::{Map, Value};
use std::path::Path;

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields with a separator between them
    Tsv,
    /// Fields with a separator between them; a field with a separator, a quote or a line end is in
    /// quotes (RFC 4180)
    Csv,
    /// One JSON object per line, with the strings "key" and "value" (or "key_hex", "value_hex")
    Jsonl,
}

impl Format {
    /// Returns the noun for a part of a file: line or record.
    pub fn unit(self) -> &'static str {
        if self == Format::Csv { "record" } else { "line" }
    }

    /// Guesses the format from the extension of a file's name.
    pub fn guess(file: &Path) -> Format {
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or("");
        let jsonl = ["jsonl", "ndjson", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known));
        match () {
            () if jsonl => Format::Jsonl,
            () if extension.eq_ignore_ascii_case("csv") => Format::Csv,
            () => Format::Tsv,
        }
    }
}

/// Returns the hint that `katydid load` appends to the message of an error about a backslash; empty
/// if the escape began as `\x`.
fn raw_hint(error: &EscapeError) -> &'static str {
    match error {
        EscapeError::Hex => "",
        EscapeError::Unknown(_) | EscapeError::Trailing => {
            " (or use --raw, which reads backslashes literally)"
        }
    }
}

/// Reason why a line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("it is empty")]
    Empty,
    #[error("no separator ({0}) after the key")]
    NoSeparator(String),
    #[error("it has {found} fields, but --key-column is {wanted}")]
    NoKeyColumn { wanted: usize, found: usize },
    #[error("{0}{hint}", hint = raw_hint(.0))]
    Escape(#[from] EscapeError),
    #[error("not a JSON object: {0}")]
    Json(String),
    #[error("{0}")]
    Field(String),
    #[error("the key is longer than {KEY_BYTES_MAX} bytes")]
    KeyTooLong,
    #[error("the value is longer than {VALUE_BYTES_MAX} bytes")]
    ValueTooLong,
}

/// Parser of lines.
#[derive(Debug, Clone)]
pub struct Parser {
    pub format: Format,
    /// Separator of the fields of a line; not empty.
    pub separator: Vec<u8>,
    /// Number of the field that is the key, from 1.
    pub key_column: usize,
    /// True if backslashes are literal.
    pub raw: bool,
}

impl Parser {
    /// Returns the key and value of a record, both of a length that a database takes.
    pub fn parse(&self, text: &Text) -> Result<(Vec<u8>, Vec<u8>), LineError> {
        let (key, value) = match text {
            Text::Fields(fields) => self.csv(fields)?,
            Text::Line(line) if line.is_empty() => return Err(LineError::Empty),
            Text::Line(line) if self.format == Format::Jsonl => json(line)?,
            Text::Line(line) => self.fields(line)?,
        };
        if key.len() > KEY_BYTES_MAX {
            return Err(LineError::KeyTooLong);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(LineError::ValueTooLong);
        }
        Ok((key, value))
    }

    /// Returns the bytes that a field stands for.
    fn read(&self, field: &[u8]) -> Result<Vec<u8>, EscapeError> {
        if self.raw { Ok(field.to_vec()) } else { text::unescape(field) }
    }

    /// Returns the key and value of a CSV record. The value is the other field or, if there are
    /// several, a CSV record of all other fields.
    fn csv(&self, fields: &ByteRecord) -> Result<(Vec<u8>, Vec<u8>), LineError> {
        let at = self.key_column - 1;
        let Some(key) = fields.get(at) else {
            return Err(LineError::NoKeyColumn { wanted: self.key_column, found: fields.len() });
        };
        let key = self.read(key)?;
        // Escapes are read before the quotes are set, because an escape may stand for a byte that
        // needs quotes.
        let others = fields.iter().enumerate().filter(|(other, _)| *other != at);
        let mut others =
            others.map(|(_, field)| self.read(field)).collect::<Result<Vec<Vec<u8>>, EscapeError>>()?;
        let value = match others.len() {
            0 => return Err(LineError::NoSeparator(format!("{:?}", text::escaped(&self.separator)))),
            1 => others.swap_remove(0),
            _ => {
                let separator = self.separator.first().copied().unwrap_or(b',');
                csv_record(separator, others.iter().map(Vec::as_slice))
            }
        };
        Ok((key, value))
    }

    fn fields(&self, line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), LineError> {
        let (mut start, mut column) = (0, 1);
        loop {
            let end = find(&line[start..], &self.separator).map(|at| start + at);
            if column < self.key_column {
                match end {
                    Some(end) => (start, column) = (end + self.separator.len(), column + 1),
                    None => return Err(LineError::NoKeyColumn { wanted: self.key_column, found: column }),
                }
                continue;
            }
            let key = &line[start..end.unwrap_or(line.len())];
            // `after`: what follows the key and its separator. `before`: the fields before the key,
            // each with its separator.
            let after = end.map(|end| &line[end + self.separator.len()..]);
            let before = &line[..start];
            let value = match after {
                Some(after) if before.is_empty() => after.to_vec(),
                Some(after) => [before, after].concat(),
                None if before.is_empty() => {
                    return Err(LineError::NoSeparator(format!("{:?}", text::escaped(&self.separator))));
                }
                None => before[..before.len() - self.separator.len()].to_vec(),
            };
            return Ok((self.read(key)?, self.read(&value)?));
        }
    }
}

/// Returns fields as a CSV record without a line end, with quotes around fields that need them.
pub fn csv_record<'f>(separator: u8, fields: impl IntoIterator<Item = &'f [u8]>) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(separator)
        .terminator(csv::Terminator::Any(b'\n'))
        .from_writer(Vec::new());
    // The error does not happen: writing to memory does not fail, and a single record cannot have a
    // wrong number of fields.
    let mut record = match writer.write_record(fields) {
        Ok(()) => writer.into_inner().unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    record.pop();
    record
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [byte] => haystack.iter().position(|at| at == byte),
        _ => haystack.windows(needle.len()).position(|window| window == needle),
    }
}

fn json(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), LineError> {
    json_of(serde_json::from_slice(line).map_err(|error| LineError::Json(error.to_string()))?)
}

/// Returns the key and value of a JSON object.
pub fn json_of(object: Value) -> Result<(Vec<u8>, Vec<u8>), LineError> {
    let Value::Object(mut object) = object else {
        return Err(LineError::Json("it is a value of another kind".to_owned()));
    };
    let key = bytes_of(&mut object, "key")?;
    let value = bytes_of(&mut object, "value")?;
    match object.keys().next() {
        Some(other) => Err(LineError::Field(format!("unknown field {other:?}"))),
        None => Ok((key, value)),
    }
}

fn bytes_of(object: &mut Map<String, Value>, name: &str) -> Result<Vec<u8>, LineError> {
    let in_hex = format!("{name}_hex");
    match (object.remove(name), object.remove(&in_hex)) {
        (Some(Value::String(text)), None) => Ok(text.into_bytes()),
        (None, Some(Value::String(digits))) => text::from_hex_digits(&digits)
            .ok_or_else(|| LineError::Field(format!("{in_hex:?} must be pairs of hexadecimal digits"))),
        (Some(_), Some(_)) => Err(LineError::Field(format!("both {name:?} and {in_hex:?}"))),
        (None, None) => Err(LineError::Field(format!("no field {name:?}"))),
        _ => Err(LineError::Field(format!("{name:?} must be a string"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::lines::{Lines, Records};

    fn parser(format: Format, separator: &str, key_column: usize) -> Parser {
        Parser { format, separator: separator.into(), key_column, raw: false }
    }

    fn parsed(parser: &Parser, line: &str) -> Result<(String, String), LineError> {
        let (key, value) = parser.parse(&Text::Line(line.into()))?;
        Ok((text::escaped(&key), text::escaped(&value)))
    }

    fn pair(key: &str, value: &str) -> Result<(String, String), LineError> {
        Ok((key.to_owned(), value.to_owned()))
    }

    #[test]
    fn the_key_is_a_field_and_the_value_is_the_rest() {
        let tsv = parser(Format::Tsv, "\t", 1);
        assert_eq!(parsed(&tsv, "a\tb\tc"), pair("a", "b\\tc"));
        assert_eq!(parsed(&tsv, "a\t"), pair("a", ""));
        assert_eq!(parsed(&tsv, "\tb"), pair("", "b"));
        assert_eq!(parsed(&tsv, "a\\tb\t\\xff\\\\"), pair("a\\tb", "\\xff\\\\"));
        let unicode = parser(Format::Tsv, ";", 1);
        assert_eq!(parsed(&unicode, "0041;LETTER A;Lu"), pair("0041", "LETTER A;Lu"));
        let second = parser(Format::Tsv, ";", 2);
        assert_eq!(parsed(&second, "a;b;c;d"), pair("b", "a;c;d"));
        assert_eq!(parsed(&second, "a;b"), pair("b", "a"));
        assert_eq!(parsed(&second, ";b;"), pair("b", ";"));
        let long = parser(Format::Tsv, "::", 3);
        assert_eq!(parsed(&long, "a::b::c::d"), pair("c", "a::b::d"));
        let raw = Parser { raw: true, ..parser(Format::Tsv, "\t", 1) };
        assert_eq!(parsed(&raw, "C:\\t\tx\\"), pair("C:\\\\t", "x\\\\"));
    }

    #[test]
    fn bad_lines_say_why() {
        let tsv = parser(Format::Tsv, "\t", 1);
        assert_eq!(parsed(&tsv, ""), Err(LineError::Empty));
        assert_eq!(parsed(&tsv, "abc").unwrap_err().to_string(), "no separator (\"\\\\t\") after the key");
        assert!(matches!(parsed(&tsv, "a\\q\tb"), Err(LineError::Escape(_))));
        let third = parser(Format::Tsv, ";", 3);
        assert_eq!(parsed(&third, "a;b"), Err(LineError::NoKeyColumn { wanted: 3, found: 2 }));
    }

    #[test]
    fn the_value_of_a_csv_record_is_its_other_fields() {
        let parsed = |parser: &Parser, fields: &[&str]| {
            let (key, value) = parser.parse(&Text::Fields(fields.iter().collect()))?;
            Ok((text::escaped(&key), text::escaped(&value)))
        };
        let first = parser(Format::Csv, ",", 1);
        assert_eq!(parsed(&first, &["a", "1, 2"]), pair("a", "1, 2"));
        assert_eq!(parsed(&first, &["a", ""]), pair("a", ""));
        assert_eq!(parsed(&first, &["a", "1, 2", "x", ""]), pair("a", "\"1, 2\",x,"));
        assert_eq!(parsed(&first, &[r"\xff", r"C:\\"]), pair(r"\xff", r"C:\\"));
        // Escapes of a separator, a line end and a quote stay within their fields.
        let escapes = [r"a", r"1\x2c2", r"3\n4", r"5\x22"];
        assert_eq!(parsed(&first, &escapes), pair("a", "\"1,2\",\"3\\n4\",\"5\"\"\""));
        let second = parser(Format::Csv, ",", 2);
        assert_eq!(parsed(&second, &["a", "b"]), pair("b", "a"));
        assert!(matches!(parsed(&first, &["a"]), Err(LineError::NoSeparator(_))));
        assert!(matches!(parsed(&second, &["a"]), Err(LineError::NoKeyColumn { wanted: 2, found: 1 })));
        assert!(matches!(parsed(&first, &["a", r"\q"]), Err(LineError::Escape(_))));
    }

    #[test]
    fn json_lines() {
        let jsonl = parser(Format::Jsonl, "\t", 1);
        assert_eq!(parsed(&jsonl, r#"{"key":"a\tb","value":"\u00e9\\"}"#), pair("a\\tb", "é\\\\"));
        assert_eq!(parsed(&jsonl, r#" {"value_hex":"ff00","key":""} "#), pair("", "\\xff\\x00"));
        let bad = [
            ("{", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#"{"key":"a"}"#, "no field \"value\""),
            (r#"{"key":1,"value":"b"}"#, "\"key\" must be a string"),
            (r#"{"key":"a","value":"b","x":1}"#, "unknown field \"x\""),
            (r#"{"key":"a","key_hex":"00","value":"b"}"#, "both \"key\" and \"key_hex\""),
            (r#"{"key_hex":"0","value":"b"}"#, "\"key_hex\" must be pairs"),
        ];
        for (line, why) in bad {
            let error = parsed(&jsonl, line).expect_err(line).to_string();
            assert!(error.starts_with(why), "{line}: {error}");
        }
    }

    #[test]
    fn every_byte_of_the_longest_key_and_value_may_be_an_escape() {
        let escapes = |bytes| r"\u0007".repeat(bytes);
        let (key, value) = (escapes(KEY_BYTES_MAX), escapes(VALUE_BYTES_MAX));
        let line = format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}\n");
        let (record, _) = Lines::of(line.as_bytes()).next_record().unwrap().unwrap();
        let (key, value) = parser(Format::Jsonl, "\t", 1).parse(&record.text).unwrap();
        assert_eq!((key.len(), value.len()), (KEY_BYTES_MAX, VALUE_BYTES_MAX));
    }

    #[test]
    fn formats_are_guessed_by_name() {
        assert_eq!(Format::guess(Path::new("a.JSONL")), Format::Jsonl);
        assert_eq!(Format::guess(Path::new("a/b.ndjson")), Format::Jsonl);
        assert_eq!(Format::guess(Path::new("a/b.CSV")), Format::Csv);
        assert_eq!(Format::guess(Path::new("UnicodeData.txt")), Format::Tsv);
        assert_eq!(Format::guess(Path::new("-")), Format::Tsv);
    }
}
