//! Regions of non-volatile memory in files: what a file must be, and what a killed process leaves.

use super::nvram::{BYTES, conformance, read, write};
use katydid_device::nvram::{Form, LINE_BYTES, Medium, NvRegion, Persistence};
use katydid_device::{Cause, Error, NvramFault, Verb};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

const EMULATED: Persistence = Persistence::Emulated { latency: Duration::ZERO };

fn folder() -> TempDir {
    tempfile::tempdir().expect("folder")
}

fn fault(outcome: Result<NvRegion, Error>) -> NvramFault {
    let error = outcome.expect_err("no region");
    assert_eq!(error.verb, Verb::Map);
    match error.cause {
        Cause::Nvram(fault) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_emulated_file_is_a_region() {
    let folder = folder();
    for (name, want) in [
        ("plain", EMULATED),
        ("slow", Persistence::Emulated { latency: Duration::from_nanos(300) }),
        ("found out", Persistence::Auto),
    ] {
        let path = folder.path().join(name);
        let region = NvRegion::open(&path, BYTES, want).expect("made");
        println!("{}", region.form());
        conformance(region, |region| {
            drop(region);
            Some(NvRegion::open_existing(&path, want).expect("opened"))
        });
    }
}

#[test]
fn shared_memory_is_a_region() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = folder.path().join("region");
    let region = NvRegion::open(&path, BYTES, EMULATED).expect("made");
    assert!(
        matches!(region.form(), Form::Emulated { medium: Medium::File("tmpfs"), .. }),
        "{}",
        region.form()
    );
    conformance(region, |region| {
        drop(region);
        Some(NvRegion::open(&path, BYTES, EMULATED).expect("opened"))
    });
}

#[test]
fn real_persistence_is_refused_by_name_where_there_is_none() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = folder.path().join("region");
    let error = NvRegion::open(&path, BYTES, Persistence::Real).expect_err("memory is not real NVRAM");
    assert!(matches!(error.cause, Cause::Nvram(NvramFault::NoDax("tmpfs") | NvramFault::NoInstruction)));
    let text = error.to_string();
    assert!(
        text.contains(&path.display().to_string()) && text.contains("no real persistence here"),
        "{text}"
    );
    assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 0, "nothing is made");
    let region = NvRegion::open(&path, BYTES, Persistence::Auto).expect("opened");
    assert!(!region.form().is_real());
    assert!(
        region.form().to_string().starts_with("EMULATED NVRAM: a mapped file on tmpfs"),
        "{}",
        region.form()
    );
    drop(region);
    let again = NvRegion::open(&path, BYTES, Persistence::Real).expect_err("nor is it when it is there");
    assert!(matches!(again.cause, Cause::Nvram(_)), "{again}");
    assert!(path.exists());
}

#[test]
fn a_region_reads_the_same_at_another_address() {
    let folder = folder();
    let path = folder.path().join("region");
    let address = |region: &NvRegion| region.word(0).as_ptr().addr();
    // The test makes a linked list whose links are offsets, so the list must be readable wherever
    // the region is mapped.
    let region = NvRegion::open(&path, BYTES, EMULATED).expect("made");
    let places = [640, 64, 4096, 32 << 10, BYTES - 64];
    region.word(0).store(places[0], Ordering::Relaxed);
    for (nth, place) in places.iter().enumerate() {
        region.word(*place).store(places.get(nth + 1).copied().unwrap_or(0), Ordering::Relaxed);
        write(&region, place + 8, &[nth as u8; 8]);
        region.persist(*place, 16);
    }
    region.persist(0, 8);
    // The test opens a copy while the region is still mapped, so the copy must have another
    // address. If the region itself were reopened, the kernel could give it its former address
    // again.
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).expect("copy");
    let copied = NvRegion::open_existing(&copy, EMULATED).expect("opened");
    assert_ne!(address(&copied), address(&region), "both are mapped");
    drop(region);
    let region = copied;
    let (mut at, mut found) = (region.word(0).load(Ordering::Relaxed), Vec::new());
    while at != 0 {
        found.push((at, read(&region, at + 8, 8)));
        at = region.word(at).load(Ordering::Relaxed);
    }
    let expected: Vec<_> =
        places.iter().enumerate().map(|(nth, place)| (*place, vec![nth as u8; 8])).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_region_is_in_use_once() {
    let folder = folder();
    let path = folder.path().join("region");
    let region = NvRegion::open(&path, BYTES, Persistence::Auto).expect("made");
    for want in [Persistence::Auto, EMULATED] {
        let refused = NvRegion::open_existing(&path, want).expect_err("it is in use");
        assert!(matches!(refused, Error { verb: Verb::Lock, cause: Cause::Locked(_), .. }), "{refused}");
    }
    drop(region);
    NvRegion::open_existing(&path, Persistence::Auto).expect("it is free");
}

#[test]
fn what_is_no_region_of_this_length_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("region");
    let missing = NvRegion::open_existing(&path, Persistence::Auto).expect_err("missing");
    assert!(missing.is_not_found(), "{missing}");
    let nowhere =
        NvRegion::open(folder.path().join("no/region"), BYTES, Persistence::Auto).expect_err("no folder");
    assert!(nowhere.is_not_found(), "{nowhere}");
    assert!(NvRegion::open(folder.path(), BYTES, Persistence::Auto).is_err(), "a folder is no region");
    for bytes in [0, 1, LINE_BYTES - 1, LINE_BYTES + 8, u64::MAX, 1 << 63] {
        assert_eq!(fault(NvRegion::open(&path, bytes, Persistence::Auto)), NvramFault::Bytes(bytes));
    }
    assert!(!path.exists(), "refused before anything is made");

    drop(NvRegion::open(&path, BYTES, Persistence::Auto).expect("made"));
    let whole = fs::read(&path).expect("read");
    let open = |bytes| NvRegion::open(&path, bytes, Persistence::Auto);
    assert_eq!(fault(open(2 * BYTES)), NvramFault::Length { expected: 2 * BYTES, found: BYTES });
    let refused = |content: &[u8], expected: NvramFault| {
        fs::write(&path, content).expect("write");
        assert_eq!(fault(open(BYTES)), expected);
        assert_eq!(fault(NvRegion::open_existing(&path, EMULATED)), expected);
        assert_eq!(fs::read(&path).expect("read"), content, "left alone");
    };
    let full = whole.len() as u64;
    refused(&whole[..whole.len() - 1], NvramFault::Cut { expected: full, found: full - 1 });
    refused(&whole[..4096], NvramFault::Cut { expected: full, found: 4096 });
    refused(&[&whole[..], &[0]].concat(), NvramFault::Cut { expected: full, found: full + 1 });
    refused(b"", NvramFault::Foreign);
    refused(&whole[..31], NvramFault::Foreign);
    refused(&[0; 8192], NvramFault::Foreign);
    refused(b"some text that somebody keeps under this name, for whatever reason", NvramFault::Foreign);
    let mut damaged = whole.clone();
    damaged[17] ^= 1;
    refused(&damaged, NvramFault::Damaged);
    fs::write(&path, &whole).expect("write");
    open(BYTES).expect("whole again");
}

#[test]
fn what_a_crash_leaves_of_the_making_is_never_a_region() {
    let folder = folder();
    let path = folder.path().join("region");
    drop(NvRegion::open(&path, BYTES, Persistence::Auto).expect("made"));
    let whole = fs::read(&path).expect("read");
    let new = folder.path().join("region.new");
    for half in [&b""[..], &whole[..100], &[0xaa; 9000], &whole[..]] {
        fs::remove_file(&path).expect("remove");
        fs::write(&new, half).expect("write");
        let missing = NvRegion::open_existing(&path, Persistence::Auto).expect_err("never made");
        assert!(missing.is_not_found(), "{missing}");
        let region = NvRegion::open(&path, BYTES, Persistence::Auto).expect("made");
        assert!(read(&region, 0, BYTES).iter().all(|byte| *byte == 0), "nothing of the half-made one");
        assert!(!new.exists());
    }
}

#[test]
fn a_copy_with_holes_gets_its_blocks_when_it_is_opened() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let folder = folder();
    let path = folder.path().join("region");
    drop(NvRegion::open(&path, BYTES, Persistence::Auto).expect("made"));
    let whole = fs::read(&path).expect("read");
    fs::remove_file(&path).expect("remove");
    let copy = fs::File::create(&path).expect("create");
    #[expect(clippy::disallowed_methods, reason = "a file with holes")]
    {
        copy.set_len(whole.len() as u64).expect("length");
        copy.write_all_at(&whole[..32], 0).expect("write");
    }
    assert!(copy.metadata().expect("status").blocks() * 512 < BYTES);
    let _region = NvRegion::open(&path, BYTES, Persistence::Auto).expect("opened");
    assert!(copy.metadata().expect("status").blocks() * 512 >= BYTES);
}

#[test]
fn no_room_is_said_when_a_region_is_made_and_leaves_nothing() {
    let folder = folder();
    let error =
        NvRegion::open(folder.path().join("region"), 1 << 50, Persistence::Auto).expect_err("no room");
    assert!(error.is_no_space_ahead(), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 0);
}

const WRITER: &str = "KATYDID_TEST_NVRAM_WRITER";
const RECORD: u64 = 24;

/// Persists records until the process is killed, and overwrites the oldest record when the region
/// is full. After each record the function persists the number of records.
fn write_until_killed(path: &Path) {
    let region = NvRegion::open(path, BYTES, EMULATED).expect("opened");
    let room = (BYTES - 64) / RECORD;
    for number in region.word(0).load(Ordering::Relaxed).. {
        let at = 64 + number % room * RECORD;
        write(&region, at, &[number.to_le_bytes(), (!number).to_le_bytes(), number.to_le_bytes()].concat());
        region.persist(at, RECORD);
        region.word(0).store(number + 1, Ordering::Release);
        region.persist(0, 8);
        if number % 1000 == 0 {
            eprintln!("persisted {number}");
        }
    }
}

#[test]
fn what_a_killed_process_has_persisted_is_there() {
    if let Some(path) = std::env::var_os(WRITER) {
        return write_until_killed(path.as_ref());
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder());
    let path = folder.path().join("region");
    let mut least = 0;
    for round in 1..=5 {
        let mut writer = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "nvram_file::what_a_killed_process_has_persisted_is_there", "--nocapture"])
            .env(WRITER, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(writer.stderr.take().expect("piped")).lines();
        let mut said = lines.map(|line| line.expect("read")).filter_map(|line| {
            line.strip_prefix("persisted ").map(|number| number.parse::<u64>().expect("a number"))
        });
        let acknowledged = said.nth(round).expect("the writer goes on until it is killed");
        writer.kill().expect("killed");
        writer.wait().expect("ended");
        // The kernel has released the process's lock.
        let region = NvRegion::open_existing(&path, EMULATED).expect("opened");
        let count = region.word(0).load(Ordering::Acquire);
        assert!(count > acknowledged && acknowledged >= least, "{count} of {acknowledged}, {least} before");
        let room = (BYTES - 64) / RECORD;
        for number in count.saturating_sub(room - 1)..count {
            let record = read(&region, 64 + number % room * RECORD, RECORD);
            let words = [number.to_le_bytes(), (!number).to_le_bytes(), number.to_le_bytes()].concat();
            assert_eq!(record, words, "record {number} of {count}");
        }
        least = count;
    }
}
