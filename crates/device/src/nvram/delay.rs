//! The latency that an emulated region adds to each fence, spent on the processor because no sleep
//! is that short.
//!
//! Any thread may call this code. The delay begins when the fence is over. Finding that moment
//! takes another fence: after `sfence` alone the clock can be read while stores are still on their
//! way. A measurement with `sfence` alone found that only 290 of the requested 400 ns were added.
//! On the same machine a wait of zero length takes 60 to 80 ns (two readings of the clock and the
//! other fence). This cost is measured once and subtracted, so a latency below the cost becomes
//! longer than asked for.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// A latency to be waited out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delay {
    wait: Duration,
}

impl Delay {
    /// Returns the delay for a latency; `None` for a latency of zero.
    pub(super) fn of(latency: Duration) -> Option<Delay> {
        (!latency.is_zero()).then(|| Delay { wait: latency.saturating_sub(own()) })
    }

    #[inline(never)]
    pub(super) fn wait(self) {
        fence(Ordering::SeqCst);
        let begun = Instant::now();
        // The loop has no spin hint, because the hint would take as long as some of these
        // latencies.
        while begun.elapsed() < self.wait {}
    }
}

/// Returns the time that a wait of zero length takes: the least of some averages.
fn own() -> Duration {
    const COUNT: u32 = 200;
    static OWN: OnceLock<Duration> = OnceLock::new();
    let average = |_| {
        let begun = Instant::now();
        (0..COUNT).for_each(|_| Delay { wait: Duration::ZERO }.wait());
        begun.elapsed() / COUNT
    };
    *OWN.get_or_init(|| (0..10).map(average).min().unwrap_or_default())
}
