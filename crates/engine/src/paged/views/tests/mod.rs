//! Tests of views: `model` compares views and images, without pages, to a model; `interleaved` runs
//! views of a database, and a seed picks the order of the steps.

mod interleaved;
mod model;
