//! Reads properties files in YCSB's format (the format of Java's `Properties`). Pure functions.
//!
//! Rules:
//!
//! 1. Every entry of a file stores the line on which the entry began, so that an error can name the
//!    line.
//! 2. A later entry of the same name replaces an earlier one, as in Java.
//! 3. No input causes a panic, and memory is bounded by the length of the text.

use std::fmt;

/// Origin of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line, counted from 1, of a file.
    Line(usize),
    /// The command line or a program.
    Given,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(line) => write!(f, "line {line}"),
            Origin::Given => f.write_str("given property"),
        }
    }
}

/// A name, its value, and the origin of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// The name.
    pub name: String,
    /// The value, without surrounding white space.
    pub value: String,
    /// Origin of the entry.
    pub origin: Origin,
}

/// An error in a properties file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PropertiesError {
    /// The line, counted from 1.
    pub line: usize,
    /// The fault.
    pub reason: String,
}

/// The properties of one file, in the order of their first appearance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    entries: Vec<Property>,
}

impl Properties {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Properties, PropertiesError> {
        let mut properties = Properties::default();
        let mut lines = text.lines().enumerate();
        while let Some((index, first)) = lines.next() {
            let line = index + 1;
            let first = first.trim_start();
            if first.is_empty() || first.starts_with(['#', '!']) {
                continue;
            }
            let mut logical = first.to_owned();
            while ends_in_continuation(&logical) {
                logical.pop();
                match lines.next() {
                    Some((_, next)) => logical.push_str(next.trim_start()),
                    None => break,
                }
            }
            let (name, value) = split(&logical).map_err(|reason| PropertiesError { line, reason })?;
            if name.is_empty() {
                return Err(PropertiesError { line, reason: "a value without a name".to_owned() });
            }
            properties.insert(name, value, Origin::Line(line));
        }
        Ok(properties)
    }

    /// Sets a property and replaces a property of the same name.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.insert(name.into(), value.into(), Origin::Given);
    }

    fn insert(&mut self, name: String, value: String, origin: Origin) {
        match self.entries.iter_mut().find(|entry| entry.name == name) {
            Some(entry) => (entry.value, entry.origin) = (value, origin),
            None => self.entries.push(Property { name, value, origin }),
        }
    }

    /// The property called `name`.
    pub fn get(&self, name: &str) -> Option<&Property> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// All properties.
    pub fn iter(&self) -> impl Iterator<Item = &Property> {
        self.entries.iter()
    }
}

/// A line continues if it ends in an odd number of backslashes. Each pair of backslashes is one
/// escaped backslash.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits a logical line into name and value at the first `=`, `:` or white space that is not
/// escaped. White space around the separator is dropped.
fn split(line: &str) -> Result<(String, String), String> {
    let mut escaped = false;
    let mut end = line.len();
    for (at, character) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if matches!(character, '=' | ':') || character.is_whitespace() {
            end = at;
            break;
        }
    }
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim();
    Ok((unescape(name)?, unescape(value)?))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                match code.and_then(char::from_u32) {
                    Some(decoded) => out.push(decoded),
                    None => return Err(format!("\\u{digits} is not a character")),
                }
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(properties: &'a Properties, name: &str) -> Option<&'a str> {
        properties.get(name).map(|property| property.value.as_str())
    }

    #[test]
    fn reads_what_ycsb_ships() {
        let text = "# Yahoo! Cloud System Benchmark\n!another comment\n\nrecordcount=1000\noperationcount = 5\n\
                    workload=site.ycsb.workloads.CoreWorkload\n   readallfields:true\nrequestdistribution zipfian\r\n";
        let properties = Properties::parse(text).unwrap();
        assert_eq!(value(&properties, "recordcount"), Some("1000"));
        assert_eq!(value(&properties, "operationcount"), Some("5"));
        assert_eq!(value(&properties, "workload"), Some("site.ycsb.workloads.CoreWorkload"));
        assert_eq!(value(&properties, "readallfields"), Some("true"));
        assert_eq!(value(&properties, "requestdistribution"), Some("zipfian"));
        assert_eq!(properties.get("operationcount").unwrap().origin, Origin::Line(5));
        assert_eq!(properties.iter().count(), 5);
    }

    #[test]
    fn continues_escapes_and_replaces() {
        let text = "a=one\\\n   two\nb\\ c=x\\\\\nd=\\u0041\\t.\na=last\nempty=\nbare\n";
        let properties = Properties::parse(text).unwrap();
        assert_eq!(value(&properties, "a"), Some("last"));
        assert_eq!(properties.get("a").unwrap().origin, Origin::Line(5));
        assert_eq!(value(&properties, "b c"), Some("x\\"));
        assert_eq!(value(&properties, "d"), Some("A\t."));
        assert_eq!(value(&properties, "empty"), Some(""));
        assert_eq!(value(&properties, "bare"), Some(""));
    }

    #[test]
    fn refuses_with_the_line() {
        assert_eq!(Properties::parse("a=1\n=2\n").unwrap_err().line, 2);
        assert_eq!(Properties::parse("a=1\n\nb=\\uD800\n").unwrap_err().line, 3);
        assert!(Properties::parse("b=\\u12").is_err());
        assert_eq!(value(&Properties::parse("a=1\\").unwrap(), "a"), Some("1"));
    }
}
