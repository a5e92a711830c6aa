//! The lock of one key: its holders and its waiters. This code does no I/O and runs inside the
//! mutex of the key's shard.
//!
//! Rules:
//!
//! 1. Holders are pairwise compatible, and no transaction appears twice among them.
//! 2. The queue is in the order in which waiters are granted. A new request joins at the end, with
//!    two exceptions. A request that would close a cycle by waiting for an earlier waiter joins
//!    before all waiters. An upgrade joins at the front, behind earlier upgrades: its transaction
//!    already holds the key, so an upgrade behind a waiter that the held lock blocks would be a
//!    deadlock.
//! 3. A waiter is granted as soon as no range blocks it (`point`), and it is compatible with all
//!    other holders and with all waiters before it. So no stream of readers starves a writer.
//! 4. An entry without holders and waiters is vacant and must be removed from the shard.
//!
//! An entry is 24 bytes. In the common case of one holder and no waiters it owns no other memory.

use super::mode::PointMode;
use super::range::Ticket;
use crate::ids::TxnId;

#[derive(Debug, Clone, Copy)]
struct Holder {
    txn: TxnId,
    mode: PointMode,
}

/// A request in the queue of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) txn: TxnId,
    pub(super) mode: PointMode,
    /// True if the transaction already holds the key, in a weaker mode.
    pub(super) upgrade: bool,
    /// Position in the order of all waits of the table. The position shows which ranges began to
    /// wait earlier.
    pub(super) ticket: Ticket,
    /// True if this waiter may be granted ahead of ranges that wait, because waiting for them would
    /// have closed a cycle.
    pub(super) passes_ranges: bool,
}

#[derive(Debug, Default)]
struct Rest {
    more: Vec<Holder>,
    queue: Vec<Waiter>,
}

/// The lock of one key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    first: Option<Holder>,
    rest: Option<Box<Rest>>,
}

impl Entry {
    /// An entry that one transaction holds.
    pub(super) fn held_by(txn: TxnId, mode: PointMode) -> Self {
        Entry { first: Some(Holder { txn, mode }), rest: None }
    }

    fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| &rest.more))
    }

    /// The waiters in the order in which they are granted.
    pub(super) fn queue(&self) -> &[Waiter] {
        self.rest.as_ref().map_or(&[], |rest| &rest.queue)
    }

    pub(super) fn is_vacant(&self) -> bool {
        self.first.is_none() && self.queue().is_empty()
    }

    /// The transaction that holds the key exclusively.
    pub(super) fn writer(&self) -> Option<TxnId> {
        self.first.filter(|holder| holder.mode == PointMode::Exclusive).map(|holder| holder.txn)
    }

    /// Returns whether a holder other than `txn` is incompatible with `mode`.
    pub(super) fn is_held_against(&self, txn: TxnId, mode: PointMode) -> bool {
        self.holders().any(|holder| holder.txn != txn && !mode.admits(holder.mode))
    }

    /// Adds to `out` the holders other than `txn` that are incompatible with `mode`.
    pub(super) fn holders_against(&self, txn: TxnId, mode: PointMode, out: &mut Vec<TxnId>) {
        out.extend(
            self.holders()
                .filter(|holder| holder.txn != txn && !mode.admits(holder.mode))
                .map(|holder| holder.txn),
        );
    }

    /// Adds to `out` the waiters before `place` that are incompatible with `mode`. Goes backwards
    /// from `place` and ends with the first exclusive waiter, which itself waits for all waiters
    /// before it. So a queue of n writers has n edges, not n^2.
    pub(super) fn queued_against(&self, place: usize, mode: PointMode, out: &mut Vec<TxnId>) {
        for waiter in self.queue()[..place].iter().rev() {
            if !mode.admits(waiter.mode) {
                out.push(waiter.txn);
            }
            if waiter.mode == PointMode::Exclusive {
                return;
            }
        }
    }

    /// Index at which a new request joins the queue.
    pub(super) fn place_for(&self, upgrade: bool) -> usize {
        let queue = self.queue();
        if upgrade { queue.iter().take_while(|waiter| waiter.upgrade).count() } else { queue.len() }
    }

    pub(super) fn enqueue(&mut self, place: usize, waiter: Waiter) {
        self.rest.get_or_insert_default().queue.insert(place, waiter);
    }

    /// Removes the waiter at `place` from the queue.
    pub(super) fn dequeue(&mut self, place: usize) -> Option<Waiter> {
        let rest = self.rest.as_mut()?;
        let waiter = (place < rest.queue.len()).then(|| rest.queue.remove(place));
        self.tidy();
        waiter
    }

    /// Removes `txn` from the queue, if it is still there.
    pub(super) fn forget_waiter(&mut self, txn: TxnId) {
        if let Some(place) = self.queue().iter().position(|waiter| waiter.txn == txn) {
            self.dequeue(place);
        }
    }

    /// Makes `txn` a holder, or raises its mode. The caller has checked that rule 1 stays true.
    pub(super) fn hold(&mut self, txn: TxnId, mode: PointMode) {
        debug_assert!(!self.is_held_against(txn, mode));
        let Some(first) = &mut self.first else {
            self.first = Some(Holder { txn, mode });
            return;
        };
        if first.txn == txn {
            first.mode = first.mode.max(mode);
            return;
        }
        let more = &mut self.rest.get_or_insert_default().more;
        match more.iter_mut().find(|holder| holder.txn == txn) {
            Some(holder) => holder.mode = holder.mode.max(mode),
            None => more.push(Holder { txn, mode }),
        }
    }

    /// Removes `txn` from the holders.
    pub(super) fn drop_holder(&mut self, txn: TxnId) {
        if self.first.is_some_and(|holder| holder.txn == txn) {
            self.first = self.rest.as_mut().and_then(|rest| rest.more.pop());
        } else if let Some(rest) = &mut self.rest
            && let Some(at) = rest.more.iter().position(|holder| holder.txn == txn)
        {
            rest.more.swap_remove(at);
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        if self.rest.as_ref().is_some_and(|rest| rest.more.is_empty() && rest.queue.is_empty()) {
            self.rest = None;
        }
    }
}
