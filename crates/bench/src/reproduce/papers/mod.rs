//! The experiments, in one folder for each paper.
//!
//! Pure functions. Criteria are about shapes: which system is ahead, what grows, what stands still.
//! The report also prints our lead over the paper's best system, which does not affect the verdict.

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

/// Figures that are not run, with the reasons.
pub fn not_run() -> Vec<SkippedFigure> {
    [aether::NOT_RUN, eleda::NOT_RUN, flushing::NOT_RUN, nvlogging::NOT_RUN, cicada::NOT_RUN].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::criterion::Verdict;
    use crate::reproduce::rows::Rows;
    use std::path::Path;

    #[test]
    fn every_figure_has_claims_our_best_and_the_differences_of_its_set_up() {
        for experiment in experiments() {
            let name = experiment.name();
            assert!(!experiment.criteria.is_empty() && !experiment.differs.is_empty(), "{name}");
            assert!(!(experiment.ours)(&Rows::default()).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_list_of_mechanisms_names_files_that_exist_and_every_figure_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list = std::fs::read_to_string(root.join("docs/papers.md")).unwrap();
        let code = || list.split('`').skip(1).step_by(2);
        let files: Vec<&str> =
            code().filter(|word| word.starts_with("crates/") && word.contains("/src/")).collect();
        assert!(files.len() > 40, "{files:?}");
        for file in files {
            assert!(root.join(file).is_file(), "{file}");
        }
        let figures: Vec<String> = experiments()
            .iter()
            .map(|experiment| {
                format!("lab reproduce {} --figure {}", experiment.paper.word(), experiment.figure)
            })
            .collect();
        for figure in &figures {
            assert_eq!(code().filter(|word| word == figure).count(), 1, "{figure}");
        }
        let commands = code().filter(|word| word.starts_with("lab reproduce"));
        for command in commands {
            assert!(figures.iter().any(|figure| figure == command), "no such figure: {command}");
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
