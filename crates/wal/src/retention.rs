//! The owner and the pins that keep the log from being trimmed.
//!
//! Any thread may call this code. The owner of a log says from which position on it needs the log
//! ([`Stream::trim`](crate::Stream::trim)); a pin names such a position for another user, such as a
//! backup or a consumer of the records. The log is trimmed to the least of these positions. A pin
//! has a maximum of bytes. A pin is lost if it is farther behind the end of the log when the owner
//! trims, and no other pin retains the same records. The trim then drops the part that only this
//! pin retained. In NVRAM pins are also lost when a quarter of the log or more is in use after a
//! trim. A pin therefore never makes a log grow without bound or become full.
//!
//! Invariants:
//!
//! 1. While a pin is held, a trim that began after the pin was made does not go above the pin's
//!    positions. A trim that began earlier has stored its target in `floor` under the latch, and a
//!    pin below `floor` is refused.
//! 2. A pin that is lost stays lost, and its holder can see it ([`Pin::is_held`]).
//! 3. Every position of a pin is the start of a record, or was the durable frontier when it was
//!    named. A trim may end at such a position.
//! 4. No device is called under the latch.
//!
//! Pins of this file are in memory only. A crash ends all of them.

use crate::core::locked;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync_shim::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The positions from which on the owner and the pins need a log; one object for all its streams.
#[derive(Debug)]
pub(crate) struct Retention {
    /// The greatest position that the owner has trimmed to, for each stream. Stored (Release) under
    /// `state`, loaded (Acquire) by any thread.
    owner: Box<[AtomicU64]>,
    /// Under this latch a trim takes the latch of the truncated ranges (`truncated`), and no thread
    /// takes any other.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The greatest position to which a trim has begun, for each stream.
    floor: Box<[Lsn]>,
    pins: BTreeMap<u64, Held>,
    /// The number of the next pin.
    next: u64,
}

#[derive(Debug)]
struct Held {
    /// A position of each stream.
    from: Box<[Lsn]>,
    bytes_max: u64,
    is_lost: bool,
}

impl Held {
    fn behind(&self, ends: &[Lsn]) -> u64 {
        self.from.iter().zip(ends).map(|(from, end)| end.since(*from)).sum()
    }
}

impl Retention {
    /// Returns the retention of a log whose streams start at `starts`.
    pub(crate) fn new(starts: Vec<Lsn>) -> Arc<Self> {
        let owner = starts.iter().map(|start| AtomicU64::new(start.get())).collect();
        let state = State { floor: starts.into_boxed_slice(), pins: BTreeMap::new(), next: 0 };
        Arc::new(Retention { owner, state: Mutex::new(state) })
    }

    /// Returns the greatest position that the owner of the stream has trimmed to.
    pub(crate) fn owner(&self, stream: usize) -> Lsn {
        Lsn::new(self.owner[stream].load(Ordering::Acquire))
    }

    /// Notes that the owner needs the stream only from `to` on. Returns the position to which the
    /// stream may be trimmed now, if the streams end at `ends`. `round` lowers a position to one
    /// where the stream may start.
    pub(crate) fn trim(&self, stream: usize, to: Lsn, ends: &[Lsn], round: impl Fn(Lsn) -> Lsn) -> Lsn {
        let mut state = locked(&self.state);
        let state = &mut *state;
        let mut bound = self.owner(stream).max(to);
        self.owner[stream].store(bound.get(), Ordering::Release);
        let (near, far): (Vec<_>, Vec<_>) = state
            .pins
            .values_mut()
            .filter(|held| !held.is_lost)
            .partition(|held| held.behind(ends) <= held.bytes_max);
        for held in near {
            bound = bound.min(held.from[stream]);
        }
        // A pin that is too far behind is not lost while another pin retains the same records.
        for held in far.into_iter().filter(|held| held.from[stream] < bound) {
            held.is_lost = true;
        }
        let bound = round(bound);
        state.floor[stream] = state.floor[stream].max(bound);
        bound
    }

    /// Marks all pins as lost that retain more of the stream than its owner needs. Returns the
    /// position to which the stream may then be trimmed.
    pub(crate) fn release(&self, stream: usize) -> Lsn {
        let mut state = locked(&self.state);
        let state = &mut *state;
        let owner = self.owner(stream);
        for held in state.pins.values_mut().filter(|held| held.from[stream] < owner) {
            held.is_lost = true;
        }
        state.floor[stream] = owner;
        owner
    }

    /// Makes a pin of everything from `from` on; `from` has one position of each stream. The error
    /// names a stream that was trimmed above its position, and the start of that stream.
    pub(crate) fn pin(self: &Arc<Self>, from: &[Lsn], bytes_max: u64) -> Result<Pin, (usize, Lsn)> {
        let mut state = locked(&self.state);
        if let Some(stream) = (0..from.len()).find(|stream| from[*stream] < state.floor[*stream]) {
            return Err((stream, state.floor[stream]));
        }
        Ok(self.hold(&mut state, from.into(), bytes_max))
    }

    /// Makes a pin that an earlier opening had. The pin is lost if the log starts above it.
    pub(crate) fn restore(self: &Arc<Self>, from: &[Lsn], bytes_max: u64) -> Pin {
        let mut state = locked(&self.state);
        let is_lost = from.iter().zip(&state.floor).any(|(from, floor)| from < floor);
        let pin = self.hold(&mut state, from.into(), bytes_max);
        if let Some(held) = state.pins.get_mut(&pin.number) {
            held.is_lost = is_lost;
        }
        pin
    }

    /// Makes a pin of everything that the log has.
    pub(crate) fn pin_all(self: &Arc<Self>, bytes_max: u64) -> Pin {
        let mut state = locked(&self.state);
        let from = state.floor.clone();
        self.hold(&mut state, from, bytes_max)
    }

    fn hold(self: &Arc<Self>, state: &mut State, from: Box<[Lsn]>, bytes_max: u64) -> Pin {
        let number = state.next;
        state.next += 1;
        state.pins.insert(number, Held { from: from.clone(), bytes_max, is_lost: false });
        Pin { retention: self.clone(), number, from }
    }

    /// Returns the number of bytes that pins retain and the owner does not need, over all streams.
    pub(crate) fn kept(&self) -> u64 {
        let state = locked(&self.state);
        let kept = |stream: usize| {
            let held = state.pins.values().filter(|held| !held.is_lost).map(|held| held.from[stream]);
            let owner = self.owner(stream);
            owner.since(held.min().unwrap_or(owner).min(owner))
        };
        (0..self.owner.len()).map(kept).sum()
    }
}

/// Positions from which on a log is retained: while the pin exists, no trim goes above them. Made
/// by [`Log::pin`](crate::Log::pin) and [`Log::pin_all`](crate::Log::pin_all).
///
/// A pin does not keep the log open, and is not stored: an opening begins without pins. Dropping a
/// pin trims nothing before the owner's next trim.
#[must_use = "dropping the pin lets the log be trimmed"]
#[derive(Debug)]
pub struct Pin {
    retention: Arc<Retention>,
    number: u64,
    from: Box<[Lsn]>,
}

impl Pin {
    /// Returns the position in each stream from which on the pin keeps records.
    pub fn from(&self) -> &[Lsn] {
        &self.from
    }

    /// Returns whether the log still has everything that is pinned. Returns false once the log's
    /// owner has trimmed while the pin was too far behind.
    pub fn is_held(&self) -> bool {
        locked(&self.retention.state).pins.get(&self.number).is_some_and(|held| !held.is_lost)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        locked(&self.retention.state).pins.remove(&self.number);
    }
}
