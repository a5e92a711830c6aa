//! Faults put into a copy of the tree, one at a time, to see that the tests notice.
//!
//! A mutant is a file, a text that occurs in it exactly once, and what replaces it. The copy lies in the target folder, so the working
//! tree is never touched; it is of the files as they are, committed or not. All mutants share the copy and its builds.
//!
//! 1. A mutant is caught when a test fails, and by nothing else. One that does not compile is an error of the list.
//! 2. A mutant that ends in an abort or hangs is reported as such, and fails the run, unless its [`Sign`] says that this is how it shows.
//! 3. Before the first mutant of some tests, these tests must pass without any: a test that fails anyway would catch everything.

mod bench;
mod list;

use crate::run::Outcome;
use bench::{Bench, Verdict};
use list::all;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// One fault.
pub struct Mutant {
    /// What is broken, in a few words.
    name: &'static str,
    file: &'static str,
    old: &'static str,
    new: &'static str,
    /// Arguments of `cargo test`.
    tests: &'static [&'static str],
}

/// How a mutant shows, if not by a failed test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Abort,
    Hang,
}

/// Mutants that do not show by a failed test, and why no test can say so.
const OTHERWISE: &[(&str, Sign)] = &[];

/// Which mutants are tried, and for how long.
#[derive(clap::Args)]
pub struct Arguments {
    /// For how long the tests of one mutant may run, in seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Only mutants whose name, file or tests contain this.
    #[arg(long)]
    only: Option<String>,
    /// In random order.
    #[arg(long)]
    random: bool,
    /// The order's seed, instead of a random one.
    #[arg(long, requires = "random")]
    seed: Option<u64>,
    /// Begin no other mutant after so many seconds. The first is always tried.
    #[arg(long)]
    seconds_total: Option<u64>,
    /// Only mutants whose tests are those of a library, which take the least time to build and run.
    #[arg(long)]
    quick: bool,
    /// Print the mutants and try none.
    #[arg(long)]
    list: bool,
}

impl Arguments {
    fn chooses(&self, mutant: &Mutant) -> bool {
        let is_named = |only: &String| {
            mutant.name.contains(only) || mutant.file.contains(only) || mutant.tests.join(" ").contains(only)
        };
        self.only.as_ref().is_none_or(is_named) && (!self.quick || mutant.tests.contains(&"--lib"))
    }
}

/// Runs the tests against every mutant that is chosen; fails if one is not caught.
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
        println!(
            "again: cargo xtask mutants --random --seed {seed}{}",
            if arguments.quick { " --quick" } else { "" }
        );
        fastrand::Rng::with_seed(seed).shuffle(&mut wanted);
    }
    let bench = Bench::new(Duration::from_secs(arguments.seconds))?;
    let mut sound = BTreeSet::new();
    let (mut tried, mut wrong) = (0, Vec::new());
    for mutant in wanted {
        let is_over = arguments.seconds_total.is_some_and(|total| start.elapsed().as_secs() >= total);
        if tried > 0 && is_over {
            break;
        }
        if sound.insert(mutant.tests) {
            bench.without_any(mutant.tests)?;
        }
        let began = Instant::now();
        let verdict = bench.try_mutant(mutant)?;
        tried += 1;
        println!("{:4} s  {}: {verdict}", began.elapsed().as_secs(), mutant.name);
        let expected = OTHERWISE.iter().find(|(name, _)| *name == mutant.name).map(|(_, sign)| *sign);
        let is_caught = match verdict {
            Verdict::Caught(_) => expected.is_none(),
            Verdict::Aborted(_) => expected == Some(Sign::Abort),
            Verdict::Hung(_) => expected == Some(Sign::Hang),
            Verdict::Survived => false,
        };
        if !is_caught {
            wrong.push(format!("{}: {verdict}", mutant.name));
        }
    }
    println!("evidence: {tried} mutants");
    if wrong.is_empty() { Ok(()) } else { Err(format!("not caught:\n  {}", wrong.join("\n  ")).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;
    use std::collections::BTreeMap;

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
        for (name, _) in OTHERWISE {
            assert!(names.contains(name), "no mutant is called: {name}");
        }
    }
}
