//! Repair of damaged databases: a repaired database opens, has only committed rows, and the report
//! names what it lacks.
//!
//! Each damage is one of [`Harm`]. Left out are older versions of pages and files, which no check
//! can notice.

use crate::common::Rng;
use crate::disk::{Disk, DiskImage};
use crate::harm::{Case, Harm, PAGE, SECTOR};
use crate::subject::{Kind, Left, State, Subject};
use crate::{alone, common, read_all};
use katydid::{
    Database, EngineKind, Error, LogKind, Loss, RepairFault, RepairMode, RepairOutcome, RepairReport,
};

/// Number of damages to each database in one run.
const CASES: usize = 60;

const HARMS: [Harm; 10] = [
    Harm::Flip,
    Harm::Zero(SECTOR),
    Harm::Zero(PAGE),
    Harm::Swap(SECTOR),
    Harm::Swap(PAGE),
    Harm::Cut,
    Harm::Extend(false),
    Harm::Extend(true),
    Harm::Foreign,
    Harm::Remove,
];

fn kinds() -> Vec<Kind> {
    let plain = Kind { engine: EngineKind::Paged, log: LogKind::Disk, stripes: 1, left: Left::Open };
    vec![plain, Kind { left: Left::Closed, ..plain }]
}

fn repair(subject: &Subject, disk: &Disk, mode: RepairMode) -> katydid::Result<RepairReport> {
    Database::repair_in(subject.kind.directory(disk, false)?, mode)
}

/// Reads a database that was repaired; it has to open, be sound and be read whole.
fn repaired(subject: &Subject, disk: &Disk, place: &str) -> State {
    let directory = || subject.kind.directory(disk, false).expect("the directory");
    let report = Database::verify_in(directory(), None).expect("verify");
    assert!(report.is_sound(), "{place}: {:?}", report.faults);
    let options = katydid::Options { create: false, ..subject.kind.options() };
    let database = Database::open_in(directory(), options).unwrap_or_else(|error| panic!("{place}: {error}"));
    let (state, refused) = read_all(&database);
    assert!(refused.is_none(), "{place}: {refused:?}");
    database.close().expect("close");
    state
}

/// Checks that every row was committed. If the report says that commits may be there in part, a row
/// may also be one that a transaction wrote and then changed again. Checks that a loss names every
/// row that is missing, or that is older than the last committed one.
fn check(subject: &Subject, found: &State, losses: &[Loss], place: &str) {
    let in_part = losses.iter().any(|loss| matches!(loss, Loss::Commits { .. }));
    for (name, rows) in found {
        for (key, value) in rows {
            let of_table = |table: &str| name == table || name.starts_with("recovered-");
            let is_within =
                || subject.within.iter().any(|(table, k, v)| of_table(table) && (k, v) == (key, value));
            let was = |state: &State| match name.starts_with("recovered-") {
                true => state.values().any(|rows| rows.get(key) == Some(value)),
                false => state.get(name).is_some_and(|rows| rows.get(key) == Some(value)),
            };
            assert!(
                subject.states.iter().any(was) || in_part && is_within(),
                "{place}: {name}/{key:?} was never {value:?}; {losses:?}"
            );
        }
    }
    for (name, rows) in subject.last() {
        let has = |key: &[u8]| found.get(name).and_then(|rows| rows.get(key));
        let others = found.get(name).into_iter().flat_map(|rows| rows.keys());
        for key in rows.keys().chain(others) {
            let is_listed = losses.iter().any(|loss| loss.concerns(name, key));
            assert!(
                has(key) == rows.get(key) || is_listed,
                "{place}: {name}/{key:?} is lost in silence: {losses:?}"
            );
        }
    }
}

/// Checks that all files of the damaged database are in quarantine.
fn check_quarantine(damaged: &DiskImage, after: &DiskImage, name: &str, place: &str) {
    for (path, bytes) in &damaged.files {
        let kept = after.files.get(&format!("{name}/{path}"));
        assert!(kept == Some(bytes), "{place}: {path} is not in quarantine as it was");
    }
}

fn try_one(subject: &Subject, case: &Case, damaged: &DiskImage) -> &'static str {
    let place = format!("{:?}: {case}", subject.kind.left);
    let disk = Disk::new(damaged, u64::MAX);
    let planned = match repair(subject, &disk, RepairMode::DryRun) {
        Ok(planned) => planned,
        Err(error) => {
            // A repair refuses a file of another database. A file that was extended, or in which
            // sectors or pages were swapped, may look like such a file.
            let is_foreign = matches!(error, Error::Foreign { .. })
                && matches!(case.harm, Harm::Foreign | Harm::Extend(_) | Harm::Swap(_));
            assert!(is_foreign, "{place}: {error}");
            return "refused";
        }
    };
    assert!(disk.image().files == damaged.files, "{place}: a dry run changed files");
    if planned.outcome == RepairOutcome::Sound {
        return "sound";
    }
    let done = repair(subject, &disk, RepairMode::Apply).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(done.outcome, RepairOutcome::Repaired, "{place}");
    assert_eq!((&done.losses, &done.kept), (&planned.losses, &planned.kept), "{place}");
    check_quarantine(damaged, &disk.image(), done.quarantine.as_deref().expect("a folder"), &place);
    let found = repaired(subject, &disk, &place);
    check(subject, &found, &done.losses, &place);
    let rows = done.kept.iter().map(|(_, rows)| *rows).sum::<u64>();
    assert_eq!(rows, found.values().map(|rows| rows.len() as u64).sum::<u64>(), "{place}");
    let again = repair(subject, &disk, RepairMode::Apply).expect("repair again");
    assert_eq!(again.outcome, RepairOutcome::Sound, "{place}");
    if done.losses.is_empty() { "whole" } else { "in part" }
}

#[test]
fn after_repair_it_opens_and_what_is_missing_is_said() {
    let _alone = alone();
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut seen = std::collections::BTreeMap::<_, u64>::new();
    for kind in kinds() {
        let (subject, other) = (Subject::new(kind, seed), Subject::new(kind, seed ^ 1));
        let files: Vec<_> = subject.image.files.iter().collect();
        for _ in 0..CASES {
            let (path, bytes) = files[random.usize(..files.len())];
            let harm = HARMS[random.usize(..HARMS.len())];
            let sector = random.usize(..bytes.len().div_ceil(SECTOR).max(1));
            let case = Case { path: path.clone(), sector, harm, seed: random.u64(..) };
            let Some(image) = case.apply(&subject, &other) else { continue };
            *seen.entry(try_one(&subject, &case, &image)).or_default() += 1;
        }
    }
    println!("evidence: {seen:?}");
    assert!(seen.contains_key("whole") && seen.contains_key("in part"), "{seen:?}");
}

/// Damages each page in turn: only the rows of that page are lost.
#[test]
fn one_lost_page_costs_its_own_rows() {
    let _alone = alone();
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    for kind in kinds() {
        let subject = Subject::new(kind, seed);
        let pages = subject.image.files["katydid.pages"].len() / PAGE;
        for page in 0..pages {
            let case = Case {
                path: "katydid.pages".to_owned(),
                sector: page * PAGE / SECTOR,
                harm: Harm::Zero(PAGE),
                seed,
            };
            let Some(image) = case.apply(&subject, &subject) else { continue };
            try_one(&subject, &case, &image);
        }
    }
}

/// A process ends at some call of a repair, and a second process runs the repair again.
#[test]
fn a_repair_can_be_interrupted_anywhere() {
    let _alone = alone();
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    let subject = Subject::new(kinds()[0], seed);
    let mut damaged = subject.image.clone();
    damaged.files.remove("katydid.control");
    let disk = Disk::new(&damaged, u64::MAX);
    let whole = repair(&subject, &disk, RepairMode::Apply).expect("repair");
    let expected = repaired(&subject, &disk, "uninterrupted");
    assert!(whole.losses.is_empty(), "{:?}", whole.losses);
    let calls = disk.calls();
    let mut interrupted = 0;
    for limit in (0..calls).step_by((calls / 200).max(1) as usize) {
        let place = format!("after {limit} of {calls} calls");
        let first = Disk::new(&damaged, limit);
        if repair(&subject, &first, RepairMode::Apply).is_err() {
            interrupted += 1;
        }
        let second = Disk::new(&first.image(), u64::MAX);
        let options = katydid::Options { create: false, ..subject.kind.options() };
        let is_repairing = first.image().files.contains_key("katydid.repairing");
        if is_repairing {
            let error =
                Database::open_in(subject.kind.directory(&second, false).expect("a directory"), options)
                    .map(|_| ())
                    .expect_err("a repair is under way");
            assert!(
                matches!(error, Error::Repair { fault: RepairFault::Interrupted, .. }),
                "{place}: {error}"
            );
        }
        let again =
            repair(&subject, &second, RepairMode::Apply).unwrap_or_else(|error| panic!("{place}: {error}"));
        let name = again.quarantine.as_deref().unwrap_or("katydid.damaged-1");
        check_quarantine(&damaged, &second.image(), name, &place);
        assert!(repaired(&subject, &second, &place) == expected, "{place}");
    }
    assert!(interrupted > 50, "{interrupted}");
}

#[test]
fn what_cannot_be_repaired_says_what_to_do() {
    let _alone = alone();
    let kind = Kind { engine: EngineKind::Memory, ..kinds()[0] };
    let subject = Subject::new(kind, 3);
    let mut damaged = subject.image.clone();
    damaged.files.remove("katydid.control");
    let disk = Disk::new(&damaged, u64::MAX);
    let error = repair(&subject, &disk, RepairMode::Apply).expect_err("the memory engine");
    assert!(matches!(error, Error::Repair { fault: RepairFault::MemoryEngine, .. }), "{error}");
    assert!(disk.image().files == damaged.files);
}
