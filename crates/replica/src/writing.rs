//! Writes in flight: proposals in the order of the log, and their outcomes.
//!
//! A write is certified and queued under the certifier's latch. One task proposes the queued writes
//! to the Raft group, in order, so the order of certification is the order of the log. Each write
//! has a task that waits for its outcome, and reports it to the certifier first and then to the
//! caller. Invariants:
//!
//! 1. A write is acknowledged only after it is applied, and applied only after its entry is durable
//!    at a majority.
//! 2. A write is reported as not committed only if its entry never entered the log, or the state
//!    machine answered the entry with a refusal. Any other failure is reported as unknown.
//! 3. A proposal stays in the certifier until its outcome is known, even if its caller has stopped
//!    waiting.

use crate::certifier::{Certifier, Number};
use crate::error::{Error, NotAll, Result, UnknownReason};
use crate::ids::{ReplicaId, RequestId};
use crate::machine::Machine;
use crate::options::{Replicated, WriteOptions};
use crate::runtime::WAIT_MAX;
use crate::types::{Applied, Leadership, Request, Types};
use openraft::Raft;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader};
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

/// A committed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<T = ()> {
    /// Value that the transaction's body returned. If an earlier try of the write was applied, the
    /// body of this call had no effect.
    pub value: T,
    /// Index of the write's entry in the Raft log. If nothing was written: index of the last entry
    /// in the state that was read.
    pub index: u64,
    /// For a write with [`Replicated::All`]: the voters that did not confirm within
    /// [`WriteOptions::wait`] that they have the entry on their devices. Empty if all voters did,
    /// or if the write asked for a majority.
    pub unconfirmed: BTreeSet<ReplicaId>,
}

impl<T> Committed<T> {
    /// Returns this write if [`Committed::unconfirmed`] is empty.
    ///
    /// # Errors
    /// [`NotAll`] names the voters that have not confirmed the write. The write has committed
    /// nevertheless.
    pub fn confirmed(self) -> Result<Self, NotAll> {
        match self.unconfirmed.is_empty() {
            true => Ok(self),
            false => Err(NotAll { index: self.index, unconfirmed: self.unconfirmed }),
        }
    }
}

/// The final outcome of a request, which [`Replica::resolve`](crate::Replica::resolve) returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request has committed.
    Committed,
    /// The request has not committed and never will.
    NotCommitted,
}

/// The callback of a write. It is called exactly once, even if the task that owns it is dropped.
pub(crate) struct PendingCallback<F: FnOnce(Result<Committed>)> {
    callback: Option<F>,
    /// Outcome of the write if the task is dropped.
    dropped: Error,
}

impl<F: FnOnce(Result<Committed>)> PendingCallback<F> {
    /// Makes a callback that gets the error `dropped` if it is dropped.
    pub(crate) fn new(callback: F, dropped: Error) -> Self {
        PendingCallback { callback: Some(callback), dropped }
    }

    /// Replaces the outcome that the callback gets if it is dropped.
    pub(crate) fn set_dropped(&mut self, dropped: Error) {
        self.dropped = dropped;
    }

    /// Passes the outcome to the callback.
    pub(crate) fn call(mut self, outcome: Result<Committed>) {
        if let Some(callback) = self.callback.take() {
            callback(outcome);
        }
    }
}

impl<F: FnOnce(Result<Committed>)> Drop for PendingCallback<F> {
    fn drop(&mut self) {
        if let Some(callback) = self.callback.take() {
            callback(Err(self.dropped.clone()));
        }
    }
}

/// An entry to propose to the Raft group.
pub(crate) struct Proposal {
    request: Request,
    leadership: Leadership,
    responder: ProgressResponder<Types, ClientWriteResult<Types>>,
}

/// Sends proposals to the task [`propose`].
pub(crate) type Queue = mpsc::UnboundedSender<Proposal>;

/// A queued write whose outcome is not known yet.
pub(crate) struct Written {
    pub(crate) certifier: Arc<Certifier>,
    pub(crate) number: Number,
    pub(crate) answer: Answer,
}

/// An applied entry of the Raft log.
pub(crate) struct Entry {
    /// The state machine's answer.
    pub(crate) applied: Applied,
    pub(crate) index: u64,
    /// See [`Committed::unconfirmed`].
    pub(crate) unconfirmed: BTreeSet<ReplicaId>,
}

/// Receiver of the group's answer.
pub(crate) type Answer = openraft::alias::OneshotReceiverOf<Types, ClientWriteResult<Types>>;

/// Queues an entry for the task [`propose`]. The entry is refused if the leadership has ended when
/// its turn comes.
pub(crate) fn queue(queue: &Queue, request: Request, leadership: Leadership) -> Answer {
    let (responder, answer) = ProgressResponder::complete_only();
    // A closed queue drops the responder, which the receiver of the answer sees as an error.
    let _queued = queue.send(Proposal { request, leadership, responder });
    answer
}

/// Passes queued entries to the Raft group, in order, until the queue is closed.
pub(crate) async fn propose(raft: Raft<Types, Machine>, mut queue: mpsc::UnboundedReceiver<Proposal>) {
    while let Some(Proposal { request, leadership, responder }) = queue.recv().await {
        // A stopped group drops the responder.
        let _handed = raft.write(request).with_leader(leadership).responder(responder).await;
    }
}

/// Waits for outcomes.
#[derive(Clone)]
pub(crate) struct Waiting {
    pub(crate) raft: Raft<Types, Machine>,
    pub(crate) replica: ReplicaId,
}

impl Waiting {
    /// Waits for the outcome of a write, and calls `tell` once: with the outcome, or when the time
    /// is over. After a time-out the function still waits, in order to report the outcome to the
    /// certifier.
    pub(crate) async fn follow(
        self,
        written: Written,
        id: Option<RequestId>,
        options: WriteOptions,
        permit: Option<OwnedSemaphorePermit>,
        tell: impl FnOnce(Result<Entry>) + Send + 'static,
    ) {
        let deadline = Instant::now() + options.wait.min(WAIT_MAX);
        let Written { certifier, number, mut answer } = written;
        let mut tell = Some(tell);
        let answered = match tokio::time::timeout_at(deadline, &mut answer).await {
            Ok(answered) => answered,
            Err(_) => {
                if let Some(tell) = tell.take() {
                    tell(Err(self.unknown(id, UnknownReason::TimedOut)));
                }
                answer.await
            }
        };
        let outcome = match answered {
            Ok(Ok(response)) => {
                certifier.applied(number, response.log_id.index);
                let index = response.log_id.index;
                let unconfirmed = match options.durability {
                    Replicated::All if tell.is_some() => self.unconfirmed(index, deadline).await,
                    _ => BTreeSet::new(),
                };
                Ok(Entry { applied: response.data, index, unconfirmed })
            }
            Ok(Err(ClientWriteError::ForwardToLeader(forward))) => {
                certifier.refused(number);
                Err(self.not_leader(forward))
            }
            // The leadership has ended, so its certifier needs no report.
            Ok(Err(_)) => Err(self.unknown(id, UnknownReason::LeadershipLost)),
            Err(_) => Err(self.unknown(id, UnknownReason::Stopped)),
        };
        drop(permit);
        if let Some(tell) = tell {
            tell(outcome);
        }
    }

    fn unknown(&self, id: Option<RequestId>, reason: UnknownReason) -> Error {
        match id {
            Some(id) => Error::Unknown { id, reason },
            None => Error::NoQuorum { replica: self.replica, reason: reason.to_string() },
        }
    }

    pub(crate) fn not_leader(&self, forward: ForwardToLeader<Types>) -> Error {
        if forward.leader_id == Some(self.replica) {
            let reason = "it is giving its leadership to another replica".to_owned();
            return Error::NoQuorum { replica: self.replica, reason };
        }
        let leader = forward.leader_id.zip(forward.leader_node.map(|node| node.addr));
        Error::NotLeader { replica: self.replica, leader }
    }

    /// Waits until a member has the entry at `index`, which is committed, on its device.
    pub(crate) async fn member_has(&self, member: ReplicaId, index: u64) -> Result<()> {
        let mut metrics = self.raft.metrics();
        loop {
            {
                let now = metrics.borrow_and_update();
                if let Err(fatal) = &now.running_state {
                    return Err(Error::Stopped { reason: fatal.to_string() });
                }
                let Some(matched) = &now.replication else {
                    let leader = now.current_leader.filter(|leader| *leader != self.replica);
                    let members = now.membership_config.membership();
                    let leader = leader.and_then(|id| Some((id, members.get_node(&id)?.addr.clone())));
                    return Err(Error::NotLeader { replica: self.replica, leader });
                };
                match matched.get(&member) {
                    Some(matched) if matched.is_some_and(|id| id.index >= index) => return Ok(()),
                    None if now.membership_config.log_id().is_some_and(|id| id.index > index) => {
                        let reason = format!("replica {member} is no member any more");
                        return Err(Error::Members { reason });
                    }
                    _ => {}
                }
            }
            if metrics.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }

    /// Waits until all voters have the entry at `index` on their devices, or until `deadline`.
    /// Returns the voters that have not confirmed the entry.
    async fn unconfirmed(&self, index: u64, deadline: Instant) -> BTreeSet<ReplicaId> {
        let mut metrics = self.raft.metrics();
        // A replica that has lost its leadership knows only of its own log.
        let voters = metrics.borrow_and_update().membership_config.membership().clone();
        let mut unconfirmed: BTreeSet<_> = voters.voter_ids().filter(|id| *id != self.replica).collect();
        let confirmed = async {
            loop {
                {
                    let now = metrics.borrow_and_update();
                    let Some(matched) = &now.replication else { return };
                    let lacks = |id: &ReplicaId| {
                        !matched.get(id).is_some_and(|id| id.is_some_and(|id| id.index >= index))
                    };
                    unconfirmed = now.membership_config.membership().voter_ids().filter(lacks).collect();
                    if unconfirmed.is_empty() {
                        return;
                    }
                }
                if metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        let _in_time = tokio::time::timeout_at(deadline, confirmed).await;
        unconfirmed
    }
}

/// Turns the answer to a write's entry into the result of the write.
pub(crate) fn committed(id: RequestId, answer: Result<Entry>) -> Result<Committed> {
    let Entry { applied, index, unconfirmed } = answer?;
    match applied {
        Applied::Written => Ok(Committed { value: (), index, unconfirmed }),
        Applied::UnknownClient => Err(Error::UnknownClient { id }),
        Applied::TooOld => Err(Error::TooOld { id }),
        Applied::Inadmissible => {
            let reason = "replicas of this version refuse it".into();
            Err(Error::Inadmissible { table: String::new(), reason })
        }
        Applied::Cancelled | Applied::Nothing | Applied::Client(_) => Err(Error::Cancelled { id }),
    }
}

/// Longest wait for another transaction's outcome before a transaction runs again.
pub(crate) const CONFLICT_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_callback_is_called_once_even_if_it_is_dropped() {
        let outcomes = RefCell::new(Vec::new());
        let callback = || {
            PendingCallback::new(
                |outcome: Result<Committed>| outcomes.borrow_mut().push(outcome),
                Error::Closed,
            )
        };
        let committed = Committed { value: (), index: 7, unconfirmed: BTreeSet::from([2]) };
        callback().call(Ok(committed.clone()));
        drop(callback());
        let mut queued = callback();
        let id = RequestId { client: 1, sequence: 2 };
        queued.set_dropped(Error::Unknown { id, reason: UnknownReason::Stopped });
        drop(queued);
        let outcomes = outcomes.into_inner();
        let [Ok(first), Err(Error::Closed), Err(Error::Unknown { id: asked, reason })] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        assert_eq!((first, *asked, *reason), (&committed, id, UnknownReason::Stopped));
    }
}
