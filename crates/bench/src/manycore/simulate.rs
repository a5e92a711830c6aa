//! Runs as many simulations at a time as there are real cores. Each simulation runs on one thread,
//! so the number of simulations at a time changes no result.

use katydid_command::failure::{Failure, Result};
use katydid_command::progress::Progress;
use katydid_manycore::{Machine, Outcome, Plan, RunError, run};
use std::sync::{Mutex, PoisonError};

/// Runs the plans. Returns their outcomes, in the order of the plans.
pub fn simulate(machine: &Machine, what: &str, plans: Vec<Plan>) -> Result<Vec<Outcome>> {
    let count = plans.len();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    let todo = Mutex::new((plans.into_iter().enumerate(), Progress::new(what)));
    let next = || {
        let (plans, progress) = &mut *todo.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, plan) = plans.next()?;
        progress.show(Some(number as f64 / count as f64), || {
            format!("{} of {count}: {}, {} threads", number + 1, plan.inserter, plan.threads)
        });
        Some((number, plan))
    };
    let work = || {
        let mut done = Vec::new();
        while let Some((number, plan)) = next() {
            done.push((number, run(machine, &plan)?));
        }
        Ok::<_, RunError>(done)
    };
    let mut outcomes = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => outcomes.extend(done.map_err(failed)?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, Failure>(())
    })?;
    outcomes.sort_by_key(|(number, _)| *number);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

fn failed(error: RunError) -> Failure {
    match error {
        RunError::Design { .. } | RunError::Range { .. } => Failure::usage(error),
        _ => Failure::failed(error),
    }
}
