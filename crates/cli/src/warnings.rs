//! Warnings of the libraries, on standard error: one line each, however the command goes on.

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Printer;

impl Log for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            eprintln!("katydid: warning: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// From now on warnings are printed.
pub fn print() {
    // Set once, at the start of the program: no other logger can be set earlier.
    if log::set_logger(&Printer).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
