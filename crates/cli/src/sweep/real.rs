//! Cases on real threads, round by round.

use super::case::{Case, Figures, Row, Subject};
use super::txn::{self, Stage};
use super::{Sweep, stall};
use crate::failure::Result;
use crate::progress::Progress;
use katydid_wal::testing::limits::{bare_word, private_rings};
use katydid_wal::testing::rate::{Load, Tally, run};
use std::time::Duration;

/// How to run.
pub struct Rounds<'a> {
    pub rounds: usize,
    /// Of each run.
    pub time: Duration,
    /// Of other work, in a nanosecond.
    pub turns: f64,
    /// Where logs are, for the sweep that has them.
    pub stage: Option<Stage>,
    /// Asked between runs; an error ends everything.
    pub go_on: &'a dyn Fn() -> Result<()>,
}

impl Rounds<'_> {
    /// Runs every case as often as there are rounds, every second round from the end, so that what drifts hits all alike.
    pub fn run(&self, sweep: Sweep, cases: Vec<Case>) -> Result<Vec<Row>> {
        let mut progress = Progress::new(sweep.name());
        let runs = self.rounds * cases.len();
        let mut rows: Vec<Row> = cases.into_iter().map(|case| Row { case, rounds: Vec::new() }).collect();
        for number in 0..runs {
            let (round, at) = (number / rows.len(), number % rows.len());
            let at = if round.is_multiple_of(2) { at } else { rows.len() - 1 - at };
            (self.go_on)()?;
            let row = &mut rows[at];
            progress.show(Some(number as f64 / runs as f64), || {
                format!("round {} of {}: {}", round + 1, self.rounds, row.case.words())
            });
            row.rounds.push(self.one(&row.case)?);
        }
        Ok(rows)
    }

    fn one(&self, case: &Case) -> Result<Figures> {
        let work = (case.work_ns * self.turns) as u64;
        let inserter = match case.subject {
            Subject::Design(inserter) => inserter,
            Subject::PrivateRings => {
                return Ok(figures(&private_rings(case.ring_bytes, case.threads, case.record, self.time)));
            }
            Subject::BareWord => return Ok(figures(&bare_word(case.ring_bytes, case.record, self.time))),
        };
        match (case.sweep, &self.stage) {
            (Sweep::Stall, _) => stall::measure(case, inserter, work, self.time),
            (Sweep::Txn, Some(stage)) => txn::measure(case, inserter, self.time, stage),
            _ => {
                let load = Load { threads: case.threads, sizes: case.sizes(), work, time: self.time };
                Ok(figures(&run(&case.options(inserter), &load, |_, _| ())))
            }
        }
    }
}

/// What a tally says.
pub fn figures(tally: &Tally) -> Figures {
    Figures {
        records: tally.records,
        records_per_second: tally.records_per_second(),
        megabytes_per_second: tally.bytes as f64 / tally.seconds / 1e6,
        of_one_thread: tally.of_one_thread,
        travelled: tally.travelled,
        times: None,
        look_us: None,
        refused: None,
        events: None,
    }
}
