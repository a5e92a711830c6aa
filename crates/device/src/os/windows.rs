//! Windows. Files are in `windows/`, which uses the standard library; here is what else differs.

/// Sleeps are as exact as the system makes them: nothing to ask for.
pub(crate) fn expect_short_sleeps() {}
