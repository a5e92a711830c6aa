//! Clients that commit without a pause, while the measurement kills or starts replicas of the
//! group.
//!
//! Each thread is a client with one commit in flight. The keys of a client are its own and ascend.
//!
//! All atomics are relaxed. Every client adds to `acknowledged`, which is a plain sum. The
//! measuring thread sets `is_watched` and `is_over`. The times in the channel decide which commits
//! count, and the threads are joined at the end. The first client that fails sets `failure`.

use super::raft::PATIENCE;
use katydid_command::failure::{Failure, Result};
use katydid_replica::{Client, RequestId, WriteOptions, WriteSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a key and of a value: together 120.
const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 100;

/// Running clients. Dropping this value ends them after their current commits.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    /// The beginning of each commit that was acknowledged while `is_watched` was set.
    begun: Receiver<Instant>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    acknowledged: AtomicU64,
    is_watched: AtomicBool,
    is_over: AtomicBool,
    failure: OnceLock<String>,
}

impl Load {
    /// Starts the clients, which insert into `table`. Waits until as many commits are acknowledged
    /// as there are clients.
    pub fn start(client: &Client, table: &str, clients: usize, options: WriteOptions) -> Result<Load> {
        let shared = Arc::new(Shared::default());
        let (watched, begun) = channel();
        let mut load = Load { shared, begun, clients: Vec::new() };
        for thread in 0..clients {
            let (client, shared, watched) = (client.clone(), load.shared.clone(), watched.clone());
            let table = table.to_owned();
            let run = move || {
                if let Err(error) = commit(&client, &table, thread, options, &shared, &watched) {
                    shared.failure.get_or_init(|| format!("client {thread}: {error}"));
                }
            };
            load.clients.push(std::thread::Builder::new().spawn(run).map_err(Failure::failed)?);
        }
        load.wait_until(clients as u64)?;
        Ok(load)
    }

    /// Number of acknowledged commits so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until this number of commits is acknowledged.
    pub fn wait_until(&self, commits: u64) -> Result<()> {
        let (mut before, mut since) = (self.acknowledged(), Instant::now());
        while self.acknowledged() < commits {
            self.check()?;
            if self.acknowledged() > before {
                (before, since) = (self.acknowledged(), Instant::now());
            }
            if since.elapsed() > PATIENCE {
                return Err(Failure::failed(format_args!("no commit was acknowledged for {PATIENCE:?}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Acknowledged commits per second from now until `until` returns, and at least for `time`.
    pub fn rate(&self, time: Duration, until: impl FnOnce() -> Result<()>) -> Result<f64> {
        let (begin, before) = (Instant::now(), self.acknowledged());
        until()?;
        std::thread::sleep(time.saturating_sub(begin.elapsed()));
        self.check()?;
        Ok((self.acknowledged() - before) as f64 / begin.elapsed().as_secs_f64())
    }

    /// Calls `happen`. Returns the time from the return of `happen` to the first acknowledgement of
    /// a commit that was begun after that return. Acknowledgements of earlier commits do not count,
    /// because they may already have been on their way to the clients.
    pub fn gap_after(&self, happen: impl FnOnce() -> Result<()>) -> Result<Duration> {
        self.shared.is_watched.store(true, Ordering::Relaxed);
        happen()?;
        let at = Instant::now();
        let gap = loop {
            match self.begun.recv_timeout(PATIENCE.saturating_sub(at.elapsed())) {
                Ok(begun) if begun > at => break at.elapsed(),
                Ok(_) => {}
                Err(_) => {
                    self.check()?;
                    return Err(Failure::failed(format_args!("no commit was acknowledged for {PATIENCE:?}")));
                }
            }
        };
        self.shared.is_watched.store(false, Ordering::Relaxed);
        Ok(gap)
    }

    /// Fails if a client has failed. A panic of a client is found when its thread is joined.
    fn check(&self) -> Result<()> {
        self.shared.failure.get().map_or(Ok(()), |failure| Err(Failure::failed(failure)))
    }

    /// Ends the clients, and returns the number of acknowledged commits.
    pub fn end(mut self) -> Result<u64> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for client in std::mem::take(&mut self.clients) {
            client.join().map_err(|_| Failure::failed("a client panicked"))?;
        }
        self.check()?;
        Ok(self.acknowledged())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

fn commit(
    client: &Client,
    table: &str,
    thread: usize,
    options: WriteOptions,
    shared: &Shared,
    watched: &Sender<Instant>,
) -> katydid_replica::Result<()> {
    let mut id = RequestId { client: client.open_client()?, sequence: 0 };
    let value = [7; VALUE_BYTES];
    while !shared.is_over.load(Ordering::Relaxed) {
        id.sequence += 1;
        let key = format!("{thread:04}{:0width$}", id.sequence, width = KEY_BYTES - 4);
        let begun = Instant::now();
        client.write(id, WriteSet::default().put(table, key, value), options)?;
        shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        if shared.is_watched.load(Ordering::Relaxed) && watched.send(begun).is_err() {
            break;
        }
    }
    Ok(())
}
