//! Tests of the store whose work a seed chooses. `cargo xtask nightly` runs them with new seeds for
//! the time that it is given.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod model;
mod nvram;
mod serial;
mod trust;
