//! Logs through their public interface. One program, because each further one is linked by itself.

mod append;
mod baselines;
mod chunked;
mod conformance;
mod consumers;
mod fixtures;
mod follow;
mod grasshopper;
mod growing;
mod nv_logging;
mod nvram;
mod nvram_commits;
mod nvram_crashes;
mod nvram_kill;
mod pins;
mod positions;
mod recovery;
mod rotation;
mod striped;
mod trash;
mod truncation;
