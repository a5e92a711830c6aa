//! `replica demo`: runs three replicas on one machine, and kills the leader under load.
//!
//! This process starts three processes of its own program, and loads lines of text with several
//! clients. It kills the leader (kill -9), waits for the next leader, and restarts the killed
//! replica. At the end it compares every replica with the acknowledged lines. Only this process
//! knows the acknowledged lines, from the answers to its clients. The replicas end when this
//! process ends, even by a crash.

use super::failed;
use crate::help_files;
use clap::Args;
use katydid_command::bytes::grouped;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_replica::{
    Client, ClientOptions, ReadAt, ReplicaId, RequestId, Role, Status, WriteOptions, WriteSet,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Number of replicas.
const REPLICAS: ReplicaId = 3;
/// The table of the lines.
const TABLE: &str = "lines";
/// Maximum time to wait for a leader, or for the answer to a write.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two checks of a state that must come.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of rows per call.
const ROWS: u32 = 5_000;

/// Run three replicas on this machine, kill the leader under load, and look for lost lines
///
/// The three replicas are processes of this program. Each has its own folder, configuration file
/// and Raft log; all share this machine's disk and processors. Clients load lines of text. The exit
/// code is 1 if an acknowledged line is missing or differs at any replica.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  katydid replica demo\n  katydid replica demo UnicodeData.txt --dir three --clients 32"
)]
pub struct Demo {
    /// File whose lines are loaded [default: the manual of this program]
    file: Option<PathBuf>,
    /// Folder of the replicas, which must not exist [default: a temporary folder, removed at the
    /// end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Number of clients; each commits one line at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub fn run(self, program: clap::Command) -> Result<()> {
        let (name, text) = match &self.file {
            Some(file) => {
                let read = std::fs::read(file);
                let cannot = |error| Failure::failed(format_args!("cannot read {}: {error}", file.display()));
                (file.display().to_string(), read.map_err(cannot)?)
            }
            None => ("the manual".to_owned(), help_files::manual(program)?),
        };
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        if lines.len() < 3 {
            return Err(Failure::failed(format_args!("{name} has fewer than three lines")));
        }
        let temporary =
            match &self.dir {
                Some(dir) if dir.exists() => {
                    return Err(Failure::failed(format_args!("{} exists already", dir.display())));
                }
                Some(_) => None,
                None => Some(tempfile::tempdir().map_err(|error| {
                    Failure::failed(format_args!("cannot make a temporary folder: {error}"))
                })?),
            };
        let dir = match (&self.dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => return Err(Failure::failed("no folder")),
        };
        let mut stage = Stage { replicas: Replicas::start(&dir)?, lines: &lines, json: self.json };
        let outcome = stage.play(self.clients, &name).map_err(|failure| match failure {
            // The replicas were not compared with the lines, so the exit code must report a
            // failure.
            Failure::NobodyReads => {
                Failure::failed("no program reads standard output, so the demonstration ended early")
            }
            failure => failure,
        })?;
        let Stage { replicas, .. } = stage;
        replicas.stop()?;
        let said = if self.json { say(outcome.json().to_string()) } else { Ok(()) };
        match outcome.missing {
            0 => said,
            missing => {
                Err(Failure::failed(format_args!("{} acknowledged lines are missing", grouped(missing))))
            }
        }
    }
}

struct Stage<'l> {
    replicas: Replicas,
    lines: &'l [&'l [u8]],
    json: bool,
}

/// An acknowledged commit, with the time at which it was begun.
struct Acknowledged {
    begun: Instant,
}

/// Result of a demonstration.
struct Outcome {
    acknowledged: usize,
    acknowledged_at_kill: usize,
    killed: ReplicaId,
    leader: ReplicaId,
    failover: Duration,
    missing: u64,
}

impl Outcome {
    fn json(&self) -> serde_json::Value {
        json!({
            "acknowledged": self.acknowledged,
            "acknowledged_at_kill": self.acknowledged_at_kill,
            "killed": self.killed,
            "leader": self.leader,
            "failover_ms": u64::try_from(self.failover.as_millis()).unwrap_or(u64::MAX),
            "missing": self.missing,
            "replicas": REPLICAS,
        })
    }
}

impl Stage<'_> {
    fn print(&self, line: &str) -> Result<()> {
        if self.json { Ok(()) } else { say(line) }
    }

    fn play(&mut self, clients: u32, name: &str) -> Result<Outcome> {
        let client =
            Client::new(ClientOptions::new(self.replicas.addresses.values().cloned())).map_err(failed)?;
        client.initialize(&self.replicas.addresses[&1], &self.replicas.addresses).map_err(failed)?;
        let first = self.replicas.leader(&client)?;
        let dir = self.replicas.dir.display().to_string();
        self.print(&format!("replicas 1, 2 and 3 run in {dir}; replica {first} leads"))?;
        let count = self.lines.len();
        self.print(&format!("{clients} clients load the {} lines of {name}", grouped(count as u64)))?;

        let (next, lines) = (AtomicUsize::new(0), self.lines);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for _ in 0..clients {
                let (client, next, sender) = (client.clone(), &next, sender.clone());
                scope.spawn(move || {
                    if let Err(failure) = load(&client, lines, next, &sender) {
                        // The receiver is dropped if another client has failed before.
                        let _may_be_dropped = sender.send(Err(failure));
                    }
                });
            }
            drop(sender);
            let mut acknowledged = 0;
            let (mut killed_at, mut at_kill, mut failover) = (None, 0, None);
            for ack in receiver {
                let ack: Acknowledged = ack.inspect_err(|_| {
                    // This makes the other clients end at their next line.
                    next.store(count, Ordering::Relaxed);
                })?;
                acknowledged += 1;
                if killed_at.is_none() && acknowledged * 3 >= count {
                    self.replicas.kill(first)?;
                    (killed_at, at_kill) = (Some(Instant::now()), acknowledged);
                    let so_far = grouped(acknowledged as u64);
                    self.print(&format!(
                        "{so_far} acknowledged; replica {first}, the leader, is killed (kill -9)"
                    ))?;
                }
                // Count only commits that were begun after the kill, because an answer of the
                // killed leader may still arrive.
                if let (None, Some(at)) = (failover, killed_at.filter(|at| ack.begun > *at)) {
                    failover = Some(at.elapsed());
                    let ms = at.elapsed().as_millis();
                    self.print(&format!("the first commit after the kill is acknowledged {ms} ms later"))?;
                    self.replicas.again(first)?;
                    self.print(&format!("replica {first} runs again"))?;
                }
            }
            let Some(failover) = failover else {
                return Err(Failure::failed("every line was acknowledged before the leader was killed"));
            };
            let leader = self.replicas.leader(&client)?;
            let missing = self.compare(&client, leader)?;
            let all = grouped(acknowledged as u64);
            self.print(&format!(
                "{all} lines acknowledged, {} missing; all replicas are equal",
                grouped(missing)
            ))?;
            let (acknowledged_at_kill, killed) = (at_kill, first);
            Ok(Outcome { acknowledged, acknowledged_at_kill, killed, leader, failover, missing })
        })
    }

    /// Waits until every replica has applied the leader's last entry. Returns the number of lines
    /// that are missing or wrong at the replicas.
    fn compare(&self, client: &Client, leader: ReplicaId) -> Result<u64> {
        let last = client.status(&self.replicas.addresses[&leader]).map_err(failed)?.last_index;
        let mut missing = 0;
        for (id, address) in &self.replicas.addresses {
            let has_all = |status: &Status| status.applied >= last;
            wait_for(&format!("replica {id} does not catch up"), || {
                client.status(address).ok().filter(has_all)
            })?;
            let mut rows = BTreeMap::new();
            let mut low = Bound::Unbounded;
            loop {
                let bounds = (low, Bound::Unbounded);
                let found = client.range_at(address, TABLE, bounds, ROWS, ReadAt::Applied).map_err(failed)?;
                let last = found.rows.last().map(|(key, _)| key.clone());
                rows.extend(found.rows);
                match last {
                    Some(last) if !found.is_whole => low = Bound::Excluded(last),
                    _ => break,
                }
            }
            let is_there = |(number, line): &(usize, &&[u8])| {
                rows.get(&key(*number)).is_some_and(|value| value.as_slice() == **line)
            };
            let here = self.lines.iter().enumerate().filter(is_there).count();
            self.print(&format!("replica {id}: {} lines", grouped(here as u64)))?;
            missing += (self.lines.len() - here) as u64;
        }
        Ok(missing)
    }
}

fn key(line: usize) -> Vec<u8> {
    format!("{:08}", line + 1).into_bytes()
}

/// Commits lines one after another, until none is left.
fn load(
    client: &Client,
    lines: &[&[u8]],
    next: &AtomicUsize,
    sender: &Sender<Result<Acknowledged>>,
) -> Result<()> {
    let mut id = RequestId { client: client.open_client().map_err(failed)?, sequence: 0 };
    let options = WriteOptions { wait: PATIENCE, ..WriteOptions::default() };
    loop {
        // Relaxed: the threads share only the number itself.
        let line = next.fetch_add(1, Ordering::Relaxed);
        let Some(text) = lines.get(line) else { return Ok(()) };
        let begun = Instant::now();
        id.sequence += 1;
        client.write(id, WriteSet::default().put(TABLE, key(line), text), options).map_err(failed)?;
        if sender.send(Ok(Acknowledged { begun })).is_err() {
            return Ok(());
        }
    }
}

/// Calls `look` until it returns a value, or fails after [`PATIENCE`].
fn wait_for<T>(else_: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Failure::failed(else_))
}

/// The processes of the replicas.
struct Replicas {
    dir: PathBuf,
    addresses: BTreeMap<ReplicaId, String>,
    running: BTreeMap<ReplicaId, Running>,
}

impl Replicas {
    fn start(dir: &Path) -> Result<Replicas> {
        let made = std::fs::create_dir_all(dir);
        made.map_err(|error| Failure::failed(format_args!("cannot make {}: {error}", dir.display())))?;
        let mut replicas =
            Replicas { dir: dir.to_owned(), addresses: BTreeMap::new(), running: BTreeMap::new() };
        for id in 1..=REPLICAS {
            // The system chooses a port, which then goes into the configuration.
            replicas.configure(id, "127.0.0.1:0")?;
            let (running, address) = Running::start(&replicas.file(id))?;
            replicas.configure(id, &address)?;
            replicas.addresses.insert(id, address);
            replicas.running.insert(id, running);
        }
        Ok(replicas)
    }

    fn file(&self, id: ReplicaId) -> PathBuf {
        self.dir.join(format!("replica-{id}.toml"))
    }

    fn configure(&self, id: ReplicaId, address: &str) -> Result<()> {
        // Any id will do if all three replicas have the same one.
        let text = format!(
            "cluster = \"64656d6f6e73747261746f6e00000000\"\nid = {id}\nfolder = \"replica-{id}\"\nlisten = \"{address}\"\ncache = \"32MiB\"\n"
        );
        let file = self.file(id);
        std::fs::write(&file, text)
            .map_err(|error| Failure::failed(format_args!("cannot write {}: {error}", file.display())))
    }

    /// Waits for a leader, and returns its number.
    fn leader(&self, client: &Client) -> Result<ReplicaId> {
        wait_for("the replicas elect no leader", || {
            let statuses = self.addresses.iter().map(|(id, address)| (*id, client.status(address)));
            let leads = |(id, status): (ReplicaId, katydid_replica::Result<Status>)| {
                status.is_ok_and(|status| status.role == Role::Leader).then_some(id)
            };
            statuses.into_iter().find_map(leads)
        })
    }

    /// Kills a replica (kill -9).
    fn kill(&mut self, id: ReplicaId) -> Result<()> {
        match self.running.remove(&id) {
            Some(running) => running.kill(),
            None => Err(Failure::failed(format_args!("replica {id} does not run"))),
        }
    }

    /// Starts a replica that was killed.
    fn again(&mut self, id: ReplicaId) -> Result<()> {
        let (running, _) = Running::start(&self.file(id))?;
        self.running.insert(id, running);
        Ok(())
    }

    /// Stops all replicas. Fails if one does not close cleanly.
    fn stop(mut self) -> Result<()> {
        std::mem::take(&mut self.running).into_iter().try_for_each(|(id, running)| running.stop(id))
    }
}

/// The process of a replica, which is killed on drop.
struct Running(Child);

impl Running {
    /// Starts a replica, and waits until it accepts connections. Also returns its address.
    fn start(file: &Path) -> Result<(Running, String)> {
        let cannot = |error: std::io::Error| Failure::failed(format_args!("cannot start a replica: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.args(["replica", "--until-input-ends", "--config"]).arg(file);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let mut running = Running(child);
        let mut line = String::new();
        if let Some(out) = running.0.stdout.take() {
            let mut out = BufReader::new(out);
            out.read_line(&mut line).map_err(cannot)?;
            // The pipe stays open, because a replica that ends prints one more line (`replica N is
            // closed`).
            running.0.stdout = Some(out.into_inner());
        }
        match line.trim_end().split_once(" listens at ") {
            Some((_, address)) => Ok((running, address.to_owned())),
            None => Err(Failure::failed(format_args!(
                "a replica did not start; its configuration is {}",
                file.display()
            ))),
        }
    }

    fn kill(mut self) -> Result<()> {
        let cannot = |error: std::io::Error| Failure::failed(format_args!("cannot kill a replica: {error}"));
        self.0.kill().map_err(cannot)?;
        self.0.wait().map(drop).map_err(cannot)
    }

    fn stop(mut self, id: ReplicaId) -> Result<()> {
        drop(self.0.stdin.take());
        let ended = self.0.wait();
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::failed(format_args!("replica {id} did not close cleanly: {status}"))),
            Err(error) => Err(Failure::failed(format_args!("cannot wait for replica {id}: {error}"))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process still runs only if the demonstration has failed.
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}
