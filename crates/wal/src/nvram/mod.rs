//! Logs in byte-addressable memory that keeps its bytes: nothing is written or synced. An append copies, and whoever commits persists what
//! all have copied; of `nv_direct` and `nv_logging` an append has persisted its own record when it returns.
//!
//! | where | what |
//! |---|---|
//! | `ring` | the log's ring, in place in the memory |
//! | `entries` | the entries and the heap of `nv_entries` and `nv_logging`, as words and bytes |
//! | `pointers` | head and tail of `nv_logging` |
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
//! | `nv_entries` | ours, after NV-Logging | the same; a hole is as long as one store | the log ends at the first entry that is not set |
//! | `nv_logging` | NV-Logging (VLDB 2014), as a report on it tells | moves the tail from entry to entry, up to the first that is not set | the same; what the tail has passed must be there |
//! | `nv_direct` | Fang et al., as ELEDA 6.4.3 reports it | waits for nothing: its records were persisted when they were appended | every whole record survives; holes become padding |
//!
//! All have the records, positions, inserters, sessions and readers of the log on disk (`docs/adr/0015-logs-on-nvram.md`). What differs
//! from the report on Fang et al.'s log: holes are not left to the readers, and any of the inserters may fill the ring.
//!
//! | the report on NV-Logging | `nv_logging` |
//! |---|---|
//! | a lock around the global LSN | one `fetch_add` |
//! | LSN, then the record, then its flag, each by the appender | the same; each persisted by itself |
//! | an entry is a flag and a pointer | one word: a lap, which is the flag, and an offset |
//! | the tail is moved from entry to entry, under a lock, by who commits, and kept | the same, by one thread at a time. The sessions' marks say how far it may go: a flag that another thread sees need not be persisted yet |
//! | the head is kept; passed flags are reset, before | the same, after the head is persisted: a crash within it finds the log |
//! | head and tail are an index and an LSN, two stores with a delay each | an LSN, one persist; the index is the LSN modulo size |
//! | no crash safety | that of every kind: laps, checksums, opening judges what it finds |
//!
//! | the report on NV-Logging | `nv_entries` |
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
mod pointers;
pub(crate) mod recover;
mod reopen;
pub(crate) mod ring;
mod store;
