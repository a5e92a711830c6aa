//! `cargo xtask partitions` cuts the network between three real replicas while a loader writes.
//!
//! Each replica is a process in a Linux network namespace of its own, and a bridge joins the
//! namespaces. The loader and a reader are other processes, in the bridge's namespace. The loader's
//! output says which lines were acknowledged. The campaign checks:
//!
//! 1. Every acknowledged line is in a linearizable scan at the end, and no line is there that was
//!    never sent (`lines`).
//! 2. A linearizable read finds a line that was acknowledged before the read began, during cuts as
//!    well.
//! 3. While two replicas are cut off, nothing is acknowledged. One batch of the loader may have
//!    reached a majority just before the cut.
//! 4. When all links work again, the replicas elect a leader, the loader ends, and all replicas
//!    apply the same entries. Their rows are then equal.
//!
//! The seed draws the kinds, replicas, durations and pauses of all cuts, and all lines. A second
//! run with the same seed makes the same cuts, but the replicas meet them in another state.
//!
//! The command starts itself again in new namespaces (`unshare`). A network namespace keeps the
//! host's network untouched. A mount namespace hides the names of network namespaces, which are
//! files. A process namespace ends all processes with its first one, which runs the campaign. This
//! process stops when its standard input ends, which also happens after Ctrl-C, and removes the
//! folder of all files.

mod clients;
mod group;
mod lines;
mod network;
mod process;

use crate::run::{Outcome, cargo, run, target};
use crate::tools::need_namespaces;
use clients::Shared;
use fastrand::Rng;
use group::{Group, Leader, Place};
use lines::{BATCH, Ledger};
use network::{Cut, Network, REPLICAS};
use process::Flag;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Length of a cut in milliseconds. A client's session can be opened in 10 s, so a longest cut of
/// two replicas and an election fit into that time.
const CUT_MS: std::ops::Range<u64> = 200..5_000;

/// Pause after a cut in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 0..2_500;

/// Rates of a slow link in kbit/s.
const RATES: std::ops::Range<u32> = 100..2_000;

/// Time after a cut of two replicas in which acknowledgements from before the cut arrive.
const SETTLE: Duration = Duration::from_secs(1);

/// Maximum time in which the clients end when all links work.
const LAST_ROUND: Duration = Duration::from_secs(120);

/// Length of the campaign, its seed, and the program that it tests.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds in which links are cut; the checks come afterwards
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Seed from which to start, instead of a random one
    #[arg(long)]
    seed: Option<u64>,
    /// Test this program `katydid`, instead of building one
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Keep the replicas' folders after a failure
    #[arg(long)]
    keep: bool,
    /// Run the campaign in the namespaces of this process, with its files in this folder
    #[arg(long, hide = true, value_name = "DIR", requires_all = ["seed", "program"])]
    inside: Option<PathBuf>,
}

/// Runs the campaign.
pub fn start(arguments: Arguments) -> Outcome {
    match arguments {
        Arguments { inside: Some(folder), program: Some(program), seed: Some(seed), .. } => {
            let place = Place { program, folder };
            Ok(inside(&place, Duration::from_secs(arguments.seconds), seed, arguments.keep)?)
        }
        arguments => outside(&arguments),
    }
}

/// Starts the campaign in new namespaces.
fn outside(arguments: &Arguments) -> Outcome {
    need_namespaces()?;
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => {
            let build = ["build", "--profile", "campaign", "-p", "katydid-cli"];
            run("build of the program", &mut cargo(build))?;
            target().join("campaign").join("katydid")
        }
    };
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let (seconds, seed) =
        (arguments.seconds.to_string(), arguments.seed.unwrap_or_else(|| fastrand::u64(..)));
    let folder = std::env::temp_dir().join(format!("katydid-partitions-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    println!("again: cargo xtask partitions --seconds {seconds} --seed {seed}");
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(std::env::current_exe()?).arg("partitions").arg("--inside").arg(&folder);
    command.args(["--seconds", &seconds, "--seed", &seed.to_string(), "--program"]).arg(program);
    command.args(arguments.keep.then_some("--keep"));
    // The campaign stops when this end of the pipe is closed, also by the end of this process.
    let (input, held) = io::pipe()?;
    let outcome = run("campaign of partitions", command.stdin(input));
    drop(held);
    // The folder is still there if a signal has killed the campaign.
    if folder.exists() && !arguments.keep {
        fs::remove_dir_all(&folder)?;
    }
    outcome
}

/// Runs the campaign in the namespaces of this process.
fn inside(place: &Place, seconds: Duration, seed: u64, keep: bool) -> Result<(), String> {
    // Otherwise the campaign would change the host's network and mounts.
    if std::process::id() != 1 {
        return Err("--inside is only for the process that the campaign starts itself".to_owned());
    }
    let stop = Arc::new(Flag::default());
    let at_end = stop.clone();
    thread::spawn(move || {
        let _end_or_error = io::stdin().read_to_end(&mut Vec::new());
        at_end.set();
    });
    let mut files = Files(Some(&place.folder));
    let outcome = campaign(place, seconds, seed, &stop).map_err(|why| format!("seed {seed}: {why}"));
    if outcome.is_err() && keep {
        println!("the files are in {}", place.folder.display());
        files.0 = None;
    }
    outcome
}

/// Removes the folder of the files on drop, also after a panic.
struct Files<'a>(Option<&'a Path>);

impl Drop for Files<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            // The process that started the campaign tries again.
            let _removed = fs::remove_dir_all(folder);
        }
    }
}

fn campaign(place: &Place, seconds: Duration, seed: u64, stop: &Flag) -> Result<(), String> {
    let network = Network::make()?;
    let mut group = Group::start(place, stop)?;
    let ledger = Mutex::new(Ledger::new(seed));
    let shared = Shared { place, seed, ledger, over: Flag::default(), stop };
    let tally = load_and_cut(network, &mut group, &shared, seconds).and_then(|tally| {
        compare(&mut group, &shared.ledger())?;
        Ok(tally)
    });
    match tally {
        Ok(tally) => {
            group.close()?;
            tally.print(&shared.ledger());
            Ok(())
        }
        Err(why) => {
            group.print_messages();
            Err(why)
        }
    }
}

/// Counts of a campaign.
#[derive(Default)]
struct Tally {
    cuts: u64,
    by_kind: BTreeMap<&'static str, u64>,
    /// Number of times that another leader or another term was seen when all links worked.
    leader_changes: u64,
    /// Lines that were acknowledged during a cut.
    during_cuts: u64,
    /// Number of times that a loader failed.
    failures: u32,
    reads: u64,
    reads_without_answer: u64,
}

impl Tally {
    fn print(&self, ledger: &Ledger) {
        let kinds: Vec<String> = self.by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        println!("{} cuts: {}", self.cuts, kinds.join(", "));
        println!(
            "{} lines in {} rounds, of which {} were acknowledged during a cut; all are there",
            ledger.total(),
            ledger.rounds(),
            self.during_cuts
        );
        println!(
            "{} leader changes, {} failed loaders, {} reads, {} reads without an answer",
            self.leader_changes, self.failures, self.reads, self.reads_without_answer
        );
        println!("evidence: {} acknowledged lines", ledger.total());
        println!("evidence: {} cuts", self.cuts);
    }
}

/// The replica that a cut is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Leader,
    Replica(u64),
}

/// A cut of the plan, and the pause after it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    kind: &'static str,
    victim: Victim,
    /// Another replica, if the kind needs one.
    other: u64,
    rate: u32,
    length: Duration,
    pause: Duration,
}

/// Kinds of cuts, each with its share. Half of the victims are the leader.
const KINDS: [(&str, usize); 7] = [
    ("off", 4),
    ("majority", 2),
    ("from replicas", 3),
    ("mute", 2),
    ("deaf", 2),
    ("between two", 2),
    ("slow", 2),
];

impl Step {
    /// Draws the next step. The number of draws does not depend on the kind.
    fn draw(rng: &mut Rng) -> Step {
        let kinds: Vec<&str> =
            KINDS.iter().flat_map(|(kind, share)| std::iter::repeat_n(*kind, *share)).collect();
        let (kind, replica) = (kinds[rng.usize(..kinds.len())], rng.u64(1..=3));
        Step {
            kind,
            victim: if rng.bool() { Victim::Leader } else { Victim::Replica(replica) },
            other: rng.u64(1..=2),
            rate: rng.u32(RATES),
            length: Duration::from_millis(rng.u64(CUT_MS)),
            pause: Duration::from_millis(rng.u64(PAUSE_MS)),
        }
    }

    fn cut(&self, leader: Leader) -> Cut {
        let victim = match self.victim {
            Victim::Leader => leader.id,
            Victim::Replica(replica) => replica,
        };
        match self.kind {
            "off" => Cut::Off(victim),
            "majority" => Cut::AllBut(victim),
            "from replicas" => Cut::FromReplicas(victim),
            "mute" => Cut::Mute(victim),
            "deaf" => Cut::Deaf(victim),
            "between two" => Cut::Between(victim, (victim - 1 + self.other) % 3 + 1),
            _ => Cut::Slow(victim, self.rate),
        }
    }
}

/// Stops all threads on drop, so that a failure or a panic does not wait for the clients.
struct StopOnDrop<'a>(Option<&'a Flag>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.0 {
            stop.set();
        }
    }
}

/// Makes cuts while the clients run, then waits for the clients.
fn load_and_cut(
    network: Network,
    group: &mut Group<'_>,
    shared: &Shared<'_>,
    seconds: Duration,
) -> Result<Tally, String> {
    thread::scope(|scope| {
        let mut guard = StopOnDrop(Some(shared.stop));
        let clients = Clients { load: scope.spawn(|| shared.load()), read: scope.spawn(|| shared.read()) };
        let cuts = cut_links(network, group, shared, &clients, seconds);
        shared.over.set();
        let cuts = cuts.and_then(|tally| clients.wait(shared.stop).map(|()| tally));
        if cuts.is_ok() {
            guard.0 = None;
        }
        drop(guard);
        let panicked = |_| "a thread of the clients panicked".to_owned();
        let loaded = clients.load.join().map_err(panicked).flatten();
        let read = clients.read.join().map_err(panicked).flatten();
        let mut tally = cuts.inspect_err(|_| {
            // A client may have failed first. A client that was stopped says so.
            for why in [loaded.as_ref().err(), read.as_ref().err()].into_iter().flatten() {
                println!("   a client ended: {why}");
            }
        })?;
        (tally.failures, (tally.reads, tally.reads_without_answer)) = (loaded?, read?);
        Ok(tally)
    })
}

/// The threads of the clients.
struct Clients<'s> {
    load: ScopedJoinHandle<'s, Result<u32, String>>,
    read: ScopedJoinHandle<'s, Result<(u64, u64), String>>,
}

impl Clients<'_> {
    /// Waits until both have ended.
    fn wait(&self, stop: &Flag) -> Result<(), String> {
        let end = Instant::now() + LAST_ROUND;
        while !(self.load.is_finished() && self.read.is_finished()) {
            if Instant::now() >= end {
                let seconds = LAST_ROUND.as_secs();
                return Err(format!("all links work, but the clients did not end within {seconds} s"));
            }
            stop.sleep(process::PAUSE)?;
        }
        Ok(())
    }
}

/// Makes one cut after the other until the time is over or a client has failed. All links work
/// afterwards.
fn cut_links(
    mut network: Network,
    group: &mut Group<'_>,
    shared: &Shared<'_>,
    clients: &Clients<'_>,
    seconds: Duration,
) -> Result<Tally, String> {
    let (start, mut rng, mut tally) = (Instant::now(), Rng::with_seed(shared.seed), Tally::default());
    let mut leader = group.leader()?;
    while start.elapsed() < seconds && !clients.load.is_finished() && !clients.read.is_finished() {
        let step = Step::draw(&mut rng);
        let cut = step.cut(leader);
        let (at, length) = (start.elapsed().as_secs_f64(), step.length.as_secs_f64());
        println!("{at:6.1} s  leader {}, term {}: {cut}, for {length:.1} s", leader.id, leader.term);
        let before = shared.ledger().total();
        network.cut(cut)?;
        match cut {
            Cut::AllBut(_) => without_majority(shared, step.length)?,
            _ => shared.stop.sleep(step.length)?,
        }
        tally.during_cuts += shared.ledger().total() - before;
        network.heal()?;
        tally.cuts += 1;
        *tally.by_kind.entry(step.kind).or_default() += 1;
        shared.stop.sleep(step.pause)?;
        let former = std::mem::replace(&mut leader, group.leader()?);
        tally.leader_changes += u64::from(leader != former);
    }
    Ok(tally)
}

/// Waits for the end of a cut of two replicas. Fails if lines are acknowledged without a majority.
fn without_majority(shared: &Shared<'_>, length: Duration) -> Result<(), String> {
    shared.stop.sleep(SETTLE)?;
    let before = shared.ledger().total();
    shared.stop.sleep(length)?;
    let more = shared.ledger().total() - before;
    match more > u64::from(BATCH) {
        true => Err(format!("{more} lines were acknowledged while two of three replicas were cut off")),
        false => Ok(()),
    }
}

/// Compares the rows of all replicas with the acknowledgements and with each other.
fn compare(group: &mut Group<'_>, ledger: &Ledger) -> Result<(), String> {
    let open = |path: &Path| {
        File::open(path).map(BufReader::new).map_err(|error| format!("{}: {error}", path.display()))
    };
    group.level()?;
    let whole = group.scan(None)?;
    ledger.check(open(&whole)?).map_err(|why| format!("a linearizable scan: {why}"))?;
    for replica in REPLICAS {
        let own = group.scan(Some(replica))?;
        same(open(&whole)?, open(&own)?).map_err(|why| format!("the rows of replica {replica}: {why}"))?;
    }
    Ok(())
}

/// Fails if two texts differ, and names the first line that differs.
fn same(one: impl BufRead, other: impl BufRead) -> Result<(), String> {
    let (mut one, mut other) = (one.lines(), other.lines());
    loop {
        let cannot = |error: io::Error| format!("cannot read a scan: {error}");
        let pair = (one.next().transpose().map_err(cannot)?, other.next().transpose().map_err(cannot)?);
        match pair {
            (None, None) => return Ok(()),
            (one, other) if one == other => {}
            (one, other) => return Err(format!("{other:?} instead of {one:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_cuts_again_and_all_kinds() {
        let steps = |seed| {
            let mut rng = Rng::with_seed(seed);
            std::iter::repeat_with(|| Step::draw(&mut rng)).take(200).collect::<Vec<_>>()
        };
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
        for (kind, _) in KINDS {
            assert!(steps(7).iter().any(|step| step.kind == kind), "{kind}");
        }
        for step in steps(9) {
            if let Cut::Between(one, other) = step.cut(Leader { id: 3, term: 1 }) {
                assert!(one != other && REPLICAS.contains(&one) && REPLICAS.contains(&other));
            }
        }
    }

    #[test]
    fn the_first_row_that_differs_is_named() {
        let same = |one: &str, other: &str| same(one.as_bytes(), other.as_bytes());
        assert_eq!(same("a\nb\n", "a\nb\n"), Ok(()));
        assert_eq!(same("a\nb\n", "a\n"), Err("None instead of Some(\"b\")".to_owned()));
        assert_eq!(same("a\n", "c\n"), Err("Some(\"c\") instead of Some(\"a\")".to_owned()));
    }
}
