//! What opening believes it first makes durable. A process that dies leaves names and bytes in the page cache that were never
//! synced. The next opening reads them and builds on them; were they not synced before they are believed, a crash of the
//! machine after the next acknowledged commit would take back what that commit stands on.

#[macro_use]
mod common;

use common::{contents, key};
use katydid::{Database, EngineKind, Method, Options};
use katydid_device::{SimDevice, Survival};
use std::collections::BTreeMap;

fn options(engine: EngineKind, method: Method) -> Options {
    let mut options = Options { streams: 2, ..common::options_for(engine) };
    options.log.segment_bytes = 64 << 10;
    options.log.reserve_bytes = 64 << 10;
    options.log.ring_bytes = 16 << 10;
    options.log.run_ahead_bytes = 8 << 10;
    options.log.background = katydid::testing::Background::Caller;
    options.log.log_id = Some(1);
    options.log.method = method;
    options
}

/// Creation, commits, a checkpoint, more commits, closing; stops when the device does. What was acknowledged.
fn live(device: &SimDevice, engine: EngineKind, method: Method) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut acknowledged = BTreeMap::new();
    let mut put = |database: &Database, from: u64| -> Result<(), katydid::Error> {
        let table = database.table("t")?;
        for number in from..from + 12 {
            let value = vec![number as u8; 700];
            database.put(&table, key(number), &value)?;
            acknowledged.insert(key(number), value);
        }
        Ok(())
    };
    let mut run = || -> Result<(), katydid::Error> {
        for life in 0..2 {
            let database = Database::open_in(device.directory(), options(engine, method))?;
            put(&database, life * 100)?;
            database.checkpoint()?;
            put(&database, life * 100 + 50)?;
            database.checkpoint()?;
            database.close()?;
        }
        Ok(())
    };
    if let Err(error) = run() {
        assert!(device.is_crashed(), "failed without a crash: {error}");
    }
    acknowledged
}

/// The process dies at `step`; the next one opens, commits, and perhaps takes a checkpoint that the machine's crash cuts short.
fn dies_at(step: u64, cut: Option<u64>, survival: Survival, (engine, method): (EngineKind, Method)) {
    let device = SimDevice::new(step);
    device.crash_at(step);
    let mut expected = live(&device, engine, method);
    let device = device.reopen_after_kill();
    let database = Database::open_in(device.directory(), options(engine, method)).expect("open after a kill");
    let table = database.table("t").expect("table");
    for (key, value) in &expected {
        assert_eq!(database.get(&table, key).expect("get").as_ref(), Some(value), "lost by the kill");
    }
    for number in 900..910 {
        database.put(&table, key(number), "after").expect("put");
        expected.insert(key(number), b"after".to_vec());
    }
    if let Some(cut) = cut {
        device.crash_at(device.steps() + cut);
        // As far as it comes.
        let _outcome = database.checkpoint();
    }
    drop((table, database));
    let device = device.reopen_with(step, survival);
    let database =
        Database::open_in(device.directory(), options(engine, method)).expect("open after the crash");
    let table = database.open_table("t").expect("open table").expect("the table was acknowledged");
    let found = contents(&database, &table);
    for (key, value) in &expected {
        let name = String::from_utf8_lossy(key);
        assert!(found.get(key) == Some(value), "{name}: acknowledged, and lost by the machine's crash");
    }
    common::assert_sound(&database.verify(None).expect("verify"));
}

suite! { what_a_dead_process_never_synced_is_made_durable_before_it_is_built_on }

fn what_a_dead_process_never_synced_is_made_durable_before_it_is_built_on(engine: EngineKind) {
    for method in [Method::Direct, Method::Buffered] {
        let whole = SimDevice::new(1);
        live(&whole, engine, method);
        let steps = whole.steps();
        assert!(steps > 60, "only {steps} steps");
        for step in 0..steps {
            println!("{engine}, {method:?}: the process dies at step {step} of {steps}");
            dies_at(step, None, Survival::DropAll, (engine, method));
            let survival = if step % 16 < 8 { Survival::DropAll } else { Survival::Random };
            dies_at(step, Some(step % 8), survival, (engine, method));
        }
    }
}
