//! Runs one small test body under the checker that this build is for.
//!
//! A body is written once, against `sync_shim`, and starts threads with [`spawn`]. The macro
//! [`checked!`](crate::checked!) makes tests that are named `loom_…`, `explore_…` and `miri_…`.
//! `cargo xtask loom`, `explore` and `miri` select the tests by these names. In an ordinary build a
//! body runs 300 times on real threads.

#[cfg(katydid_explore)]
pub use crate::explore::{JoinHandle, spawn};
#[cfg(all(loom, not(katydid_explore)))]
pub use loom::thread::{JoinHandle, spawn};
#[cfg(not(any(loom, katydid_explore)))]
pub use std::thread::{JoinHandle, spawn};

/// Checks `body`. `preemptions` is the maximum number of preemptions in a run; `None` sets no
/// bound.
///
/// The explorer must try every run within the bound. The number of runs must be at least half of
/// the number that `explored.txt` records for the body, because fewer runs mean that the body does
/// less than before. If `KATYDID_EXPLORED=FILE` is set, this function does not compare the number,
/// but appends it to that file as one line.
#[cfg(katydid_explore)]
pub fn check(preemptions: Option<u32>, body: impl Fn() + Send + Sync + 'static) {
    let explorer = crate::explore::Explorer { preemptions, ..Default::default() };
    let report = match explorer.check(body) {
        Ok(report) => report,
        Err(failure) => panic!("{}\npath {:?}\n{}", failure.message, failure.path, failure.trace.join("\n")),
    };
    assert!(
        report.complete,
        "{} runs were not all there are: lower the bound, or make the body smaller",
        report.executions
    );
    let thread = std::thread::current();
    written_down(thread.name().expect("a test's thread has the test's name"), report.executions);
}

/// The recorded number of runs of each body, in the order of the names.
#[cfg(katydid_explore)]
const EXPLORED: &str = include_str!("explored.txt");

#[cfg(katydid_explore)]
fn written_down(name: &str, runs: u64) {
    use std::io::Write;
    println!("{name} {runs}");
    if let Some(path) = std::env::var_os("KATYDID_EXPLORED") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("open");
        file.write_all(format!("{name} {runs}\n").as_bytes()).expect("write");
        return;
    }
    let known = EXPLORED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let known: u64 = known.and_then(|known| known.parse().ok()).unwrap_or_else(|| {
        panic!("{name} took {runs} runs, and is not in explored.txt: see the head of that function")
    });
    assert!(runs >= known / 2, "{name} took {runs} runs, and {known} when that was written down");
}

/// Checks `body` under loom. `LOOM_MAX_PREEMPTIONS` replaces every body's own bound.
#[cfg(all(loom, not(katydid_explore)))]
pub fn check(preemptions: Option<u32>, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(preemptions.map(|most| most as usize));
    model.check(body);
}

/// Runs `body` on real threads.
#[cfg(not(any(loom, katydid_explore)))]
pub fn check(_preemptions: Option<u32>, body: impl Fn() + Send + Sync + 'static) {
    // Miri itself varies the schedule, by its seed.
    for _ in 0..if cfg!(miri) { 4 } else { 300 } {
        body();
    }
}

/// Returns whether this build's checker finds a failure of `body`.
#[cfg(katydid_explore)]
pub fn catches(preemptions: u32, body: impl Fn() + Send + Sync + 'static) -> bool {
    let explorer = crate::explore::Explorer { preemptions: Some(preemptions), ..Default::default() };
    crate::explore::catches(&explorer, body)
}

/// Returns whether loom finds a failure of `body`. A run that never ends counts as a failure: sound
/// bodies have no such run.
#[cfg(all(loom, not(katydid_explore)))]
pub fn catches(preemptions: u32, body: impl Fn() + Send + Sync + 'static) -> bool {
    // The check has a thread of its own, because a failed model of loom leaves state behind in its
    // thread.
    std::thread::spawn(move || check(Some(preemptions), body)).join().is_err()
}

/// The checkers that notice a mutant.
#[cfg(any(loom, katydid_explore))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detectors {
    /// Loom and the explorer.
    Both,
    /// The explorer only: loom 0.7 tries fewer of the values that a load may return.
    Explorer,
}

/// Asserts that this build's checker notices each mutant for which `table` lists this checker.
/// `caught` returns whether the checker notices a mutant.
#[cfg(any(loom, katydid_explore))]
pub fn all_noticed<M: Copy + std::fmt::Debug>(table: &[(M, Detectors)], caught: impl Fn(M) -> bool) {
    for &(mutant, detectors) in table {
        if detectors == Detectors::Both || cfg!(katydid_explore) {
            assert!(caught(mutant), "{mutant:?} was not noticed");
        }
    }
}

/// Makes a test of a table of mutants for loom, and one for the explorer.
#[cfg(any(loom, katydid_explore))]
#[macro_export]
macro_rules! noticed {
    ($loom:ident $explore:ident, $table:expr, $caught:expr) => {
        #[cfg(all(loom, not(katydid_explore)))]
        #[test]
        fn $loom() {
            $crate::checking::all_noticed(&$table, $caught);
        }

        #[cfg(katydid_explore)]
        #[test]
        fn $explore() {
            $crate::checking::all_noticed(&$table, $caught);
        }
    };
}

/// Makes one test of a body for each checker, under the name that is given for that checker.
#[macro_export]
macro_rules! checked {
    ($(#[$doc:meta])* $loom:ident $explore:ident $miri:ident, $preemptions:expr, $body:expr) => {
        $(#[$doc])*
        #[cfg(all(loom, not(katydid_explore)))]
        #[test]
        fn $loom() {
            $crate::checking::check($preemptions, $body);
        }

        $(#[$doc])*
        #[cfg(katydid_explore)]
        #[test]
        fn $explore() {
            $crate::checking::check($preemptions, $body);
        }

        $(#[$doc])*
        #[cfg(not(any(loom, katydid_explore)))]
        #[test]
        fn $miri() {
            $crate::checking::check($preemptions, $body);
        }
    };
}
