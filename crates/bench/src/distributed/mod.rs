//! The order that a distributed log would have to keep (Aether, A.5, Figure 13): the physical
//! dependencies in the log of our TPC-C and TPC-B, counted after the run.
//!
//! | file | what |
//! |---|---|
//! | `count` | counting, over records and commits in the order of the log; pure |
//! | `measure` | running a workload and reading its log |
//! | `rows` | cases, rounds, and their table and chart |

pub mod count;
pub mod measure;
pub mod rows;
