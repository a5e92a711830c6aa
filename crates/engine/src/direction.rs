//! Direction of a scan.

/// Towards greater keys, or towards lesser ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}
