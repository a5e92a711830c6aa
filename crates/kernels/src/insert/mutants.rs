//! Faults that the checkers must notice: each names one step of a kernel that would be wrong in
//! that way.
//!
//! A kernel asks its [`Built`] which ordering to use, or whether to leave a step out. Outside of
//! tests that is a constant. The tests in each kernel's `checks` build it with every mutant of its
//! own and assert that the explorer finds it, and loom too but for those of which their table says
//! that loom does not; otherwise what a checker says about the sound kernel would be worth little.

use crate::sync_shim::Ordering;

/// One deliberate fault.
#[cfg_attr(not(test), allow(dead_code, reason = "only tests build kernels with mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutant {
    /// `aether`: the latch is given back without publishing what was done under it.
    RelaxedLatch,
    /// `aether`: a group is told where it lies before that can be seen.
    RelaxedNotify,
    /// `aether`: a member leaves its group without publishing its copy.
    RelaxedLeave,
    /// `aether`: the leader frees the group's slot, though others still use it.
    SlotFreedEarly,
    /// `aether`: the group's size is read and the slot closed in two steps.
    CloseInTwoSteps,
    /// `decoupled`, `hybrid`: a range is released without waiting for the one before.
    ReleasedOutOfTurn,
    /// `delegated`: a node is given up without publishing its copy.
    RelaxedDelegation,
    /// `delegated`: a node is given up by a plain store, whether it was granted meanwhile or not.
    DelegatedUnasked,
    /// `delegated`: the successor is granted its node before the predecessor's range is released.
    GrantedEarly,
    /// `delegated`: a thread without a node in the release queue waits with the latch.
    WaitedUnderLatch,
    /// `chunked`: a session begins to fill without publishing its records before.
    RelaxedBusy,
    /// `chunked`: a chunk is reserved without publishing that its session is busy.
    RelaxedChunk,
    /// `chunked`: a chunk is reserved without acquiring what the records before it were admitted
    /// against.
    ReleaseOnlyChunk,
    /// `chunked`: a session that was refused stays busy.
    RefusedBusy,
    /// `chunked`: a record is finished without publishing its copy.
    RelaxedOpen,
    /// `chunked`: a sealed chunk's padding is not published.
    RelaxedSeal,
    /// `chunked`: a session takes its open chunk by a plain store, whether it was sealed meanwhile
    /// or not.
    ClaimedUnasked,
    /// `chunked`: a scanner seals by a plain store, whether the owner has gone on meanwhile or not.
    SealedUnasked,
    /// `chunked`: the cutoff is read after the words.
    ChunkCutoffLast,
    /// `grasshopper`: a node is put into the list without publishing its copy.
    RelaxedTail,
    /// `grasshopper`: bytes are counted without publishing their copy.
    RelaxedCount,
    /// `grasshopper`: bytes are counted before their node is in the list.
    CountedFirst,
    /// `grasshopper`: a node is written over before the tracker has passed it.
    ListOverrun,
    /// `bitmap`: bits are set without publishing the copy.
    RelaxedBits,
    /// `bitmap`: bits are set from a record's begin on.
    FirstBitFirst,
    /// `bitmap`: bits are cleared after the frontier is known, when their places may be in use
    /// again.
    ClearedLate,
    /// `marks`: a session announces without publishing its record before.
    RelaxedAnnounce,
    /// `marks`: a session does not announce.
    NoAnnounce,
    /// `marks`: a record is reserved without publishing its announcement.
    RelaxedReserve,
    /// `marks`: a record is reserved without acquiring what the records before it were admitted
    /// against.
    ReleaseOnlyReserve,
    /// `marks`: a record is finished without publishing its copy.
    RelaxedFinish,
    /// `marks`: a session that was refused leaves its announcement.
    NeverWithdrawn,
    /// `marks`: the cutoff is read after the marks.
    MarksCutoffLast,
    /// `tracker`: an owner notifies without publishing what it has filled.
    RelaxedNotification,
    /// `tracker`: it sleeps without a look after saying so.
    SleptUnlooked,
}

/// Variant of a kernel: sound, or with one mutant.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Built {
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Built {
    #[cfg(test)]
    #[cfg_attr(not(any(loom, katydid_explore)), allow(dead_code, reason = "only checkers are shown mutants"))]
    pub(super) fn with(mutant: Mutant) -> Self {
        Built { mutant: Some(mutant) }
    }

    /// Returns whether the kernel has `mutant`.
    #[cfg(test)]
    pub(super) fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Never, outside of tests.
    #[cfg(not(test))]
    #[inline(always)]
    pub(super) fn is(self, _mutant: Mutant) -> bool {
        false
    }

    /// The ordering of a step that `mutant` weakens.
    #[inline(always)]
    pub(super) fn order(self, mutant: Mutant, sound: Ordering) -> Ordering {
        if self.is(mutant) { Ordering::Relaxed } else { sound }
    }

    /// The ordering of a reservation: one mutant weakens it altogether, the other leaves out the
    /// acquire.
    #[inline(always)]
    pub(super) fn reserves(self, relaxed: Mutant, release_only: Mutant) -> Ordering {
        if self.is(release_only) { Ordering::Release } else { self.order(relaxed, Ordering::SeqCst) }
    }
}
