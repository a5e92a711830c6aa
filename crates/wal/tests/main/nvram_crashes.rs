//! Logs in NVRAM that crash at every step of the memory, are opened, crash while they are opened,
//! and are opened again.
//!
//! A step is a write-back or a fence. The seed decides what a crash leaves of the lines that were
//! not persisted, eight bytes at a time. After each crash:
//!
//! 1. every record that was acknowledged exists, unless it was trimmed; in `nv_direct` also above
//!    holes;
//! 2. every record that exists was appended, and exists once, and each session's records are in
//!    order, with no record missing before an acknowledged one;
//! 3. a trim has moved the start or not, and has changed nothing else;
//! 4. a log that is opened again after crashes of openings has the same records, and can be
//!    appended to.

use katydid_device::SimDevice;
use katydid_device::nvram::SimNvram;
use katydid_device::testing::seed;
use katydid_wal::testing::{begin_at, crash};
use katydid_wal::{
    Append, AppendError, Durability, FileOptions, Finding, Id, InserterKind, Kind, Log, LogKind, Lsn,
    MediumSettings, NvramOptions, Options,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

const RING: u64 = 16 << 10;
const KINDS: [LogKind; 4] = [LogKind::NvDirect, LogKind::NvRing, LogKind::NvEntries, LogKind::NvLogging];

fn options(log: LogKind, inserter: InserterKind) -> Options {
    let files = FileOptions { inserter: inserter.into(), ..FileOptions::default() };
    let memory = NvramOptions { bytes: RING, ..NvramOptions::default() };
    Options {
        medium: MediumSettings { files, memory, entries: 0 }.medium(log),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 1 << 10,
        sessions_max: 4,
        log_id: Some(Id::new(7)),
        ..Options::default()
    }
}

/// Records that the log may have after a crash, and those that it must have.
#[derive(Debug, Clone, Default)]
struct Model {
    /// Session and bytes of every record that may exist, by its number.
    appended: BTreeMap<u64, (u64, usize)>,
    /// Numbers of the records that must exist, unless they are trimmed.
    acknowledged: Vec<u64>,
    /// Numbers and ends of the records that no thread has waited for.
    pending: Vec<(u64, Lsn)>,
    /// Numbers of the records that may have been trimmed. If sessions have chunks of their own, a
    /// record with a later number may lie lower.
    trimmed: BTreeSet<u64>,
    next: u64,
}

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.extend((0..bytes).map(|at| (at as u64 ^ number.wrapping_mul(0x9e37)) as u8));
    payload
}

/// Two sessions append by turns, wait for some records, and trim when the ring is full, until they
/// have appended `count` records or the memory has crashed.
fn work(log: &Log, memory: &SimNvram, model: &mut Model, rng: &mut fastrand::Rng, count: u64) {
    let mut sessions = [log.session().expect("session"), log.session().expect("session")];
    let mut live: Vec<(u64, Lsn)> = Vec::new();
    let end = model.next + count;
    while model.next < end && !memory.is_crashed() {
        let who = rng.u64(0..2);
        // Most records are small, some are in fragments.
        let bytes = if rng.u8(0..12) == 0 { rng.usize(2000..5000) } else { rng.usize(0..200) };
        let number = model.next;
        let bytes_of = payload(number, bytes);
        model.appended.insert(number, (who, bytes));
        match sessions[who as usize].append(&Append::new(Kind::USER, &[&bytes_of]).txn(who)) {
            Ok(appended) => {
                model.next += 1;
                live.push((number, appended.first));
                model.pending.push((number, appended.end));
                if rng.u8(0..3) == 0 {
                    continue;
                }
                let waited = log.first().wait(appended.end, Durability::Durable);
                assert!(waited.is_ok() || memory.is_crashed(), "{waited:?}");
                if waited.is_ok() {
                    // The wait also covers everything below, whichever session appended it.
                    let covered = |(_, end): &&(u64, Lsn)| *end <= appended.end;
                    model.acknowledged.extend(model.pending.iter().filter(covered).map(|(number, _)| number));
                    model.pending.retain(|(_, end)| *end > appended.end);
                }
            }
            Err(AppendError::NoSpace) => {
                model.appended.remove(&number);
                let keep = rng.usize(0..4).min(live.len());
                let to = if keep == 0 { log.first().sync() } else { Ok(live[live.len() - keep].1) };
                let Ok(to) = to else { break };
                // The trim may have taken effect although the crash comes before the call returns.
                // Records that existed before this call of `work` lie lower than all records of the
                // call.
                live.retain(|(_, first)| *first >= to);
                let stays = |number: &u64| live.iter().any(|(live, _)| live == number);
                model.trimmed.extend(model.appended.keys().copied().filter(|number| !stays(number)));
                if log.first().trim(to).is_err() {
                    break;
                }
            }
            Err(error) => {
                assert!(memory.is_crashed(), "{error}");
                model.next += 1;
            }
        }
    }
}

/// Checks rules 1 to 3, and leaves in the model the records that exist.
fn check(log: &Log, model: &mut Model, context: &str) {
    let records: Vec<_> = log
        .first()
        .reader(log.first().start())
        .expect("reader")
        .map(|record| record.unwrap_or_else(|error| panic!("{context}: {error}")))
        .collect();
    let mut found = Vec::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for record in &records {
        let number = u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"));
        let (who, bytes) =
            *model.appended.get(&number).unwrap_or_else(|| panic!("{context}: invented {number}"));
        assert!(record.txn == who && record.payload == payload(number, bytes), "{context}: damaged {number}");
        let before = last.insert(who, number);
        assert!(before.is_none_or(|before| before < number), "{context}: {before:?} before {number}");
        found.push(number);
    }
    for number in &model.acknowledged {
        assert!(
            model.trimmed.contains(number) || found.contains(number),
            "{context}: {number} was acknowledged, found {found:?}"
        );
    }
    model.acknowledged = found;
    model.pending.clear();
    let kept: BTreeMap<_, _> =
        model.appended.iter().filter(|(number, _)| model.acknowledged.contains(number)).collect();
    model.appended = kept.into_iter().map(|(number, what)| (*number, *what)).collect();
}

fn memory_of(device: &SimDevice) -> SimNvram {
    device.nvram("log.nvram").expect("it was made")
}

/// First position with a 33rd bit.
const HIGH: u64 = 1 << 32;

/// First position of a log: 0, or a position from which the following work passes [`HIGH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    AtZero,
    BelowHigh,
}

/// Returns a device with a log that has gone round its memory a few times.
fn used(options: &Options, seed: u64, begins: Begins) -> (SimDevice, Model) {
    let mut device = SimDevice::new(seed);
    // There is an entry of 8 bytes for each 64 bytes of the heap. The last round of the loop below
    // may pass `laps`, but by fewer than `rest` positions.
    let (positions, rest) =
        if options.medium.kind().lies_apart() { (RING / 8, 240) } else { (RING, 10 << 10) };
    let laps = 2 * positions + positions / 2;
    let mut log = Log::open_in(device.directory(), options.clone()).expect("made");
    let start = if begins == Begins::BelowHigh { HIGH - laps - rest } else { 0 };
    if begins == Begins::BelowHigh {
        crash(&log);
        drop(log);
        begin_at(device.directory().as_ref(), Lsn::new(start)).expect("an unused log");
        device = device.reopen_after_kill();
        log = Log::open_in(device.directory(), options.clone()).expect("made");
        assert!(log.first().start().get() == start && log.first().reserved() > log.first().start());
    }
    let (mut model, memory) = (Model::default(), memory_of(&device));
    let mut rng = fastrand::Rng::with_seed(seed);
    while log.first().reserved().get() < start + laps {
        work(&log, &memory, &mut model, &mut rng, 20);
    }
    crash(&log);
    drop(log);
    (device.reopen_after_kill(), model)
}

/// Runs the same work with a crash at each step. Returns the number of steps.
fn crash_everywhere(kind: LogKind, inserter: InserterKind, seed: u64, count: u64, begins: Begins) -> u64 {
    let options = options(kind, inserter);
    let (device, model) = used(&options, seed, begins);
    let mut step = 0;
    loop {
        let context = format!("seed {seed}, {kind}, {inserter}, step {step}");
        let device = device.reopen_after_crash(seed ^ step);
        let log = Log::open_in(device.directory(), options.clone()).expect(&context);
        let mut model = model.clone();
        check(&log, &mut model, &context);
        let memory = memory_of(&device);
        memory.crash_at(memory.steps() + step);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xabc);
        work(&log, &memory, &mut model, &mut rng, count);
        let crashed = memory.is_crashed();
        let has_passed = log.first().reserved().get() >= HIGH;
        assert_eq!(!crashed && has_passed, !crashed && begins == Begins::BelowHigh, "{context}");
        crash(&log);
        drop(log);
        open_again(&device, &options, &mut model, seed.wrapping_add(step), &context);
        if !crashed {
            return step;
        }
        step += 1;
    }
}

/// Checks rule 4: the memory crashes at a step of an opening, and again at a step of the next one;
/// then the log is opened.
fn open_again(device: &SimDevice, options: &Options, model: &mut Model, seed: u64, context: &str) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut device = device.reopen_after_crash(seed);
    for _ in 0..2 {
        let memory = memory_of(&device);
        memory.crash_at(rng.u64(0..6));
        if let Ok(log) = Log::open_in(device.directory(), options.clone()) {
            crash(&log);
        }
        device = device.reopen_after_crash(rng.u64(..));
    }
    let log = Log::open_in(device.directory(), options.clone()).expect(context);
    check(&log, model, context);
    let memory = memory_of(&device);
    work(&log, &memory, model, &mut rng, 3);
    log.close().expect(context);
    drop(log);
    // This time the log was closed before it is opened again.
    let log = Log::open_in(device.directory(), options.clone()).expect(context);
    assert!(matches!(log.first().recovery().finding, Finding::CleanEnd { closed: true }), "{context}");
    check(&log, model, context);
}

#[test]
fn a_crash_at_every_step_loses_and_invents_nothing() {
    let seed = seed();
    println!("seed {seed}");
    for kind in KINDS {
        for inserter in
            [InserterKind::Marks, InserterKind::Chunked, InserterKind::Mutex, InserterKind::Delegated]
        {
            // A log whose records lie apart from their entries has no choice of inserters.
            if kind.lies_apart() && inserter != InserterKind::Marks {
                continue;
            }
            let begins = match inserter {
                InserterKind::Chunked | InserterKind::Delegated => Begins::BelowHigh,
                _ => Begins::AtZero,
            };
            let steps = crash_everywhere(kind, inserter, seed, 60, begins);
            assert!(steps > 60, "{kind}, {inserter}: {steps} steps");
        }
    }
}

/// One log is opened many times. After each opening sessions append until a crash at a random step.
#[test]
fn many_lives_of_one_log() {
    let seed = seed();
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for kind in KINDS {
        let options = options(kind, InserterKind::Marks);
        let (mut device, mut model) = used(&options, seed, Begins::BelowHigh);
        for life in 0..60 {
            let context = format!("seed {seed}, {kind}, life {life}");
            let log = Log::open_in(device.directory(), options.clone()).expect(&context);
            check(&log, &mut model, &context);
            let memory = memory_of(&device);
            memory.crash_at(memory.steps() + rng.u64(0..200));
            work(&log, &memory, &mut model, &mut rng, 80);
            crash(&log);
            drop(log);
            device = device.reopen_after_crash(rng.u64(..));
        }
        let log = Log::open_in(device.directory(), options).expect("open");
        check(&log, &mut model, "at last");
        assert!(log.first().reserved().get() > HIGH);
    }
}

/// The test makes by hand what a crash during appends leaves: some words of the records never
/// reached the memory.
#[test]
fn holes_become_padding_and_everything_else_stays() {
    let seed = seed();
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..200 {
        let context = format!("seed {seed}, round {round}");
        let options = options(LogKind::NvDirect, InserterKind::Marks);
        let device = SimDevice::new(seed);
        let log = Log::open_in(device.directory(), options.clone()).expect("made");
        let mut session = log.session().expect("session");
        // No call asks for the frontiers here, so no record stores a durable frontier above the
        // holes that the test makes below.
        let places: Vec<_> = (0..30)
            .map(|number| {
                let bytes = payload(number, rng.usize(0..120));
                session.append(&Append::new(Kind::USER, &[&bytes])).expect("append")
            })
            .collect();
        crash(&log);
        drop((session, log));
        let device = device.reopen_after_kill();
        let region = memory_of(&device).region();
        let mut lost: Vec<u64> = (0..30).filter(|_| rng.u8(0..4) == 0).collect();
        for number in &lost {
            let place = &places[*number as usize];
            let words = (place.end.get() - place.lsn.get()) / 8;
            // The lost words always include the header's checksum or its position, so the record is
            // not valid any more.
            let from = rng.u64(0..2);
            for word in from..=rng.u64(from..words) {
                region.word(4096 + place.lsn.get() % RING + word * 8).store(0, Relaxed);
            }
        }
        region.persist(0, region.len());
        drop(region);
        // Lost records at the very end are no holes: the log ends before them.
        let trailing = (0..30).rev().take_while(|n| lost.contains(n)).count() as u64;
        lost.truncate(lost.len() - trailing as usize);
        let holes = (0..30).filter(|n| lost.contains(n) && !lost.contains(&(n + 1))).count() as u64;
        let expected: Vec<u64> = (0..30 - trailing).filter(|number| !lost.contains(number)).collect();
        let holes_of = |log: &Log| match log.first().recovery().finding {
            Finding::Holes { holes, .. } => holes,
            _ => 0,
        };
        let opened = Log::open_in(device.reopen_after_kill().directory(), options.clone()).expect(&context);
        assert_eq!(holes_of(&opened), holes, "{context}");
        for step in 0..=rng.u64(0..8) {
            // Openings that crash change nothing about the result.
            let device = device.reopen_after_crash(step);
            let memory = memory_of(&device);
            memory.crash_at(step);
            if let Ok(log) = Log::open_in(device.directory(), options.clone()) {
                crash(&log);
            }
            let device = device.reopen_after_crash(rng.u64(..));
            let log = Log::open_in(device.directory(), options.clone()).expect(&context);
            let found: Vec<u64> = log
                .first()
                .reader(log.first().start())
                .expect("reader")
                .map(|record| {
                    record.expect(&context).payload[..8].try_into().map(u64::from_le_bytes).expect("word")
                })
                .collect();
            // If a record lacks one word, the opening that crashed may have stored just that word,
            // which makes the record whole.
            assert!(
                expected.iter().all(|number| found.contains(number)),
                "{context}, step {step}: {found:?}"
            );
            assert!(found.is_sorted() && found.iter().all(|number| *number < 30), "{context}, step {step}");
            let more = found.iter().filter(|number| !expected.contains(number));
            assert!(more.clone().all(|number| lost.contains(number)), "{context}, step {step}: {found:?}");
            // An opening that crashed may have already turned some holes into padding.
            assert!(holes_of(&log) <= holes, "{context}, step {step}");
            // Records that one opening has found, the next opening finds again.
            drop(log);
            let again = Log::open_in(device.reopen_after_crash(rng.u64(..)).directory(), options.clone());
            let again = again.expect(&context);
            let count = again.first().reader(again.first().start()).expect("reader").count();
            assert_eq!(count, found.len(), "{context}, step {step}");
        }
    }
}

/// Records lie apart from their entries in this log. The machine crashes when one entry is not set
/// yet and the entries above it are set. The objects that those entries name do not count as
/// records. Their memory is used again, and the old entries must not name the new objects in it.
#[test]
fn memory_of_what_lay_above_a_hole_is_used_again() {
    let seed = seed();
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..200 {
        let context = format!("seed {seed}, round {round}");
        let options = options(LogKind::NvEntries, InserterKind::Marks);
        let device = SimDevice::new(seed);
        let log = Log::open_in(device.directory(), options.clone()).expect("made");
        let mut session = log.session().expect("session");
        let mut append =
            |number: u64| session.append(&Append::new(Kind::USER, &[&payload(number, 0)])).expect("append");
        let places: Vec<_> = (0..rng.u64(10..60)).map(&mut append).collect();
        crash(&log);
        drop((session, log));
        let device = device.reopen_after_kill();
        let region = memory_of(&device).region();
        // The entries are as a crash within a commit leaves them. All entries but one are set, in
        // lap 1. The remaining entry is as its appender left it, or has not arrived.
        let hole = rng.usize(0..places.len() - 2);
        for (nth, place) in places.iter().enumerate() {
            let entry = region.word(4096 + place.lsn.get() % (RING / 8));
            match (nth == hole, rng.bool()) {
                (false, _) => {
                    // The object lies in the heap, behind the entries, and begins with its length
                    // and its checksum.
                    let object = 4096 + RING / 8 + (u64::from_le(entry.load(Relaxed)) >> 32) * 8;
                    let sum = (u64::from_le(region.word(object).load(Relaxed)) >> 32) & 0xffff;
                    entry.fetch_or((1 | sum << 16).to_le(), Relaxed)
                }
                (true, false) => continue,
                (true, true) => entry.swap(0, Relaxed),
            };
        }
        region.persist(0, region.len());
        drop(region);
        // Some openings crash, at random steps.
        let mut device = device.reopen_after_kill();
        for _ in 0..rng.u8(0..4) {
            let memory = memory_of(&device);
            memory.crash_at(rng.u64(0..8));
            if let Ok(log) = Log::open_in(device.directory(), options.clone()) {
                crash(&log);
            }
            device = device.reopen_after_crash(rng.u64(..));
        }
        let mut expected: Vec<u64> = (0..hole as u64).collect();
        for life in 0..3_u64 {
            let log = Log::open_in(device.directory(), options.clone()).expect(&context);
            let read = |log: &Log| -> Vec<u64> {
                let records = log
                    .first()
                    .reader(log.first().start())
                    .expect("reader")
                    .map(|record| record.expect(&context));
                records
                    .map(|record| {
                        let number = u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"));
                        assert!(record.payload == payload(number, record.payload.len() - 8), "{context}");
                        number
                    })
                    .collect()
            };
            assert_eq!(read(&log), expected, "{context}, life {life}");
            let mut session = log.session().expect("session");
            for number in 0..rng.u64(0..10) {
                let number = 1000 * (life + 1) + number;
                // These records are longer than the lost ones, so that they are put at places that
                // entries above the end once named.
                let bytes = payload(number, 8 * rng.usize(0..12));
                session.append(&Append::new(Kind::USER, &[&bytes])).expect("append");
                expected.push(number);
            }
            assert_eq!(read(&log), expected, "{context}, life {life}");
            crash(&log);
            drop((session, log));
            // The crash loses nothing: `read` has read all records, and the log makes a record
            // durable before a reader gets it.
            device = device.reopen_after_crash(rng.u64(..));
        }
    }
}

/// Threads append in parallel and the memory crashes meanwhile, so that there are holes below
/// acknowledged records.
#[test]
fn records_above_holes_survive_with_what_they_depend_on() {
    let seed = seed();
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut holes = 0;
    for round in 0..300 {
        let kind = KINDS[round % 3];
        let options = options(kind, InserterKind::Marks);
        let device = SimDevice::new(seed);
        let log = Log::open_in(device.directory(), options.clone()).expect("made");
        let memory = memory_of(&device);
        memory.crash_at(memory.steps() + rng.u64(0..120));
        let acknowledged: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let log = &log;
                    scope.spawn(move || {
                        let mut session = log.session().expect("session");
                        let mut durable = Vec::new();
                        for number in 0..20_u64 {
                            let bytes = payload(number, (thread * 40) as usize);
                            let payload: [&[u8]; 1] = [&bytes];
                            let append = Append::new(Kind::USER, &payload).txn(thread);
                            let Ok(appended) = session.append(&append) else { break };
                            if log.first().wait(appended.end, Durability::Durable).is_err() {
                                break;
                            }
                            durable.push(number);
                        }
                        durable
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        crash(&log);
        drop(log);
        let device = device.reopen_after_crash(rng.u64(..));
        let log = Log::open_in(device.directory(), options.clone()).expect("opened");
        holes += u64::from(matches!(log.first().recovery().finding, Finding::Holes { .. }));
        let mut next = [0_u64; 4];
        for record in log.first().reader(log.first().start()).expect("reader") {
            let record = record.expect("no holes are left");
            let number = u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"));
            // A session's later record depends on its earlier ones.
            assert_eq!(
                number, next[record.txn as usize],
                "seed {seed}, round {round}, thread {}",
                record.txn
            );
            next[record.txn as usize] += 1;
        }
        for (thread, numbers) in acknowledged.iter().enumerate() {
            assert!(
                next[thread] >= numbers.len() as u64,
                "seed {seed}, round {round}: {next:?}, {numbers:?}"
            );
        }
    }
    println!("{holes} of 100 crashes of nv_direct left holes");
}
