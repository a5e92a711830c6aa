//! The paged engine: pages, the B+tree on them, and ARIES around both.

// Until every part has its caller.
#![allow(dead_code, unused_imports)]

pub(crate) mod active;
pub(crate) mod catalog;
pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod double_write;
pub(crate) mod engine;
pub(crate) mod log_record;
pub(crate) mod open;
pub(crate) mod page;
pub(crate) mod pool;
pub(crate) mod recovery;
pub(crate) mod releaser;
pub(crate) mod rollback;
pub(crate) mod space;
pub(crate) mod tree;
pub(crate) mod writer;
