//! Progress on standard error: a bar on a terminal, elsewhere a plain line every two seconds.

use crate::stderr::warn;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// The progress of one phase.
#[derive(Debug)]
pub struct Progress {
    what: String,
    bar: Option<ProgressBar>,
    last_plain: Instant,
    quiet: bool,
}

/// Number of steps of the bar.
const FULL: u64 = 1000;

impl Progress {
    /// Begins a phase. A phase shorter than two seconds prints nothing if standard error is not a
    /// terminal.
    pub fn new(what: impl Into<String>) -> Progress {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
            let bar = ProgressBar::new(FULL);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(what.clone());
            bar
        });
        Progress { what, bar, last_plain: Instant::now(), quiet: false }
    }

    /// Makes a progress that shows nothing.
    pub fn hidden() -> Progress {
        Progress { what: String::new(), bar: None, last_plain: Instant::now(), quiet: true }
    }

    /// Shows a message, and the finished fraction of the phase, from 0 to 1, if it is known.
    pub fn show(&mut self, fraction: Option<f64>, message: impl FnOnce() -> String) {
        match &self.bar {
            Some(bar) => {
                let fraction = fraction.unwrap_or(0.0).clamp(0.0, 1.0);
                bar.set_position((fraction * FULL as f64) as u64);
                bar.set_message(message());
            }
            None if !self.quiet && self.last_plain.elapsed() >= PLAIN_EVERY => {
                self.last_plain = Instant::now();
                match fraction {
                    Some(fraction) => {
                        warn(format_args!("{}: {:3.0} % {}", self.what, fraction * 100.0, message()))
                    }
                    None => warn(format_args!("{}: {}", self.what, message())),
                }
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
