//! Every method that takes a table, for tests of errors that all of them return.

use katydid::{Database, Result, Table, Transaction};

/// A method's name, and a call of it. The database is that of the transaction; the table may belong
/// to another database.
pub type Use = (&'static str, fn(&Database, &Transaction, &Table) -> Result<()>);

/// Returns every method that takes a table. Key `"k"` may be there, key `"new"` is not.
pub fn each_use_of_a_table() -> Vec<Use> {
    vec![
        ("Database::get", |database, _, table| database.get(table, "k").map(drop)),
        ("Database::put", |database, _, table| database.put(table, "k", "x")),
        ("Database::delete", |database, _, table| database.delete(table, "k").map(drop)),
        ("Database::contains", |database, _, table| database.contains(table, "k").map(drop)),
        ("Database::insert", |database, _, table| database.insert(table, "new", "x")),
        ("Database::update", |database, _, table| database.update(table, "k", |old| old).map(drop)),
        ("Database::compare_and_swap", |database, _, table| {
            database.compare_and_swap(table, "k", None, None).map(drop)
        }),
        ("Database::sequence", |database, _, table| {
            database.sequence(table, "ids", std::num::NonZeroU64::MIN)?.next().map(drop)
        }),
        ("Database::pop_first", |database, _, table| database.pop_first(table).map(drop)),
        ("Transaction::get", |_, txn, table| txn.get(table, "k").map(drop)),
        ("Transaction::get_for_update", |_, txn, table| txn.get_for_update(table, "k").map(drop)),
        ("Transaction::first_unlocked", |_, txn, table| txn.first_unlocked(table, ..).map(drop)),
        ("Transaction::range_for_update", |_, txn, table| {
            txn.range_for_update(table, ..).next().unwrap().map(drop)
        }),
        ("Transaction::range_unlocked", |_, txn, table| {
            txn.range_unlocked(table, ..).next().unwrap().map(drop)
        }),
        ("Cursor::next", |_, txn, table| txn.cursor(table, ..).next().map(drop)),
        ("Cursor::seek_back", |_, txn, table| txn.cursor(table, ..).seek_back("k").map(drop)),
        ("Transaction::prefix", |_, txn, table| txn.prefix(table, "k").next().unwrap().map(drop)),
        ("Transaction::put", |_, txn, table| txn.put(table, "k", "x")),
        ("Transaction::insert", |_, txn, table| txn.insert(table, "new", "x")),
        ("Transaction::delete", |_, txn, table| txn.delete(table, "k").map(drop)),
        ("Transaction::contains", |_, txn, table| txn.contains(table, "k").map(drop)),
        ("Transaction::multi_get", |_, txn, table| txn.multi_get(table, ["k"]).map(drop)),
        ("Transaction::put_all", |_, txn, table| txn.put_all(table, [("k", "x")])),
        ("Transaction::first", |_, txn, table| txn.first(table).map(drop)),
        ("Transaction::last", |_, txn, table| txn.last(table).map(drop)),
        ("Transaction::count", |_, txn, table| txn.count(table, ..).map(drop)),
        ("Transaction::is_empty", |_, txn, table| txn.is_empty(table).map(drop)),
        ("Transaction::update", |_, txn, table| txn.update(table, "k", |old| old).map(drop)),
        ("Transaction::compare_and_swap", |_, txn, table| {
            txn.compare_and_swap(table, "k", None, None).map(drop)
        }),
        ("Transaction::pop_first", |_, txn, table| txn.pop_first(table).map(drop)),
        ("Transaction::delete_range", |_, txn, table| txn.delete_range(table, ..).map(drop)),
        ("Transaction::clear", |_, txn, table| txn.clear(table).map(drop)),
        ("Range::next", |_, txn, table| txn.range(table, ..).next().unwrap().map(drop)),
        ("Range::next_back", |_, txn, table| txn.range(table, ..).next_back().unwrap().map(drop)),
        ("Range::next_ref", |_, txn, table| txn.range(table, ..).next_ref().map(drop)),
        ("Range::limit", |_, txn, table| txn.range(table, ..).limit(1).next().unwrap().map(drop)),
    ]
}
