//! The paged engine.
