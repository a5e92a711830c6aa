//! Measurements of how commits become durable, in both engines and in the log alone, on files, in
//! memory and in NVRAM.
//!
//! Four commands share the cases, the session that runs the cases, and the rows. Cases and figures
//! are data. `rows` and `charts` show results with the help of `compare`, `csv`, `facts` and
//! `quantities`. `alone`, `store`, `tpcc` and `tuples` run cases on a `stage`.

mod alone;
pub mod case;
mod charts;
mod compare;
mod csv;
mod facts;
pub mod figures;
pub mod flags;
mod quantities;
mod rows;
mod run;
pub mod session;
mod stage;
pub mod store;
pub mod study;
pub mod tpcc;
pub mod tuples;
