//! The measuring grid: what sweeps and figures have in common.

pub mod chart;
pub mod flags;
pub mod turns;
