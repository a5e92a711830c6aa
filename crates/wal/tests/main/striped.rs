//! A whole log in striped directories: after crashes at every step the acknowledged records exist,
//! and the records that exist are a prefix.

use fastrand::Rng;
use katydid_device::testing::seed;
use katydid_device::{Cause, Directory, Fault, MemoryDirectory, SimDevice, StripedDirectory, Verb};
use katydid_wal::{
    Append, Durability, Error, FileOptions, Kind, Log, Lsn, OpenError, Options, ReadError, SyncKind,
};
use std::sync::Arc;

const UNIT: u64 = 4096;
const DIRECTORIES: usize = 3;

/// Returns options with segments of more than two units, so that each directory holds a part of
/// each segment.
fn options(random: &mut Rng) -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: 28 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            sync: SyncKind::ALL[random.usize(..SyncKind::ALL.len())].into(),
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 4 << 10,
        ..Options::default()
    }
}

/// Returns a striped directory over directories of one device, so that they crash together.
fn striped(device: &SimDevice) -> Result<Arc<dyn Directory>, katydid_device::Error> {
    let inside = |nth: usize| device.directory().subdirectory(&nth.to_string());
    let directories = (0..DIRECTORIES).map(inside).collect::<Result<_, _>>()?;
    Ok(Arc::new(StripedDirectory::open(directories, UNIT)?))
}

fn device_crashed(error: &katydid_device::Error) -> bool {
    match &error.cause {
        Cause::Crashed => true,
        Cause::Poisoned(first) => device_crashed(first),
        _ => false,
    }
}

/// Returns whether this error of a log's call says that the device crashed.
fn crashed(error: &Error) -> bool {
    match error {
        Error::Poisoned { cause } | Error::Device(cause) => device_crashed(cause),
        Error::Read(ReadError::Device(cause)) => device_crashed(cause),
        _ => false,
    }
}

#[derive(Debug, Default)]
struct Model {
    /// Start and payload of each record that may still exist.
    appended: Vec<(Lsn, Vec<u8>)>,
    /// Number of these records that are acknowledged as durable.
    acknowledged: usize,
    /// Position up to which the log may have been trimmed.
    trimmed: Lsn,
}

/// Runs one life of the log. Returns at a crash.
fn live(device: &SimDevice, model: &mut Model, rounds: usize, random: &mut Rng) -> Result<(), Error> {
    let log = match Log::open_in(striped(device)?, options(random)) {
        Ok(log) => log,
        Err(OpenError::Device(error)) => return Err(Error::Device(error)),
        Err(error) => panic!("{error}\n{}", device.dump()),
    };
    let found: Vec<(Lsn, Vec<u8>)> = log
        .first()
        .reader(log.first().start())?
        .map(|record| record.map(|record| (record.first, record.payload)))
        .collect::<Result<_, _>>()?;
    assert!(log.first().start() <= model.trimmed);
    let gone = model.appended.iter().take_while(|(first, _)| *first < log.first().start()).count();
    model.appended.drain(..gone);
    model.acknowledged = model.acknowledged.saturating_sub(gone);
    assert!(found.len() >= model.acknowledged, "an acknowledged record is gone");
    assert!(found.len() <= model.appended.len() && found[..] == model.appended[..found.len()], "a prefix");
    model.appended.truncate(found.len());
    model.acknowledged = found.len();
    let mut session = log.session()?;
    for round in 0..rounds {
        let bytes = vec![round as u8; if random.u8(..4) == 0 { 9000 } else { random.usize(..3000) }];
        let payload = [&bytes[..]];
        let appended = session.append(&Append::new(Kind::USER, &payload))?;
        model.appended.push((appended.first, bytes));
        if random.bool() {
            log.first().wait(log.first().reserved(), Durability::Durable)?;
            model.acknowledged = model.appended.len();
        }
        if random.u8(..4) == 0 && model.acknowledged > 2 {
            // The trim is noted before it is made, because a crash may leave the log trimmed or
            // not.
            model.trimmed = model.trimmed.max(model.appended[model.acknowledged - 2].0);
            log.first().trim(model.trimmed)?;
        }
    }
    Ok(())
}

fn check(outcome: Result<(), Error>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(error) if crashed(&error) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn acknowledged_records_survive_a_crash_at_every_step() {
    let base = seed();
    let mut crash_at = 0;
    loop {
        let mut random = Rng::with_seed(base.wrapping_add(crash_at));
        let mut device = SimDevice::new(random.u64(..));
        let mut model = Model::default();
        device.crash_at(crash_at);
        let whole = check(live(&device, &mut model, 40, &mut random));
        for _ in 0..2 {
            device = match random.u8(..4) {
                0 => device.reopen_after_kill(),
                _ => device.reopen_after_crash(random.u64(..)),
            };
            device.crash_at(random.u64(..80));
            check(live(&device, &mut model, 30, &mut random));
        }
        check(live(&device.reopen_after_crash(random.u64(..)), &mut model, 3, &mut random));
        if whole {
            break;
        }
        crash_at += 1;
    }
    assert!(crash_at > 100, "only {crash_at} steps");
}

#[test]
fn a_failure_in_one_directory_poisons_the_log_and_loses_nothing() {
    for (verb, fault) in [(Verb::Write, Fault::Io), (Verb::Write, Fault::SyncIo), (Verb::Prepare, Fault::Io)]
    {
        for nth in 0..DIRECTORIES {
            let device = SimDevice::new(nth as u64);
            let mut random = Rng::with_seed(nth as u64);
            let log = Log::open_in(striped(&device).expect("make"), options(&mut random)).expect("open");
            let mut session = log.session().expect("session");
            let mut acknowledged = 0;
            let error = loop {
                if acknowledged == 5 {
                    let inside = format!("{nth}/");
                    device.fail_when(move |found, path, _| {
                        (found == verb && path.starts_with(&inside) && !path.ends_with("log.control"))
                            .then_some(fault)
                    });
                }
                let outcome = session
                    .append(&Append::new(Kind::USER, &[&[7; 3000]]))
                    .map_err(Error::from)
                    .and_then(|appended| log.first().wait(appended.end, Durability::Durable));
                match outcome {
                    Ok(()) => acknowledged += 1,
                    Err(error) => break error,
                }
            };
            let cause = log.poisoned().expect("it is poisoned");
            assert!(cause.to_string().contains(&format!("{nth}/")), "{error}: {cause}");
            drop((session, log));
            device.heal();
            let device = device.reopen_after_crash(1);
            let log = Log::open_in(striped(&device).expect("open"), options(&mut random)).expect("open");
            assert!(log.first().reader(log.first().start()).expect("reader").count() >= acknowledged);
        }
    }
}

#[test]
fn a_directory_given_in_anothers_place_is_refused_and_nothing_is_lost() {
    let memories: Vec<Arc<dyn Directory>> = (0..2).map(|_| Arc::new(MemoryDirectory::new()) as _).collect();
    let open = |order: [usize; 2]| {
        StripedDirectory::open(order.map(|nth| memories[nth].clone()).to_vec(), UNIT)
            .map(|striped| Log::open_in(Arc::new(striped), options(&mut Rng::with_seed(1))).expect("open"))
    };
    let log = open([0, 1]).expect("make");
    let mut session = log.session().expect("session");
    for _ in 0..20 {
        session.append(&Append::new(Kind::USER, &[&[7; 3000]])).expect("append");
    }
    drop(session);
    log.close().expect("close");
    assert!(matches!(open([1, 0]).expect_err("swapped").cause, Cause::Stripes(_)));
    let log = open([0, 1]).expect("open");
    assert_eq!(log.first().reader(log.first().start()).expect("reader").count(), 20);
}
