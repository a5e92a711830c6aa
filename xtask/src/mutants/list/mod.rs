//! The mutants: rules of `docs/recovery.md`, of the log and of the device layer, each broken in one
//! place.
//!
//! One file for each area. A name that begins with `drop_cache` or `order` says which rule it is
//! about. Those that begin with `audit-1` to `audit-10` are the bugs that a reading of the tests
//! once found nothing to notice: each must stay in the list.

mod copies;
mod device;
mod log;
mod log_files;
mod log_kept;
mod log_recovery;
mod log_streams;
mod memory;
mod opening;
mod paged_loads;
mod paged_pages;
mod paged_transactions;
mod paged_views;
mod papers;
mod replicas;
mod tests;

use crate::mutants::mutant::Mutant;

/// All mutants.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let lists = [
        copies::LIST,
        device::LIST,
        log::LIST,
        log_files::LIST,
        log_kept::LIST,
        log_streams::LIST,
        log_recovery::LIST,
        memory::LIST,
        opening::LIST,
        paged_loads::LIST,
        paged_pages::LIST,
        paged_transactions::LIST,
        paged_views::LIST,
        papers::LIST,
        replicas::LIST,
    ];
    lists.into_iter().flatten()
}
