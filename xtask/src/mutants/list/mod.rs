//! The mutants: rules of `docs/recovery.md`, of the log and of the device layer, each broken in one place.
//!
//! One file for each area. A name that begins with `drop_cache`, `positions` or `order` says which rule it is about.

mod device;
mod log;
mod log_files;
mod log_parallel;
mod log_recovery;
mod memory;
mod paged_pages;
mod paged_transactions;
mod tests;

use super::Mutant;

/// All mutants.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let lists = [
        device::LIST,
        log::LIST,
        log_files::LIST,
        log_parallel::LIST,
        log_recovery::LIST,
        memory::LIST,
        paged_pages::LIST,
        paged_transactions::LIST,
    ];
    lists.into_iter().flatten()
}
