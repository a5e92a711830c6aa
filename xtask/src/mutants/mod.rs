//! Faults put into a copy of the tree, one at a time, to see that the tests notice.
//!
//! A mutant is a file, a text that occurs in it exactly once, and what replaces it. The copy lies
//! in the target folder, so the working tree is never touched; it is of the files as they are,
//! committed or not. All mutants share the copy and its builds. The run goes on after a mutant that
//! is not caught, and fails at its end.
//!
//! 1. A mutant is caught when a test fails, and by nothing else. One that does not compile is an
//!    error of the list, and fails the run.
//! 2. A mutant that ends in an abort or hangs is reported as such, and fails the run, unless its
//!    [`Sign`] says that this is how it shows.
//! 3. Before the first mutant of some tests, these tests must pass without any: a test that fails
//!    anyway would catch everything.

mod bench;
mod list;
mod mutant;

use crate::run::{Outcome, cargo};
use bench::{Bench, Verdict};
use list::all;
use mutant::Mutant;
use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sign of a mutant, if it is not a failed test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Abort,
    Hang,
}

/// Mutants that do not show by a failed test, and why no test can say so.
const OTHERWISE: &[(&str, Sign)] = &[];

/// The mutants that are tried, and the time limits.
#[derive(clap::Args)]
pub struct Arguments {
    /// For how long the tests of one mutant may run, in seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Only mutants whose name, file or tests contain this. May be given several times.
    #[arg(long, allow_hyphen_values = true)]
    only: Vec<String>,
    /// In random order.
    #[arg(long)]
    random: bool,
    /// The order's seed, instead of a random one.
    #[arg(long, requires = "random")]
    seed: Option<u64>,
    /// Try one mutant in this number: those that come first in the random order.
    #[arg(long, requires = "random", default_value_t = 1)]
    one_in: usize,
    /// Begin no other mutant after this number of seconds. The first is always tried.
    #[arg(long)]
    seconds_total: Option<u64>,
    /// Only mutants of crates below the engine whose tests build and run in seconds: those that CI
    /// takes some of.
    #[arg(long)]
    quick: bool,
    /// Print the mutants and try none.
    #[arg(long)]
    list: bool,
    /// The tests are known to pass without any mutant: they are not run so first.
    #[arg(long)]
    sound: bool,
}

impl Arguments {
    fn chooses(&self, mutant: &Mutant) -> bool {
        let is_named = |only: &String| {
            mutant.name.contains(only) || mutant.file.contains(only) || mutant.tests.join(" ").contains(only)
        };
        (self.only.is_empty() || self.only.iter().any(is_named)) && (!self.quick || mutant.is_quick())
    }
}

/// The command of CI's mutants: a random tenth of the quick mutants, or the part of it that can be
/// begun in 90 seconds. CI runs the tests that are to notice them beside this, so they are not run
/// without a mutant first.
///
/// Mutants of the engine, and those that only a crash suite notices, take a minute or more of
/// processor time for the first build alone, and up to minutes each for the tests. Quick ones take
/// 52 s of processor time for the build of the log's tests, 13 s for that of the device layer's,
/// and 2 s to 4 s each: five of them, from an empty target folder, took 68 s in all, which is 35 s
/// to 40 s on two idle cores.
pub fn few() -> Command {
    let task = ["run", "--quiet", "--package", "xtask", "--", "mutants", "--quick", "--sound", "--random"];
    let mut command = cargo(task);
    command.args(["--seconds", "120", "--one-in", "10", "--seconds-total", "90"]);
    command
}

/// Runs the tests against every mutant that is chosen; fails at the end if one was not caught.
pub fn run(arguments: &Arguments) -> Outcome {
    let start = Instant::now();
    let mut wanted: Vec<&Mutant> = all().filter(|mutant| arguments.chooses(mutant)).collect();
    if arguments.list {
        wanted
            .iter()
            .for_each(|mutant| println!("{} ({}; {})", mutant.name, mutant.file, mutant.tests.join(" ")));
        println!("{} mutants", wanted.len());
        return Ok(());
    }
    if wanted.is_empty() {
        return Err("no such mutant: see --list".into());
    }
    if arguments.random {
        let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
        let quick = if arguments.quick { " --quick" } else { "" };
        println!("again: cargo xtask mutants --random --seed {seed} --one-in {}{quick}", arguments.one_in);
        fastrand::Rng::with_seed(seed).shuffle(&mut wanted);
        wanted.truncate(wanted.len().div_ceil(arguments.one_in.max(1)));
    }
    let bench = Bench::new(Duration::from_secs(arguments.seconds))?;
    let mut rows = Vec::new();
    let mut sound = BTreeMap::new();
    for mutant in &wanted {
        let is_over = arguments.seconds_total.is_some_and(|total| start.elapsed().as_secs() >= total);
        if !rows.is_empty() && is_over {
            break;
        }
        let is_sound = match sound.get(mutant.tests) {
            _ if arguments.sound => true,
            Some(known) => *known,
            None => {
                let without = bench.without_any(mutant.tests)?;
                let is_sound = matches!(without, Verdict::Survived);
                if !is_sound {
                    println!("without any mutant, {}: {without}", mutant.tests.join(" "));
                }
                sound.insert(mutant.tests, is_sound);
                is_sound
            }
        };
        let began = Instant::now();
        let verdict = if is_sound { bench.try_mutant(mutant)? } else { Verdict::Unfit };
        let row = Row { name: mutant.name, verdict, took: began.elapsed() };
        println!("{row}");
        rows.push(row);
    }
    table(rows, wanted.len())
}

/// Verdict on a mutant, and the time of its build and its tests.
struct Row {
    name: &'static str,
    verdict: Verdict,
    took: Duration,
}

impl Row {
    fn is_caught(&self) -> bool {
        let expected = OTHERWISE.iter().find(|(name, _)| *name == self.name).map(|(_, sign)| *sign);
        match self.verdict {
            Verdict::Caught(_) => expected.is_none(),
            Verdict::Aborted(_) => expected == Some(Sign::Abort),
            Verdict::Hung(_) => expected == Some(Sign::Hang),
            Verdict::Survived | Verdict::Unbuilt(_) | Verdict::Unfit => false,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:4} s  {}: {}", self.took.as_secs(), self.name, self.verdict)
    }
}

/// Prints what became of the mutants, slowest last, and fails if one was not caught.
fn table(mut rows: Vec<Row>, wanted: usize) -> Outcome {
    let tried = rows.len();
    rows.sort_by_key(|row| row.took);
    let (caught, wrong): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(Row::is_caught);
    let took: Duration = caught.iter().chain(&wrong).map(|row| row.took).sum();
    println!("== {tried} of {wanted} chosen mutants were tried, in {} s", took.as_secs());
    caught.iter().for_each(|row| println!("{row}"));
    println!("evidence: {tried} mutants");
    if wrong.is_empty() {
        return Ok(());
    }
    println!("== not caught");
    wrong.iter().for_each(|row| println!("{row}"));
    Err(format!("{} of {tried} mutants were not caught", wrong.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;
    use std::collections::BTreeSet;

    #[test]
    fn the_text_of_each_mutant_occurs_exactly_once() {
        let mut texts = BTreeMap::new();
        let mut wrong = Vec::new();
        for mutant in all() {
            let text = texts
                .entry(mutant.file)
                .or_insert_with(|| std::fs::read_to_string(root().join(mutant.file)).unwrap_or_default());
            let found = text.matches(mutant.old).count();
            if found != 1 {
                wrong.push(format!("{}: {found} times in {}", mutant.name, mutant.file));
            }
        }
        assert!(wrong.is_empty(), "mend these in xtask/src/mutants/list:\n  {}", wrong.join("\n  "));
    }

    #[test]
    fn each_mutant_has_a_name_of_its_own_and_changes_something() {
        let names: BTreeSet<_> = all().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), all().count(), "two mutants have one name");
        for mutant in all() {
            assert_ne!(mutant.old, mutant.new, "{}", mutant.name);
        }
        assert!(names.len() >= 100, "{} mutants", names.len());
        for number in 1..=10 {
            let is_there = names.iter().any(|name| name.starts_with(&format!("audit-{number}: ")));
            assert!(is_there, "no mutant is of bug {number} that a reading of the tests has found");
        }
        for (name, _) in OTHERWISE {
            assert!(names.contains(name), "no mutant is called: {name}");
        }
    }
}
