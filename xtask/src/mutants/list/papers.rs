//! Mechanisms that are kept as a paper has them: each mutant is our own design, or an older form, under the paper's name.

use super::tests::{BASELINES, GROUPING, GROUPS, NV_LOGGING};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "slotted: a sync counts for everything written",
        file: "crates/kernels/src/sync/slotted.rs",
        old: "        self.slots.advance(rounds, end);",
        new: "        self.slots.advance(rounds, rounds.written().max(end));",
        tests: BASELINES,
    },
    Mutant {
        name: "slotted: a wait ends at the durable frontier",
        file: "crates/kernels/src/sync/slotted.rs",
        old: "    fn looks_at_frontiers(&self) -> bool {\n        false",
        new: "    fn looks_at_frontiers(&self) -> bool {\n        true",
        tests: BASELINES,
    },
    Mutant {
        name: "per_commit: one sync serves all queued commits",
        file: "crates/kernels/src/sync/per_commit.rs",
        old: "let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_first();",
        new: "let queued = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));\n            let next = queued.into_iter().last();",
        tests: BASELINES,
    },
    Mutant {
        name: "pipelined: a round begins before its unit is full",
        file: "crates/kernels/src/sync/grouping.rs",
        old: "|| enough(self.bytes, bytes);",
        new: "|| enough(self.bytes / 2, bytes);",
        tests: GROUPING,
    },
    Mutant {
        name: "pipelined: a round of less than a unit waits for twice its time",
        file: "crates/kernels/src/sync/grouping.rs",
        old: "let Some(left) = self.left(rounds, waited())",
        new: "let Some(left) = self.left(rounds, waited() / 2)",
        tests: GROUPING,
    },
    Mutant {
        name: "aether: records above 1,024 bytes form no groups",
        file: "crates/kernels/src/insert/aether/mod.rs",
        old: "let may_group = class == AppendClass::Normal;",
        new: "let may_group = class == AppendClass::Normal && bytes <= 1024;",
        tests: GROUPS,
    },
    Mutant {
        name: "nv_logging: an append sets its entry before its record is persisted",
        file: "crates/wal/src/nvram/entries.rs",
        old: "        self.region.persist(self.heap_at(at), bytes);\n        // SAFETY: passed on.\n        let sum",
        new: "        let _ = bytes;\n        // SAFETY: passed on.\n        let sum",
        tests: NV_LOGGING,
    },
    Mutant {
        name: "nv_logging: an append leaves its entry to the commit",
        file: "crates/wal/src/nvram/entries.rs",
        old: "        self.region.persist(self.entry_at(lsn), ENTRY);\n",
        new: "",
        tests: NV_LOGGING,
    },
    Mutant {
        name: "nv_logging: a commit does not persist the tail",
        file: "crates/wal/src/nvram/pointers.rs",
        old: "        self.region.persist(self.at + TAIL_AT, 8);\n",
        new: "",
        tests: NV_LOGGING,
    },
    Mutant {
        name: "nv_logging: a trim does not persist the head",
        file: "crates/wal/src/nvram/pointers.rs",
        old: "        self.region.persist(self.at + at, HEAD_WORDS * 8);\n",
        new: "",
        tests: NV_LOGGING,
    },
];
