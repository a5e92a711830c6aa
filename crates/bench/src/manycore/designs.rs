//! Rates of designs by the number of threads, over several rounds: as tables, CSV and a chart.
//!
//! Pure functions, except [`Rates::measure`] and [`Rates::write`].

use crate::grid::chart::{Line, Picture, Scale, draw};
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::progress::Progress;
use katydid_command::table;
use katydid_command::whole_file;
use katydid_manycore::RunError;
use std::path::PathBuf;

/// The files that a command writes.
#[derive(Debug, Args)]
pub struct Files {
    /// Write all rows to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the rows of each round separately to this file, as CSV
    #[arg(long, value_name = "FILE")]
    rounds_csv: Option<PathBuf>,
    /// Draw the rates over threads into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A number of threads, with the rate of each design.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    threads: usize,
    rates: Vec<f64>,
}

/// Rates of designs by the number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    names: Vec<&'static str>,
    rounds: Vec<Vec<Row>>,
}

/// Words of a chart.
#[derive(Debug)]
pub struct Words {
    pub title: &'static str,
    pub subtitle: String,
    pub rate: &'static str,
}

impl Rates {
    /// Measures every design at every number of threads, once in each round. `measure` gets the
    /// index of the design, the number of threads and the round from 0, and returns a rate.
    pub fn measure(
        command: &'static str,
        names: Vec<&'static str>,
        threads: &[usize],
        rounds: usize,
        mut measure: impl FnMut(usize, usize, u64) -> std::result::Result<f64, RunError>,
    ) -> Result<Rates> {
        let mut progress = Progress::new(command);
        let total = rounds * threads.len() * names.len();
        let (mut all, mut done) = (Vec::new(), 0);
        for round in 0..rounds as u64 {
            let mut rows = Vec::new();
            for &threads in threads {
                let mut rates = Vec::new();
                for (at, name) in names.iter().enumerate() {
                    let what = || format!("{name}, {threads} threads");
                    progress.show(Some(f64::from(done) / total as f64), what);
                    rates.push(measure(at, threads, round).map_err(failed)?);
                    done += 1;
                }
                rows.push(Row { threads, rates });
            }
            all.push(rows);
        }
        Ok(Rates { names, rounds: all })
    }

    /// The median of each rate over the rounds. For an even number of rounds it is the lower of the
    /// middle two.
    fn medians(&self) -> Vec<Row> {
        let median = |at: usize, design: usize| {
            let mut rates: Vec<f64> = self.rounds.iter().map(|rows| rows[at].rates[design]).collect();
            rates.sort_by(f64::total_cmp);
            rates[(rates.len() - 1) / 2]
        };
        let rows = self.rounds.first().map_or(&[][..], Vec::as_slice);
        let row = |(at, row): (usize, &Row)| Row {
            threads: row.threads,
            rates: (0..row.rates.len()).map(|design| median(at, design)).collect(),
        };
        rows.iter().enumerate().map(row).collect()
    }

    fn lines(&self, rows: &[Row], shown: impl Fn(&Row, usize) -> String) -> Vec<Vec<String>> {
        let names = self.names.iter().map(|name| (*name).to_owned());
        let mut lines = vec![std::iter::once("threads".to_owned()).chain(names).collect::<Vec<_>>()];
        lines.extend(rows.iter().map(|row| {
            let fields = (0..row.rates.len()).map(|design| shown(row, design));
            std::iter::once(row.threads.to_string()).chain(fields).collect()
        }));
        lines
    }

    /// The table of medians. Each rate is shown by `shown`.
    pub fn table(&self, shown: impl Fn(f64) -> String) -> Vec<Vec<String>> {
        self.lines(&self.medians(), |row, design| shown(row.rates[design]))
    }

    /// The table of the medians' ratios to those of one thread; `None` if one thread was not
    /// measured.
    pub fn ratios(&self) -> Option<Vec<Vec<String>>> {
        let rows = self.medians();
        let one = rows.iter().find(|row| row.threads == 1)?.rates.clone();
        Some(self.lines(&rows, |row, design| format!("{:.2}", row.rates[design] / one[design])))
    }

    /// The rows of each round. The first column is the number of the round, from 1.
    fn lines_of_rounds(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for (at, rows) in self.rounds.iter().enumerate() {
            let whole = |row: &Row, design: usize| format!("{:.0}", row.rates[design]);
            let names_and_rows = self.lines(rows, whole).into_iter().enumerate();
            let of_round = names_and_rows.skip(usize::from(at > 0)).map(|(line, fields)| {
                let first = if line == 0 { "round".to_owned() } else { (at + 1).to_string() };
                std::iter::once(first).chain(fields).collect()
            });
            all.extend::<Vec<Vec<String>>>(of_round.collect());
        }
        all
    }

    fn picture(&self, Words { title, subtitle, rate }: Words) -> Picture {
        let rows = self.medians();
        let line = |(at, name): (usize, &&str)| Line {
            name: (*name).to_owned(),
            points: rows.iter().map(|row| (row.threads as f64, row.rates[at])).collect(),
        };
        Picture {
            title: title.to_owned(),
            subtitle,
            x_name: "threads".to_owned(),
            y_name: rate.to_owned(),
            x_scale: Scale::Logarithmic,
            y_scale: Scale::Logarithmic,
            lines: self.names.iter().enumerate().map(line).collect(),
        }
    }

    /// Writes the files that the command was asked for.
    pub fn write(&self, files: &Files, words: Words) -> Result<()> {
        if let Some(file) = &files.csv {
            whole_file::write(file, table::csv(&self.table(|rate| format!("{rate:.0}"))).as_bytes())?;
        }
        if let Some(file) = &files.rounds_csv {
            whole_file::write(file, table::csv(&self.lines_of_rounds()).as_bytes())?;
        }
        if let Some(file) = &files.svg {
            whole_file::create_parent(file)?;
            whole_file::write(file, draw(&self.picture(words)).as_bytes())?;
        }
        Ok(())
    }
}

fn failed(error: RunError) -> Failure {
    match error {
        RunError::Design { .. } | RunError::Range { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_medians_and_each_round_keeps_its_number() {
        let round = |rate: f64| {
            let row = |threads: usize| Row { threads, rates: vec![rate * threads as f64, rate] };
            vec![row(1), row(8)]
        };
        let rates = Rates { names: vec!["some", "other"], rounds: [3.0, 1.0, 2.0].map(round).to_vec() };
        assert_eq!(rates.medians(), round(2.0));
        let lines = rates.lines_of_rounds();
        let column = |at: usize| lines.iter().map(|line| line[at].as_str()).collect::<Vec<_>>();
        assert_eq!(column(0), ["round", "1", "1", "2", "2", "3", "3"]);
        assert_eq!(column(1), ["threads", "1", "8", "1", "8", "1", "8"]);
        assert_eq!(column(2), ["some", "3", "24", "1", "8", "2", "16"]);
        let ratios = rates.ratios().expect("one thread was measured");
        assert_eq!(ratios[1..], [["1", "1.00", "1.00"], ["8", "8.00", "1.00"]]);
        let without_one = Rates { rounds: vec![vec![round(1.0).remove(1)]], ..rates };
        assert_eq!(without_one.ratios(), None);
    }
}
