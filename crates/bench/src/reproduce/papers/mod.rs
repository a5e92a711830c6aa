//! The experiments, a file for each paper.
//!
//! Pure. Criteria are about shapes: who is ahead, what grows, what stands still. How far a figure of ours is ahead of the paper's best is told
//! beside it and decides nothing.

mod aether;
mod cicada;
mod eleda;
mod flushing;
mod nvlogging;

use super::experiment::{Experiment, Judged, Left, Paper, Threads};

/// What experiments on this machine's threads have alike; each says the rest itself.
const fn real(paper: Paper) -> Experiment {
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

/// The same on a simulated machine.
const fn simulated(paper: Paper) -> Experiment {
    Experiment {
        threads: Threads::Virtual,
        full: "--millis 10 --rounds 3",
        quick: "--millis 2",
        ..real(paper)
    }
}

/// All experiments, in the order of the report.
pub fn experiments() -> Vec<Experiment> {
    [
        aether::EXPERIMENTS,
        eleda::EXPERIMENTS,
        flushing::EXPERIMENTS,
        nvlogging::EXPERIMENTS,
        cicada::EXPERIMENTS,
    ]
    .concat()
}

/// What is not run.
pub fn left() -> Vec<Left> {
    [aether::LEFT, eleda::LEFT, flushing::LEFT, nvlogging::LEFT, cicada::LEFT].concat()
}
