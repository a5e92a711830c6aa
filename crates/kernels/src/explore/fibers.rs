//! The threads of an execution: coroutines, each on a stack of its own. All coroutines run on the
//! thread that explores. A switch between coroutines takes a few instructions; with threads of the
//! operating system, switches would take most of the time of an exploration.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ptr;

/// Bytes of a stack: enough for a panic with a back trace. Pages that are never touched take no
/// memory.
const STACK_BYTES: usize = 1 << 20;

/// The body of one thread.
pub(super) type Body = Box<dyn FnOnce()>;

thread_local! {
    /// Switches from the running thread back to [`Fibers::resume`].
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// The threads of the present execution, and stacks of earlier ones for reuse.
#[derive(Default)]
pub(super) struct Fibers {
    threads: Vec<Coroutine<(), (), ()>>,
    stacks: Vec<DefaultStack>,
}

impl Fibers {
    /// Adds a thread, which begins to run when it is first resumed. `body` must not panic.
    pub(super) fn start(&mut self, body: Body) {
        let stack =
            self.stacks.pop().unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a stack"));
        self.threads.push(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            body();
        }));
    }

    /// Lets a thread run until it suspends itself, or ends.
    pub(super) fn resume(&mut self, thread: usize) {
        match self.threads[thread].resume(()) {
            CoroutineResult::Yield(()) | CoroutineResult::Return(()) => {}
        }
    }

    /// Removes all threads and keeps their stacks. All threads must have ended.
    pub(super) fn clear(&mut self) {
        self.stacks.extend(self.threads.drain(..).map(Coroutine::into_stack));
    }
}

/// Switches to the explorer. Returns when the explorer resumes the calling thread.
pub(super) fn suspend() {
    let yielder = YIELDER.get();
    // SAFETY: only threads of an execution call this function. `YIELDER` points to the yielder of
    // the running thread: it is set when a thread begins and, below, when a thread is resumed. The
    // pointer leads into that thread's stack, which lives until the thread's body has ended.
    unsafe { (*yielder).suspend(()) }
    YIELDER.set(yielder);
}
