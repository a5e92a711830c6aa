//! The transactions of sysbench's OLTP scripts: `oltp_read_write`, `oltp_write_only` and
//! `oltp_update_index`, on tables with a secondary index each.
//!
//! A row has a number, another number `k` that the index is on, and two texts. As in the scripts a
//! transaction reads ten rows and four ranges of a hundred, changes `k` of one row and the text of
//! another, and puts a row in the place of one that it deletes; or only the last three, or only the
//! first of these; the table is drawn anew for each of these kinds of things. After any number of
//! transactions there are as many rows as were loaded, and the indexes lead to each of them and to
//! nothing else ([`State`]); where only `k` is changed its sum grows by one with each transaction.
//!
//! Two things are different here. Rows are drawn all alike or with a zipfian skew. Sums, sorting
//! and doubles of ranges are left out, for they cost the store nothing.

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
    /// Tables, each with an index; at least 1.
    pub tables: u32,
    /// Rows of each table; at least 1.
    pub rows: u64,
    /// Skew of the choice of rows: the exponent of a zipfian distribution, at least 0.
    pub skew: f64,
}

impl Settings {
    /// The names of the tables, in the order in which the workload knows them: a table, then its
    /// index, whose keys are `k` and the number of each row, with nothing in them.
    pub fn table_names(&self) -> Vec<String> {
        (1..=self.tables)
            .flat_map(|table| [format!("sbtest{table}"), format!("sbtest{table}_by_k")])
            .collect()
    }

    /// Rows of all tables.
    pub fn all_rows(&self) -> u64 {
        u64::from(self.tables) * self.rows
    }
}

/// One of the tables, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Table(u32);

impl Table {
    /// Its number in the workload's order.
    pub(crate) fn rows(self) -> usize {
        2 * self.0 as usize
    }

    /// That of its index.
    pub(crate) fn by_k(self) -> usize {
        self.rows() + 1
    }

    /// Its name, for messages.
    pub(crate) fn name(self) -> String {
        format!("sbtest{}", self.0 + 1)
    }
}
