//! Runs the built program and collects its output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Output and exit code of a run.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Asserts the exit code, and returns standard output.
    #[track_caller]
    pub fn expect(self, code: i32) -> String {
        assert_eq!(self.code, code, "standard output:\n{}\nstandard error:\n{}", self.out, self.err);
        self.out
    }

    /// Asserts the exit code, and that standard error contains `text`.
    #[track_caller]
    pub fn expect_error(self, code: i32, text: &str) {
        assert!(self.err.contains(text), "no {text:?} in standard error:\n{}", self.err);
        self.expect(code);
    }
}

/// Makes a command that runs the program.
pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_katydid"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Done {
    done(command(arguments))
}

/// Commands that create a missing database.
const MAKERS: [&str; 8] = [
    "load ",
    "put ",
    "bench ycsb",
    "bench insert",
    "bench tpcb",
    "bench tpcc",
    "bench tatp",
    "bench sysbench",
];

/// Makes a command that runs the program with words separated by spaces, in a database folder. If
/// the words name no segment size, a new database gets small segments, because a short command
/// would spend most of its time on preparing large ones.
fn command_in(dir: &Path, words: &str) -> Command {
    let mut command = command(words.split(' '));
    if MAKERS.iter().any(|maker| words.starts_with(maker)) && !words.contains("--segment") {
        command.args(["--segment", "4MiB"]);
    }
    command.arg("--dir").arg(dir);
    command
}

/// Runs the program with words separated by spaces, in a database folder.
pub fn run_in(dir: &Path, words: &str) -> Done {
    done(command_in(dir, words))
}

/// Runs the program with standard input.
pub fn run_with_input(dir: &Path, words: &str, input: &[u8]) -> Done {
    run_on(command_in(dir, words), input)
}

/// Runs the program with standard input. No program reads its standard output.
pub fn run_unread(dir: &Path, words: &str, input: &[u8]) -> Done {
    let mut command = command_in(dir, words);
    command.stdout(closed_pipe());
    run_on(command, input)
}

/// Runs the program with words separated by spaces, in a database folder. No program reads its
/// standard error.
pub fn run_unheard(dir: &Path, words: &str) -> Done {
    let mut command = command_in(dir, words);
    command.stderr(closed_pipe());
    done(command)
}

/// Makes a pipe whose reading end is closed.
pub fn closed_pipe() -> PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

fn run_on(mut command: Command, input: &[u8]) -> Done {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    // The write fails if the program has stopped reading.
    let _may_be_refused = writer.join().unwrap();
    collected(output)
}

fn done(mut command: Command) -> Done {
    collected(command.output().unwrap())
}

pub fn collected(output: std::process::Output) -> Done {
    Done {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).expect("it prints text"),
        err: String::from_utf8(output.stderr).expect("it prints text"),
    }
}

/// Returns all files below a folder, with their contents.
pub fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.display().to_string(), fs::read(&path).unwrap())),
            }
        }
    }
    found
}

/// Returns the times of the last changes of the files below a folder.
pub fn times(dir: &Path) -> BTreeMap<String, SystemTime> {
    let changed = |path: &String| fs::metadata(path).unwrap().modified().unwrap();
    contents(dir).into_keys().map(|path| (path.clone(), changed(&path))).collect()
}

/// Returns a path in the repository.
pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Makes a generator of random numbers. Prints its seed, which `KATYDID_SEED` can set.
pub fn seeded(default: u64) -> fastrand::Rng {
    let seed = std::env::var("KATYDID_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default);
    println!("replay with KATYDID_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
