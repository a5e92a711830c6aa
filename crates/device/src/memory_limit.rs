//! Memory that this process may use: the machine's, or less where a control group limits it
//! (containers, `systemd`, batch systems).
//!
//! Pure functions, except for [`memory_limit`] and [`memory_groups`], which read files of the Linux
//! kernel.
//!
//! | file | content |
//! |---|---|
//! | `/proc/meminfo` | memory of the machine |
//! | `/proc/self/cgroup` | the path of this process's group in each hierarchy |
//! | `/proc/self/mountinfo` | the folder of each mounted hierarchy, and the group mounted there |
//! | `memory.max`, `memory.high` (version 2) | limits of one group |
//! | `memory.limit_in_bytes` (version 1) | limit of one group |
//!
//! A group's limit holds for the groups inside it too, so the limits of all folders from the
//! process's own up to the mount are read, and the least counts. The page cache that a group causes
//! counts against its limit.

/// A limit of this many bytes or more means no limit: version 1 writes "no limit" as a number near
/// 2^63.
const NO_LIMIT: u64 = 1 << 60;

/// Returns the number of bytes of memory that this process may use. `None` if the system does not
/// say, as on every system but Linux.
pub fn memory_limit() -> Option<u64> {
    if cfg!(not(target_os = "linux")) || cfg!(miri) {
        return None;
    }
    limit_in(&|path| std::fs::read_to_string(path).ok())
}

/// Reads the text of a file. Returns `None` if the file cannot be read.
type ReadText<'a> = &'a dyn Fn(&str) -> Option<String>;

fn limit_in(read: ReadText<'_>) -> Option<u64> {
    let machine = read("/proc/meminfo").as_deref().and_then(machine_bytes);
    machine.into_iter().chain(group_limits(read)).min()
}

/// Returns the number of bytes of memory of the machine, from the text of `/proc/meminfo`, which
/// has them in KiB.
fn machine_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The two versions of control groups. Both may be mounted at once; only one of them then limits
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupVersion {
    /// Version 1: each kind of resource has a hierarchy of its own.
    One,
    /// Version 2: one hierarchy for all kinds of resources.
    Two,
}

/// A control group that may limit the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryGroup {
    /// Version of the group's hierarchy.
    pub version: GroupVersion,
    /// Folders of the groups around this process, from the mounted group to the process's own.
    pub folders: Vec<String>,
}

/// Returns the control groups of this process, one for each mounted hierarchy that may limit
/// memory. Empty if the system does not say, as on every system but Linux.
pub fn memory_groups() -> Vec<MemoryGroup> {
    if cfg!(not(target_os = "linux")) || cfg!(miri) {
        return Vec::new();
    }
    groups_in(&|path| std::fs::read_to_string(path).ok())
}

impl GroupVersion {
    fn limit_files(self) -> &'static [&'static str] {
        match self {
            GroupVersion::One => &["memory.limit_in_bytes"],
            GroupVersion::Two => &["memory.max", "memory.high"],
        }
    }

    /// Returns the path of the process's group in this hierarchy.
    fn group(self, cgroups: &str) -> Option<&str> {
        cgroups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = match self {
                GroupVersion::One => controllers.split(',').any(|controller| controller == "memory"),
                GroupVersion::Two => controllers.is_empty(),
            };
            is_it.then_some(path)
        })
    }
}

/// A mounted hierarchy of groups.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: GroupVersion,
    /// The group that is mounted at `folder`.
    root: String,
    folder: String,
}

impl Mount {
    /// Decodes a line of `/proc/self/mountinfo`. Returns `None` if the line is not about a
    /// hierarchy that may limit memory.
    fn of_line(line: &str) -> Option<Mount> {
        let (place, kind) = line.split_once(" - ")?;
        let (mut place, mut kind) = (place.split(' '), kind.split(' '));
        let (root, folder) = (place.nth(3)?, place.next()?);
        let version = match kind.next()? {
            "cgroup2" => GroupVersion::Two,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => GroupVersion::One,
            _ => return None,
        };
        Some(Mount { version, root: unescaped(root), folder: unescaped(folder) })
    }

    /// Returns the folders of a group and of the groups around it, as far as these are mounted.
    fn folders(&self, group: &str) -> Vec<String> {
        let root = self.root.trim_end_matches('/');
        let inside = match group.strip_prefix(root) {
            Some(inside) if inside.is_empty() || inside.starts_with('/') => inside.trim_end_matches('/'),
            // The group is not below the mounted group, as in a container that sees the group's
            // path on the machine. The mounted group is then the nearest group with a folder.
            _ => "",
        };
        let ends = inside.match_indices('/').map(|(at, _)| at).chain([inside.len()]);
        ends.map(|end| format!("{}{}", self.folder.trim_end_matches('/'), &inside[..end])).collect()
    }
}

/// Decodes a field, in which the kernel writes a space or a backslash as a backslash and three
/// octal digits.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&part[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

fn groups_in(read: ReadText<'_>) -> Vec<MemoryGroup> {
    let (Some(cgroups), Some(mounts)) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo")) else {
        return Vec::new();
    };
    let of_mount = |mount: Mount| {
        let folders = mount.folders(mount.version.group(&cgroups)?);
        Some(MemoryGroup { version: mount.version, folders })
    };
    mounts.lines().filter_map(Mount::of_line).filter_map(of_mount).collect()
}

fn group_limits(read: ReadText<'_>) -> Vec<u64> {
    let mut limits = Vec::new();
    for group in groups_in(read) {
        for folder in group.folders {
            let of_files = group.version.limit_files().iter();
            let texts = of_files.filter_map(|file| read(&format!("{folder}/{file}")));
            // "max" is no number, and no limit.
            limits.extend(texts.filter_map(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits.retain(|limit| *limit < NO_LIMIT);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) =
        ("/proc/meminfo", "MemTotal:       24684084 kB\nMemFree:        21355936 kB\n");
    const MACHINE: u64 = 24_684_084 * 1024;
    const MIB: u64 = 1 << 20;

    /// Returns the limit found in these files and `MEMINFO`.
    fn found(files: &[(&str, &str)]) -> Option<u64> {
        let files = [files, &[MEMINFO]].concat();
        limit_in(&|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
    }

    const V2_MOUNT: (&str, &str) = (
        "/proc/self/mountinfo",
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
         30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const V2_GROUP: (&str, &str) = ("/proc/self/cgroup", "0::/system.slice/store.service\n");

    #[test]
    fn without_groups_it_is_the_memory_of_the_machine() {
        assert_eq!(found(&[]), Some(MACHINE));
        assert_eq!(found(&[V2_MOUNT]), Some(MACHINE));
        assert_eq!(found(&[V2_GROUP]), Some(MACHINE));
        assert_eq!(found(&[V2_MOUNT, V2_GROUP]), Some(MACHINE));
        assert_eq!(limit_in(&|_| None), None);
        for broken in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(limit_in(&|path| (path == "/proc/meminfo").then(|| broken.to_owned())), None);
        }
        let huge = format!("MemTotal: {} kB", u64::MAX);
        assert_eq!(limit_in(&|_| Some(huge.clone())), None);
    }

    #[test]
    fn version_2_the_least_limit_of_the_group_and_those_around_it() {
        let own = |file, text| (file, text);
        let (max, high) = (
            "/sys/fs/cgroup/system.slice/store.service/memory.max",
            "/sys/fs/cgroup/system.slice/store.service/memory.high",
        );
        let around = "/sys/fs/cgroup/system.slice/memory.max";
        let with = |more: &[(&str, &str)]| found(&[&[V2_MOUNT, V2_GROUP], more].concat());
        assert_eq!(with(&[own(max, "734003200\n")]), Some(700 * MIB));
        assert_eq!(with(&[own(max, "max\n"), own(high, "max\n")]), Some(MACHINE));
        assert_eq!(with(&[own(max, "max\n"), own(high, "524288000\n")]), Some(500 * MIB));
        assert_eq!(with(&[own(max, "734003200\n"), own(around, "209715200\n")]), Some(200 * MIB));
        assert_eq!(with(&[own(max, "209715200\n"), own(around, "734003200\n")]), Some(200 * MIB));
        assert_eq!(with(&[own("/sys/fs/cgroup/memory.max", "104857600")]), Some(100 * MIB));
        assert_eq!(with(&[own(max, "99999999999999\n")]), Some(MACHINE), "more than there is");
    }

    #[test]
    fn version_1_the_least_limit_and_none_is_a_number() {
        let mounts = (
            "/proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
             38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
        );
        let groups = ("/proc/self/cgroup", "9:blkio:/other\n4:cpu,memory:/batch/job\n0::/\n");
        let (own, around) = (
            "/sys/fs/cgroup/memory/batch/job/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/batch/memory.limit_in_bytes",
        );
        let none = "9223372036854771712\n";
        let with = |more: &[(&str, &str)]| found(&[&[mounts, groups], more].concat());
        assert_eq!(with(&[(own, none), (around, none)]), Some(MACHINE));
        assert_eq!(with(&[(own, "734003200\n"), (around, none)]), Some(700 * MIB));
        assert_eq!(with(&[(own, none), (around, "734003200\n")]), Some(700 * MIB));
        // The number that stands for "no limit" is no limit even if the machine's memory is
        // unknown.
        let without_machine = |path: &str| match path {
            "/proc/self/mountinfo" => Some(mounts.1.to_owned()),
            "/proc/self/cgroup" => Some(groups.1.to_owned()),
            path if path == own => Some(none.to_owned()),
            _ => None,
        };
        assert_eq!(limit_in(&without_machine), None);
    }

    #[test]
    fn the_groups_around_a_process_are_listed_from_the_mount_inwards() {
        let files = [
            (
                "/proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("/proc/self/cgroup", "4:memory:/batch/job\n0::/\n"),
        ];
        let read =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
        let group = |version, folders: &[&str]| MemoryGroup {
            version,
            folders: folders.iter().map(|folder| (*folder).to_owned()).collect(),
        };
        let memory = "/sys/fs/cgroup/memory";
        let batch = [memory, &format!("{memory}/batch"), &format!("{memory}/batch/job")];
        assert_eq!(
            groups_in(&read),
            [group(GroupVersion::One, &batch), group(GroupVersion::Two, &["/sys/fs/cgroup/unified"])]
        );
        assert_eq!(groups_in(&|_| None), []);
    }

    #[test]
    fn a_container_sees_its_own_part_of_the_hierarchy() {
        let mount =
            |root: &str| format!("35 31 0:32 {root} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
        let cases = [
            // The group's path is the one on the machine, and only this group is mounted.
            ("/docker/1f", "/docker/1f", "/sys/fs/cgroup/memory"),
            ("/docker/1f", "/docker/1f/inner", "/sys/fs/cgroup/memory/inner"),
            // The group is not below the mounted one, though its path begins with the same letters.
            ("/docker/1f", "/docker/1f0/inner", "/sys/fs/cgroup/memory"),
            ("/docker/1f", "/", "/sys/fs/cgroup/memory"),
            ("/", "/../other", "/sys/fs/cgroup/memory/../other"),
        ];
        for (root, group, folder) in cases {
            let groups = format!("4:memory:{group}\n");
            let file = format!("{folder}/memory.limit_in_bytes");
            let files = [
                ("/proc/self/mountinfo", &*mount(root)),
                ("/proc/self/cgroup", &*groups),
                (&*file, "734003200\n"),
            ];
            assert_eq!(found(&files), Some(700 * MIB), "{group} in {root}");
        }
    }

    #[test]
    fn strange_lines_are_passed_over_and_escapes_are_read() {
        for line in ["", " - ", "1 2 3 / - cgroup2", "1 2 3:4 / /x rw - cgroup cgroup", "35 31 0:32 / /x rw"]
        {
            assert_eq!(Mount::of_line(line), None, "{line:?}");
        }
        let mount = Mount::of_line(r"35 31 0:32 /a\134b /mnt/a\040b rw - cgroup2 none rw").expect("a mount");
        assert_eq!((mount.root.as_str(), mount.folder.as_str()), (r"/a\b", "/mnt/a b"));
        for odd in [r"\", r"\04", r"\999", r"\377", r"a\é040", r"a\ééé"] {
            assert_eq!(unescaped(odd), odd);
        }
        assert_eq!(GroupVersion::Two.group("nonsense\n0:\n0::/here\n"), Some("/here"));
        assert_eq!(GroupVersion::One.group("3:memory\n0::/here\n"), None);
    }

    #[test]
    fn this_process_may_use_some_memory() {
        if cfg!(target_os = "linux") && !cfg!(miri) {
            let limit = memory_limit().expect("Linux says it");
            assert!(limit > MIB, "{limit}");
        }
    }
}
