//! Logs in NVRAM: the conformance suite over each kind with each inserter, and the logs that
//! opening refuses.

use katydid_device::nvram::Persistence;
use katydid_device::{Cause, Directory, FileDirectory, MemoryDirectory, NvramFault, SimDevice, Survival};
use katydid_wal::testing::{conformance_in_nvram, crash};
use katydid_wal::{
    Append, AppendClass, AppendError, Appended, Durability, Error, FileOptions, Finding, InserterKind,
    InserterSettings, Kind, Log, LogKind, MediumOptions, MediumSettings, NvramOptions, OpenError, Options,
    ReadError, Record, Session, inspect,
};
use std::path::Path;
use std::sync::Arc;

const KINDS: [LogKind; 4] = [LogKind::NvDirect, LogKind::NvRing, LogKind::NvEntries, LogKind::NvLogging];

fn settings() -> MediumSettings {
    MediumSettings {
        files: FileOptions { segment_bytes: 16 << 10, ..FileOptions::default() },
        memory: NvramOptions { bytes: 64 << 10, ..NvramOptions::default() },
        entries: 0,
    }
}

fn options(log: LogKind) -> Options {
    with(log, settings())
}

fn with(log: LogKind, settings: MediumSettings) -> Options {
    Options { medium: settings.medium(log), reserve_bytes: 4 << 10, ..Options::default() }
}

fn check(inserter: InserterKind) {
    for log in KINDS {
        // A log whose records lie apart from their entries has no choice of inserters.
        if log.lies_apart() && inserter != InserterKind::default() {
            continue;
        }
        conformance_in_nvram(log, |directory, mut sizes| {
            sizes.medium.files.inserter = inserter.into();
            Log::open_in(directory, sizes.options(log)).expect("the log opens")
        });
    }
}

macro_rules! suites {
    ($($name:ident: $kind:ident),+ $(,)?) => {
        $(#[test] fn $name() { check(InserterKind::$kind); })+

        #[test]
        fn every_design_is_here() {
            assert_eq!(InserterKind::ALL.to_vec(), vec![$(InserterKind::$kind),+]);
        }
    };
}

suites! {
    mutex: Mutex,
    consolidated: Consolidated,
    decoupled: Decoupled,
    hybrid: Hybrid,
    delegated: Delegated,
    grasshopper: Grasshopper,
    bitmap: Bitmap,
    chunked: Chunked,
    marks: Marks,
}

fn append(log: &Log, count: u64) -> katydid_wal::Lsn {
    let mut session = log.session().expect("session");
    let mut end = log.first().reserved();
    for number in 0..count {
        end = session.append(&Append::new(Kind::USER, &[&number.to_le_bytes()])).expect("append").end;
    }
    log.first().wait(end, Durability::Durable).expect("wait");
    end
}

#[test]
fn a_directory_keeps_its_kind_and_says_both() {
    for made in LogKind::ALL {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let log = Log::open_in(directory.clone(), options(made)).expect("made");
        assert_eq!((log.first().kind(), log.first().nvram().is_some(), log.first().capacity().is_some()), {
            let in_nvram = made.in_nvram();
            (made, in_nvram, in_nvram)
        });
        append(&log, 3);
        drop(log);
        for asked in LogKind::ALL {
            let before = directory.list().expect("list");
            match Log::open_in(directory.clone(), options(asked)) {
                Ok(log) => assert_eq!(
                    (asked, log.first().reader(log.first().start()).expect("reader").count()),
                    (made, 3)
                ),
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains(&made.to_string()) && said.contains(&asked.to_string()), "{said}");
                    assert!(matches!(error, OpenError::OtherKind { found, asked: other }
                        if (found, other) == (made, asked) && made != asked));
                    assert_eq!(directory.list().expect("list"), before);
                }
            }
        }
    }
}

#[test]
fn an_existing_log_keeps_its_size() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let log = Log::open_in(directory.clone(), options(LogKind::NvRing)).expect("made");
    let capacity = log.first().capacity();
    append(&log, 3);
    drop(log);
    let memory = NvramOptions { bytes: 1 << 20, ..NvramOptions::default() };
    let larger = MediumSettings { memory, ..settings() };
    let asked = Options { reserve_bytes: 200 << 10, ..with(LogKind::NvRing, larger) };
    let log = Log::open_in(directory, asked).expect("opened");
    assert_eq!((log.first().capacity(), log.first().recovery().segment_bytes), (capacity, 64 << 10));
    append(&log, 3);
    assert_eq!(log.first().reader(log.first().start()).expect("reader").count(), 6);
}

#[test]
fn it_can_be_inspected_and_is_not_changed() {
    for kind in KINDS {
        let directory = MemoryDirectory::new();
        let log = Log::open_in(Arc::new(directory.clone()), options(kind)).expect("made");
        append(&log, 5);
        crash(&log);
        drop(log);
        for _ in 0..2 {
            let found = inspect(&directory).expect("inspected").streams.remove(0);
            assert_eq!((found.kind, found.incarnation, found.segments.len()), (kind, 1, 0));
            assert!(matches!(found.finding, Ok(Finding::CleanEnd { closed: false })), "{:?}", found.finding);
            let users = found
                .records()
                .expect("records")
                .filter(|record| record.as_ref().is_ok_and(|record| record.kind.is_user()));
            assert_eq!(users.count(), 5);
        }
    }
}

/// The machine crashes at each step of making a log.
#[test]
fn a_log_that_was_made_in_part_can_be_inspected_and_is_not_changed() {
    for kind in KINDS {
        let mut inspected = 0;
        for step in 0.. {
            let device = SimDevice::new(step);
            device.crash_at(step);
            let made = Log::open_in(device.directory(), options(kind)).map(drop);
            let device = device.reopen_with(step, Survival::DropAll);
            let directory = device.directory();
            let before = directory.list().expect("list");
            if let Ok(found) = inspect(directory.as_ref()) {
                let found = found.first().expect("one stream").clone();
                assert_eq!((found.kind, found.segment_bytes), (kind, 64 << 10));
                assert_eq!(found.records().expect("records").filter(|record| record.is_err()).count(), 0);
                inspected += usize::from(!before.contains(&"log.nvram".to_owned()));
            }
            assert_eq!(directory.list().expect("list"), before, "{kind}, step {step}");
            append(&Log::open_in(directory, options(kind)).expect("made at last"), 3);
            if made.is_ok() {
                break;
            }
        }
        assert!(inspected > 0, "{kind}: no crash left a log without its region");
    }
}

/// A caller that knows a record to be durable need not name it as a dependency of a later record.
#[test]
fn what_is_appended_after_something_durable_lies_above_it() {
    for (kind, inserter) in
        KINDS.into_iter().flat_map(|kind| InserterKind::ALL.map(|inserter| (kind, inserter)))
    {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let chunks =
            InserterSettings { chunk_bytes: 4096, chunk_always: true, ..InserterSettings::default() };
        let mut settings = settings();
        settings.files.inserter = chunks.design(inserter);
        let log = Log::open_in(directory, with(kind, settings)).expect("made");
        let mut sessions = [log.session().expect("session"), log.session().expect("session")];
        let mut durable = log.first().start();
        for number in 0..40_usize {
            let append = Append::new(Kind::USER, &[b"record"]);
            let appended = sessions[number % 2].append(&append).expect("append");
            assert!(appended.first >= durable, "{kind}, {inserter}: {appended:?} lies below {durable}");
            match number % 3 {
                0 => log.first().wait(appended.end, Durability::Durable).expect("wait"),
                1 => {
                    let mut completions = log.completions();
                    completions.push(
                        log.first().at(appended.end),
                        &katydid_wal::Dependencies::default(),
                        Durability::Durable,
                        (),
                    );
                    completions.drain_with(|(), outcome| outcome.expect("durable"));
                }
                _ => continue,
            }
            durable = appended.end;
        }
    }
}

fn apart(bytes: u64, entries: u64, reserve_bytes: u64) -> Options {
    let memory = NvramOptions { bytes, ..NvramOptions::default() };
    Options {
        medium: MediumOptions::NvEntries { memory, entries },
        reserve_bytes,
        sessions_max: 4,
        ..Options::default()
    }
}

/// Appends records of `bytes` bytes until there is no room. Returns their positions.
fn fill(session: &mut Session, bytes: usize, class: AppendClass) -> Vec<Appended> {
    let payload = vec![7; bytes];
    let mut all = Vec::new();
    loop {
        match session.append(&Append::new(Kind::USER, &[&payload]).class(class)) {
            Ok(appended) => all.push(appended),
            Err(AppendError::NoSpace) => return all,
            Err(error) => panic!("{error}"),
        }
        assert!(all.len() < 100_000, "it is never full");
    }
}

/// If the entries or the heap are full, appends fail at once with `NoSpace`, trimming makes room,
/// and critical records get the space that is kept for them.
#[test]
fn entries_and_heap_each_have_an_end() {
    // First a large heap with few entries, then a small heap with many. The last number of a case
    // is the bytes of each record.
    for (bytes, entries, size) in [(1 << 20, 128, 40), (64 << 10, 1 << 14, 400)] {
        let few_entries = entries == 128;
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let log = Log::open_in(directory.clone(), apart(bytes, entries, 1 << 10)).expect("made");
        let mut session = log.session().expect("session");
        assert!(log.first().fullness().is_some_and(|full| full < 100));
        for _ in 0..30 {
            let normal = fill(&mut session, size, AppendClass::Normal);
            let taken: u64 = normal.iter().map(|appended| appended.bytes).sum();
            if few_entries {
                assert!((64..128).contains(&normal.len()), "{}", normal.len());
                assert!(taken < bytes / 8, "the heap is nearly empty: {taken}");
            } else {
                assert!(taken > bytes / 2, "{taken}");
                assert!(
                    log.first().reserved().get() - log.first().start().get() < entries * 8 / 2,
                    "few entries are taken"
                );
            }
            assert!(
                log.first().fullness().is_some_and(|full| (750..=1000).contains(&full)),
                "{:?}",
                log.first().fullness()
            );
            let more = if few_entries { 1 << 10 } else { 8 << 10 };
            assert!(matches!(log.first().raise_reserve(more), Err(Error::NoSpace)));
            // Critical appends get at least the reserve, with records of the shortest length.
            let critical = fill(&mut session, 0, AppendClass::Critical);
            assert!(critical.iter().map(|appended| appended.bytes).sum::<u64>() >= 1 << 10);
            assert!(log.first().fullness().is_some_and(|full| full > 900), "{:?}", log.first().fullness());
            // Trims a part of the log, and then all of it.
            let half = &normal[normal.len() / 2];
            log.first().wait(half.end, Durability::Durable).expect("wait");
            log.first().trim(half.first).expect("trim");
            let again = fill(&mut session, size, AppendClass::Normal);
            assert!(again.len() > normal.len() / 5, "{} of {}", again.len(), normal.len());
            log.first().trim(log.first().sync().expect("sync")).expect("trim");
            let guard = log.first().raise_reserve(1 << 10).expect("there is room again");
            drop(guard);
        }
    }
}

#[test]
fn entries_of_an_existing_log_stay_as_many() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let log = Log::open_in(directory.clone(), apart(64 << 10, 256, 0)).expect("made");
    append(&log, 100);
    drop(log);
    let log = Log::open_in(directory, apart(1 << 20, 1 << 14, 200 << 10));
    let log = log.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((log.first().recovery().records, log.first().recovery().segment_bytes), (101, 64 << 10));
    let mut session = log.session().expect("session");
    // Half of the entries are kept for critical records, which is the maximum.
    assert!(fill(&mut session, 0, AppendClass::Normal).len() < 128);
    assert!(fill(&mut session, 0, AppendClass::Critical).len() > 64);
}

/// Each opening needs some room in the heap. After each of many crashes the log can be opened,
/// although critical records had filled all room that the opening before had left.
#[test]
fn a_heap_without_room_can_be_opened() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let mut appended = 0;
    for opening in 0..30 {
        let log = Log::open_in(directory.clone(), apart(16 << 10, 1 << 10, 0));
        let log = log.unwrap_or_else(|error| panic!("opening {opening}: {error}"));
        assert_eq!(log.first().reader(log.first().start()).expect("reader").count(), appended);
        let mut session = log.session().expect("session");
        for size in [300, 40, 0] {
            appended += fill(&mut session, size, AppendClass::Critical).len();
        }
        log.sync().expect("durable");
        crash(&log);
    }
    let log = Log::open_in(directory, apart(16 << 10, 1 << 10, 0)).expect("opened");
    log.first().trim(log.first().durable()).expect("trim");
    assert!(fill(&mut log.session().expect("session"), 300, AppendClass::Normal).len() > 30);
}

/// The ring of entries and the heap go round many times, with openings between, and with short
/// records and records of more than 64 KiB.
#[test]
fn records_that_lie_apart_go_round_and_round() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let (mut number, mut bytes, mut end) = (0_u64, 0, 0);
    let size = |number: u64| match number % 40 {
        7 => 70_000,
        20 => 9_000,
        small => small as usize * 20,
    };
    let payload = |number: u64| {
        let mut payload = number.to_le_bytes().to_vec();
        payload.resize(8 + size(number), number as u8);
        payload
    };
    for opening in 0..12 {
        let log = Log::open_in(directory.clone(), apart(512 << 10, 512, 4 << 10)).expect("opened");
        assert!(log.first().recovery().end.get() >= end);
        let found = |log: &Log| {
            let records = log
                .first()
                .reader(log.first().start())
                .expect("reader")
                .map(|record| record.expect("record"));
            let numbers = records.map(|record| {
                let number = u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"));
                assert!(record.payload == payload(number), "{number}");
                assert_eq!(log.first().read(record.lsn).expect("read"), record);
                number
            });
            numbers.collect::<Vec<_>>()
        };
        let kept = found(&log);
        assert!(kept.iter().copied().eq(number - kept.len() as u64..number), "opening {opening}");
        let mut session = log.session().expect("session");
        let mut live = std::collections::VecDeque::new();
        for _ in 0..400 {
            let record = payload(number);
            let appended = loop {
                match session.append(&Append::new(Kind::USER, &[&record])) {
                    Ok(appended) => break appended,
                    Err(AppendError::NoSpace) => {
                        let to = live
                            .drain(..live.len() / 2)
                            .next_back()
                            .unwrap_or(log.first().sync().expect("sync"));
                        log.first().trim(to).expect("trim");
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            live.push_back(appended.first);
            (number, bytes) = (number + 1, bytes + appended.bytes);
        }
        end = log.first().sync().expect("sync").get();
        let kept = found(&log);
        assert!(kept.len() >= live.len() && kept.iter().copied().eq(number - kept.len() as u64..number));
        if opening % 2 == 0 {
            crash(&log);
        }
    }
    assert!(end > 10 * 8 * 512 && bytes > 20 * (512 << 10), "{end} positions, {bytes} bytes");
}

/// Makes a log in a real file (emulated NVRAM), applies `change` to the folder, and opens the log
/// again.
fn in_folder(change: impl FnOnce(&std::path::Path)) -> Result<Log, OpenError> {
    let folder = tempfile::tempdir().expect("folder");
    let log = Log::open(folder.path(), options(LogKind::NvRing)).expect("made");
    assert!(log.first().nvram().is_some_and(|form| !form.is_real()));
    append(&log, 3);
    drop(log);
    change(folder.path());
    Log::open(folder.path(), options(LogKind::NvRing))
}

#[test]
fn a_file_is_opened_again_and_is_one_logs_at_a_time() {
    let folder = tempfile::tempdir().expect("folder");
    for opening in 0..4 {
        let log = Log::open(folder.path(), options(LogKind::NvDirect)).expect("opened");
        assert_eq!(log.first().reader(log.first().start()).expect("reader").count(), 3 * opening);
        append(&log, 3);
        let second = Log::open(folder.path(), options(LogKind::NvDirect));
        assert!(matches!(second, Err(OpenError::Device(error)) if error.to_string().contains("in use")));
        if opening % 2 == 0 {
            crash(&log);
        }
    }
}

fn fault(opened: Result<Log, OpenError>) -> NvramFault {
    match opened {
        Err(OpenError::Device(katydid_device::Error {
            cause: katydid_device::Cause::Nvram(fault), ..
        })) => fault,
        other => panic!("{other:?}"),
    }
}

fn change(folder: &std::path::Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = folder.join("log.nvram");
    let mut bytes = std::fs::read(&path).expect("read");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_region_that_is_not_the_logs_is_refused_by_name() {
    let gone = in_folder(|folder| std::fs::remove_file(folder.join("log.nvram")).expect("removed"));
    assert!(matches!(gone, Err(OpenError::MissingSegment { file, .. }) if file == "log.nvram"));

    let control = in_folder(|folder| std::fs::remove_file(folder.join("log.control")).expect("removed"));
    assert!(matches!(control, Err(OpenError::MissingControl { segment, .. }) if segment == "log.nvram"));

    let cut = in_folder(|folder| change(folder, |bytes| bytes.truncate(10_000)));
    assert!(matches!(fault(cut), NvramFault::Cut { found: 10_000, .. }));

    let text = in_folder(|folder| std::fs::write(folder.join("log.nvram"), [b'x'; 80_000]).expect("written"));
    assert_eq!(fault(text), NvramFault::Foreign);

    let foreign = in_folder(|folder| {
        let other = tempfile::tempdir().expect("folder");
        drop(Log::open(other.path(), options(LogKind::NvRing)).expect("made"));
        std::fs::copy(other.path().join("log.nvram"), folder.join("log.nvram")).expect("copied");
    });
    assert!(matches!(foreign, Err(OpenError::ForeignSegment { file, .. }) if file == "log.nvram"));

    // The file's first block is the header of the region, and the log's header lies behind it.
    let damaged = in_folder(|folder| change(folder, |bytes| bytes[4096 + 20] ^= 1));
    assert!(matches!(damaged, Err(OpenError::CorruptSegment { file, .. }) if file == "log.nvram"));

    for version in [1u32, 2, 4] {
        let other = in_folder(|folder| {
            change(folder, |bytes| {
                let header = &mut bytes[4096..8192];
                header[8..12].copy_from_slice(&version.to_le_bytes());
                let sum = crc_fast::crc32_iscsi(&header[..4092]);
                header[4092..].copy_from_slice(&sum.to_le_bytes());
            });
        });
        assert!(matches!(
            other,
            Err(OpenError::OtherVersion { file, found, supported: 3, .. })
                if file == "log.nvram" && found == version
        ));
    }
}

/// Copies the files of a folder into another one.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("list") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// Changes one of the two headers of a region: that of the file, or that of the log. Half of the
/// changed headers of the log get a right checksum. Returns a description of the changes.
fn damage(rng: &mut fastrand::Rng, region: &mut [u8]) -> String {
    let at = rng.usize(..2) * 4096;
    let header = &mut region[at..at + 4096];
    let mut text = format!("header at {at}:");
    for _ in 0..rng.usize(1..4) {
        // Most changes are to the fields, which lie in front.
        let place = if rng.u8(..4) == 0 { rng.usize(..4096) } else { rng.usize(..56) };
        match rng.u8(..4) {
            0 => header[place] ^= 1 << rng.u8(..8),
            1 => {
                let end = rng.usize(place..4096) + 1;
                header[place..end].fill(0);
            }
            2 => header[place..].iter_mut().take(rng.usize(1..64)).for_each(|byte| *byte = rng.u8(..)),
            _ => {
                let numbers = [0, 1, 8, 4096, 64 << 10, 1 << 32, 1 << 63, u64::MAX - 7, u64::MAX];
                let number = numbers[rng.usize(..numbers.len())].to_le_bytes();
                let place = place.min(4088) / 8 * 8;
                header[place..place + 8].copy_from_slice(&number);
            }
        }
        text += &format!(" {place}");
    }
    if at > 0 && rng.bool() {
        let sum = crc_fast::crc32_iscsi(&header[..4092]);
        header[4092..].copy_from_slice(&sum.to_le_bytes());
        text += ", sealed";
    }
    text
}

/// Whatever a header of a region holds, the log is opened with all its records, or refused with an
/// error that names the region. Inspecting the log has the same outcome.
#[test]
fn a_region_with_any_header_is_opened_whole_or_refused_by_name() {
    let seed = std::env::var("KATYDID_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("KATYDID_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for kind in KINDS {
        let sound = tempfile::tempdir().expect("folder");
        let log = Log::open(sound.path(), options(kind)).expect("made");
        append(&log, 9);
        drop(log);
        let (mut opened, mut refused) = (0, 0);
        for _ in 0..150 {
            let folder = tempfile::tempdir().expect("folder");
            copy_files(sound.path(), folder.path());
            let mut text = String::new();
            change(folder.path(), |region| text = damage(&mut rng, region));
            let place = format!("{kind}, {text}");
            let names_it = |error: OpenError| match error {
                OpenError::CorruptSegment { file, .. }
                | OpenError::ForeignSegment { file, .. }
                | OpenError::OtherVersion { file, .. } => assert_eq!(file, "log.nvram", "{place}"),
                OpenError::Device(error) => {
                    assert!(matches!(error.cause, Cause::Nvram(_)), "{place}: {error}");
                    assert!(error.subject.ends_with("log.nvram"), "{place}: {error}");
                }
                other => panic!("{place}: {other}"),
            };
            let directory = FileDirectory::open(folder.path()).expect("the folder");
            match inspect(&directory) {
                Ok(found) => match found.streams[0].records() {
                    Ok(records) if found.streams[0].finding.is_ok() => {
                        let own = |record: &Result<Record, ReadError>| {
                            record.as_ref().is_ok_and(|record| record.kind.is_user())
                        };
                        assert_eq!(records.filter(own).count(), 9, "{place}");
                    }
                    other => panic!("{place}: {other:?}, {:?}", found.streams[0].finding),
                },
                Err(error) => names_it(error),
            }
            drop(directory);
            match Log::open(folder.path(), options(kind)) {
                Ok(log) => {
                    let reader = log.first().reader(log.first().start()).expect("reader");
                    assert_eq!(reader.count(), 9, "{place}");
                    opened += 1;
                }
                Err(error) => {
                    names_it(error);
                    refused += 1;
                }
            }
        }
        // A change may write the bytes that were there, or bytes that are not used.
        assert!(opened > 0 && refused > 50, "{kind}: {opened} opened, {refused} refused");
    }
}

#[test]
fn real_memory_is_not_pretended() {
    let mut settings = settings();
    settings.memory.want = Persistence::Real;
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let opened = Log::open_in(directory, with(LogKind::NvRing, settings));
    assert!(matches!(fault(opened), NvramFault::NoDax(_)));
}
