//! The first SIGINT or SIGTERM asks the command to finish what it is at and close cleanly; the
//! second ends it at once, which the store survives like any crash.

use crate::failure::{Failure, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls `first` (on a thread of its own) at the first signal.
pub fn on_stop(first: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::failed(format_args!("cannot watch for signals: {error}")))?;
    let watch = move || {
        let mut forever = signals.forever();
        if forever.next().is_some() {
            // On a thread of its own: it may block, and must not keep the second signal from being
            // seen.
            std::thread::spawn(first);
        }
        if let Some(signal) = forever.next() {
            std::process::exit(128 + signal);
        }
    };
    match std::thread::Builder::new().name("signals".to_owned()).spawn(watch) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::failed(format_args!("cannot start a thread: {error}"))),
    }
}
