//! Servers as child processes of this program. A server can be killed and started again.

use crate::replication::case::Scheme;
use crate::replication::server::{ASK, LISTENS, SYNCS};
use katydid_command::failure::{Failure, Result};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
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

/// Servers, each running or killed. Dropping this value kills them.
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Server>,
}

/// One server. Its id is its place among the servers, from 1.
#[derive(Debug)]
struct Server {
    folder: PathBuf,
    address: String,
    /// Arguments of the program, except for the address.
    arguments: Vec<OsString>,
    /// `None` while the server is killed.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// The server ends when this pipe is closed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

fn cannot(what: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::failed(format_args!("cannot {what} a server: {error}"))
}

impl Servers {
    /// Starts `count` servers, with empty folders whose names begin with `name`.
    pub fn start(setup: &ServerSetup, name: &str, scheme: Scheme, count: usize) -> Result<Servers> {
        Servers::start_each(setup, name, scheme, &vec![setup.delay; count])
    }

    /// Starts a server for each delay. The delay is added to each sync of the server.
    pub fn start_each(
        setup: &ServerSetup,
        name: &str,
        scheme: Scheme,
        delays: &[Duration],
    ) -> Result<Servers> {
        let mut servers = Servers { servers: Vec::new() };
        for (id, delay) in (1..).zip(delays) {
            let folder = setup.folder.join(format!("{name}-{id}"));
            std::fs::create_dir_all(&folder).map_err(cannot("make a folder for"))?;
            let time = |time: Duration| format!("{}us", time.as_nanos() as f64 / 1e3);
            let flags = [
                ("--scheme", scheme.to_string().into()),
                ("--id", id.to_string().into()),
                ("--device", setup.device.into()),
                ("--delay", time(*delay).into()),
                ("--network", time(setup.network).into()),
                ("--folder", folder.clone().into_os_string()),
            ];
            let arguments = flags.into_iter().flat_map(|(flag, value)| [flag.into(), value]).collect();
            let address = "127.0.0.1:0".to_owned();
            servers.servers.push(Server { folder, address, arguments, running: None });
            servers.again(id)?;
        }
        Ok(servers)
    }

    /// Addresses of the servers, in the order of their ids.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.address.as_str())
    }

    fn server(&mut self, id: u64) -> Result<&mut Server> {
        let at = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let found = at.and_then(|at| self.servers.get_mut(at));
        found.ok_or_else(|| Failure::failed(format_args!("there is no server {id}")))
    }

    fn running(&mut self, id: u64) -> Result<&mut Running> {
        let running = self.server(id)?.running.as_mut();
        running.ok_or_else(|| Failure::failed(format_args!("server {id} does not run")))
    }

    /// Number of durable writes, syncs and preparations on a server's device since the server was
    /// started.
    pub fn syncs(&mut self, id: u64) -> Result<u64> {
        let running = self.running(id)?;
        if let Some(input) = &mut running.input {
            writeln!(input, "{ASK}").map_err(cannot("ask"))?;
        }
        let text = running.line_after(SYNCS)?;
        text.parse().map_err(|error| Failure::failed(format_args!("{SYNCS}{text}: {error}")))
    }

    /// Kills a server (kill -9).
    pub fn kill(&mut self, id: u64) -> Result<()> {
        self.running(id)?.child.kill().map_err(cannot("kill"))?;
        // Dropping the value kills the process, and waits for its end.
        self.server(id)?.running = None;
        Ok(())
    }

    /// Starts a server that does not run, at its former address.
    pub fn again(&mut self, id: u64) -> Result<()> {
        let server = self.server(id)?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot("start"))?);
        command.args(["lab", "replica-server", "--listen", &server.address]).args(&server.arguments);
        let mut running = Running::start(command)?;
        server.address = running.line_after(LISTENS)?;
        server.running = Some(running);
        Ok(())
    }

    /// Stops all servers, checks that each closed without an error, and removes the folders.
    pub fn stop(mut self) -> Result<()> {
        for server in &mut self.servers {
            if let Some(running) = server.running.take() {
                running.stop()?;
            }
        }
        let mut folders = self.servers.iter().map(|server| &server.folder);
        folders.try_for_each(std::fs::remove_dir_all).map_err(cannot("remove the folder of"))
    }
}

impl Running {
    fn start(mut command: Command) -> Result<Running> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot("start"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::failed("a server has no pipes"));
        };
        Ok(Running { child, input: Some(input), output: BufReader::new(output) })
    }

    /// Reads the server's next line, which has `words` in it. Returns the text after these words.
    fn line_after(&mut self, words: &str) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(cannot("read from"))?;
        match line.trim_end().split_once(words) {
            Some((_, text)) => Ok(text.to_owned()),
            None => {
                Err(Failure::failed(format_args!("a server ended, or wrote {line:?} instead of {words:?}")))
            }
        }
    }

    /// Stops the server, and checks that it closed without an error.
    fn stop(mut self) -> Result<()> {
        drop(self.input.take());
        let ended = self.child.wait().map_err(cannot("wait for"))?;
        match ended.success() {
            true => Ok(()),
            false => Err(Failure::failed(format_args!("a server did not close well: {ended}"))),
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
