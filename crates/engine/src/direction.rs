//! The direction of a scan.

/// Direction of a scan: towards greater keys, or towards lesser ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}
