//! Resources that the process has used, as the kernel counts them, and busy processor time of the
//! whole machine. The process's resources include those of threads that have ended. Other processes
//! take processor time that this process could use. [`Usage::others`] is that time, so that this
//! loss is not mistaken for waiting.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::time::Duration;

/// Resources that a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// Context switches of threads that had to wait.
    pub voluntary: u64,
    /// Context switches of threads that were preempted.
    pub involuntary: u64,
    /// Busy processor time of the whole machine, if the kernel reports it.
    pub machine: Option<Duration>,
    /// Number of processors that the process may use; 0 if unknown.
    pub processors: usize,
}

impl Usage {
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// Processor time of all other processes, accurate to some hundredths of a second.
    pub fn others(&self) -> Duration {
        self.machine.map_or(Duration::ZERO, |machine| machine.saturating_sub(self.cpu()))
    }

    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// Resources used so far; default values if the kernel does not report them.
pub fn so_far() -> Usage {
    let machine = std::fs::read_to_string("/proc/stat").ok().and_then(|stat| machine(&stat));
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Usage::default() };
    Usage {
        user: duration(usage.user_time()),
        system: duration(usage.system_time()),
        voluntary: u64::try_from(usage.voluntary_context_switches()).unwrap_or(0),
        involuntary: u64::try_from(usage.involuntary_context_switches()).unwrap_or(0),
        machine,
        processors: std::thread::available_parallelism().map_or(0, usize::from),
    }
}

/// Busy processor time of all processors, from the first line of `/proc/stat`. The line has these
/// times in hundredths of a second: user, nice, system, idle, waiting for a device, interrupts,
/// soft interrupts, and time that other virtual machines got. Idle time, waiting and the time of
/// other machines are not counted.
fn machine(stat: &str) -> Option<Duration> {
    let mut words = stat.lines().next()?.split_whitespace();
    words.next().filter(|word| *word == "cpu")?;
    let spent: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let busy = spent.get(..7)?.iter().sum::<u64>() - spent[3] - spent[4];
    Some(Duration::from_millis(10 * busy))
}

/// Resources that were used between `earlier` and now.
pub fn since(earlier: &Usage) -> Usage {
    let now = so_far();
    Usage {
        user: now.user.saturating_sub(earlier.user),
        system: now.system.saturating_sub(earlier.system),
        voluntary: now.voluntary.saturating_sub(earlier.voluntary),
        involuntary: now.involuntary.saturating_sub(earlier.involuntary),
        machine: now.machine.zip(earlier.machine).map(|(now, earlier)| now.saturating_sub(earlier)),
        processors: now.processors,
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
    fn what_the_machine_spent_is_read() {
        let stat = "cpu  100 20 30 4000 500 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(machine(stat), Some(Duration::from_millis(1630)));
        for bad in ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"] {
            assert_eq!(machine(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_thread_that_waited_and_ended_is_counted() {
        let before = so_far();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || receiver.recv().is_ok());
        sender.send(()).unwrap();
        assert!(waiting.join().unwrap());
        let used = since(&before);
        // Joining a running thread is a voluntary switch. If the thread ended before it was joined,
        // its start was a switch.
        assert!(used.switches() > 0, "{used:?}");
    }
}
