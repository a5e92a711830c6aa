//! openraft's state machine over the store.
//!
//! One task of the group drives the machine. It applies committed entries in order, many in one
//! transaction of the engine, and answers them after that transaction. The snapshot builder runs in
//! a task of its own and only reads and syncs. A failure of the engine stops the replica: openraft
//! gives up, and applies and answers nothing afterwards.

use crate::error::Error;
use crate::runtime::blocking;
use crate::sessions::Sessions;
use crate::store::{AppliedState, Received, Store, View};
use crate::types::{Applied, Entry, LogId, Membership, Request, SnapshotMeta, Types};
use crate::write_set::Write;
use futures_util::{Stream, StreamExt};
use openraft::alias::SnapshotOf;
use openraft::entry::RaftEntry;
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use std::io;
use std::sync::Arc;

/// Maximum number of entries that one transaction of the engine applies.
const ENTRIES_MAX: usize = 512;
/// Bytes of writes after which a transaction of the engine takes no further entry.
const BYTES_MAX: usize = 1 << 20;

/// openraft's state machine over the store.
pub(crate) struct Machine {
    store: Arc<Store>,
    applied: AppliedState,
    sessions: Sessions,
}

/// A snapshot: a view to send, or received rows to install.
pub(crate) enum Snapshot {
    View(Box<View>),
    Received(Received),
}

/// Builds snapshots.
pub(crate) struct Builder(Arc<Store>);

/// Entries that one transaction of the engine applies, and their answers.
#[derive(Default)]
struct Batch {
    writes: Vec<Write>,
    bytes: usize,
    answers: Vec<(Option<ApplyResponder<Types>>, Applied)>,
    after: AppliedState,
}

impl Machine {
    /// Makes the machine over a store, and loads the store's applied state and sessions.
    pub(crate) fn new(store: Arc<Store>) -> Result<Self, Error> {
        let (applied, sessions) = store.load()?;
        Ok(Machine { store, applied, sessions })
    }

    /// Returns the last applied entry.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.applied.log_id
    }

    /// Decides an entry, and adds its writes to the batch.
    fn decide(&mut self, batch: &mut Batch, entry: Entry) -> Applied {
        let log_id = entry.log_id();
        batch.after.log_id = Some(log_id);
        match entry.payload {
            EntryPayload::Blank => Applied::Nothing,
            EntryPayload::Membership(membership) => {
                batch.after.membership = Membership::new(Some(log_id), membership);
                Applied::Nothing
            }
            EntryPayload::Normal(Request::OpenClient) => self.sessions.open(log_id.index),
            EntryPayload::Normal(Request::Cancel { id }) => {
                let decided = self.sessions.decide(log_id.index, id, Applied::Cancelled);
                decided.err().unwrap_or(Applied::Cancelled)
            }
            // Every replica decides alike, because the check depends on the entry alone.
            EntryPayload::Normal(Request::Write { set, .. }) if set.check().is_err() => Applied::Inadmissible,
            EntryPayload::Normal(Request::Write { id, set }) => {
                match self.sessions.decide(log_id.index, id, Applied::Written) {
                    Ok(()) => {
                        batch.bytes += set.bytes();
                        batch.writes.extend(set.writes);
                        Applied::Written
                    }
                    Err(answered) => answered,
                }
            }
        }
    }

    fn apply_batch(&mut self, batch: Batch) -> Result<(), Error> {
        let changed = self.sessions.take_changed();
        self.store.apply(&self.applied, &batch.writes, &changed, &batch.after)?;
        self.applied = batch.after;
        for (responder, answer) in batch.answers {
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        Ok(())
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Snapshot;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Membership)> {
        Ok((self.applied.log_id, self.applied.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut batch = Batch { after: self.applied.clone(), ..Batch::default() };
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let answer = self.decide(&mut batch, entry);
            batch.answers.push((responder, answer));
            if batch.answers.len() >= ENTRIES_MAX || batch.bytes >= BYTES_MAX {
                let next = Batch { after: batch.after.clone(), ..Batch::default() };
                let full = std::mem::replace(&mut batch, next);
                blocking(|| self.apply_batch(full))?;
            }
        }
        if !batch.answers.is_empty() {
            blocking(|| self.apply_batch(batch))?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder(self.store.clone())
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Snapshot) -> io::Result<()> {
        let Snapshot::Received(received) = snapshot else {
            return Err(io::Error::other("a replica installs only snapshots that it has received"));
        };
        let loaded = blocking(|| {
            self.store.install(received, meta)?;
            self.store.load()
        });
        (self.applied, self.sessions) = loaded?;
        Ok(())
    }

    /// Returns a view of the current state, which is at least as new as any snapshot built before.
    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, Snapshot>>> {
        if self.applied.log_id.is_none() {
            return Ok(None);
        }
        Ok(Some(blocking(|| take(&self.store))?))
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Snapshot;

    /// Makes the state durable. Copies no rows: the sender reads them when a replica needs the
    /// snapshot.
    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, Snapshot>> {
        blocking(|| {
            // The view is taken first, so that the sync covers all that the view shows.
            let snapshot = take(&self.0)?;
            self.0.sync()?;
            Ok(snapshot)
        })
    }
}

fn take(store: &Store) -> Result<SnapshotOf<Types, Snapshot>, Error> {
    let view = store.view()?;
    Ok(SnapshotOf::<Types, Snapshot> { meta: view.applied.meta(), snapshot: Snapshot::View(Box::new(view)) })
}
