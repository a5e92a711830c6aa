//! The experiments, a file for each paper.
//!
//! Pure. Criteria are about shapes: who is ahead, what grows, what stands still. How far a figure of ours is ahead of the paper's best is told
//! beside it and decides nothing.

mod aether;
mod cicada;
mod eleda;
mod flushing;
mod nvlogging;

use super::experiment::{Experiment, SkippedFigure};

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
pub fn not_run() -> Vec<SkippedFigure> {
    [aether::NOT_RUN, eleda::NOT_RUN, flushing::NOT_RUN, nvlogging::NOT_RUN, cicada::NOT_RUN].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::criterion::Verdict;
    use crate::reproduce::rows::Rows;

    #[test]
    fn every_figure_has_claims_our_best_and_the_differences_of_its_set_up() {
        for experiment in experiments() {
            let name = experiment.name();
            assert!(!experiment.criteria.is_empty() && !experiment.differs.is_empty(), "{name}");
            assert!(!(experiment.ours)(&Rows::default()).is_empty(), "{name}");
        }
    }

    #[test]
    fn every_criterion_accepts_the_papers_numbers_and_rejects_its_counter_example() {
        for experiment in experiments() {
            for criterion in experiment.criteria {
                let (claim, system) = criterion.names();
                let name = experiment.name();
                let (paper, rejected) = criterion.verdicts_on_its_examples();
                assert_eq!(paper, Verdict::Same, "{name}, the paper's numbers: {claim}");
                assert_eq!(rejected, Verdict::Another, "{name}, {system}: {claim}");
            }
        }
    }
}
