//! Criteria. A criterion consists of three parts: a claim of a paper's text, as an inequality with
//! two bounds; numbers that must satisfy the claim; and numbers that must not satisfy it.
//!
//! Pure functions. Invariants:
//!
//! 1. A criterion cannot be made without the paper's numbers and a counter-example:
//!    [`Criterion::new`], the only constructor, takes both.
//! 2. A test in the module `papers` judges these numbers of every criterion. The paper's numbers
//!    must give [`Verdict::Same`], and the counter-example's numbers [`Verdict::Another`].
//! 3. A decided answer needs at least [`ROUNDS_MIN`] rounds. The answer is [`Answer::NotDecided`]
//!    in three cases: there are fewer rounds; a round lacks a row that the claim needs; the
//!    interval crosses a bound. A row is missing, for example, if a quick run leaves out a number
//!    of threads.
//! 4. An answer from simulated rows is decided only if it is the same for every machine within the
//!    simulator's stated error. If not, it is [`Answer::WithinError`].

use super::example;
use super::interval::{Interval, ROUNDS_MIN};
use super::rows::Rows;

/// The number that a claim compares, from the rows of one round; `None` if a row that it needs is
/// missing.
pub type Quantity = fn(&Rows) -> Option<f64>;

/// Unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A ratio of two numbers.
    Times,
    /// A share of a whole, from 0 to 1, shown as a percentage.
    Share,
    /// A difference of two shares, shown in percentage points.
    Points,
    /// A count.
    Count,
    /// Megabytes per second.
    Megabytes,
}

impl Unit {
    fn shown(self, value: f64) -> String {
        match self {
            Unit::Times if value.abs() >= 100.0 => format!("{value:.0} x"),
            Unit::Times => format!("{value:.2} x"),
            Unit::Share => format!("{:.0} %", 100.0 * value),
            Unit::Points => format!("{:+.0} points", 100.0 * value),
            Unit::Count => format!("{value:.1}"),
            Unit::Megabytes => format!("{value:.0} MB/s"),
        }
    }
}

/// The values for which a claim holds: strictly between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub above: f64,
    pub below: f64,
}

/// The paper's own numbers, as tables (see [`example`]). Where the paper only has a picture, the
/// numbers are estimates that agree with its text.
#[derive(Debug, Clone, Copy)]
pub struct PaperRows(pub &'static str);

/// A system that lacks the paper's effect, with numbers that it could have, as tables (see
/// [`example`]).
#[derive(Debug, Clone, Copy)]
pub struct CounterExample {
    pub system: &'static str,
    pub rows: &'static str,
}

/// Origin of rows, which decides the error that they may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// Rows of real threads. The only error is the difference between rounds.
    Measured,
    /// Rows of virtual threads, which are correct within this factor (`docs/manycore.md`, "How far
    /// to trust it").
    Simulated { factor: f64 },
}

/// One claim, as the head of this file describes.
#[derive(Debug, Clone, Copy)]
pub struct Criterion {
    claim: &'static str,
    section: &'static str,
    unit: Unit,
    quantity: Quantity,
    bounds: Bounds,
    paper: PaperRows,
    rejects: CounterExample,
    source: Source,
}

/// Reason why a criterion is not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// A round lacks rows that the claim needs.
    RowsMissing,
    TooFewRounds(usize),
    /// The interval of the rounds contains a bound.
    Crosses,
}

/// Answer that rows give to a criterion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Holds,
    Fails,
    /// The claim holds or fails for the simulated machine, but not for every machine within the
    /// simulator's error.
    WithinError,
    NotDecided(Undecided),
}

impl Answer {
    /// The answer in words.
    pub fn words(self) -> String {
        match self {
            Answer::Holds => "holds".to_owned(),
            Answer::Fails => "does not hold".to_owned(),
            Answer::WithinError => "within error".to_owned(),
            Answer::NotDecided(Undecided::RowsMissing) => "not decided: rows are missing".to_owned(),
            Answer::NotDecided(Undecided::TooFewRounds(rounds)) => {
                format!("not decided: {rounds} of {ROUNDS_MIN} rounds")
            }
            Answer::NotDecided(Undecided::Crosses) => "not decided: the rounds lie on both sides".to_owned(),
        }
    }
}

/// Verdict on whether a figure has the shape of the paper's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Same,
    InPart,
    Another,
    WithinError,
    NotDecided,
}

impl Verdict {
    /// The verdict on a figure. If a claim fails, the verdict is [`Verdict::InPart`] if another
    /// claim holds, and [`Verdict::Another`] if none holds. If no claim fails, the first of these
    /// answers that occurs decides: not decided, within error, holds.
    pub fn of(answers: impl IntoIterator<Item = Answer>) -> Verdict {
        let (mut holds, mut fails, mut within, mut open) = (false, false, false, false);
        for answer in answers {
            match answer {
                Answer::Holds => holds = true,
                Answer::Fails => fails = true,
                Answer::WithinError => within = true,
                Answer::NotDecided(_) => open = true,
            }
        }
        match (fails, holds) {
            (true, true) => Verdict::InPart,
            (true, false) => Verdict::Another,
            (false, _) if open => Verdict::NotDecided,
            (false, _) if within => Verdict::WithinError,
            (false, true) => Verdict::Same,
            (false, false) => Verdict::NotDecided,
        }
    }

    /// The verdict in words.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Same => "same shape",
            Verdict::InPart => "same shape in part",
            Verdict::Another => "another shape",
            Verdict::WithinError => "within error",
            Verdict::NotDecided => "not decided",
        }
    }
}

/// Result of one criterion, as the report shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub claim: String,
    /// Section in which the paper makes the claim.
    pub section: String,
    /// The bounds in words.
    pub asked: String,
    /// The system that these bounds reject, with its value.
    pub rejects: String,
    /// The paper's value.
    pub paper: String,
    /// Our median, with its interval.
    pub ours: String,
    pub answer: Answer,
}

impl Criterion {
    /// A criterion for measured rows. `section` is the place of the claim in the paper.
    pub const fn new(
        claim: &'static str,
        section: &'static str,
        (unit, quantity): (Unit, Quantity),
        bounds: Bounds,
        paper: PaperRows,
        rejects: CounterExample,
    ) -> Criterion {
        assert!(bounds.above < bounds.below, "a criterion's bounds enclose nothing");
        Criterion { claim, section, unit, quantity, bounds, paper, rejects, source: Source::Measured }
    }

    /// This criterion for rows that are correct within a factor.
    pub const fn simulated(self, factor: f64) -> Criterion {
        assert!(factor >= 1.0, "an error is a factor of at least 1");
        Criterion { source: Source::Simulated { factor }, ..self }
    }

    /// Applies the criterion to rounds. `rounds` has the rows of each round.
    pub fn find(&self, rounds: &[Rows]) -> Finding {
        let values: Vec<f64> = rounds.iter().filter_map(self.quantity).collect();
        let interval = Interval::of(&values);
        let answer = match interval {
            Some(_) if values.len() < rounds.len() => Answer::NotDecided(Undecided::RowsMissing),
            Some(interval) => self.answer(interval),
            None => Answer::NotDecided(Undecided::RowsMissing),
        };
        Finding {
            claim: self.claim.to_owned(),
            section: self.section.to_owned(),
            asked: self.asked(),
            rejects: self.rejected(),
            paper: self.of_paper().map_or("-".to_owned(), |value| self.unit.shown(value)),
            ours: interval.map_or("-".to_owned(), |interval| self.shown(interval)),
            answer,
        }
    }

    fn answer(&self, interval: Interval) -> Answer {
        if interval.rounds < ROUNDS_MIN {
            return Answer::NotDecided(Undecided::TooFewRounds(interval.rounds));
        }
        let Bounds { above, below } = self.bounds;
        let inside = |low: f64, high: f64| low > above && high < below;
        let outside = |low: f64, high: f64| high <= above || low >= below;
        let (low, high) = self.widened(interval);
        if !inside(interval.low, interval.high) && !outside(interval.low, interval.high) {
            Answer::NotDecided(Undecided::Crosses)
        } else if inside(low, high) {
            Answer::Holds
        } else if outside(low, high) {
            Answer::Fails
        } else {
            Answer::WithinError
        }
    }

    /// The interval, widened by the simulator's error. For a share, the factor is applied to the
    /// ratio of the share to the rest of the whole. A difference of shares is widened by the amount
    /// by which a share of one half would be widened.
    fn widened(&self, Interval { low, high, .. }: Interval) -> (f64, f64) {
        let Source::Simulated { factor } = self.source else { return (low, high) };
        let share = |share: f64, factor: f64| share * factor / (share * factor + 1.0 - share);
        match self.unit {
            Unit::Times | Unit::Count | Unit::Megabytes => (low / factor, high * factor),
            Unit::Share => (share(low, 1.0 / factor), share(high, factor)),
            Unit::Points => {
                let points = share(0.5, factor) - 0.5;
                (low - points, high + points)
            }
        }
    }

    /// The value of the paper's numbers.
    fn of_paper(&self) -> Option<f64> {
        (self.quantity)(&example::rows(self.paper.0))
    }

    fn rejected(&self) -> String {
        let CounterExample { system, rows } = self.rejects;
        match (self.quantity)(&example::rows(rows)) {
            Some(value) => format!("{system}: {}", self.unit.shown(value)),
            None => system.to_owned(),
        }
    }

    fn asked(&self) -> String {
        let Bounds { above, below } = self.bounds;
        format!("{} to {}", self.unit.shown(above), self.unit.shown(below))
    }

    fn shown(&self, Interval { rounds, low, median, high }: Interval) -> String {
        let shown = |value| self.unit.shown(value);
        match rounds {
            1 => shown(median),
            _ => format!("{} ({} to {})", shown(median), shown(low), shown(high)),
        }
    }
}

#[cfg(test)]
impl Criterion {
    /// The verdicts on the paper's numbers and on the counter-example's numbers. Each set of
    /// numbers is judged as if every round had these numbers, and without the simulator's error,
    /// because neither set comes from a simulation.
    pub fn verdicts_on_its_examples(&self) -> (Verdict, Verdict) {
        let measured = Criterion { source: Source::Measured, ..*self };
        let verdict = |rows: &str| {
            let rounds = vec![example::rows(rows); ROUNDS_MIN];
            Verdict::of([measured.find(&rounds).answer])
        };
        (verdict(self.paper.0), verdict(self.rejects.rows))
    }

    /// The claim, and the system that it must reject.
    pub fn names(&self) -> (&'static str, &'static str) {
        (self.claim, self.rejects.system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAIN: Criterion = Criterion::new(
        "two are faster than one",
        "1",
        (Unit::Times, |rows| rows.all().only("gain")),
        Bounds { above: 1.5, below: 4.0 },
        PaperRows("gain over threads 2\n: 2"),
        CounterExample { system: "a lock", rows: "gain over threads 2\n: 1" },
    );

    fn rounds(gains: &[f64]) -> Vec<Rows> {
        gains.iter().map(|gain| Rows::parse(&format!("gain\n{gain}\n"))).collect()
    }

    fn answer(criterion: &Criterion, gains: &[f64]) -> Answer {
        criterion.find(&rounds(gains)).answer
    }

    #[test]
    fn an_answer_needs_all_of_the_interval_on_one_side() {
        assert_eq!(answer(&GAIN, &[1.6, 2.0, 2.0, 2.0, 3.9]), Answer::Holds);
        assert_eq!(answer(&GAIN, &[1.0, 1.1, 1.2, 1.3, 1.4]), Answer::Fails);
        assert_eq!(answer(&GAIN, &[5.0; 5]), Answer::Fails, "a bound has two sides");
        assert_eq!(answer(&GAIN, &[1.5; 5]), Answer::Fails, "a tie is no gain");
        assert_eq!(answer(&GAIN, &[1.4, 2.0, 2.0, 2.0, 2.0]), Answer::NotDecided(Undecided::Crosses));
        // The least of nine rounds may lie outside the bounds.
        assert_eq!(answer(&GAIN, &[1.4, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]), Answer::Holds);
    }

    #[test]
    fn few_rounds_and_missing_rows_decide_nothing() {
        assert_eq!(answer(&GAIN, &[2.0; 4]), Answer::NotDecided(Undecided::TooFewRounds(4)));
        assert_eq!(answer(&GAIN, &[]), Answer::NotDecided(Undecided::RowsMissing));
        let mut rounds = rounds(&[2.0; 6]);
        rounds[3] = Rows::parse("gain\n");
        assert_eq!(GAIN.find(&rounds).answer, Answer::NotDecided(Undecided::RowsMissing));
    }

    #[test]
    fn simulated_rows_hold_beyond_the_error_only() {
        let simulated = GAIN.simulated(1.2);
        assert_eq!(answer(&simulated, &[2.0; 5]), Answer::Holds);
        assert_eq!(answer(&simulated, &[1.7; 5]), Answer::WithinError);
        assert_eq!(answer(&simulated, &[1.3; 5]), Answer::WithinError);
        assert_eq!(answer(&simulated, &[1.2; 5]), Answer::Fails);
    }

    #[test]
    fn a_figure_is_the_same_only_if_every_claim_holds() {
        let open = Answer::NotDecided(Undecided::Crosses);
        for (answers, verdict) in [
            (&[Answer::Holds, Answer::Holds][..], Verdict::Same),
            (&[Answer::Holds, Answer::WithinError], Verdict::WithinError),
            (&[Answer::Holds, Answer::WithinError, open], Verdict::NotDecided),
            (&[Answer::Holds, Answer::Fails, open], Verdict::InPart),
            (&[Answer::Fails, open], Verdict::Another),
            (&[], Verdict::NotDecided),
        ] {
            assert_eq!(Verdict::of(answers.iter().copied()), verdict, "{answers:?}");
        }
    }

    #[test]
    fn a_finding_shows_bounds_paper_and_rounds() {
        let finding = GAIN.find(&rounds(&[2.0, 2.5, 3.0, 3.5, 3.75]));
        assert_eq!(
            (finding.asked.as_str(), finding.paper.as_str(), finding.ours.as_str()),
            ("1.50 x to 4.00 x", "2.00 x", "3.00 x (2.00 x to 3.75 x)")
        );
    }
}
