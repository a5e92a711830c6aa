//! The log's segments and its control file.

use super::tests::{CONTROL, FAILED_SYNCS, POSITIONS, RECOVER, ROTATION};
use crate::mutants::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a new segment's name is not synced before it is used",
        file: "crates/wal/src/segment/store.rs",
        old: "        self.directory.sync()?;\n        let file = self.directory.open(&name(index)",
        new: "        let file = self.directory.open(&name(index)",
        tests: RECOVER,
    },
    Mutant {
        name: "a segment's header is not durable before it has its name",
        file: "crates/wal/src/segment/store.rs",
        old: "file.write_at(&[IoSlice::new(header)], 0, WriteMode::Durable)",
        new: "file.write_at(&[IoSlice::new(header)], 0, WriteMode::Written)",
        tests: RECOVER,
    },
    Mutant {
        name: "segments are used again before the new start is durable",
        file: "crates/wal/src/segment/store.rs",
        old: "upkeep.control.update(ControlState { start: to, start_incarnation, durable, ..state })?;",
        new: "let _ = ControlState { start: to, start_incarnation, durable, ..state };",
        tests: RECOVER,
    },
    Mutant {
        name: "trimming notes the newest incarnation as that of the start",
        file: "crates/wal/src/segment/store.rs",
        old: "let start_incarnation = if to == durable { state.incarnation } else { incarnation_at(self, to)? };",
        new: "let start_incarnation = incarnation_at(self, to).map_or(state.incarnation, |_| state.incarnation);",
        tests: RECOVER,
    },
    Mutant {
        name: "a sync over several segments syncs the first",
        file: "crates/wal/src/segment/store.rs",
        old: "            self.file(at, Verb::Sync)?.sync()?;\n            at = at.plus(self.geometry.left(at));",
        new: "            self.file(at, Verb::Sync)?.sync()?;\n            at = to;",
        tests: ROTATION,
    },
    Mutant {
        name: "closing does not remember how far the log was durable",
        file: "crates/wal/src/segment/store.rs",
        old: "        upkeep.control.update(ControlState { durable, ..state })\n",
        new: "        let _ = (&mut upkeep.control, ControlState { durable, ..state });\n        Ok(())\n",
        tests: RECOVER,
    },
    Mutant {
        name: "the older slot of the log's control file counts",
        file: "crates/wal/src/control.rs",
        old: "if first.seq > second.seq { first } else { second }",
        new: "if first.seq < second.seq { first } else { second }",
        tests: CONTROL,
    },
    Mutant {
        name: "a slot of a newer version is overruled by the other",
        file: "crates/wal/src/control.rs",
        old: "[Err(SealFault::Newer(version)), _] | [_, Err(SealFault::Newer(version))] => {",
        new: "[Err(SealFault::Newer(version)), _] => {",
        tests: CONTROL,
    },
    Mutant {
        name: "both slots of the log's control file are one",
        file: "crates/wal/src/control.rs",
        old: "let offset = state.seq % SLOTS * SEALED_BYTES as u64;",
        new: "let offset = state.seq / u64::MAX % SLOTS * SEALED_BYTES as u64;",
        tests: RECOVER,
    },
    Mutant {
        name: "the log's control file is not written durably",
        file: "crates/wal/src/control.rs",
        old: "file.write_at(&[IoSlice::new(&state.encode()[..])], offset, WriteMode::Durable)",
        new: "file.write_at(&[IoSlice::new(&state.encode()[..])], offset, WriteMode::Written)",
        tests: RECOVER,
    },
    Mutant {
        name: "the name of the log's control file is not synced",
        file: "crates/wal/src/control.rs",
        old: "        directory.rename(CONTROL_NEW_NAME, CONTROL_NAME)?;\n        directory.sync()?;\n",
        new: "        directory.rename(CONTROL_NEW_NAME, CONTROL_NAME)?;\n",
        tests: RECOVER,
    },
    Mutant {
        name: "drop_cache: the log's control file is read from the cache",
        file: "crates/wal/src/control.rs",
        old: "        file.drop_cache()?;\n",
        new: "",
        tests: FAILED_SYNCS,
    },
    Mutant {
        name: "positions: a place in a segment is of 32 bits",
        file: "crates/wal/src/segment/header.rs",
        old: "SEALED_BYTES as u64 + at.get() % self.capacity()",
        new: "SEALED_BYTES as u64 + u64::from(at.get() as u32) % self.capacity()",
        tests: POSITIONS,
    },
    Mutant {
        name: "positions: the log's start is noted in 32 bits",
        file: "crates/wal/src/control.rs",
        old: "start: Lsn::new(read_u64(block, 40)),",
        new: "start: Lsn::new(u64::from(read_u32(block, 40))),",
        tests: POSITIONS,
    },
    Mutant {
        name: "positions: a distance is of 32 bits",
        file: "crates/kernels/src/lsn.rs",
        old: "self.0.saturating_sub(earlier.0)\n",
        new: "self.0.saturating_sub(earlier.0) as u32 as u64\n",
        tests: POSITIONS,
    },
];
