//! Tests of the store whose work a seed chooses. `cargo xtask nightly` runs them with new seeds for
//! as long as it has.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod model;
mod nvram;
mod serial;
mod trust;
