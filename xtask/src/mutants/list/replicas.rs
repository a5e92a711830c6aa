//! Mutants of replicas: acknowledgements, votes, reads and snapshots.

use super::tests::{CLUSTERS, ELECTIONS};
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
];
