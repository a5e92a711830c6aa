//! Puts faults (mutants) into a copy of the tree, one at a time, to check that the tests notice
//! them.
//!
//! A mutant consists of a file, a text that occurs exactly once in the file, and a replacement. The
//! copy lies in the target folder, so the working tree does not change. The copy contains the files
//! as they are, committed or not. All mutants share the copy and its builds. The run continues
//! after a mutant that is not caught, and fails at the end.
//!
//! 1. Only a failed test catches a mutant. A mutant that does not compile is an error of the list,
//!    and fails the run.
//! 2. A mutant that aborts or hangs is reported as such, and fails the run, unless [`OTHERWISE`]
//!    names this [`Sign`] for the mutant.
//! 3. Before the first mutant that a set of tests must catch, this set must pass without any
//!    mutant, because a test that always fails would catch everything. With `--sound` the run
//!    assumes that it passes.

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

/// Sign of a mutant that makes no test fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Abort,
    Hang,
}

/// Mutants that make no test fail, each with the sign that shows it.
const OTHERWISE: &[(&str, Sign)] = &[("a snapshot's next part is waited for without limit", Sign::Hang)];

/// The mutants that are tried, and the time limits.
#[derive(clap::Args)]
pub struct Arguments {
    /// Maximum seconds of one mutant's tests
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Try only mutants whose name, file or tests contain this text
    ///
    /// The flag may be given several times; a mutant must contain one of the texts.
    #[arg(long, allow_hyphen_values = true)]
    only: Vec<String>,
    /// Try the mutants in random order
    #[arg(long)]
    random: bool,
    /// Seed of the random order, instead of a random one
    #[arg(long, requires = "random")]
    seed: Option<u64>,
    /// Number of equal parts of the random order, of which only the first is tried
    #[arg(long, requires = "random", default_value_t = 1)]
    one_in: usize,
    /// Start no further mutant after this number of seconds
    ///
    /// The first mutant is always tried.
    #[arg(long)]
    seconds_total: Option<u64>,
    /// Try only mutants of crates below the engine whose tests build and run in seconds
    ///
    /// CI tries some of these.
    #[arg(long)]
    quick: bool,
    /// Print the mutants, and try none
    #[arg(long)]
    list: bool,
    /// Leave out the run of the tests without a mutant, because they are known to pass
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

/// The command of CI's mutants: a random tenth of the quick mutants, or as many of them as can
/// start within 90 seconds. CI runs the tests without mutants beside this command, so this command
/// skips that run.
///
/// For mutants of the engine, and for mutants that only a crash suite notices, the first build
/// alone takes at least one minute of processor time, and the tests of each mutant take up to
/// several minutes. For quick mutants, the build of the log's tests takes 52 s of processor time,
/// that of the device layer's tests 13 s, and each mutant 2 s to 4 s. Five quick mutants, from an
/// empty target folder, took 68 s of processor time in all, which is 35 s to 40 s on two idle
/// cores.
pub fn few() -> Command {
    let task = ["run", "--quiet", "--package", "xtask", "--", "mutants", "--quick", "--sound", "--random"];
    let mut command = cargo(task);
    command.args(["--seconds", "120", "--one-in", "10", "--seconds-total", "90"]);
    command
}

/// Runs the tests against every chosen mutant. Fails at the end if the tests missed one.
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

/// Verdict on a mutant, and the time of its build and tests.
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

/// Prints the verdicts, slowest mutant last, and fails if the tests missed one.
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
