//! Mutants of the simulated point reads.

use super::tests::SIMULATED_READS;
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "simulated reads: a view in a thread's own slot writes the shared clock",
        file: "crates/manycore/src/reads/paged.rs",
        old: "                numbers.clock.look();\n                slot.lists.exchange(1, 0);\n",
        new: "                numbers.clock.edit();\n                slot.lists.exchange(1, 0);\n",
        tests: SIMULATED_READS,
    },
    Mutant {
        name: "simulated reads: a shortcut takes the latch of the root",
        file: "crates/manycore/src/reads/paged.rs",
        old: "            routes.try_read();\n",
        new: "            let root = self.levels[self.levels.len() - 2];\n            self.pin(root, me);\n            \
              self.unpin(root, me);\n            routes.try_read();\n",
        tests: SIMULATED_READS,
    },
    Mutant {
        name: "simulated reads: a biased latch is a word of the frame",
        file: "crates/manycore/src/reads/paged.rs",
        old: "pool.announced[me].publish(page as u64 + 1);",
        new: "frame.body.publish(page as u64 + 1);",
        tests: SIMULATED_READS,
    },
    Mutant {
        name: "simulated reads: a view in a line of its own writes a line that other views read",
        file: "crates/manycore/src/reads/memory.rs",
        old: "                own.publish(tick);\n                self.writers",
        new: "                self.writers[me].publish(tick);\n                self.writers",
        tests: SIMULATED_READS,
    },
    Mutant {
        name: "simulated reads: a reader in an epoch takes the mutex of the versions",
        file: "crates/manycore/src/reads/memory.rs",
        old: "self.parts.records == Records::Epochs",
        new: "self.parts.records == Records::Epochs && txn.has_entered != true",
        tests: SIMULATED_READS,
    },
    Mutant {
        name: "simulated reads: the distributions of rows are exchanged",
        file: "crates/manycore/src/reads/keys.rs",
        old: "(choice == KeyChoice::Zipfian)",
        new: "(choice == KeyChoice::Uniform)",
        tests: SIMULATED_READS,
    },
    Mutant {
        name: "simulated reads: a run measures the warming of caches, too",
        file: "crates/manycore/src/reads/mod.rs",
        old: "(end.saturating_sub(warm) as f64 / 1e12)",
        new: "(end.saturating_sub(warm / 2 + warm % 2) as f64 / 1e12)",
        tests: SIMULATED_READS,
    },
];
