//! The shared state of logs in NVRAM that is in ordinary memory and needs no device. The opening of
//! a log computes it again.
//!
//! | module | content |
//! |---|---|
//! | [`arena`] | the assignment of heap memory to appenders of `nv_entries` and `nv_logging` |
//! | [`commit`] | passes that persist filled records of `nv_ring`, `nv_entries` and `nv_logging` |

pub mod arena;
pub mod commit;
