//! Pause points: named places in the engines where a test can hold up a thread, or end it. A pause
//! point lies between two steps whose order matters.
//!
//! To add a pause point, add a variant and a call of [`at`]. Outside of the crate's own tests the
//! body of [`at`] is empty, and `hook`, `device` and `scheduler` are not compiled. Invariant: no
//! step has to follow a pause point within a certain time. So a thread that a test holds up there
//! is like a thread that the machine does not run for a while.
//!
//! A directed test gives its thread a hook, which the thread runs at each pause point that it
//! reaches. A random test runs its threads under the seeded scheduler of `crates/interleave`: one
//! thread at a time runs, and at each scheduling point the scheduler may let another thread run.
//! The scheduling points are the pause points and each wait in any crate.
//!
//! Two pause points exist only in the crate's own tests: `Latch`, before each acquisition of a
//! latch of the engines except page latches (`latch`), and `Device`, before each call to the device
//! and after its return (`device`).

/// A pause point. Each variant names the latches that the thread holds there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PausePoint {
    /// Paged engine: a record of a change is in the log, and the pages are not changed yet. Holds
    /// the pages' latches.
    Logged,
    /// Paged engine: one page of several was changed. Holds the latches of all these pages.
    Edited,
    /// Paged engine: the flusher has said that a page is being written back, and not yet that it is
    /// clean. Holds the flusher's mutex, and the page's latch in shared mode.
    FlushBegun,
    /// Either engine: a record is about to be appended. In the paged engine the thread holds the
    /// latches of the pages that the record changes, and the slot of the record's transaction. In
    /// the memory engine it holds nothing.
    Append,
    /// Either engine: a record was appended. Holds the latches that it held at
    /// [`PausePoint::Append`], and, in the paged engine, the log's session. In the memory engine
    /// the versions are still pending.
    Appended,
    /// Paged engine: a thread that opens a view is about to store the view's stamp, or has stored
    /// it and is about to look for a commit with the next stamp; this thread holds the latch of the
    /// view's lists. Or the view has its stamp; the thread holds nothing. Or a thread that makes a
    /// commit visible to views has read the clock of views; it holds the latch of the transaction's
    /// images.
    Stamped,
    /// Paged engine: a checkpoint has captured the active transactions and the dirty pages. Holds
    /// `CheckpointSchedule::turn`.
    Captured,
    /// Either engine: a copy has all pages or rows, and the end of its log is not chosen yet. Holds
    /// nothing.
    PagesCopied,
    /// Memory engine: a checkpoint is about to note the position of a stream of the log. Holds
    /// `CheckpointSchedule::turn`.
    StreamNoted,
    /// Memory engine: a thread of a checkpoint is about to copy rows. The thread that takes the
    /// checkpoint holds `CheckpointSchedule::turn`; its helpers hold nothing.
    Rows,
    /// Memory engine: an archiver has cut the log. The thread holds nothing.
    Cut,
    /// A latch is about to be taken, or tried. The thread may hold other latches.
    #[cfg(test)]
    Latch,
    /// A call to the device begins, or has returned. The thread may hold latches.
    #[cfg(test)]
    Device,
}

/// Called by a thread that has reached a pause point.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn at(_: PausePoint) {}

#[cfg(test)]
pub(crate) mod device;
#[cfg(test)]
pub(crate) mod scheduler;

#[cfg(test)]
pub(crate) use hook::{at, with_hook};

#[cfg(test)]
mod hook {
    use super::PausePoint;
    use std::cell::RefCell;
    use std::rc::Rc;

    type Hook = Rc<dyn Fn(PausePoint)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    impl PausePoint {
        fn name(self) -> &'static str {
            match self {
                PausePoint::Logged => "logged",
                PausePoint::Edited => "edited",
                PausePoint::FlushBegun => "flush begun",
                PausePoint::Append => "append",
                PausePoint::Appended => "appended",
                PausePoint::Stamped => "stamped",
                PausePoint::Captured => "captured",
                PausePoint::PagesCopied => "pages copied",
                PausePoint::StreamNoted => "stream noted",
                PausePoint::Rows => "rows",
                PausePoint::Cut => "cut",
                PausePoint::Latch => "latch",
                PausePoint::Device => "device",
            }
        }
    }

    /// Called by a thread that has reached a pause point.
    #[track_caller]
    pub(crate) fn at(place: PausePoint) {
        // A thread has no hook while its locals are being destroyed.
        let hook = HOOK.try_with(|hook| hook.borrow().clone()).ok().flatten();
        if let Some(hook) = hook {
            hook(place);
        }
        match place {
            PausePoint::Latch | PausePoint::Device => katydid_interleave::pause(place.name()),
            _ => katydid_interleave::pause_between(place.name()),
        }
    }

    /// Removes the hook when dropped, also after a panic.
    struct Unhook;

    impl Drop for Unhook {
        fn drop(&mut self) {
            HOOK.set(None);
        }
    }

    /// Runs `work` on the calling thread with this hook.
    pub(crate) fn with_hook<R>(hook: impl Fn(PausePoint) + 'static, work: impl FnOnce() -> R) -> R {
        HOOK.set(Some(Rc::new(hook)));
        let _unhook = Unhook;
        work()
    }
}
