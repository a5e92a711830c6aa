//! Prints warnings of the libraries to standard error, one line each. A warning does not end the
//! command.

use katydid_command::stderr::warn;
use log::{Level, LevelFilter, Log, Metadata, Record};

struct Printer;

impl Log for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            warn(format_args!("katydid: warning: {}", record.args()));
        }
    }

    fn flush(&self) {}
}

/// Begins to print warnings.
pub fn print() {
    // This cannot fail, because the program sets its logger once, at its start.
    if log::set_logger(&Printer).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
