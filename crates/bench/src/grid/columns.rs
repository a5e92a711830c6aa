//! Rows as a table and as CSV.
//!
//! Pure functions. CSV has the same columns for all grids of one type; a cell is empty if it does
//! not apply to the row. A table leaves out the settings of [`Grid::VARYING`] that do not vary, and
//! has only the measurements that its grid chooses.

use super::axis::Axis;
use super::chart::Drawing;
use super::row::{Round, Row};
use katydid_command::bytes::grouped;
use katydid_command::table;
use katydid_workload::measure::Summary;

/// The row type of a grid.
pub type RowOf<G> = Row<<G as Grid>::Case, <G as Grid>::Round>;

/// Text of a column for a row, which may depend on all rows.
pub type Text<G> = fn(&Rows<'_, G>, &RowOf<G>) -> String;

/// Name and text of a column.
pub type Column<G> = (&'static str, Text<G>);

/// A chart, and the name of its file without the extension.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: String,
    pub drawing: Drawing,
}

/// A group of cases that are measured together: a sweep or a figure. The head of [`super`]
/// describes grids.
pub trait Grid: Copy + 'static {
    type Case: Clone + 'static;
    type Round: Round + Clone + 'static;

    /// All columns of the CSV file.
    const CSV: &'static [Column<Self>];
    /// Columns of properties that can vary. A table has such a column only if the property varies.
    const VARYING: &'static [Column<Self>];
    /// Properties that are shown once, above the table, if they do not vary.
    const CONSTANT: &'static [Column<Self>];
    /// Texts of properties that do not apply. A constant property with such a text is not shown
    /// above the table.
    const SILENT: &'static [&'static str];

    /// Name of the rate in the table.
    fn rate(self) -> &'static str;

    /// Columns on the left of every table.
    fn first(self) -> &'static [Column<Self>];

    /// Columns to the right of the rate, with the grid's own measurements.
    fn measured(self) -> &'static [Column<Self>];

    /// Lines above the table.
    fn head(rows: &Rows<'_, Self>) -> Vec<String>;

    /// Lines below the table.
    fn tail(_rows: &Rows<'_, Self>) -> Vec<String> {
        Vec::new()
    }

    /// All charts.
    fn charts(rows: &Rows<'_, Self>) -> Vec<Chart>;

    /// Returns whether this case is a reference: other cases are compared with it, and it has no
    /// settings.
    fn is_reference(_case: &Self::Case) -> bool {
        false
    }
}

/// Circumstances that all rows share.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// The commit from which the program was built, if it is known.
    pub commit: Option<&'static str>,
    /// The machine: a line of description, or its name.
    pub machine: String,
    /// The machine's name in charts.
    pub title: String,
    /// Device of the logs, unless the case names one.
    pub device: &'static str,
    /// I/O method of the log.
    pub method: String,
    /// Length of one run in milliseconds, of real or simulated time.
    pub millis: f64,
    /// Seed of the first round on virtual threads; `None` on real threads.
    pub seed: Option<u64>,
    /// Maximum of a thread's commits in flight, unless the case names one.
    pub in_flight: usize,
    /// Number of TPC-B's branches, if the grid measures a store.
    pub branches: Option<u64>,
}

/// The rows of one sweep or figure.
pub struct Rows<'a, G: Grid> {
    pub grid: G,
    pub rows: &'a [RowOf<G>],
    pub setting: &'a Setting,
}

impl<G: Grid> Rows<'_, G> {
    /// Returns whether a text varies among the cases that are not references.
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

    /// Lines of the table.
    pub fn table(&self) -> Vec<String> {
        let columns = self.columns();
        let names = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        table::lined_up(&self.lines(names, &columns))
    }

    /// Lines of cells: the names, then one line for each row.
    fn lines(&self, names: Vec<String>, columns: &[Column<G>]) -> Vec<Vec<String>> {
        let line = |row| columns.iter().map(|(_, text)| text(self, row)).collect();
        std::iter::once(names).chain(self.rows.iter().map(line)).collect()
    }

    /// Properties that are equal in all rows, as `name=text`.
    pub fn constants(&self) -> String {
        let Some(row) = self.rows.iter().find(|row| !G::is_reference(&row.case)) else {
            return String::new();
        };
        let same = G::CONSTANT.iter().filter(|(_, text)| !self.varies(*text));
        let words = same.map(|(name, text)| (name.replace(' ', "_"), text(self, row)));
        let words = words.filter(|(_, text)| !G::SILENT.contains(&text.as_str()));
        words.map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether an axis varies among the cases that are not references.
    pub fn varies_on(&self, axis: &Axis<G::Case>) -> bool {
        let cases = self.rows.iter().map(|row| &row.case).filter(|case| !G::is_reference(case));
        axis.varies(cases)
    }
}

/// Names of the columns, then all rows.
pub fn csv<G: Grid>(all: &[Rows<'_, G>]) -> String {
    let mut lines = vec![G::CSV.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
    for rows in all {
        lines.extend(rows.lines(Vec::new(), G::CSV).into_iter().skip(1));
    }
    table::csv(&lines)
}

/// The columns of [`csv`] with a column `round`, counted from 1, in front. Each round gives one
/// line for each row, computed from this round alone.
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

/// A value as text; an empty text if the value is missing.
pub fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// A number with `PLACES` decimal places.
pub fn places<const PLACES: usize>(value: f64) -> String {
    format!("{value:.PLACES$}")
}

/// A percentile in microseconds with one decimal place; an empty text if nothing was timed.
pub fn of_times<C, R: Round>(row: &Row<C, R>, percentile: fn(&Summary) -> f64) -> String {
    optional(row.summary().map(|times| places::<1>(percentile(&times))))
}
