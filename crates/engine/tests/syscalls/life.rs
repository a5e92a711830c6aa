//! The script of a store's life: what each client commits in each phase, the child process that
//! runs the script on real files, and the states that a crash may leave.
//!
//! A client has tables of its own and one unit under way. So its tables must be in the state after
//! the first n of its units, for some n, and these must include all units that the client reported
//! as acknowledged. A phase ends by closing, by dropping the handle, or with the end of the
//! process. When the process ends, a transaction is open and a checkpoint is under way. The next
//! process goes on where the former one was.

use crate::common::{self, Rng, key};
use crate::history::{History, Model, Unit, apply};
use crate::{LifeFolders, block_on};
use katydid::testing::Background;
use katydid::{Database, Durability, EngineKind, Error, Id, Method, Options, Session, TransactionOptions};
use katydid_device::Directory;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

pub const CLIENTS: usize = 2;

/// End of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Close,
    Drop,
    Exit,
}

const PHASES: [End; 5] = [End::Close, End::Exit, End::Drop, End::Exit, End::Exit];

/// A life, as the parent describes it to the child.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    pub engine: EngineKind,
    pub method: Method,
    /// Method of the paged engine's pages.
    pub page_method: Method,
    pub seed: u64,
    /// Number of units of one client in one phase.
    pub units: usize,
}

/// The units of a client: all of them, and those of each phase.
pub struct Script {
    pub units: Vec<Unit>,
    phases: Vec<Range<usize>>,
}

fn value(random: &mut Rng) -> Vec<u8> {
    let length = match random.u32(0..20) {
        0 => random.usize(..12_000),
        1..4 => random.usize(..3000),
        _ => random.usize(..200),
    };
    vec![random.u8(..); length]
}

fn own(client: usize, random: &mut Rng) -> String {
    format!("{client}-{}", ["a", "b"][random.usize(..2)])
}

impl Script {
    pub fn of(life: Life, client: usize) -> Script {
        let mut random = Rng::with_seed(life.seed ^ (client as u64) << 32);
        let (mut units, mut phases, mut state) = (Vec::new(), Vec::new(), Model::new());
        for _ in PHASES {
            let first = units.len();
            for _ in 0..life.units {
                let table = own(client, &mut random);
                let unit = if !state.contains_key(&table) {
                    Unit::Create(table)
                } else if random.u32(0..16) == 0 {
                    Unit::Drop(table)
                } else {
                    let mut writes = Vec::new();
                    for _ in 0..random.usize(1..4) {
                        let value = (random.u32(0..4) != 0).then(|| value(&mut random));
                        writes.push((table.clone(), key(random.u64(0..12)), value));
                    }
                    // This write makes each state differ from all others.
                    let serial = units.len().to_string().into_bytes();
                    writes.push((table, b"serial".to_vec(), Some(serial)));
                    Unit::Commit(writes)
                };
                apply(&mut state, &unit);
                units.push(unit);
            }
            phases.push(first..units.len());
        }
        Script { units, phases }
    }

    /// Returns the states that a crash may leave when the first `acknowledged` units were
    /// acknowledged.
    pub fn history(&self, acknowledged: usize) -> History {
        let mut history = History::default();
        for unit in &self.units {
            history.attempt(unit.clone());
        }
        history.acknowledge(acknowledged);
        history
    }
}

impl Life {
    pub fn options(self, background: Background) -> Options {
        let mut options = common::with_streams(common::options_for(self.engine), 2);
        options.advanced.checkpoint_bytes = 64 << 10;
        options.advanced.log = options.advanced.log.map_files(|files| katydid::FileOptions {
            segment_bytes: 64 << 10,
            ring_bytes: 16 << 10,
            ..files
        });
        options.advanced.log.reserve_bytes = 64 << 10;
        options.advanced.log.run_ahead_bytes = 8 << 10;
        options.advanced.log.log_id = Some(Id::new(1));
        options.advanced.log.method = self.method;
        if let Some(paged) = options.engine.paged_mut() {
            paged.page_method = self.page_method;
        }
        options.advanced.log.background = background;
        options
    }

    /// Returns the first phase of the process after the process that began with `phase`; none if
    /// there is no further process.
    pub fn next_process(phase: usize) -> Option<usize> {
        let exits = PHASES[phase..].iter().position(|end| *end == End::Exit).expect("it ends so");
        let next = phase + exits + 1;
        (next < PHASES.len()).then_some(next)
    }

    /// Runs the phases from `phase` to the end of the process.
    pub fn run(self, place: &LifeFolders, phase: usize) -> ! {
        let scripts: Vec<Script> = (0..CLIENTS).map(|client| Script::of(self, client)).collect();
        for (nth, end) in PHASES.into_iter().enumerate().skip(phase) {
            let directory: Arc<dyn Directory> = place.open().expect("the folder");
            let database =
                Database::open_in(directory, self.options(Background::Threads)).expect("open the database");
            std::thread::scope(|scope| {
                for (client, script) in scripts.iter().enumerate() {
                    let (database, range) = (&database, script.phases[nth].clone());
                    scope.spawn(move || run(database, client, script, range));
                }
            });
            match end {
                End::Close => database.close().expect("close"),
                End::Drop => drop(database),
                End::Exit => {
                    leave_open(&database);
                    std::process::exit(0);
                }
            }
        }
        unreachable!("the last phase ends the process")
    }
}

fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}

/// Leaves a transaction that never commits, with durable changes, and a checkpoint that is under
/// way when the process ends.
fn leave_open(database: &Database) {
    let Some(name) = database.tables().expect("tables").into_iter().next() else { return };
    let table = database.open_table(&name).expect("open table").expect("a listed table");
    let txn = database.begin().expect("begin");
    for number in 0..20 {
        txn.put(&table, key(number), vec![0xdd; 900]).expect("put");
    }
    database.sync().expect("sync");
    let other = database.clone();
    std::thread::spawn(move || other.checkpoint());
    std::thread::yield_now();
    std::mem::forget(txn);
}

fn run(database: &Database, client: usize, script: &Script, range: Range<usize>) {
    let session = database.session();
    for number in range.clone() {
        let is_last = number + 1 == range.end;
        loop {
            match attempt(database, &session, &script.units[number], number, is_last) {
                Ok(Durability::Durable) => say(&format!("acknowledged {client} {}", number + 1)),
                Ok(_) => {}
                Err(error) if error.is_retryable() => continue,
                Err(error) => panic!("unit {number} of client {client}: {error}"),
            }
            break;
        }
        if number == range.start + range.len() / 2 && client == 0 {
            database.checkpoint().expect("checkpoint");
        }
    }
}

/// Runs a unit in one of several ways. Returns its durability.
fn attempt(
    database: &Database,
    session: &Session,
    unit: &Unit,
    number: usize,
    is_last: bool,
) -> Result<Durability, Error> {
    let writes = match unit {
        Unit::Create(name) => return database.table(name).map(|_| Durability::Durable),
        Unit::Drop(name) => {
            assert!(database.drop_table(name)?, "the table is there");
            return Ok(Durability::Durable);
        }
        Unit::Commit(writes) => writes,
    };
    let durability = match number % 8 {
        3 if !is_last => Durability::Buffered,
        6 if !is_last => Durability::Written,
        _ => Durability::Durable,
    };
    let txn = database.begin_with(TransactionOptions { durability, ..TransactionOptions::default() })?;
    for (name, key, value) in writes {
        let table = database.open_table(name)?.expect("a table that was created");
        match value {
            Some(value) => txn.put(&table, key, value)?,
            None => drop(txn.delete(&table, key)?),
        }
    }
    match number % 3 {
        0 => drop(txn.commit()?),
        1 => drop(block_on(txn.commit_async())?),
        _ => {
            let (sender, outcome) = std::sync::mpsc::channel();
            txn.commit_with(session, move |outcome| sender.send(outcome).expect("the client waits"));
            session.drain()?;
            outcome.recv().expect("drained")?;
        }
    }
    Ok(durability)
}
