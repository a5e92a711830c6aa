//! The runtime of the group: tokio's, with random numbers that a seed determines.
//!
//! openraft draws election time-outs from its runtime's random numbers. Here these numbers come
//! from the thread's generator of `fastrand`. The operating system seeds that generator; a
//! simulation, which runs on one thread, sets the seed.

use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The longest wait: 30 years. A longer one, such as `Duration::MAX`, may be more than clocks can
/// count.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30 * 365 * 86_400);

/// tokio's runtime, with random numbers that a seed determines.
#[derive(Debug)]
pub(crate) struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> SmallRng {
        SmallRng::seed_from_u64(fastrand::u64(..))
    }

    fn new(threads: usize) -> Self {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

/// Returns true on a thread of this runtime, for example in a callback. Such a thread must not wait
/// for a task of the runtime, because it may be the thread that has to run the task.
pub(crate) fn is_thread_of(handle: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == handle.id())
}

/// Runs a step that may wait for a device. In a runtime of several threads the other tasks of this
/// thread move to another thread while the step runs.
pub(crate) fn blocking<T>(step: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(step),
        _ => step(),
    }
}
