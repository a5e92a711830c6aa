//! Rows as a table for people and as CSV for programs.
//!
//! Pure. CSV has the same columns for everything of one type; what a row has nothing to say about
//! is empty. A table leaves out what does not vary, and what was not measured.

use super::axis::Axis;
use super::chart::Picture;
use super::row::{Round, Row};
use katydid_command::bytes::grouped;
use katydid_command::table;
use katydid_workload::measure::Summary;

/// The row of a grid.
pub type RowOf<G> = Row<<G as Grid>::Case, <G as Grid>::Round>;

/// Text of a column for a row, given all rows.
pub type Text<G> = fn(&Rows<'_, G>, &RowOf<G>) -> String;

/// A column's name and text.
pub type Column<G> = (&'static str, Text<G>);

/// A chart, and the name of its file without the ending.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: String,
    pub picture: Picture,
}

/// Things that are measured together: a sweep, or a figure. See the head of [`super`].
pub trait Grid: Copy + 'static {
    type Case: Clone + 'static;
    type Round: Round + Clone + 'static;

    /// All columns of the CSV file.
    const CSV: &'static [Column<Self>];
    /// Properties that can vary: each is a column of the table only if it does.
    const VARYING: &'static [Column<Self>];
    /// Properties that are shown once, above the table, if they do not vary.
    const CONSTANT: &'static [Column<Self>];
    /// Texts of what is constant that say nothing.
    const SILENT: &'static [&'static str];

    /// The name of the rate in the table.
    fn rate(self) -> &'static str;

    /// Columns of the table that are always there, to the left.
    fn first(self) -> &'static [Column<Self>];

    /// Columns of the table behind the rate: what this one measures.
    fn measured(self) -> &'static [Column<Self>];

    /// Lines above the table.
    fn head(rows: &Rows<'_, Self>) -> Vec<String>;

    /// Lines below the table.
    fn tail(_rows: &Rows<'_, Self>) -> Vec<String> {
        Vec::new()
    }

    /// All charts.
    fn charts(rows: &Rows<'_, Self>) -> Vec<Chart>;

    /// Returns whether others are compared with this case and nothing varies in it.
    fn is_reference(_case: &Self::Case) -> bool {
        false
    }
}

/// Setting that all rows share.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The commit that the program was built from, if that is known.
    pub commit: Option<&'static str>,
    /// The machine, in a line or by its name.
    pub machine: String,
    /// The machine as charts name it.
    pub title: String,
    /// Device of the logs, if it is not the case's.
    pub device: &'static str,
    /// I/O method of the log.
    pub method: String,
    /// Length of one run in milliseconds: real, or simulated.
    pub millis: f64,
    /// Seed of the first round on virtual threads; none on real ones.
    pub seed: Option<u64>,
    /// Commits that a thread may have in flight, where no case says.
    pub in_flight: usize,
    /// Branches of TPC-B, where there is a store.
    pub branches: Option<u64>,
}

/// The rows of one sweep or figure.
pub struct Rows<'a, G: Grid> {
    pub grid: G,
    pub rows: &'a [RowOf<G>],
    pub setting: &'a Setting,
}

impl<G: Grid> Rows<'_, G> {
    /// Returns whether a text varies among the cases that are no references.
    fn varies(&self, text: Text<G>) -> bool {
        let rows = self.rows.iter().filter(|row| !G::is_reference(&row.case));
        let mut texts = rows.map(|row| text(self, row));
        let first = texts.next();
        texts.any(|text| Some(&text) != first.as_ref())
    }

    fn columns(&self) -> Vec<Column<G>> {
        let mut columns = self.grid.first().to_vec();
        columns.extend(G::VARYING.iter().filter(|(_, text)| self.varies(*text)));
        columns.push((self.grid.rate(), |_, row| grouped(row.median(G::Round::per_second) as u64)));
        if self.rows.iter().any(|row| row.rounds.len() > 1) {
            columns.push(("slowest", |_, row| grouped(row.spread().0 as u64)));
            columns.push(("fastest", |_, row| grouped(row.spread().1 as u64)));
        }
        columns.extend(self.grid.measured());
        columns
    }

    /// The table's lines.
    pub fn table(&self) -> Vec<String> {
        let columns = self.columns();
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        table::lined_up(&self.lines(names, &columns))
    }

    /// Lines of fields: these names, then each row.
    fn lines(&self, names: Vec<String>, columns: &[Column<G>]) -> Vec<Vec<String>> {
        let line = |row| columns.iter().map(|(_, text)| text(self, row)).collect();
        std::iter::once(names).chain(self.rows.iter().map(line)).collect()
    }

    /// Constants of all rows, as `name=text`.
    pub fn constants(&self) -> String {
        let Some(row) = self.rows.iter().find(|row| !G::is_reference(&row.case)) else {
            return String::new();
        };
        let same = G::CONSTANT.iter().filter(|(_, text)| !self.varies(*text));
        let words = same.map(|(name, text)| (name.replace(' ', "_"), text(self, row)));
        let words = words.filter(|(_, text)| !G::SILENT.contains(&text.as_str()));
        words.map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether an axis varies among the cases that are no references.
    pub fn varies_on(&self, axis: &Axis<G::Case>) -> bool {
        let cases = self.rows.iter().map(|row| &row.case).filter(|case| !G::is_reference(case));
        axis.varies(cases)
    }
}

/// The names of the columns, and all rows.
pub fn csv<G: Grid>(all: &[Rows<'_, G>]) -> String {
    let mut lines = vec![G::CSV.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
    for rows in all {
        lines.extend(rows.lines(Vec::new(), G::CSV).into_iter().skip(1));
    }
    table::csv(&lines)
}

/// A column `round`, counted from 1, before the columns of [`csv`], and the rows of each round as
/// if there had been no other.
pub fn rounds_csv<G: Grid>(all: &[Rows<'_, G>]) -> String {
    let names = G::CSV.iter().map(|(name, _)| *name);
    let mut lines = vec![["round"].into_iter().chain(names).map(str::to_owned).collect::<Vec<_>>()];
    let rounds = all.iter().flat_map(|rows| rows.rows).map(|row| row.rounds.len()).max().unwrap_or(0);
    for round in 0..rounds {
        for Rows { grid, rows, setting } in all {
            let of_round = |row: &RowOf<G>| {
                let rounds = vec![row.rounds.get(round)?.clone()];
                Some(Row { case: row.case.clone(), rounds })
            };
            let rows: Vec<RowOf<G>> = rows.iter().filter_map(of_round).collect();
            let of_round = Rows { grid: *grid, rows: &rows, setting };
            let fields = of_round.lines(Vec::new(), G::CSV).into_iter().skip(1);
            lines.extend(fields.map(|fields| [(round + 1).to_string()].into_iter().chain(fields).collect()));
        }
    }
    table::csv(&lines)
}

/// A value that may be missing: nothing then.
pub fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// A number with `PLACES` places.
pub fn places<const PLACES: usize>(value: f64) -> String {
    format!("{value:.PLACES$}")
}

/// One of the percentiles, in microseconds with one place; nothing where nothing was timed.
pub fn of_times<C, R: Round>(row: &Row<C, R>, percentile: fn(&Summary) -> f64) -> String {
    optional(row.summary().map(|times| places::<1>(percentile(&times))))
}
