//! Who keeps and follows the log: pins, followers.

use super::tests::{FOLLOW, PINS};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a trim does not look at pins",
        file: "crates/wal/src/retention.rs",
        old: "                bound = bound.min(held.from[stream]);\n",
        new: "                let _ = held;\n",
        tests: PINS,
    },
    Mutant {
        name: "a follower gives what is only written",
        file: "crates/wal/src/follow.rs",
        old: "self.0.frontiers().durable().min(readable)",
        new: "readable",
        tests: FOLLOW,
    },
    Mutant {
        name: "a follower sleeps without a look after its waker was registered",
        file: "crates/wal/src/follow.rs",
        old: "waker, || settled(core))",
        new: "waker, || core.is_over())",
        tests: FOLLOW,
    },
];
