//! Measures groups of three replicas on this machine, in turn within each round: Katydid's and
//! etcd's.
//!
//! Each member is a process with a folder of its own; all share the machine's processors and disk.
//! Each client is a thread that puts one key at a time, and waits until the group has acknowledged
//! it. Every put has another key. After each run the group must have exactly the acknowledged keys.

mod etcd;
mod katydid;

use crate::Result;
use crate::flags;
use crate::turns::{Run, Turns, print};
pub use katydid::serve;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HELP: &str = "\
Measure durable puts to a group of three replicas on this machine, Katydid's and etcd's in turn

Usage: katydid-compare replicas [--dir DIR] [--clients LIST] [--groups NAMES] [--seconds S] [--rounds N]

  --dir DIR       Folder to work in; must be new or empty [default: katydid-compare]
  --clients LIST  Numbers of clients; each is a thread with one put in flight [default: 1,8,32,128]
  --groups NAMES  Groups to measure, of katydid-quorum, katydid-all, etcd [default: all]
  --seconds S     Seconds of each run [default: 1]
  --rounds N      Runs of each group in each case [default: 5]

A put has a key of 20 bytes and a value of 100 bytes. `katydid-quorum` and etcd acknowledge it when a majority has it durable;
`katydid-all` when every replica has. The program `etcd` must be in the PATH (Debian: apt-get install etcd-server). A row has the puts
acknowledged per second in the median, the slowest and the fastest round. `ours is` says how many times as fast katydid-quorum was: the
median, the least and the greatest of the rounds' ratios.";

/// All groups. The first is compared with each of the others.
const NAMES: [&str; 3] = ["katydid-quorum", "katydid-all", "etcd"];
/// Bytes of a value. A key has 20 bytes.
const VALUE_BYTES: usize = 100;
/// Time in which a group must start, or acknowledge a put.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running group of three replicas.
trait Group: Sync {
    /// The client of one thread.
    fn client(&self, thread: usize) -> Result<Box<dyn Client + '_>>;
    /// Number of keys in the group.
    fn keys(&self) -> Result<u64>;
    fn stop(self: Box<Self>) -> Result<()>;
}

/// One thread's client.
trait Client: Send {
    /// Puts a key. The group has acknowledged the put when the call returns.
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()>;
}

fn known(name: &str) -> Result<&'static str> {
    let found = NAMES.into_iter().find(|known| *known == name);
    found.ok_or_else(|| format!("no group {name:?}; there are {}", NAMES.join(", ")).into())
}

fn start(name: &str, place: &Path) -> Result<Box<dyn Group>> {
    Ok(match name {
        "etcd" => Box::new(etcd::Etcd::start(place)?),
        name => Box::new(katydid::Katydid::start(place, name == "katydid-all")?),
    })
}

/// A number of clients.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Clients(usize);

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clients", self.0)
    }
}

pub fn main(arguments: Vec<String>) -> Result<()> {
    let turns = Turns {
        dir: PathBuf::from("katydid-compare"),
        names: NAMES.to_vec(),
        rounds: 5,
        time: Duration::from_secs(1),
    };
    let mut clients = vec![1, 8, 32, 128];
    let turns = turns.read(arguments, |turns, flag, value| {
        match flag {
            "--clients" => clients = flags::list(flag, value, flags::many)?,
            "--groups" => turns.names = flags::list(flag, value, known)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(turns) = turns else {
        println!("{HELP}");
        return Ok(());
    };
    let cases: Vec<Clients> = clients.into_iter().map(Clients).collect();
    let rows = flags::in_new_folder(&turns.dir, || {
        turns.measure(&cases, |name, place, Clients(clients)| one(name, place, clients, turns.time))
    })?;
    print(&rows, NAMES[0], "puts");
    Ok(())
}

fn one(name: &str, place: &Path, clients: usize, time: Duration) -> Result<Run> {
    std::fs::create_dir_all(place)?;
    let group = start(name, place)?;
    let clients: Vec<Box<dyn Client + '_>> =
        (0..clients).map(|thread| group.client(thread)).collect::<Result<_>>()?;
    let writers = clients.into_iter().enumerate().map(|(thread, mut client)| {
        move |nth: usize| -> Result<Duration> {
            let key = format!("{thread:04}{nth:016}").into_bytes();
            let since = Instant::now();
            client.put(key, vec![7; VALUE_BYTES])?;
            Ok(since.elapsed())
        }
    });
    let run = Run::of_workers(writers.collect(), || std::thread::sleep(time))?;
    let (keys, acknowledged) = (group.keys()?, run.times.len());
    if keys != acknowledged as u64 {
        return Err(format!("{acknowledged} puts were acknowledged, but there are {keys} keys").into());
    }
    group.stop()?;
    Ok(run)
}

/// Calls `look` until it returns a value. Fails with the message `else_` after [`PATIENCE`].
fn wait_for<T>(else_: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(else_.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_has_exactly_the_acknowledged_keys() {
        if std::process::Command::new("etcd").arg("--version").output().is_err() {
            eprintln!("left out: etcd is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let group = start("etcd", folder.path()).unwrap();
        let mut client = group.client(0).unwrap();
        for key in ["a", "b", "a"] {
            client.put(key.into(), vec![1]).unwrap();
        }
        drop(client);
        assert_eq!(group.keys().unwrap(), 2);
        group.stop().unwrap();
        assert!(known("etc").is_err());
    }
}
