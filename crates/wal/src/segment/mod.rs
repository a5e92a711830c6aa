//! The files of the log.
//!
//! - [`header`]: names, places and headers (pure)
//! - [`files`]: a run of open segments, and reading across them
//! - [`window`]: a moving window over them
//! - [`ahead`]: reading ahead, for recovery
//! - [`store`]: writing, preparing ahead, trimming

pub(crate) mod ahead;
pub(crate) mod files;
pub(crate) mod header;
mod store;
pub(crate) mod window;

pub(crate) use files::{Extent, Source};
pub(crate) use store::{SegmentStore, incarnation_at};
