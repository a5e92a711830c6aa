//! Experiments. An experiment consists of a figure of a paper, the command that repeats the figure,
//! and the criteria by which the command's rows are compared with the paper.
//!
//! Pure functions.

use super::criterion::{Criterion, Finding, Verdict};
use super::rows::Rows;

/// The papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    Aether,
    Eleda,
    Flushing,
    NvLogging,
    Cicada,
}

impl Paper {
    /// All papers, in the order of the report.
    pub const ALL: [Paper; 5] =
        [Paper::Aether, Paper::Eleda, Paper::Flushing, Paper::NvLogging, Paper::Cicada];

    /// The paper's name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Paper::Aether => "aether",
            Paper::Eleda => "eleda",
            Paper::Flushing => "flushing",
            Paper::NvLogging => "nv-logging",
            Paper::Cicada => "cicada",
        }
    }

    /// The paper's name in a sentence.
    pub fn short(self) -> &'static str {
        match self {
            Paper::Aether => "Aether",
            Paper::Eleda => "ELEDA",
            Paper::Flushing => "Efficient flushing",
            Paper::NvLogging => "NV-Logging",
            Paper::Cicada => "Cicada",
        }
    }

    /// The paper's title, as it is cited.
    pub fn title(self) -> &'static str {
        match self {
            Paper::Aether => "Aether: a scalable approach to logging (PVLDB 2010)",
            Paper::Eleda => "ELEDA: scalable database logging for multicores (PVLDB 2017)",
            Paper::Flushing => "Efficient flushing of log records for key-value stores",
            Paper::NvLogging => "NVRAM-aware logging in transaction systems (VLDB 2014), and a report on it",
            Paper::Cicada => "Cicada with parallel write-ahead logs",
        }
    }
}

/// Kind of threads of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// Threads of this machine, on its devices.
    Real,
    /// Virtual threads on a simulated machine with as many cores as the paper's.
    Virtual,
}

/// Result of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// Finding of each criterion.
    pub findings: Vec<Finding>,
    /// Comparison of our best result with the paper's best.
    pub ours: String,
}

impl Judged {
    /// The verdict on the figure.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.findings.iter().map(|finding| finding.answer))
    }
}

/// A rate in words.
pub fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "nothing".to_owned(),
        Some(rate) if rate >= 1e6 => format!("{:.2} million/s", rate / 1e6),
        Some(rate) => format!("{:.1} thousand/s", rate / 1e3),
    }
}

/// One figure or table.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    pub paper: Paper,
    /// Name on the command line: the figure's number in the paper, such as `3`, `8-9` or `table-1`.
    /// A suffix such as `-left` distinguishes the experiments that repeat one figure.
    pub figure: &'static str,
    pub title: &'static str,
    /// Set-up of the paper.
    pub ran: &'static str,
    /// Our set-up.
    pub here: &'static str,
    /// The paper's numbers.
    pub headline: &'static str,
    /// Differences between the paper's set-up and ours that may change the result.
    pub differs: &'static str,
    pub threads: Threads,
    /// The command of this program, with `{csv}`, `{svg}` and `{dir}` in place of its files and
    /// folders.
    pub command: &'static str,
    /// Flags that are added in a full run. `quick` has the flags of a quick run.
    pub full: &'static str,
    pub quick: &'static str,
    /// Approximate seconds of a full run on two cores. `quick_seconds` are those of a quick run.
    pub seconds: f64,
    pub quick_seconds: f64,
    /// The paper's claims.
    pub criteria: &'static [Criterion],
    /// Compares our best result with the paper's, from the rows of all rounds. The comparison does
    /// not affect the verdict.
    pub ours: fn(&Rows) -> String,
}

impl Experiment {
    /// Defaults of experiments on real threads. Each experiment sets the other fields.
    pub const fn real(paper: Paper) -> Experiment {
        Experiment {
            paper,
            figure: "",
            title: "",
            ran: "",
            here: "",
            headline: "",
            differs: "",
            threads: Threads::Real,
            command: "",
            full: "--rounds 5",
            quick: "--rounds 5 --seconds 0.05",
            seconds: 60.0,
            quick_seconds: 15.0,
            criteria: &[],
            ours: |_| String::new(),
        }
    }

    /// Defaults of experiments on a simulated machine.
    pub const fn simulated(paper: Paper) -> Experiment {
        Experiment {
            threads: Threads::Virtual,
            full: "--millis 10 --rounds 5",
            quick: "--millis 1 --rounds 5",
            ..Experiment::real(paper)
        }
    }

    /// Name of the experiment's folder, and its name on the command line.
    pub fn name(&self) -> String {
        format!("{}-{}", self.paper.word(), self.figure)
    }

    /// The figure's number in words, such as "Figure 8, left" or "Figures 8 and 9".
    pub fn label(&self) -> String {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        match self.figure.split_once('-') {
            None => format!("Figure {}", self.figure),
            Some(("table", number)) => format!("Table {number}"),
            Some((first, second)) if digits(second) => format!("Figures {first} and {second}"),
            Some((number, "cores")) => format!("Figure {number}, many cores"),
            Some((number, part)) => format!("Figure {number}, {part}"),
        }
    }

    /// Applies the criteria. `rows` has the medians of all rounds, `rounds` the rows of each round.
    pub fn judged(&self, rows: &Rows, rounds: &[Rows]) -> Judged {
        let findings = self.criteria.iter().map(|criterion| criterion.find(rounds)).collect();
        Judged { findings, ours: (self.ours)(rows) }
    }

    /// The arguments of the command, with its files below `folder` and its working folder `work`.
    pub fn arguments(&self, quick: bool, folder: &str, work: &str) -> Vec<String> {
        let more = if quick { self.quick } else { self.full };
        let place = |word: &str| {
            word.replace("{csv}", &format!("{folder}/rows.csv"))
                .replace("{svg}", folder)
                .replace("{dir}", work)
        };
        let rounds = ["--rounds-csv".to_owned(), format!("{folder}/rounds.csv")];
        self.command.split_whitespace().chain(more.split_whitespace()).map(place).chain(rounds).collect()
    }

    /// Approximate seconds of a run.
    pub fn estimate(&self, quick: bool) -> f64 {
        if quick { self.quick_seconds } else { self.seconds }
    }
}

/// A figure or table that is not run, with the reason.
#[derive(Debug, Clone, Copy)]
pub struct SkippedFigure {
    pub paper: Paper,
    pub figures: &'static str,
    pub why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_name_in_words() {
        let label = |figure| Experiment { figure, ..Experiment::real(Paper::Aether) }.label();
        let labels = ["3", "8-left", "9-cores", "8-9", "table-1"].map(label);
        assert_eq!(
            labels,
            ["Figure 3", "Figure 8, left", "Figure 9, many cores", "Figures 8 and 9", "Table 1"]
        );
    }
}
