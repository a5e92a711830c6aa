//! Recovery against logs made byte by byte, so that a test can say exactly what reached the device.
//!
//! `bench.rs` has a minimal writer. Each other file holds one family of cases.

mod bench;
mod crashes;
mod damage;
mod ends;
mod fixture;
mod reading;
mod stale;
