//! Truncating a suffix: dropped records never come back, kept records stay, and readers of dropped
//! records get an error.

use fastrand::Rng;
use katydid_device::SimDevice;
use katydid_device::testing::seed;
use katydid_wal::{
    Append, Background, CopyTarget, Durability, EntryIndex, EntryStep, Error, FileOptions, Id, InserterKind,
    Kind, Log, LogKind, Lsn, MediumSettings, Method, NvramOptions, OpenError, Options, ReadError, inspect,
};

const ENTRY: Kind = Kind::USER;
const VOTE: Kind = Kind::new(17);

fn options() -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: 16 << 10,
            first_segment_bytes: 8 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 0,
        ..Options::default()
    }
}

/// Returns options with which every run makes the same device calls, so that a test can crash at
/// each of them.
fn repeatable() -> Options {
    Options { background: Background::Caller, ..options() }
}

/// Kind, number and positions of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    kind: Kind,
    number: u64,
    first: Lsn,
    lsn: Lsn,
}

fn append(log: &Log, number: u64, bytes: usize) -> Result<Seen, Error> {
    let appended = log.session()?.append(&Append::new(ENTRY, &[&number.to_le_bytes(), &vec![7; bytes]]))?;
    Ok(Seen { kind: ENTRY, number, first: appended.first, lsn: appended.lsn })
}

/// Truncates the log, and passes the vote of this number as the record to keep. The vote is larger
/// than a sector, so that a crash may lose only the vote.
fn truncate(log: &Log, position: Lsn, vote: u64) -> Result<Seen, Error> {
    let (number, kind) = (vote.to_le_bytes(), VOTE);
    let payload: [&[u8]; 2] = [&number, &[8; 1_500]];
    let truncation = log.first().truncate_after(position, &[Append::new(kind, &payload)])?;
    let kept = truncation.kept[0];
    Ok(Seen { kind, number: vote, first: kept.first, lsn: kept.lsn })
}

fn seen(log: &Log) -> Result<Vec<Seen>, Error> {
    let mut reader = log.first().reader(log.first().start())?;
    let mut all = Vec::new();
    while let Some(record) = reader.next_record()? {
        let number = u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"));
        all.push(Seen { kind: record.kind, number, first: record.first, lsn: record.lsn });
    }
    Ok(all)
}

fn numbers(log: &Log) -> Vec<u64> {
    seen(log).expect("read").iter().map(|seen| seen.number).collect()
}

/// Records that a log may have after a crash.
#[derive(Debug, Clone, Default)]
struct Model {
    live: Vec<Seen>,
    /// Number of the live records that are known to be durable.
    durable: usize,
    /// Number of the live records that a trim was called to drop.
    trimmed: usize,
    /// A truncation whose outcome is not known: the number of records that stay, and the vote that
    /// is kept.
    pending: Option<(usize, u64)>,
    next: u64,
}

impl Model {
    /// Checks the records that an opening found, and continues with them.
    fn check(&mut self, found: Vec<Seen>) {
        let skipped = match found.first() {
            Some(first) => self.live.iter().position(|seen| seen == first),
            None => Some(self.trimmed),
        };
        let is_as_before = skipped.is_some_and(|skipped| {
            let rest = &self.live[skipped..];
            let same = rest.iter().zip(&found).take_while(|(live, found)| live == found).count();
            let more = &found[same..];
            // A crash may leave the appended vote above a suffix that is not dropped yet.
            let is_kept = same == rest.len()
                && more.len() == 1
                && self.pending.is_some_and(|(_, vote)| more[0].number == vote);
            skipped <= self.trimmed && skipped + same >= self.durable && (more.is_empty() || is_kept)
        });
        let is_truncated = self.pending.is_some_and(|(stay, vote)| {
            let mut expected: Vec<u64> = self.live[..stay].iter().map(|seen| seen.number).collect();
            expected.push(vote);
            let found: Vec<u64> = found.iter().map(|seen| seen.number).collect();
            expected.ends_with(&found) && expected.len() - found.len() <= self.trimmed
        });
        assert!(is_as_before || is_truncated, "found {found:?}, {self:?}");
        let next = self.next;
        *self = Model { durable: found.len(), live: found, next, ..Model::default() };
    }
}

fn is_crash(error: &Error) -> bool {
    matches!(
        error,
        Error::Poisoned { .. } | Error::Device(_) | Error::Read(ReadError::Device(_)) | Error::Closed
    )
}

fn step(log: &Log, model: &mut Model, random: &mut Rng) -> Result<(), Error> {
    match random.usize(..10) {
        0..5 => {
            for _ in 0..random.usize(1..5) {
                model.next += 1;
                // Some records are in fragments.
                let bytes = if random.u8(..6) == 0 { 5_000 } else { random.usize(..900) };
                model.live.push(append(log, model.next, bytes)?);
            }
        }
        5 => {
            log.sync()?;
            model.durable = model.live.len();
        }
        6 => {
            let stay = model.durable - random.usize(..4).min(model.durable);
            if stay < model.durable {
                model.trimmed = model.trimmed.max(stay);
                log.first().trim(model.live[stay].first)?;
                model.live.drain(..stay);
                (model.durable, model.trimmed) = (model.durable - stay, 0);
            }
        }
        _ => {
            let stay = model.live.len() - random.usize(..6).min(model.live.len());
            let position = model.live.get(stay).map_or(log.first().reserved(), |seen| seen.lsn);
            model.next += 1;
            model.pending = Some((stay, model.next));
            let kept = truncate(log, position, model.next)?;
            model.live.truncate(stay);
            model.live.push(kept);
            (model.durable, model.pending) = (model.live.len(), None);
        }
    }
    log.run_background();
    Ok(())
}

fn live(device: &SimDevice, inserter: InserterKind, model: &mut Model, rounds: usize, random: &mut Rng) {
    let options = repeatable().map_files(|files| FileOptions { inserter: inserter.into(), ..files });
    let log = match Log::open_in(device.directory(), options) {
        Ok(log) => log,
        Err(OpenError::Device(_)) => return,
        Err(error) => panic!("opening: {error}"),
    };
    match seen(&log) {
        Ok(found) => model.check(found),
        Err(error) if is_crash(&error) => return,
        Err(error) => panic!("reading: {error}"),
    }
    for _ in 0..rounds {
        if let Err(error) = step(&log, model, random) {
            assert!(is_crash(&error), "{error}");
            break;
        }
    }
    katydid_wal::testing::crash(&log);
}

/// Runs one life after the other, each ended by a crash at a chosen call.
fn lives(seed: u64, crash_at: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let inserter = [InserterKind::Marks, InserterKind::Mutex, InserterKind::Chunked][(seed % 3) as usize];
    let mut device = SimDevice::new(seed);
    let mut model = Model::default();
    device.crash_at(crash_at);
    live(&device, inserter, &mut model, 40, &mut random);
    let steps = device.steps();
    for life in 0..3 {
        device = match random.u8(..4) {
            0 => device.reopen_after_kill(),
            _ => device.reopen_after_crash(random.u64(..)),
        };
        device.crash_at(random.u64(..[10, 60, u64::MAX][life]));
        live(&device, inserter, &mut model, 15, &mut random);
    }
    steps
}

#[test]
fn a_crash_at_every_call_of_the_device_keeps_what_was_truncated_away() {
    let seed = seed();
    for round in 0..3 {
        let seed = seed.wrapping_add(round);
        let steps = lives(seed, u64::MAX);
        assert!(steps > 30, "{steps}");
        for crash_at in 0..steps {
            lives(seed, crash_at);
        }
    }
}

/// Returns a log with entries 1 to `count`, all durable.
fn filled(device: &SimDevice, options: Options, count: u64) -> (Log, Vec<Seen>) {
    let log = Log::open_in(device.directory(), options).expect("open");
    let entries = (1..=count).map(|number| append(&log, number, 500).expect("append")).collect();
    log.sync().expect("sync");
    (log, entries)
}

/// Truncates over many segments, again and again, while the segments below are used again.
#[test]
fn suffixes_of_many_segments_are_dropped_and_their_space_comes_back() {
    let device = SimDevice::new(seed());
    let (mut log, mut live) = filled(&device, options(), 10);
    let mut next = 10;
    let mut most = 0;
    for round in 0..20 {
        for _ in 0..200 {
            next += 1;
            live.push(append(&log, next, 500).expect("append"));
        }
        live.truncate(live.len() - 195);
        let kept =
            truncate(&log, live.last().map_or(log.first().start(), |last| last.lsn), 0).expect("truncate");
        live.pop();
        live.push(kept);
        assert_eq!(seen(&log).expect("read"), live);
        if round % 5 == 0 {
            log.close().expect("close");
            log = Log::open_in(device.directory(), options()).expect("open");
            assert_eq!(seen(&log).expect("read"), live);
        }
        let keep = live.len() - 3;
        log.first().trim(live[keep].first).expect("trim");
        live.drain(..keep);
        most = most.max(log.space().on_disk);
    }
    assert!(most < 600 << 10, "{most} bytes on disk for some 100 KiB in each round");
    let inspected = inspect(device.directory().as_ref()).expect("inspect");
    let found =
        inspected.first().expect("a stream").records().expect("reader").map(|record| record.expect("sound"));
    let found: Vec<Lsn> = found.filter(|record| record.kind.is_user()).map(|record| record.lsn).collect();
    assert_eq!(found, live.iter().map(|seen| seen.lsn).collect::<Vec<_>>());
}

#[test]
fn a_dropped_record_cannot_be_read_and_positions_are_not_used_again() {
    let (log, entries) = filled(&SimDevice::new(1), options(), 6);
    let end = log.first().reserved();
    let truncation = log.first().truncate_after(entries[2].lsn, &[]).expect("truncate");
    assert_eq!((truncation.from, truncation.to), (entries[2].lsn, end));
    let again = append(&log, 3, 10).expect("append");
    assert!(again.lsn > end);
    assert_eq!(numbers(&log), [1, 2, 3]);
    assert_eq!(log.first().read(again.lsn).expect("read").lsn, again.lsn);
    for dropped in &entries[2..] {
        let error = log.first().read(dropped.lsn).expect_err("dropped");
        assert!(matches!(error, Error::Read(ReadError::Truncated { at, from, to })
            if at == dropped.lsn && from == entries[2].lsn && to == end));
    }
    // The log cannot be truncated within a dropped part, nor beyond its end.
    let error = log.first().truncate_after(entries[4].lsn, &[]).expect_err("within");
    assert!(matches!(error, Error::Read(ReadError::Truncated { .. })), "{error}");
    let error = log.first().truncate_after(log.first().reserved().plus(8), &[]).expect_err("beyond");
    assert!(matches!(error, Error::BeyondEnd { .. }), "{error}");
    let error = log.first().truncate_after(again.lsn.plus(8), &[]).expect_err("no record");
    assert!(matches!(error, Error::Read(ReadError::Corrupt { .. })), "{error}");
    log.first().truncate_after(again.lsn, &[]).expect("above");
    assert_eq!(numbers(&log), [1, 2]);
    log.first().truncate_after(entries[1].lsn, &[]).expect("below");
    assert_eq!(numbers(&log), [1]);
    log.first().truncate_after(entries[0].lsn, &[]).expect("all");
    assert_eq!(numbers(&log), []);
}

#[test]
fn a_follower_reports_once_that_records_it_returned_were_dropped() {
    let device = SimDevice::new(1);
    let (log, entries) = filled(&device, options(), 6);
    let (stream, start) = (log.first(), log.first().start());
    let mut ahead = stream.follow(start).expect("follow");
    let mut behind = stream.follow(start).expect("follow");
    for _ in 0..5 {
        ahead.try_next().expect("read").expect("a record");
    }
    behind.try_next().expect("read").expect("a record");
    let place = ahead.position();
    stream.truncate_after(entries[3].lsn, &[]).expect("truncate");
    let error = ahead.try_next().expect_err("it has returned dropped records");
    assert!(
        matches!(error, Error::Read(ReadError::Truncated { at, from, .. }) if at == place && from == entries[3].lsn)
    );
    assert!(ahead.try_next().expect("once").is_none());
    let again = append(&log, 4, 10).expect("append");
    log.sync().expect("sync");
    assert_eq!(ahead.try_next().expect("read").expect("the next").lsn, again.lsn);
    for lsn in [entries[1].lsn, entries[2].lsn, again.lsn] {
        assert_eq!(behind.try_next().expect("it has returned no dropped record").expect("a record").lsn, lsn);
    }
    // A follower that continues at a dropped position gets the error, also after another opening.
    drop((ahead, behind));
    log.close().expect("close");
    let log = Log::open_in(device.directory(), options()).expect("open");
    let Err(Error::Read(ReadError::Truncated { from, .. })) = log.first().follow(place) else {
        panic!("the position is not refused");
    };
    let mut follower = log.first().follow(from).expect("from the beginning of the range");
    assert_eq!(follower.try_next().expect("read").expect("a record").lsn, again.lsn);
}

#[test]
fn pins_and_trims_within_what_was_dropped_keep_the_log_from_where_it_begins() {
    let device = SimDevice::new(1);
    let (log, entries) = filled(&device, options(), 100);
    let consumer = log.consumer("follower", 1 << 30, 7, &[entries[60].lsn]).expect("consumer");
    log.first().truncate_after(entries[40].lsn, &[]).expect("truncate");
    append(&log, 41, 10).expect("append");
    log.sync().expect("sync");
    log.first().trim(log.first().durable()).expect("trim");
    assert_eq!(log.first().start(), entries[40].lsn);
    let is_refused = |log: &Log| {
        let place = consumer.stat().expect("it is there").from[0];
        matches!(log.first().follow(place), Err(Error::Read(ReadError::Truncated { from, .. })) if from == entries[40].lsn)
    };
    assert!(is_refused(&log));
    assert_eq!(numbers(&log), [41]);
    log.close().expect("close");
    let log = Log::open_in(device.directory(), options()).expect("open");
    assert!(is_refused(&log));
    assert_eq!((log.first().start(), numbers(&log)), (entries[40].lsn, vec![41]));
    assert!(log.remove_consumer("follower").expect("remove"));
    log.first().trim(log.first().durable()).expect("trim");
    assert_eq!((log.first().start() > entries[99].lsn, numbers(&log)), (true, vec![]));
}

#[test]
fn the_entry_index_of_a_truncated_log_has_what_is_left() {
    let device = SimDevice::new(1);
    let (log, entries) = filled(&device, options(), 20);
    let step = |record: &katydid_wal::RecordRef<'_>| match record.kind {
        ENTRY => EntryStep::Entry(u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"))),
        _ => EntryStep::Other,
    };
    let mut index = EntryIndex::rebuild(log.first(), step).expect("in order");
    assert_eq!(index.numbers(), 1..21);
    let position = index.truncate_from(11).expect("it is there");
    assert_eq!(position, entries[10].lsn);
    truncate(&log, position, 5).expect("truncate");
    append(&log, 11, 10).expect("append");
    log.first().trim(index.trim_before(4).expect("some are left")).expect("trim");
    drop(log);
    let log = Log::open_in(device.directory(), options()).expect("open");
    let index = EntryIndex::rebuild(log.first(), step).expect("in order");
    assert_eq!((index.numbers(), index.get(10)), (4..12, Some(entries[9].lsn)));
    append(&log, 13, 10).expect("append");
    let error = EntryIndex::rebuild(log.first(), step).expect_err("a gap");
    assert!(error.to_string().contains("entry 13"), "{error}");
}

#[test]
fn a_copy_of_a_truncated_log_is_truncated() {
    let (log, entries) = filled(&SimDevice::new(1), options(), 50);
    log.first().truncate_after(entries[5].lsn, &[]).expect("truncate");
    append(&log, 6, 10).expect("append");
    let to = log.cut().expect("cut");
    let copy = SimDevice::new(2).directory();
    let target = CopyTarget { directory: copy.as_ref(), id: Id::new(2), method: Method::Buffered };
    log.copy::<Error>(&[log.first().start()], &to, target, &mut |_| Ok(())).expect("copy");
    let copied = Log::open_in(copy, options()).expect("open");
    assert_eq!(numbers(&copied), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn logs_of_several_streams_and_in_nvram_are_refused_and_unchanged() {
    let memory = NvramOptions { bytes: 64 << 10, ..NvramOptions::default() };
    let medium = MediumSettings { memory, ..MediumSettings::default() }.medium(LogKind::NvRing);
    let logs = [Options { streams: 2, ..options() }, Options { medium, ..options() }];
    for options in logs {
        let log = Log::open_in(SimDevice::new(1).directory(), options).expect("open");
        let mut session = log.first().session().expect("session");
        let appended = session.append(&Append::new(ENTRY, &[b"12345678"])).expect("append");
        log.first().wait(appended.end, Durability::Durable).expect("durable");
        let error = log.first().truncate_after(appended.lsn, &[]).expect_err("refused");
        assert!(matches!(error, Error::NotTruncatable { .. }), "{error}");
        assert_eq!(log.first().read(appended.lsn).expect("read").payload, b"12345678");
    }
}
