//! Runs cases on real threads, in rounds.

use super::case::{Case, Inserted, Row, Subject};
use super::stall;
use super::sweep::Sweep;
use super::txn::{self, LogFolder};
use crate::grid::turns::{ContinueCheck, in_turn};
use katydid_command::failure::Result;
use katydid_wal::testing::limits::{bare_word, private_rings};
use katydid_wal::testing::rate::{Load, run};
use std::time::Duration;

/// Plan of the rounds.
pub struct Rounds<'a> {
    pub rounds: usize,
    /// Time of each run.
    pub time: Duration,
    /// Iterations of other work in a nanosecond.
    pub turns: f64,
    /// Folder of logs, for the sweep that has logs.
    pub stage: Option<LogFolder>,
    /// Check between runs. Its error ends the measurement.
    pub go_on: ContinueCheck<'a>,
}

impl Rounds<'_> {
    /// Runs every case once in each round.
    pub fn run(&self, sweep: Sweep, cases: Vec<Case>) -> Result<Vec<Row>> {
        let one = |case: &Case, _round| self.one(case);
        in_turn(sweep.name(), self.rounds, cases, self.go_on, Case::words, one)
    }

    fn one(&self, case: &Case) -> Result<Inserted> {
        let work = (case.work_ns * self.turns) as u64;
        let inserter = match case.subject {
            Subject::Design(inserter) => inserter,
            Subject::PrivateRings => {
                return Ok(Inserted::of_tally(&private_rings(
                    case.ring_bytes,
                    case.threads,
                    case.record,
                    self.time,
                )));
            }
            Subject::BareWord => {
                return Ok(Inserted::of_tally(&bare_word(case.ring_bytes, case.record, self.time)));
            }
        };
        match (case.sweep, &self.stage) {
            (Sweep::Stall, _) => stall::measure(case, inserter, work, self.time),
            (Sweep::Txn, Some(stage)) => txn::measure(case, inserter, self.time, stage),
            _ => {
                let load = Load { threads: case.threads, sizes: case.sizes(), work, time: self.time };
                Ok(Inserted::of_tally(&run(&case.options(inserter), &load, |_, _| ())))
            }
        }
    }
}
