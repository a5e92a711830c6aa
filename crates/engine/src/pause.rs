//! Named places in the engines where a test can hold up a thread, or end it: places between two
//! steps whose order matters.
//!
//! A new place is a new variant and a call of [`at`], which is nothing in other builds: its body is
//! empty there, and the names of `hook`, `device` and `scheduler` are compiled into the crate's own
//! tests only. Invariant: no place is between two steps of which the second must follow at once, so
//! that holding a thread up there is like the machine not running it.
//!
//! A directed test gives its thread a hook, which the thread runs at each place that it comes to. A
//! random test runs its threads under the seeded scheduler of `crates/interleave`: one thread at a
//! time runs, and each place may hand the turn to another. Places of these tests are the named
//! ones, each latch of the engines (`latch`), each call to the device and its return (`device`),
//! and each wait, of whatever crate.

/// A place. The thread that comes to it may hold latches: each says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PausePoint {
    /// Paged engine: a record of a change is in the log, its pages are not changed yet. Holds their
    /// latches.
    Logged,
    /// Paged engine: one page of several was changed. Holds all their latches.
    Edited,
    /// Paged engine: the flusher has said that a page is being written back, and not yet that it is
    /// clean. Holds the flusher's mutex and page latches, shared.
    FlushBegun,
    /// Either engine: a record is about to be appended. Holds the latches of the pages that it
    /// changes, or, in the memory engine, nothing.
    Append,
    /// Either engine: a record was appended. Holds what [`PausePoint::Append`] does, and, in the
    /// paged engine, the log's session. In the memory engine the versions are still undecided.
    Appended,
    /// Paged engine: a view is about to raise the clock of views or has done so, or a committing
    /// transaction has read it. Holds the list of open views, or the latch of the transaction's
    /// images.
    Stamped,
    /// Paged engine: a checkpoint has captured what is active and dirty. Holds the checkpoint
    /// mutex, as the places below do.
    Captured,
    /// Either engine: a copy has all pages or rows, and not yet its end. Holds nothing.
    PagesCopied,
    /// Memory engine: a checkpoint is about to note where a stream of the log stands.
    StreamNoted,
    /// Memory engine: a checkpoint is about to copy rows.
    Rows,
    /// A latch is about to be taken, or tried. Holds any latches of lower ranks.
    #[cfg(test)]
    Latch,
    /// A call to the device begins, or has returned. Holds whatever the caller does.
    #[cfg(test)]
    Device,
}

/// The calling thread has come to a place.
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
                PausePoint::Latch => "latch",
                PausePoint::Device => "device",
            }
        }
    }

    /// The calling thread has come to a place.
    #[track_caller]
    pub(crate) fn at(place: PausePoint) {
        // While a thread's locals are being destroyed it has no hook.
        let hook = HOOK.try_with(|hook| hook.borrow().clone()).ok().flatten();
        if let Some(hook) = hook {
            hook(place);
        }
        match place {
            PausePoint::Latch | PausePoint::Device => katydid_interleave::pause(place.name()),
            _ => katydid_interleave::pause_between(place.name()),
        }
    }

    /// Takes the hook away, also after a panic.
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
