//! Tests of views: `model` compares views and images, without pages, to a model; `interleaved` runs
//! views of a database, and a seed picks the order of the steps; in `races` a view opens or closes
//! at one instant of a writing transaction.

mod interleaved;
mod model;
mod races;
