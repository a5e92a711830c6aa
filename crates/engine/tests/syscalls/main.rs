//! The system calls of the real program are enough for its promises. A tracer follows lives on real
//! files call by call, and replays the calls into a model of what a crash of the machine may leave.
//! At every call the model's files are opened and compared with what was acknowledged by then.
//!
//! Other tests cannot see whether `FileDirectory` syncs at all: the simulated device stands in its
//! place, and a killed process leaves its pages to the kernel. ADR 24 says why this is a tracer.
//!
//! A crash is tried with two kinds of survivors:
//!
//! - Only the promised bytes survive. This crash is tried before each event that makes more bytes
//!   survive, against everything acknowledged by then. So it has the same result as a crash at
//!   every call.
//! - Any un-synced sectors, lengths and names survive: at some calls, which the seed picks.
//!
//! The threads of a life run as they like, so a seed gives the same transactions, not the same
//! trace. `KATYDID_SEED` sets the seed; without it each run has a new one. The tests need ptrace.
//! With `KATYDID_NO_PTRACE=1` the tests do not run, and print that.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // the crash suite uses more of it
#[path = "../crash/history.rs"]
mod history;

mod disk;
mod life;
mod log;
mod rings;
mod tracer;
mod watched;

use common::{Rng, block_on};
use disk::{Disk, Event};
use history::Model;
use katydid::testing::Background;
use katydid::{Database, EngineKind, Method, SyncKind};
use katydid_device::{Directory, FileDirectory, MemoryDirectory, StripedDirectory, Survival};
use life::{CLIENTS, Life, Script};
use log::LogLife;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tracer::follow;
use watched::{Seen, Watched};

const CHILD: &str = "KATYDID_TEST_LIFE";
const STRIPE_UNIT: u64 = 8 << 10;

/// Folders of a life, below a folder that is empty and durable.
#[derive(Debug, Clone)]
pub struct LifeFolders {
    root: PathBuf,
    is_striped: bool,
}

impl LifeFolders {
    fn open(&self) -> katydid_device::Result<Arc<dyn Directory>> {
        if !self.is_striped {
            return Ok(Arc::new(FileDirectory::open(self.root.join("above").join("store"))?));
        }
        let folder = |nth: usize| Ok(Arc::new(FileDirectory::open(self.root.join(nth.to_string()))?) as _);
        let folders = (0..2).map(folder).collect::<katydid_device::Result<_>>()?;
        Ok(Arc::new(StripedDirectory::open(folders, STRIPE_UNIT)?))
    }

    /// Opens the folders of the life in the directory that a crash has left.
    fn open_left(&self, left: &MemoryDirectory) -> Arc<dyn Directory> {
        let inside = |directory: &dyn Directory, name: &str| directory.subdirectory(name).expect("memory");
        if !self.is_striped {
            return inside(inside(left, "above").as_ref(), "store");
        }
        let folders = (0..2).map(|nth| inside(left, &nth.to_string())).collect();
        Arc::new(StripedDirectory::open(folders, STRIPE_UNIT).expect("open what the crash left"))
    }
}

/// The subject of a life.
#[derive(Debug, Clone, Copy)]
enum Case {
    Store(Life),
    Log(LogLife),
}

impl Case {
    /// Returns the case in words, for the child.
    fn words(self) -> String {
        match self {
            Case::Store(Life { engine, method, page_method, seed, units }) => {
                format!("store {engine} {method} {page_method} {seed} {units}")
            }
            Case::Log(LogLife { sync, method, seed, records }) => {
                format!("log {sync} {method} {method} {seed} {records}")
            }
        }
    }

    fn of_words(words: &[&str]) -> Case {
        let [kind, what, method, page_method, seed, length] = words else { panic!("six words: {words:?}") };
        let (method, seed) = (method.parse().expect("a method"), seed.parse().expect("a seed"));
        let page_method = page_method.parse().expect("a method");
        match *kind {
            "store" => {
                let (engine, units) = (what.parse().expect("an engine"), length.parse().expect("a number"));
                Case::Store(Life { engine, method, page_method, seed, units })
            }
            _ => {
                let (sync, records) = (what.parse().expect("a protocol"), length.parse().expect("a number"));
                Case::Log(LogLife { sync, method, seed, records })
            }
        }
    }

    fn seed(self) -> u64 {
        match self {
            Case::Store(life) => life.seed,
            Case::Log(life) => life.seed,
        }
    }

    fn method(self) -> Method {
        match self {
            Case::Store(life) => life.method,
            Case::Log(life) => life.method,
        }
    }

    fn next_process(self, process: usize) -> Option<usize> {
        match self {
            Case::Store(_) => Life::next_process(process),
            Case::Log(_) => LogLife::next_process(process),
        }
    }
}

/// A process of a life. Does nothing in an ordinary run.
#[test]
fn child() {
    let Ok(description) = std::env::var(CHILD) else { return };
    let (words, folder) = description.split_once('\n').expect("words and a folder");
    let words: Vec<&str> = words.split(' ').collect();
    let (process, words) = words.split_last().expect("words");
    let (is_striped, words) = words.split_last().expect("words");
    let place = LifeFolders { root: folder.into(), is_striped: *is_striped == "true" };
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("the parent lives");
    let process = process.parse().expect("a number");
    match Case::of_words(words) {
        Case::Store(life) => life.run(&place, process),
        Case::Log(life) => life.run(&place, process),
    }
}

/// Runs all processes of a life. Returns their events, and counts of what was seen.
fn trace(case: Case, place: &LifeFolders) -> (Vec<Event>, Seen) {
    let mut watched = Watched::new(&place.root);
    let mut process = Some(0);
    while let Some(nth) = process {
        let root = place.root.display();
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{} {} {nth}\n{root}", case.words(), place.is_striped))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while !line.ends_with("ready\n") {
            line.clear();
            assert!(output.read_line(&mut line).expect("the child says it") > 0, "the child is not ready");
        }
        // From now on the trace has what the child prints; a thread only has to empty the pipe.
        let reader = std::thread::spawn(move || drop(std::io::copy(&mut output, &mut std::io::sink())));
        let code = follow(&mut watched, child, || input.write_all(b"go\n").expect("the child reads"));
        assert_eq!(code, 0, "the child failed");
        reader.join().expect("no panic");
        process = case.next_process(nth);
    }
    (watched.events, watched.seen)
}

/// Numbers that the processes of a life have announced up to some event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Announced {
    acknowledged: [u64; CLIENTS],
    trimmed: u64,
}

impl Announced {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acknowledged", client, count] => {
                let client: usize = client.parse().expect("a client");
                self.acknowledged[client] = count.parse().expect("a number");
            }
            ["trimmed", _, number] => self.trimmed = self.trimmed.max(number.parse().expect("a number")),
            _ => {}
        }
    }
}

/// A life to be judged.
struct Judge {
    case: Case,
    place: LifeFolders,
    scripts: Vec<Script>,
    events: Vec<Event>,
}

impl Judge {
    /// Opens and checks what a crash after the first `at` events leaves.
    fn check(&self, disk: &Disk, said: &Announced, at: usize, survival: Survival, seed: u64) {
        let _explain = Explain { judge: self, at, said: said.clone(), survival, seed };
        let left = disk.survivor(survival, &mut Rng::with_seed(seed));
        let directory = self.place.open_left(&left);
        match self.case {
            Case::Log(life) => life.check(directory, said.acknowledged[0], said.trimmed),
            Case::Store(life) => {
                let life = Life { method: Method::Buffered, page_method: Method::Buffered, ..life };
                let database = Database::open_in(directory, life.options(Background::Caller))
                    .unwrap_or_else(|error| panic!("what the crash left does not open: {error}"));
                let mut found: Vec<Model> = vec![Model::new(); CLIENTS];
                for name in database.tables().expect("tables") {
                    let table = database.open_table(&name).expect("open table").expect("a listed table");
                    let client: usize = name[..1].parse().expect("a client's table");
                    found[client].insert(name, common::contents(&database, &table));
                }
                for (client, found) in found.iter().enumerate() {
                    println!("client {client}");
                    self.scripts[client].history(said.acknowledged[client] as usize).survivors(found);
                }
                if survival != Survival::DropAll {
                    common::assert_sound(&database.verify(None).expect("verify"));
                }
            }
        }
    }

    /// Crashes everywhere. Returns the number of crashes.
    fn judge(&self, random: &mut Rng, others: usize) -> usize {
        let (mut disk, mut said, mut crashes) = (Disk::new(), Announced::default(), 0);
        for (at, event) in self.events.iter().enumerate() {
            // Since the last event that made more bytes kept, the kept bytes have not changed, and
            // acknowledgements have only been added. So one check just before this event has the
            // result of a check at each event since then.
            if disk.keeps(event) {
                self.check(&disk, &said, at, Survival::DropAll, 0);
                crashes += 1;
            }
            if random.usize(..self.events.len()) < others {
                self.check(&disk, &said, at, Survival::Random, random.u64(..));
                crashes += 1;
            }
            disk.apply(event);
            if let Event::Say(line) = event {
                said.hear(line);
            }
        }
        for survival in [Survival::DropAll, Survival::KeepAll] {
            self.check(&disk, &said, self.events.len(), survival, 0);
            crashes += 1;
        }
        crashes
    }
}

/// Prints where a check failed.
struct Explain<'a> {
    judge: &'a Judge,
    at: usize,
    said: Announced,
    survival: Survival,
    seed: u64,
}

impl Drop for Explain<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let Explain { judge, at, said, survival, seed } = self;
        println!("{:?} in {:?}", judge.case, judge.place);
        println!(
            "crash after {at} of {} events, {survival:?}, seed {seed}; said: {said:?}",
            judge.events.len()
        );
        for (nth, event) in judge.events[..*at].iter().enumerate().skip(at.saturating_sub(16)) {
            match event {
                Event::Write { call, file, offset, bytes } => {
                    println!("{nth}: call {call} writes {} bytes at {offset} of file {file}", bytes.len());
                }
                Event::Ended { found } => println!("{nth}: the process ended, leaving {} files", found.len()),
                other => println!("{nth}: {other:?}"),
            }
        }
        let seed = judge.case.seed();
        println!("about the same again: KATYDID_SEED={seed} cargo test -p katydid --test syscalls");
    }
}

/// Prints why a test does not run. Writes to the standard error directly, because libtest hides
/// what the macros print in a test that passes.
fn not_run(why: &str) {
    writeln!(std::io::stderr(), "NOT RUN: {why}").ok();
}

fn is_permitted() -> bool {
    let left_out = std::env::var_os("KATYDID_NO_PTRACE").is_some();
    if left_out {
        not_run("KATYDID_NO_PTRACE is set, so no system call is looked at");
    }
    !left_out
}

/// Folders for the files of lives. A life runs in the first one that takes its method. Target
/// folders may be in memory (tmpfs), where the kernel takes no write through a ring.
const PLACES: [&str; 2] = [env!("CARGO_TARGET_TMPDIR"), "/var/tmp"];

/// Returns the first of [`PLACES`] that takes this method, if one does.
fn place_for(method: Method) -> Option<&'static str> {
    PLACES.into_iter().find(|place| takes(place, method))
}

/// Runs a life, and crashes it everywhere.
fn live(case: Case, is_striped: bool) -> Seen {
    let place = place_for(case.method()).unwrap_or(PLACES[0]);
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let place = LifeFolders { root: folder.path().to_owned(), is_striped };
    let (events, seen) = trace(case, &place);
    let scripts = match case {
        Case::Store(life) => (0..CLIENTS).map(|client| Script::of(life, client)).collect(),
        Case::Log(_) => Vec::new(),
    };
    let judge = Judge { case, place, scripts, events };
    let crashes = judge.judge(&mut Rng::with_seed(case.seed()), 40);
    println!("{case:?}: {} events, {seen:?}", judge.events.len());
    println!("evidence: {crashes} crash points");
    seen
}

/// Returns whether files in this folder can be opened for this method and, if the method has rings,
/// be written through one.
fn takes(place: &str, method: Method) -> bool {
    let Ok(folder) = tempfile::tempdir_in(place) else { return false };
    let directory = FileDirectory::open(folder.path()).expect("open");
    let file = directory.open("probe", katydid_device::Create::New, method).expect("create");
    let has_rings = method == Method::Uring;
    file.method() == method && (!has_rings || takes_no_wait(&folder.path().join("probe")))
}

/// Returns whether the file system takes calls that must not wait (`RWF_NOWAIT`). All writes
/// through a ring are such calls. If the file system refuses them, the file writes as a direct file
/// does.
fn takes_no_wait(file: &Path) -> bool {
    let file = File::open(file).expect("open the probe");
    let read = rustix::io::preadv2(&file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT);
    read != Err(Errno::OPNOTSUPP)
}

fn lives(engine: EngineKind, method: Method, page_method: Method, is_striped: bool) {
    if !is_permitted() {
        return;
    }
    let seed = common::seed(common::fresh_seed());
    println!("KATYDID_SEED={seed}");
    let seen = live(Case::Store(Life { engine, method, page_method, seed, units: 12 }), is_striped);
    expect(method, &seen);
}

/// Asserts that the life made the calls that it was to test.
fn expect(method: Method, seen: &Seen) {
    assert!(seen.folder_syncs > 3 && seen.file_syncs > 3, "{seen:?}");
    if place_for(method).is_none() {
        let places = PLACES.join(" and ");
        not_run(&format!("the file systems of {places} do not take {method}; the life ran without it"));
        return;
    }
    match method {
        Method::Buffered => assert_eq!(seen.direct_opens, 0, "{seen:?}"),
        Method::Direct => assert!(seen.direct_opens > 0 && seen.durable_writes > 10, "{seen:?}"),
        _ => assert!(seen.durable_ring_writes > 10, "no durable write through a ring: {seen:?}"),
    }
}

suite! {
    what_buffered_files_keep_is_what_was_acknowledged,
    what_direct_files_keep_is_what_was_acknowledged,
    what_rings_keep_is_what_was_acknowledged,
    what_striped_files_keep_is_what_was_acknowledged,
}

fn what_buffered_files_keep_is_what_was_acknowledged(engine: EngineKind) {
    lives(engine, Method::Buffered, Method::Buffered, false);
}

fn what_direct_files_keep_is_what_was_acknowledged(engine: EngineKind) {
    // Pages have their default method.
    lives(engine, Method::Direct, Method::Buffered, false);
}

fn what_rings_keep_is_what_was_acknowledged(engine: EngineKind) {
    lives(engine, Method::Uring, Method::Uring, false);
}

fn what_striped_files_keep_is_what_was_acknowledged(engine: EngineKind) {
    lives(engine, Method::Direct, Method::Direct, true);
}

#[test]
fn what_a_log_alone_keeps_is_what_was_acknowledged() {
    if !is_permitted() {
        return;
    }
    let seed = common::seed(common::fresh_seed());
    println!("KATYDID_SEED={seed}");
    for (nth, sync) in SyncKind::ALL.into_iter().enumerate() {
        let method = Method::ALL[(nth + seed as usize % 3) % 3];
        live(Case::Log(LogLife { sync, method, seed, records: 60 }), nth % 2 == 1);
    }
}

/// The model forgets what was not synced. If it did not, the other tests would show nothing.
#[test]
fn the_model_keeps_only_what_was_promised() {
    use disk::{Naming, Node};
    let (file, folder) = (0, 0);
    let name = Naming::Create("a".to_owned(), Node::File(file));
    let write = |call, byte| Event::Write { call, file, offset: 0, bytes: vec![byte; 700] };
    let wrote = |call, durable| Event::Wrote { call, file, count: 700, durable };
    let sync = |call, node| [Event::Sync { call }, Event::Synced { call, node }];
    let left = |events: &[Event]| {
        let mut disk = Disk::new();
        events.iter().for_each(|event| disk.apply(event));
        let left = disk.survivor(Survival::DropAll, &mut Rng::with_seed(1));
        let file = left.open_read_only("a").ok()?;
        let mut bytes = vec![0; file.len().expect("memory") as usize];
        file.read_at(&mut bytes, 0).expect("memory");
        Some(bytes)
    };
    let create = Event::Name { folder, naming: name };
    let [sync_begins, sync_ends] = sync(9, Node::File(file));
    let [names_begin, names_end] = sync(10, Node::Folder(folder));
    let named = [create.clone(), names_begin.clone(), names_end.clone()];
    let with = |more: &[Event]| left(&[&named[..], more].concat());
    assert_eq!(left(&[create, write(1, 1), wrote(1, true)]), None, "a name that was not synced");
    assert_eq!(with(&[write(1, 1), wrote(1, false)]), Some(Vec::new()), "nothing was synced");
    assert_eq!(with(&[write(1, 1), wrote(1, true)]), Some(vec![1; 700]), "a durable write");
    assert_eq!(with(&[write(1, 1)]), Some(Vec::new()), "a durable write that has not returned");
    let synced = [write(1, 1), wrote(1, false), sync_begins.clone(), sync_ends.clone()];
    assert_eq!(with(&synced), Some(vec![1; 700]), "written and synced");
    let beside = [sync_begins, write(1, 1), wrote(1, false), sync_ends];
    assert_eq!(with(&beside), Some(Vec::new()), "written after the sync began");
    let over = [write(1, 1), wrote(1, false), write(2, 2), wrote(2, true)];
    assert_eq!(with(&over), Some(vec![2; 700]), "a durable write over another");
    let removed = Event::Name { folder, naming: Naming::Remove("a".to_owned()) };
    assert_eq!(
        with(&[write(1, 1), wrote(1, true), removed]),
        Some(vec![1; 700]),
        "a removal that was not synced"
    );
}
