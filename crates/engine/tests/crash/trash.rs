//! Crashes on a device that may write a sector in part ([`Survival::Trash`]): the sectors of the
//! call under way at the crash may hold garbage.
//!
//! Here a crash in a call to a segment of the log leaves no garbage, because garbage in a segment
//! can lose acknowledged records (`crates/wal/tests/main/trash.rs`). Garbage in any other file may
//! lose nothing, and opening must succeed. The other files are pages in place, the double-write
//! area, the control files of the engine and of the log, and checkpoints of the memory engine.

use crate::client::Client;
use crate::common::{self, Rng};
use crate::history::History;
use crate::machine::Machine;
use crate::worker;
use katydid::EngineKind;
use katydid::testing::Background;
use katydid_device::{Fault, Survival, Verb};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Step numbers by the kind of file that the step writes or syncs.
type Steps = BTreeMap<&'static str, Vec<u64>>;

/// Returns the kinds of files that the test must reach.
pub fn kinds(engine: EngineKind) -> &'static [&'static str] {
    match engine {
        EngineKind::Paged => &["pages", "double-write area", "control file", "log's control file"],
        _ => &["checkpoint", "control file", "log's control file"],
    }
}

/// Returns the kind of file that a path names; none for directories, and for segments of the log.
fn kind(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "katydid.pages" => Some("pages"),
        "doublewrite" => Some("double-write area"),
        "katydid.control" | "katydid.control.new" => Some("control file"),
        "" => None,
        _ if name.contains("control") => Some("log's control file"),
        _ if path.contains("checkpoints/") => Some("checkpoint"),
        _ if path.contains("log/") => None,
        _ => Some("other"),
    }
}

/// The path of the file that the device crashed in.
type CrashedIn = Arc<Mutex<String>>;

/// Makes the device crash at this step.
fn crash_at(machine: &Machine, at: u64) -> CrashedIn {
    let crashed_in = CrashedIn::default();
    let path_of_step = crashed_in.clone();
    machine.device.fail_when(move |_, path, step| {
        (step == at).then(|| {
            path.clone_into(&mut path_of_step.lock().expect("no panic"));
            Fault::Crash
        })
    });
    crashed_in
}

/// Restarts after a crash; garbage is left in the file that the crash interrupted, unless that is a
/// segment of the log.
fn restart(machine: &Machine, crashed_in: &CrashedIn, random: &mut Rng) -> Machine {
    let leaves_garbage = kind(&crashed_in.lock().expect("no panic")).is_some();
    machine.restart_with(random.u64(..), if leaves_garbage { Survival::Trash } else { Survival::Random })
}

/// Returns the steps of a run without a crash.
fn steps(engine: EngineKind, seed: u64, units: usize) -> Steps {
    let found = Arc::<Mutex<Steps>>::default();
    let seen = found.clone();
    let machine = Machine::new(engine, seed, Background::Caller);
    machine.device.fail_when(move |verb, path, step| {
        if matches!(verb, Verb::Write | Verb::Sync)
            && let Some(kind) = kind(path)
        {
            seen.lock().expect("no panic").entry(kind).or_default().push(step);
        }
        None
    });
    Client::new(&machine, seed, &mut History::default()).run(units).expect("a run without a crash");
    std::mem::take(&mut *found.lock().expect("no panic"))
}

/// Crashes at this step, and up to two times in the recoveries after it.
fn crash_once(engine: EngineKind, seed: u64, units: usize, step: u64) {
    let mut random = Rng::with_seed(seed ^ step << 32);
    let mut history = History::default();
    let mut machine = Machine::new(engine, seed, Background::Caller);
    let crashed_in = crash_at(&machine, step);
    crate::expect_crash(Client::new(&machine, seed, &mut history).run(units), &machine);
    machine.device.freeze();
    machine = restart(&machine, &crashed_in, &mut random);
    for _ in 0..random.usize(0..3) {
        let crashed_in = crash_at(&machine, random.u64(0..60));
        match machine.open(seed) {
            Ok(database) => {
                machine.device.freeze();
                drop(database);
            }
            Err(error) => assert!(machine.device.is_crashed(), "recovery failed: {error}"),
        }
        machine = restart(&machine, &crashed_in, &mut random);
    }
    let database = machine.open(seed).unwrap_or_else(|error| panic!("recovery failed: {error}"));
    let found = crate::everything(&database);
    history.survivors(&found);
    common::assert_sound(&database.verify(None).expect("verify"));
}

/// Crashes of one workload, at up to `of_each` steps of each kind of file. Returns the number of
/// crashes of each kind.
pub fn crashes(engine: EngineKind, seed: u64, units: usize, of_each: usize) -> BTreeMap<&'static str, u64> {
    // The thread's number picks the stream of the log, and so the steps.
    let number = seed as usize;
    let mut all = worker::on_number(number, || steps(engine, seed, units));
    let mut random = Rng::with_seed(seed);
    let mut counts = BTreeMap::new();
    for (kind, steps) in &mut all {
        random.shuffle(steps);
        for step in steps.iter().take(of_each) {
            crate::replay(
                || worker::on_number(number, || crash_once(engine, seed, units, *step)),
                || println!("{engine} engine, KATYDID_SEED={seed}, crash at step {step}: {kind}"),
            );
            *counts.entry(*kind).or_default() += 1;
        }
    }
    counts
}
