//! Several logs that commit as one: a stream for each worker, and no word that all of them share (P-WAL; Cicada + P-WAL, section III).

mod dependences;

pub use dependences::{Dependences, Place, StreamId};
