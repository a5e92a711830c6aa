//! A state machine that stores only what openraft's suite reads from it.

use crate::Types;
use futures_util::{Stream, StreamExt};
use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::entry::{RaftEntry, RaftPayload};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use std::io;

/// A state machine for openraft's suite.
#[derive(Default, Clone)]
pub struct Machine {
    applied: Option<LogIdOf<Types>>,
    membership: StoredMembershipOf<Types>,
    snapshot: Option<SnapshotMetaOf<Types>>,
}

impl Machine {
    fn meta(&self) -> SnapshotMetaOf<Types> {
        SnapshotMetaOf::<Types> { last_log_id: self.applied, last_membership: self.membership.clone() }
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, ()>> {
        Ok(SnapshotOf::<Types, ()> { meta: self.meta(), snapshot: () })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = ();
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            self.applied = Some(entry.log_id());
            if let Some(membership) = entry.payload.get_membership() {
                self.membership = StoredMembershipOf::<Types>::new(self.applied, membership);
            }
            if let Some(responder) = responder {
                responder.send(String::new());
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<Self> {
        self.snapshot = Some(self.meta());
        Some(self.clone())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<Types>, (): ()) -> io::Result<()> {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.snapshot = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, ()>>> {
        Ok(self.snapshot.clone().map(|meta| SnapshotOf::<Types, ()> { meta, snapshot: () }))
    }
}
