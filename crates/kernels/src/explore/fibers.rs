//! The threads of an execution: coroutines, each on a stack of its own, which all run on the thread
//! that explores. Handing on is a few instructions; between threads of the system it would be most
//! of the time.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ptr;

/// Enough for a panic with a back trace. What is not touched is not there.
const STACK_BYTES: usize = 1 << 20;

/// The body of one thread.
pub(super) type Body = Box<dyn FnOnce()>;

thread_local! {
    /// The running thread's way back to [`Fibers::resume`].
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// The threads of one execution after the other, and stacks to use again.
#[derive(Default)]
pub(super) struct Fibers {
    threads: Vec<Coroutine<(), (), ()>>,
    stacks: Vec<DefaultStack>,
}

impl Fibers {
    /// Adds a thread; it runs when it is resumed. `body` must not panic.
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

    /// Forgets the threads. All must have ended.
    pub(super) fn clear(&mut self) {
        self.stacks.extend(self.threads.drain(..).map(Coroutine::into_stack));
    }
}

/// Lets the explorer go on; returns when it resumes the calling thread.
pub(super) fn suspend() {
    let yielder = YIELDER.get();
    // SAFETY: only threads of an execution get here. The word is the running one's: it is set where
    // a thread begins and, below, where it goes on. It points to that thread's stack, which stays
    // until its body has ended.
    unsafe { (*yielder).suspend(()) }
    YIELDER.set(yielder);
}
