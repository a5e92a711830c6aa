//! Three replicas, each a process in a network namespace of its own, and the commands that ask
//! them.

use super::network::{REPLICAS, address, within};
use super::process::{Flag, Running, run};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The table of the lines.
pub const TABLE: &str = "lines";

/// Maximum time in which replicas whose links all work elect a leader, catch up or close.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of entries between two snapshots, and number of entries below a snapshot that a replica
/// keeps. A replica that is cut off for seconds lags by more entries, so it gets a snapshot.
const ENTRIES: u32 = 200;

/// Number of lines of a replica's messages that are printed after a failure.
const SHOWN: usize = 20;

/// A program and a folder.
pub struct Place {
    /// The program `katydid`.
    pub program: PathBuf,
    /// Folder of all files of the campaign.
    pub folder: PathBuf,
}

impl Place {
    /// The command of a client in the bridge's namespace.
    pub fn client(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("replica").args(words);
        command
    }
}

/// The addresses of all replicas, the one with index `first` first.
pub fn addresses(first: usize) -> String {
    let mut all = REPLICAS.map(address);
    all.rotate_left(first % REPLICAS.len());
    all.join(",")
}

/// The leader, according to the replicas' answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    pub id: u64,
    pub term: u64,
}

/// The replicas' processes.
pub struct Group<'a> {
    place: &'a Place,
    stop: &'a Flag,
    running: Vec<(u64, Running)>,
}

impl<'a> Group<'a> {
    /// Starts the replicas, and makes a group of them.
    pub fn start(place: &'a Place, stop: &'a Flag) -> Result<Self, String> {
        let mut group = Group { place, stop, running: Vec::new() };
        for id in REPLICAS {
            let running = group.start_replica(id)?;
            group.running.push((id, running));
        }
        let members = REPLICAS.map(|id| format!("{id}={}", address(id)));
        group.ask("init", &members.each_ref().map(|member| &**member))?;
        Ok(group)
    }

    fn start_replica(&self, id: u64) -> Result<Running, String> {
        let cannot = |error| format!("cannot start replica {id}: {error}");
        let file = self.place.folder.join(format!("replica-{id}.toml"));
        let text = format!(
            "cluster = \"{:032x}\"\nid = {id}\nfolder = \"replica-{id}\"\nlisten = \"{}\"\ncache = \"32MiB\"\n\
             snapshot_entries = {ENTRIES}\nkept_entries = {ENTRIES}\n",
            77,
            address(id)
        );
        fs::write(&file, text).map_err(cannot)?;
        let messages = File::create(self.messages(id)).map_err(cannot)?;
        let mut command = within(id);
        command.arg(&self.place.program).args(["replica", "--until-input-ends", "--config"]).arg(&file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        let mut running = Running::start(&mut command)?;
        let mut line = String::new();
        if let Some(out) = running.0.stdout.take() {
            let mut out = BufReader::new(out);
            out.read_line(&mut line).map_err(cannot)?;
            // The pipe stays open, because a replica prints one more line when it closes.
            running.0.stdout = Some(out.into_inner());
        }
        match line.contains(" listens at ") {
            true => Ok(running),
            false => Err(format!("replica {id} did not start: {}", self.last_messages(id))),
        }
    }

    /// The file of a replica's standard error.
    fn messages(&self, id: u64) -> PathBuf {
        self.place.folder.join(format!("replica-{id}.messages"))
    }

    fn last_messages(&self, id: u64) -> String {
        let text = fs::read_to_string(self.messages(id)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }

    /// Prints the last messages of each replica that has printed any, after a failure.
    pub fn print_messages(&self) {
        for id in REPLICAS {
            let messages = self.last_messages(id);
            if !messages.is_empty() {
                println!("== the last messages of replica {id}:\n{messages}");
            }
        }
    }

    /// Runs a client's command at all replicas, and returns its output.
    fn ask(&self, command: &str, words: &[&str]) -> Result<String, String> {
        let mut client = self.place.client(&[command, "--at", &addresses(0)]);
        let output = run(client.args(words), Stdio::piped(), PATIENCE, self.stop)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // `status` fails without a leader, and prints the answers of the replicas even then.
        match output.status.success() || command == "status" {
            true => Ok(text),
            false => Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// The answer of each replica.
    fn status(&self) -> Result<Vec<Value>, String> {
        let members = self.ask("status", &["--json"])?;
        members
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|error| format!("status: {error}: {line}")))
            .collect()
    }

    /// Asks for the status until `look` returns a value.
    fn look_for<T>(&mut self, what: &str, look: impl Fn(&[Value]) -> Option<T>) -> Result<T, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let members = self.status()?;
            if let Some(found) = look(&members) {
                return Ok(found);
            }
            if Instant::now() >= end {
                let members: Vec<String> = members.iter().map(Value::to_string).collect();
                return Err(format!(
                    "all links work, but {what} within {} s: {}",
                    PATIENCE.as_secs(),
                    members.join(" ")
                ));
            }
            self.check_alive()?;
            self.stop.sleep(Duration::from_millis(50))?;
        }
    }

    /// Waits for a leader. All links must work.
    pub fn leader(&mut self) -> Result<Leader, String> {
        self.look_for("the replicas elect no leader", |members| {
            let leads = |member: &Value| {
                let is_leader = member["role"] == "leader";
                is_leader.then_some(Leader { id: member["id"].as_u64()?, term: member["term"].as_u64()? })
            };
            members.iter().filter_map(leads).max_by_key(|leader| leader.term)
        })
    }

    /// Waits until all replicas have applied the last entry of the leader's log, and no replica has
    /// another entry. All links must work, and no client may write.
    pub fn level(&mut self) -> Result<(), String> {
        self.look_for("the replicas do not apply all entries", |members| {
            let last = members.first()?["last_index"].as_u64()?;
            let is_level = |member: &Value| member["last_index"] == last && member["applied"] == last;
            let has_leader = members.iter().any(|member| member["role"] == "leader");
            (members.len() == REPLICAS.len() && members.iter().all(is_level) && has_leader).then_some(())
        })
    }

    /// Fails if a replica's process has ended.
    pub fn check_alive(&mut self) -> Result<(), String> {
        for (id, running) in &mut self.running {
            if let Some(status) = running.0.try_wait().map_err(|error| format!("replica {id}: {error}"))? {
                return Err(format!("the process of replica {id} has ended: {status}"));
            }
        }
        Ok(())
    }

    /// Reads all lines into a file: from the leader, linearizably, or the state that one replica
    /// has applied.
    pub fn scan(&self, replica: Option<u64>) -> Result<PathBuf, String> {
        let name = replica.map_or("scan".to_owned(), |id| format!("scan-{id}"));
        let file = self.place.folder.join(&name);
        let out = File::create(&file).map_err(|error| format!("{name}: {error}"))?;
        let at = replica.map_or_else(|| addresses(0), address);
        let mut client = self.place.client(&["scan", TABLE, "--at", &at]);
        if replica.is_some() {
            // Any age will do, because the replica has applied the last entry.
            client.args(["--stale", "1h"]);
        }
        let output = run(&mut client, out, 10 * PATIENCE, self.stop)?;
        match output.status.success() {
            true => Ok(file),
            false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// Stops all replicas. Fails if one does not close cleanly.
    pub fn close(mut self) -> Result<(), String> {
        for (id, mut running) in std::mem::take(&mut self.running) {
            drop(running.0.stdin.take());
            let status: ExitStatus = running.wait(PATIENCE, self.stop)?;
            if !status.success() {
                return Err(format!("replica {id} did not close cleanly: {status}"));
            }
        }
        Ok(())
    }
}
