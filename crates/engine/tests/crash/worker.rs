//! A client's own thread, so that the client has its own share of everything that a database keeps
//! by thread, above all a session of the log.

use katydid::testing::number_of_thread;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs one job after the other.
pub struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub fn start() -> Worker {
        let (jobs, inbox) = channel::<Job>();
        let thread = std::thread::spawn(move || inbox.into_iter().for_each(|job| job()));
        Worker { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Runs `job` on the thread, and waits for it.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, outcome) = channel();
        let jobs = self.jobs.as_ref().expect("a worker that was not ended");
        jobs.send(Box::new(move || drop(sender.send(job())))).expect("the worker lives");
        outcome.recv().expect("no panic on the worker")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "a worker panicked");
    }
}

/// Runs `job` on a thread whose number is `wanted` modulo six. So, with one, two or three streams,
/// the job's transactions always go to the same stream.
pub fn on_number<T: Send>(wanted: usize, job: impl FnOnce() -> T + Send) -> T {
    let mut job = Some(job);
    loop {
        let run = || match number_of_thread() % 6 == wanted % 6 {
            true => job.take().map(|job| job()),
            false => None,
        };
        match std::thread::scope(|scope| scope.spawn(run).join()) {
            Ok(Some(outcome)) => return outcome,
            Ok(None) => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
