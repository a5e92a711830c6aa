//! `repair`: a dry run changes nothing; after --apply the database opens.

use crate::program::{contents, run_in, run_unheard, run_unread};
use katydid::Database;
use std::fs;

#[test]
fn a_damaged_database_is_repaired_after_a_dry_run() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = root.path().join("db");
    let database = Database::open(&dir).expect("open");
    let table = database.table("t").expect("a table");
    database
        .transact(|txn| (0..40_000u32).try_for_each(|key| txn.put(&table, key.to_be_bytes(), [7; 100])))
        .expect("rows");
    // After three checkpoints neither the log nor the double-write area, which holds the last 128
    // pages, can restore the page that is damaged below.
    (0..3).for_each(|_| database.checkpoint().expect("a checkpoint"));
    let error = run_in(&dir, "repair");
    error.expect_error(1, "is in use");
    database.close().expect("close");
    drop((table, database));
    assert!(run_in(&dir, "repair").expect(0).contains("nothing to repair"));

    let mut pages = fs::read(dir.join("katydid.pages")).expect("the pages");
    let leaf = (3..pages.len() / 8192).find(|page| pages[page * 8192 + 4] == 4).expect("a leaf");
    pages[leaf * 8192 + 4000] ^= 1;
    fs::write(dir.join("katydid.pages"), &pages).expect("written");
    let damaged = contents(&dir);
    let planned = run_in(&dir, "repair");
    assert!(planned.err.contains("lost: table \"t\": rows with keys "), "{}", planned.err);
    assert!(planned.expect(1).contains("nothing was changed"));
    // The exit code reports the damage even if no program reads the output.
    for words in ["repair", "repair --json", "verify --json"] {
        run_unread(&dir, words, b"").expect(1);
        run_unheard(&dir, words).expect(1);
    }
    assert!(contents(&dir) == damaged, "a dry run changed something");

    let done = run_in(&dir, "repair --apply");
    assert!(done.expect(0).contains("the damaged files are in katydid.damaged-1"));
    assert!(fs::read(dir.join("katydid.damaged-1/katydid.pages")).expect("kept") == pages);
    run_in(&dir, "verify").expect(0);
    let database = Database::open(&dir).expect("open");
    let table = database.open_table("t").expect("open").expect("the table");
    let rows = database.begin_read_only().expect("a view").range(&table, ..).count();
    assert!((39_000..40_000).contains(&rows), "{rows} rows");
}
