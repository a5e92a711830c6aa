//! Tests of views: `model` compares views and images without pages with a model; `interleaved` runs
//! views of a database in orders of steps that a seed picks.

mod interleaved;
mod model;
