//! Histories of concurrent transactions are serializable: no aborted or intermediate read, and no
//! cycle of write-read, write-write and read-write dependencies, on contended keys and with ranges,
//! read-only transactions included.
//!
//! Every value names the transaction and the write that made it, so a read says which version it
//! saw. Keys are never deleted here (a read of an absent key would not say which delete it saw;
//! `model.rs` covers deletes), but they are created by inserts all the time, so that ranges meet
//! phantoms. The check takes the versions of a key in the order of their writers' commit stamps. If
//! that order were wrong, the check would find a cycle: many writers first read the version that
//! they replace, and each such read shows which version came before.
//!
//! Some read views are long: between their reads the other threads run many transactions.
//!
//! If an `insert` finds that the key exists, its transaction counts as one more reader at that
//! moment, however the transaction ends. The key's existence and everything that the transaction
//! had read must belong to one state. In the end the table holds the last version of each key.

use crate::common::{self, Rng, chunked, key, options_for, seed, with_advanced};
use katydid::{
    Access, CommitStamp, Database, EngineKind, Error, LockRelease, Options, Read, Session, Table,
    TransactionOptions,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

suite! {
    few_keys_early_release,
    few_keys_release_after_durable,
    ranges_early_release,
    ranges_release_after_durable,
    durable_reads,
    a_log_without_order,
}

suite! {
    in_nvram:
    few_keys_early_release,
    ranges_release_after_durable,
    durable_reads,
}

type Tag = (u64, u32);

/// One transaction that has committed, or whose `insert` found that a key exists.
#[derive(Debug, Default, Clone)]
struct Done {
    id: u64,
    stamp: CommitStamp,
    /// Key and the version seen; none for an absent key.
    reads: Vec<(Vec<u8>, Option<Tag>)>,
    /// Keys that its inserts found to exist, in any version.
    exists: Vec<Vec<u8>>,
    /// Key and the last version written.
    writes: BTreeMap<Vec<u8>, Tag>,
}

fn encode((id, nth): Tag, random: &mut Rng) -> Vec<u8> {
    let mut value = Vec::from(id.to_le_bytes());
    value.extend_from_slice(&nth.to_le_bytes());
    value.resize(12 + random.usize(0..40), 0);
    value
}

fn decode(value: &[u8]) -> Tag {
    let id = u64::from_le_bytes(value[..8].try_into().expect("an id"));
    (id, u32::from_le_bytes(value[8..12].try_into().expect("a number")))
}

struct Setting {
    keys: u64,
    threads: u64,
    transactions: u64,
    options: Options,
    read: Read,
}

/// Number of reads of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Short,
    /// Tens of reads, with the other threads' transactions between.
    Long,
}

#[allow(clippy::too_many_arguments, reason = "one step of a worker, in a function of its own to be read")]
fn body(
    txn: &mut katydid::Transaction,
    table: &Table,
    random: &mut Rng,
    keys: u64,
    reads_only: bool,
    length: Length,
    done: &mut Done,
    readers: &mut Vec<Done>,
) -> Result<(), Error> {
    let mut nth = 0;
    let mut in_force = None;
    let steps = if length == Length::Long { random.usize(20..60) } else { random.usize(1..6) };
    for _ in 0..steps {
        if length == Length::Long {
            std::thread::yield_now();
        }
        match random.u32(0..8) {
            0 => in_force = Some((txn.savepoint(), done.writes.clone())),
            1 => {
                if let Some((savepoint, writes)) = &in_force {
                    txn.rollback_to(savepoint)?;
                    done.writes.clone_from(writes);
                }
            }
            _ => {}
        }
        let key = key(random.u64(0..keys));
        match random.u32(0..10) {
            0..3 => {
                let found = txn.get(table, &key)?;
                done.reads.push((key, found.map(|value| decode(&value))));
            }
            3..5 => {
                let from = random.u64(0..keys);
                let to = (from + random.u64(1..8)).min(keys);
                let bounds = common::key(from)..common::key(to);
                let back = random.bool();
                let range = txn.range(table, bounds);
                let rows: Result<Vec<_>, Error> = if back { range.rev().collect() } else { range.collect() };
                let rows: HashMap<Vec<u8>, Vec<u8>> = rows?.into_iter().collect();
                for number in from..to {
                    let key = common::key(number);
                    let seen = rows.get(&key).map(|value| decode(value));
                    done.reads.push((key, seen));
                }
            }
            _ if reads_only => {}
            5..7 => {
                let found = txn.get_for_update(table, &key)?;
                done.reads.push((key.clone(), found.map(|value| decode(&value))));
                nth += 1;
                txn.put(table, &key, encode((done.id, nth), random))?;
                done.writes.insert(key, (done.id, nth));
            }
            7..9 => {
                nth += 1;
                txn.put(table, &key, encode((done.id, nth), random))?;
                done.writes.insert(key, (done.id, nth));
            }
            _ => {
                nth += 1;
                match txn.insert(table, &key, encode((done.id, nth), random)) {
                    Ok(()) => {
                        done.reads.push((key.clone(), None));
                        done.writes.insert(key, (done.id, nth));
                    }
                    Err(Error::KeyExists { .. }) => {
                        if !done.writes.contains_key(&key) {
                            done.exists.push(key);
                        }
                        readers.push(Done { writes: BTreeMap::new(), ..done.clone() });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

/// Adds a transaction to the history, if it has committed.
fn finish(
    database: &Database,
    outcome: Result<CommitStamp, Error>,
    mut done: Done,
    finished: &Mutex<Vec<Done>>,
) {
    if let Some(stamp) = common::committed(database, outcome) {
        done.stamp = stamp;
        finished.lock().unwrap().push(done);
    }
}

fn worker(database: &Database, table: &Table, setting: &Setting, seed: u64, thread: u64) -> Vec<Done> {
    let mut random = Rng::with_seed(seed.wrapping_mul(31) + thread);
    let session: Session = database.session();
    let finished: Arc<Mutex<Vec<Done>>> = Arc::default();
    let mut readers = Vec::new();
    for nth in 0..setting.transactions {
        let mut done = Done { id: thread * setting.transactions + nth + 1, ..Done::default() };
        let reads_only = random.u32(0..4) == 0;
        // Half of the transactions that only read are begun as read views.
        let access = if reads_only && random.bool() { Access::ReadOnly } else { Access::ReadWrite };
        let options = TransactionOptions { read: setting.read, access, ..TransactionOptions::default() };
        let mut txn = database.begin_with(options).expect("begin");
        let is_long = access == Access::ReadOnly && random.bool();
        let length = if is_long { Length::Long } else { Length::Short };
        match body(&mut txn, table, &mut random, setting.keys, reads_only, length, &mut done, &mut readers) {
            Ok(()) => {}
            Err(error) => {
                assert!(error.is_retryable(), "{error}");
                continue;
            }
        }
        // A read of the transaction's own write says nothing about other transactions.
        let id = done.id;
        done.reads.retain(|(_, seen)| seen.is_none_or(|(writer, _)| writer != id));
        match random.u32(0..8) {
            0 => txn.rollback().expect("rollback"),
            1..3 => finish(database, txn.commit(), done, &finished),
            3 => finish(database, common::block_on(txn.commit_async()), done, &finished),
            _ => {
                let (finished, database) = (finished.clone(), database.clone());
                txn.commit_with(&session, move |result| finish(&database, result, done, &finished));
                session.wait_below(16).expect("wait");
            }
        }
    }
    session.drain().expect("drain");
    let mut finished = Arc::into_inner(finished).expect("all callbacks ran").into_inner().unwrap();
    // Each `insert` that found its key present adds one more reader to the history, under a number
    // that no writer has.
    let first = (setting.threads + 1 + thread * setting.transactions) * 1000;
    for (mut reader, number) in readers.into_iter().zip(first..) {
        reader.reads.retain(|(_, seen)| seen.is_none_or(|(writer, _)| writer != reader.id));
        reader.id = number;
        finished.push(reader);
    }
    finished
}

/// Returns all versions of each key, in their order.
fn versions_of(history: &[Done]) -> HashMap<&[u8], Vec<(CommitStamp, Tag)>> {
    let mut versions: HashMap<&[u8], Vec<(CommitStamp, Tag)>> = HashMap::new();
    for done in history {
        for (key, tag) in &done.writes {
            versions.entry(key).or_default().push((done.stamp, *tag));
        }
    }
    for list in versions.values_mut() {
        list.sort();
    }
    versions
}

/// Panics if the table does not hold the last version of each key.
fn check_last(history: &[Done], rows: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let versions = versions_of(history);
    let last = versions.iter().map(|(key, list)| (key.to_vec(), list[list.len() - 1].1)).collect();
    let found: BTreeMap<Vec<u8>, Tag> =
        rows.iter().map(|(key, value)| (key.clone(), decode(value))).collect();
    assert_eq!(found, last, "the last versions");
}

/// Panics with the reason if the history is not serializable.
fn check(history: &[Done]) {
    let place: HashMap<u64, usize> = history.iter().enumerate().map(|(at, done)| (done.id, at)).collect();
    assert_eq!(place.len(), history.len(), "each has a number of its own");
    let versions = versions_of(history);
    let mut edges: Vec<Vec<(usize, &'static str)>> = vec![Vec::new(); history.len()];
    for list in versions.values() {
        for pair in list.windows(2) {
            edges[place[&pair[0].1.0]].push((place[&pair[1].1.0], "ww"));
        }
    }
    for (reader, done) in history.iter().enumerate() {
        for key in &done.exists {
            let first = versions.get(key.as_slice()).and_then(|list| list.first());
            let (_, tag) = first.unwrap_or_else(|| panic!("{} found a key that none wrote", done.id));
            if tag.0 != done.id {
                edges[place[&tag.0]].push((reader, "wr"));
            }
        }
        for (key, seen) in &done.reads {
            let list = versions.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
            let next = match seen {
                None => 0,
                Some(tag) => {
                    let at = list.iter().position(|(_, version)| version == tag);
                    let at =
                        at.unwrap_or_else(|| panic!("{} read {tag:?}, aborted or intermediate", done.id));
                    let writer = place[&tag.0];
                    edges[writer].push((reader, "wr"));
                    at + 1
                }
            };
            if let Some((_, tag)) = list.get(next)
                && tag.0 != done.id
            {
                edges[reader].push((place[&tag.0], "rw"));
            }
        }
    }
    let mut incoming = vec![0usize; history.len()];
    for (to, _) in edges.iter().flatten() {
        incoming[*to] += 1;
    }
    let mut ready: Vec<usize> = (0..history.len()).filter(|at| incoming[*at] == 0).collect();
    let mut ordered = 0;
    while let Some(at) = ready.pop() {
        ordered += 1;
        for (to, _) in &edges[at] {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    if ordered < history.len() {
        let rest: Vec<usize> = (0..history.len()).filter(|at| incoming[*at] > 0).collect();
        // Every transaction left is on a cycle or is reached from one: walk backwards until a
        // transaction repeats.
        let mut path = vec![rest[0]];
        loop {
            let at = path[path.len() - 1];
            let before = rest.iter().find_map(|from| {
                edges[*from].iter().find(|(to, _)| *to == at).map(|(_, kind)| (*from, *kind))
            });
            let (from, kind) = before.expect("somebody comes before");
            println!("{} -{kind}-> {}: {:?}", history[from].id, history[at].id, history[from]);
            if path.contains(&from) {
                break;
            }
            path.push(from);
        }
        panic!("{} transactions are on or behind a cycle", rest.len());
    }
}

fn run(seed: u64, setting: &Setting) {
    println!("KATYDID_SEED={seed}");
    let folder = tempfile::tempdir().expect("folder");
    let database = Database::open_with(folder.path(), setting.options.clone()).expect("open");
    let table = database.table("serial").expect("table");
    let history: Vec<Done> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..setting.threads)
            .map(|thread| {
                let (database, table) = (&database, &table);
                scope.spawn(move || worker(database, table, setting, seed, thread))
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("worker")).collect()
    });
    println!("{} of {} committed", history.len(), setting.threads * setting.transactions);
    assert!(history.len() as u64 > setting.threads * setting.transactions / 10);
    check(&history);
    check_last(&history, &common::contents(&database, &table));
}

fn setting(engine: EngineKind, keys: u64, lock_release: LockRelease, read: Read) -> Setting {
    Setting {
        keys,
        threads: 6,
        transactions: 600,
        options: with_advanced(options_for(engine), |advanced| advanced.lock_release = lock_release),
        read,
    }
}

fn few_keys_early_release(engine: EngineKind) {
    run(seed(11), &setting(engine, 6, LockRelease::Early, Read::Visible));
}

fn few_keys_release_after_durable(engine: EngineKind) {
    run(seed(12), &setting(engine, 6, LockRelease::AfterDurable, Read::Visible));
}

fn ranges_early_release(engine: EngineKind) {
    run(seed(13), &setting(engine, 2000, LockRelease::Early, Read::Visible));
}

fn ranges_release_after_durable(engine: EngineKind) {
    run(seed(14), &setting(engine, 500, LockRelease::AfterDurable, Read::Visible));
}

fn durable_reads(engine: EngineKind) {
    run(seed(15), &setting(engine, 40, LockRelease::Early, Read::Durable));
}

fn a_log_without_order(engine: EngineKind) {
    let unordered = |setting: Setting| Setting { options: chunked(setting.options), ..setting };
    run(seed(16), &unordered(setting(engine, 6, LockRelease::Early, Read::Visible)));
    run(seed(17), &unordered(setting(engine, 2000, LockRelease::Early, Read::Durable)));
    run(seed(18), &unordered(setting(engine, 6, LockRelease::AfterDurable, Read::Visible)));
}

#[test]
fn the_checker_finds_a_lost_update_and_write_skew() {
    let done = |id, stamp, reads: Vec<(&[u8], Option<Tag>)>, writes: Vec<(&[u8], Tag)>| Done {
        id,
        stamp: CommitStamp::new(stamp),
        reads: reads.into_iter().map(|(key, seen)| (key.to_vec(), seen)).collect(),
        writes: writes.into_iter().map(|(key, tag)| (key.to_vec(), tag)).collect(),
        exists: Vec::new(),
    };
    let lost = [
        done(1, 10, vec![(b"a", None)], vec![(b"a", (1, 1))]),
        done(2, 20, vec![(b"a", None)], vec![(b"a", (2, 1))]),
    ];
    let skew = [
        done(1, 10, vec![(b"a", None)], vec![(b"b", (1, 1))]),
        done(2, 20, vec![(b"b", None)], vec![(b"a", (2, 1))]),
    ];
    let serial = [
        done(1, 10, vec![(b"a", None)], vec![(b"a", (1, 1))]),
        done(2, 20, vec![(b"a", Some((1, 1)))], vec![(b"a", (2, 1))]),
    ];
    for bad in [&lost, &skew] {
        assert!(std::panic::catch_unwind(|| check(bad)).is_err());
    }
    check(&serial);
    let rows = |nth| BTreeMap::from([(b"a".to_vec(), encode((nth, 1), &mut Rng::with_seed(1)))]);
    check_last(&serial, &rows(2));
    assert!(std::panic::catch_unwind(|| check_last(&serial, &rows(1))).is_err());
    assert!(std::panic::catch_unwind(|| check_last(&serial, &BTreeMap::new())).is_err());
    // Both keys are always written together, so a transaction whose `insert` finds `b` must not
    // have missed `a`.
    let reader = Done { exists: vec![b"b".to_vec()], ..done(7, 0, vec![(b"a", None)], Vec::new()) };
    let both = done(1, 10, Vec::new(), vec![(b"a", (1, 1)), (b"b", (1, 1))]);
    assert!(std::panic::catch_unwind(|| check(&[reader, both])).is_err());
}
