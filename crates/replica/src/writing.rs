//! Writes on their way: proposals in the order of the log, and their outcomes.
//!
//! A write is certified and queued under the certifier's latch; one task hands the queue to the
//! group, in order, so the order of certification is the order of the log. Each write has a task
//! that waits for its outcome, tells the certifier, and then the caller. Invariants:
//!
//! 1. A write is acknowledged only after it is applied, which is after its entry is durable at a
//!    majority.
//! 2. "Not committed" is said only of an entry that never came into the log, or was answered
//!    otherwise. All else that is no success is "unknown".
//! 3. A proposal stays a conflict until its outcome is known, also when its caller has stopped
//!    waiting.

use crate::certifier::{Certifier, Number};
use crate::error::{Error, Result, UnknownReason};
use crate::ids::{ReplicaId, RequestId};
use crate::machine::Machine;
use crate::options::{Replicated, WriteOptions};
use crate::types::{Applied, Leadership, Request, Types};
use openraft::Raft;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardToLeader};
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

/// A committed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed<T = ()> {
    /// Value that the body of the transaction returned. If an earlier try of the write was applied,
    /// the body of this call had no effect.
    pub value: T,
    /// Index in the Raft log: that of the entry of the write, or, if nothing was written, that of
    /// the state that was read.
    pub index: u64,
    /// The voters that have the write. [`Replicated::Quorum`] although all were asked for means
    /// that not all had it in time.
    pub reached: Replicated,
}

/// The outcome of a request, which a caller can ask for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has committed.
    Committed,
    /// It has not committed and never will.
    NotCommitted,
}

/// An entry to be handed to the group.
pub(crate) struct Proposal {
    request: Request,
    leadership: Leadership,
    responder: ProgressResponder<Types, ClientWriteResult<Types>>,
}

/// The way to the task that hands proposals to the group.
pub(crate) type Queue = mpsc::UnboundedSender<Proposal>;

/// A write on its way.
pub(crate) struct Written {
    pub(crate) certifier: Arc<Certifier>,
    pub(crate) number: Number,
    pub(crate) answer: Answer,
}

/// Receiver of the group's answer.
pub(crate) type Answer = openraft::alias::OneshotReceiverOf<Types, ClientWriteResult<Types>>;

/// Queues an entry; it is refused if the leadership has ended when it is its turn.
pub(crate) fn queue(queue: &Queue, request: Request, leadership: Leadership) -> Answer {
    let (responder, answer) = ProgressResponder::complete_only();
    // A queue that is closed drops the responder, and the answer says so.
    let _queued = queue.send(Proposal { request, leadership, responder });
    answer
}

/// Hands proposals to the group, in order, until the queue is closed.
pub(crate) async fn propose(raft: Raft<Types, Machine>, mut queue: mpsc::UnboundedReceiver<Proposal>) {
    while let Some(Proposal { request, leadership, responder }) = queue.recv().await {
        // A group that has stopped drops the responder.
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
    /// Follows a write until its end, and tells the caller at most once: at its outcome, or when
    /// its time is over.
    pub(crate) async fn follow(
        self,
        written: Written,
        id: Option<RequestId>,
        options: WriteOptions,
        permit: Option<OwnedSemaphorePermit>,
        tell: impl FnOnce(Result<(Applied, u64, Replicated)>) + Send + 'static,
    ) {
        let deadline = Instant::now() + options.wait;
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
                let reached = match options.durability {
                    Replicated::All if tell.is_some() => self.all_have(index, deadline).await,
                    _ => Replicated::Quorum,
                };
                Ok((response.data, index, reached))
            }
            Ok(Err(ClientWriteError::ForwardToLeader(forward))) => {
                certifier.refused(number);
                Err(self.not_leader(forward))
            }
            // The leadership has ended, and the certifier with it.
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

    /// Waits until all voters have the entry at `index` on their devices.
    async fn all_have(&self, index: u64, deadline: Instant) -> Replicated {
        let mut metrics = self.raft.metrics();
        let all = async {
            loop {
                {
                    let now = metrics.borrow_and_update();
                    let Some(matched) = &now.replication else { return Replicated::Quorum };
                    let has =
                        |voter| matched.get(&voter).is_some_and(|id| id.is_some_and(|id| id.index >= index));
                    if now.membership_config.membership().voter_ids().all(has) {
                        return Replicated::All;
                    }
                }
                if metrics.changed().await.is_err() {
                    return Replicated::Quorum;
                }
            }
        };
        tokio::time::timeout_at(deadline, all).await.unwrap_or(Replicated::Quorum)
    }
}

/// Says what an answer means for a request that writes.
pub(crate) fn committed(id: RequestId, answer: Result<(Applied, u64, Replicated)>) -> Result<Committed> {
    match answer? {
        (Applied::Written, index, reached) => Ok(Committed { value: (), index, reached }),
        (Applied::UnknownClient, ..) => Err(Error::UnknownClient { id }),
        (Applied::TooOld, ..) => Err(Error::TooOld { id }),
        (Applied::Inadmissible, ..) => {
            let reason = "replicas of this version refuse it".into();
            Err(Error::Inadmissible { table: String::new(), reason })
        }
        (Applied::Cancelled | Applied::Nothing | Applied::Client(_), ..) => Err(Error::Cancelled { id }),
    }
}

/// Longest wait for another transaction's outcome before a transaction runs again.
pub(crate) const CONFLICT_WAIT: Duration = Duration::from_secs(1);
