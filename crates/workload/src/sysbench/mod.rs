//! The transactions of sysbench's OLTP scripts: `oltp_read_write`, `oltp_write_only` and `oltp_update_index`, on one table with a secondary
//! index.
//!
//! A row has a number, another number `k` that the index is on, and two texts. As in the scripts a transaction reads ten rows and four
//! ranges of a hundred, changes `k` of one row and the text of another, and puts a row in the place of one that it deletes; or only the
//! last three, or only the first of these. After any number of transactions there are as many rows as were loaded, and the index leads
//! to each of them and to nothing else ([`State`]); where only `k` is changed its sum grows by one with each transaction.
//!
//! Different here: rows are drawn all alike or with a zipfian skew; sums, sorting and doubles of ranges are left to nobody, for they cost
//! the store nothing.

mod check;
mod load;
mod rows;
mod run;
#[cfg(test)]
mod tests;

pub use check::{Fault, State};
pub use load::{SysbenchLoad, SysbenchLoadSource};
pub use run::{Script, SysbenchRun, SysbenchSource};

/// The tables, in the order in which the workload knows them.
pub const TABLES: [&str; 2] = ["sbtest", "sbtest_by_k"];

pub(crate) const ROWS: usize = 0;
/// `k` and number of a row: nothing in it.
pub(crate) const BY_K: usize = 1;

/// How much there is, and how rows are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Rows of the table; at least 1.
    pub rows: u64,
    /// How much more often popular rows are chosen: the exponent of a zipfian distribution, at least 0.
    pub skew: f64,
}
