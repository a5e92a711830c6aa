//! kill -9 of a process whose log is in an emulated region, in a file: every commit that it has
//! printed is there after the next opening.
//!
//! The process is this test's own program, which runs only `child`. This test does not show that
//! everything was persisted, because the kernel keeps a killed process's pages; the crash suite
//! shows that.

use super::{RING, small};
use crate::common::{self, contents, key};
use katydid::{Database, EngineKind, LogKind, Options};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const FOLDER: &str = "KATYDID_TEST_FOLDER";
const ENGINE: &str = "KATYDID_TEST_ENGINE";
const LOG: &str = "KATYDID_TEST_LOG";
const THREADS: u64 = 3;

fn options(engine: EngineKind, log: LogKind) -> Options {
    common::with_memory(common::with_log(small(engine), log), RING)
}

fn value(thread: u64, number: u64) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) % 900) as usize;
    [&number.to_le_bytes()[..], &vec![thread as u8; length]].concat()
}

/// Writes until it is killed, and prints each acknowledged commit. Does nothing in an ordinary run.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let word = |name| std::env::var(name).expect("it was given");
    let options = options(word(ENGINE).parse().expect("an engine"), word(LOG).parse().expect("a log"));
    let database = Database::open_with(folder, options).expect("open");
    let table = database.table("t").expect("table");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (database, table) = (&database, &table);
            scope.spawn(move || {
                let last = database.get(table, format!("last-{thread}")).expect("get");
                let first = last.map_or(0, |last| u64::from_le_bytes(last.try_into().expect("a number")) + 1);
                for number in first.. {
                    database
                        .transact(|txn| {
                            txn.put(table, key(thread * 1000 + number % 40), value(thread, number))?;
                            txn.put(table, format!("last-{thread}"), number.to_le_bytes())
                        })
                        .expect("a commit");
                    // The parent, which kills this process, may have closed the pipe.
                    if writeln!(std::io::stdout(), "acknowledged {thread} {number}").is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Runs the child until it has printed `enough` commits, and kills it. Returns, for each thread,
/// the last commit that the child printed.
fn run(folder: &Path, engine: EngineKind, log: LogKind, enough: usize) -> [Option<u64>; THREADS as usize] {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["nvram::kill::child", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(ENGINE, engine.to_string())
        .env(LOG, log.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let (mut printed, mut count) = ([None; THREADS as usize], 0);
    // A line that was in the pipe when the child died is an acknowledged commit too.
    for line in stdout.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split(' ').collect();
        let ["acknowledged", thread, number] = words[..] else { continue };
        // The last line may have been cut.
        let (Ok(thread), Ok(number)) = (thread.parse::<usize>(), number.parse::<u64>()) else { continue };
        printed[thread] = printed[thread].max(Some(number));
        count += 1;
        if count == enough {
            child.kill().expect("a child that runs");
        }
    }
    let status = child.wait().expect("the child has ended");
    assert!(count >= enough && !status.success(), "it ended by itself, {status}");
    printed
}

fn survives(engine: EngineKind) {
    let mut rng = common::Rng::with_seed(common::seed(77));
    for log in common::kinds_in_nvram() {
        let folder = tempfile::tempdir().expect("folder");
        for round in 0..3 {
            let printed = run(folder.path(), engine, log, rng.usize(100..900));
            let context = format!("{log}, round {round}");
            let database = Database::open_with(folder.path(), options(engine, log)).expect(&context);
            let table = database.open_table("t").expect("open table").expect("the table");
            let found = contents(&database, &table);
            for (thread, printed) in (0..).zip(printed) {
                let last = found.get(format!("last-{thread}").as_bytes());
                let last = last.map(|last| u64::from_le_bytes(last[..].try_into().expect("a number")));
                assert!(last >= printed, "{context}: thread {thread} printed {printed:?}, found {last:?}");
                let Some(last) = last else { continue };
                for number in last.saturating_sub(39)..=last {
                    let row = &found[&key(thread * 1000 + number % 40)];
                    assert!(*row == value(thread, number), "{context}: row {number} of thread {thread}");
                }
            }
            common::assert_sound(&database.verify(None).expect("verify"));
            // The next child goes on from a store that was closed, or from one that was not.
            if round == 1 {
                database.close().expect("close");
            }
        }
    }
}

#[test]
fn a_killed_process_has_lost_nothing_that_it_printed_paged() {
    survives(EngineKind::Paged);
}

#[test]
fn a_killed_process_has_lost_nothing_that_it_printed_memory() {
    survives(EngineKind::Memory);
}
