//! Logs in byte-addressable memory that keeps its bytes: nothing is written or synced. An append copies, and whoever commits persists what
//! all have copied; of `nv_direct` an append has persisted its own record when it returns.
//!
//! | where | what |
//! |---|---|
//! | `ring` | the log's ring, in place in the memory |
//! | `entries` | the entries and the heap of `nv_logging`, as words and bytes |
//! | [`nvram::arena`](katydid_kernels::nvram::arena) of the kernels | who has which memory of that heap |
//! | `apart` | appending to it |
//! | [`nvram::commit`](katydid_kernels::nvram::commit) of the kernels | persisting, by whoever commits, what is filled |
//! | `reopen` | opening it: what is reset, and what of the heap is free |
//! | `header` | how the region begins |
//! | `store` | what stands for the segments of an open log: the memory, its start, and trimming |
//! | `recover` | opening: which records survive |
//!
//! | kind | source | a commit | after a crash |
//! |---|---|---|---|
//! | `nv_ring` | ours | waits for holes below its end, and persists all that is filled, unless somebody does | the log ends at the first hole |
//! | `nv_logging` | NV-Logging (VLDB 2014), as a report on it tells | the same; a hole is as long as one store | the log ends at the first entry that is not set |
//! | `nv_direct` | Fang et al., as ELEDA 6.4.3 reports it | waits for nothing: its records were persisted when they were appended | every whole record survives; holes become padding |
//!
//! All have the records, positions, inserters, sessions and readers of the log on disk (`docs/adr/0015-logs-on-nvram.md`). What differs
//! from the report on Fang et al.'s log: holes are not left to the readers, and any of the inserters may fill the ring.
//!
//! | the report on NV-Logging | `nv_logging` |
//! |---|---|
//! | a lock around the global LSN | one `fetch_add` |
//! | LSN first, then the record, then its flag | the record first: the hole is one store long, whatever the record's size |
//! | an entry is a flag and a pointer | one word: a lap, which is the flag, and an offset |
//! | flags are reset when the head moves | an entry of an earlier lap is not set; only opening resets, beyond the end |
//! | the flag when the record is persisted, by its appender | by who commits, for all records that are filled |
//! | the tail is moved from entry to entry, under a lock, by who commits | by who commits: it is the durable frontier. The sessions' marks say how far it may go |
//! | the head's index and LSN find an entry | LSN modulo size |
//! | no write-back | write-back and fence of the records, and of the entries, once a commit |
//! | records from the program's heap | a heap of chunks in the region, with arenas for appenders |
//! | head and tail are kept | the start is kept; opening finds the end |

pub(crate) mod apart;
pub(crate) mod entries;
pub(crate) mod header;
mod medium;
pub(crate) mod recover;
mod reopen;
pub(crate) mod ring;
mod store;
