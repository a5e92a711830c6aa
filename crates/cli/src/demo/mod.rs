//! `demo crash`: kills processes and cuts the power, and shows that no acknowledged commit is lost.
//!
//! A thread reads keys from the terminal; the program does not wait for that thread. The main
//! thread does the rest, and shows the counters ten times a second. The clients of the database in
//! files run in another process. The clients of the database on the simulated device run on threads
//! of this process.

mod clients;
mod scenes;
mod tally;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use katydid::Database;
use katydid_command::bytes::grouped;
use katydid_command::database::listen;
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::seconds;
use katydid_command::output::say;
use katydid_command::signals;
use scenes::{Cut, Killed};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tally::{Ack, Verdict};

/// Interval between two updates of the counters.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

/// Show that acknowledged commits survive crashes
#[derive(Debug, Subcommand)]
pub enum Demo {
    Crash(Crash),
    #[command(hide = true)]
    Clients(Clients),
}

impl Demo {
    pub fn run(self) -> Result<()> {
        match self {
            Demo::Crash(command) => command.run(),
            Demo::Clients(command) => command.run(),
        }
    }
}

/// Kill a process, cut the power of a simulated device, and count the lost commits
///
/// Two databases run side by side, each with thousands of clients. The first is in files; the key
/// `k` kills the process that writes them (kill -9). The second is on a simulated device; the key
/// `p` cuts its power. After each event the command opens the database, and looks for every
/// acknowledged commit; then the clients continue. The key `q` ends the command. The exit code is 1
/// if a commit was lost.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  katydid demo crash\n  katydid demo crash --script kill,power,kill --seconds 10"
)]
pub struct Crash {
    /// Number of clients of each database; each waits for its commit before it begins the next
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Events that happen at equal intervals, instead of at keys
    #[arg(long, value_name = "EVENTS", value_enum, value_delimiter = ',')]
    script: Vec<Event>,
    /// Seconds that the script takes, without the time for opening the databases
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds, requires = "script")]
    seconds: f64,
    /// Seed that decides which unsynced bytes of the simulated device survive
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Print one JSON object for each event
    #[arg(long)]
    json: bool,
    /// Folder of the database in files, which must not exist [default: a temporary folder, removed
    /// at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Event that happens to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Event {
    /// Kill the process
    Kill,
    /// Cut the power of the simulated device
    Power,
}

/// Input of the main thread.
enum Input {
    Event(Event),
    Quit,
}

impl Crash {
    fn run(self) -> Result<()> {
        let is_terminal = std::io::stderr().is_terminal() && std::io::stdin().is_terminal();
        if self.script.is_empty() && !is_terminal {
            return Err(Failure::usage(
                "keys need a terminal; without one, name the events: --script kill,power --seconds 10",
            ));
        }
        let (sender, asked) = channel();
        let stopper = sender.clone();
        signals::on_stop(move || drop(stopper.send(Input::Quit)))?;
        // Dropping this value removes the folder, after the process that writes there has ended.
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
            (None, Some(temporary)) => temporary.path().join("db"),
            (None, None) => return Err(Failure::failed("no folder")),
        };
        let mut stage = Stage {
            killed: Killed::start(dir, self.clients)?,
            cut: Cut::start(self.clients, self.seed)?,
            screen: Screen::new(),
            json: self.json,
            lost: 0,
        };
        let ended = match self.script.is_empty() {
            true => stage.wait_for_keys(sender, &asked),
            false => stage.follow(&self.script, self.seconds, &asked),
        };
        drop(stage.screen);
        ended?;
        match stage.lost {
            0 => Ok(()),
            lost => Err(Failure::failed(format_args!("{} acknowledged commits were lost", grouped(lost)))),
        }
    }
}

struct Stage {
    killed: Killed,
    cut: Cut,
    screen: Screen,
    json: bool,
    lost: u64,
}

impl Stage {
    fn wait_for_keys(&mut self, sender: Sender<Input>, asked: &Receiver<Input>) -> Result<()> {
        std::thread::spawn(move || read_keys(&sender));
        loop {
            match self.show_until(None, asked) {
                Some(Input::Event(event)) => self.happen(event)?,
                Some(Input::Quit) | None => return Ok(()),
            }
        }
    }

    fn follow(&mut self, script: &[Event], seconds: f64, asked: &Receiver<Input>) -> Result<()> {
        let each = Duration::from_secs_f64(seconds / script.len() as f64);
        for event in script {
            let mut wait = each;
            // Wait for the first acknowledgement, because a crash before it shows nothing.
            while !wait.is_zero() || self.is_starting(*event) {
                if let Some(Input::Quit) =
                    self.show_until(Some(Instant::now() + wait.max(SHOWN_EVERY)), asked)
                {
                    return Err(Failure::failed("stopped by a signal"));
                }
                wait = Duration::ZERO;
            }
            self.happen(*event)?;
        }
        Ok(())
    }

    /// Returns whether the clients of an event's database run, but have no acknowledgement yet.
    fn is_starting(&mut self, event: Event) -> bool {
        match event {
            Event::Kill => self.killed.so_far().0 == 0 && self.killed.runs(),
            Event::Power => self.cut.so_far().0 == 0 && self.cut.runs(),
        }
    }

    /// Shows the counters until there is input, or until `end`.
    fn show_until(&mut self, end: Option<Instant>, asked: &Receiver<Input>) -> Option<Input> {
        loop {
            self.screen.show(self.killed.so_far(), self.cut.so_far());
            let left = end.map_or(SHOWN_EVERY, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            match asked.recv_timeout(left.min(SHOWN_EVERY)) {
                Ok(asked) => return Some(asked),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        let (what, verdict) = match event {
            Event::Kill => ("killed", self.killed.kill()?),
            Event::Power => ("power cut", self.cut.cut()?),
        };
        self.lost += verdict.lost;
        self.screen.print(what, verdict, self.json)?;
        match event {
            Event::Kill => self.killed.again(),
            Event::Power => self.cut.again(),
        }
    }
}

/// Reads keys until `q` or the end of the terminal.
fn read_keys(sender: &Sender<Input>) {
    let terminal = console::Term::stderr();
    loop {
        let asked = match terminal.read_char() {
            Ok('k') => Input::Event(Event::Kill),
            Ok('p') => Input::Event(Event::Power),
            Ok('q') | Err(_) => Input::Quit,
            Ok(_) => continue,
        };
        let ends = matches!(asked, Input::Quit);
        if sender.send(asked).is_err() || ends {
            return;
        }
    }
}

/// The counters in the last lines of a terminal, with the events above them.
struct Screen {
    bars: Option<(MultiProgress, [ProgressBar; 3])>,
    rates: [VecDeque<(Instant, u64)>; 2],
}

impl Screen {
    fn new() -> Screen {
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let line = || {
                let bar = all.add(ProgressBar::no_length());
                bar.set_style(
                    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                bar
            };
            let bars = [line(), line(), line()];
            bars[2].set_message("k: kill -9    p: cut the power    q: quit");
            (all, bars)
        });
        Screen { bars, rates: Default::default() }
    }

    fn show(&mut self, killed: (u64, f64), cut: (u64, f64)) {
        let Some((_, bars)) = &self.bars else { return };
        for (at, (name, (count, p99))) in
            [("files", killed), ("simulated device", cut)].into_iter().enumerate()
        {
            let rate = rate(&mut self.rates[at], count);
            bars[at].set_message(format!(
                "{name:<16}  acknowledged {:>13}  {:>9}/s  p99 {p99:>7.1} ms",
                grouped(count),
                grouped(rate)
            ));
        }
    }

    fn print(&mut self, what: &str, verdict: Verdict, json: bool) -> Result<()> {
        self.rates = Default::default();
        let line = match json {
            true => json!({
                "event": what,
                "acknowledged": verdict.acknowledged,
                "found": verdict.found,
                "lost": verdict.lost,
                "found_beyond": verdict.beyond,
            })
            .to_string(),
            false => format!("{what:<9}  {}", verdict.line()),
        };
        match &self.bars {
            // If standard output is the terminal with the counters, the line goes above them.
            Some((all, _)) if std::io::stdout().is_terminal() => all
                .println(line)
                .map_err(|error| Failure::failed(format_args!("cannot write to the terminal: {error}"))),
            _ => say(line),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some((all, _)) = &self.bars {
            // If the terminal is gone, there is nothing to clear.
            let _may_be_gone = all.clear();
        }
    }
}

/// Returns the commits per second of the last second.
fn rate(seen: &mut VecDeque<(Instant, u64)>, count: u64) -> u64 {
    let now = Instant::now();
    seen.push_back((now, count));
    while seen.len() > 2 && seen.front().is_some_and(|(at, _)| now - *at > Duration::from_secs(1)) {
        seen.pop_front();
    }
    match seen.front() {
        Some((at, before)) if now > *at => {
            (count.saturating_sub(*before) as f64 / (now - *at).as_secs_f64()) as u64
        }
        _ => 0,
    }
}

/// Run clients of a database in files and print each acknowledgement, until `demo crash` kills the
/// process
#[derive(Debug, Args)]
pub struct Clients {
    /// Number of clients
    #[arg(long)]
    clients: u32,
    /// Folder of the database
    #[arg(long)]
    dir: PathBuf,
}

impl Clients {
    fn run(self) -> Result<()> {
        let database = Database::open_with(&self.dir, clients::options())?;
        let _socket = listen(&database, &self.dir);
        clients::run(&database, self.clients, &AtomicBool::new(false), |acks| {
            let mut bytes = Vec::with_capacity(acks.len() * Ack::BYTES);
            acks.iter().for_each(|ack| ack.encode(&mut bytes));
            // One call writes all acknowledgements, so those of several threads do not mix, and a
            // kill can cut only the last one.
            let mut out = std::io::stdout().lock();
            // An error means that the reader has ended, so this process ends as well.
            out.write_all(&bytes).and_then(|()| out.flush()).map_err(|_| Failure::NobodyReads)
        })
    }
}
