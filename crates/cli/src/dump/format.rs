//! The format of a dump's lines. Pure functions.
//!
//! ```text
//! {"katydid_dump":1}
//! {"table":"fruit"}
//! {"key":"apple","value":"red"}
//! {"end":{"crc32c":"1c291ca3","rows":1,"tables":1}}
//! ```
//!
//! `crc32c` is the CRC-32C, in hexadecimal, of all earlier lines with their line feeds. Rows have
//! the format of `scan --json`.

use super::check::Checked;
use crate::load::parse;
use serde_json::{Value, json};

/// Version of the dumps that this program writes and reads.
const VERSION: u64 = 1;

/// A decoded line.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// The first line.
    Header,
    /// Begins the rows of the table with this name.
    Table(String),
    /// A key and its value.
    Row(Vec<u8>, Vec<u8>),
    /// The last line.
    End(End),
}

/// Contents of the last line.
#[derive(Debug, PartialEq, Eq)]
pub struct End {
    tables: u64,
    rows: u64,
    sum: String,
}

impl End {
    /// Returns the fault of the earlier lines, if there is one.
    pub fn fault(&self, found: &Checked) -> Option<String> {
        if (self.tables, self.rows) != (found.tables, found.rows) {
            return Some(format!(
                "it counts {} tables and {} rows, but the dump has {} and {}",
                self.tables, self.rows, found.tables, found.rows
            ));
        }
        (self.sum != found.sum()).then(|| "its checksum does not match the lines before it".to_owned())
    }
}

pub fn header() -> Value {
    json!({ "katydid_dump": VERSION })
}

pub fn table(name: &str) -> Value {
    json!({ "table": name })
}

pub fn end(checked: &Checked) -> Value {
    json!({ "end": { "tables": checked.tables, "rows": checked.rows, "crc32c": checked.sum() } })
}

/// Decodes a line, which is given without its line feed. The error says what is wrong.
pub fn read(line: &[u8]) -> Result<Line, String> {
    // A row is decoded by the function that `load` uses. No other line has a key.
    let object: Value = match serde_json::from_slice(line) {
        Ok(object) => object,
        Err(error) => return Err(format!("not a JSON object: {error}")),
    };
    if let Some(version) = object.get("katydid_dump") {
        return match version.as_u64() {
            Some(VERSION) => Ok(Line::Header),
            _ => Err(format!("it is a dump of version {version}; this program reads version {VERSION}")),
        };
    }
    if let Some(name) = object.get("table") {
        let name = name.as_str().ok_or("the name of a table must be a string")?;
        return Ok(Line::Table(name.to_owned()));
    }
    if let Some(end) = object.get("end") {
        let number = |field: &str| end.get(field).and_then(Value::as_u64);
        let sum = end.get("crc32c").and_then(Value::as_str);
        return match (number("tables"), number("rows"), sum) {
            (Some(tables), Some(rows), Some(sum)) => Ok(Line::End(End { tables, rows, sum: sum.to_owned() })),
            _ => Err("the last line must have tables, rows and crc32c".to_owned()),
        };
    }
    let (key, value) = parse::json_of(object).map_err(|error| error.to_string())?;
    Ok(Line::Row(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let line = |value: Value| read(value.to_string().as_bytes());
        assert_eq!(line(header()), Ok(Line::Header));
        assert_eq!(line(table("né\n")), Ok(Line::Table("né\n".to_owned())));
        let row = Line::Row(b"k".to_vec(), vec![0xff, 0]);
        assert_eq!(line(json!({ "key": "k", "value_hex": "ff00" })), Ok(row));
        let mut checked = Checked::default();
        (checked.tables, checked.rows) = (2, 7);
        let Ok(Line::End(last)) = line(end(&checked)) else { panic!("no end") };
        assert_eq!(last.fault(&checked), None);
        checked.add(b"one line more");
        assert!(last.fault(&checked).is_some_and(|fault| fault.contains("checksum")));
        checked.rows = 8;
        assert!(last.fault(&checked).is_some_and(|fault| fault.contains("7 rows")));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for bad in [
            "",
            "x",
            "[]",
            "{}",
            r#"{"table":3}"#,
            r#"{"end":{}}"#,
            r#"{"katydid_dump":2}"#,
            r#"{"key":"k"}"#,
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
