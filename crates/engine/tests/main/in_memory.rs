//! Databases in the memory of the process.

use crate::common::{self, options_for};
use katydid::{Database, EngineKind, Error, FileOptions, MemoryOptions, Options, PagedOptions};

suite! {
    a_database_in_memory_is_the_whole_store,
    databases_in_memory_are_apart,
    options_of_a_database_in_memory_are_checked,
}

suite! {
    in_nvram:
    a_database_in_memory_is_the_whole_store,
}

fn options(engine: EngineKind) -> Options {
    let mut options = options_for(engine);
    // Segments and reserve have their default sizes, which a database in memory lowers.
    let large = FileOptions::default().segment_bytes;
    options.advanced.log =
        options.advanced.log.map_files(|files| FileOptions { segment_bytes: large, ..files });
    options.advanced.log.reserve_bytes = match options.advanced.log.medium.kind().in_nvram() {
        true => 256 << 10,
        false => Options::default().advanced.log.reserve_bytes,
    };
    options
}

fn a_database_in_memory_is_the_whole_store(engine: EngineKind) {
    let database = Database::in_memory_with(options(engine)).unwrap();
    let table = database.table("t").unwrap();
    for number in 0..500 {
        database.put(&table, common::key(number), vec![7; 3000]).unwrap();
    }
    database.checkpoint().unwrap();
    assert_eq!(common::contents(&database, &table).len(), 500);
    common::assert_sound(&database.verify(None).unwrap());
    assert_eq!(database.stat().unwrap().memory().is_some(), engine == EngineKind::Memory);
    database.close().unwrap();
    assert!(matches!(database.get(&table, "k"), Err(Error::Closed)));
}

fn databases_in_memory_are_apart(engine: EngineKind) {
    let one = Database::in_memory_with(options(engine)).unwrap();
    let other = Database::in_memory_with(options(engine)).unwrap();
    let table = one.table("t").unwrap();
    one.put(&table, "k", "v").unwrap();
    assert_eq!(other.tables().unwrap(), Vec::<String>::new());
    assert!(matches!(other.get(&table, "k"), Err(Error::ForeignTable { .. })));
}

fn options_of_a_database_in_memory_are_checked(engine: EngineKind) {
    let paged = PagedOptions { page_bytes: 5000, ..PagedOptions::default() };
    let memory = MemoryOptions { memory_bytes: 1, ..MemoryOptions::default() };
    let bad = Options { engine: engine.with(paged, memory), ..options(engine) };
    assert!(matches!(Database::in_memory_with(bad), Err(Error::Option { .. })));
    let mut bad = options(engine);
    bad.advanced.log.medium = FileOptions { segment_bytes: 4097, ..FileOptions::default() }.into();
    assert!(matches!(Database::in_memory_with(bad), Err(Error::Option { .. })));
    let none = Options { create: false, ..options(engine) };
    assert!(matches!(Database::in_memory_with(none), Err(Error::NotFound { .. })));
}
