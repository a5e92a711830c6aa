//! Cases on real threads, round by round.

use super::case::{Case, Figures, Row, Subject};
use super::txn::{self, Stage};
use super::{Sweep, stall};
use crate::grid::turns::{GoOn, in_turn};
use katydid_command::failure::Result;
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
    pub go_on: GoOn<'a>,
}

impl Rounds<'_> {
    /// Runs every case as often as there are rounds.
    pub fn run(&self, sweep: Sweep, cases: Vec<Case>) -> Result<Vec<Row>> {
        let one = |case: &Case, _round| self.one(case);
        let rows = in_turn(sweep.name(), self.rounds, cases, self.go_on, Case::words, one)?;
        Ok(rows.into_iter().map(|(case, rounds)| Row { case, rounds }).collect())
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
