//! Named places in the engines where a test can hold up a thread, or end it: places between two steps whose order matters.
//!
//! A new place is a new variant and a call of [`at`], which is nothing in other builds. Invariant: no place is between two steps of which
//! the second must follow at once, so that holding a thread up there is like the machine not running it.
//!
//! A test gives each of its threads a hook, which the thread runs at each place that it comes to. Threads without a hook, and all
//! threads of other builds, run through. `scheduler` (tests only) has a hook that decides by a seed which thread goes on.

/// A place. The thread that comes to it may hold latches: each says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Paged engine: a record of a change is in the log, its pages are not changed yet. Holds their latches.
    Logged,
    /// Paged engine: one page of several was changed. Holds all their latches.
    Edited,
    /// Paged engine: the flusher has said that a page is being written back, and not yet that it is clean. Holds the flusher's mutex and
    /// page latches, shared.
    FlushBegun,
    /// Either engine: a record is about to be appended. Holds the latches of the pages that it changes, or, in the memory engine, nothing.
    Append,
    /// Paged engine: a record was appended. Holds what [`Place::Append`] does, and the log's session.
    Appended,
    /// Paged engine: a checkpoint has captured what is active and dirty. Holds the checkpoint mutex, as the places below do.
    Captured,
    /// Memory engine: a checkpoint is about to note where a stream of the log stands.
    StreamNoted,
    /// Memory engine: a checkpoint is about to copy rows.
    Rows,
}

/// The calling thread has come to a place.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn at(_: Place) {}

#[cfg(test)]
pub(crate) mod scheduler;

#[cfg(test)]
pub(crate) use hook::{at, with_hook};

#[cfg(test)]
mod hook {
    use super::Place;
    use std::cell::RefCell;
    use std::rc::Rc;

    type Hook = Rc<dyn Fn(Place)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// The calling thread has come to a place.
    pub(crate) fn at(place: Place) {
        let hook = HOOK.with_borrow(Clone::clone);
        if let Some(hook) = hook {
            hook(place);
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
    pub(crate) fn with_hook<R>(hook: impl Fn(Place) + 'static, work: impl FnOnce() -> R) -> R {
        HOOK.set(Some(Rc::new(hook)));
        let _unhook = Unhook;
        work()
    }
}
