//! The mutants: rules of `docs/recovery.md` and of the log, each broken in one place.

use super::Mutant;

const CRASH: &[&str] = &["-p", "katydid", "--test", "crash"];
const LEADING: &[&str] = &["-p", "katydid-wal", "--lib", "core::checks"];
const ANALYSIS: &[&str] = &["-p", "katydid", "--lib", "analysis_tests"];
const ORDER: &[&str] = &["-p", "katydid", "--test", "crash", "order::"];
const CAPTURE: &[&str] = &["-p", "katydid", "--lib", "checkpoint::"];
const TURNS: &[&str] = &["-p", "katydid", "--test", "crash", "turns"];
const RELEASE: &[&str] = &["-p", "katydid", "--test", "crash", "release_"];
const TRUST: &[&str] = &["-p", "katydid", "--test", "trust"];
const LOCKS: &[&str] = &["-p", "katydid", "--lib", "lock::"];
const NVRAM_COMMITS: &[&str] = &["-p", "katydid-wal", "--test", "nvram_commits"];

const CHECKPOINTS: &[&str] = &["-p", "katydid", "--lib", "memory::checkpoint"];
const CHECKPOINT_WRITE: &str = "crates/engine/src/memory/checkpoint/write.rs";
const CHECKPOINT: &str = "crates/engine/src/paged/checkpoint.rs";
const DOUBLE_WRITE: &str = "crates/engine/src/paged/double_write.rs";
const LEADER: &str = "crates/wal/src/core/leader.rs";
const IN_NVRAM: &str = "crates/wal/src/core/in_nvram.rs";
const ENTRIES: &str = "crates/wal/src/nvram/entries.rs";
const TRANSACTION: &str = "crates/engine/src/paged/transaction.rs";
const ROLLBACK: &str = "crates/engine/src/paged/rollback.rs";

const LIST: &[Mutant] = &[
    Mutant {
        name: "pages are written before their log records are durable",
        file: "crates/engine/src/paged/engine.rs",
        old: "Ok(self.log.wait(end, Durability::Durable)?)",
        new: "let _ = (end, Durability::Durable);\n        Ok(())",
        tests: CRASH,
    },
    Mutant {
        name: "pages go in place without the double-write area",
        file: DOUBLE_WRITE,
        old: "self.file.write_at(&[IoSlice::new(&batch.buffer[..end])], 0, WriteMode::Durable)?;\n        let mut from",
        new: "let _ = end;\n        let mut from",
        tests: CRASH,
    },
    Mutant {
        name: "the double-write area is not durable before the pages are written in place",
        file: DOUBLE_WRITE,
        old: "self.file.write_at(&[IoSlice::new(&batch.buffer[..end])], 0, WriteMode::Durable)?;\n        let mut from",
        new: "self.file.write_at(&[IoSlice::new(&batch.buffer[..end])], 0, WriteMode::Written)?;\n        let mut from",
        tests: CRASH,
    },
    Mutant {
        name: "torn pages are not noticed when the area is restored",
        file: DOUBLE_WRITE,
        old: "if check(&place[..read], page, self.page_bytes).is_err() {",
        new: "if check(&place[..read], page, self.page_bytes).is_err() && read == 0 {",
        tests: CRASH,
    },
    Mutant {
        name: "pages written in place are not synced",
        file: DOUBLE_WRITE,
        old: "        pages_file.sync()?;\n        Ok(())\n    }\n}\n\n#[cfg(test)]",
        new: "        Ok(())\n    }\n}\n\n#[cfg(test)]",
        tests: CRASH,
    },
    Mutant {
        name: "a commit is acknowledged when it is written",
        file: "crates/wal/src/core.rs",
        old: "        if self.image.frontiers.reached(end, level) {\n            return Some(Ok(()));",
        new: "        if self.image.frontiers.reached(end, level.min(Durability::Written)) {\n            return Some(Ok(()));",
        tests: CRASH,
    },
    Mutant {
        name: "the log's sync does nothing",
        file: LEADER,
        old: "            self.store.sync(from, to)\n        } else if again",
        new: "            Ok(())\n        } else if again",
        tests: CRASH,
    },
    Mutant {
        name: "the frontiers pass a write that is under way",
        file: LEADER,
        old: "while leader.flights.front().is_some_and(|first| first.ended) {",
        new: "while leader.flights.front().is_some() {",
        tests: CRASH,
    },
    Mutant {
        name: "the place within a record where a sync ends is remembered as durable",
        file: LEADER,
        old: "(leader.durable, self.image.frontiers.written(), self.readable())",
        new: "(leader.durable, self.image.frontiers.written(), self.image.frontiers.written())",
        tests: LEADING,
    },
    Mutant {
        name: "a durable write of the log is an ordinary one",
        file: LEADER,
        old: "let mode = if write.durable { WriteMode::Durable } else { WriteMode::Written };",
        new: "let mode = WriteMode::Written;",
        tests: CRASH,
    },
    Mutant {
        name: "redo begins at the checkpoint, whatever was dirty",
        file: CHECKPOINT,
        old: ".map(|(page, lsn)| (page.get(), lsn.max(start))).collect();",
        new: ".map(|(page, lsn)| (page.get(), lsn.max(start))).take(0).collect();",
        tests: CRASH,
    },
    Mutant {
        name: "a checkpoint captures no transactions",
        file: CHECKPOINT,
        old: "let active = self.active.capture();",
        new: "let active: Vec<_> = self.active.capture().into_iter().take(0).collect();",
        tests: CRASH,
    },
    Mutant {
        name: "the log is trimmed to the checkpoint, whatever is needed from before",
        file: CHECKPOINT,
        old: ".fold(begin.first, Lsn::min);",
        new: ".fold(begin.first, |least, _| least);",
        tests: CRASH,
    },
    Mutant {
        name: "the control file names a checkpoint that is not durable",
        file: CHECKPOINT,
        old: "        self.log.wait(end.end, Durability::Durable)?;\n        let keep",
        new: "        let _ = (end.end, Durability::Durable);\n        let keep",
        tests: CRASH,
    },
    Mutant {
        name: "undo does not bring deleted keys back",
        file: ROLLBACK,
        old: "if op != UndoOp::Nothing {",
        new: "if op != UndoOp::Nothing && !matches!(op, UndoOp::Insert { .. }) {",
        tests: CRASH,
    },
    Mutant {
        name: "undo undoes again what a compensation record undid",
        file: ROLLBACK,
        old: "at = decode_compensation(&payload).map_err(failed)?.0;",
        new: "decode_compensation(&payload).map_err(failed)?;\n                at = next;",
        tests: CRASH,
    },
    Mutant {
        name: "restart does not free the chains of committed transactions",
        file: ROLLBACK,
        old: "State::Committed => self.finish_commit(&mut writer)?,",
        new: "State::Committed => {}",
        tests: CRASH,
    },
    Mutant {
        name: "the page LSN is not set",
        file: "crates/engine/src/paged/pool/guard.rs",
        old: "header::set_page_lsn(&mut self.body.bytes, lsn);",
        new: "let _ = header::set_page_lsn;",
        tests: CRASH,
    },
    Mutant {
        name: "early released locks leave no dependence behind",
        file: "crates/engine/src/lock/release.rs",
        old: "shard.dependence.publish(point.hash, commit_end);",
        new: "let _ = commit_end;",
        tests: CRASH,
    },
    Mutant {
        name: "a read-only transaction does not wait for what it has read",
        file: TRANSACTION,
        old: "Ok(Committed { end: self.depends, durability: self.options.durability })",
        new: "Ok(Committed { end: Lsn::ZERO, durability: self.options.durability })",
        tests: RELEASE,
    },
    Mutant {
        name: "a read of only what is durable does not wait",
        file: TRANSACTION,
        old: "if self.options.read == Read::Durable && self.depends != Lsn::ZERO {",
        new: "if self.options.read == Read::Durable && self.depends == Lsn::ZERO {",
        tests: RELEASE,
    },
    Mutant {
        name: "a database is believed before its names are synced",
        file: "crates/engine/src/open.rs",
        old: "    directory.sync()?;\n    let control",
        new: "    let control",
        tests: TRUST,
    },
    Mutant {
        name: "a captured commit is forgotten when a chain of it was freed",
        file: "crates/engine/src/paged/recovery/analysis.rs",
        old: "} else if captured.state == State::Committed && known.state == State::Active {",
        new: "} else if captured.state == State::Committed && known.state == State::Committed {",
        tests: ANALYSIS,
    },
    Mutant {
        name: "a range that grew forgets what its first part depends on",
        file: "crates/engine/src/lock/interval.rs",
        old: "held.depends_on = held.depends_on.max(depends_on);",
        new: "let _ = depends_on;",
        tests: LOCKS,
    },
    Mutant {
        name: "order: a change is not put above the last one of its page",
        file: "crates/engine/src/paged/tree/write.rs",
        old: "change.encode(|payload| writer.append(change.kind(), after, payload))",
        new: "let _ = after;\n    change.encode(|payload| writer.append(change.kind(), Lsn::ZERO, payload))",
        tests: TURNS,
    },
    Mutant {
        name: "order: a change of several pages is not put above the last ones of them",
        file: "crates/engine/src/paged/tree/structure.rs",
        old: "after = after.max(page.lsn());",
        new: "after = after.max(Lsn::ZERO);",
        tests: TURNS,
    },
    Mutant {
        name: "order: a change is not put above the commits whose keys it replaces",
        file: "crates/engine/src/paged/writer.rs",
        old: "after: after.max(self.after),",
        new: "after,",
        tests: ORDER,
    },
    Mutant {
        name: "order: a commit is not put above those it depends on",
        file: ROLLBACK,
        old: "after: writer.after(),",
        new: "after: Lsn::ZERO,",
        tests: ORDER,
    },
    Mutant {
        name: "order: a table's drop is not put above its users' commits",
        file: "crates/engine/src/paged/database.rs",
        old: "        engine.log.barrier();\n",
        new: "",
        tests: ORDER,
    },
    Mutant {
        name: "order: a checkpoint captures without a barrier",
        file: "crates/engine/src/paged/engine.rs",
        old: "        self.log.barrier();\n",
        new: "",
        tests: CAPTURE,
    },
    Mutant {
        name: "memory: a checkpoint's part is not synced",
        file: CHECKPOINT_WRITE,
        old: "        self.file.sync()?;\n        Ok(PartSummary",
        new: "        Ok(PartSummary",
        tests: CHECKPOINTS,
    },
    Mutant {
        name: "nvram: a commit persists nothing",
        file: IN_NVRAM,
        old: "            store.memory().persist(from, to);\n",
        new: "            let _ = (from, to);\n",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: a crash of the memory is not asked for before a commit is told",
        file: IN_NVRAM,
        old: "            !self.has_crashed(store)\n",
        new: "            true\n",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: entries are set before their records are persisted",
        file: ENTRIES,
        old: "        self.region.fence();\n        for lsn in entries {",
        new: "        for lsn in entries {",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: appenders set their entries",
        file: ENTRIES,
        old: "        let word = (at / ENTRY) << 32;\n",
        new: "        let word = self.lap(lsn) | (at / ENTRY) << 32;\n",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "nvram: what is requested is left to whoever comes",
        file: "crates/wal/src/core.rs",
        old: "!self.image.frontiers.reached(end, level) && !self.met_here(end, level)",
        new: "false && !self.met_here(end, level)",
        tests: NVRAM_COMMITS,
    },
    Mutant {
        name: "memory: a checkpoint counts before the names of its files are durable",
        file: CHECKPOINT_WRITE,
        old: "        directory.sync()?;\n",
        new: "",
        tests: CHECKPOINTS,
    },
    Mutant {
        name: "memory: a checkpoint is written without room made for it",
        file: CHECKPOINT_WRITE,
        old: "        if to > self.prepared {",
        new: "        if to < self.prepared {",
        tests: CHECKPOINTS,
    },
    Mutant {
        name: "memory: what an earlier attempt at a checkpoint has left stays",
        file: "crates/engine/src/memory/checkpoint/mod.rs",
        old: "        self.remove_if(|found| found == number)?;\n",
        new: "",
        tests: CHECKPOINTS,
    },
    Mutant {
        name: "memory: the payload of a checkpoint's block is believed",
        file: "crates/engine/src/memory/checkpoint/read.rs",
        old: "if checksum(&self.block[payload.clone()]) != head.payload_sum {",
        new: "if checksum(&self.block[payload.clone()]) != head.payload_sum && head.rows == u32::MAX {",
        tests: CHECKPOINTS,
    },
];

/// All mutants.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    LIST.iter()
}
