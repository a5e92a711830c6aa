//! What the commands print of a sweep, and the files they write.

use super::columns::{Rows, Setting, csv};
use super::flags::Grid;
use super::lines::picture;
use super::{Sweep, case::Row};
use crate::grid::chart::draw;
use katydid_command::failure::Result;
use katydid_command::output::Output;
use katydid_command::table::wrapped;
use katydid_command::whole_file;

/// A sweep that has been run.
#[derive(Debug)]
pub struct Swept {
    pub sweep: Sweep,
    pub rows: Vec<Row>,
}

impl Swept {
    fn rows<'a>(&'a self, setting: &'a Setting) -> Rows<'a> {
        Rows { sweep: self.sweep, rows: &self.rows, setting }
    }

    /// Prints the table, with what is to be known about it.
    pub fn print(&self, out: &mut Output, setting: &Setting, notes: &[&str]) -> Result<()> {
        let (spec, rows) = (self.sweep.spec(), self.rows(setting));
        out.line(format!("sweep {}: {}", spec.name, spec.about))?;
        for note in notes.iter().copied().chain([spec.note]).filter(|note| !note.is_empty()) {
            for line in wrapped(note) {
                out.line(format!("  {line}"))?;
            }
        }
        out.line(format!("  the same in all: {}", rows.constants()))?;
        for line in rows.table() {
            out.line(line)?;
        }
        out.line("")
    }
}

/// What a table's words mean.
pub fn legend(out: &mut Output, setting: &Setting, swept: &[Swept]) -> Result<()> {
    let rounds = match setting.seed {
        Some(_) => "another seed each",
        None => "every case once in each",
    };
    if swept.iter().flat_map(|swept| &swept.rows).any(|row| row.rounds.len() > 1) {
        out.line(format!(
            "slowest and fastest: records a second of the rounds ({rounds}); the other figures are the median round's, but times are \
             of all rounds"
        ))?;
    }
    out.line("least and most: records of one thread")
}

/// Writes the files that were asked for.
pub fn write(grid: &Grid, setting: &Setting, swept: &[Swept]) -> Result<()> {
    if let Some(file) = &grid.csv {
        let all: Vec<Rows<'_>> = swept.iter().map(|swept| swept.rows(setting)).collect();
        whole_file::write(file, csv(&all).as_bytes())?;
    }
    for swept in swept {
        let Some(file) = grid.chart(swept.sweep) else { continue };
        let title = format!("{}: {}", swept.sweep.name(), setting.title);
        whole_file::create_parent(&file)?;
        whole_file::write(&file, draw(&picture(&swept.rows(setting), title)).as_bytes())?;
    }
    Ok(())
}
