//! The paged engine.

// Until every part has its caller.
#![allow(dead_code, unused_imports)]

pub(crate) mod control;
pub(crate) mod double_write;
pub(crate) mod page;
pub(crate) mod pool;
pub(crate) mod space;
