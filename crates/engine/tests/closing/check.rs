//! A check of a closed database, held up at each of its device calls while another opening changes
//! the database, if it can.

use crate::common::{self, key, options_for};
use crate::device::{CallPoint, Watched, held_up};
use katydid::{Database, EngineKind, Error};
use katydid_device::{Directory, MemoryDirectory};
use std::sync::Arc;

/// Puts rows, takes checkpoints so that the log is trimmed, and closes.
fn change(directory: Arc<dyn Directory>, engine: EngineKind, round: u64) -> Result<(), Error> {
    let database = Database::open_in(directory, options_for(engine))?;
    let table = database.table("rows")?;
    for _ in 0..3 {
        for number in 0..40 {
            database.put(&table, key(number), vec![round as u8; 1000])?;
        }
        database.checkpoint()?;
    }
    drop(table);
    database.close()
}

/// If the other opening comes before the check has the lock, the check judges the files that this
/// opening left. While the check has the lock, the opening is refused.
pub fn a_check_that_an_opening_overtakes_judges_what_is_there(engine: EngineKind) {
    let memory = MemoryDirectory::new();
    change(Arc::new(memory.clone()), engine, 0).unwrap();
    let (mut overtook, mut refused) = (0, 0);
    for at in 0..12 {
        let seen = Arc::new(Watched::new(Arc::new(memory.clone())));
        let (held, check) = held_up(CallPoint::Nth(at), move || Database::verify_in(seen, None));
        let call = held.reached.recv().expect("a check makes more calls");
        match change(Arc::new(memory.clone()), engine, at as u64 + 1) {
            Ok(()) => overtook += 1,
            Err(Error::Locked { .. }) => refused += 1,
            Err(error) => panic!("{engine}, call {at} ({call}): {error}"),
        }
        held.release();
        let report = check.join().expect("no panic").unwrap();
        assert!(report.is_sound(), "{engine}, call {at} ({call}): {:#?}", report.faults);
        assert!(report.clean, "{engine}, call {at} ({call})");
    }
    assert!(overtook > 0 && refused > 0, "{engine}: {overtook} overtook the check, {refused} were refused");
    let database = Database::open_in(Arc::new(memory), options_for(engine)).unwrap();
    common::assert_sound(&database.verify(None).unwrap());
}
