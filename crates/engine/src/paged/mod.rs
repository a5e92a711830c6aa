//! The paged engine.

// Until every part has its caller.
#![allow(dead_code, unused_imports)]

pub(crate) mod double_write;
pub(crate) mod page;
pub(crate) mod pool;
