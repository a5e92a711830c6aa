//! Tests of the tree: against a model, with threads, through crashes and rollbacks, and of the
//! pages that scans read.

mod ahead;
mod load;
mod model;
mod recovery;
mod rig;
mod shape;
mod shortcuts;
mod threads;
