//! Crashes at every step of creating, writing, trimming and recovering, on the simulated device.

use super::bench::{Writer, options_of, payload};
use crate::Options;
use crate::error::{Error, OpenError, ReadError};
use fastrand::Rng;
use katydid_device::testing::seed;
use katydid_device::{Cause, Directory, Fault, SimDevice, Survival, Verb, WriteMode};
use katydid_kernels::lsn::Lsn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The calls made on the log and their results, by which the log is judged after a crash.
#[derive(Debug, Clone, Default)]
struct Model {
    /// LSN and payload of every record that was appended and may still exist.
    appended: Vec<(Lsn, Vec<u8>)>,
    /// The durable frontier, as the log last reported it.
    durable: Lsn,
    /// The greatest position that a trim was called with; this trim may have taken effect.
    trimmed: Lsn,
}

fn is_crash(error: &Error) -> bool {
    matches!(error, Error::Device(error) if matches!(error.cause, Cause::Crashed))
        || matches!(error, Error::Read(ReadError::Device(error)) if matches!(error.cause, Cause::Crashed))
}

/// Opens the log, compares it with the model, and makes `rounds` steps, which update the model.
/// Returns at a crash.
fn live(
    directory: &Arc<dyn Directory>,
    options: &Options,
    model: &mut Model,
    rounds: usize,
    random: &mut Rng,
) {
    let mut log = match Writer::open_with(directory, options) {
        Ok(log) => log,
        Err(OpenError::Device(error)) if matches!(error.cause, Cause::Crashed) => return,
        Err(error) => panic!("opening: {error}"),
    };
    let records = match log.records() {
        Ok(records) => records,
        Err(ReadError::Device(error)) if matches!(error.cause, Cause::Crashed) => return,
        Err(error) => panic!("reading: {error}"),
    };
    let start = log.store.start();
    assert!(start <= model.trimmed, "more was trimmed than asked for");
    assert!(log.opened.end >= model.durable, "durable records are lost");
    let found: Vec<(Lsn, Vec<u8>)> = records.into_iter().map(|record| (record.lsn, record.payload)).collect();
    model.appended.retain(|(lsn, _)| *lsn >= start);
    // The records found are a prefix of those appended, at the same positions.
    assert!(found.len() <= model.appended.len(), "records came back");
    let differs = found.iter().zip(&model.appended).position(|(found, appended)| found != appended);
    assert_eq!(differs, None);
    let durable = model.appended.iter().filter(|(lsn, _)| *lsn < model.durable).count();
    assert!(found.len() >= durable);
    // From here on, lost records must stay lost, and the records that were found must stay.
    model.appended.truncate(found.len());
    model.durable = log.durable;
    for _ in 0..rounds {
        match step(&mut log, model, random) {
            Ok(()) => {}
            Err(error) if is_crash(&error) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn step(log: &mut Writer, model: &mut Model, random: &mut Rng) -> Result<(), Error> {
    match random.usize(..10) {
        0..6 => {
            for _ in 0..random.usize(1..6) {
                let bytes = payload(random.usize(..1000), random.usize(..900));
                let lsn = log.append(&bytes);
                model.appended.push((lsn, bytes));
            }
        }
        6 => log.write(WriteMode::Written)?,
        7 | 8 => {
            log.write(WriteMode::Durable)?;
            model.durable = log.durable;
        }
        _ => {
            let durable = model.appended.iter().filter(|(lsn, _)| *lsn < model.durable).count();
            let keep = random.usize(..6).min(durable);
            let to = if keep == 0 { model.durable } else { model.appended[durable - keep].0 };
            model.trimmed = model.trimmed.max(to);
            log.store.trim(to, log.durable)?;
        }
    }
    Ok(())
}

/// Runs one life after the other. A crash at a chosen step ends each life, and the next one begins
/// with what the crash has left. Returns the number of device calls of the first life.
fn lives(seed: u64, crash_at: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let options = options_of(seed);
    let mut device = SimDevice::new(seed);
    let mut model = Model::default();
    device.crash_at(crash_at);
    live(&device.directory(), &options, &mut model, 60, &mut random);
    let steps = device.steps();
    for life in 0..4 {
        device = if random.u8(..4) == 0 {
            device.reopen_after_kill()
        } else {
            device.reopen_after_crash(random.u64(..))
        };
        // The crash comes early enough that some lives crash in recovery itself.
        device.crash_at(random.u64(..[8, 30, 120, u64::MAX][life]));
        live(&device.directory(), &options, &mut model, 20, &mut random);
    }
    steps
}

#[test]
fn a_crash_at_every_step_of_a_life_keeps_the_promises() {
    let seed = seed();
    for round in 0..3 {
        let seed = seed.wrapping_add(round);
        let steps = lives(seed, u64::MAX);
        assert!(steps > 30);
        for crash_at in 0..steps {
            lives(seed, crash_at);
        }
    }
}

/// Runs lives with random work, each ended by a crash at a random step.
#[test]
fn random_crashes_keep_the_promises() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for _ in 0..300 {
        lives(random.u64(..), random.u64(..150));
    }
}

/// Recovery crashes at each of its steps, several times in a row, and finds the same records as
/// recovery without a crash.
#[test]
fn recovery_that_is_interrupted_anywhere_finds_the_same() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for round in 0..10 {
        let options = options_of(round);
        let device = SimDevice::new(random.u64(..));
        let mut model = Model::default();
        live(&device.directory(), &options, &mut model, 40, &mut random);
        let first = device.reopen_after_crash(random.u64(..));
        let straight = first.reopen_with(0, Survival::KeepAll);
        let expected = Writer::open_with(&straight.directory(), &options).unwrap();
        let (steps, expected) = (straight.steps(), (expected.opened.end, expected.payloads()));
        for crash_at in 0..steps {
            let mut device = first.reopen_with(0, Survival::KeepAll);
            for again in 0..3 {
                device.crash_at(crash_at.saturating_sub(again));
                // A later attempt may need fewer steps than the first one, and then succeeds before
                // the crash comes.
                match Writer::open_with(&device.directory(), &options) {
                    Ok(_) | Err(OpenError::Device(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                device = device.reopen_after_crash(random.u64(..));
            }
            let log = Writer::open_with(&device.directory(), &options).unwrap();
            assert_eq!(log.payloads(), expected.1, "crashed at {crash_at} of {steps}");
            // Only Restart records of interrupted openings may have become durable.
            assert!(log.opened.end.since(expected.0) <= 3 * 48);
        }
    }
}

/// A sync failed, the process ended, and the operating system still shows bytes that never reached
/// the device. Records that the next opening appends above those bytes must survive a crash of the
/// machine.
#[test]
fn bytes_that_a_failed_sync_left_in_the_cache_are_not_believed() {
    let seed = seed();
    let mut lost = 0;
    for round in 0..20 {
        let device = SimDevice::new(seed.wrapping_add(round));
        let mut log = Writer::open(&device.directory()).unwrap();
        log.commit(b"before").unwrap();
        for number in 0..20 {
            log.append(&payload(number, 300));
        }
        device.fail_at(device.steps(), Fault::SyncIo);
        log.write(WriteMode::Durable).unwrap_err();
        let device = device.reopen_after_kill();
        let mut log = Writer::open(&device.directory()).unwrap();
        let found = log.payloads();
        lost += 21 - found.len();
        log.commit(b"after").unwrap();
        let device = device.reopen_with(seed, Survival::DropAll);
        let log = Writer::open(&device.directory()).unwrap();
        assert_eq!(log.payloads(), [&found[..], &[b"after".to_vec()]].concat());
    }
    assert!(lost > 0, "no sync lost anything");
}

/// A segment is made longer for its next use, and the sync of the new length fails. The next
/// process finds the new length, which the device does not have, and must not rely on it.
#[test]
fn a_length_that_a_failed_sync_left_in_the_cache_is_not_believed() {
    let options = options_of(0);
    let mut cut = 0;
    for step in 0.. {
        let device = SimDevice::new(1);
        let calls = Arc::new(AtomicU64::new(0));
        let counted = calls.clone();
        // Syncs of the directory do not fail here, because they would lose names.
        device.fail_when(move |verb, _, _| {
            let is_one = matches!(verb, Verb::Sync | Verb::Prepare);
            (is_one && counted.fetch_add(1, Ordering::Relaxed) == step).then_some(Fault::SyncIo)
        });
        let life = |device: &SimDevice| -> Result<(), Error> {
            let Ok(mut log) = Writer::open_with(&device.directory(), &options) else { return Ok(()) };
            for number in 0..6 {
                log.commit(&payload(number, 900))?;
            }
            log.store.trim(log.durable, log.durable)?;
            Ok(log.store.prepare_next()?)
        };
        cut += u64::from(life(&device).is_err());
        if calls.load(Ordering::Relaxed) <= step {
            break;
        }
        let device = device.reopen_after_kill();
        let mut log = Writer::open_with(&device.directory(), &options).expect("nothing is wrong yet");
        log.store.prepare_next().expect("room");
        log.commit(b"after").expect("commit");
        let found = log.payloads();
        let device = device.reopen_with(1, Survival::DropAll);
        let log = Writer::open_with(&device.directory(), &options).expect("what was believed is there");
        assert_eq!(log.payloads(), found, "step {step}");
    }
    assert!(cut > 0, "no preparation failed");
}

#[test]
fn no_space_for_the_next_segment_leaves_the_log_as_it_was() {
    let device = SimDevice::new(7);
    let directory = device.directory();
    let mut log = Writer::open(&directory).unwrap();
    log.commit(b"before").unwrap();
    let (end, used) = (log.store.prepared_end(), device.used());
    device.set_capacity(used + 8_000);
    for _ in 0..3 {
        assert!(log.store.prepare_next().unwrap_err().is_no_space());
        assert_eq!((log.store.prepared_end(), device.used()), (end, used), "nothing is held");
    }
    log.commit(b"still").unwrap();
    device.set_capacity(u64::MAX);
    log.store.prepare_next().unwrap();
    assert!(log.store.prepared_end() > end);
    let log = Writer::open(&directory).unwrap();
    assert_eq!(log.payloads(), [&b"before"[..], b"still"]);
}
