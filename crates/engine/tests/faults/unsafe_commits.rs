//! Commits that ask for less than durability: what a crash may take, and what it may not.
//!
//! `Written` survives the death of the process. A crash of the machine may lose both `Written` and
//! `Buffered` commits, and the death of the process may lose `Buffered` ones. Such a crash or death
//! takes only the last commits, each as a whole. A commit on which a surviving commit depends is
//! not lost. A durable commit is not lost, and neither is any commit that it has seen.

use crate::common::{assert_sound, block_on, contents};
use crate::{Setting, later};
use katydid::{Database, Durability, EngineKind, Error, InserterKind, Session, Table, TransactionOptions};
use katydid_device::SimDevice;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Way to commit a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitCall {
    Blocking,
    Callback,
    Future,
}

const CALLS: [CommitCall; 3] = [CommitCall::Blocking, CommitCall::Callback, CommitCall::Future];
const CLIENTS: u64 = 3;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the name of one of a client's keys.
fn key(client: u64, part: &str) -> String {
    format!("{client} {part}")
}

/// Runs a transaction that writes its number to two keys of its client, adds one to a key that all
/// clients share, and names the client in a row for this turn. Returns the shared key's former
/// value.
fn step(
    database: &Database,
    table: &Table,
    client: u64,
    number: u64,
    durability: Durability,
    call: CommitCall,
    session: &Session,
) -> Result<u64, Error> {
    let options = TransactionOptions { durability, ..Default::default() };
    let txn = database.begin_with(options)?;
    let before = txn.get_for_update(table, "shared")?.map_or(0, |value| parse(&value));
    let text = format!("{number} {before}");
    txn.put(table, key(client, "first"), &text)?;
    txn.put(table, "shared", (before + 1).to_string())?;
    txn.put(table, format!("turn {before:05}"), format!("{client} {number}"))?;
    txn.put(table, key(client, "last"), &text)?;
    match call {
        CommitCall::Blocking => drop(txn.commit()?),
        CommitCall::Future => drop(block_on(txn.commit_async())?),
        CommitCall::Callback => {
            let answer = Arc::new(Mutex::new(None));
            let slot = answer.clone();
            txn.commit_with(session, move |outcome| *slot.lock().expect("no panic") = Some(outcome));
            session.drain()?;
            let outcome = answer.lock().expect("no panic").take();
            outcome.expect("drained")?;
        }
    }
    Ok(before)
}

fn parse(value: &[u8]) -> u64 {
    String::from_utf8_lossy(value).parse().expect("a number")
}

/// Returns the number of increments of the shared key (turns) that survived. Panics unless the
/// surviving transactions are those of the first turns, each whole.
fn survivors(rows: &Rows, when: &str) -> u64 {
    let shared = rows.get(&b"shared"[..]).map_or(0, |value| parse(value));
    let turns: Vec<(u64, String)> = rows
        .iter()
        .filter_map(|(key, value)| {
            let text = String::from_utf8_lossy(key).strip_prefix("turn ").map(str::to_owned)?;
            Some((parse(text.as_bytes()), String::from_utf8_lossy(value).into_owned()))
        })
        .collect();
    // The transaction of each turn has seen the turn before, so it depends on all earlier turns,
    // and none of these may be missing.
    assert!(turns.iter().map(|(turn, _)| *turn).eq(0..shared), "{when}: {shared} turns, there are {turns:?}");
    for client in 0..CLIENTS {
        let (first, last) =
            (rows.get(key(client, "first").as_bytes()), rows.get(key(client, "last").as_bytes()));
        assert_eq!(first, last, "{when}: a transaction of client {client} is there in part");
        let of_client = |(turn, value): &(u64, String)| {
            let (owner, number) = value.split_once(' ').expect("two words");
            (owner == client.to_string()).then(|| format!("{number} {turn}"))
        };
        let expected = turns.iter().rev().find_map(of_client);
        let found = last.map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(found, expected, "{when}: client {client}");
    }
    shared
}

fn with_inserter(log: katydid::LogOptions, inserter: InserterKind) -> katydid::LogOptions {
    log.map_files(|files| katydid::FileOptions { inserter: inserter.into(), ..files })
}

fn recovered(device: &SimDevice, setting: Setting, inserter: InserterKind, when: &str) -> u64 {
    let mut options = setting.options();
    options.advanced.log = with_inserter(options.advanced.log, inserter);
    let database = Database::open_in(device.directory(), options).expect(when);
    let table = database.open_table("t").expect("open table").expect("the table");
    let rows = contents(&database, &table);
    assert_sound(&database.verify(None).expect("verify"));
    survivors(&rows, when)
}

/// Runs three clients in turn, whose first commits are durable and whose later commits ask for
/// `durability`. Then the process ends without warning.
fn lose(setting: Setting, inserter: InserterKind, durability: Durability, call: CommitCall) {
    let device = SimDevice::new(1);
    let mut options = setting.options();
    options.advanced.log = with_inserter(options.advanced.log, inserter);
    let database = Database::open_in(device.directory(), options).expect("open");
    let table = database.table("t").expect("table");
    let session = database.session();
    let mut turns = 0;
    let mut run = |number: u64, durability: Durability| {
        let client = number % CLIENTS;
        let before = step(&database, &table, client, number, durability, call, &session).expect("a commit");
        assert_eq!(before, turns, "a later transaction sees the earlier one");
        turns += 1;
    };
    (0..6).for_each(|number| run(number, Durability::Durable));
    (6..30).for_each(|number| run(number, durability));
    // Freezing the device cuts off every call under way.
    device.freeze();
    drop((session, table, database));
    for (when, device) in later(&device) {
        let what = format!("{setting:?}, {inserter}, {durability}, {call:?}: {when}");
        let left = recovered(&device, setting, inserter, &what);
        assert!((6..=30).contains(&left), "{what}: {left} turns");
        if durability == Durability::Written && when == "the process died" {
            assert_eq!(left, 30, "{what}: what was written survives the process");
        }
    }
}

suite! {
    a_crash_takes_whole_commits_from_the_end_and_the_process_takes_nothing_written,
    what_survives_of_unsafe_commits_of_several_threads_depends_on_nothing_lost,
}

fn a_crash_takes_whole_commits_from_the_end_and_the_process_takes_nothing_written(engine: EngineKind) {
    for (number, setting) in Setting::all(engine).into_iter().enumerate() {
        for durability in [Durability::Written, Durability::Buffered] {
            for call in CALLS {
                let inserter = if number % 2 == 0 { InserterKind::Marks } else { InserterKind::Chunked };
                lose(setting, inserter, durability, call);
            }
        }
    }
}

/// Several threads commit at once, ordered only by the shared key.
fn what_survives_of_unsafe_commits_of_several_threads_depends_on_nothing_lost(engine: EngineKind) {
    for (number, setting) in Setting::all(engine).into_iter().enumerate() {
        let inserter = if number % 2 == 0 { InserterKind::Chunked } else { InserterKind::Marks };
        let device = SimDevice::new(1);
        let mut options = setting.options();
        options.advanced.log = with_inserter(options.advanced.log, inserter);
        let database = Database::open_in(device.directory(), options).expect("open");
        let table = database.table("t").expect("table");
        let durable = Mutex::new(0);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (database, table, durable) = (&database, &table, &durable);
                scope.spawn(move || {
                    let session = database.session();
                    for number in 0..20u64 {
                        let durability = match (client + number) % 7 {
                            0 => Durability::Durable,
                            turn if turn % 2 == 0 => Durability::Written,
                            _ => Durability::Buffered,
                        };
                        let call = CALLS[(number % 3) as usize];
                        // If transactions conflict, the memory engine commits one and refuses the
                        // others, which run again.
                        let turn = loop {
                            match step(database, table, client, number, durability, call, &session) {
                                Err(error) if engine == EngineKind::Memory && error.is_retryable() => {}
                                outcome => break outcome.expect("commit"),
                            }
                        };
                        if durability == Durability::Durable {
                            // This transaction has seen all earlier turns, so they are durable too.
                            let mut durable = durable.lock().expect("no panic");
                            *durable = turn.max(*durable);
                        }
                    }
                });
            }
        });
        device.freeze();
        drop((table, database));
        let durable = durable.into_inner().expect("no panic");
        for (when, device) in later(&device) {
            let what = format!("{setting:?}, {inserter}: {when}");
            let left = recovered(&device, setting, inserter, &what);
            assert!(left > durable && left <= 60, "{what}: {left} turns, turn {durable} was durable");
        }
    }
}
