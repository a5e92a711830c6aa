//! The mutants. Each breaks one rule, for example of `docs/recovery.md`, in one file.
//!
//! There is one file for each area. Some names begin with the rule or the mechanism that the mutant
//! breaks, such as `drop_cache`, `order` or `aether`. A mutant whose name begins with `audit-1` to
//! `audit-10` is a bug that the tests once missed, as a review showed. These mutants must stay in
//! the list.

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
mod simulated_reads;
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
        simulated_reads::LIST,
    ];
    lists.into_iter().flatten()
}
