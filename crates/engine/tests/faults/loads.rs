//! Bulk loads in which any one device call fails, or the machine crashes at it: the table has all
//! keys of the load or none, and a load that was not committed takes no room.

use crate::common::{assert_sound, contents};
use crate::{Setting, later};
use katydid::testing::Background;
use katydid::{Database, EngineKind, Error, Options};
use katydid_device::{Fault, SimDevice, Survival};
use std::collections::BTreeMap;

suite! {
    a_crash_at_any_step_of_a_load_leaves_all_of_it_or_none,
    a_failure_at_any_step_of_a_load_leaves_all_of_it_or_none,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(setting: Setting) -> Options {
    let mut options = setting.options();
    options.advanced.log.background = Background::Caller;
    options
}

/// Returns the rows to load: many short values, and some that take pages of their own.
fn rows() -> Rows {
    let value = |number: u32| match number % 97 {
        13 => vec![number as u8; 20_000],
        96 => vec![number as u8; 200_000],
        _ => vec![number as u8; number as usize % 400],
    };
    (0..300u32).map(|number| (number.to_be_bytes().to_vec(), value(number))).collect()
}

/// Opens the database, puts a row into another table, loads table `t` with checkpoints during the
/// load, and closes the database. Returns whether the load was acknowledged.
fn live(device: &SimDevice, options: &Options) -> (bool, Result<(), Error>) {
    let mut is_loaded = false;
    let outcome = (|| {
        let database = Database::open_in(device.directory(), options.clone())?;
        let other = database.table("other")?;
        database.put(&other, "a", "row")?;
        let table = database.table("t")?;
        let entries = rows().into_iter().enumerate().map(|(number, entry)| {
            if number % 100 == 50 {
                database.checkpoint()?;
            }
            Ok::<_, Error>(entry)
        });
        database.try_bulk_load(&table, entries)?;
        is_loaded = true;
        database.put(&table, "x", "after")?;
        database.delete(&table, "x")?;
        database.close()
    })();
    (is_loaded, outcome)
}

/// Returns the number of pages in use.
fn in_use(database: &Database) -> Option<u64> {
    let stat = database.stat().expect("stat");
    stat.paged().map(|paged| paged.pages - paged.pages_free)
}

/// Checks what the next opening finds. Returns whether the table has all keys of the load.
fn check(device: &SimDevice, options: &Options, is_loaded: bool, when: &str) -> bool {
    let database = Database::open_in(device.directory(), options.clone())
        .unwrap_or_else(|error| panic!("{when}: {error}\n{}", device.dump()));
    assert_sound(&database.verify(None).expect("verify"));
    let mut has_all = false;
    if let Some(table) = database.open_table("t").expect("open table") {
        let mut found = contents(&database, &table);
        found.remove(&b"x"[..]);
        has_all = found == rows();
        assert!(has_all || found.is_empty() && !is_loaded, "{when}: {} rows", found.len());
        if !has_all {
            // The first load leaves nothing that is in the way of another load.
            database.bulk_load(&table, rows()).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_eq!(contents(&database, &table), rows(), "{when}");
        }
    }
    assert!(has_all || !is_loaded, "{when}: no table");
    for name in database.tables().expect("tables") {
        assert!(database.drop_table(&name).expect("drop"), "{when}: {name}");
    }
    assert_sound(&database.verify(None).expect("verify"));
    // Only the file's own pages are in use: header, map, catalog.
    assert!(in_use(&database).is_none_or(|pages| pages == 3), "{when}: {:?} pages", in_use(&database));
    has_all
}

/// Calls `strike` once for each step of a life; successive steps have successive settings.
fn each_step(engine: EngineKind, mut strike: impl FnMut(&Options, u64)) {
    let settings: Vec<Options> = Setting::all(engine).into_iter().map(options).collect();
    let steps = |options: &Options| {
        let device = SimDevice::new(1);
        live(&device, options).1.expect("a life without a fault");
        device.steps()
    };
    let total = settings.iter().map(steps).max().expect("settings");
    println!("{total} steps");
    (0..total).for_each(|step| strike(&settings[step as usize % settings.len()], step));
}

fn a_crash_at_any_step_of_a_load_leaves_all_of_it_or_none(engine: EngineKind) {
    let (mut all, mut none) = (0, 0);
    each_step(engine, |options, step| {
        let device = SimDevice::new(step);
        device.crash_at(step);
        let (is_loaded, _) = live(&device, options);
        let survival = [Survival::Random, Survival::DropAll, Survival::KeepAll, Survival::Prefix];
        for survival in [survival[step as usize % 4], survival[(step as usize + 1) % 4]] {
            let left = device.reopen_with(step, survival);
            match check(&left, options, is_loaded, &format!("step {step}, {survival:?}")) {
                true => all += 1,
                false => none += 1,
            }
        }
    });
    assert!(all > 4 && none > 20, "{all} whole, {none} empty");
}

fn a_failure_at_any_step_of_a_load_leaves_all_of_it_or_none(engine: EngineKind) {
    for fault in [Fault::NoSpace, Fault::Io, Fault::SyncIo] {
        each_step(engine, |options, step| {
            let device = SimDevice::new(step);
            device.fail_at(step, fault);
            let (is_loaded, _) = live(&device, options);
            device.heal();
            let later = later(&device);
            let (when, left) = &later[step as usize % later.len()];
            check(left, options, is_loaded, &format!("step {step}, {fault:?}, {when}"));
        });
    }
}
