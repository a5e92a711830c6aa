//! Faults that the checkers must notice. Each fault changes one step of a kernel.
//!
//! A kernel asks its [`Built`] which ordering to use, or whether to leave a step out. Outside of
//! tests the answer is a constant. The tests in each kernel's `checks` build the kernel with each
//! of its mutants. The explorer must notice every mutant. Loom must notice each mutant that the
//! test's table assigns to both checkers. Without these tests a passing check of the sound kernel
//! would show little.

use crate::sync_shim::Ordering;

/// One deliberate fault.
#[cfg_attr(not(test), allow(dead_code, reason = "only tests build kernels with mutants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mutant {
    /// `aether`: the latch is given back without publishing the changes made under it.
    RelaxedLatch,
    /// `aether`: the leader notifies its group without publishing the group's range.
    RelaxedNotify,
    /// `aether`: a member leaves its group without publishing its copy.
    RelaxedLeave,
    /// `aether`: the leader frees the group's slot although other members still use it.
    SlotFreedEarly,
    /// `aether`: the group's size is read and the slot closed in two steps.
    CloseInTwoSteps,
    /// `decoupled`, `hybrid`: a range is released without waiting for the previous range.
    ReleasedOutOfTurn,
    /// `delegated`: an owner delegates its node without publishing its copy.
    RelaxedDelegation,
    /// `delegated`: an owner delegates its node by a plain store, even if the node was granted
    /// meanwhile.
    DelegatedUnasked,
    /// `delegated`: the successor is granted its node before the predecessor's range is released.
    GrantedEarly,
    /// `delegated`: a thread waits for a node of the release queue while it holds the latch.
    WaitedUnderLatch,
    /// `chunked`: a session marks itself BUSY without publishing its earlier records.
    RelaxedBusy,
    /// `chunked`: a chunk is reserved without publishing that its session is busy.
    RelaxedChunk,
    /// `chunked`: a chunk is reserved without acquiring the limits that earlier records were
    /// admitted against.
    ReleaseOnlyChunk,
    /// `chunked`: a session that was refused stays BUSY.
    RefusedBusy,
    /// `chunked`: a record is finished without publishing its copy.
    RelaxedOpen,
    /// `chunked`: a sealed chunk's padding is not published.
    RelaxedSeal,
    /// `chunked`: a session claims its open chunk by a plain store, even if a scanner has sealed it
    /// meanwhile.
    ClaimedUnasked,
    /// `chunked`: a scanner seals a chunk by a plain store, even if the owner has claimed it
    /// meanwhile.
    SealedUnasked,
    /// `chunked`: a scan reads the cutoff after the sessions' words.
    ChunkCutoffLast,
    /// `grasshopper`: a node is put into the list without publishing its copy.
    RelaxedTail,
    /// `grasshopper`: bytes are counted without publishing their copy.
    RelaxedCount,
    /// `grasshopper`: bytes are counted before their node is in the list.
    CountedFirst,
    /// `grasshopper`: an owner overwrites a node before the tracker has passed it.
    ListOverrun,
    /// `bitmap`: bits are set without publishing the copy.
    RelaxedBits,
    /// `bitmap`: a record's bits are set from its first byte on.
    FirstBitFirst,
    /// `bitmap`: bits are cleared after the frontier was published, when their next owners may have
    /// set them again.
    ClearedLate,
    /// `marks`: a session announces without publishing its previous record.
    RelaxedAnnounce,
    /// `marks`: a session does not announce.
    NoAnnounce,
    /// `marks`: a record is reserved without publishing its announcement.
    RelaxedReserve,
    /// `marks`: a record is reserved without acquiring the limits that earlier records were
    /// admitted against.
    ReleaseOnlyReserve,
    /// `marks`: a record is finished without publishing its copy.
    RelaxedFinish,
    /// `marks`: a session that was refused leaves its announcement.
    NeverWithdrawn,
    /// `marks`: a scan reads the cutoff after the marks.
    MarksCutoffLast,
    /// `tracker`: an owner notifies without publishing that its range is filled.
    RelaxedNotification,
    /// `tracker`: the tracker parks without a scan after it has stored ASLEEP.
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

    /// Returns false: outside of tests a kernel has no mutant.
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

    /// The ordering of a reservation. The mutant `relaxed` weakens it to Relaxed; the mutant
    /// `release_only` leaves out the acquire.
    #[inline(always)]
    pub(super) fn reserves(self, relaxed: Mutant, release_only: Mutant) -> Ordering {
        if self.is(release_only) { Ordering::Release } else { self.order(relaxed, Ordering::SeqCst) }
    }
}
