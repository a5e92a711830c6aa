//! The machine on which a figure was measured. Everything is read from the system; values that
//! cannot be read are left out.

use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// The machine, its operating system, and the file system of a folder.
#[derive(Debug, Clone)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_bytes: Option<u64>,
    kernel: Option<String>,
    file_system: Option<String>,
}

impl Machine {
    /// The machine that runs this program, with the file system of `dir`.
    pub fn read(dir: &Path) -> Machine {
        let text = |path: &str| fs::read_to_string(path).ok();
        Machine {
            cpu: text("/proc/cpuinfo")
                .and_then(|cpuinfo| cpu_model(&cpuinfo))
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: text("/proc/meminfo").and_then(|meminfo| memory_bytes(&meminfo)),
            kernel: text("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
            file_system: text("/proc/self/mountinfo")
                .and_then(|mounts| file_system(&mounts, &fs::canonicalize(dir).ok()?)),
        }
    }

    /// Description of the machine in one line.
    pub fn line(&self) -> String {
        let mut parts = vec![self.cpu.clone(), format!("{} cores", self.cores)];
        parts.extend(self.memory_bytes.map(katydid_command::bytes::shown));
        parts.push(match &self.kernel {
            Some(kernel) => format!("{} {kernel}", std::env::consts::OS),
            None => std::env::consts::OS.to_owned(),
        });
        parts.extend(self.file_system.clone());
        parts.join(", ")
    }

    /// The machine as a JSON object.
    pub fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("cpu".into(), self.cpu.as_str().into());
        object.insert("cores".into(), self.cores.into());
        object.insert("memory_bytes".into(), self.memory_bytes.into());
        object.insert("os".into(), std::env::consts::OS.into());
        object.insert("arch".into(), std::env::consts::ARCH.into());
        object.insert("kernel".into(), self.kernel.clone().into());
        object.insert("file_system".into(), self.file_system.clone().into());
        Value::Object(object)
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let (_, model) = cpuinfo
        .lines()
        .find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == "model name"))?;
    Some(model.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The type of the file system that is mounted nearest above `path`.
fn file_system(mountinfo: &str, path: &Path) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for line in mountinfo.lines() {
        let Some((mount, kind)) = line.split_once(" - ") else { continue };
        let Some(point) = mount.split(' ').nth(4) else { continue };
        let Some(kind) = kind.split(' ').next() else { continue };
        // The kernel writes a space in a path as \040.
        let point = point.replace("\\040", " ");
        // If mounts cover each other, the last one is visible.
        if path.starts_with(&point) && best.as_ref().is_none_or(|(length, _)| point.len() >= *length) {
            best = Some((point.len(), kind.to_owned()));
        }
    }
    best.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_says() {
        assert_eq!(
            cpu_model("processor : 0\nmodel name\t: Some  CPU @ 2.00GHz\n").unwrap(),
            "Some CPU @ 2.00GHz"
        );
        assert_eq!(cpu_model("Processor: x\n"), None);
        assert_eq!(memory_bytes("MemTotal:       1024 kB\n"), Some(1 << 20));
        let mounts = "1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 0:5 / /tmp rw shared:1 - tmpfs tmpfs rw\n\
                      3 1 0:6 / /mnt/a\\040b rw - xfs /dev/b rw\nnonsense\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/x")).unwrap(), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/tmpfile")).unwrap(), "ext4");
        assert_eq!(file_system(mounts, Path::new("/mnt/a b/c")).unwrap(), "xfs");
    }

    #[test]
    fn this_machine_has_a_line() {
        let machine = Machine::read(Path::new("."));
        assert!(machine.line().contains("cores"));
        assert!(machine.json()["cores"].as_u64().unwrap() > 0);
    }
}
