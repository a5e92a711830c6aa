//! The run phase: transactions of one script.
//!
//! Running a planned transaction again (after a conflict) repeats the same operations, because all
//! random choices are made when it is planned.

use super::load::draw_k;
use super::rows::{self, Row};
use super::{Settings, Table};
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::generate::Zipfian;
use crate::row;
use crate::store::{Keys, Result, Shown, StoreError, Transaction};
use fastrand::Rng;
use std::sync::Arc;

/// Number of rows of a range.
const RANGE: usize = 100;

/// Script of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Script {
    /// `oltp_read_write`: reads ten rows and four ranges, changes a `k` and a text, deletes and
    /// inserts a row.
    #[default]
    ReadWrite,
    /// `oltp_write_only`: the writes of `oltp_read_write`.
    WriteOnly,
    /// `oltp_update_index`: changes one `k`.
    UpdateIndex,
}

/// Endless transactions; the driver's limits end the run.
#[derive(Debug)]
pub struct SysbenchRun {
    settings: Settings,
    script: Script,
    numbers: Zipfian,
}

impl SysbenchRun {
    /// Transactions on loaded tables.
    pub fn new(settings: &Settings, script: Script) -> Arc<Self> {
        let numbers = Zipfian::new(settings.rows, settings.skew);
        Arc::new(SysbenchRun { settings: *settings, script, numbers })
    }
}

impl Workload for SysbenchRun {
    type Source = SysbenchSource;

    fn source(self: &Arc<Self>, _thread: usize, rng: Rng) -> SysbenchSource {
        SysbenchSource { run: Arc::clone(self), rng, planned: Request::default() }
    }
}

#[derive(Debug, Default)]
struct Request {
    points: Vec<u64>,
    points_of: Table,
    /// Each range, given by its table and first row.
    ranges: Vec<(Table, u64)>,
    /// The row whose `k` grows.
    index: (Table, u64),
    others: Option<RowWrites>,
}

#[derive(Debug)]
struct RowWrites {
    /// The row that gets another text, and the seed of that text.
    text: (Table, u64, u64),
    /// The row that is deleted and inserted, and its new content.
    replaced: (Table, u64, Box<Row>),
}

/// Source of one thread's transactions.
#[derive(Debug)]
pub struct SysbenchSource {
    run: Arc<SysbenchRun>,
    rng: Rng,
    planned: Request,
}

impl SysbenchRun {
    fn table(&self, rng: &mut Rng) -> Table {
        Table(rng.u32(..self.settings.tables))
    }

    /// Draws a table and a row in it.
    fn row(&self, rng: &mut Rng) -> (Table, u64) {
        (self.table(rng), self.numbers.next(rng))
    }
}

impl Source for SysbenchSource {
    fn plan(&mut self) -> Option<Planned> {
        let SysbenchSource { run, rng, planned } = self;
        let (points, ranges) = if run.script == Script::ReadWrite { (10, 4) } else { (0, 0) };
        planned.points_of = run.table(rng);
        planned.points = (0..points).map(|_| run.numbers.next(rng)).collect();
        planned.ranges = (0..ranges).map(|_| run.row(rng)).collect();
        planned.index = run.row(rng);
        planned.others = (run.script != Script::UpdateIndex).then(|| {
            let k = draw_k(rng, &run.settings);
            let ((text_of, text), (replaced_of, replaced)) = (run.row(rng), run.row(rng));
            RowWrites {
                text: (text_of, text, rng.u64(..)),
                replaced: (replaced_of, replaced, Box::new(rows::row(k, rng))),
            }
        });
        Some(Planned { class: Class::Write, ticket: None })
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        let Request { points, points_of, ranges, index: (table, index), others } = &self.planned;
        for number in points {
            let key = rows::key(*number);
            let found = transaction.on(points_of.rows()).get(&key)?;
            found.and_then(|row| rows::k(&row)).ok_or_else(|| wrong(*points_of, &key))?;
        }
        for (table, from) in ranges {
            let key = rows::key(*from);
            let expected = (self.run.settings.rows - from).min(RANGE as u64) as usize;
            let found = transaction.on(table.rows()).range(Keys::from(&key), RANGE, &mut |_, _| ())?;
            if found != expected {
                let text =
                    format!("{found} rows of {} from {} on, not {expected}", table.name(), Shown(&key));
                return Err(StoreError::Inconsistent(text));
            }
        }
        let (mut row, k) = take(transaction, *table, *index)?;
        rows::set_k(&mut row, k.wrapping_add(1));
        transaction.on(table.rows()).put(&rows::key(*index), &row)?;
        move_entry(transaction, *table, *index, k, k.wrapping_add(1))?;
        if let Some(RowWrites { text: (text_of, text, seed), replaced: (table, replaced, new) }) = others {
            let (mut row, _) = take(transaction, *text_of, *text)?;
            rows::set_c(&mut row, &rows::c(&mut Rng::with_seed(*seed)));
            transaction.on(text_of.rows()).put(&rows::key(*text), &row)?;
            let (_, k) = take(transaction, *table, *replaced)?;
            let (key, new_k) = (rows::key(*replaced), rows::k(&new[..]).unwrap_or_default());
            if !transaction.on(table.rows()).delete(&key)? {
                return Err(wrong(*table, &key));
            }
            transaction.on(table.rows()).insert(&key, &new[..])?;
            move_entry(transaction, *table, *replaced, k, new_k)?;
        }
        Ok(Ending::Commit)
    }
}

/// Reads a row that will be changed, with its `k`.
fn take<T: Transaction>(transaction: &mut T, table: Table, number: u64) -> Result<(Row, u32)> {
    let key = rows::key(number);
    let found = transaction.on(table.rows()).get_for_update(&key)?;
    let row: Row = found.and_then(|row| row.try_into().ok()).ok_or_else(|| wrong(table, &key))?;
    Ok((row, rows::k(&row).unwrap_or_default()))
}

/// Replaces a row's index entry by an entry for its new `k`.
fn move_entry<T: Transaction>(
    transaction: &mut T,
    table: Table,
    number: u64,
    from: u32,
    to: u32,
) -> Result<()> {
    if from == to {
        return Ok(());
    }
    let old = rows::index_key(from, number);
    match transaction.on(table.by_k()).delete(&old)? {
        true => transaction.insert(&rows::index_key(to, number), &[]),
        false => Err(row::wrong(&format!("the index of {}", table.name()), &old, "is missing")),
    }
}

fn wrong(table: Table, key: &[u8]) -> StoreError {
    row::wrong(&table.name(), key, "is missing or cut")
}
