//! The databases that are damaged: what they hold after each of their commits, and their bytes at
//! several moments.

use crate::common::{self, Rng, options_for, with_log};
use crate::disk::{Disk, DiskImage};
use katydid::testing::Background;
use katydid::{Database, EngineKind, FileOptions, LogKind, Options, Table};
use katydid_device::{Directory, StripedDirectory};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All tables by name, with their rows.
pub type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A table's name, a key and its value.
pub type Row = (String, Vec<u8>, Vec<u8>);

/// Number of commits of each database. Half of them come before its last checkpoint.
pub const UNITS: usize = 40;

/// More bytes than any value has.
pub const VALUE_BYTES_MAX: usize = 20_000;

/// Returns the first bytes of each value that was written by the commit after the first `unit`
/// commits.
pub fn marker(unit: usize) -> String {
    format!("unit {unit}, ")
}

/// State in which the database was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Crashed: a checkpoint, and a log beyond it.
    Open,
    Closed,
}

/// Kind of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    pub engine: EngineKind,
    pub log: LogKind,
    /// Number of directories that it is striped over; 1 means not striped.
    pub stripes: usize,
    pub left: Left,
}

/// One database.
pub struct Subject {
    pub kind: Kind,
    /// Contents after each number of commits.
    pub states: Vec<State>,
    /// Rows that a transaction wrote and then changed again: no state has them.
    pub within: Vec<Row>,
    /// Bytes of the database as it was left.
    pub image: DiskImage,
    /// Bytes of the database at earlier moments, oldest first.
    pub earlier: Vec<DiskImage>,
    /// Number of moments in `earlier` that lie before the last checkpoint.
    pub before_checkpoint: usize,
}

impl Kind {
    pub fn options(self) -> Options {
        let options = crate::common::with_streams(with_log(options_for(self.engine), self.log), 2);
        let mut options = crate::common::with_memory(options, 256 << 10);
        options.advanced.log = options.advanced.log.map_files(|files| FileOptions {
            segment_bytes: 64 << 10,
            ring_bytes: 256 << 10,
            ..files
        });
        options.advanced.log.reserve_bytes = 64 << 10;
        options.advanced.log.run_ahead_bytes = 64 << 10;
        options.advanced.log.sessions_max = 16;
        options.advanced.log.background = Background::Caller;
        options
    }

    /// Returns the directory of the database on a device.
    pub fn directory(self, disk: &Disk, create: bool) -> katydid_device::Result<Arc<dyn Directory>> {
        if self.stripes == 1 {
            return Ok(Arc::new(disk.clone()));
        }
        let directories: Result<Vec<_>, _> =
            (0..self.stripes).map(|nth| disk.subdirectory(&format!("stripe-{nth}"))).collect();
        let directory = match create {
            true => StripedDirectory::open(directories?, 8 << 10)?,
            false => StripedDirectory::open_existing(directories?)?,
        };
        Ok(Arc::new(directory))
    }
}

impl Subject {
    pub fn new(kind: Kind, seed: u64) -> Subject {
        let disk = Disk::new(&DiskImage::default(), u64::MAX);
        let directory = kind.directory(&disk, true).expect("a directory");
        let database = Database::open_in(directory, kind.options()).expect("create");
        let tables = ["long", "short"].map(|name| database.table(name).expect("a table"));
        let mut state: State =
            tables.iter().map(|table| (table.name().to_owned(), BTreeMap::new())).collect();
        let mut random = Rng::with_seed(seed);
        let checkpoints = || database.stat().expect("stat").checkpoints;
        // Each image with the number of checkpoints taken before it.
        let mut earlier = vec![(disk.image(), checkpoints())];
        let (mut states, mut within) = (vec![state.clone()], Vec::new());
        for unit in 0..UNITS {
            if unit == UNITS / 2 {
                earlier.push((disk.image(), checkpoints()));
                database.checkpoint().expect("a checkpoint");
            }
            let written = commit(&database, &tables, unit, &mut state, &mut random);
            within.extend(
                written.into_iter().filter(|(table, key, value)| state[table].get(key) != Some(value)),
            );
            states.push(state.clone());
            if unit % 7 == 6 {
                earlier.push((disk.image(), checkpoints()));
            }
        }
        let (mut image, mut last) = (disk.image(), checkpoints());
        if kind.left == Left::Closed {
            earlier.push((image, last));
            last += 1;
            common::closed(database);
            image = disk.image();
        }
        // The checkpoints are counted, because a full log in NVRAM causes checkpoints that the test
        // did not ask for.
        let before_checkpoint = earlier.partition_point(|(_, checkpoints)| *checkpoints < last);
        let earlier = earlier.into_iter().map(|(image, _)| image).collect();
        Subject { kind, states, within, image, earlier, before_checkpoint }
    }

    /// Returns the contents that the database has to have.
    pub fn last(&self) -> &State {
        self.states.last().expect("a state")
    }
}

/// Commits one durable transaction with rows of both tables, each with a value that no row had
/// before. Returns the rows in the order in which it wrote them.
fn commit(
    database: &Database,
    tables: &[Table; 2],
    unit: usize,
    state: &mut State,
    random: &mut Rng,
) -> Vec<Row> {
    let mut written = Vec::new();
    let txn = database.begin().expect("begin");
    for nth in 0..random.usize(2..6) {
        let is_long = random.u8(..5) == 0;
        let table = &tables[usize::from(!is_long)];
        let rows = state.get_mut(table.name()).expect("a table");
        let key = common::key(random.u64(0..if is_long { 6 } else { 60 }));
        if random.u8(..5) == 0 {
            txn.delete(table, &key).expect("delete");
            rows.remove(&key);
            continue;
        }
        let length = if is_long { random.usize(3000..VALUE_BYTES_MAX) } else { random.usize(20..300) };
        let mut value = format!("{}row {nth}: ", marker(unit)).into_bytes();
        value.resize(length, unit as u8);
        txn.put(table, &key, &value).expect("put");
        written.push((table.name().to_owned(), key.clone(), value.clone()));
        rows.insert(key, value);
    }
    txn.commit().expect("commit");
    written
}
