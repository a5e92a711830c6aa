//! A durable queue of jobs. A producer has many commits in flight, workers take jobs under a lease,
//! and a thread returns jobs that a worker did not finish in time. No job is lost if the program is
//! killed and started again.
//!
//! Run: `cargo run -p katydid-examples --bin jobs -- run FOLDER [--engine paged|memory]
//! [--workers N] [--jobs N] [--batch N] [--shards N]`, and then `... --bin jobs -- check FOLDER`.

use anyhow::{Result, bail};
use katydid::typed::TypedTable;
use katydid::{Database, EngineKind, Options};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LEASE_MS: u64 = 5_000;
const IN_FLIGHT: usize = 256;

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Deadline of the lease, number of the job, and the job's shard and due time in the queue. Times
/// are milliseconds since 1970.
type Lease = (u64, u64, u8, u64);

#[derive(Clone)]
struct Queue {
    db: Database,
    /// Key: shard, due time and number of the job.
    ready: TypedTable<(u8, u64, u64), String>,
    leased: TypedTable<Lease, String>,
    /// Key: number of the job. Value: the worker that did the job.
    done: TypedTable<u64, u64>,
}

impl Queue {
    fn open(folder: &str, engine: EngineKind) -> Result<Queue> {
        let db = Database::open_with(folder, Options { engine: engine.into(), ..Options::default() })?;
        let [ready, leased, done] = ["ready", "leased", "done"].map(|name| db.table(name));
        let (ready, leased) = (TypedTable::new(ready?), TypedTable::new(leased?));
        Ok(Queue { ready, leased, done: TypedTable::new(done?), db })
    }

    /// Takes up to `most` due jobs of a shard. Passes over jobs that another worker is taking.
    fn claim(&self, shard: u8, most: usize) -> katydid::Result<Vec<Lease>> {
        self.db.transact(|txn| {
            let due = (shard, 0_u64, 0_u64)..=(shard, now(), u64::MAX);
            let take = |row: katydid::Result<((u8, u64, u64), String)>| {
                let ((shard, due, job), payload) = row?;
                self.ready.delete(txn, (shard, due, job))?;
                let lease = (now() + LEASE_MS, job, shard, due);
                self.leased.insert(txn, lease, payload)?;
                Ok(lease)
            };
            self.ready.range_unlocked(txn, due).take(most).map(take).collect()
        })
    }

    /// Records that the jobs are done, except jobs whose leases were taken away.
    fn finish(&self, leases: &[Lease], worker: u64) -> katydid::Result<()> {
        self.db.transact(|txn| {
            for lease in leases {
                if self.leased.delete(txn, lease)? {
                    self.done.put(txn, lease.1, worker)?;
                }
            }
            Ok(())
        })
    }

    /// Puts up to 100 jobs whose leases have ended back into the queue.
    fn give_back(&self) -> katydid::Result<()> {
        self.db.transact(|txn| {
            for row in self.leased.range_for_update(txn, ..(now(), 0_u64, 0_u8, 0_u64)).limit(100) {
                let ((deadline, job, shard, due), payload) = row?;
                self.leased.delete(txn, (deadline, job, shard, due))?;
                self.ready.put(txn, (shard, due, job), payload)?;
            }
            Ok(())
        })
    }

    fn produce(&self, jobs: u64, shards: u8) -> katydid::Result<()> {
        let (session, first) = (self.db.session(), now() << 20);
        for job in first..first + jobs {
            let key = ((job % u64::from(shards)) as u8, now(), job);
            let on_outcome = move |outcome| {
                if let Err(error) = outcome {
                    eprintln!("job {job} is not in the queue: {error}");
                }
            };
            self.db.transact_with(
                &session,
                |txn| self.ready.put(txn, key, format!("job {job}")),
                on_outcome,
            )?;
            session.wait_below(IN_FLIGHT)?;
        }
        session.drain()
    }
}

fn flag<T: std::str::FromStr>(name: &str, default: T) -> T {
    let value = std::env::args().skip_while(|argument| argument != name).nth(1);
    value.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run(folder: &str) -> Result<()> {
    let (jobs, workers) = (flag("--jobs", 20_000_u64), flag("--workers", 8_u64));
    let (batch, shards) = (flag("--batch", 1_usize), flag("--shards", 1_u8).max(1));
    let queue = Queue::open(folder, flag("--engine", EngineKind::Paged))?;
    let (begun, mut finished, mut looked) = (Instant::now(), 0, Instant::now());
    let (sender, receiver) = channel();
    thread::scope(|scope| -> Result<()> {
        let queue = &queue;
        for worker in 0..workers {
            let sender = sender.clone();
            scope.spawn(move || {
                let work = || {
                    let leases = queue.claim((worker % u64::from(shards)) as u8, batch)?;
                    if leases.is_empty() {
                        thread::sleep(Duration::from_millis(1));
                    }
                    queue.finish(&leases, worker).map(|()| leases.len() as u64)
                };
                // Ends when the receiver is gone.
                while sender.send(work()).is_ok() {}
            });
        }
        scope.spawn(move || sender.send(queue.produce(jobs, shards).map(|()| 0)).unwrap_or_default());
        while finished < jobs {
            finished += receiver.recv()??;
            if looked.elapsed() > Duration::from_millis(500) {
                looked = Instant::now();
                eprintln!("{:>5.1} s: {finished} finished", begun.elapsed().as_secs_f64());
                queue.give_back()?;
            }
        }
        drop(receiver);
        Ok(())
    })?;
    let (seconds, stat) = (begun.elapsed().as_secs_f64(), queue.db.stat()?);
    println!(
        "{finished} jobs in {seconds:.2} s = {:.0}/s; conflicts {}, commits {}, syncs {}",
        finished as f64 / seconds,
        stat.conflicts,
        stat.commits,
        stat.log.syncs
    );
    Ok(queue.db.close()?)
}

fn check(folder: &str) -> Result<()> {
    let queue = Queue::open(folder, Database::engine_at(folder)?)?;
    let view = queue.db.begin_read_only()?;
    let ready = queue.ready.count(&view, ..)?;
    let (leased, done) = (queue.leased.count(&view, ..)?, queue.done.count(&view, ..)?);
    let faults = queue.db.verify(None)?.faults.len();
    println!("ready {ready} leased {leased} done {done} sum {} faults {faults}", ready + leased + done);
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    match (args.get(1).map(String::as_str), args.get(2)) {
        (Some("run"), Some(folder)) => run(folder),
        (Some("check"), Some(folder)) => check(folder),
        _ => bail!("jobs run|check FOLDER"),
    }
}
