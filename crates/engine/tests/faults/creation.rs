//! If the creation of a database of the memory engine ends at any step, the next opening finishes
//! it, even an opening that asks for another number of streams. The result is one database: it has
//! one id, and its parts belong together.

use crate::common::{assert_sound, options_for};
use katydid::testing::Background;
use katydid::{Database, EngineKind, Options};
use katydid_device::{SimDevice, Survival};

fn options(streams: u16) -> Options {
    let mut options = crate::common::with_streams(options_for(EngineKind::Memory), streams);
    options.advanced.log.background = Background::Caller;
    // Each opening makes up an id of its own.
    options.advanced.log.log_id = None;
    options
}

#[test]
fn a_creation_that_ended_anywhere_is_finished_by_the_next_opening() {
    for step in 0.. {
        let device = SimDevice::new(step);
        device.crash_at(step);
        let outcome = Database::open_in(device.directory(), options(3));
        let is_whole = outcome.is_ok() && !device.is_crashed();
        device.freeze();
        drop(outcome);
        let ends = [device.reopen_after_kill(), device.reopen_with(step, Survival::DropAll)];
        for device in ends.into_iter().chain([device.reopen_with(step, Survival::Random)]) {
            for round in 0..2 {
                let what = format!("created until step {step}, opening {round}");
                let database = Database::open_in(device.directory(), options(2)).expect(&what);
                let table = database.table("t").expect("table");
                database.put(&table, "key", "value").expect("put");
                database.close().expect("close");
                drop((table, database));
                let report = Database::verify_in(device.directory(), None).expect(&what);
                assert_sound(&report);
            }
        }
        if is_whole {
            assert!(step > 20, "only {step} steps");
            return;
        }
    }
}
