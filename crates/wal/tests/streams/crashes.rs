//! Crashes at any step: lives of a log on the simulated device. Each life begins with what the life
//! before has left, and some lives end within an opening.
//!
//! A model knows the dependencies of every record. After each crash the test reads the records of
//! one stream after the other. The log must replay exactly the records whose dependencies all
//! exist, and every acknowledged record must be among these. The decisions of earlier openings must
//! stay.

use crate::{Commit, opened_replaying, options, replayed_from};
use fastrand::Rng;
use katydid_device::testing::seed;
use katydid_device::{Cause, SimDevice};
use katydid_wal::{
    AppendError, Background, Completions, Dependencies, Durability, Error, InserterKind, Log, Lsn, OpenError,
    Options, ReadError, ReplayError, Session, Stream, StreamLsn, Survival, SyncKind, inspect,
};
use std::collections::BTreeSet;

/// Knowledge about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// No opening has found the record yet.
    Open,
    /// An opening has replayed the record.
    Kept,
    /// An opening has dropped the record.
    Gone,
    /// A checkpoint has made the record unnecessary.
    Captured,
}

/// A record, whose timestamp is its index plus one.
#[derive(Debug, Clone)]
struct Appended {
    place: StreamLsn,
    /// Indexes of all records that this one depends on, directly or indirectly.
    needs: BTreeSet<usize>,
    /// Dependencies as positions.
    depends: Dependencies,
    payload: Vec<u8>,
    /// True if the record depends on the end of a chunk. A crash may lose this end although every
    /// record in the chunk survives. So the log may drop the record although all of its `needs`
    /// exist.
    on_chunk: bool,
    acknowledged: bool,
    known: Known,
}

#[derive(Debug, Default)]
struct Model {
    records: Vec<Appended>,
    /// Positions from which the last checkpoint lets replay begin.
    cut: Option<Vec<Lsn>>,
    /// Number of records that were present and not kept, over all openings.
    dropped: usize,
    opened: usize,
}

impl Model {
    /// Returns those of the existing records that must be replayed.
    fn expected(&self, present: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_there =
            |index: &usize| present.contains(index) || self.records[*index].known == Known::Captured;
        present.iter().copied().filter(|index| self.records[*index].needs.iter().all(is_there)).collect()
    }

    /// Compares the replayed records with those that exist, and notes the decisions.
    fn judge(&mut self, present: &BTreeSet<usize>, replayed: &BTreeSet<usize>) {
        let expected = self.expected(present);
        let differs = |index: &usize| expected.contains(index) != replayed.contains(index);
        let lacks = |index: &usize| expected.contains(index) && self.records[*index].on_chunk;
        let wrong: Vec<_> = present.iter().filter(|index| differs(index) && !lacks(index)).collect();
        assert!(wrong.is_empty() && replayed.is_subset(present), "{wrong:?} of {present:?}: {replayed:?}");
        self.dropped += present.len() - expected.len();
        self.opened += 1;
        for (index, record) in self.records.iter_mut().enumerate() {
            let kept = replayed.contains(&index);
            assert!(
                kept || !record.acknowledged || record.known == Known::Captured,
                "{index} was acknowledged"
            );
            record.known = match (record.known, kept) {
                (Known::Open | Known::Kept, true) => Known::Kept,
                (Known::Open | Known::Gone, false) => Known::Gone,
                (Known::Captured, _) => Known::Captured,
                (Known::Kept, false) => panic!("{index} is gone, and was there"),
                (Known::Gone, true) => panic!("{index} came back"),
            };
        }
    }
}

fn crashed<T>(outcome: Result<T, Error>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(Error::Poisoned { cause } | Error::Device(cause)) if is_crash(&cause) => None,
        Err(error) => panic!("{error:?}"),
    }
}

fn is_crash(error: &katydid_device::Error) -> bool {
    match &error.cause {
        Cause::Crashed => true,
        Cause::Poisoned(first) => is_crash(first),
        _ => false,
    }
}

/// Returns the records that the streams hold at or above the cut. Reads one stream after the other.
fn present(log: &Log, from: &[Lsn]) -> Option<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for (log, from) in log.streams().iter().zip(from) {
        for record in crashed(log.reader(*from))? {
            let record = match record {
                Ok(record) => record,
                Err(error) => return crashed(Err(error.into())),
            };
            let stamp = record.chain.stamp().expect("records of a log of several streams are stamped");
            assert!(found.insert(stamp.get() as usize - 1), "twice");
        }
    }
    Some(found)
}

/// Opens the log, compares it with the model, and makes steps for `rounds` rounds or until the
/// crash.
fn live(
    device: &SimDevice,
    streams: u16,
    options: &Options,
    model: &mut Model,
    rounds: usize,
    random: &mut Rng,
) {
    let (log, while_opening) = match opened_replaying(device, streams, options, model.cut.as_deref()) {
        Ok(opened) => opened,
        Err(OpenError::Device(error)) if is_crash(&error) => return,
        Err(error) => panic!("opening: {error}"),
    };
    let starts = || log.streams().iter().map(katydid_wal::Stream::start).collect();
    let from: Vec<Lsn> = model.cut.clone().unwrap_or_else(starts);
    let Some(present) = present(&log, &from) else { return };
    let Some((replayed, most)) = replayed_from(&log, &from, is_crash) else { return };
    match while_opening {
        Ok(found) => assert_eq!(found, (replayed.clone(), most), "opening finds what is found afterwards"),
        Err(ReplayError::Read { source: ReadError::Device(error), .. }) if is_crash(&error) => return,
        Err(error) => panic!("replay: {error:?}"),
    }
    for (timestamp, payload) in &replayed {
        assert_eq!(&model.records[*timestamp as usize - 1].payload, payload);
    }
    assert_eq!(most, present.last().map_or(0, |index| *index as u64 + 1), "dropped ones count");
    let replayed = replayed.iter().map(|(timestamp, _)| *timestamp as usize - 1).collect();
    model.judge(&present, &replayed);
    let first = model.records.len();
    let mut sessions: Vec<Session> = Vec::new();
    for index in 0..usize::from(streams) {
        let count = random.usize(1..3);
        sessions.extend((0..count).map(|_| log.streams()[index].session().expect("session")));
    }
    let mut queue = log.completions();
    let is_chunked = !options.medium.keeps_order();
    for _ in 0..rounds {
        if step(&log, &mut sessions, &mut queue, model, first, is_chunked, random).is_none() {
            return;
        }
    }
    if random.bool() {
        // Queued completions may be acknowledged after the log was closed.
        let closed = crashed(log.close());
        queue.poll_with(|index, outcome| model.records[index].acknowledged |= outcome.is_ok());
        if closed.is_some() {
            model.records[first..].iter_mut().for_each(|record| record.acknowledged = true);
        }
    }
}

/// Makes one call, as a program does. Returns `None` after the crash.
fn step(
    log: &Log,
    sessions: &mut [Session],
    queue: &mut Completions<usize>,
    model: &mut Model,
    first: usize,
    is_chunked: bool,
    random: &mut Rng,
) -> Option<()> {
    match random.u8(..20) {
        0..11 => append(log, sessions, queue, model, first, is_chunked, random)?,
        11..14 if first < model.records.len() => {
            let index = random.usize(first..model.records.len());
            let level = if random.bool() { Durability::Durable } else { Durability::Written };
            let record = &mut model.records[index];
            crashed(log.wait(record.place, &record.depends, level))?;
            record.acknowledged |= level == Durability::Durable;
            if record.acknowledged {
                let needs = record.needs.clone();
                needs.into_iter().for_each(|index| model.records[index].acknowledged = true);
            }
        }
        14 => crashed(log.streams()[random.usize(..log.streams().len())].sync()).map(drop)?,
        15 => log.run_background(),
        16 => queue.wait_below_with(random.usize(1..5), |index, outcome| {
            model.records[index].acknowledged |= outcome.is_ok();
        }),
        17 if first < model.records.len() => {
            let record = &model.records[random.usize(first..model.records.len())];
            log.request(record.place, &record.depends, Durability::Durable);
        }
        18 => {
            crashed(log.sync())?;
            model.records[first..].iter_mut().for_each(|record| record.acknowledged = true);
        }
        19 if random.u8(..4) == 0 => checkpoint(log, model)?,
        _ => {}
    }
    if log.poisoned().is_some() { None } else { Some(()) }
}

fn append(
    log: &Log,
    sessions: &mut [Session],
    queue: &mut Completions<usize>,
    model: &mut Model,
    first: usize,
    is_chunked: bool,
    random: &mut Rng,
) -> Option<()> {
    let mut needs = BTreeSet::new();
    let mut depends = Dependencies::default();
    let mut on_chunk = false;
    if random.u8(..5) == 0 {
        // P-WAL's rule: the record depends on everything in the log.
        depends = log.everything();
        on_chunk = is_chunked;
        needs.extend(first..model.records.len());
    } else if first < model.records.len() {
        for _ in 0..random.usize(..4) {
            let index = random.usize(first..model.records.len());
            let other = &model.records[index];
            depends.join(other.place);
            depends.join_all(&other.depends);
            needs.extend(&other.needs);
            needs.insert(index);
            on_chunk |= other.on_chunk;
        }
        // Durable positions may be removed from the dependencies, or stay in them.
        if random.bool() {
            depends.retain(|place| !log.is_durable(place));
        }
    }
    let index = model.records.len();
    let size = if random.u8(..8) == 0 { random.usize(..9000) } else { random.usize(..300) };
    let payload: Vec<u8> = (0..size).map(|at| (at * 7 + index) as u8).collect();
    let session = random.usize(..sessions.len());
    let timestamp = index as u64 + 1;
    let place = match sessions[session].commit(timestamp, &depends, &[&payload]) {
        Ok(place) => place,
        Err(AppendError::Poisoned { cause }) if is_crash(&cause) => return None,
        Err(error) => panic!("{error}"),
    };
    let record =
        Appended { place, needs, depends, payload, on_chunk, acknowledged: false, known: Known::Open };
    if random.u8(..4) == 0 {
        queue.push(place, &record.depends, Durability::Durable, index);
    }
    model.records.push(record);
    Some(())
}

/// Takes a checkpoint as an engine does: everything appended becomes durable and captured, the
/// model notes this, and then the log is trimmed.
fn checkpoint(log: &Log, model: &mut Model) -> Option<()> {
    let cut: Vec<Lsn> = log.streams().iter().map(Stream::barrier).collect();
    crashed(log.sync())?;
    for record in &mut model.records {
        if record.known != Known::Gone {
            (record.known, record.acknowledged) = (Known::Captured, true);
        }
    }
    model.cut = Some(cut.clone());
    crashed(log.trim(&cut))
}

/// Inspects the log without opening it. The test then compares opening with the inspection.
fn look(device: &SimDevice, model: &Model) -> Option<BTreeSet<usize>> {
    // A device without a log, or with an incomplete log, has nothing to show.
    let found = inspect(device.directory().as_ref()).ok().filter(|found| found.is_complete)?;
    if found.streams.iter().any(|stream| stream.finding.is_err()) {
        return None;
    }
    let mut kept = BTreeSet::new();
    for record in found.records(model.cut.as_deref()).expect("records") {
        let record = record.expect("record");
        if record.survival == Survival::Kept {
            kept.insert(record.stamp.get() as usize - 1);
        }
    }
    Some(kept)
}

/// Runs one life after the other. Returns the number of steps of the first life.
fn lives(seed: u64, crash_at: u64, streams: u16, options: &Options, model: &mut Model) -> u64 {
    let mut random = Rng::with_seed(seed);
    let mut device = SimDevice::new(seed);
    device.crash_at(crash_at);
    live(&device, streams, options, model, 50, &mut random);
    let steps = device.steps();
    for life in 0..6 {
        device = if random.u8(..4) == 0 {
            device.reopen_after_kill()
        } else {
            device.reopen_after_crash(random.u64(..))
        };
        let seen = look(&device, model);
        let opened = model.opened;
        // The crash comes early enough that in some lives only some of the streams have been
        // opened.
        let most = [4 * u64::from(streams) + 8, 12 * u64::from(streams), 60, 250, u64::MAX, u64::MAX][life];
        device.crash_at(random.u64(..most));
        let before: Vec<Known> = model.records.iter().map(|record| record.known).collect();
        live(&device, streams, options, model, 25, &mut random);
        if let Some(seen) = seen
            && model.opened > opened
        {
            let captured = |index: &usize| before[*index] == Known::Captured;
            let kept: BTreeSet<usize> = (0..before.len())
                .filter(|index| {
                    model.records[*index].known == Known::Kept || captured(index) && seen.contains(index)
                })
                .collect();
            let recaptured = |index: &usize| model.records[*index].known == Known::Captured;
            assert!(
                seen.iter().all(|index| kept.contains(index) || recaptured(index))
                    && kept.iter().all(|index| seen.contains(index)),
                "inspecting found {seen:?}, opening {kept:?}"
            );
        }
    }
    steps
}

fn caller(inserter: InserterKind, sync: SyncKind) -> Options {
    Options { background: Background::Caller, ..options(inserter, sync) }
}

const INSERTERS: [InserterKind; 3] = [InserterKind::Mutex, InserterKind::Chunked, InserterKind::Marks];

#[test]
fn a_crash_at_every_step_keeps_what_was_acknowledged_and_nothing_without_its_dependences() {
    let seed = seed();
    let mut dropped = 0;
    for (nth, inserter) in INSERTERS.into_iter().enumerate() {
        let options = caller(inserter, SyncKind::Adaptive);
        let seed = seed.wrapping_add(nth as u64);
        let streams = nth as u16 + 2;
        let steps = lives(seed, u64::MAX, streams, &options, &mut Model::default());
        assert!(steps > 30);
        for crash_at in 0..steps {
            let mut model = Model::default();
            lives(seed, crash_at, streams, &options, &mut model);
            dropped += model.dropped;
        }
    }
    assert!(dropped > 0, "no record was ever there without what it depends on");
}

#[test]
fn random_lives_on_every_protocol_keep_the_promises() {
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    let (mut dropped, mut opened, mut records) = (0, 0, 0);
    for round in 0..rounds() {
        let streams = random.u16(1..5);
        let options =
            caller(INSERTERS[round % INSERTERS.len()], SyncKind::ALL[random.usize(..SyncKind::ALL.len())]);
        let mut model = Model::default();
        lives(random.u64(..), random.u64(..200), streams, &options, &mut model);
        dropped += model.dropped;
        opened += model.opened;
        records += model.records.len();
    }
    println!("{opened} openings, {records} records, {dropped} dropped");
    assert!(dropped > 0, "no record was ever there without what it depends on");
}

/// Returns the number of random lives: the value of `KATYDID_ROUNDS`, or 400.
fn rounds() -> usize {
    std::env::var("KATYDID_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(400)
}
