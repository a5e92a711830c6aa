//! The lock manager.
