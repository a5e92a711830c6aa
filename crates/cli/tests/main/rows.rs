//! Reads the rows that sweeps write.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A row, by the names of its columns.
pub type Row = BTreeMap<String, String>;

/// Reads all rows of a file. Each must have all columns.
pub fn read(file: &Path) -> Vec<Row> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines().map(fields);
    let names = lines.next().expect("a line of names");
    let row = |fields: Vec<String>| {
        assert_eq!(fields.len(), names.len(), "{fields:?}");
        names.iter().cloned().zip(fields).collect()
    };
    lines.map(row).collect()
}

/// Returns the number in a column.
#[track_caller]
pub fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is no number: {row:?}"))
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                fields.last_mut().unwrap().extend(characters.next())
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(character),
        }
    }
    assert!(!quoted, "a quote is open: {line}");
    fields
}
