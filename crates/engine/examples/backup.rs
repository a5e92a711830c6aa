//! Copies a database while a thread writes to it, then opens the copy and checks its rows.
//!
//! Run: `cargo run --example backup -- FOLDER`, which makes `FOLDER/db` and `FOLDER/copy`.

use katydid::{Database, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        Some(folder) => run(Path::new(&folder)),
        None => {
            println!("give a folder");
            Ok(())
        }
    }
}

/// Copies while another thread writes, and checks that the copy shows one moment of the database.
pub fn run(folder: &Path) -> Result<()> {
    let db = Database::open(folder.join("db"))?;
    let accounts = db.table("accounts")?;
    db.transact(|txn| {
        txn.put(&accounts, "anna", "100")?;
        txn.put(&accounts, "karl", "0")
    })?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Each transaction moves 1 from anna to karl or back, so the sum never changes.
            let mut round = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let moved = round % 2;
                db.transact(|txn| {
                    txn.put(&accounts, "anna", (100 - moved).to_string())?;
                    txn.put(&accounts, "karl", moved.to_string())
                })?;
            }
            Result::Ok(())
        });
        let copied = db.backup(folder.join("copy"));
        stop.store(true, Ordering::Relaxed);
        // If the writer panicked, the copy is valid all the same.
        writer.join().unwrap_or(Ok(())).and(copied.map(drop))
    })?;
    db.close()?;
    let copy = Database::open(folder.join("copy"))?;
    let accounts = copy.table("accounts")?;
    let txn = copy.begin_read_only()?;
    let balance = |name: &str| -> Result<u32> {
        let value = txn.get(&accounts, name)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).parse().unwrap_or(0))
    };
    let (anna, karl) = (balance("anna")?, balance("karl")?);
    println!("in the copy anna has {anna} and karl has {karl}");
    assert_eq!(anna + karl, 100, "no half of a transaction");
    drop(txn);
    copy.close()
}
