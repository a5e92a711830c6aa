//! Who keeps and follows the log: pins.

use super::tests::PINS;
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[Mutant {
    name: "a trim does not look at pins",
    file: "crates/wal/src/retention.rs",
    old: "                bound = bound.min(held.from[stream]);\n",
    new: "                let _ = held;\n",
    tests: PINS,
}];
