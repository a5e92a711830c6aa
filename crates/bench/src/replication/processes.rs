//! Servers as child processes of this program.

use crate::replication::case::Scheme;
use crate::replication::server::LISTENS;
use katydid_command::failure::{Failure, Result};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Set-up of servers, equal for all cases.
#[derive(Debug, Clone)]
pub struct ServerSetup {
    /// Folder in which each server gets a folder.
    pub folder: PathBuf,
    /// Word for the device of the logs.
    pub device: &'static str,
    /// Time added to each sync.
    pub delay: Duration,
    /// Time added to each request of the paper's replication.
    pub network: Duration,
}

/// Running servers. Dropping this value kills them.
#[derive(Debug)]
pub struct Servers {
    running: Vec<Running>,
    folders: Vec<PathBuf>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    address: String,
}

fn cannot(what: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::failed(format_args!("cannot {what} a server: {error}"))
}

impl Servers {
    /// Starts `count` servers, with empty folders whose names begin with `name`.
    pub fn start(setup: &ServerSetup, name: &str, scheme: Scheme, count: usize) -> Result<Servers> {
        let mut servers = Servers { running: Vec::new(), folders: Vec::new() };
        for id in 1..=count {
            let folder = setup.folder.join(format!("{name}-{id}"));
            std::fs::create_dir_all(&folder).map_err(cannot("make a folder for"))?;
            servers.folders.push(folder.clone());
            let mut command = Command::new(std::env::current_exe().map_err(cannot("start"))?);
            let time = |time: Duration| format!("{}us", time.as_nanos() as f64 / 1e3);
            command
                .args(["lab", "replica-server", "--scheme", &scheme.to_string(), "--id", &id.to_string()])
                .args(["--device", setup.device, "--delay", &time(setup.delay)])
                .args(["--network", &time(setup.network), "--folder"])
                .arg(&folder);
            servers.running.push(Running::start(command)?);
        }
        Ok(servers)
    }

    /// Addresses of the servers, in the order of their ids.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.running.iter().map(|running| running.address.as_str())
    }

    /// Stops all servers, checks that each closed without an error, and removes the folders.
    pub fn stop(mut self) -> Result<()> {
        for mut running in std::mem::take(&mut self.running) {
            drop(running.child.stdin.take());
            let ended = running.child.wait().map_err(cannot("wait for"))?;
            if !ended.success() {
                return Err(Failure::failed(format_args!("a server did not close well: {ended}")));
            }
        }
        self.folders.iter().try_for_each(std::fs::remove_dir_all).map_err(cannot("remove the folder of"))
    }
}

impl Running {
    fn start(mut command: Command) -> Result<Running> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot("start"))?;
        let mut running = Running { child, address: String::new() };
        let mut line = String::new();
        if let Some(out) = running.child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(cannot("read from"))?;
        }
        match line.trim_end().split_once(LISTENS) {
            Some((_, address)) => {
                running.address = address.to_owned();
                Ok(running)
            }
            None => Err(Failure::failed("a server did not start")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process has already ended, unless the measurement failed.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}
