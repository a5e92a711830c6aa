//! Properties of `nv_logging` that the report on NV-Logging names, and that `nv_entries` lacks:
//! appenders persist, and a trim writes no file.

use katydid_device::nvram::SimNvram;
use katydid_device::{SimDevice, Survival};
use katydid_wal::testing::crash;
use katydid_wal::{Append, Durability, Id, Kind, Log, LogKind, Lsn, MediumSettings, NvramOptions, Options};

fn options(log: LogKind) -> Options {
    let memory = NvramOptions { bytes: 32 << 10, ..NvramOptions::default() };
    Options {
        medium: MediumSettings { memory, ..MediumSettings::default() }.medium(log),
        reserve_bytes: 1 << 10,
        sessions_max: 4,
        log_id: Some(Id::new(7)),
        ..Options::default()
    }
}

fn made(log: LogKind) -> (SimDevice, SimNvram, Log) {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options(log)).expect("made");
    let memory = device.nvram("log.nvram").expect("it was made");
    (device, memory, log)
}

/// Appends `count` records. Returns the end of the last record.
fn append(log: &Log, count: u64) -> Lsn {
    let mut session = log.session().expect("session");
    let ends = (0..count).map(|_| session.append(&Append::new(Kind::USER, &[&[7; 40]])).expect("append").end);
    ends.last().expect("some")
}

/// Returns the number of records after a crash that keeps only fenced bytes, and the start of that
/// log.
fn kept(device: &SimDevice, log: LogKind) -> (usize, Lsn) {
    let device = device.reopen_with(0, Survival::DropAll);
    let log = Log::open_in(device.directory(), options(log)).expect("open");
    (records(&log), log.first().start())
}

/// Returns the number of records from the start on, all of which must be whole.
fn records(log: &Log) -> usize {
    let reader = log.first().reader(log.first().start()).expect("reader");
    let records: Result<Vec<_>, _> = reader.collect();
    records.expect("whole").len()
}

#[test]
fn an_append_persists_its_record_and_then_its_entry_and_a_commit_the_tail() {
    for (kind, of_append, of_commit) in [(LogKind::NvLogging, 2, 1), (LogKind::NvEntries, 0, 2)] {
        let (_device, memory, log) = made(kind);
        for records in [1, 2, 30] {
            let before = memory.counts().fences;
            let end = append(&log, records);
            assert_eq!(memory.counts().fences - before, records * of_append, "{kind}, {records} records");
            let before = memory.counts().fences;
            log.first().wait(end, Durability::Durable).expect("wait");
            assert_eq!(memory.counts().fences - before, of_commit, "{kind}, {records} records");
        }
    }
}

#[test]
fn what_was_appended_survives_though_nobody_has_committed() {
    for (kind, survive) in [(LogKind::NvLogging, 12), (LogKind::NvEntries, 0)] {
        let (device, _memory, log) = made(kind);
        append(&log, 12);
        crash(&log);
        drop(log);
        assert_eq!(kept(&device, kind).0, survive, "{kind}");
    }
}

#[test]
fn a_trim_writes_no_file_and_survives() {
    for (kind, writes_files) in [(LogKind::NvLogging, false), (LogKind::NvEntries, true)] {
        let (device, _memory, log) = made(kind);
        append(&log, 5);
        let start = append(&log, 5);
        let end = append(&log, 3);
        log.first().wait(end, Durability::Durable).expect("wait");
        let before = device.steps();
        log.first().trim(start).expect("trim");
        assert_eq!(device.steps() > before, writes_files, "{kind}");
        assert_eq!(log.first().start(), start, "{kind}");
        crash(&log);
        drop(log);
        assert_eq!(kept(&device, kind), (3, start), "{kind}");
    }
}

/// The log fills its entries many times over. So each place for the head is written in turn, and
/// entries below the head are used again.
#[test]
fn trims_and_openings_go_round_the_entries() {
    let (mut device, _memory, mut log) = made(LogKind::NvLogging);
    for lap in 0..40 {
        let start = append(&log, 40);
        let end = append(&log, 7);
        log.first().wait(end, Durability::Durable).expect("wait");
        log.first().trim(start).expect("trim");
        if lap % 4 == 3 {
            crash(&log);
            drop(log);
            device = device.reopen_with(lap, Survival::DropAll);
            log = Log::open_in(device.directory(), options(LogKind::NvLogging)).expect("open");
            assert_eq!(log.first().start(), start, "lap {lap}");
            assert_eq!(records(&log), 7, "lap {lap}");
        }
    }
}
