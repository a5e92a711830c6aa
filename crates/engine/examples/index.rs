//! A secondary index: users by their number, found by the town they live in. The transaction that
//! changes a row also updates the index.
//!
//! Run: `cargo run --example index` (in memory), or `cargo run --example index -- FOLDER`
//! (durable).

use katydid::typed::{Index, IndexedTable, TypedTable};
use katydid::{Database, Result};

fn main() -> Result<()> {
    let db = match std::env::args().nth(1) {
        Some(folder) => Database::open(folder)?,
        None => Database::in_memory()?,
    };
    run(&db)?;
    db.close()
}

/// Writes some users, moves one, and looks towns up.
pub fn run(db: &Database) -> Result<()> {
    let rows = TypedTable::<u64, String>::new(db.table("users")?);
    // The function returns the term by which a row is found: here its whole value. A row may have
    // no term, or several.
    let towns = Index::new(db.table("users by town")?, |_, town: &String| Some(town.clone()));
    let users = IndexedTable::new(rows).with(&towns);
    db.transact(|txn| {
        for (number, town) in [(1_u64, "Bern"), (2, "Basel"), (3, "Bern"), (4, "Chur")] {
            users.put(txn, number, town)?;
        }
        Ok(())
    })?;
    // The transaction that changes the row also replaces the row's entry in the index.
    db.transact(|txn| users.put(txn, 3_u64, "Basel"))?;
    // A read-only transaction sees one moment of the rows and of the index, and keeps no writer
    // waiting.
    let txn = db.begin_read_only()?;
    let of_basel: Vec<u64> = towns.keys(&txn, "Basel").collect::<Result<_>>()?;
    let of_bern: Vec<(u64, String)> = users.find(&txn, &towns, "Bern").collect::<Result<_>>()?;
    println!("Basel: {of_basel:?}, Bern: {of_bern:?}");
    assert_eq!((of_basel, of_bern), (vec![2, 3], vec![(1, "Bern".to_owned())]));
    Ok(())
}
