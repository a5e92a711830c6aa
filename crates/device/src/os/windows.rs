//! The functions of `os/mod.rs` for Windows, without those of files: `windows/` makes these calls
//! through the standard library.

/// Does nothing: sleeps are as exact as the system makes them.
pub(crate) fn expect_short_sleeps() {}
