//! What an experiment is: a figure of a paper, the command that repeats it, and the criteria that compare the two.
//!
//! Pure.

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
    /// In the order of the report.
    pub const ALL: [Paper; 5] =
        [Paper::Aether, Paper::Eleda, Paper::Flushing, Paper::NvLogging, Paper::Cicada];

    /// Its word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Paper::Aether => "aether",
            Paper::Eleda => "eleda",
            Paper::Flushing => "flushing",
            Paper::NvLogging => "nv-logging",
            Paper::Cicada => "cicada",
        }
    }

    /// As it is cited.
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

/// Where the threads of an experiment run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// This machine's, on its devices.
    Real,
    /// Virtual ones, on a simulated machine with as many cores as the paper's.
    Virtual,
}

/// What a finding asks, what was found, and whether that is so.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub asks: String,
    pub found: String,
    pub holds: bool,
}

/// What came of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// The criteria for the same shape.
    pub findings: Vec<Finding>,
    /// Our best against the paper's.
    pub ours: String,
}

/// Whether a figure has the shape of the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Same,
    InPart,
    Another,
}

impl Verdict {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Same => "same shape",
            Verdict::InPart => "same shape in part",
            Verdict::Another => "another shape",
        }
    }
}

impl Judged {
    /// Asks for a value, shown by `show`, for which `holds` is true.
    pub fn ask(
        &mut self,
        asks: impl Into<String>,
        value: Option<f64>,
        show: impl Fn(f64) -> String,
        holds: impl Fn(f64) -> bool,
    ) {
        let found = value.map_or("no such rows were measured".to_owned(), show);
        self.findings.push(Finding { asks: asks.into(), found, holds: value.is_some_and(holds) });
    }

    /// Asks for at least so many times.
    pub fn ask_times(&mut self, asks: impl Into<String>, value: Option<f64>, least: f64) {
        self.ask(asks, value, |times| format!("{times:.2} times"), |times| times >= least);
    }

    /// The verdict: all criteria, some or none hold.
    pub fn verdict(&self) -> Verdict {
        let holding = self.findings.iter().filter(|finding| finding.holds).count();
        match holding {
            0 => Verdict::Another,
            all if all == self.findings.len() => Verdict::Same,
            _ => Verdict::InPart,
        }
    }
}

/// A ratio, if both are there and the second is not zero.
pub fn ratio(value: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(value? / to.filter(|to| *to > 0.0)?)
}

/// A rate as people read it.
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
    /// Its number in the paper, with a letter if we take it apart.
    pub figure: &'static str,
    pub title: &'static str,
    /// What the paper ran.
    pub ran: &'static str,
    /// What runs here.
    pub here: &'static str,
    /// The paper's headline figure.
    pub headline: &'static str,
    pub threads: Threads,
    /// The command of this program, with `{csv}`, `{svg}` and `{dir}` where its files go.
    pub command: &'static str,
    /// What is added in a full run, and in a quick one.
    pub full: &'static str,
    pub quick: &'static str,
    /// About how long they take on two cores, in seconds.
    pub seconds: f64,
    pub quick_seconds: f64,
    pub judge: fn(&Rows) -> Judged,
}

impl Experiment {
    /// What experiments on this machine's threads have in common; each says the rest itself.
    pub const fn real(paper: Paper) -> Experiment {
        Experiment {
            paper,
            figure: "",
            title: "",
            ran: "",
            here: "",
            headline: "",
            threads: Threads::Real,
            command: "",
            full: "",
            quick: "--rounds 1 --seconds 0.15",
            seconds: 60.0,
            quick_seconds: 15.0,
            judge: |_| Judged { findings: Vec::new(), ours: String::new() },
        }
    }

    /// What experiments on a simulated machine have in common.
    pub const fn simulated(paper: Paper) -> Experiment {
        Experiment {
            threads: Threads::Virtual,
            full: "--millis 10 --rounds 3",
            quick: "--millis 2",
            ..Experiment::real(paper)
        }
    }

    /// The name of its folder, and on the command line with the paper before it.
    pub fn name(&self) -> String {
        format!("{}-{}", self.paper.word(), self.figure)
    }

    /// The arguments, with its files below `folder` and its work in `work`.
    pub fn arguments(&self, quick: bool, folder: &str, work: &str) -> Vec<String> {
        let more = if quick { self.quick } else { self.full };
        let place = |word: &str| {
            word.replace("{csv}", &format!("{folder}/rows.csv"))
                .replace("{svg}", folder)
                .replace("{dir}", work)
        };
        self.command.split_whitespace().chain(more.split_whitespace()).map(place).collect()
    }

    /// About how long it takes.
    pub fn estimate(&self, quick: bool) -> f64 {
        if quick { self.quick_seconds } else { self.seconds }
    }
}

/// A figure or table that is not run, and why.
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
    fn a_verdict_is_what_its_criteria_say() {
        let mut judged = Judged::default();
        judged.ask_times("twice", Some(2.5), 2.0);
        assert_eq!(judged.verdict(), Verdict::Same);
        judged.ask_times("more", None, 1.0);
        assert_eq!((judged.verdict(), judged.findings[1].holds), (Verdict::InPart, false));
        judged.findings.remove(0);
        assert_eq!(judged.verdict(), Verdict::Another);
        assert_eq!((ratio(Some(1.0), Some(0.0)), ratio(Some(1.0), None)), (None, None));
    }
}
