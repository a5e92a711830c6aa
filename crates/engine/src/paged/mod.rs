//! The paged engine: pages, the B+tree on them, and ARIES around both.

pub(crate) mod active;
pub(crate) mod catalog;
pub(crate) mod change;
pub(crate) mod checkpoint;
pub(crate) mod control;
pub(crate) mod double_write;
pub(crate) mod engine;
#[cfg(test)]
mod engine_tests;
pub(crate) mod log_record;
pub(crate) mod open;
#[allow(dead_code)] // the page formats' and trees' full vocabulary
pub(crate) mod page;
#[allow(dead_code)] // the page formats' and trees' full vocabulary
pub(crate) mod pool;
pub(crate) mod recovery;
pub(crate) mod releaser;
pub(crate) mod rollback;
#[allow(dead_code)] // the page formats' and trees' full vocabulary
pub(crate) mod space;
#[allow(dead_code)] // the page formats' and trees' full vocabulary
pub(crate) mod tree;
pub(crate) mod writer;
