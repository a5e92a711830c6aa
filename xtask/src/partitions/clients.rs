//! The clients: a loader, whose output says what was acknowledged, and a reader, which must find
//! what was acknowledged before.

use super::group::{Place, TABLE, addresses};
use super::lines::{BATCH, LINES, Ledger, file};
use super::process::{Flag, Running, run};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum time of one batch of a loader.
const BATCH_WAIT: &str = "120s";

/// Maximum time of a loader, which loads one file.
const FILE_WAIT: Duration = Duration::from_secs(600);

/// Maximum number of times that a loader fails at one file.
const FAILURES_MAX: u32 = 20;

/// Pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time of a read. The client itself gives up after 10 s.
const READ_WAIT: Duration = Duration::from_secs(60);

/// State that the threads of the campaign share.
pub struct Shared<'a> {
    pub place: &'a Place,
    pub seed: u64,
    pub ledger: Mutex<Ledger>,
    /// Set when the clients are to end after their current round.
    pub over: Flag,
    /// Set when everything is to end at once.
    pub stop: &'a Flag,
}

impl Shared<'_> {
    // No code that panics runs under the latch.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads one round after the other. Returns how many times a loader failed.
    pub fn load(&self) -> Result<u32, String> {
        let mut failures = 0;
        while !self.over.is_set() {
            let round = self.ledger().begin_round();
            let mut tries = 1;
            while let Some(message) = self.load_round(round)? {
                println!("   the loader failed in round {round}: {message}");
                failures += 1;
                if tries >= FAILURES_MAX {
                    return Err(format!("the loader failed {tries} times in round {round}"));
                }
                tries += 1;
            }
        }
        Ok(failures)
    }

    /// Runs one loader. Returns its message if it failed.
    fn load_round(&self, round: usize) -> Result<Option<String>, String> {
        let path = self.place.folder.join("round.tsv");
        let cannot = |error| format!("{}: {error}", path.display());
        std::fs::write(&path, file(self.seed, round)).map_err(cannot)?;
        let shown = path.display().to_string();
        let mut command = self.place.client(&["load", TABLE, &shown, "--acks", "--wait", BATCH_WAIT]);
        command.args(["--batch", &BATCH.to_string(), "--at", &addresses(round)]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut loader = Running::start(&mut command)?;
        let (out, err) = (loader.0.stdout.take(), loader.0.stderr.take());
        let (status, lines, message) = thread::scope(|scope| {
            let acknowledgements = scope.spawn(|| self.hear(round, out));
            let messages = scope.spawn(|| {
                let mut text = String::new();
                err.map_or(Ok(0), |mut err| err.read_to_string(&mut text)).map(|_| text)
            });
            let status = loader.wait(FILE_WAIT, self.stop);
            // The loader's pipes end with the process, and so do the two threads.
            drop(loader);
            (status, acknowledgements.join(), messages.join())
        });
        let (Ok(lines), Ok(message)) = (lines, message) else { return Err("a thread panicked".to_owned()) };
        let message = message.map_err(|error| format!("the messages of the loader: {error}"))?;
        match status?.success() {
            true if lines == LINES => Ok(None),
            true => Err(format!("the loader succeeded, but acknowledged only {lines} lines of {LINES}")),
            false => {
                // A message that does not name the file is about the session: nothing was sent.
                if message.contains(&shown) {
                    self.ledger().lose(round, lines);
                }
                Ok(Some(message.trim().to_owned()))
            }
        }
    }

    /// Records a loader's acknowledgements. Returns the number of acknowledged lines.
    fn hear(&self, round: usize, out: Option<impl Read>) -> u32 {
        let mut acknowledged = 0;
        let Some(out) = out else { return acknowledged };
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let number = line.strip_prefix("acknowledged ").and_then(|line| line.strip_suffix(" lines"));
            if let Some(lines) = number.and_then(|number| number.parse().ok()) {
                acknowledged = lines;
                self.ledger().acknowledge(round, lines);
            }
        }
        acknowledged
    }

    /// Reads the last acknowledged line again and again, linearizably. Returns the number of reads
    /// that were answered, and of reads that were not.
    ///
    /// # Errors
    /// A read did not find the line.
    pub fn read(&self) -> Result<(u64, u64), String> {
        let (mut answered, mut unanswered) = (0, 0);
        while !self.over.is_set() {
            self.stop.sleep(READ_PAUSE)?;
            let Some((key, row)) = self.ledger().last() else { continue };
            let at = addresses(answered as usize);
            let mut client = self.place.client(&["get", TABLE, &key, "--at", &at]);
            let output = run(&mut client, Stdio::piped(), READ_WAIT, self.stop)?;
            let found = String::from_utf8_lossy(&output.stdout);
            let message = String::from_utf8_lossy(&output.stderr);
            if output.status.success() && found.trim_end() == row {
                answered += 1;
            } else if output.status.success() || message.contains("is not in table") {
                return Err(format!(
                    "a read began when {row:?} was acknowledged, and returned {found:?} ({})",
                    message.trim()
                ));
            } else {
                unanswered += 1;
            }
        }
        Ok((answered, unanswered))
    }
}
