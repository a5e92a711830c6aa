//! Windows. Files are in `windows/`, which uses the standard library; this file has the other calls
//! that differ.

/// Does nothing: sleeps are as exact as the system makes them.
pub(crate) fn expect_short_sleeps() {}
