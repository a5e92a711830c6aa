//! Several logs that commit as one: a stream for each worker, and no word that all of them share (P-WAL; Cicada + P-WAL, section III).
//!
//! Each stream is an ordinary [`Log`](crate::Log) with files, ring, inserter, sync protocol and recovery of its own. What a transaction
//! depends on in other streams is written into its record, and from that alone recovery tells which records survive (`head`, `docs/recovery.md`).
//! Nothing here orders transactions: whoever replays does so by timestamp.
//!
//! | file | what |
//! |---|---|
//! | `dependencies` | places in streams, and sets of them |
//! | `control`, `folders`, `opening` | which streams there are; making and opening them |
//! | `log`, `session`, `completion` | the open log; appending; being told later |
//! | `head` | what stands before a record's payload, and whether the record is kept |
//! | `decoders` | what reads a device's bytes, for the fuzzer |
//! | `while_opening`, `replay`, `inspect` | reading it while it is opened, when that is done, or without opening it |
//! | `deal` | applying what is read on all processors |
//!
//! Differences from the papers: no counter numbers the records (as in section III-A of Cicada + P-WAL), and who waits looks at the streams
//! it depends on, not at the least of all ([`ParallelLog::everything`] is that rule, P-WAL's).

mod completion;
mod control;
mod deal;
pub(crate) mod decoders;
mod folders;
mod head;
mod inspect;
mod log;
mod opening;
mod replay;
mod session;
mod while_opening;

pub use completion::{ParallelCompletion, ParallelCompletions};
pub use deal::Batch;
pub use head::MalformedRecord;
pub use inspect::{
    ParallelInspection, ParallelReadError, ParallelRecord, ParallelRecords, Survival, inspect_parallel,
};
pub use katydid_kernels::dependencies::{Dependencies, StreamId, StreamLsn};
pub use log::ParallelLog;
pub use opening::STREAMS_MAX;
pub use replay::{ReplayError, ReplayReport, Replayed};
pub use session::{CommitRecord, ParallelSession};
pub use while_opening::Replay;
