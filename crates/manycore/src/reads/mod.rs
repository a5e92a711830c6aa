//! Runs of transactions that only read: point reads of cached rows, by the paged engine's and the
//! memory engine's designs, and by designs that would write fewer shared words.
//!
//! A run shows which shared word limits the reads of many cores. It is a model of the engines' read
//! paths and not their code, except the memory engine's clock and slots: `paged`, `memory` and
//! `opening` list the modelled words and name the originals. Memory that no reader writes costs
//! every core the same. It is part of the constant work, unless it lies in a line with a word that
//! readers write. No thread writes rows.

mod keys;
mod memory;
mod opening;
mod paged;
mod parts;
mod plan;
mod words;

use crate::run::RunError;
use katydid_virtual_machine::Machine;
use katydid_virtual_machine::vm::{self, Body};
use keys::Draw;
use memory::Memory;
use paged::Paged;
use plan::{Model, Parts, check};
use std::cell::RefCell;
use std::rc::Rc;

pub use keys::KeyChoice;
pub use plan::{READ_DESIGNS, ReadDesign, ReadEngine, ReadOutcome, ReadPlan};

/// Runs a plan.
///
/// # Errors
/// A [`RunError`] if a value of the plan is out of range, the design hangs, or the simulation
/// cannot start.
pub fn run_reads(machine: &Machine, plan: &ReadPlan) -> Result<ReadOutcome, RunError> {
    check(plan)?;
    match plan.design.parts {
        Parts::Paged(parts) => run(machine, plan, Paged::new(parts, plan)),
        Parts::Memory(parts) => run(machine, plan, Memory::new(parts, plan)),
    }
}

/// Duration of a thread's warming for each page, in picoseconds. It is longer than any access.
const WARMING: u64 = 300_000;

fn run<M: Model + 'static>(machine: &Machine, plan: &ReadPlan, model: M) -> Result<ReadOutcome, RunError> {
    let pages = plan.rows.div_ceil(plan.rows_per_leaf) * 2;
    let warm = WARMING * pages.div_ceil(plan.threads) as u64;
    let deadline = warm + (plan.millis * 1e9) as u64;
    let model = Rc::new(model);
    // The number of reads, and the time at which the last one ended.
    let done = Rc::new(RefCell::new((0_u64, 0_u64)));
    let bodies = (0..plan.threads)
        .map(|me| -> Body {
            let (model, done, plan) = (Rc::clone(&model), Rc::clone(&done), plan.clone());
            let draw = Draw::new(plan.keys, plan.rows, plan.seed << 16 | me as u64);
            Box::new(move || {
                let begun = vm::now();
                model.warm(me, plan.threads);
                // Threads begin to read at the random distances at which they started.
                vm::work((begun + warm).saturating_sub(vm::now()));
                let reads = read(&*model, me, &plan, draw, deadline);
                let mut done = done.borrow_mut();
                *done = (done.0 + reads, done.1.max(vm::now()));
            })
        })
        .collect();
    let report = vm::simulate(machine, plan.seed, bodies)?;
    let (reads, end) = *done.borrow();
    let per_second = reads as f64 / (end.saturating_sub(warm) as f64 / 1e12);
    Ok(ReadOutcome { reads, per_second, events: report.events })
}

/// Reads until the deadline, and returns the number of reads.
fn read<M: Model>(model: &M, me: usize, plan: &ReadPlan, mut draw: Draw, deadline: u64) -> u64 {
    let begin = (plan.begin_ns * 1e3) as u64;
    let mut reads = 0;
    while vm::now() < deadline {
        vm::work(begin / 2);
        let mut txn = model.begin(me);
        for _ in 0..plan.reads {
            model.read(&mut txn, me, draw.row());
        }
        vm::work(begin - begin / 2);
        model.end(txn, me);
        reads += plan.reads as u64;
    }
    reads
}
