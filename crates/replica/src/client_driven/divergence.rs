//! Comparison of replicas: checks that all tables are equal, or finds the first key that differs.
//!
//! The calling thread compares. The result is meaningful only while no client has a transaction in
//! flight.

use super::error::{Error, Result};
use super::message::{Row, TableContents};
use super::session::Session;
use std::collections::BTreeSet;
use std::fmt;

/// Rows that are fetched from each replica at a time.
const PAGE_ROWS: u32 = 512;

/// The first difference between replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Name of the table that differs; if several differ, the first in the order of names.
    pub table: String,
    /// Number of rows and checksum at each replica; `None` if the table has no rows there.
    pub contents: Vec<Option<TableContents>>,
    /// The smallest key that differs.
    pub key: Vec<u8>,
    /// Value of the key at each replica; `None` if the key is absent there.
    pub values: Vec<Option<Vec<u8>>>,
}

impl std::error::Error for Divergence {}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the replicas differ in table {:?}, first at key \"{}\"",
            self.table,
            self.key.escape_ascii()
        )?;
        for (replica, value) in self.values.iter().enumerate() {
            match value {
                None => write!(f, "; replica {replica}: absent")?,
                Some(value) => {
                    let shown = &value[..value.len().min(48)];
                    write!(f, "; replica {replica}: {} bytes \"{}\"", value.len(), shown.escape_ascii())?;
                }
            }
        }
        Ok(())
    }
}

/// Checks that the contents of all replicas are equal, and returns them.
///
/// # Errors
/// [`Error::Different`] if the contents are not equal. [`Error::Replica`], [`Error::ReplicaBehind`]
/// or [`Error::Unserved`] if the contents of a replica cannot be read.
pub fn compare(session: &mut Session) -> Result<Vec<TableContents>> {
    let replicas = session.replicas();
    let all: Vec<Vec<TableContents>> =
        (0..replicas).map(|replica| session.contents(replica)).collect::<Result<_>>()?;
    let names: BTreeSet<&str> = all.iter().flatten().map(|contents| contents.table.as_str()).collect();
    for table in names {
        let contents: Vec<Option<TableContents>> =
            all.iter().map(|of| of.iter().find(|contents| contents.table == table).cloned()).collect();
        if contents.windows(2).all(|two| two[0] == two[1]) {
            continue;
        }
        if let Some((key, values)) = first_difference(session, table)? {
            let table = table.to_owned();
            return Err(Error::Different(Box::new(Divergence { table, contents, key, values })));
        }
    }
    Ok(all.into_iter().next().unwrap_or_default())
}

type Difference = (Vec<u8>, Vec<Option<Vec<u8>>>);

/// Returns the smallest key whose values differ between the replicas. `None` if the tables have
/// become equal.
fn first_difference(session: &mut Session, table: &str) -> Result<Option<Difference>> {
    let mut after = None;
    loop {
        let pages: Vec<Vec<Row>> = (0..session.replicas())
            .map(|replica| session.rows(replica, table, after.clone(), None, PAGE_ROWS))
            .collect::<Result<_>>()?;
        match first_in(&pages) {
            Found::Different(key, values) => return Ok(Some((key, values))),
            Found::EqualUpTo(key) => after = Some(key),
            Found::End => return Ok(None),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Different(Vec<u8>, Vec<Option<Vec<u8>>>),
    /// The pages are equal up to the end of the shortest page. The value is the last key of that
    /// page.
    EqualUpTo(Vec<u8>),
    /// All pages are empty.
    End,
}

/// Returns the first difference between pages of one table that were all read from the same key on.
/// If a page is empty, the table has no further rows at that replica.
fn first_in(pages: &[Vec<Row>]) -> Found {
    let shortest = pages.iter().map(Vec::len).min().unwrap_or_default();
    // If the table has ended at one replica, each further row at another replica is a difference.
    let compared =
        if shortest == 0 { pages.iter().map(Vec::len).max().unwrap_or_default() } else { shortest };
    for at in 0..compared {
        let rows: Vec<Option<&Row>> = pages.iter().map(|page| page.get(at)).collect();
        if rows.windows(2).all(|two| two[0] == two[1]) {
            continue;
        }
        let Some(least) = rows.iter().flatten().map(|(key, _)| key).min() else { break };
        let of = |row: &Option<&Row>| row.filter(|(key, _)| key == least).map(|(_, value)| value.clone());
        return Found::Different(least.clone(), rows.iter().map(of).collect());
    }
    match shortest.checked_sub(1) {
        Some(last) => Found::EqualUpTo(pages[0][last].0.clone()),
        None => Found::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &[(&str, &str)]) -> Vec<Row> {
        rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_least_key_that_differs_is_found() {
        let (a, b) = (("a", "1"), ("b", "2"));
        let value = |text: &str| Some(text.as_bytes().to_vec());
        let cases = [
            (page(&[a, b]), page(&[a, b]), Found::EqualUpTo(b"b".to_vec())),
            (page(&[a, b]), page(&[a]), Found::EqualUpTo(b"a".to_vec())),
            (page(&[]), page(&[]), Found::End),
            (page(&[b]), page(&[]), Found::Different(b"b".to_vec(), vec![value("2"), None])),
            (page(&[a, b]), page(&[b]), Found::Different(b"a".to_vec(), vec![value("1"), None])),
            (
                page(&[a, ("b", "x")]),
                page(&[a, b]),
                Found::Different(b"b".to_vec(), vec![value("x"), value("2")]),
            ),
        ];
        for (left, right, found) in cases {
            assert_eq!(first_in(&[left, right]), found);
        }
    }
}
