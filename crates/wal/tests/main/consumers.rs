//! Named consumers: their positions survive openings and crashes, are positions that were
//! acknowledged, and retain the log.

use katydid_device::{Create, Method, SimDevice, Survival};
use katydid_wal::{
    Append, Background, CommitStamp, Error, FileOptions, Kind, Log, Lsn, OpenError, Options, ReadError,
    Stream,
};

fn options() -> Options {
    Options {
        medium: FileOptions {
            segment_bytes: 16 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        }
        .into(),
        run_ahead_bytes: 4 << 10,
        reserve_bytes: 0,
        background: Background::Caller,
        ..Options::default()
    }
}

fn append(log: &Log) -> Lsn {
    let mut session = log.session().expect("session");
    let end = session.append(&Append::new(Kind::USER, &[&[7; 300]])).expect("append").end;
    log.sync().expect("sync");
    end
}

fn place(log: &Log) -> (u64, Lsn, bool) {
    let listed = log.consumers();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, "c");
    (listed[0].mark, listed[0].from[0], listed[0].is_lost)
}

/// The machine crashes at each step of acknowledging: the position is the old one or the new one,
/// and the log has everything from that position on, whatever was trimmed.
#[test]
fn a_crash_leaves_a_place_that_was_acknowledged_and_the_log_from_there_on() {
    let mut crashed = 0;
    for step in 0.. {
        let device = SimDevice::new(step);
        let log = Log::open_in(device.directory(), options()).expect("open");
        let first = append(&log);
        let consumer = log.consumer("c", u64::MAX, 1, &[first]).expect("consumer");
        let mut acknowledged = (1, first);
        let begun = device.steps();
        device.crash_at(begun + step);
        let mut next = acknowledged;
        let mut run = || -> Result<(), Error> {
            for mark in 2..12 {
                let mut session = log.session()?;
                let end = session.append(&Append::new(Kind::USER, &[&[7; 3000]]))?.end;
                log.sync()?;
                next = (mark, end);
                consumer.acknowledge(mark, &[end])?;
                acknowledged = next;
                log.first().trim(end)?;
            }
            Ok(())
        };
        let outcome = run();
        crashed += u32::from(outcome.is_err());
        drop((consumer, log));
        for survival in [Survival::DropAll, Survival::Random] {
            let device = device.reopen_with(step, survival);
            let log = Log::open_in(device.directory(), options()).expect("open again");
            let (mark, from, is_lost) = place(&log);
            assert!(
                !is_lost && [acknowledged, next].contains(&(mark, from)),
                "step {step}: {mark} at {from}, acknowledged {acknowledged:?}"
            );
            assert!(log.first().start() <= from);
            log.first().trim(log.first().durable()).expect("trim");
            let mut reader = log.first().reader(from).expect("the log is there");
            while let Some(_record) = reader.next_record().expect("whole") {}
            log.close().expect("close");
        }
        if outcome.is_ok() {
            break;
        }
    }
    assert!(crashed > 20, "{crashed}");
}

#[test]
fn a_place_never_moves_back_and_a_removed_consumer_is_gone() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options()).expect("open");
    let places = [append(&log), append(&log), append(&log)];
    let consumer = log.consumer("c", u64::MAX, 1, &[places[1]]).expect("consumer");
    consumer.acknowledge(5, &[places[2]]).expect("acknowledge");
    consumer.acknowledge(3, &[places[0]]).expect("acknowledge");
    assert_eq!(place(&log), (5, places[2], false));
    let same = log.consumer("c", 0, 0, &[places[0]]).expect("the one that is there");
    assert_eq!((same.name(), same.stat().expect("stat").mark), ("c", 5));
    assert!(log.remove_consumer("c").expect("remove"));
    assert!(matches!(same.acknowledge(9, &[places[2]]), Err(Error::ConsumerGone { .. })));
    log.close().expect("close");
    let log = Log::open_in(device.directory(), options()).expect("open");
    assert!(log.consumers().is_empty());
    for name in ["", "A", "a.b", "a/b", &"a".repeat(65)] {
        let refused = log.consumer(name, 1, 1, &[log.first().start()]);
        assert!(matches!(refused, Err(Error::ConsumerName { .. })), "{name:?}");
    }
}

#[test]
fn a_consumer_that_is_too_far_behind_is_lost_in_every_opening() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options()).expect("open");
    let from = append(&log);
    let consumer = log.consumer("c", 10_000, 1, &[from]).expect("consumer");
    for _ in 0..100 {
        append(&log);
    }
    log.first().trim(log.first().durable()).expect("trim");
    assert!(place(&log).2);
    let refused = consumer.acknowledge(2, &[log.first().durable()]);
    assert!(matches!(refused, Err(Error::Read(ReadError::Trimmed { .. }))), "{refused:?}");
    drop(consumer);
    log.close().expect("close");
    let log = Log::open_in(device.directory(), options()).expect("open");
    assert_eq!(place(&log), (1, from, true));
}

#[test]
fn the_error_of_a_lost_consumer_names_the_trimmed_stream() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), Options { streams: 2, ..options() }).expect("open");
    let from: Vec<Lsn> = log.streams().iter().map(Stream::durable).collect();
    let consumer = log.consumer("c", 10_000, 1, &from).expect("consumer");
    let trimmed = &log.streams()[1];
    let mut session = trimmed.session().expect("session");
    for _ in 0..100 {
        let append = Append::new(Kind::USER, &[&[7; 300]]).stamp(CommitStamp::new(1));
        session.append(&append).expect("append");
    }
    trimmed.trim(trimmed.sync().expect("sync")).expect("trim");
    match consumer.acknowledge(2, &from) {
        Err(Error::Read(ReadError::Trimmed { at, start })) => {
            assert_eq!((at, start), (from[1], trimmed.start()));
            assert!(at < start);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_place_that_cannot_be_read_is_no_new_consumer() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options()).expect("open");
    log.consumer("c", u64::MAX, 1, &[append(&log)]).expect("consumer");
    log.close().expect("close");
    let file = device.directory().open("consumer.c", Create::Never, Method::Buffered).expect("its file");
    file.truncate(100).expect("truncate");
    file.sync().expect("sync");
    let refused = Log::open_in(device.directory(), options()).map(drop);
    assert!(matches!(refused, Err(OpenError::CorruptControl { .. })), "{refused:?}");
    device.directory().remove("consumer.c").expect("remove");
    assert!(Log::open_in(device.directory(), options()).expect("open").consumers().is_empty());
}
