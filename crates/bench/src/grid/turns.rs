//! Rounds of a measurement. Each round runs every case once. Every second round runs the cases in
//! reverse order, so a slow drift of the machine affects all cases alike.

use super::row::Row;
use katydid_command::failure::{Failure, Result};
use katydid_command::progress::Progress;
use katydid_command::signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Check before each run. Its error ends the measurement.
pub type ContinueCheck<'a> = &'a dyn Fn() -> Result<()>;

/// Makes a check that fails once a signal has asked the program to stop.
pub fn signal_check() -> Result<impl Fn() -> Result<()>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    // Relaxed: the flag guards no other memory.
    signals::on_stop(move || asked.store(true, Ordering::Relaxed))?;
    Ok(move || match stop.load(Ordering::Relaxed) {
        true => Err(Failure::failed("stopped by a signal")),
        false => Ok(()),
    })
}

/// Runs every case once in each round. Returns a row for each case, in the order of `cases`. `one`
/// receives the number of the round, from 0.
pub fn in_turn<C, R>(
    name: &str,
    rounds: usize,
    cases: Vec<C>,
    go_on: ContinueCheck<'_>,
    words: impl Fn(&C) -> String,
    mut one: impl FnMut(&C, usize) -> Result<R>,
) -> Result<Vec<Row<C, R>>> {
    let mut progress = Progress::new(name);
    let runs = rounds * cases.len();
    let mut rows: Vec<Row<C, R>> = cases.into_iter().map(|case| Row { case, rounds: Vec::new() }).collect();
    for number in 0..runs {
        let (round, at) = (number / rows.len(), number % rows.len());
        let at = if round.is_multiple_of(2) { at } else { rows.len() - 1 - at };
        go_on()?;
        let Row { case, rounds: done } = &mut rows[at];
        progress.show(Some(number as f64 / runs as f64), || {
            format!("round {} of {rounds}: {}", round + 1, words(case))
        });
        done.push(one(case, round)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn every_case_has_run_once_before_any_runs_again() {
        let order = RefCell::new(Vec::new());
        let one = |case: &char, round: usize| {
            order.borrow_mut().push((round, *case));
            Ok(round)
        };
        let rows = in_turn("t", 3, vec!['a', 'b'], &|| Ok(()), char::to_string, one).unwrap();
        let row = |case| Row { case, rounds: vec![0, 1, 2] };
        assert_eq!(rows, [row('a'), row('b')]);
        assert_eq!(*order.borrow(), [(0, 'a'), (0, 'b'), (1, 'b'), (1, 'a'), (2, 'a'), (2, 'b')]);
    }
}
