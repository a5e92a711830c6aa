//! What the process has used so far, as the kernel counts it: all threads, those that have ended too.

use super::case::Usage;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::time::Duration;

/// Used so far; nothing where the kernel does not say.
pub fn so_far() -> Usage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Usage::default() };
    Usage {
        user: duration(usage.user_time()),
        system: duration(usage.system_time()),
        voluntary: u64::try_from(usage.voluntary_context_switches()).unwrap_or(0),
        involuntary: u64::try_from(usage.involuntary_context_switches()).unwrap_or(0),
    }
}

/// What was used between `earlier` and now.
pub fn since(earlier: &Usage) -> Usage {
    let now = so_far();
    Usage {
        user: now.user.saturating_sub(earlier.user),
        system: now.system.saturating_sub(earlier.system),
        voluntary: now.voluntary.saturating_sub(earlier.voluntary),
        involuntary: now.involuntary.saturating_sub(earlier.involuntary),
    }
}

fn duration(time: TimeVal) -> Duration {
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0)) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waited_and_ended_is_counted() {
        let before = so_far();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || receiver.recv().is_ok());
        sender.send(()).unwrap();
        assert!(waiting.join().unwrap());
        let used = since(&before);
        // Joining is a wait, or the thread had ended before, and then it was switched to.
        assert!(used.switches() > 0, "{used:?}");
    }
}
