//! `katydid lab reproduce` repeats the papers' figures, each by a command of this program, and
//! writes one report of all figures.
//!
//! Each experiment runs in its own process, so that experiments do not disturb each other, and an
//! interruption loses only the running experiment. The report is rewritten after each experiment,
//! so it can be opened at any time.

mod child;
mod criterion;
mod example;
mod experiment;
mod interval;
mod papers;
mod quantity;
mod report;
mod rows;
mod simulator;
mod state;

use crate::host::machine::Machine;
use child::{Child, Ended};
use clap::Args;
use experiment::{Experiment, Paper};
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::progress::Progress;
use katydid_command::stderr::warn;
use katydid_command::{signals, whole_file};
use report::{Chapter, Head, Outcome};
use rows::Rows;
use state::{Done, ResultFolder};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Repeat the figures of the papers on this machine, and write one report
///
/// Each figure or table that measures logging is an experiment. Experiments run on real threads,
/// some with a delay added to the device, or on simulated cores. The report, DIR/report.html, is
/// one file that needs no network. It has our charts, the results of the paper, a comparison of our
/// best result with the paper's, and a verdict on whether our figure has the paper's shape, with
/// the criteria of the verdict.
///
/// The command may be interrupted at any time. The same command later continues with the missing
/// experiments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid lab reproduce --quick                       all figures in about 20 minutes
  katydid lab reproduce aether --figure 3             one figure, at full length
  katydid lab reproduce cicada --out cicada-report    one paper
  katydid lab reproduce --list                        list the experiments, and the figures that are not run")]
pub struct Reproduce {
    /// Paper: aether, eleda, flushing, nv-logging or cicada, or `all` for all papers [default: all]
    #[arg(value_name = "PAPER")]
    paper: Option<String>,
    /// Figures of the paper, such as 3 or 8-left [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "paper")]
    figure: Vec<String>,
    /// Make short runs: all experiments take about 20 minutes on two cores
    #[arg(long)]
    quick: bool,
    /// Folder for the report, and for all rows and charts
    #[arg(long, value_name = "DIR", default_value = "katydid-reproduce")]
    out: PathBuf,
    /// Measure also the experiments that an earlier run has measured
    #[arg(long)]
    again: bool,
    /// List the experiments, and the figures that are not run, and measure nothing
    #[arg(long)]
    list: bool,
}

impl Reproduce {
    /// Measures what is missing, and writes the report.
    ///
    /// # Errors
    /// An unknown paper or figure, a file that cannot be read or written, a failed experiment, or a
    /// signal.
    pub fn run(self) -> Result<()> {
        let chosen = self.chosen()?;
        if self.list {
            return list(&chosen, self.quick);
        }
        let work = self.out.join("work");
        std::fs::create_dir_all(&work)
            .map_err(|error| Failure::failed(format_args!("cannot create {}: {error}", work.display())))?;
        let head = Head {
            program: format!("katydid {VERSION}"),
            machine: Machine::read(&self.out).line(),
            quick: self.quick,
        };
        let child = Arc::new(Child::default());
        let asked = Arc::clone(&child);
        signals::on_stop(move || {
            warn(format_args!("katydid: the experiment under way is given up; another signal ends at once"));
            asked.stop();
        })?;
        let mut chapters: Vec<Chapter> =
            chosen.iter().map(|&experiment| self.kept(experiment, &head)).collect();
        let waiting = |chapters: &[Chapter]| -> f64 {
            let left = chapters.iter().filter(|chapter| !matches!(chapter.outcome, Outcome::Measured { .. }));
            left.map(|chapter| chapter.experiment.estimate(self.quick)).sum()
        };
        let all = waiting(&chapters);
        let (mut estimated, since) = (0.0, Instant::now());
        for at in 0..chapters.len() {
            if child.is_stopped() {
                break;
            }
            let experiment = chapters[at].experiment;
            if !matches!(chapters[at].outcome, Outcome::Measured { .. }) {
                let mut progress = Progress::new("reproduce");
                let message = |spent: f64| {
                    // Assume that the remaining experiments deviate from their estimates as much as
                    // the finished ones did.
                    let so_far = since.elapsed().as_secs_f64() - spent;
                    let pace = if estimated > 0.0 { so_far / estimated } else { 1.0 };
                    let left = ((all - estimated) * pace - spent).max(0.0);
                    format!(
                        "{} ({} of {}), about {} left",
                        experiment.name(),
                        at + 1,
                        chosen.len(),
                        time(left)
                    )
                };
                let mut tick = |spent: f64| {
                    let fraction = (estimated + spent.min(experiment.estimate(self.quick))) / all.max(1.0);
                    progress.show(Some(fraction), || message(spent));
                };
                let outcome = self.measure(&experiment, &head, &child, &mut tick)?;
                estimated += experiment.estimate(self.quick);
                chapters[at].outcome = outcome;
            }
            self.write(&head, &chapters)?;
        }
        let removed = std::fs::remove_dir_all(&work);
        self.write(&head, &chapters)?;
        removed
            .map_err(|error| Failure::failed(format_args!("cannot remove {}: {error}", work.display())))?;
        self.end(&chapters, child.is_stopped())
    }

    /// The requested experiments.
    fn chosen(&self) -> Result<Vec<Experiment>> {
        let papers: Vec<Paper> = match self.paper.as_deref() {
            None | Some("all") => Paper::ALL.to_vec(),
            Some(word) => Paper::ALL.into_iter().filter(|paper| paper.word() == word).collect(),
        };
        if papers.is_empty() {
            let known: Vec<&str> = Paper::ALL.iter().map(|paper| paper.word()).collect();
            return Err(Failure::usage(format_args!(
                "no paper {:?}; there are {}, and all",
                self.paper.as_deref().unwrap_or_default(),
                known.join(", ")
            )));
        }
        let of_papers: Vec<Experiment> = papers::experiments()
            .into_iter()
            .filter(|experiment| papers.contains(&experiment.paper))
            // A program without feature `replica` lacks the command of these experiments.
            .filter(|experiment| cfg!(feature = "replica") || !experiment.command.contains("lab replication"))
            .collect();
        let known: Vec<&str> = of_papers.iter().map(|experiment| experiment.figure).collect();
        if let Some(unknown) = self.figure.iter().find(|figure| !known.contains(&figure.as_str())) {
            let known = known.join(", ");
            return Err(Failure::usage(format_args!(
                "no figure {unknown:?} of that paper; there are {known}"
            )));
        }
        let wanted = |experiment: &Experiment| {
            self.figure.is_empty() || self.figure.iter().any(|figure| figure == experiment.figure)
        };
        Ok(of_papers.into_iter().filter(wanted).collect())
    }

    fn folder(&self, experiment: &Experiment) -> ResultFolder {
        ResultFolder { folder: self.out.join(experiment.name()) }
    }

    fn arguments(&self, experiment: &Experiment) -> Vec<String> {
        let folder = self.folder(experiment).folder;
        let work = self.out.join("work").join(experiment.name());
        experiment.arguments(self.quick, &folder.display().to_string(), &work.display().to_string())
    }

    /// The chapter of an experiment. Unless `--again` is given, the chapter has the result of an
    /// earlier run of the experiment, if that run had the same arguments, the same commit of the
    /// program and the same machine.
    fn kept(&self, experiment: Experiment, head: &Head) -> Chapter {
        let kept = self.folder(&experiment);
        let same = |done: &Done| {
            done.arguments == self.arguments(&experiment)
                && done.commit == commit()
                && done.machine == head.machine
        };
        let outcome = match kept.done().filter(same) {
            Some(done) if !self.again => measured(&experiment, &kept, done).unwrap_or(Outcome::NotYet),
            _ => Outcome::NotYet,
        };
        Chapter { experiment, outcome }
    }

    fn measure(
        &self,
        experiment: &Experiment,
        head: &Head,
        child: &Child,
        tick: &mut dyn FnMut(f64),
    ) -> Result<Outcome> {
        let kept = self.folder(experiment);
        kept.begin()?;
        let arguments = self.arguments(experiment);
        let since = Instant::now();
        let ended = child.run(&arguments, &kept, tick)?;
        let work = self.out.join("work").join(experiment.name());
        if work.exists() {
            // The experiment was interrupted or failed.
            std::fs::remove_dir_all(&work).map_err(|error| {
                Failure::failed(format_args!("cannot remove {}: {error}", work.display()))
            })?;
        }
        match ended {
            Ended::Well => {
                let at =
                    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |at| at.as_secs());
                let seconds = since.elapsed().as_secs_f64();
                let done = Done {
                    arguments,
                    commit: commit().to_owned(),
                    machine: head.machine.clone(),
                    seconds,
                    at,
                };
                kept.finish(&done)?;
                measured(experiment, &kept, done)
            }
            Ended::Stopped => Ok(Outcome::NotYet),
            Ended::Badly(how) => Ok(Outcome::Failed(format!("{how}: {}", kept.last_errors()))),
        }
    }

    fn write(&self, head: &Head, chapters: &[Chapter]) -> Result<()> {
        let page = report::html(head, chapters, &papers::not_run());
        whole_file::write(&self.out.join("report.csv"), report::csv(chapters).as_bytes())?;
        whole_file::write(&self.out.join("report.html"), page.as_bytes())
    }

    fn end(&self, chapters: &[Chapter], stopped: bool) -> Result<()> {
        let mut out = Output::new();
        let mut failed = 0;
        for Chapter { experiment, outcome } in chapters {
            let (word, more) = match outcome {
                Outcome::Measured { judged, .. } => (judged.verdict().word(), judged.ours.clone()),
                Outcome::Failed(why) => {
                    failed += 1;
                    ("failed", why.clone())
                }
                Outcome::NotYet => ("not measured yet", String::new()),
            };
            out.line(format!("{:<18} {word:<20} {more}", experiment.name()))?;
        }
        out.line(format!("report: {}", show(&self.out.join("report.html"))))?;
        out.flush()?;
        match (stopped, failed) {
            (true, _) => Err(Failure::failed("stopped by a signal; the same command goes on")),
            (false, 0) => Ok(()),
            (false, failed) => {
                Err(Failure::failed(format_args!("{failed} experiments failed; the report says why")))
            }
        }
    }
}

/// Reads the files of an experiment, and judges its rows.
fn measured(experiment: &Experiment, kept: &ResultFolder, done: Done) -> Result<Outcome> {
    let rows = Rows::parse(&kept.rows());
    if rows.len() == 0 {
        return Ok(Outcome::Failed("it left no rows".to_owned()));
    }
    let judged = experiment.judged(&rows, &Rows::rounds(&kept.rounds()));
    Ok(Outcome::Measured { done, judged, charts: kept.charts()? })
}

fn commit() -> &'static str {
    COMMIT.unwrap_or("unknown")
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 90.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{seconds:.0} s"),
    }
}

fn list(chosen: &[Experiment], quick: bool) -> Result<()> {
    let mut out = Output::new();
    for experiment in chosen {
        let time = time(experiment.estimate(quick));
        out.line(format!("{:<18} about {time:>6}  {}", experiment.name(), experiment.title))?;
    }
    let all = chosen.iter().map(|experiment| experiment.estimate(quick)).sum();
    out.line(format!("{:<18} about {:>6}", "all of these", time(all)))?;
    out.line("")?;
    out.line("Not run:")?;
    for left in
        papers::not_run().iter().filter(|left| chosen.iter().any(|experiment| experiment.paper == left.paper))
    {
        out.line(format!("{:<10} {}: {}", left.paper.word(), left.figures, left.why))?;
    }
    out.flush()
}
