//! Mutants of the log: writes, syncs, acknowledgements, logs in NVRAM.

use super::tests::{CRASH, GROWING, LEADING, LOG_BACKGROUND, NVRAM_COMMITS, NVRAM_ENTRIES};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a commit is acknowledged when it is written",
        file: "crates/wal/src/core.rs",
        old: "        if self.buffer.frontiers.reached(end, level) {\n            return Some(Ok(()));",
        new: "        if self.buffer.frontiers.reached(end, level.min(Durability::Written)) {\n            return Some(Ok(()));",
        tests: CRASH,
    },
    Mutant {
        name: "the log's sync does nothing",
        file: "crates/wal/src/files/writer.rs",
        old: "            self.segments.sync(from, to)\n        } else if again",
        new: "            Ok(())\n        } else if again",
        tests: CRASH,
    },
    Mutant {
        name: "the frontiers pass a write that is under way",
        file: "crates/wal/src/files/writer.rs",
        old: "while leader.flights.front().is_some_and(|first| first.ended) {",
        new: "while leader.flights.front().is_some() {",
        tests: LEADING,
    },
    Mutant {
        name: "the place within a record where a sync ends is remembered as durable",
        file: "crates/wal/src/files/writer.rs",
        old: "(leader.durable, core.buffer.frontiers.written(), self.readable())",
        new: "(leader.durable, core.buffer.frontiers.written(), core.buffer.frontiers.written())",
        tests: LEADING,
    },
    Mutant {
        name: "a durable write of the log is an ordinary one",
        file: "crates/wal/src/files/writer.rs",
        old: "let mode = if write.durable { WriteMode::Durable } else { WriteMode::Written };",
        new: "let mode = WriteMode::Written;",
        tests: CRASH,
    },
    Mutant {
        name: "nvram: a commit persists nothing",
        file: "crates/wal/src/nvram/medium.rs",
        old: "            let persisted = self.store.memory().persist(from, to);\n",
        new: "            let persisted = from <= to;\n",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: a crash of the memory is not checked before a commit is acknowledged",
        file: "crates/wal/src/nvram/medium.rs",
        old: "            moved = !self.has_crashed(core) && persisted;\n",
        new: "            moved = persisted;\n",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: a commit wakes no future",
        file: "crates/wal/src/nvram/medium.rs",
        old: "        if moved {\n            core.after_progress();\n        }",
        new: "        let _ = moved;",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nv_entries: an entry takes any whole object that lies at its place",
        file: "crates/wal/src/nvram/entries.rs",
        old: "                    && sum_of(start) == sum\n",
        new: "                    && { let _ = sum; true }\n",
        tests: NVRAM_ENTRIES,
    },
    Mutant {
        name: "nvram: entries are set before their records are persisted",
        file: "crates/wal/src/nvram/entries.rs",
        old: "        self.region.fence();\n        for lsn in entries {",
        new: "        for lsn in entries {",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: appenders set their entries",
        file: "crates/wal/src/nvram/entries.rs",
        old: "        let word = (at / ENTRY) << 32;\n",
        new: "        let sum = u64::from(unsafe { self.object_sum(at) });\n        let word = self.lap(lsn) | sum << 16 | (at / ENTRY) << 32;\n",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: a request for durability is left to other threads",
        file: "crates/wal/src/core.rs",
        old: "!self.buffer.frontiers.reached(end, level) && !self.medium.try_here(self, end, level)",
        new: "false && !self.medium.try_here(self, end, level)",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nothing is written behind the appenders",
        file: "crates/wal/src/core.rs",
        old: ">= 2 * self.write_behind_step {",
        new: ">= u64::MAX {",
        tests: LOG_BACKGROUND,
    },
    Mutant {
        name: "appenders request a write of whatever is filled",
        file: "crates/wal/src/core.rs",
        old: ">= 2 * self.write_behind_step {",
        new: ">= 1 {",
        tests: LOG_BACKGROUND,
    },
    Mutant {
        name: "a young log prepares no more ahead than its ring holds",
        file: "crates/wal/src/files/mod.rs",
        old: "at.min(segment_bytes).max(ring_bytes).min(young_bytes(at))",
        new: "ring_bytes.min(young_bytes(at))",
        tests: GROWING,
    },
];
