//! Logs in NVRAM whose appends only copy: one commit persists the records of all threads, and no
//! record is acknowledged before it is persisted.
//!
//! Steps of the simulated memory are write-backs and fences; a crash with `DropAll` keeps only the
//! bytes that were fenced.

use katydid_device::nvram::SimNvram;
use katydid_device::testing::seed;
use katydid_device::{Id, SimDevice, Survival};
use katydid_wal::testing::crash;
use katydid_wal::{
    Append, Appended, Background, Durability, FileOptions, Finding, InserterKind, Kind, Log, LogKind, Lsn,
    MediumSettings, NvramOptions, Options, Session,
};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};

/// The kinds whose appends persist nothing.
const KINDS: [LogKind; 2] = [LogKind::NvRing, LogKind::NvEntries];
const DURABLE: Durability = Durability::Durable;

const BYTES: u64 = 32 << 10;

fn options(log: LogKind) -> Options {
    options_with(log, InserterKind::default())
}

fn options_with(log: LogKind, inserter: InserterKind) -> Options {
    let files = FileOptions { inserter: inserter.into(), ..FileOptions::default() };
    let memory = NvramOptions { bytes: BYTES, ..NvramOptions::default() };
    Options {
        medium: MediumSettings { files, memory, entries: 0 }.medium(log),
        reserve_bytes: 1 << 10,
        sessions_max: 8,
        log_id: Some(Id::new(7)),
        ..Options::default()
    }
}

fn made(options: Options) -> (SimDevice, SimNvram, Log) {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options).expect("made");
    let memory = device.nvram("log.nvram").expect("it was made");
    (device, memory, log)
}

/// Returns a payload that names its session and its number.
fn payload(number: u64, who: u64) -> Vec<u8> {
    let mut payload = [number.to_le_bytes(), who.to_le_bytes()].concat();
    payload.extend((0..number * 13 % 150).map(|at| (at ^ number ^ who << 4) as u8));
    payload
}

fn append(session: &mut Session, who: u64, number: u64) -> Appended {
    session.append(&Append::new(Kind::USER, &[&payload(number, who)]).txn(who)).expect("append")
}

/// Returns the number of records of each of `N` sessions. The records must be whole, and begin with
/// the first one.
fn found<const N: usize>(log: &Log, context: &str) -> [u64; N] {
    let mut counts = [0; N];
    for record in log.first().reader(log.first().start()).expect("reader") {
        let record = record.unwrap_or_else(|error| panic!("{context}: {error}"));
        let count = &mut counts[record.txn as usize];
        assert_eq!(record.payload, payload(*count, record.txn), "{context}: of {}", record.txn);
        *count += 1;
    }
    counts
}

/// Returns the number of records of each session that exist if only fenced bytes survive.
fn kept<const N: usize>(device: &SimDevice, options: &Options, context: &str) -> [u64; N] {
    let device = device.reopen_with(0, Survival::DropAll);
    found(&Log::open_in(device.directory(), options.clone()).expect(context), context)
}

#[test]
fn a_commit_covers_records_whose_appenders_persisted_nothing() {
    for (kind, inserter) in KINDS.into_iter().flat_map(|kind| InserterKind::ALL.map(|it| (kind, it))) {
        let context = format!("{kind}, {inserter}");
        let options = options_with(kind, inserter);
        let (device, memory, log) = made(options.clone());
        let [mut first, mut second] = [log.session().expect("session"), log.session().expect("session")];
        let before = memory.steps();
        for number in 0..20 {
            append(&mut second, 1, number);
        }
        let own = append(&mut first, 0, 0);
        assert_eq!(memory.steps(), before, "{context}: appends only copy");
        log.first().wait(own.end, DURABLE).expect("wait");
        let counts = memory.counts();
        // A commit has already covered the record, so none of these ways to make it durable takes
        // another step.
        log.first().wait(own.lsn, DURABLE).expect("wait");
        log.first().request(own.lsn, DURABLE);
        let mut queue = log.completions();
        queue.push(log.first().at(own.end), &katydid_wal::Dependencies::default(), DURABLE, ());
        assert_eq!(queue.poll_with(|(), outcome| outcome.expect("durable")), 1, "{context}");
        assert_eq!(memory.counts(), counts, "{context}");
        crash(&log);
        drop((first, second, queue, log));
        assert_eq!(kept(&device, &options, &context), [1, 20], "{context}");
    }
}

/// A commit fences once for the records and, if records lie apart, once more for the entries,
/// however many records there are.
#[test]
fn a_commit_takes_one_fence_or_two() {
    for (kind, fences) in [(LogKind::NvRing, 1), (LogKind::NvEntries, 2)] {
        let (_device, memory, log) = made(options(kind));
        let mut session = log.session().expect("session");
        for records in [1, 2, 30] {
            let before = memory.counts().fences;
            let end = (0..records).map(|number| append(&mut session, 0, number).end).last().expect("some");
            log.first().wait(end, DURABLE).expect("wait");
            assert_eq!(memory.counts().fences - before, fences, "{kind}, {records} records");
        }
    }
}

/// Crashes at each step of a commit. If records lie apart, a crash before the first fence, which
/// persists the objects, leaves none of the commit's records. A crash between the two fences may
/// leave some of them.
#[test]
fn a_crash_within_a_commit_keeps_whole_records_up_to_the_first_that_is_not() {
    let seed = seed();
    println!("seed {seed}");
    for kind in KINDS {
        let parts = (0..6).map(|round| {
            let seed = seed.wrapping_add(round);
            let steps = (0..).map(|step| crash_within_a_commit(kind, seed, step));
            steps.map_while(|parts| parts).sum::<u64>()
        });
        assert!(parts.sum::<u64>() > 0, "{kind}: no crash left a part of a commit");
    }
}

/// Returns the number of crashes at this step that left a part of the commit; `None` if the commit
/// has no such step.
fn crash_within_a_commit(kind: LogKind, seed: u64, step: u64) -> Option<u64> {
    let context = format!("seed {seed}, {kind}, step {step}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (device, memory, log) = made(options(kind));
    let mut sessions = [0, 1].map(|_| log.session().expect("session"));
    let mut counts = [0; 2];
    let mut some = |count: u64| {
        let append = |_| {
            let who = rng.usize(0..2);
            counts[who] += 1;
            append(&mut sessions[who], who as u64, counts[who] - 1).end
        };
        ((0..count).map(append).last().expect("some"), counts)
    };
    let (end, first) = some(12);
    log.first().wait(end, DURABLE).expect("wait");
    let (end, all) = some(18);
    let fences = memory.counts().fences;
    memory.crash_at(memory.steps() + step);
    let waited = log.first().wait(end, DURABLE);
    assert_eq!(waited.is_err(), memory.is_crashed(), "{context}");
    let fences = memory.counts().fences - fences;
    drop(sessions);
    crash(&log);
    drop(log);
    if waited.is_ok() {
        assert_eq!(kept(&device, &options(kind), &context), all, "{context}");
        return None;
    }
    assert_eq!(kept(&device, &options(kind), &context), first, "{context}");
    let mut parts = 0;
    for _ in 0..20 {
        let device = device.reopen_after_crash(rng.u64(..));
        let log = Log::open_in(device.directory(), options(kind)).expect(&context);
        let here: [u64; 2] = found(&log, &context);
        let all_here = (0..2).all(|who| (first[who]..=all[who]).contains(&here[who]));
        assert!(all_here, "{context}: {here:?} is not between {first:?} and {all:?}");
        if kind == LogKind::NvEntries && fences == 0 {
            assert_eq!(here, first, "{context}: an entry was set before its record was persisted");
        }
        parts += u64::from(here != first && here != all);
        // The records that opening found are persisted, whatever part of them the earlier crash had
        // left in caches.
        let mut session = log.session().expect("session");
        (here[0]..here[0] + 3).for_each(|number| _ = append(&mut session, 0, number));
        log.sync().expect("sync");
        drop(session);
        crash(&log);
        drop(log);
        assert_eq!(kept(&device, &options(kind), &context), [here[0] + 3, here[1]], "{context}");
    }
    Some(parts)
}

/// A request is met although no thread waits for it. In a log without threads,
/// `Log::run_background` meets it.
#[test]
fn what_is_requested_is_durable_without_anybody_who_waits() {
    for kind in KINDS {
        for background in [Background::Threads, Background::Caller] {
            let options = Options { background, ..options(kind) };
            let (device, _, log) = made(options.clone());
            let mut session = log.session().expect("session");
            let asks: [fn(&Log, Lsn); 3] = [
                |log, end| log.first().request(end, DURABLE),
                |log, end| drop(log.first().wait_async(end, DURABLE)),
                |log, end| {
                    log.completions().push(
                        log.first().at(end),
                        &katydid_wal::Dependencies::default(),
                        DURABLE,
                        (),
                    )
                },
            ];
            for (number, ask) in asks.into_iter().enumerate() {
                let end = append(&mut session, 0, number as u64).end;
                ask(&log, end);
                if background == Background::Caller {
                    assert!(log.first().durable() < end, "{kind}");
                    log.run_background();
                }
                assert!(log.first().durable() >= end, "{kind}, {background:?}");
            }
            // Records that no caller has asked for are not durable.
            append(&mut session, 0, 3);
            drop(session);
            crash(&log);
            drop(log);
            assert_eq!(kept(&device, &options, "kept"), [3], "{kind}, {background:?}");
        }
    }
}

/// A waker that counts its calls.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A poll persists nothing and returns; the thread that persists later wakes the future.
#[test]
fn a_future_is_woken_by_the_commit_that_covers_it() {
    for kind in KINDS {
        let options = Options { background: Background::Caller, ..options(kind) };
        let (_, _, log) = made(options);
        let mut session = log.session().expect("session");
        let end = append(&mut session, 0, 0).end;
        let counts = Arc::new(Counts::default());
        let waker = Waker::from(counts.clone());
        let mut future = pin!(log.first().wait_async(end, DURABLE));
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending(), "{kind}");
        assert!(log.first().durable() < end, "{kind}: the poll persisted it");
        assert_eq!(counts.0.load(Relaxed), 0, "{kind}");
        log.run_background();
        assert_eq!(counts.0.load(Relaxed), 1, "{kind}");
        assert!(matches!(poll(), Poll::Ready(Ok(()))), "{kind}");
    }
}

/// A crash leaves torn records, which an opening cuts off. If the log is closed after that, one of
/// these records may lie just above the log's end.
#[test]
fn a_log_that_was_closed_is_clean_whatever_a_crash_before_has_left_behind_its_end() {
    let options = options(LogKind::NvRing);
    let (device, memory, log) = made(options.clone());
    let mut session = log.session().expect("session");
    let places = [0; 4].map(|_| session.append(&Append::new(Kind::USER, &[])).expect("append"));
    crash(&log);
    drop((session, log, memory));
    let device = device.reopen_after_kill();
    let region = device.nvram("log.nvram").expect("it was made").region();
    for torn in [places[0], places[2]] {
        // The record's length is right, and its checksum is not.
        region.word(4096 + torn.lsn.get() % BYTES).fetch_xor((1_u64 << 40).to_le(), Relaxed);
    }
    region.persist(0, region.len());
    drop(region);
    // The opening and the closing append one record each, which take the places of the first two
    // records. So the second torn record lies just above the end.
    let log = Log::open_in(device.directory(), options.clone()).expect("opened");
    assert!(
        matches!(log.first().recovery().finding, Finding::TornTail { dropped: 2, .. }),
        "{:?}",
        log.first().recovery()
    );
    log.close().expect("close");
    assert_eq!(log.first().durable(), places[2].lsn);
    drop(log);
    let log = Log::open_in(device.directory(), options).expect("opened");
    assert!(
        matches!(log.first().recovery().finding, Finding::CleanEnd { closed: true }),
        "{:?}",
        log.first().recovery()
    );
}

/// Threads append, wait, request and poll at random until the memory crashes. Every acknowledged
/// record is found, in whichever way it was acknowledged, and whichever thread committed it.
#[test]
fn every_acknowledged_record_is_there() {
    const THREADS: usize = 4;
    let seed = seed();
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..200 {
        let inserter = InserterKind::ALL[round / KINDS.len() % InserterKind::ALL.len()];
        let kind = KINDS[round % KINDS.len()];
        let options = options_with(kind, inserter);
        let context = format!("seed {seed}, round {round}, {kind}, {inserter}");
        let (device, memory, log) = made(options.clone());
        memory.crash_at(memory.steps() + rng.u64(0..100));
        let seeds: [u64; THREADS] = std::array::from_fn(|_| rng.u64(..));
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let threads = seeds.into_iter().enumerate().map(|(who, seed)| {
                let log = &log;
                scope.spawn(move || client(log, who as u64, seed))
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        crash(&log);
        drop(log);
        for survival in [Survival::DropAll, Survival::Random, Survival::KeepAll] {
            let device = device.reopen_with(rng.u64(..), survival);
            let log = Log::open_in(device.directory(), options.clone()).expect(&context);
            let here: [u64; THREADS] = found(&log, &context);
            let lost = here.iter().zip(&acknowledged).any(|(here, acknowledged)| here < acknowledged);
            assert!(!lost, "{context}: {here:?} of {acknowledged:?} that were acknowledged");
        }
    }
}

/// Appends up to thirty records. Returns how many of them were acknowledged.
fn client(log: &Log, who: u64, seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut session = log.session().expect("session");
    let mut queue = log.completions();
    let (mut acknowledged, mut number) = (0, 0);
    let acknowledge = |acknowledged: &mut u64, number: u64| *acknowledged = (*acknowledged).max(number);
    while number < 30 {
        let payload = payload(number, who);
        let Ok(appended) = session.append(&Append::new(Kind::USER, &[&payload]).txn(who)) else { break };
        number += 1;
        let outcome = match rng.u8(0..6) {
            0 => log.first().wait(appended.end, DURABLE),
            1 => match pin!(log.first().wait_async(appended.end, DURABLE))
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => continue,
            },
            2 | 3 => {
                queue.push(
                    log.first().at(appended.end),
                    &katydid_wal::Dependencies::default(),
                    DURABLE,
                    number,
                );
                queue.poll_with(|number, outcome| {
                    _ = outcome.map(|()| acknowledge(&mut acknowledged, number))
                });
                continue;
            }
            4 => {
                log.first().request(appended.end, DURABLE);
                if log.first().durable() < appended.end {
                    continue;
                }
                Ok(())
            }
            _ => continue,
        };
        if outcome.is_err() {
            break;
        }
        acknowledge(&mut acknowledged, number);
    }
    queue.drain_with(|number, outcome| _ = outcome.map(|()| acknowledge(&mut acknowledged, number)));
    acknowledged
}
