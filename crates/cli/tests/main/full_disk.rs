//! The real program when files cannot grow. Each command prints its output before it closes the
//! database, and says what failed and where. No acknowledged row is lost.
//!
//! A limit on the size of files stands for the full disk (`ulimit -f`, with the signal ignored, so
//! that writes fail with `EFBIG`). Every process may set such a limit, so the test needs no file
//! system of its own.

use crate::program::{self, Done, collected, command, contents, run_in};
use katydid::{AdvancedOptions, Database, EngineKind, MemoryOptions, Options, PagedOptions};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of rows before the disk is full. A row takes about [`VALUE_BYTES`].
const ROWS: u64 = 600;
const VALUE_BYTES: usize = 1000;

fn line(number: u64) -> String {
    format!("{number:06}\t{number:0VALUE_BYTES$}\n")
}

/// Makes a database of small files, and closes it.
fn make(dir: &Path, engine: EngineKind) {
    let memory = MemoryOptions { streams: 1, ..MemoryOptions::default() };
    let engine = engine.with(PagedOptions::default(), memory);
    let mut options = Options {
        engine,
        advanced: AdvancedOptions { checkpoint_bytes: 128 << 10, ..AdvancedOptions::default() },
        ..Options::default()
    };
    options.advanced.log.medium =
        katydid::FileOptions { segment_bytes: 128 << 10, ..Default::default() }.into();
    options.advanced.log.reserve_bytes = 32 << 10;
    options.advanced.log.run_ahead_bytes = 16 << 10;
    drop(Database::open_with(dir, options).unwrap());
    let input: String = (0..ROWS).map(line).collect();
    program::run_with_input(dir, "load t -", input.as_bytes()).expect(0);
}

/// Returns the size of the largest file in bytes.
fn largest(dir: &Path) -> u64 {
    contents(dir).values().map(|bytes| bytes.len() as u64).max().unwrap()
}

/// Runs the program with a limit of `limit` bytes on the size of files.
fn limited(dir: &Path, words: &str, limit: u64, input: &str) -> Done {
    let program = command(words.split(' '));
    let mut shell = Command::new("sh");
    // A shell counts in units of 512 bytes.
    shell.args([
        "-c",
        "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"",
        "sh",
        &(limit / 512).to_string(),
    ]);
    shell.arg(program.get_program()).args(program.get_args()).arg("--dir").arg(dir);
    let mut child =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let done = collected(child.wait_with_output().unwrap());
    // The write fails if the program has stopped reading.
    let _may_be_refused = writer.join().unwrap();
    done
}

/// Checks the message of a command that failed for lack of space: it must name the file and the
/// failed operation, or the part of the database that had no space.
fn check_message(done: &Done, dir: &Path, what: &str) {
    assert!(!done.err.contains("panicked"), "{what}: {}", done.err);
    if done.code == 0 {
        return;
    }
    let message = done.err.lines().find(|line| line.starts_with("katydid: "));
    let message = message.unwrap_or_else(|| panic!("{what}: no message in {:?}", done.err));
    assert!(message.contains("no space left on the device"), "{what}: {message}");
    let names_file = message.contains(dir.to_str().unwrap());
    assert!(names_file || message.contains(" device ("), "{what}: {message}");
    assert_eq!(done.code, 1, "{what}: {}", done.err);
}

/// Checks without the limit that the database is sound, and has the first n rows and no others,
/// where n is from `least` to `most`.
fn check_rows(dir: &Path, least: u64, most: u64, what: &str) {
    run_in(dir, "verify --quiet").expect(0);
    let out = run_in(dir, "scan t").expect(0);
    let found = out.lines().count() as u64;
    assert!((least..=most).contains(&found), "{what}: {found} rows, {least} were acknowledged");
    assert!(out == (0..found).map(line).collect::<String>(), "{what}: other rows");
}

fn acknowledged(done: &Done) -> u64 {
    let lines = done.out.lines().filter_map(|line| line.strip_prefix("acknowledged "));
    lines.filter_map(|line| line.split(' ').next()?.replace(',', "").parse().ok()).max().unwrap_or(0)
}

/// Calls `body` with a database of each engine, and a limit that existing files do not exceed.
fn each(body: impl Fn(&Path, EngineKind, u64)) {
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("database");
        make(&dir, engine);
        body(&dir, engine, largest(&dir));
    }
}

#[test]
fn what_was_found_is_printed_before_closing_fails() {
    each(|dir, engine, limit| {
        let first = line(0);
        for (words, found) in [
            ("get t 000000", first.as_str()),
            ("tables", "t\n"),
            ("stat", "tables"),
            ("scan t --limit 1", first.as_str()),
            ("verify", "sound: "),
            ("checkpoint", ""),
        ] {
            let done = limited(dir, words, limit, "");
            check_message(&done, dir, &format!("{engine}: {words}"));
            assert!(done.out.starts_with(found), "{engine}: {words}: {:?}", done.out);
        }
        check_rows(dir, ROWS, ROWS, "looked at");
    });
}

#[test]
fn loading_until_the_disk_is_full_keeps_what_was_acknowledged() {
    each(|dir, engine, limit| {
        let what = format!("{engine}: load");
        let more: u64 = 6 * ROWS;
        let input: String = (ROWS..ROWS + more).map(line).collect();
        let done = limited(dir, "load t - --acks --batch 20", limit, &input);
        check_message(&done, dir, &what);
        let count = acknowledged(&done);
        // The memory engine needs space only in its log, until it takes a checkpoint.
        let checkpoint = limited(dir, "checkpoint", limit, "");
        check_message(&checkpoint, dir, &what);
        assert!(
            done.code + checkpoint.code > 0,
            "{what}: there is room for everything, so this shows nothing"
        );
        // Existing rows can still be read. A further row is accepted, or refused with a message
        // that `check_message` accepts.
        let done = limited(dir, "get t 000007", limit, "");
        check_message(&done, dir, &what);
        assert_eq!(done.out, line(7), "{what}: {}", done.err);
        let large = format!("put t zzz {}", "v".repeat(100_000));
        let done = limited(dir, &large, limit, "");
        check_message(&done, dir, &what);
        let put = done.code == 0;
        if put || run_in(dir, "get t zzz").code == 0 {
            run_in(dir, "delete t zzz").expect(0);
        }
        check_rows(dir, ROWS + count, ROWS + count + 20, &what);
        // Without the limit there is space again.
        let out = run_in(dir, "put t zzz v").expect(0);
        assert!(out.is_empty(), "{out}");
    });
}

/// The limit is below the size of the existing files, so that even writes to the log's prepared
/// space fail, as on a file system that overcommits.
#[test]
fn a_log_that_cannot_be_written_is_named_and_nothing_is_lost() {
    each(|dir, engine, limit| {
        for limit in [8 << 10, limit / 2] {
            let place = dir.with_extension("copy");
            copy(dir, &place);
            let mut least = ROWS;
            for words in ["get t 000000", "tables", "stat", "checkpoint", "verify", "load t - --acks"] {
                let what = format!("{engine}, {limit} bytes: {words}");
                let done = limited(&place, words, limit, &line(least));
                check_message(&done, &place, &what);
                least += acknowledged(&done);
            }
            check_rows(&place, least, ROWS + 1, &format!("{engine}, {limit} bytes"));
            fs::remove_dir_all(&place).unwrap();
        }
    });
}

#[test]
fn a_database_that_cannot_be_made_leaves_room_for_the_next_attempt() {
    for engine in ["paged", "memory"] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("database");
        for limit in [0, 4 << 10, 64 << 10, 200 << 10] {
            let what = format!("{engine}, {limit} bytes: put");
            let done = limited(&dir, &format!("put t k v --engine {engine}"), limit, "");
            check_message(&done, &dir, &what);
            assert_eq!(done.code, 1, "{what}: a first segment of 256 KiB has no room");
        }
        run_in(&dir, &format!("put t k v --engine {engine} --segment 64MiB")).expect(0);
        assert_eq!(run_in(&dir, "get t k").expect(0), "k\tv\n");
    }
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in contents(from) {
        let target = to.join(Path::new(&path).strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
}
