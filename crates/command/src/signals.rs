//! Signals. The first SIGINT or SIGTERM asks the command to finish its current step and close
//! cleanly. The second ends the process at once, which the store survives like any crash.

use crate::failure::{Failure, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls `first` on a separate thread at the first signal.
pub fn on_stop(first: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::failed(format_args!("cannot watch for signals: {error}")))?;
    let watch = move || {
        let mut forever = signals.forever();
        if forever.next().is_some() {
            // `first` runs on a separate thread, because it may block and this thread must see the
            // second signal.
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
