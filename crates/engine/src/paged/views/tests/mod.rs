//! Views and images without pages, against a model; views of a database, in orders that a seed
//! picks.

mod interleaved;
mod model;
