//! Rig of the tree's tests: files in memory, and a log that is a list of records. The rig's own
//! transactions and recovery have no more code than it takes to show that these records suffice to
//! redo and undo all changes.

use crate::direction::Direction;
use crate::paged::change::{ChangeKind, RecordSpan, decode_chain_free, pages_of, redo_at, undo_of};
use crate::paged::double_write::DoubleWrite;
use crate::paged::first_pages;
use crate::paged::page::PageId;
use crate::paged::pool::{Pool, WalBarrier};
use crate::paged::space::{self, AllocClass, Space};
use crate::paged::tree::{
    Batch, BatchValue, ChangeWriter, Logged, Pages, Reached, ScanRequest, Shortcuts, Tree, apply_undo,
    free_after_commit, read_chain, verify_maps,
};
use crate::{Error, Lsn, Result, TableId, VerifyReport};
use fastrand::Rng;
use katydid_device::{Create, Directory, Id, MemoryDirectory, Method};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const TABLE: TableId = TableId::CATALOG;
pub(super) const TREE: Tree = Tree::new(TABLE, PageId::CATALOG_ROOT);
const DATABASE: Id = Id::new(7);

/// Role of a record in its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    Change,
    /// A compensation. This number of changes then remains to be undone.
    Compensation(usize),
    Structure,
    Commit(Vec<PageId>),
    End,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) lsn: Lsn,
    pub(super) end: Lsn,
    pub(super) txn: u64,
    pub(super) role: Role,
    pub(super) kind: ChangeKind,
    pub(super) payload: Vec<u8>,
}

/// A log in memory.
#[derive(Debug)]
pub(super) struct TestLog {
    pub(super) records: Mutex<Vec<Record>>,
    position: AtomicU64,
    /// Number of appends that still succeed.
    left: AtomicU64,
}

impl TestLog {
    fn append(
        &self,
        txn: u64,
        role: Role,
        kind: ChangeKind,
        after: Lsn,
        payload: &[&[u8]],
    ) -> Result<Logged> {
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return Err(Error::NoSpace { what: "a test's log".to_owned() });
        }
        let payload = payload.concat();
        let mut records = self.records.lock();
        let lsn = self.position.fetch_add(48 + payload.len() as u64, Ordering::AcqRel);
        let (lsn, end) = (Lsn::new(lsn), Lsn::new(lsn + 48 + payload.len() as u64));
        assert!(lsn > after, "a record must lie above the last change of its pages");
        records.push(Record { lsn, end, txn, role, kind, payload });
        Ok(Logged { lsn, end })
    }

    /// Lets `appends` appends succeed, and fails later ones.
    pub(super) fn fail_after(&self, appends: u64) {
        self.left.store(appends, Ordering::Relaxed);
    }
}

impl WalBarrier for TestLog {
    fn make_durable(&self, _: Lsn) -> Result<()> {
        Ok(())
    }

    fn reserved(&self) -> Lsn {
        Lsn::new(self.position.load(Ordering::Acquire))
    }

    fn poison(&self, what: &'static str) -> Error {
        Error::Internal(what)
    }
}

/// A transaction, with its changes in order, the latest last.
#[derive(Debug)]
pub(super) struct Txn {
    log: Arc<TestLog>,
    id: u64,
    changes: Vec<(ChangeKind, Vec<u8>)>,
    compensating: Option<usize>,
    /// Pages to be freed after the commit.
    pub(super) freed: Vec<PageId>,
}

impl ChangeWriter for Txn {
    fn append(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        match self.compensating {
            Some(left) => self.log.append(self.id, Role::Compensation(left), kind, after, payload),
            None => {
                let logged = self.log.append(self.id, Role::Change, kind, after, payload)?;
                self.changes.push((kind, payload.concat()));
                Ok(logged)
            }
        }
    }

    fn append_structure(&mut self, kind: ChangeKind, after: Lsn, payload: &[&[u8]]) -> Result<Logged> {
        self.log.append(self.id, Role::Structure, kind, after, payload)
    }

    fn alloc_class(&self) -> AllocClass {
        if self.compensating.is_some() { AllocClass::Rollback } else { AllocClass::Normal }
    }

    fn half_made(&mut self, what: &'static str) -> Error {
        Error::Internal(what)
    }
}

impl Txn {
    /// Number of changes so far, which serves as a savepoint.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Undoes all but the first `keep` changes.
    pub(super) fn roll_back_to(&mut self, pages: Pages<'_>, keep: usize) -> Result<()> {
        while self.changes.len() > keep {
            let (kind, payload) = self.changes[self.changes.len() - 1].clone();
            let op = undo_of(kind, &payload).expect("a record that was encoded here");
            self.compensating = Some(self.changes.len() - 1);
            let done = apply_undo(pages, &op, self);
            self.compensating = None;
            done?;
            self.changes.pop();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.log.append(self.id, Role::End, ChangeKind::Structure, Lsn::ZERO, &[])?;
        Ok(())
    }

    pub(super) fn roll_back(mut self, pages: Pages<'_>) -> Result<()> {
        self.roll_back_to(pages, 0)?;
        self.finish()
    }

    /// Commits, then frees the pages that the transaction no longer uses. A test that crashes
    /// between these two steps calls `commit_only`.
    pub(super) fn commit(mut self, pages: Pages<'_>) -> Result<()> {
        self.commit_only()?;
        self.free(pages)
    }

    pub(super) fn commit_only(&mut self) -> Result<()> {
        self.log.append(self.id, Role::Commit(self.freed.clone()), ChangeKind::Structure, Lsn::ZERO, &[])?;
        Ok(())
    }

    pub(super) fn free(mut self, pages: Pages<'_>) -> Result<()> {
        for head in std::mem::take(&mut self.freed) {
            free_after_commit(pages, head, &mut self)?;
        }
        self.finish()
    }
}

/// A database file with its pool and log.
#[derive(Debug)]
pub(super) struct Rig {
    directory: MemoryDirectory,
    page_bytes: usize,
    cache_pages: usize,
    pub(super) log: Arc<TestLog>,
    pub(super) pool: Pool,
    pub(super) space: Arc<Space>,
    pub(super) shortcuts: Shortcuts,
    next_txn: AtomicU64,
}

fn open_pool(directory: &dyn Directory, log: &Arc<TestLog>, page_bytes: usize, cache_pages: usize) -> Pool {
    let file = directory.open(space::FILE_NAME, Create::Never, Method::Direct).expect("the file");
    let area = DoubleWrite::open(directory, Method::Direct, DATABASE, page_bytes).expect("the area");
    area.restore(file.as_ref()).expect("a restore");
    Pool::new(file, area, page_bytes, cache_pages * page_bytes, log.clone())
}

impl Rig {
    pub(super) fn new(page_bytes: usize, cache_pages: usize) -> Self {
        let directory = MemoryDirectory::new();
        let file = directory.open(space::FILE_NAME, Create::New, Method::Direct).expect("a file");
        first_pages::create(file.as_ref(), DATABASE, page_bytes).expect("a database file");
        let log = Arc::new(TestLog {
            records: Mutex::default(),
            position: AtomicU64::new(64),
            left: AtomicU64::new(u64::MAX),
        });
        let pool = open_pool(&directory, &log, page_bytes, cache_pages);
        let space = Space::load(&pool).expect("maps");
        let (shortcuts, next_txn) = (Shortcuts::new(), AtomicU64::new(1));
        Rig { directory, page_bytes, cache_pages, log, pool, space, shortcuts, next_txn }
    }

    pub(super) fn pages(&self) -> Pages<'_> {
        Pages { pool: &self.pool, space: &self.space, shortcuts: Some(&self.shortcuts) }
    }

    /// Returns a copy of the key's value, by a shortcut if there is one.
    pub(super) fn get(&self, tree: Tree, key: &[u8]) -> Option<Vec<u8>> {
        let leaf = tree.leaf_by_route(&self.pool, &self.shortcuts, key).expect("a leaf");
        tree.copy_value(&self.pool, leaf, key).expect("a get")
    }

    pub(super) fn begin(&self) -> Txn {
        let id = self.next_txn.fetch_add(1, Ordering::Relaxed);
        self.txn(id, Vec::new())
    }

    fn txn(&self, id: u64, changes: Vec<(ChangeKind, Vec<u8>)>) -> Txn {
        Txn { log: self.log.clone(), id, changes, compensating: None, freed: Vec::new() }
    }

    /// Loses everything in memory but the log. Then recovers from the given checkpoint, or from the
    /// beginning if there is none.
    pub(super) fn crash(self, checkpoint: Option<&Checkpoint>) -> Self {
        let Rig { directory, page_bytes, cache_pages, log, next_txn, pool, space, .. } = self;
        drop((pool, space));
        log.fail_after(u64::MAX);
        let pool = open_pool(&directory, &log, page_bytes, cache_pages);
        redo_all(&pool, &log, checkpoint);
        let space = Space::load(&pool).expect("maps");
        let shortcuts = Shortcuts::new();
        let rig = Rig { directory, page_bytes, cache_pages, log, pool, space, shortcuts, next_txn };
        rig.undo_losers();
        rig
    }

    /// Rolls back the transactions that have no commit record. Frees the pages that committed
    /// transactions no longer use.
    fn undo_losers(&self) {
        #[derive(Default)]
        struct State {
            changes: Vec<(ChangeKind, Vec<u8>)>,
            committed: Option<Vec<PageId>>,
            ended: bool,
        }
        let mut states: BTreeMap<u64, State> = BTreeMap::new();
        let records = self.log.records.lock().clone();
        for record in records {
            let state = states.entry(record.txn).or_default();
            match record.role {
                Role::Change => state.changes.push((record.kind, record.payload)),
                Role::Compensation(left) => state.changes.truncate(left),
                Role::Commit(chains) => state.committed = Some(chains),
                Role::End => state.ended = true,
                Role::Structure if record.kind == ChangeKind::ChainFree => {
                    let (head, _) = decode_chain_free(&record.payload).expect("a head");
                    if let Some(chains) = &mut state.committed {
                        chains.retain(|chain| *chain != head);
                    }
                }
                Role::Structure => {}
            }
        }
        for (id, state) in states.into_iter().filter(|(_, state)| !state.ended) {
            let mut txn = self.txn(id, state.changes);
            match state.committed {
                Some(chains) => {
                    txn.freed = chains;
                    txn.free(self.pages()).expect("freeing goes on");
                }
                None => txn.roll_back(self.pages()).expect("a rollback"),
            }
        }
    }

    /// Checks the pages and maps. `trees` are all trees of the file.
    pub(super) fn verify(&self, trees: &[Tree]) -> VerifyReport {
        let mut report = VerifyReport::default();
        let mut reached = Reached::default();
        reached.extend_to(self.space.stat().pages);
        for page in [PageId::CATALOG_ROOT].iter().filter(|root| trees.iter().all(|tree| tree.root != **root))
        {
            reached.note(*page).expect("a page of the file");
        }
        for tree in trees {
            tree.verify(&self.pool, &mut reached, &mut report).expect("readable pages");
        }
        verify_maps(&self.pool, &reached, &mut report).expect("readable maps");
        assert!(report.is_sound(), "{:#?}", report.faults);
        report
    }

    /// Returns all keys and values of a tree. Panics unless reading upwards and reading downwards
    /// give the same entries.
    pub(super) fn contents(&self, tree: Tree) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let up = self.scan(tree, ScanRequest { entries: 7, ..EVERYTHING });
        let mut down = self.scan(tree, ScanRequest { direction: Direction::Down, ..EVERYTHING });
        down.reverse();
        assert!(up == down, "upwards {} entries, downwards {}", up.len(), down.len());
        assert!(up.is_sorted_by(|a, b| a.0 < b.0));
        up.into_iter().collect()
    }

    /// Returns all keys and values of a request. No other thread may change the tree, because a
    /// long value is read after its leaf's latch was released.
    pub(super) fn scan(&self, tree: Tree, request: ScanRequest<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        self.scan_entries(tree, request, |key, value| {
            let value = match value {
                BatchValue::Inline(value) => value.to_vec(),
                BatchValue::Chain(chain) => read_chain(&self.pool, tree.table, chain).expect("a value"),
            };
            found.push((key.to_vec(), value));
        });
        found
    }

    /// Returns all keys of a request. Other threads may change the tree.
    pub(super) fn scan_keys(&self, tree: Tree, request: ScanRequest<'_>) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        self.scan_entries(tree, request, |key, _| keys.push(key.to_vec()));
        keys
    }

    /// Calls `entry` with each entry of a request, batch by batch.
    fn scan_entries(
        &self,
        tree: Tree,
        request: ScanRequest<'_>,
        mut entry: impl FnMut(&[u8], BatchValue<'_>),
    ) {
        let mut batch = Batch::default();
        let mut bound = request.begin().map(<[u8]>::to_vec);
        loop {
            let rest = request.from(bound.as_ref().map(Vec::as_slice));
            let onward = tree.scan(&self.pool, rest, &mut batch).expect("a scan");
            assert!(batch.len() <= request.entries && (onward.is_none() || !batch.is_empty()));
            for (key, value) in batch.iter() {
                entry(key, value);
            }
            match onward {
                Some(onward) => bound = onward,
                None => return,
            }
        }
    }
}

/// A request for everything in a tree, upwards, in one batch.
pub(super) const EVERYTHING: ScanRequest<'static> = ScanRequest {
    low: Bound::Unbounded,
    high: Bound::Unbounded,
    direction: Direction::Up,
    entries: usize::MAX,
    bytes: usize::MAX,
};

/// The begin position and the dirty pages of a checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    begin: Lsn,
    dirty: HashMap<PageId, Lsn>,
}

impl Checkpoint {
    pub(super) fn take(rig: &Rig) -> Self {
        let begin = rig.log.reserved();
        Checkpoint { begin, dirty: rig.pool.dirty_pages().into_iter().collect() }
    }
}

fn redo_all(pool: &Pool, log: &TestLog, checkpoint: Option<&Checkpoint>) {
    let records = log.records.lock().clone();
    let mut dirty = checkpoint.map(|checkpoint| checkpoint.dirty.clone());
    if let (Some(dirty), Some(checkpoint)) = (&mut dirty, checkpoint) {
        for record in records.iter().filter(|record| record.lsn >= checkpoint.begin) {
            for page in pages_of(record.kind, &record.payload) {
                dirty.entry(page.expect("a page")).or_insert(record.lsn);
            }
        }
    }
    for record in &records {
        let wanted = |page| {
            dirty
                .as_ref()
                .is_none_or(|dirty| dirty.get(&page).is_some_and(|recovery| *recovery <= record.lsn))
        };
        let span = RecordSpan { first: record.lsn, lsn: record.lsn, end: record.end };
        redo_at(pool, record.kind, &record.payload, span, wanted).expect("a redo");
    }
}

/// Sizes of a test's keys and values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) keys: u32,
    pub(super) key_bytes_max: usize,
    pub(super) value_bytes_max: usize,
}

/// Returns one of `keys` keys. Some are short, some long with long common prefixes.
pub(super) fn key(rng: &mut Rng, sizes: Sizes) -> Vec<u8> {
    let number = rng.u32(0..sizes.keys);
    let text = format!("{number:06}");
    match number % 4 {
        0 => text.into_bytes(),
        1 => number.to_be_bytes().to_vec(),
        _ => {
            let long = sizes.key_bytes_max - 6;
            let mut key = vec![b'x'; if number % 4 == 2 { long } else { long / 2 }];
            key.extend_from_slice(text.as_bytes());
            key
        }
    }
}

/// Returns a value that is mostly short, and sometimes as long as allowed.
pub(super) fn value(rng: &mut Rng, sizes: Sizes) -> Vec<u8> {
    let longest = match rng.u32(0..20) {
        0 => sizes.value_bytes_max,
        1..4 => 1000,
        _ => 60,
    };
    let length = rng.usize(0..=longest.min(sizes.value_bytes_max));
    let first = rng.u8(..);
    (0..length).map(|at| first.wrapping_add((at / 7) as u8)).collect()
}

/// Returns a random key of the model, if it has any.
pub(super) fn some_key(rng: &mut Rng, model: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Vec<u8>> {
    if model.is_empty() {
        return None;
    }
    let at = rng.usize(0..model.len());
    model.keys().nth(at).cloned()
}

/// Fails with only the first difference, because the maps are long.
pub(super) fn assert_same(found: &BTreeMap<Vec<u8>, Vec<u8>>, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for (key, value) in expected {
        let found = found.get(key);
        assert!(found.is_some(), "key {} is missing", key.escape_ascii());
        assert!(found == Some(value), "key {} has another value", key.escape_ascii());
    }
    for key in found.keys() {
        assert!(expected.contains_key(key), "key {} should be gone", key.escape_ascii());
    }
}
