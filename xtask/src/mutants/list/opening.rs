//! One opening of a database: handles of another one, and the order in which an opening ends.

use super::tests::{CLOSING, HANDLES, OPENING};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "all openings have one number",
        file: "crates/engine/src/opening/mod.rs",
        old: "OpeningId(NEXT.fetch_add(1, Ordering::Relaxed))",
        new: "OpeningId(NEXT.fetch_add(0, Ordering::Relaxed))",
        tests: HANDLES,
    },
    Mutant {
        name: "a table of another opening is used",
        file: "crates/engine/src/table.rs",
        old: "if self.opening == opening { Ok(()) } else { Err(self.foreign()) }",
        new: "if self.opening == opening || opening != self.opening { Ok(()) } else { Err(self.foreign()) }",
        tests: HANDLES,
    },
    Mutant {
        name: "a range reads a table of another opening",
        file: "crates/engine/src/transaction.rs",
        old: "        if let Err(foreign) = table.check(self.opening) {\n            return Range::new(&self.of, Err(foreign));\n        }\n",
        new: "",
        tests: HANDLES,
    },
    Mutant {
        name: "a session of another opening takes commits",
        file: "crates/engine/src/transaction.rs",
        old: "let refused = if session.opening == self.opening {",
        new: "let refused = if session.opening == self.opening || self.opening != session.opening {",
        tests: HANDLES,
    },
    Mutant {
        name: "a savepoint of another opening is gone back to",
        file: "crates/engine/src/transaction.rs",
        old: "if (savepoint.opening, savepoint.txn) != (self.opening, self.id()) {",
        new: "if savepoint.txn != self.id() {",
        tests: HANDLES,
    },
    Mutant {
        name: "closing does not wait for calls under way",
        file: "crates/engine/src/opening/mod.rs",
        old: "        engine.end_waits();\n        self.calls.drain();\n",
        new: "        engine.end_waits();\n",
        tests: CLOSING,
    },
    Mutant {
        name: "closing does not wait for visits under way",
        file: "crates/engine/src/opening/mod.rs",
        old: "        self.calls.refuse(ENDING);\n        self.calls.drain();\n",
        new: "        self.calls.refuse(ENDING);\n",
        tests: CLOSING,
    },
    Mutant {
        name: "calls enter while the database is being closed",
        file: "crates/engine/src/opening/mod.rs",
        old: "        self.calls.refuse(CLOSING);\n",
        new: "",
        tests: CLOSING,
    },
    Mutant {
        name: "visits are refused as soon as calls are",
        file: "crates/engine/src/opening/mod.rs",
        old: "self.calls.enter(ENDING).ok_or(Error::Closed)?",
        new: "self.calls.enter(CLOSING).ok_or(Error::Closed)?",
        tests: CLOSING,
    },
    Mutant {
        name: "the directory is given back before the last checkpoint",
        file: "crates/engine/src/opening/mod.rs",
        old: "        last.outcome = engine.finish();\n",
        new: "        drop(self.directory_lock.lock().take());\n        last.outcome = engine.finish();\n",
        tests: CLOSING,
    },
    Mutant {
        name: "a second caller of close returns at once",
        file: "crates/engine/src/opening/mod.rs",
        old: "End::Closing(_) => self.ended.wait(&mut end),",
        new: "End::Closing(_) => return Ok(()),",
        tests: CLOSING,
    },
    Mutant {
        name: "a second caller of close is told that all went well",
        file: "crates/engine/src/opening/mod.rs",
        old: "End::Closed(outcome) => return outcome.clone(),",
        new: "End::Closed(_) => return Ok(()),",
        tests: CLOSING,
    },
    Mutant {
        name: "closing looks for calls in one shard only",
        file: "crates/engine/src/opening/calls.rs",
        old: "        for shard in &self.shards {\n            while",
        new: "        for shard in self.shards.iter().take(1) {\n            while",
        tests: OPENING,
    },
    Mutant {
        name: "new calls are refused in one shard only",
        file: "crates/engine/src/opening/calls.rs",
        old: "self.shards.iter().for_each(|shard| {",
        new: "self.shards.iter().take(1).for_each(|shard| {",
        tests: OPENING,
    },
];
