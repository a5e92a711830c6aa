//! What a parallel log promises.
//!
//! | file | what |
//! |---|---|
//! | `basics` | appending, waiting, being told, replaying |
//! | `opening` | which streams there are, and what is missing, foreign or half made |
//! | `crashes` | devices that crash anywhere, also while the log is opened |
//! | `faults` | devices that fail |

mod basics;

use katydid_wal::{Dependences, InserterKind, Options, ParallelLog, Place, Replayed, StreamId, SyncKind};
use std::sync::Mutex;

/// Small files, and an id that is the same in every run.
pub fn options(inserter: InserterKind, sync: SyncKind) -> Options {
    Options {
        segment_bytes: 32 << 10,
        ring_bytes: 16 << 10,
        run_ahead_bytes: 4 << 10,
        chunk_bytes: 512,
        chunk_always: true,
        reserve_bytes: 0,
        spare_segments: 1,
        inserter,
        sync,
        log_id: Some(0x5eed),
        ..Options::default()
    }
}

/// The stream of this number.
pub fn stream(index: usize) -> StreamId {
    StreamId::new(u16::try_from(index).expect("a small number"))
}

/// A set of these places.
pub fn depends(places: &[Place]) -> Dependences {
    places.iter().copied().collect()
}

/// All that is replayed from the start: timestamps and payloads, by timestamp; and the greatest of all.
pub fn replayed(log: &ParallelLog) -> (Vec<(u64, Vec<u8>)>, u64) {
    let found = Mutex::new(Vec::new());
    let visit = |record: Replayed<'_>| -> Result<(), ()> {
        found.lock().expect("no panic").push((record.timestamp, record.payload.to_vec()));
        Ok(())
    };
    let starts: Vec<_> = log.streams().iter().map(katydid_wal::Log::start).collect();
    let report = log.replay(&starts, &visit, &|_| {}).unwrap_or_else(|error| panic!("replay: {error:?}"));
    let mut found = found.into_inner().expect("no panic");
    assert_eq!(found.len() as u64, report.records);
    found.sort();
    (found, report.timestamp_max)
}
