//! A database that one thread uses, crashes, closes, backs up and archives, in an order that the
//! seed determines; and a model of the rows after each commit.
//!
//! Each of three slots runs transactions on keys of its own, so that three transactions may be open
//! at once and never wait for each other. At nearly every stamp some transactions are open, and
//! some of these never commit.
//!
//! At times a read view is open, and shows the rows of its beginning until it ends. In every second
//! history a named consumer of the feed builds the rows from the changes that it gets. After each
//! crash the consumer continues after its last acknowledgement.

use crate::common::{Rng, committed, options_for};
use katydid::{
    BackupOptions, Change, ChangeConsumer, ChangesFrom, CommitStamp, Database, EngineKind, Error, LogArchive,
    LogArchiver, MemoryDirectory, NewValue, Options, Table, Transaction,
};
use katydid_device::{Directory, SimDevice, Survival};
use std::collections::BTreeMap;
use std::sync::Arc;

const SLOTS: usize = 3;
const KEYS: u64 = 60;
/// Bytes of log that are kept for the archiver and for the consumer: more than any run writes.
const KEPT: u64 = 1 << 30;

pub type Key = (&'static str, Vec<u8>);
pub type Rows = BTreeMap<Key, Vec<u8>>;

/// Changes of a commit.
#[derive(Debug, Clone)]
pub struct Commit {
    pub stamp: CommitStamp,
    pub writes: Vec<(Key, Option<Vec<u8>>)>,
    /// True if a table was dropped between the previous commit and this one. The state just before
    /// this commit then differs from the state after the previous commit.
    pub after_drop: bool,
}

impl Commit {
    pub fn apply(&self, rows: &mut Rows) {
        if self.after_drop {
            rows.retain(|(table, _), _| *table != "passing");
        }
        for (key, value) in &self.writes {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
    }
}

/// A whole backup and increments to it.
#[derive(Debug, Clone)]
pub struct Backup {
    pub chain: Vec<Arc<dyn Directory>>,
    pub stamp: CommitStamp,
}

struct Open {
    txn: Transaction,
    writes: Vec<(Key, Option<Vec<u8>>)>,
}

/// A database in random use: see the head of this file.
pub struct History {
    pub rng: Rng,
    engine: EngineKind,
    device: SimDevice,
    options: Options,
    database: Option<Database>,
    open: [Option<Open>; SLOTS],
    pub archive_device: SimDevice,
    archive: Option<(LogArchive, LogArchiver)>,
    pub commits: Vec<Commit>,
    pub backups: Vec<Backup>,
    dropped: bool,
    pub crashes: u32,
    /// The committed rows.
    rows: Rows,
    view: Option<(Transaction, Rows)>,
    /// True if a consumer follows the feed. A database with a consumer logs whole values, so every
    /// second history has no consumer.
    follows: bool,
    follower: Option<ChangeConsumer>,
    /// Rows that the follower has made from all changes that it got. `acknowledged` has only the
    /// changes up to its last acknowledgement.
    followed: Rows,
    acknowledged: Rows,
}

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

pub const ENGINES: [EngineKind; 2] = [EngineKind::Paged, EngineKind::Memory];

pub fn options(engine: EngineKind) -> Options {
    let mut options = options_for(engine);
    options.advanced.log =
        options.advanced.log.map_files(|files| katydid::FileOptions { segment_bytes: 64 << 10, ..files });
    options.advanced.log.background = katydid::testing::Background::Caller;
    options
}

impl History {
    pub fn new(seed: u64, engine: EngineKind) -> History {
        let device = SimDevice::new(seed);
        let options = options(engine);
        let database = Database::open_in(device.directory(), options.clone()).expect("open");
        let mut history = History {
            rng: Rng::with_seed(seed),
            engine,
            device,
            options,
            database: Some(database),
            open: Default::default(),
            archive_device: SimDevice::new(seed ^ 0xa5),
            archive: None,
            commits: Vec::new(),
            backups: Vec::new(),
            dropped: false,
            crashes: 0,
            rows: Rows::new(),
            view: None,
            follows: seed % 2 == 1,
            follower: None,
            followed: Rows::new(),
            acknowledged: Rows::new(),
        };
        // Create both tables first. In the memory engine a transaction may get a lower stamp than
        // the creation of a table that it writes to; the feed could then not name the table.
        for name in ["rows", "passing"] {
            drop(history.table(name));
        }
        history.follow();
        history.backup();
        history.archive();
        history
    }

    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open")
    }

    fn table(&self, name: &str) -> Table {
        self.database().table(name).expect("table")
    }

    /// Takes one step of any kind.
    pub fn step(&mut self) {
        match self.rng.u32(..1000) {
            0..780 => self.write(),
            780..800 => self.look(),
            800..820 => self.follow(),
            820..860 => self.database().checkpoint().expect("checkpoint"),
            860..880 => self.backup(),
            880..900 => self.increment(),
            900..960 => self.archive(),
            960..975 => self.drop_table(),
            975..987 => self.reopen(),
            _ => self.crash(),
        }
        katydid::testing::run_background(self.database());
    }

    /// Makes a call of a transaction in one of the slots.
    fn write(&mut self) {
        let slot = self.rng.usize(..SLOTS);
        match self.open[slot].take() {
            None => {
                let txn = self.database().begin().expect("begin");
                self.open[slot] = Some(Open { txn, writes: Vec::new() });
                self.change(slot);
            }
            Some(open) => match self.rng.u8(..10) {
                0 => open.txn.rollback().expect("rollback"),
                1..6 => self.commit(open),
                _ => {
                    self.open[slot] = Some(open);
                    self.change(slot);
                }
            },
        }
    }

    /// Changes some rows, and perhaps rolls back to a savepoint.
    fn change(&mut self, slot: usize) {
        let Some(mut open) = self.open[slot].take() else { return };
        let savepoint = (self.rng.u8(..6) == 0).then(|| (open.txn.savepoint(), open.writes.len()));
        for _ in 0..self.rng.usize(1..4) {
            // Only the first slot writes to `passing`, so that no other slot's transaction has the
            // table locked when the table is dropped.
            let name = if slot == 0 && self.rng.u8(..4) == 0 { "passing" } else { "rows" };
            let table = self.table(name);
            let key = format!("{slot}-{:04}", self.rng.u64(..KEYS)).into_bytes();
            let value = match self.rng.u8(..12) {
                0..3 => None,
                // A value that does not fit a page.
                3 => Some(vec![self.rng.u8(..); 5_000 + self.rng.usize(..9_000)]),
                _ => Some(vec![self.rng.u8(..); self.rng.usize(..500)]),
            };
            let has_changed = match &value {
                Some(value) => open.txn.put(&table, &key, value).map(|()| true),
                None => open.txn.delete(&table, &key),
            };
            match has_changed {
                Ok(true) => open.writes.push(((name, key), value)),
                Ok(false) => {}
                // The memory engine refuses the write if a later transaction has read the key.
                Err(error) if error.is_retryable() && self.engine == EngineKind::Memory => return,
                Err(error) => panic!("{error}"),
            }
        }
        if let Some((savepoint, count)) = savepoint {
            open.txn.rollback_to(&savepoint).expect("rollback to a savepoint");
            open.writes.truncate(count);
        }
        self.open[slot] = Some(open);
    }

    fn commit(&mut self, Open { txn, writes }: Open) {
        // In the memory engine the thread that commits chooses the stream of the log, so each
        // commit has a thread of its own.
        let outcome = std::thread::scope(|scope| scope.spawn(|| txn.commit()).join().expect("no panic"));
        let Some(stamp) = committed(self.database(), outcome) else { return };
        if !writes.is_empty() {
            let commit = Commit { stamp, writes, after_drop: std::mem::take(&mut self.dropped) };
            commit.apply(&mut self.rows);
            self.commits.push(commit);
        }
    }

    /// Begins a view, or ends the open one after a check that it shows the rows committed at its
    /// beginning.
    fn look(&mut self) {
        match self.view.take() {
            None => self.view = Some((self.database().begin_read_only().expect("begin"), self.rows.clone())),
            Some((view, rows)) => assert!(rows_seen(self.database(), &view) == rows, "{}", self.place()),
        }
    }

    /// Lets the consumer take all durable changes, and acknowledge them or not.
    fn follow(&mut self) {
        if !self.follows {
            return;
        }
        let mut follower = self.follower.take().unwrap_or_else(|| {
            self.followed = self.acknowledged.clone();
            let consumer = self.database().consumer("follower", KEPT, &ChangesFrom::Oldest);
            consumer.expect("the consumer")
        });
        // The memory engine's feed returns a transaction when all streams are durable beyond it.
        // The feed requests the syncs, and `run_background` makes them, so the feed is read again
        // after that call.
        for _ in 0..3 {
            while let Some(transaction) = follower.try_next().expect("a transaction") {
                transaction.changes.into_iter().for_each(|change| apply(change, &mut self.followed));
            }
            katydid::testing::run_background(self.database());
        }
        assert!(self.followed == self.rows, "{}: the feed has made other rows", self.place());
        if self.rng.bool() {
            follower.acknowledge().expect("acknowledge");
            self.acknowledged = self.followed.clone();
        }
        self.follower = Some(follower);
    }

    fn place(&self) -> String {
        format!("after {} commits and {} crashes", self.commits.len(), self.crashes)
    }

    /// Drops the table `passing`. Does nothing in the memory engine, where a transaction that
    /// commits later may have a lower stamp than the drop, and the drop's stamp is not known.
    fn drop_table(&mut self) {
        if self.engine == EngineKind::Memory {
            return;
        }
        // Commit the first slot's transaction first: it may have written to the table, and the drop
        // would wait for it.
        if let Some(open) = self.open[0].take() {
            self.commit(open);
        }
        // The view is checked and ended before the drop, because its next read of the table would
        // fail.
        if self.view.is_some() {
            self.look();
        }
        self.database().drop_table("passing").expect("drop");
        self.rows.retain(|(table, _), _| *table != "passing");
        self.dropped = true;
    }

    pub fn backup(&mut self) {
        let to = directory();
        let report = self.database().backup_in(to.clone(), &BackupOptions::default()).expect("backup");
        self.backups.push(Backup { chain: vec![to], stamp: report.stamp });
    }

    fn increment(&mut self) {
        // The memory engine has no increments.
        if self.engine == EngineKind::Memory {
            return self.backup();
        }
        let Some(Backup { mut chain, .. }) = self.backups.last().cloned() else { return };
        let (to, base) = (directory(), chain[chain.len() - 1].clone());
        let plain = BackupOptions::default();
        let report = self.database().backup_changes_in(to.clone(), base.as_ref(), &plain).expect("increment");
        chain.push(to);
        self.backups.push(Backup { chain, stamp: report.stamp });
    }

    /// Archives everything that is durable.
    pub fn archive(&mut self) {
        let (mut archive, mut archiver) = match self.archive.take() {
            Some(both) => both,
            None => {
                let archive = LogArchive::open_in(self.archive_device.directory()).expect("open the archive");
                let archiver = archive.archiver(self.database(), "test", KEPT).expect("archiver");
                (archive, archiver)
            }
        };
        archive.take(&mut archiver).expect("archive");
        self.archive = Some((archive, archiver));
    }

    fn reopen(&mut self) {
        for slot in 0..SLOTS {
            if let Some(open) = self.open[slot].take() {
                self.commit(open);
            }
        }
        if self.view.is_some() {
            self.look();
        }
        self.archive = None;
        self.follower = None;
        self.database.take().expect("it is open").close().expect("close");
        if self.rng.bool() {
            self.archive_device = self.archive_device.reopen_after_crash(self.rng.u64(..));
        }
        self.open_again();
    }

    /// Crashes the machine of the database, and perhaps also that of the archive. Open transactions
    /// are lost.
    fn crash(&mut self) {
        let seed = self.rng.u64(..);
        self.device.freeze();
        self.open = Default::default();
        (self.archive, self.follower, self.view) = (None, None, None);
        drop(self.database.take());
        self.device = self.device.reopen_with(seed, Survival::Random);
        if self.rng.bool() {
            self.archive_device = self.archive_device.reopen_with(seed, Survival::Random);
        }
        self.crashes += 1;
        self.open_again();
    }

    fn open_again(&mut self) {
        let opened = Database::open_in(self.device.directory(), self.options.clone());
        self.database = Some(opened.expect("open again"));
    }

    /// Ends the history with everything archived. Returns the commits, the backups and the
    /// archive's device.
    pub fn end(mut self) -> (Vec<Commit>, Vec<Backup>, SimDevice) {
        self.follow();
        if self.view.is_some() {
            self.look();
        }
        self.archive();
        self.archive = None;
        (std::mem::take(&mut self.commits), std::mem::take(&mut self.backups), self.archive_device.clone())
    }
}

/// Returns the rows of a restored database, of either engine.
pub fn rows_of(directory: &Arc<dyn Directory>) -> Rows {
    let open = |engine| Database::open_in(directory.clone(), Options { create: false, ..options(engine) });
    let database = match open(EngineKind::Paged) {
        Err(Error::OtherEngine { found, .. }) => open(found),
        database => database,
    };
    rows_in(&database.unwrap_or_else(|error| panic!("the restored database: {error}")))
}

/// Returns the committed rows.
pub fn rows_in(database: &Database) -> Rows {
    rows_seen(database, &database.begin_read_only().expect("begin"))
}

/// Returns the rows that a view shows.
fn rows_seen(database: &Database, view: &Transaction) -> Rows {
    let mut rows = Rows::new();
    for name in ["rows", "passing"] {
        if let Some(table) = database.open_table(name).expect("open table") {
            let found = view.range(&table, ..).map(|row| row.expect("scan"));
            rows.extend(found.map(|(key, value)| ((name, key), value)));
        }
    }
    rows
}

/// Applies a change of the feed to rows.
fn apply(change: Change, rows: &mut Rows) {
    let known = |name: &str| ["rows", "passing"].into_iter().find(|known| *known == name);
    match change {
        Change::Row { name, key, new, .. } => {
            // The feed does not name a table that was dropped later.
            let Some(table) = name.as_deref().and_then(known) else { return };
            match new {
                NewValue::Value(value) => drop(rows.insert((table, key), value)),
                NewValue::Deleted => drop(rows.remove(&(table, key))),
                NewValue::Patch { offset, replaced, bytes } => {
                    let value = rows.get_mut(&(table, key)).expect("a patched row is there");
                    value.splice(offset..offset + replaced, bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        Change::TableDropped { name, .. } => rows.retain(|(table, _), _| *table != &*name),
        Change::TableCreated { .. } => {}
        other => panic!("{other:?}"),
    }
}
