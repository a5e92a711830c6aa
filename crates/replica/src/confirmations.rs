//! A leader's judgement of the confirmations that it still leads.
//!
//! Any task may run this code, under one latch; no other latch is taken while a task holds this
//! one. openraft notes for each voter when the leader sent the message that the voter confirmed
//! last. But it takes the answer to an append for the answer to all appends that end at the same
//! entry. So it may credit the answer to a message that was sent later, up to the moment at which
//! openraft counts the answer. Invariants:
//!
//! 1. An answer is noted here before openraft gets it, and again after openraft has counted it. A
//!    read is judged here after openraft has confirmed it.
//! 2. A read by lease is answered only if each answer that openraft may have counted for its lease
//!    was counted within a tenth of `election` after its append was sent.
//! 3. Any read at the leader is answered only if each answer that openraft has counted since the
//!    read began was counted within half of `election`. A voter whose clock runs less than twice as
//!    fast then still refused to vote for another replica.
//! 4. A leader that has sent voters without itself to another replica has no lease: the only voter
//!    of a group stands for election without waiting.

use crate::ids::ReplicaId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A leader's judgement of confirmations: see the head of this file.
pub(crate) struct Confirmations {
    election: Duration,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// Answers that openraft may be counting: the replica, and when its append was sent.
    handed: BTreeMap<ReplicaId, Instant>,
    /// Latest time at which an answer was counted too late for a lease.
    late: Option<Instant>,
    /// Latest time at which an answer was counted too late for any read.
    too_late: Option<Instant>,
    /// Set once this replica has sent voters without itself.
    has_left: bool,
}

impl Confirmations {
    /// Makes the confirmations of a leader whose voters refuse to vote for another replica for the
    /// time `election`.
    pub(crate) fn new(election: Duration) -> Self {
        Confirmations { election, inside: Mutex::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self, sent: Instant, now: Instant) -> bool {
        now.saturating_duration_since(sent) > self.election / 10
    }

    fn is_too_late(&self, sent: Instant, now: Instant) -> bool {
        now.saturating_duration_since(sent) > self.election / 2
    }

    fn judge(&self, inside: &mut Inside, sent: Instant) {
        let now = Instant::now();
        if self.is_late(sent, now) {
            inside.late = inside.late.max(Some(now));
        }
        if self.is_too_late(sent, now) {
            inside.too_late = inside.too_late.max(Some(now));
        }
    }

    /// Notes that openraft is about to get the answer of `from` to an append that was sent at
    /// `sent`.
    pub(crate) fn hand_over(&self, from: ReplicaId, sent: Instant) {
        let mut inside = self.inside();
        self.judge(&mut inside, sent);
        inside.handed.insert(from, sent);
    }

    /// Notes that openraft has counted the last answer of `from`.
    pub(crate) fn counted(&self, from: ReplicaId) {
        let mut inside = self.inside();
        if let Some(sent) = inside.handed.remove(&from) {
            self.judge(&mut inside, sent);
        }
    }

    /// Notes that this replica is about to send voters without itself.
    pub(crate) fn leave(&self) {
        self.inside().has_left = true;
    }

    /// Returns true if a read that began at `began`, and that openraft has answered by the lease,
    /// may be answered.
    pub(crate) fn has_lease(&self, began: Instant) -> bool {
        let (inside, now) = (self.inside(), Instant::now());
        let was_late = inside.late.is_some_and(|late| late + self.election >= began);
        let is_late = inside.handed.values().any(|sent| self.is_late(*sent, now));
        !inside.has_left && !was_late && !is_late
    }

    /// Returns true if a read that began at `began`, and that openraft has confirmed, may be
    /// answered.
    pub(crate) fn is_confirmed(&self, began: Instant) -> bool {
        let (inside, now) = (self.inside(), Instant::now());
        let was_late = inside.too_late.is_some_and(|late| late >= began);
        let is_late = inside.handed.values().any(|sent| self.is_too_late(*sent, now));
        !was_late && !is_late
    }
}
