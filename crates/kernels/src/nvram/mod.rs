//! The shared state of logs in NVRAM that is not in NVRAM itself, and needs no device: both are
//! found again by opening.
//!
//! | module | what is in it |
//! |---|---|
//! | [`arena`] | who has which memory of the heap of `nv_entries` and `nv_logging` |
//! | [`commit`] | who persists what is filled, of `nv_ring`, `nv_entries` and `nv_logging` |

pub mod arena;
pub mod commit;
