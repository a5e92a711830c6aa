//! Logs in byte-addressable memory that keeps its bytes. Nothing is written or synced. An append
//! copies its record, and a committing thread persists what all threads have copied; in `nv_direct`
//! and `nv_logging` an append has persisted its own record when it returns.
//!
//! | module | contents |
//! |---|---|
//! | `ring` | the log's ring, in place in the memory |
//! | `entries` | the entries and the heap of `nv_entries` and `nv_logging`, as words and bytes |
//! | `pointers` | head and tail of `nv_logging` |
//! | `apart` | appending to the heap |
//! | `reopen` | opening the heap: what is reset, and what is free |
//! | `header` | the first block of the region |
//! | `store` | the memory, its start and trimming, which replace the segments of a log in files |
//! | `recover` | opening: which records survive |
//!
//! The kernels have [`nvram::arena`](katydid_kernels::nvram::arena), which assigns memory of the
//! heap to appenders, and [`nvram::commit`](katydid_kernels::nvram::commit), by which a committing
//! thread persists what is filled.
//!
//! The kinds:
//!
//! - `nv_ring` (ours): a commit waits until the holes below its end are filled, and persists all
//!   that is filled, unless another thread is doing so. After a crash the log ends at the first
//!   hole.
//! - `nv_entries` (ours, after NV-Logging): a commit works as in `nv_ring`, but a hole lasts as
//!   long as one store. After a crash the log ends at the first entry that is not set.
//! - `nv_logging` (NV-Logging, VLDB 2014, as a report on it describes it): a commit moves the tail
//!   from entry to entry, up to the first entry that is not set. After a crash the log ends at that
//!   entry; the records below the tail must exist.
//! - `nv_direct` (Fang et al., as ELEDA 6.4.3 reports it): a commit waits for nothing, because
//!   appends have persisted its records. (With inserter `chunked` it waits for the holes below its
//!   end.) After a crash every whole record survives, and holes become padding.
//!
//! All kinds have the records, positions, sessions and readers of a log in files, and those with a
//! ring have its inserters (`docs/adr/0015-logs-on-nvram.md`). Two things differ from the report on
//! Fang et al.'s log: holes are not left to the readers, and any of the inserters may fill the
//! ring.
//!
//! `nv_logging` differs from the report on NV-Logging in these points:
//!
//! 1. The report has a lock around the global LSN; here one `fetch_add` reserves.
//! 2. In the report an entry is a flag and a pointer. Here it is one word that consists of a lap,
//!    which serves as the flag, and an offset.
//! 3. The order is the report's: LSN, record, flag, each by the appender. Here the LSN is reserved
//!    in ordinary memory. The record is persisted; then its flag is set and persisted.
//! 4. In the report committing threads move the tail from entry to entry under a lock. Here one
//!    thread at a time does so. The thread goes no further than the sessions' marks say, because a
//!    flag that a thread sees need not be persisted yet. The report and this code both persist the
//!    tail.
//! 5. The report resets passed flags before it persists the head. Here they are reset after the
//!    head is persisted, so that a crash in between leaves a valid log.
//! 6. In the report the head is an index and an LSN, and so is the tail: two stores, each with a
//!    delay. Here each of them is an LSN and is persisted once; the index is the LSN modulo the
//!    size.
//! 7. The report has no crash safety; here laps and checksums let opening judge what it finds.
//!
//! `nv_entries` differs from the report in points 1, 2 and 7, and in these:
//!
//! 8. The record is copied first, and its LSN is reserved after that, so a hole lasts as long as
//!    one store, whatever the record's size.
//! 9. Flags are not reset when the start moves: an entry of an earlier lap counts as not set. Only
//!    opening resets entries, beyond the end.
//! 10. A committing thread, not the appender, sets the flags, for all records that are filled. That
//!     thread also moves the tail, which is the durable frontier; the sessions' marks limit how
//!     far.
//! 11. A commit writes back and fences the records once, and the entries once; in the report a
//!     commit does neither.
//! 12. Records lie in chunks of a heap in the region, with arenas for appenders; in the report they
//!     lie in the program's heap. An entry is found by its LSN modulo the size.
//! 13. Only the start is stored; opening finds the end. The report stores head and tail.

pub(crate) mod apart;
pub(crate) mod entries;
pub(crate) mod header;
mod medium;
mod pointers;
pub(crate) mod recover;
mod reopen;
pub(crate) mod ring;
mod store;
