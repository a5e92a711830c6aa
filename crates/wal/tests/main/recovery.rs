//! Whole logs on the simulated device: acknowledged records survive crashes at any step, the
//! surviving records are a prefix, and damage is refused. The byte-exact cases are in
//! `src/recover/tests`.

use fastrand::Rng;
use katydid_device::testing::seed;
use katydid_device::{Cause, SimDevice};
use katydid_wal::testing::begin_at;
use katydid_wal::{
    Append, AppendError, Durability, Error, FileOptions, Finding, InserterKind, Kind, Log, Lsn, OpenError,
    Options, Session, SyncKind,
};

fn options(random: &mut Rng) -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: 16 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            inserter: InserterKind::ALL[random.usize(..InserterKind::ALL.len())].into(),
            sync: if random.bool() { SyncKind::Adaptive.into() } else { SyncKind::Pipelined.into() },
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        sessions_max: 4,
        reserve_bytes: 4 << 10,
        ..Options::default()
    }
}

fn append(session: &mut Session, payload: &[u8]) -> Result<Lsn, Error> {
    let payload = [payload];
    let append = Append::new(Kind::USER, &payload).txn(1);
    Ok(session.append(&append)?.first)
}

fn payload(number: usize, bytes: usize) -> Vec<u8> {
    format!("record {number} ").into_bytes().into_iter().cycle().take(bytes).collect()
}

/// Returns whether this error of a log's call says that the device crashed.
fn crashed(error: &Error) -> bool {
    match error {
        Error::Poisoned { cause } | Error::Device(cause) => device_crashed(cause),
        Error::Read(katydid_wal::ReadError::Device(cause)) => device_crashed(cause),
        Error::Closed => true,
        _ => false,
    }
}

fn device_crashed(error: &katydid_device::Error) -> bool {
    match &error.cause {
        Cause::Crashed => true,
        Cause::Poisoned(first) => device_crashed(first),
        _ => false,
    }
}

/// Records that the log has or may have, and how many of them it has acknowledged.
#[derive(Debug, Default)]
struct Model {
    /// Start and payload of each record.
    appended: Vec<(Lsn, Vec<u8>)>,
    /// Number of records that are acknowledged as durable.
    acknowledged: usize,
    trimmed: Lsn,
}

/// Runs one life of the log. Returns at a crash.
fn live(device: &SimDevice, model: &mut Model, rounds: usize, random: &mut Rng) -> Result<(), Error> {
    let log = match Log::open_in(device.directory(), options(random)) {
        Ok(log) => log,
        Err(OpenError::Device(error)) => return Err(Error::Device(error)),
        Err(error) => panic!("{error}\n{}", device.dump()),
    };
    let mut found = Vec::new();
    for record in log.first().reader(log.first().start())? {
        let record = record?;
        found.push((record.first, record.payload));
    }
    assert!(log.first().start() <= model.trimmed);
    let gone = model.appended.iter().take_while(|(first, _)| *first < log.first().start()).count();
    model.appended.drain(..gone);
    model.acknowledged = model.acknowledged.saturating_sub(gone);
    assert!(found.len() >= model.acknowledged, "an acknowledged record is gone");
    assert!(found.len() <= model.appended.len(), "a record came back");
    let differs = found.iter().zip(&model.appended).position(|(found, appended)| found != appended);
    assert_eq!(differs, None, "what is found is a prefix");
    model.appended.truncate(found.len());
    // Recovery has made all records durable.
    model.acknowledged = found.len();
    let mut session = log.session()?;
    for _ in 0..rounds {
        match random.u8(..8) {
            0..5 => {
                let size = if random.u8(..20) == 0 { 9_000 } else { random.usize(..700) };
                let bytes = payload(random.usize(..1000), size);
                match append(&mut session, &bytes) {
                    Ok(first) => model.appended.push((first, bytes)),
                    Err(error) => return Err(error),
                }
            }
            5 | 6 => {
                let durability = if random.bool() { Durability::Durable } else { Durability::Written };
                log.first().wait(log.first().reserved(), durability)?;
                if durability == Durability::Durable {
                    model.acknowledged = model.appended.len();
                }
            }
            _ => {
                let keep = random.usize(..8).min(model.acknowledged);
                if keep > 0 {
                    let to = model.appended[model.acknowledged - keep].0;
                    model.trimmed = model.trimmed.max(to);
                    log.first().trim(to)?;
                }
            }
        }
    }
    if random.bool() {
        drop(session);
        log.close()?;
        model.acknowledged = model.appended.len();
    }
    Ok(())
}

fn check(outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => {}
        Err(error) if crashed(&error) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn acknowledged_records_survive_a_crash_at_any_step() {
    let seed = seed();
    for crash_at in 0..180 {
        let mut random = Rng::with_seed(seed.wrapping_add(crash_at));
        let mut device = SimDevice::new(random.u64(..));
        let mut model = Model::default();
        for life in 0..4 {
            device.crash_at(if life == 0 { crash_at } else { random.u64(..120) });
            check(live(&device, &mut model, 60, &mut random));
            device = match random.u8(..4) {
                0 => device.reopen_after_kill(),
                _ => device.reopen_after_crash(random.u64(..)),
            };
        }
        check(live(&device, &mut model, 10, &mut random));
    }
}

/// Returns a device with a log that begins `before` bytes below a position.
fn below(position: u64, before: u64, random: &mut Rng) -> SimDevice {
    let device = SimDevice::new(random.u64(..));
    Log::open_in(device.directory(), options(random)).unwrap().close().unwrap();
    begin_at(device.directory().as_ref(), Lsn::new(position - before)).unwrap();
    device.reopen_after_kill()
}

/// Fails if some code keeps too few bits of a position or of a segment's number.
#[test]
fn acknowledged_records_survive_a_crash_where_positions_grow_by_a_bit() {
    const CAPACITY: u64 = (16 << 10) - 4096;
    let seed = seed();
    // Positions of 32, 33, 49 and 61 bits, and segment numbers of 33 bits.
    for position in [1 << 31, 1 << 32, 1 << 48, 1 << 60, CAPACITY << 32] {
        let mut passed = 0;
        for nth in 0..12 {
            let mut random = Rng::with_seed(seed.wrapping_add(position + nth));
            let mut device = below(position, nth * 4096, &mut random);
            let mut model = Model { trimmed: Lsn::new(position - nth * 4096), ..Model::default() };
            for _ in 0..4 {
                device.crash_at(random.u64(..120));
                check(live(&device, &mut model, 60, &mut random));
                device = match random.u8(..4) {
                    0 => device.reopen_after_kill(),
                    _ => device.reopen_after_crash(random.u64(..)),
                };
            }
            check(live(&device, &mut model, 40, &mut random));
            let reached = model.appended.last().map_or(0, |(first, _)| first.get());
            passed += usize::from(nth > 0 && reached >= position);
        }
        assert!(passed > 2, "{passed} logs have passed {position}");
    }
}

/// The last positions: an append that does not fit below [`Lsn::LIMIT`] is refused, and the records
/// that fit stay readable.
#[test]
fn a_log_at_the_last_position_refuses_appends_and_nothing_else() {
    let mut random = Rng::with_seed(seed());
    for inserter in InserterKind::ALL {
        let device = below(Lsn::LIMIT.get(), 40 << 10, &mut random);
        let options =
            options(&mut random).map_files(|files| FileOptions { inserter: inserter.into(), ..files });
        let log = Log::open_in(device.directory(), options.clone()).unwrap();
        let mut session = log.session().unwrap();
        let mut appended = 0;
        let refused = loop {
            match append(&mut session, &payload(appended, 500)) {
                Ok(_) => appended += 1,
                Err(error) => break error,
            }
            assert!(appended < 100, "{inserter}");
        };
        assert!(matches!(refused, Error::NoSpace) && appended > 20, "{inserter}: {appended}, then {refused}");
        log.sync().unwrap();
        drop(session);
        log.close().unwrap();
        for _ in 0..2 {
            let log = Log::open_in(device.directory(), options.clone()).unwrap();
            assert_eq!(
                log.first().reader(log.first().start()).unwrap().map(Result::unwrap).count(),
                appended,
                "{inserter}"
            );
            log.close().unwrap();
        }
    }
}

/// The last write is lost from some sector on; opening, appending, closing and opening again loses
/// nothing more.
#[test]
fn a_torn_tail_is_cut_once_and_for_all() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let mut torn = 0;
    for _ in 0..60 {
        let device = SimDevice::new(random.u64(..));
        let options = options(&mut random);
        let log = Log::open_in(device.directory(), options.clone()).unwrap();
        let mut session = log.session().unwrap();
        for number in 0..10 {
            append(&mut session, &payload(number, 200)).unwrap();
        }
        log.sync().unwrap();
        for number in 10..30 {
            append(&mut session, &payload(number, 200)).unwrap();
        }
        // The maintenance thread may also be at work, so the step that crashes is not known; the
        // test judges the survivors instead.
        device.crash_at(device.steps());
        assert!(log.first().sync().is_err());
        drop((session, log));
        let device = device.reopen_after_crash(random.u64(..));
        let log = Log::open_in(device.directory(), options.clone()).unwrap();
        torn += usize::from(matches!(log.first().recovery().finding, Finding::TornTail { .. }));
        let kept = log
            .first()
            .reader(log.first().start())
            .unwrap()
            .map(|record| record.unwrap().payload)
            .collect::<Vec<_>>();
        assert!(kept.len() >= 10);
        let mut session = log.session().unwrap();
        append(&mut session, b"after").unwrap();
        drop(session);
        log.close().unwrap();
        let device = device.reopen_after_crash(random.u64(..));
        let log = Log::open_in(device.directory(), options).unwrap();
        assert_eq!(log.first().recovery().finding, Finding::CleanEnd { closed: true });
        let now: Vec<Vec<u8>> =
            log.first().reader(log.first().start()).unwrap().map(|record| record.unwrap().payload).collect();
        assert_eq!(now[..kept.len()], kept);
        assert_eq!(now[kept.len()..], [b"after".to_vec()]);
    }
    assert!(torn > 5, "only {torn} tails were torn");
}

/// Refused appends leave nothing behind, and succeed when there is room again.
#[test]
fn no_space_is_typed_loses_nothing_and_clears() {
    let mut random = Rng::with_seed(seed());
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options(&mut random)).unwrap();
    let mut session = log.session().unwrap();
    device.set_capacity(device.used() + (32 << 10));
    let mut appended = 0;
    let refused = loop {
        match append(&mut session, &payload(appended, 500)) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        assert!(appended < 10_000);
    };
    assert!(matches!(refused, Error::NoSpace), "{refused}");
    log.sync().unwrap();
    let before: Vec<_> = log.first().reader(log.first().start()).unwrap().map(Result::unwrap).collect();
    assert_eq!(before.len(), appended);
    // A trim makes room although the device's capacity stays the same.
    log.first().trim(before[appended - 3].first).unwrap();
    append(&mut session, b"after trimming").unwrap();
    device.set_capacity(u64::MAX);
    for _ in 0..200 {
        append(&mut session, &payload(0, 500)).unwrap();
    }
    drop(session);
    log.close().unwrap();
    let log = Log::open_in(device.directory(), options(&mut random)).unwrap();
    assert_eq!(log.first().reader(log.first().start()).unwrap().map(Result::unwrap).count(), 3 + 1 + 200);
}

#[test]
fn an_oversized_record_is_refused_and_nothing_of_it_stays() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options(&mut Rng::with_seed(1))).unwrap();
    let mut session = log.session().unwrap();
    let bytes = vec![0; (64 << 20) - 47];
    let payload = [&bytes[..]];
    let append = Append::new(Kind::USER, &payload).txn(1);
    match session.append(&append) {
        Err(AppendError::TooLarge { bytes, limit }) => assert_eq!((bytes, limit), ((64 << 20) + 1, 64 << 20)),
        other => panic!("{other:?}"),
    }
    assert_eq!(log.first().reader(log.first().start()).unwrap().count(), 0);
}
