//! The rows of a measurement, read from its CSV file, and queries on them.
//!
//! Pure functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A CSV file with a header line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    columns: HashMap<String, usize>,
    lines: Vec<Vec<String>>,
}

/// A selection of rows.
#[derive(Debug, Clone)]
pub struct Chosen<'a> {
    rows: &'a Rows,
    lines: Vec<&'a [String]>,
}

impl Rows {
    /// Reads the output of `table::csv`. Lines with more or fewer fields than the header are left
    /// out.
    pub fn parse(text: &str) -> Rows {
        let mut records = records(text).into_iter();
        let Some(head) = records.next() else { return Rows::default() };
        let wide = head.len();
        let columns = head.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
        Rows { columns, lines: records.filter(|line| line.len() == wide).collect() }
    }

    /// Makes rows from maps of column names to fields. A column that a row does not name is empty
    /// in that row.
    pub fn of(rows: impl Iterator<Item = BTreeMap<String, String>>) -> Rows {
        let rows: Vec<_> = rows.collect();
        let names: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
        let line = |row: &BTreeMap<String, String>| {
            names.iter().map(|name| row.get(*name).cloned().unwrap_or_default()).collect()
        };
        let lines = rows.iter().map(line).collect();
        Rows { columns: names.into_iter().cloned().enumerate().map(|(at, name)| (name, at)).collect(), lines }
    }

    /// The rows of each round, by column `round`.
    pub fn rounds(text: &str) -> Vec<Rows> {
        let all = Rows::parse(text);
        let of_round = |number: &String| Rows {
            columns: all.columns.clone(),
            lines: all.with(&[("round", number)]).lines.into_iter().map(<[String]>::to_vec).collect(),
        };
        all.all().words("round").iter().map(of_round).collect()
    }

    /// Selects all rows.
    pub fn all(&self) -> Chosen<'_> {
        Chosen { rows: self, lines: self.lines.iter().map(Vec::as_slice).collect() }
    }

    /// Selects the rows with these values in these columns.
    pub fn with(&self, wanted: &[(&str, &str)]) -> Chosen<'_> {
        wanted.iter().fold(self.all(), |chosen, (column, value)| chosen.with(column, value))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.lines.len()
    }
}

impl<'a> Chosen<'a> {
    fn field(&self, line: &'a [String], column: &str) -> &'a str {
        self.rows.columns.get(column).map_or("", |at| line[*at].as_str())
    }

    /// Keeps the rows with `value` in `column`. Hyphens and underscores in words count as equal,
    /// and so do numbers of the same value.
    pub fn with(mut self, column: &str, value: &str) -> Chosen<'a> {
        let rows = self.rows;
        let same = |field: &str| {
            field == value
                || field.replace('_', "-") == value.replace('_', "-")
                || number(field).is_some_and(|field| number(value) == Some(field))
        };
        self.lines.retain(|line| same(rows.columns.get(column).map_or("", |at| line[*at].as_str())));
        self
    }

    /// Keeps the rows whose `column` is empty.
    pub fn without(mut self, column: &str) -> Chosen<'a> {
        let rows = self.rows;
        self.lines.retain(|line| rows.columns.get(column).is_some_and(|at| line[*at].is_empty()));
        self
    }

    /// The numbers in a column. Fields that are no numbers are left out.
    pub fn numbers(&self, column: &str) -> Vec<f64> {
        self.lines.iter().filter_map(|line| number(self.field(line, column))).collect()
    }

    /// The distinct words in a column, in the order of their first rows.
    pub fn words(&self, column: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for line in &self.lines {
            let word = self.field(line, column);
            if !word.is_empty() && !words.iter().any(|known| known == word) {
                words.push(word.to_owned());
            }
        }
        words
    }

    /// The greatest number in a column.
    pub fn most(&self, column: &str) -> Option<f64> {
        self.numbers(column).into_iter().reduce(f64::max)
    }

    /// The least number in a column.
    pub fn least(&self, column: &str) -> Option<f64> {
        self.numbers(column).into_iter().reduce(f64::min)
    }

    /// The number in a column, if exactly one row is selected.
    pub fn only(&self, column: &str) -> Option<f64> {
        match self.lines.as_slice() {
            [line] => number(self.field(line, column)),
            _ => None,
        }
    }

    /// Points of `y` over `x`, in ascending order of `x`.
    pub fn over(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        let point = |line: &&'a [String]| Some((number(self.field(line, x))?, number(self.field(line, y))?));
        let mut points: Vec<_> = self.lines.iter().filter_map(point).collect();
        points.sort_by(|left, right| left.0.total_cmp(&right.0));
        points
    }
}

fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The fields of each line. A quoted field may contain any character.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            _ => field.push(char),
        }
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_command::table;

    #[test]
    fn what_tables_write_is_read_back() {
        let lines = [
            vec!["name".to_owned(), "threads".to_owned(), "rate".to_owned()],
            vec!["a, \"b\"\nc".to_owned(), "1".to_owned(), "10.5".to_owned()],
            vec!["per_commit".to_owned(), "2".to_owned(), "20".to_owned()],
            vec!["per_commit".to_owned(), "8".to_owned(), String::new()],
        ];
        let rows = Rows::parse(&table::csv(&lines));
        assert_eq!(rows.len(), 3);
        assert_eq!(rows.with(&[("name", "a, \"b\"\nc")]).only("rate"), Some(10.5));
        let others = rows.with(&[("name", "per-commit")]);
        assert_eq!((others.numbers("rate"), others.only("rate")), (vec![20.0], None));
        assert_eq!(others.over("threads", "rate"), [(2.0, 20.0)]);
        assert_eq!(rows.with(&[("threads", "2.0")]).words("name"), ["per_commit"]);
        assert_eq!(rows.all().without("rate").words("threads"), ["8"]);
        assert_eq!((rows.all().most("none"), rows.all().least("rate")), (None, Some(10.5)));
        assert_eq!(Rows::parse("").len(), 0);
    }

    #[test]
    fn each_round_has_its_rows() {
        let rounds = Rows::rounds("round,threads,rate\n1,8,10\n1,16,20\n2,8,11\n2,16,21\n");
        let rates = |rows: &Rows| rows.all().numbers("rate");
        assert_eq!(rounds.iter().map(rates).collect::<Vec<_>>(), [[10.0, 20.0], [11.0, 21.0]]);
        assert!(Rows::rounds("").is_empty());
    }
}
