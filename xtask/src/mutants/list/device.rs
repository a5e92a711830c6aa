//! The device layer: what is synced, what shuts the gate, what NVRAM persists.

use super::tests::{GATE, NVRAM_SIM, STRIPES, STRIPES_OPENINGS, SYSCALLS};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "audit-1: the sync of a directory does nothing",
        file: "crates/device/src/file/mod.rs",
        old: "        retry(|| os::sync_all(&self.fd)).map_err(|errno| {\n            Error::from_io(Verb::SyncDirectory",
        new: "        retry(|| rustix::fs::fstat(&self.fd).map(|_| ())).map_err(|errno| {\n            Error::from_io(Verb::SyncDirectory",
        tests: SYSCALLS,
    },
    Mutant {
        name: "audit-1: a durable write is an ordinary one",
        file: "crates/device/src/os/linux.rs",
        old: "rustix::io::pwritev2(fd, parts, offset, ReadWriteFlags::DSYNC)",
        new: "rustix::io::pwritev2(fd, parts, offset, ReadWriteFlags::empty())",
        tests: SYSCALLS,
    },
    Mutant {
        name: "audit-1: a durable write through a ring is an ordinary one",
        file: "crates/device/src/file/ring.rs",
        old: "WriteMode::Durable => ReadWriteFlags::DSYNC | ReadWriteFlags::NOWAIT,",
        new: "WriteMode::Durable => ReadWriteFlags::NOWAIT,",
        tests: SYSCALLS,
    },
    Mutant {
        name: "audit-1: the sync of a file does nothing",
        file: "crates/device/src/os/linux.rs",
        old: "rustix::fs::fdatasync(fd)",
        new: "rustix::fs::fstat(fd).map(|_| ())",
        tests: SYSCALLS,
    },
    Mutant {
        name: "the name of a new directory is not synced",
        file: "crates/device/src/file/mod.rs",
        old: "        self.sync()?;\n        Ok(Arc::new(Self::open_existing_at(",
        new: "        Ok(Arc::new(Self::open_existing_at(",
        tests: SYSCALLS,
    },
    Mutant {
        name: "a failed sync of a directory does not shut the gate",
        file: "crates/device/src/gate.rs",
        old: "self.gate.latch(self.inner.sync(), |_| true)?;",
        new: "self.gate.latch(self.inner.sync(), |_| false)?;",
        tests: GATE,
    },
    Mutant {
        name: "a failed sync of a file does not shut the gate",
        file: "crates/device/src/gate.rs",
        old: "self.in_turn(Verb::Sync, |_| true, || self.inner.sync())",
        new: "self.in_turn(Verb::Sync, |_| false, || self.inner.sync())",
        tests: GATE,
    },
    Mutant {
        name: "a failed durable write does not shut the gate",
        file: "crates/device/src/gate.rs",
        old: "                self.gate.latch(write(), |_| true)?;\n                self.check(Verb::Write)",
        new: "                self.gate.latch(write(), |_| false)?;\n                self.check(Verb::Write)",
        tests: GATE,
    },
    Mutant {
        name: "a write that ends after the gate has shut succeeds",
        file: "crates/device/src/gate.rs",
        old: "                self.gate.latch(write(), |_| true)?;\n                self.check(Verb::Write)",
        new: "                self.gate.latch(write(), |_| true)",
        tests: GATE,
    },
    Mutant {
        name: "syncs of one file that fail together report one failure",
        file: "crates/device/src/gate.rs",
        old: "        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);\n",
        new: "",
        tests: GATE,
    },
    Mutant {
        name: "a striped file drops the cache of nothing",
        file: "crates/device/src/stripes/file.rs",
        old: "self.parts().try_for_each(|file| file.drop_cache())",
        new: "self.parts().take(0).try_for_each(|file| file.drop_cache())",
        tests: STRIPES,
    },
    Mutant {
        name: "a striped set believes the numbers of parts that it knew before it had the lock",
        file: "crates/device/src/stripes/owner.rs",
        old: "                known.next = None;\n",
        new: "",
        tests: STRIPES_OPENINGS,
    },
    Mutant {
        name: "a striped set removes parts by numbers that another opening may have given anew",
        file: "crates/device/src/stripes/owner.rs",
        old: "matches!(self.kept, HeldLock::Callers { term, .. } if term == doomed.term)",
        new: "doomed.term <= self.known.term",
        tests: STRIPES_OPENINGS,
    },
    Mutant {
        name: "what is written back to NVRAM is not fenced",
        file: "crates/device/src/nvram/region.rs",
        old: "        self.write_back(at, len);\n        self.fence();",
        new: "        self.write_back(at, len);",
        tests: NVRAM_SIM,
    },
    Mutant {
        name: "NVRAM is fenced without being written back",
        file: "crates/device/src/nvram/region.rs",
        old: "        self.write_back(at, len);\n        self.fence();",
        new: "        let _ = (at, len);\n        self.fence();",
        tests: NVRAM_SIM,
    },
];
