//! Reads numbers of a paper or counter-example as rows. The text has the form of tables, as papers
//! print them.
//!
//! Pure functions. A line `COLUMN over AXIS VALUE ...` begins a table. Each line `NAME=WORD,
//! NAME=WORD: NUMBER ...` below it has one number for each value of the axis. Numbers from several
//! tables become columns of one row if their names and axis values are equal. A `-` is a missing
//! number.

use super::rows::Rows;
use std::collections::BTreeMap;

/// A row's names and words.
type Keys = BTreeMap<String, String>;

/// The rows of all tables in a text. Lines of any other form are skipped.
pub fn rows(text: &str) -> Rows {
    let mut rows: Vec<(Keys, BTreeMap<String, String>)> = Vec::new();
    let mut table: Option<(&str, &str, Vec<&str>)> = None;
    for line in text.lines().map(str::trim) {
        if let Some((names, numbers)) = line.split_once(':') {
            let Some((column, axis, values)) = &table else { continue };
            let names: Keys = names.split(", ").filter_map(|name| name.split_once('=')).map(owned).collect();
            for (value, number) in values.iter().zip(numbers.split_whitespace()) {
                let mut keys = names.clone();
                keys.insert((*axis).to_owned(), (*value).to_owned());
                let cell = Some(((*column).to_owned(), number.to_owned())).filter(|_| number != "-");
                match rows.iter_mut().find(|(known, _)| *known == keys) {
                    Some((_, cells)) => cells.extend(cell),
                    None => rows.push((keys, cell.into_iter().collect())),
                }
            }
        } else if let Some((column, axis)) = line.split_once(" over ") {
            let mut words = axis.split_whitespace();
            table = words.next().map(|axis| (column, axis, words.collect()));
        }
    }
    Rows::of(rows.into_iter().map(|(mut keys, cells)| {
        keys.extend(cells);
        keys
    }))
}

fn owned((name, word): (&str, &str)) -> (String, String) {
    (name.to_owned(), word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_rows_and_equal_names_one_row() {
        let rows = rows(
            "commits over threads 8 16
             sync=slotted, work=insert: 10 20
             sync=+ more, work=insert: 30 -
             locks over threads 8
             work=insert, sync=slotted: 5",
        );
        let of = |sync, threads, column| rows.with(&[("sync", sync), ("threads", threads)]).only(column);
        assert_eq!((of("slotted", "8", "commits"), of("slotted", "8", "locks")), (Some(10.0), Some(5.0)));
        assert_eq!((of("slotted", "16", "commits"), of("slotted", "16", "locks")), (Some(20.0), None));
        assert_eq!((of("+ more", "8", "commits"), of("+ more", "16", "commits")), (Some(30.0), None));
        assert_eq!(rows.len(), 4);
    }
}
