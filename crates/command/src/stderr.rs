//! Lines on standard error that cannot fail. Any thread may print them.

use std::fmt::Display;
use std::io::Write;

/// Prints a line to standard error. If standard error is closed or its disk is full, the line is
/// lost. A panic, as of `eprintln!`, would end the reporting thread, which may be a thread of the
/// database.
pub fn warn(line: impl Display) {
    let _line_is_lost = writeln!(std::io::stderr(), "{line}");
}
