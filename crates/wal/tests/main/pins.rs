//! The records that a pin retains, and for how long: in files, in NVRAM and in several streams.

use katydid_device::SimDevice;
use katydid_wal::{
    Append, AppendError, CommitStamp, Error, FileOptions, Kind, Log, LogKind, Lsn, MediumSettings,
    NvramOptions, Options, ReadError, Session, Stream,
};

const SEGMENT: u64 = 16 << 10;

fn options(streams: u16) -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: SEGMENT,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        }
        .into(),
        streams,
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 0,
        ..Options::default()
    }
}

/// Appends `count` records of 1 KiB. Returns their starts.
fn fill(session: &mut Session, count: u64) -> Vec<Lsn> {
    let record = |number: u64| {
        let append = Append::new(Kind::USER, &[&[7; 1024]]).stamp(CommitStamp::new(number + 1));
        session.append(&append).expect("append").first
    };
    (0..count).map(record).collect()
}

/// Trims everything that is durable.
fn trim_all(log: &Log) {
    log.sync().expect("sync");
    let ends: Vec<Lsn> = log.streams().iter().map(Stream::durable).collect();
    log.trim(&ends).expect("trim");
}

fn starts(log: &Log) -> Vec<Lsn> {
    log.streams().iter().map(Stream::start).collect()
}

#[test]
fn a_pin_keeps_each_stream_from_its_position_until_it_is_dropped() {
    for streams in [1, 3] {
        let log = Log::open_in(SimDevice::new(1).directory(), options(streams)).expect("open");
        let places: Vec<Vec<Lsn>> =
            log.streams().iter().map(|stream| fill(&mut stream.session().expect("session"), 100)).collect();
        log.sync().expect("sync");
        let from: Vec<Lsn> = places.iter().enumerate().map(|(nth, places)| places[10 + nth]).collect();
        let higher: Vec<Lsn> = places.iter().map(|places| places[60]).collect();
        let pin = log.pin(&from, u64::MAX).expect("pin");
        let above = log.pin(&higher, u64::MAX).expect("pin");
        trim_all(&log);
        assert_eq!((starts(&log), pin.is_held()), (from.clone(), true));
        assert!(log.pinned_bytes() > 80 << 10, "{}", log.pinned_bytes());
        for (stream, from) in log.streams().iter().zip(&from) {
            let all = stream.reader(*from).expect("reader").collect::<Result<Vec<_>, _>>().expect("whole");
            assert_eq!(all.len(), 90 - stream.id().index());
        }
        let kept = log.space().on_disk;
        drop(pin);
        trim_all(&log);
        assert_eq!((starts(&log), above.is_held()), (higher, true));
        drop(above);
        trim_all(&log);
        let ends: Vec<Lsn> = log.streams().iter().map(Stream::durable).collect();
        assert_eq!((starts(&log), log.pinned_bytes()), (ends, 0));
        assert!(log.space().on_disk < kept, "files are given back");
        log.close().expect("close");
    }
}

#[test]
fn a_pin_that_is_too_far_behind_is_lost_and_others_are_not() {
    let log = Log::open_in(SimDevice::new(1).directory(), options(1)).expect("open");
    let mut session = log.session().expect("session");
    fill(&mut session, 10);
    let short = log.pin_all(20 << 10);
    log.sync().expect("sync");
    let long = log.pin(&[log.first().durable()], u64::MAX).expect("pin");
    trim_all(&log);
    assert!(short.is_held(), "it is not so far behind");
    fill(&mut session, 20);
    trim_all(&log);
    assert!(!short.is_held() && long.is_held());
    assert_eq!(log.first().start(), long.from()[0]);
    drop(long);
    trim_all(&log);
    assert_eq!(log.first().start(), log.first().durable(), "a lost pin keeps nothing");
    assert!(!short.is_held());
}

/// A refused trim must lose no pin and must not stand in the way of later calls.
#[test]
fn a_trim_to_a_place_where_no_record_starts_changes_nothing() {
    for kind in LogKind::ALL {
        let memory = NvramOptions { bytes: 256 << 10, ..NvramOptions::default() };
        let files = options(1).medium.files().expect("files");
        let medium = MediumSettings { files, memory, entries: 0 }.medium(kind);
        let log =
            Log::open_in(SimDevice::new(1).directory(), Options { medium, ..options(1) }).expect("open");
        let (stream, mut session) = (log.first(), log.session().expect("session"));
        let places = fill(&mut session, 30);
        log.sync().expect("sync");
        let short = log.pin(&[places[5]], 1 << 10).expect("pin");
        stream.trim(places[3]).expect("trim");
        // The positions of a log whose records lie apart are multiples of 8.
        let refused = stream.trim(Lsn::new(places[20].get() + 4));
        assert!(matches!(refused, Err(Error::Read(ReadError::Corrupt { .. }))), "{kind}: {refused:?}");
        assert_eq!((stream.start(), stream.trimmed_to(), short.is_held()), (places[3], places[3], true));
        drop(log.pin(&[places[10]], u64::MAX).expect("the log has this record"));
        let all = log.pin_all(u64::MAX);
        assert_eq!(all.from(), [places[3]]);
        drop((short, all));
        stream.trim(places[10]).expect("trim");
        assert_eq!((stream.start(), stream.trimmed_to()), (places[10], places[10]), "{kind}");
    }
}

#[test]
fn a_pin_is_only_had_where_the_log_could_begin() {
    let log = Log::open_in(SimDevice::new(1).directory(), options(1)).expect("open");
    let mut session = log.session().expect("session");
    let places = fill(&mut session, 30);
    log.sync().expect("sync");
    let within = Lsn::new(places[20].get() + 8);
    assert!(matches!(log.pin(&[within], u64::MAX), Err(Error::Read(ReadError::Corrupt { .. }))));
    let beyond = fill(&mut session, 2)[1];
    assert!(matches!(log.pin(&[beyond], u64::MAX), Err(Error::BeyondEnd { .. })));
    log.first().trim(places[10]).expect("trim");
    match log.pin(&[places[9]], u64::MAX) {
        Err(Error::Read(ReadError::Trimmed { at, start })) => {
            assert_eq!((at, start), (places[9], places[10]))
        }
        other => panic!("{other:?}"),
    }
    let pins = [places[10], places[20], log.first().durable()].map(|from| log.pin(&[from], u64::MAX));
    assert!(pins.iter().all(Result::is_ok), "{pins:?}");
    trim_all(&log);
    assert_eq!(log.first().start(), places[10]);
}

#[test]
fn a_log_in_nvram_never_fills_because_of_a_pin() {
    for log in [LogKind::NvDirect, LogKind::NvRing, LogKind::NvEntries, LogKind::NvLogging] {
        let memory = NvramOptions { bytes: 64 << 10, ..NvramOptions::default() };
        let medium = MediumSettings { memory, ..MediumSettings::default() }.medium(log);
        let options = Options { medium, ..options(1) };
        let log = Log::open_in(SimDevice::new(1).directory(), options).expect("open");
        let mut session = log.session().expect("session");
        let pin = log.pin_all(u64::MAX);
        for number in 0..500 {
            let append = Append::new(Kind::USER, &[&[7; 512]]);
            match session.append(&append) {
                Ok(_) => {}
                Err(AppendError::NoSpace) => panic!("record {number} found no room"),
                Err(error) => panic!("{error}"),
            }
            if number % 8 == 0 {
                trim_all(&log);
            }
        }
        assert!(!pin.is_held());
    }
}
