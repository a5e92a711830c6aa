//! Tests of views and images without pages, against a model, and of views of a database, in orders
//! that a seed picks.

mod interleaved;
mod model;
