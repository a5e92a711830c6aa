//! Tests that run the built program as a user does. All tests are one program, because each further
//! program would be linked separately.

mod program;
mod rows;
mod running;

mod archive;
mod backup;
mod bench;
mod changes;
mod commit;
mod demo;
mod dependences;
mod dump;
mod engines;
mod full_disk;
mod help_files;
mod inspect;
mod kill9;
mod load_and_scan;
mod log_insert;
mod manycore;
mod messages;
mod nvram;
mod oltp;
mod repair;
#[cfg(feature = "replica")]
mod replica;
#[cfg(feature = "replica")]
mod replication;
mod reproduce;
mod shell;
mod verify;
