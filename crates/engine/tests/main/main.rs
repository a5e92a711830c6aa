//! Tests of the store through its public interface, call by call. All these tests are one program,
//! because each program is linked by itself.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod api;
mod batches;
mod bulk_load;
mod callbacks;
mod changes;
mod cursors;
mod errors;
mod examples;
mod executors;
mod for_update;
mod get_with;
mod handles;
mod in_memory;
mod limits;
mod lost_files;
mod model;
mod names;
mod observed;
mod open_ranges;
mod other_suites;
mod own_waits;
mod paged;
mod phantoms;
mod positions;
mod read_only;
mod renames;
mod sequences;
mod skip_locked;
mod small;
mod transact;
mod traps;
mod typed;
mod views;
