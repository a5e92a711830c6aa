//! Kills the real program under load with kill -9, several times. The oracle is the list of
//! acknowledgements that the program printed, read from its standard output until the pipe ends.
//!
//! After each kill the tests check four things:
//!
//! 1. All acknowledged transactions are there.
//! 2. Of the unacknowledged transactions at most those in flight are there. Each of them is
//!    complete, and there is no gap between them and the acknowledged ones.
//! 3. `verify` finds no fault.
//! 4. The database can be opened.

use crate::program::{command, run_in, seeded};
use katydid::{Database, EngineKind, Options, Table};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;

/// Reads `enough` lines, kills the program, and reads the rest of the pipe. Returns all complete
/// lines.
fn lines_until_killed(mut child: Child, enough: usize) -> Vec<String> {
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut killed = false;
    loop {
        line.clear();
        if stdout.read_line(&mut line).unwrap() == 0 {
            break;
        }
        if let Some(whole) = line.strip_suffix('\n') {
            lines.push(whole.to_owned());
        }
        if lines.len() >= enough && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let status = child.wait().unwrap();
    assert!(killed, "it ended by itself, {status}:\n{err}");
    lines
}

/// Number of rows that a thread of `crash-writer` keeps: its `WINDOW`.
const WINDOW: u64 = 40;

const PAGED: (EngineKind, &[&str]) = (EngineKind::Paged, &[]);

/// Four sets of flags: each rule for dependencies with each rule for lock release.
const MEMORY: [&[&str]; 4] = [
    &["--engine", "memory", "--streams", "3"],
    &["--engine", "memory", "--streams", "2", "--dependences", "all"],
    &["--engine", "memory", "--streams", "3", "--lock-release", "after-durable"],
    &["--engine", "memory", "--streams", "1", "--dependences", "all", "--lock-release", "after-durable"],
];

fn row_value(thread: u64, number: u64) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) % 3001) as usize;
    (0..length as u64).map(|at| (at ^ number ^ (thread << 5)) as u8).collect()
}

fn all(database: &Database, table: &Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let transaction = database.begin().unwrap();
    let found = transaction.range(table, ..).map(|entry| entry.unwrap()).collect();
    transaction.rollback().unwrap();
    found
}

/// Compares the database with the acknowledgements. Returns the counters that it finds.
fn check_writers(
    dir: &Path,
    engine: EngineKind,
    threads: u64,
    acknowledged: &BTreeMap<u64, u64>,
    in_flight: u64,
) -> BTreeMap<u64, u64> {
    run_in(dir, "verify").expect(0);
    let database =
        Database::open_with(dir, Options { create: false, engine: engine.into(), ..Options::default() })
            .unwrap();
    let counters = database.open_table("counters").unwrap().unwrap();
    let rows = database.open_table("rows").unwrap().unwrap();
    let found: BTreeMap<u64, u64> = all(&database, &counters)
        .into_iter()
        .map(|(key, value)| {
            (u64::from_be_bytes(key.try_into().unwrap()), u64::from_be_bytes(value.try_into().unwrap()))
        })
        .collect();
    let mut expected = BTreeMap::new();
    for thread in 0..threads {
        let known = acknowledged.get(&thread).copied().unwrap_or(0);
        let counter = found.get(&thread).copied().unwrap_or(0);
        assert!(counter >= known, "thread {thread}: {known} was acknowledged, {counter} is there");
        assert!(
            counter <= known + in_flight,
            "thread {thread}: {counter} is there, {known} was acknowledged"
        );
        for number in counter.saturating_sub(WINDOW - 1).max(1)..=counter {
            expected.insert(format!("{thread:04}/{number:012}").into_bytes(), row_value(thread, number));
        }
    }
    let there = all(&database, &rows);
    assert!(there.keys().eq(expected.keys()), "rows and counters differ: some transaction is there in part");
    assert!(there == expected, "a row has another value than was committed");
    database.close().unwrap();
    run_in(dir, "verify").expect(0);
    found
}

/// Returns how often the program is killed: `KATYDID_ROUNDS`, or `default` if that is not set.
fn rounds(default: usize) -> usize {
    std::env::var("KATYDID_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}

/// Makes a database whose log has segments of 1 MiB, for the program with these flags. With
/// segments of 64 MiB a process would be killed before its log reaches the next segment, and the
/// test would spend its time on preparing segments.
fn make(dir: &Path, engine: EngineKind, flags: &[&str]) {
    let mut options = Options { engine: engine.into(), ..Options::default() };
    options.advanced.log.medium =
        katydid::FileOptions { segment_bytes: 1 << 20, ..Default::default() }.into();
    if let (Some(at), Some(memory)) =
        (flags.iter().position(|flag| *flag == "--streams"), options.engine.memory_mut())
    {
        memory.streams = flags[at + 1].parse().unwrap();
    }
    Database::open_with(dir, options).unwrap().close().unwrap();
}

/// Kills writers several times, and checks the database after each kill. `flags` are added to the
/// program's command line, and must fit `engine`: for the memory engine they include `--engine
/// memory`.
fn writers_survive(
    (engine, flags): (EngineKind, &[&str]),
    (threads, in_flight): (u64, u64),
    rounds: usize,
    seed: u64,
) {
    let mut rng = seeded(seed);
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), engine, flags);
    let mut acknowledged = BTreeMap::new();
    for round in 0..self::rounds(rounds) {
        let mut command = command(["crash-writer", "--checkpoint", "128KiB", "--cache-pages", "32"]);
        command.args(["--threads", &threads.to_string(), "--in-flight", &in_flight.to_string()]);
        let child = command.args(flags).arg("--dir").arg(dir.path()).spawn().unwrap();
        let lines = lines_until_killed(child, rng.usize(1..600));
        for line in &lines {
            let (thread, number) = line.split_once(' ').unwrap();
            let (thread, number): (u64, u64) = (thread.parse().unwrap(), number.parse().unwrap());
            let last = acknowledged.insert(thread, number).unwrap_or(0);
            assert_eq!(number, last + 1, "round {round}, thread {thread}: acknowledgements out of order");
        }
        // The writers continue from the found counters, acknowledged or not.
        acknowledged = check_writers(dir.path(), engine, threads, &acknowledged, in_flight);
    }
}

#[test]
fn blocking_writers_survive_kill_9() {
    writers_survive(PAGED, (4, 1), 6, 1);
}

#[test]
fn writers_with_callbacks_survive_kill_9() {
    writers_survive(PAGED, (3, 50), 6, 2);
}

#[test]
fn blocking_writers_of_the_memory_engine_survive_kill_9() {
    // The other two sets of flags are tested with callbacks. Each set needs a new database, and
    // making one takes longer than the kills. So each set is tested in one of the two tests only.
    for (flags, seed) in [MEMORY[0], MEMORY[3]].into_iter().zip(11..) {
        writers_survive((EngineKind::Memory, flags), (4, 1), 2, seed);
    }
}

#[test]
fn writers_with_callbacks_of_the_memory_engine_survive_kill_9() {
    for (flags, seed) in [MEMORY[1], MEMORY[2]].into_iter().zip(21..) {
        writers_survive((EngineKind::Memory, flags), (3, 50), 2, seed);
    }
}

#[test]
fn a_load_survives_kill_9() {
    load_survives(EngineKind::Paged, 3);
}

#[test]
fn a_load_into_the_memory_engine_survives_kill_9() {
    load_survives(EngineKind::Memory, 9);
}

fn load_survives(engine: EngineKind, seed: u64) {
    const BATCH: usize = 10;
    let mut rng = seeded(seed);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.tsv");
    let db = dir.path().join("db");
    make(&db, engine, &[]);
    // Keys ascend, so that the database can be compared with a prefix of the file.
    let lines: Vec<String> =
        (0..20_000).map(|number| format!("{number:06}\tvalue {}", number * 7919)).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let mut durable = 0;
    for _ in 0..rounds(4) {
        // Existing keys are written again with equal values, so the prefix only grows.
        let mut command =
            command(["load", "t", file.to_str().unwrap(), "--acks", "--batch", &BATCH.to_string()]);
        let child = command.args(["--engine", &engine.to_string(), "--dir"]).arg(&db).spawn().unwrap();
        let acks = lines_until_killed(child, rng.usize(1..200));
        let last = acks.last().unwrap();
        let acknowledged: usize = last.split(' ').nth(1).unwrap().parse().unwrap();
        let plural = if acknowledged == 1 { "" } else { "s" };
        assert_eq!(*last, format!("acknowledged {acknowledged} line{plural}"));
        run_in(&db, "verify").expect(0);
        let scanned = run_in(&db, "scan t").expect(0);
        let there = scanned.lines().count();
        assert!(
            there >= acknowledged.max(durable),
            "{acknowledged} lines were acknowledged, {there} are there"
        );
        assert!(
            there <= (acknowledged + BATCH).max(durable),
            "{there} lines are there, {acknowledged} were acknowledged"
        );
        assert!(there == durable || there.is_multiple_of(BATCH), "part of a batch is there: {there} lines");
        assert!(
            scanned.lines().eq(lines[..there].iter().map(String::as_str)),
            "not the first {there} lines of the file"
        );
        durable = there;
    }
}
