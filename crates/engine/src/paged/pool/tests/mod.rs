//! Tests of the pool.

mod crash;
mod faults;
mod rig;
mod threads;
