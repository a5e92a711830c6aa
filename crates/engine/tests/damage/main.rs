//! A whole database with damaged bytes: every file, every sector, every kind of damage.
//!
//! After the damage the database is verified without being opened, and then opened, read, verified
//! and written to. A call may refuse the bytes with a typed error, when opening or when reading.
//! Rows that are read must have been committed. No call may panic, or need more than a multiple of
//! the memory and device calls that opening the sound database needs. [`exposed`] and
//! `docs/recovery.md` list the damage that by design cannot be noticed, with the reasons.
//!
//! Each run tries a sample chosen by a random seed. With `KATYDID_SECONDS` the test goes on for
//! that time with new seeds, and then prints the outcomes of each kind of damage to each kind of
//! file.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod disk;
mod harm;
mod repair;
mod subject;

use common::Rng;
use disk::{Disk, DiskImage};
use harm::{Case, Harm, SECTOR};
use katydid::{Database, EngineKind, Error, LogKind};
use katydid_device::testing::memory;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use subject::{Kind, Left, State, Subject, UNITS};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Number of damages to each kind of database in one round.
const CASES: usize = 150;

/// Maximum growth of the files by opening, and by writing a little: a double-write area, segments
/// and pages ahead.
const GROWTH_MAX: usize = 16 << 20;

/// Outcome of a damaged database.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// All rows are right.
    Right,
    /// Refused; the rows that were read before the refusal were right.
    Refused(String),
    /// All rows are those after this number of commits.
    Earlier(usize),
    /// Each row is one that its key had at some time, but these rows were never there together.
    Mixed(String),
    /// A value that its key never had.
    Never(String),
    /// A panic, more memory or calls than allowed, or a verdict of `verify` that does not hold.
    Wrong(String),
}

impl Seen {
    fn word(&self) -> &'static str {
        match self {
            Seen::Right => "right",
            Seen::Refused(_) => "refused",
            Seen::Earlier(_) => "earlier state",
            Seen::Mixed(_) => "mixed states",
            Seen::Never(_) => "a value never written",
            Seen::Wrong(_) => "wrong",
        }
    }
}

/// Returns the databases: both engines, left by a crash or closed, striped, and with each kind of
/// log in NVRAM.
fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        let plain = Kind { engine, log: LogKind::Disk, stripes: 1, left: Left::Open };
        kinds.extend([plain, Kind { left: Left::Closed, ..plain }, Kind { stripes: 2, ..plain }]);
        kinds.extend(common::kinds_in_nvram().map(|log| Kind { log, ..plain }));
    }
    kinds
}

/// Lets one test run at a time, because memory is counted over all threads.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether this outcome is allowed: right, a refusal, or the result of damage that looks
/// like a sound database. Every other outcome is a bug. Three kinds of damage look like a sound
/// database:
///
/// 1. *The end of a log that was not closed.* Damage to the last records looks like a torn write,
///    unless a later record, the control file or the paged engine's double-write area shows that
///    they were durable. The records before the damage are kept.
/// 2. *Lost writes of pages.* An older version of a page is a valid page. If the log still reaches
///    back to that version, redo mends the page; if not, nothing shows the loss. A long value of
///    several pages may then be partly old.
/// 3. *`nv_direct`.* A damaged record looks like one that was not persisted, wherever it lies.
fn exposed(subject: &Subject, case: &Case, seen: &Seen) -> bool {
    let Kind { engine, log, left, .. } = subject.kind;
    let class = class(&case.path);
    let is_log = matches!(class, "log segment" | "log in nvram" | "part");
    let is_pages = engine == EngineKind::Paged && matches!(class, "pages" | "part");
    match seen {
        Seen::Right | Seen::Refused(_) => true,
        Seen::Wrong(_) => false,
        Seen::Earlier(units)
            if is_log && left == Left::Open && keeps_what_lies_before(subject, case, *units) =>
        {
            true
        }
        Seen::Earlier(_) | Seen::Mixed(_) if is_log && log == LogKind::NvDirect => true,
        Seen::Earlier(_) | Seen::Mixed(_) | Seen::Never(_) => match case.harm {
            Harm::Older(_, moment) | Harm::OlderFile(moment) => {
                is_pages && moment < subject.before_checkpoint
            }
            _ => false,
        },
    }
}

/// Returns whether the lost commits, which are all after the first `units`, reach into the damaged
/// bytes or lie above them, and are not in the checkpoint. A flipped bit of a log on disk may lose
/// only the last commit.
fn keeps_what_lies_before(subject: &Subject, case: &Case, units: usize) -> bool {
    if units < UNITS / 2
        || matches!(case.harm, Harm::Flip) && subject.kind.log == LogKind::Disk && units + 1 < UNITS
    {
        return false;
    }
    let Some(bytes) = subject.image.files.get(&case.path) else { return true };
    if matches!(case.harm, Harm::OlderFile(_) | Harm::Foreign) || class(&case.path) == "part" {
        return true;
    }
    let from = case.first_byte(bytes.len());
    // The last value of the first lost commit, if it has one, ends at the damage or later.
    let marker = subject::marker(units);
    let place = bytes.windows(marker.len()).rposition(|window| window == marker.as_bytes());
    place.is_none_or(|place| place + subject::VALUE_BYTES_MAX > from)
}

/// Reads everything. Returns what was read, and the first refusal.
fn read_all(database: &Database) -> (State, Option<Error>) {
    let (mut state, mut refused) = (State::new(), None);
    let names = match database.tables() {
        Ok(names) => names,
        Err(error) => return (state, Some(error)),
    };
    for name in names {
        let rows = state.entry(name.clone()).or_default();
        let table = match database.open_table(&name) {
            Ok(table) => table.expect("it is listed"),
            Err(error) => {
                refused.get_or_insert(error);
                continue;
            }
        };
        let txn = database.begin().expect("begin");
        for row in txn.range(&table, ..) {
            match row {
                Ok((key, value)) => _ = rows.insert(key, value),
                Err(error) => {
                    refused.get_or_insert(error);
                    break;
                }
            }
        }
    }
    (state, refused)
}

/// Compares the rows that were read with the rows that were ever committed.
fn judge(subject: &Subject, found: &State, refused: Option<Error>) -> Seen {
    for (name, rows) in found {
        let Some(expected) = subject.last().get(name) else {
            return Seen::Never(format!("a table {name:?}"));
        };
        for (key, value) in rows {
            if expected.get(key) == Some(value) {
                continue;
            }
            let key_shown = String::from_utf8_lossy(key).into_owned();
            let was = |state: &State| state.get(name).and_then(|rows| rows.get(key)) == Some(value);
            if !subject.states.iter().any(was) {
                return Seen::Never(format!("{name}/{key_shown}"));
            }
            if let Some(error) = &refused {
                return Seen::Mixed(format!("{name}/{key_shown} is old, and then {error}"));
            }
        }
    }
    match refused {
        Some(error) => Seen::Refused(error.to_string()),
        None if found == subject.last() => Seen::Right,
        None => match subject.states.iter().rposition(|state| state == found) {
            Some(units) => Seen::Earlier(units),
            None => Seen::Mixed(difference(subject.last(), found)),
        },
    }
}

fn difference(expected: &State, found: &State) -> String {
    let mut shown = Vec::new();
    for (name, rows) in expected {
        let empty = BTreeMap::new();
        let others = found.get(name).unwrap_or(&empty);
        for key in rows.keys().chain(others.keys()) {
            if rows.get(key) != others.get(key) {
                let what = if others.contains_key(key) { "old" } else { "missing" };
                shown.push(format!("{name}/{} {what}", String::from_utf8_lossy(key)));
            }
        }
    }
    shown.sort();
    shown.dedup();
    shown.truncate(4);
    shown.join(", ")
}

/// Resources that opening and reading the sound database need.
#[derive(Clone, Copy)]
struct Needs {
    memory: usize,
    calls: u64,
}

/// Opens and reads a database, and writes to it if `writes` is set. Returns the outcome, and the
/// memory and device calls that were needed.
fn look(subject: &Subject, image: &DiskImage, writes: bool, sound: Option<Needs>) -> (Seen, Needs) {
    // Damage may cause work that recovery of the sound database does not have: to read everything
    // again, or to make files anew.
    let calls_max = sound.map_or(u64::MAX, |sound| 10 * sound.calls + image.bytes() as u64 / SECTOR as u64);
    let disk = Disk::new(image, calls_max);
    let before = memory::begin();
    let seen = catch_unwind(AssertUnwindSafe(|| look_at(subject, &disk, writes)));
    let memory = memory::most_since(before);
    // Bytes by which the files have grown are allowed for, because the device is in memory.
    let grown = disk.image().bytes().saturating_sub(image.bytes());
    let memory_max = sound.map_or(usize::MAX, |sound| 2 * sound.memory + 4 * image.bytes() + 2 * grown);
    let seen = match seen {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Seen::Wrong(format!("panicked: {}", text.unwrap_or_default()))
        }
        Ok(_) if disk.is_over() => Seen::Wrong(format!("{} device calls", disk.calls())),
        Ok(_) if grown > GROWTH_MAX => Seen::Wrong(format!("its files have grown by {grown} bytes")),
        Ok(_) if memory > memory_max => {
            Seen::Wrong(format!("{memory} bytes allocated, of files of {}", image.bytes()))
        }
        Ok(seen) => seen,
    };
    (seen, Needs { memory, calls: disk.calls() })
}

fn look_at(subject: &Subject, disk: &Disk, writes: bool) -> Seen {
    let open = || -> katydid::Result<Database> {
        let directory = subject.kind.directory(disk, false)?;
        Database::open_in(directory, katydid::Options { create: false, ..subject.kind.options() })
    };
    let verified = subject
        .kind
        .directory(disk, false)
        .map_err(Error::from)
        .and_then(|directory| Database::verify_in(directory, None));
    if let Err(error) = &verified
        && !matches!(error, Error::Device(_))
    {
        // Without a sound control file the check knows nothing. All other damage is in its report,
        // except for a damaged header of a striped file, which is an error of the device.
        let directory = subject.kind.directory(disk, false).map_err(Error::from);
        if directory.and_then(|directory| Database::engine_in(directory.as_ref())).is_ok() {
            return Seen::Wrong(format!("verify gives up: {error}"));
        }
    }
    let database = match open() {
        Ok(database) => database,
        Err(error) => {
            if let Ok(report) = verified
                && report.is_sound()
                && report.clean
            {
                return Seen::Wrong(format!("verify finds it sound, and opening says {error}"));
            }
            return Seen::Refused(error.to_string());
        }
    };
    let (found, refused) = read_all(&database);
    let seen = judge(subject, &found, refused);
    let after = database.verify(None);
    if seen != Seen::Right || !writes {
        return seen;
    }
    // All reads were right. A write may still find damage in bytes that no call has read yet.
    let sound = after.is_ok_and(|report| report.is_sound());
    let mut expected = found;
    let wrote = database.open_table("short").and_then(|table| {
        let table = table.expect("it is there");
        for number in 0..30 {
            let (key, value) = (common::key(number * 3), vec![number as u8; 700]);
            database.put(&table, &key, &value)?;
            expected.get_mut("short").expect("a table").insert(key, value);
        }
        Ok(())
    });
    let closed = wrote.and_then(|()| database.close());
    drop(database);
    match closed.and_then(|()| open()) {
        Ok(database) => {
            let (found, refused) = read_all(&database);
            match refused {
                Some(error) if sound => Seen::Wrong(format!("verify found it sound, and then: {error}")),
                Some(error) => Seen::Refused(error.to_string()),
                None if found == expected => Seen::Right,
                None => Seen::Wrong(format!("after writing: {}", difference(&expected, &found))),
            }
        }
        Err(error) if sound => Seen::Wrong(format!("verify found it sound, and then: {error}")),
        Err(error) => Seen::Refused(error.to_string()),
    }
}

/// Returns the kind of the file that a path names.
fn class(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        _ if name.starts_with("part.") => "part",
        _ if name.starts_with("stripe") => "label",
        _ if name.ends_with(".nvram") => "log in nvram",
        "katydid.control" => "control",
        _ if name.contains("control") => "log control",
        _ if path.contains("checkpoints/") => "checkpoint",
        _ if path.contains("log/") => "log segment",
        "katydid.pages" => "pages",
        "doublewrite" => "double-write",
        _ => "other",
    }
}

/// Counts of outcomes, by kind of damage and kind of file.
#[derive(Default)]
struct Table(BTreeMap<(String, &'static str, String, &'static str), u64>);

impl Table {
    fn add(&mut self, kind: Kind, case: &Case, seen: &Seen) {
        let name = format!("{} {} {} {:?}", kind.engine, kind.log, kind.stripes, kind.left);
        *self.0.entry((name, class(&case.path), case.harm.name(), seen.word())).or_default() += 1;
    }

    fn print(&self) {
        for ((name, class, harm, word), count) in &self.0 {
            println!("{name:28} {class:14} {harm:12} {word:22} {count}");
        }
    }
}

/// Runs one round: a sample of all damages to all databases.
fn round(seed: u64, table: &mut Table) -> u64 {
    println!("replay with KATYDID_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut tried = 0;
    for kind in kinds() {
        let (subject, other) = (Subject::new(kind, seed), Subject::new(kind, seed ^ 1));
        let (seen, sound) = look(&subject, &subject.image, true, None);
        assert_eq!(seen, Seen::Right, "{kind:?} without damage");
        let (of_sector, of_file) = Harm::all(&subject);
        let files: Vec<_> = subject.image.files.iter().chain(&subject.image.regions).collect();
        for _ in 0..CASES {
            let (path, bytes) = files[random.usize(..files.len())];
            let harms = if bytes.is_empty() || random.u8(..10) == 0 { &of_file } else { &of_sector };
            let case = Case {
                path: path.clone(),
                sector: random.usize(..bytes.len().div_ceil(SECTOR).max(1)),
                harm: harms[random.usize(..harms.len())],
                seed: random.u64(..),
            };
            let writes = random.bool();
            let Some(image) = case.apply(&subject, &other) else { continue };
            let (seen, _) = look(&subject, &image, writes, Some(sound));
            assert!(exposed(&subject, &case, &seen), "seed {seed}: {kind:?}: {case}: {seen:?}");
            table.add(kind, &case, &seen);
            tried += 1;
        }
    }
    tried
}

#[test]
fn damage_is_refused_or_changes_nothing_that_is_read() {
    let _alone = alone();
    let setting = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let length = Duration::from_secs(setting("KATYDID_SECONDS").unwrap_or(0));
    let mut seeds = Rng::with_seed(setting("KATYDID_SEED").unwrap_or_else(common::fresh_seed));
    let mut seed = setting("KATYDID_SEED").unwrap_or_else(|| seeds.u64(..));
    let (start, mut table, mut tried) = (Instant::now(), Table::default(), 0);
    loop {
        tried += round(seed, &mut table);
        if start.elapsed() >= length {
            break;
        }
        seed = seeds.u64(..);
    }
    table.print();
    println!("evidence: {tried} damages");
}

/// Tries some kinds of damage at each sector of each file of one kind.
fn every(kind: Kind, file: &str, harms: impl Fn(&Subject) -> Vec<Harm>) -> Vec<(Case, Seen)> {
    let _alone = alone();
    let seed = common::seed(common::fresh_seed());
    println!("replay with KATYDID_SEED={seed}");
    let (subject, other) = (Subject::new(kind, seed), Subject::new(kind, seed ^ 1));
    let (_, sound) = look(&subject, &subject.image, true, None);
    let mut all = Vec::new();
    for (path, bytes) in subject.image.files.iter().filter(|(path, _)| class(path) == file) {
        for harm in harms(&subject) {
            let sectors = if matches!(harm, Harm::OlderFile(_)) { 1 } else { bytes.len() / SECTOR };
            for sector in 0..sectors {
                let case = Case { path: path.clone(), sector, harm, seed };
                let Some(image) = case.apply(&subject, &other) else { continue };
                let (seen, _) = look(&subject, &image, false, Some(sound));
                all.push((case, seen));
            }
        }
    }
    assert!(!all.is_empty(), "there is no {file}");
    all
}

/// The valid slot is damaged. The other slot says that there is no checkpoint, and the log does not
/// reach back to its beginning. An opening must show all rows or refuse the database, and must not
/// show the rows of the log alone.
#[test]
fn a_damaged_slot_of_the_control_file_does_not_take_the_checkpoint_with_it() {
    for kind in kinds() {
        for (case, seen) in every(kind, "control", |_| vec![Harm::Flip, Harm::Zero(harm::PAGE)]) {
            assert!(matches!(seen, Seen::Right | Seen::Refused(_)), "{kind:?}: {case}: {seen:?}");
        }
    }
}

/// The end of the log was lost, which looks like a torn write; but pages with the changes of the
/// lost records were written.
#[test]
fn a_log_that_ends_before_what_pages_contain_is_refused() {
    let kind = Kind { engine: EngineKind::Paged, log: LogKind::Disk, stripes: 1, left: Left::Open };
    let older = |subject: &Subject| (0..subject.earlier.len()).map(Harm::OlderFile).collect();
    let all = every(kind, "log segment", older);
    assert!(all.iter().any(|(_, seen)| matches!(seen, Seen::Refused(_))), "{all:?}");
    for (case, seen) in all {
        assert!(matches!(seen, Seen::Right | Seen::Refused(_) | Seen::Earlier(_)), "{case}: {seen:?}");
    }
}
