//! A control group of Linux that limits the memory of one process: its own memory and the pages of
//! files that it reads and writes.
//!
//! | file | version 1 | version 2 |
//! |---|---|---|
//! | limit | `memory.limit_in_bytes` | `memory.max` |
//! | no swap | `memory.memsw.limit_in_bytes` | `memory.swap.max` |
//! | processes | `cgroup.procs` | `cgroup.procs` |
//! | kills | `memory.oom_control` | `memory.events` |
//!
//! The group is made inside this process's own group, or else inside the nearest group around it in
//! which this is possible. Except for the root, a group of version 2 that contains processes cannot
//! contain a group with a limit.

use katydid::device::{GroupVersion, MemoryGroup, memory_groups};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Reason why no group was made in one folder.
#[derive(Debug)]
pub enum Refusal {
    Create(io::Error),
    /// The groups in the folder do not limit memory, and cannot be made to.
    NoMemoryController(Option<io::Error>),
    /// The file with the limit could not be written.
    Limit(PathBuf, io::Error),
}

/// Reason why memory cannot be limited.
#[derive(Debug)]
pub enum GroupError {
    /// The system has no control groups that count the memory of this process.
    NoGroups,
    /// No folder took a new group.
    Refused(Vec<(PathBuf, Refusal)>),
    /// A process could not be put into the group.
    Add { process: u32, file: PathBuf, error: io::Error },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Create(error) => write!(f, "cannot make a group: {error}"),
            Refusal::NoMemoryController(None) => f.write_str("its groups do not limit memory"),
            Refusal::NoMemoryController(Some(error)) => {
                write!(
                    f,
                    "its groups do not limit memory, and memory cannot be added to its controllers: {error}"
                )
            }
            Refusal::Limit(file, error) => write!(f, "cannot write {}: {error}", file.display()),
        }
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::NoGroups => f.write_str("no mounted control group counts the memory of this process"),
            GroupError::Refused(refused) => {
                f.write_str("no control group with a limit can be made")?;
                refused.iter().try_for_each(|(folder, why)| write!(f, "; in {}: {why}", folder.display()))
            }
            GroupError::Add { process, file, error } => {
                write!(f, "cannot put process {process} into a control group: {}: {error}", file.display())
            }
        }
    }
}

impl std::error::Error for GroupError {}

/// Names of a version's files.
struct Files {
    limit: &'static str,
    /// Version 1: limit of memory and swap together. Version 2: limit of swap.
    swap: &'static str,
    /// File with the line `oom_kill N`.
    kills: &'static str,
}

fn files(version: GroupVersion) -> Files {
    match version {
        GroupVersion::One => Files {
            limit: "memory.limit_in_bytes",
            swap: "memory.memsw.limit_in_bytes",
            kills: "memory.oom_control",
        },
        GroupVersion::Two => Files { limit: "memory.max", swap: "memory.swap.max", kills: "memory.events" },
    }
}

/// A group without processes, or with one. It is removed when this value is dropped, after its
/// process has ended.
#[derive(Debug)]
pub struct LimitedGroup {
    folder: PathBuf,
    version: GroupVersion,
    /// The group around this one, if this program has added memory to the controllers of that
    /// group.
    extended: Option<PathBuf>,
}

/// File of the controllers that limit the groups in a group of version 2.
const CONTROLLERS: &str = "cgroup.subtree_control";

/// Number of attempts to remove a group, and the time between two of them. The kernel needs a
/// moment for the memory of a process that has just ended.
const REMOVALS: usize = 100;
const REMOVAL_WAIT: Duration = Duration::from_millis(10);

impl LimitedGroup {
    /// Makes a group whose processes have `bytes` of memory together, and no swap.
    pub fn create(bytes: u64) -> Result<LimitedGroup, GroupError> {
        LimitedGroup::create_in(places(&memory_groups()), bytes)
    }

    fn create_in(places: Vec<(GroupVersion, PathBuf)>, bytes: u64) -> Result<LimitedGroup, GroupError> {
        let mut refused = Vec::new();
        for (version, place) in places {
            match LimitedGroup::make(version, &place, bytes) {
                Ok(group) => return Ok(group),
                Err(why) => refused.push((place, why)),
            }
        }
        Err(if refused.is_empty() { GroupError::NoGroups } else { GroupError::Refused(refused) })
    }

    fn make(version: GroupVersion, place: &Path, bytes: u64) -> Result<LimitedGroup, Refusal> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = place.join(format!("katydid-compare-{}-{nth}", std::process::id()));
        std::fs::create_dir(&folder).map_err(Refusal::Create)?;
        let mut group = LimitedGroup { folder, version, extended: None };
        let Files { limit, swap, .. } = files(version);
        let limit = group.folder.join(limit);
        if !limit.exists() {
            let added = match version {
                GroupVersion::One => Ok(()),
                GroupVersion::Two => std::fs::write(place.join(CONTROLLERS), "+memory"),
            };
            if added.is_ok() && version == GroupVersion::Two {
                group.extended = Some(place.join(CONTROLLERS));
            }
            if !limit.exists() {
                return Err(Refusal::NoMemoryController(added.err()));
            }
        }
        std::fs::write(&limit, bytes.to_string()).map_err(|error| Refusal::Limit(limit, error))?;
        // A system that has no swap, or does not count swap, does not have this file.
        let swap = group.folder.join(swap);
        if swap.exists() {
            let swap_bytes = if version == GroupVersion::One { bytes } else { 0 };
            std::fs::write(&swap, swap_bytes.to_string()).map_err(|error| Refusal::Limit(swap, error))?;
        }
        Ok(group)
    }

    /// Puts a process into the group, with all of its threads.
    pub fn add(&self, process: u32) -> Result<(), GroupError> {
        let file = self.folder.join("cgroup.procs");
        std::fs::write(&file, process.to_string()).map_err(|error| GroupError::Add { process, file, error })
    }

    /// Number of processes that the kernel has killed because of the limit.
    pub fn kills(&self) -> u64 {
        let text = std::fs::read_to_string(self.folder.join(files(self.version).kills));
        kills(&text.unwrap_or_default())
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let mut removed = std::fs::remove_dir(&self.folder);
        for _ in 1..REMOVALS {
            if removed.is_ok() {
                break;
            }
            std::thread::sleep(REMOVAL_WAIT);
            removed = std::fs::remove_dir(&self.folder);
        }
        if let Err(error) = removed {
            eprintln!("the control group {} is left: {error}", self.folder.display());
        }
        if let Some(file) = &self.extended
            && let Err(error) = std::fs::write(file, "-memory")
        {
            eprintln!("memory is left in {}: {error}", file.display());
        }
    }
}

/// Folders in which a group may be made, in the order in which they are tried: for each hierarchy
/// first this process's own group, and then the groups around it.
fn places(groups: &[MemoryGroup]) -> Vec<(GroupVersion, PathBuf)> {
    let of_group = |group: &MemoryGroup| {
        let version = group.version;
        let inside_out: Vec<_> = group.folders.iter().rev().map(|folder| (version, folder.into())).collect();
        inside_out
    };
    groups.iter().flat_map(of_group).collect()
}

/// The number in the line `oom_kill N`; 0 if there is no such line.
fn kills(text: &str) -> u64 {
    let mut numbers = text.lines().filter_map(|line| line.strip_prefix("oom_kill "));
    numbers.find_map(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_from_the_own_group_outwards_and_by_hierarchy() {
        let group = |version, folders: &[&str]| MemoryGroup {
            version,
            folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
        };
        let found = places(&[
            group(GroupVersion::Two, &["/cg", "/cg/user", "/cg/user/session"]),
            group(GroupVersion::One, &["/cg1/memory"]),
        ]);
        let expected = [
            (GroupVersion::Two, "/cg/user/session"),
            (GroupVersion::Two, "/cg/user"),
            (GroupVersion::Two, "/cg"),
            (GroupVersion::One, "/cg1/memory"),
        ];
        assert_eq!(found, expected.map(|(version, folder)| (version, PathBuf::from(folder))));
        assert!(matches!(LimitedGroup::create_in(places(&[]), 1), Err(GroupError::NoGroups)));
    }

    #[test]
    fn kills_are_read_from_both_versions() {
        assert_eq!(kills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n"), 2);
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), 7);
        assert_eq!(kills("oom_kill_disable 1\n"), 0);
        assert_eq!(kills(""), 0);
    }

    #[test]
    fn a_folder_that_limits_nothing_is_named_with_the_reason_and_is_left_empty() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let places =
            vec![(GroupVersion::Two, missing.clone()), (GroupVersion::One, folder.path().to_owned())];
        let error = LimitedGroup::create_in(places, 1 << 30).unwrap_err();
        let GroupError::Refused(refused) = &error else { panic!("{error}") };
        assert!(matches!(refused[0].1, Refusal::Create(_)));
        assert!(matches!(refused[1].1, Refusal::NoMemoryController(None)));
        let text = error.to_string();
        assert!(text.contains(&format!("in {}: cannot make a group: ", missing.display())), "{text}");
        let second = format!("in {}: its groups do not limit memory", folder.path().display());
        assert!(text.ends_with(&second), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Makes a real group if this process may. If not, the error has to name each folder.
    #[test]
    fn a_group_has_its_limit_and_is_removed() {
        const BYTES: u64 = 64 << 20;
        let group = match LimitedGroup::create(BYTES) {
            Ok(group) => group,
            Err(GroupError::Refused(refused)) => {
                assert_eq!(refused.len(), places(&memory_groups()).len());
                return;
            }
            Err(error) => {
                assert!(matches!(error, GroupError::NoGroups) && memory_groups().is_empty(), "{error}");
                return;
            }
        };
        let folder = group.folder.clone();
        let limit = std::fs::read_to_string(folder.join(files(group.version).limit)).unwrap();
        assert_eq!(limit.trim(), BYTES.to_string());
        let mut process = crate::process::Process::start(
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()),
        )
        .unwrap();
        group.add(process.0.id()).unwrap();
        let inside = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap();
        assert_eq!(inside.trim(), process.0.id().to_string());
        drop(process.0.stdin.take());
        assert!(process.0.wait().unwrap().success());
        assert!(matches!(group.add(u32::MAX), Err(GroupError::Add { process: u32::MAX, .. })));
        assert_eq!(group.kills(), 0);
        drop(group);
        assert!(!folder.exists());
    }
}
