//! The latency that an emulated region adds to each fence, spent on the processor: no sleep is that
//! short.
//!
//! Any thread. It begins when the fence is over. `sfence` alone lets the clock be read while stores
//! are still on their way, and of 400 ns that were asked for 290 were added where this was tried.
//! What waiting itself takes (60 to 80 ns there: two readings of the clock and another fence) is
//! measured once and taken off, so shorter latencies than that are longer than asked for.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// A latency to be waited out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delay {
    wait: Duration,
}

impl Delay {
    /// None for none.
    pub(super) fn of(latency: Duration) -> Option<Delay> {
        (!latency.is_zero()).then(|| Delay { wait: latency.saturating_sub(own()) })
    }

    #[inline(never)]
    pub(super) fn wait(self) {
        fence(Ordering::SeqCst);
        let begun = Instant::now();
        // Without a hint to the processor, which would take as long as some of these latencies.
        while begun.elapsed() < self.wait {}
    }
}

/// Cost of a wait of zero length: the least of some averages.
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
