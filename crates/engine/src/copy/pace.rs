//! Speed and progress of a copy.
//!
//! The thread that copies runs this code without a latch and outside of calls and visits of the
//! opening. So it may sleep here, and the user's progress callback may close the database.

use crate::backup_options::BackupOptions;
use crate::error::{CopyFault, Error, Result};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// The longest sleep between two reports of progress.
const NAP: Duration = Duration::from_millis(100);

/// The progress of one copy.
pub(crate) struct Pace<'a> {
    options: &'a BackupOptions,
    /// Fails if the source may no longer be read.
    check: &'a dyn Fn() -> Result<()>,
    place: String,
    begun: Instant,
    done: u64,
    total: u64,
}

impl<'a> Pace<'a> {
    /// The pace of a copy that is made at `place`.
    pub(crate) fn new(options: &'a BackupOptions, place: String, check: &'a dyn Fn() -> Result<()>) -> Self {
        Pace { options, check, place, begun: Instant::now(), done: 0, total: 0 }
    }

    /// Adds `bytes` to the known number of bytes that are to be copied.
    pub(crate) fn expect(&mut self, bytes: u64) {
        self.total = self.total.saturating_add(bytes);
    }

    /// Bytes copied.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Time since the copy was begun.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Fails if the source may no longer be read. Bytes that were read before are valid only if
    /// this returns `Ok`.
    pub(crate) fn check(&self) -> Result<()> {
        (self.check)()
    }

    /// Counts `bytes` as copied, and sleeps if the copy is ahead of its rate.
    ///
    /// # Errors
    /// `Error::Closed` if the source was closed; `Error::Copy` with `CopyFault::Cancelled`.
    pub(crate) fn step(&mut self, bytes: u64) -> Result<()> {
        self.done += bytes;
        self.report()?;
        let Some(rate) = self.options.bytes_per_second else { return Ok(()) };
        loop {
            let early = time_for(self.done, rate).saturating_sub(self.begun.elapsed());
            if early.is_zero() {
                return Ok(());
            }
            std::thread::sleep(early.min(NAP));
            self.report()?;
        }
    }

    fn report(&self) -> Result<()> {
        self.check()?;
        let receiver = self.options.on_progress.as_ref();
        match receiver.map(|receiver| receiver(self.done, self.total.max(self.done))) {
            Some(std::ops::ControlFlow::Break(())) => {
                Err(Error::Copy { place: self.place.clone(), fault: CopyFault::Cancelled })
            }
            _ => Ok(()),
        }
    }
}

/// The least time that copying `bytes` may take at `rate` bytes per second.
fn time_for(bytes: u64, rate: NonZeroU64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_as_long_as_the_rate_says() {
        let rate = |rate| NonZeroU64::new(rate).expect("not zero");
        assert_eq!(time_for(3 << 20, rate(1 << 20)), Duration::from_secs(3));
        assert_eq!(time_for(0, rate(1)), Duration::ZERO);
        assert_eq!(time_for(1, rate(u64::MAX)), Duration::ZERO);
        assert_eq!(time_for(u64::MAX, rate(1)), Duration::from_nanos(u64::MAX));
    }
}
