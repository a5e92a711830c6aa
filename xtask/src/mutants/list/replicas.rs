//! Mutants of replicas: acknowledgements, votes, reads and snapshots.

use super::tests::{
    APPENDS, CALLER, CLUSTERS, ELECTIONS, FRAMES, LONG_WAITS, MEMBERS, PLACE, REPLICA_OPTIONS, SILENT_SENDERS,
};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a replica acknowledges entries before they are synced",
        file: "crates/raft-log/src/storage.rs",
        old: "self.flusher().push(end, move |outcome| callback.io_completed(outcome));",
        new: "let _ = end;\n        callback.io_completed(Ok(()));",
        tests: CLUSTERS,
    },
    Mutant {
        name: "a vote is given before it is synced",
        file: "crates/raft-log/src/storage.rs",
        old: "let end = self.change_state(|state| state.vote = Some(vote.clone()))?;\n        self.durable(end).await",
        new: "self.change_state(|state| state.vote = Some(vote.clone()))?;\n        Ok(())",
        tests: ELECTIONS,
    },
    Mutant {
        name: "a deposed leader reads without asking a majority",
        file: "crates/replica/src/group.rs",
        old: "let index = self.linearize().await?;",
        new: "self.raft().as_leader().map_err(|forward| self.waiting.not_leader(forward))?;\n                let index = 0;",
        tests: CLUSTERS,
    },
    Mutant {
        name: "a snapshot says that it has one entry more than it has",
        file: "crates/replica/src/machine.rs",
        old: "    Ok(SnapshotOf::<Types, Snapshot> { meta: view.applied.meta(), snapshot",
        new: "    let mut meta = view.applied.meta();\n    meta.last_log_id.iter_mut().for_each(|id| id.index += 1);\n    Ok(SnapshotOf::<Types, Snapshot> { meta, snapshot",
        tests: CLUSTERS,
    },
    Mutant {
        name: "the encoding of small changes is not counted",
        file: "crates/replica/src/write_set.rs",
        old: "const CHANGE_BYTES: usize = 32;",
        new: "const CHANGE_BYTES: usize = 0;",
        tests: FRAMES,
    },
    Mutant {
        name: "a wait may be longer than clocks can count",
        file: "crates/replica/src/runtime.rs",
        old: "Duration::from_secs(30 * 365 * 86_400)",
        new: "Duration::MAX",
        tests: LONG_WAITS,
    },
    Mutant {
        name: "a forgotten write is called uncommitted",
        file: "crates/replica/src/caller.rs",
        old: "error @ (Error::Cancelled { .. } | Error::Unknown { .. })",
        new: "error @ (Error::Cancelled { .. } | Error::TooOld { .. } | Error::UnknownClient { .. } | Error::Unknown { .. })",
        tests: CALLER,
    },
    Mutant {
        name: "a leader states the age of a state that may lack writes",
        file: "crates/replica/src/peer.rs",
        old: "filter(|_| is_own && is_latest)",
        new: "filter(|_| is_own || is_latest)",
        tests: APPENDS,
    },
    Mutant {
        name: "a large append gets the time of a small one",
        file: "crates/replica/src/peer.rs",
        old: "const PER_BYTE: Duration = Duration::from_micros(1);",
        new: "const PER_BYTE: Duration = Duration::ZERO;",
        tests: APPENDS,
    },
    Mutant {
        name: "a folder under removal keeps its name",
        file: "crates/replica/src/place.rs",
        old: "while removed.exists() {",
        new: "while nth > 0 && removed.exists() {",
        tests: PLACE,
    },
    Mutant {
        name: "a removal that a crash interrupted is not finished",
        file: "crates/replica/src/place.rs",
        old: "remove(&self.state().join(name))?;",
        new: "let _ = name;",
        tests: PLACE,
    },
    Mutant {
        name: "a snapshot's next part is waited for without limit",
        file: "crates/replica/src/server.rs",
        old: "let frame = Links::within(self.patience, frame).await?;",
        new: "let frame = frame.await?;",
        tests: SILENT_SENDERS,
    },
    Mutant {
        name: "pages may be too small for the longest keys",
        file: "crates/replica/src/options.rs",
        old: "paged.page_bytes >= 8 * KEY_BYTES_MAX",
        new: "paged.page_bytes >= KEY_BYTES_MAX",
        tests: REPLICA_OPTIONS,
    },
    Mutant {
        name: "a member without a vote is asked to lead",
        file: "crates/replica/src/group.rs",
        old: "if !self.status().voters.contains(&to) {",
        new: "if to == 0 {",
        tests: MEMBERS,
    },
];
