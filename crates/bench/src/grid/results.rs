//! Results of a command. They are printed and written after each sweep or figure, so that a signal
//! loses only the sweep or figure under way.

use super::columns::{Grid, RowOf, Rows, Setting, csv, rounds_csv};
use katydid_command::failure::Result;
use katydid_command::output::Output;
use katydid_command::whole_file;
use std::path::{Path, PathBuf};

/// Files for rows and charts, in addition to standard output.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The file for all rows.
    pub csv: Option<PathBuf>,
    /// The file for the rows of each round.
    pub rounds_csv: Option<PathBuf>,
    /// The folder for charts, or the file for the only chart if the name ends in `.svg`.
    pub svg: Option<PathBuf>,
}

impl Files {
    /// Returns whether only one chart can be written, because `svg` names a file.
    pub fn has_one_chart(&self) -> bool {
        self.svg.as_deref().is_some_and(is_svg)
    }
}

/// Returns whether a path names a chart's file.
pub fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}

/// Results of a command, as the head of this file describes.
pub struct Results<G: Grid> {
    files: Files,
    pub out: Output,
    done: Vec<(G, Vec<RowOf<G>>, Setting)>,
}

impl<G: Grid> Results<G> {
    /// Starts the output with these lines and an empty line.
    pub fn new(files: Files, head: &[String]) -> Result<Results<G>> {
        let mut out = Output::new();
        head.iter().try_for_each(|line| out.line(line))?;
        out.line("")?;
        out.flush()?;
        Ok(Results { files, out, done: Vec::new() })
    }

    /// Prints these rows and draws their charts. Writes these and all earlier rows to the files.
    pub fn add(&mut self, grid: G, rows: Vec<RowOf<G>>, setting: Setting) -> Result<()> {
        self.print(&Rows { grid, rows: &rows, setting: &setting })?;
        self.done.push((grid, rows, setting));
        let all: Vec<Rows<'_, G>> =
            self.done.iter().map(|(grid, rows, setting)| Rows { grid: *grid, rows, setting }).collect();
        if let Some(file) = &self.files.csv {
            whole_file::write(file, csv(&all).as_bytes())?;
        }
        if let Some(file) = &self.files.rounds_csv {
            whole_file::write(file, rounds_csv(&all).as_bytes())?;
        }
        if let (Some(svg), Some(last)) = (&self.files.svg, all.last()) {
            // If `svg` names a file, only the first chart is drawn, because it is the main one.
            let room = if is_svg(svg) { 1 } else { usize::MAX };
            for chart in G::charts(last).into_iter().take(room) {
                let file = if is_svg(svg) { svg.clone() } else { svg.join(chart.name + ".svg") };
                whole_file::create_parent(&file)?;
                whole_file::write(&file, chart.drawing.svg().as_bytes())?;
            }
        }
        Ok(())
    }

    fn print(&mut self, rows: &Rows<'_, G>) -> Result<()> {
        for line in G::head(rows).into_iter().chain(rows.table()).chain(G::tail(rows)) {
            self.out.line(line)?;
        }
        self.out.line("")?;
        self.out.flush()
    }

    /// All rows so far.
    pub fn rows(&self) -> impl Iterator<Item = &RowOf<G>> {
        self.done.iter().flat_map(|(_, rows, _)| rows)
    }

    /// Ends the output with these lines.
    pub fn end(&mut self, legend: &[String]) -> Result<()> {
        legend.iter().try_for_each(|line| self.out.line(line))?;
        self.out.flush()
    }
}
