//! Logs through their public interface. The tests are one program, because each further program is
//! linked separately.

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
