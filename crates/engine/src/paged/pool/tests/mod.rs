//! Tests of the pool.

mod anew;
mod crash;
mod faults;
mod rig;
mod threads;
