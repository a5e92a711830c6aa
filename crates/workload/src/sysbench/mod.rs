//! The transactions of sysbench's OLTP scripts `oltp_read_write`, `oltp_write_only` and
//! `oltp_update_index`, on tables that have one secondary index each.
//!
//! A row has a number, an indexed number `k`, and two texts. A transaction of `oltp_read_write`
//! reads ten rows and four ranges of 100 rows, changes `k` of one row and the text of another, and
//! replaces a third row by deleting and inserting it. `oltp_write_only` makes only these three
//! changes, `oltp_update_index` only the change of `k`. The table of each operation is drawn
//! separately. After any number of transactions there are as many rows as were loaded, and each
//! index has exactly one entry for each row ([`State`]). With `oltp_update_index` the sum of all
//! `k` grows by one with each transaction.
//!
//! There are two differences from sysbench. Rows are drawn uniformly or with a zipfian skew. The
//! sums, sorts and distinct values of ranges are left out, because they cost the store nothing.

mod check;
mod load;
mod rows;
mod run;
#[cfg(test)]
mod tests;

pub use check::{Fault, State};
pub use load::{SysbenchLoad, SysbenchLoadSource};
pub use run::{Script, SysbenchRun, SysbenchSource};

/// Size of the tables, and choice of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of tables, each with one index; at least 1.
    pub tables: u32,
    /// Number of rows of each table; at least 1.
    pub rows: u64,
    /// Skew of the choice of rows: the exponent of a zipfian distribution, at least 0.
    pub skew: f64,
}

impl Settings {
    /// The names of the tables, in the order in which the workload numbers them: each table is
    /// followed by its index. Keys of the index consist of `k` and the row's number; their values
    /// are empty.
    pub fn table_names(&self) -> Vec<String> {
        (1..=self.tables)
            .flat_map(|table| [format!("sbtest{table}"), format!("sbtest{table}_by_k")])
            .collect()
    }

    /// Number of rows of all tables.
    pub fn all_rows(&self) -> u64 {
        u64::from(self.tables) * self.rows
    }
}

/// One of the tables, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Table(u32);

impl Table {
    /// The table's number in the workload's order.
    pub(crate) fn rows(self) -> usize {
        2 * self.0 as usize
    }

    /// The number of the table's index.
    pub(crate) fn by_k(self) -> usize {
        self.rows() + 1
    }

    /// The table's name, for messages.
    pub(crate) fn name(self) -> String {
        format!("sbtest{}", self.0 + 1)
    }
}
