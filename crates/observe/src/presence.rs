//! Checks whether the other side of a connection is present, and waits for its end or for a
//! wake-up.
//!
//! The thread of a connection runs this code. A client sends nothing while its request is answered.
//! So a client that sends bytes, or ends its side, no longer wants the answer. Closing the socket
//! ends the wait too, because it shuts the connection down.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Wake;
use std::time::{Duration, Instant};

/// Reason why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The alarm was woken.
    Woken,
    /// The other side is gone, or the socket is being closed.
    Gone,
    /// The time is over.
    Late,
}

/// Returns whether the other side no longer wants an answer. Does not wait.
pub(crate) fn is_gone(stream: &UnixStream) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::IN)];
    !matches!(poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0) | Err(Errno::INTR))
}

/// Wakes a thread that waits for either of two things: a wake-up, or the end of the other side of a
/// connection.
#[derive(Debug)]
pub(crate) struct Alarm {
    rings: UnixStream,
    hears: UnixStream,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Arc<Alarm>> {
        let (rings, hears) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        hears.set_nonblocking(true)?;
        Ok(Arc::new(Alarm { rings, hears }))
    }

    /// Forgets earlier wake-ups.
    pub(crate) fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.hears).read(&mut bytes), Ok(count) if count == bytes.len()) {}
    }

    /// Waits until the alarm is woken, the other side of `stream` is gone, or the deadline is over.
    pub(crate) fn wait(&self, stream: &UnixStream, deadline: Instant) -> Ended {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Ended::Late;
            }
            let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            let mut ready = [PollFd::new(stream, PollFlags::IN), PollFd::new(&self.hears, PollFlags::IN)];
            match poll(&mut ready, Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) if ready[0].revents().is_empty() => return Ended::Woken,
                Ok(_) | Err(_) => return Ended::Gone,
            }
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // If the buffer is full, the thread will wake anyway.
        let _is_full = (&self.rings).write(&[0]);
    }
}
