//! The control file `katydid.control`: the id of the database, the engine that made it, and the
//! position at which recovery begins.
//!
//! The file has two slots of 4 KiB, which are written alternately, by durable writes. The valid
//! slot with the higher sequence number is the current one. The opening thread uses the file first,
//! then each thread that takes a checkpoint, makes a table, or closes the database. One thread
//! writes at a time: it holds the latch `state` from the choice of a slot to the end of the write.
//!
//! Invariants:
//!
//! 1. A write goes to the slot that is not the current one, so one valid slot exists at any time
//!    after creation.
//! 2. Magic, version, checksum and sequence have the same offsets in all versions.
//! 3. The file gets its name only when both slots are durable. So a file of this name without a
//!    valid slot is corrupt: it is no unfinished creation, and no opening writes over it.
//!
//! A crash during an update leaves the old state or the new one. A crash during the creation leaves
//! no control file, hence no database. If there is a control file, the database is whole, because
//! the caller makes the control file after all other files.

use crate::Lsn;
use crate::error::{Error, Foreign, Result};
use crate::ids::EngineKind;
use crate::ids::TableId;
use crate::latch::Mutex;
use crate::limits::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use katydid_device::{AlignedBuffer, Create, Directory, File, Id, Method, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "katydid.control";
/// Name of the file during its creation. A file of this name is left over by a crash and is
/// ignored.
pub(crate) const NEW_FILE_NAME: &str = "katydid.control.new";

const MAGIC: [u8; 8] = *b"KTYDCTRL";
/// The newest version that this program reads. A slot is written in the oldest version that can
/// express its contents, so that older programs can read it.
const VERSION: u32 = 2;
/// The first version with a memory engine.
const VERSION_MEMORY: u32 = 2;
const STREAMS_MAX: u16 = 256;
const SLOT: usize = 4096;

/// State in which the database was left. The state is a hint for recovery, which reads the log in
/// both states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Shutdown {
    /// In use, or left by a crash. In the memory engine also: closed by `close`, with rows in the
    /// log that no checkpoint has.
    Unclean = 0,
    /// Closed by `close`, with all rows in the pages or in the last checkpoint.
    Clean = 1,
}

/// Contents of the control file. Fields that only the other engine uses are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    /// Id of the database, chosen at random.
    pub(crate) database: Id,
    /// Engine that made the database.
    pub(crate) engine: EngineKind,
    /// State in which the database was left.
    pub(crate) shutdown: Shutdown,
    /// Every table id in use is below this number.
    pub(crate) next_table: u32,
    /// Paged: bytes in a page.
    pub(crate) page_bytes: u32,
    /// Paged: LSN of the begin record of the last complete checkpoint. Zero if there is none yet:
    /// recovery then reads the log from its start.
    pub(crate) checkpoint: Lsn,
    /// Paged: every transaction id in use is below this number.
    pub(crate) next_transaction: u64,
    /// Memory: number of streams of the log.
    pub(crate) streams: u16,
    /// Memory: number of the last complete checkpoint. Zero if there is none yet: recovery then
    /// begins with an empty state at the log's start.
    pub(crate) checkpoint_number: u64,
}

impl Control {
    /// The control file's content for a new paged database.
    pub(crate) fn paged(database: Id, page_bytes: u32) -> Control {
        Control {
            database,
            engine: EngineKind::Paged,
            shutdown: Shutdown::Unclean,
            next_table: 1,
            page_bytes,
            checkpoint: Lsn::ZERO,
            next_transaction: 1,
            streams: 0,
            checkpoint_number: 0,
        }
    }

    /// The control file's content for a new memory database.
    pub(crate) fn memory(database: Id, streams: u16) -> Control {
        Control { engine: EngineKind::Memory, next_transaction: 0, streams, ..Control::paged(database, 0) }
    }

    /// Returns whether a release of this program may have written these values: all counts are
    /// below [`COUNT_MAX`], and the other values are in their ranges.
    fn is_sane(&self, version: u32) -> bool {
        let counts = self.checkpoint_number < COUNT_MAX && self.next_transaction < COUNT_MAX;
        counts
            && match self.engine {
                EngineKind::Paged => {
                    let page_bytes = self.page_bytes as usize;
                    version >= 1
                        && page_bytes.is_power_of_two()
                        && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
                }
                EngineKind::Memory => version >= VERSION_MEMORY && (1..=STREAMS_MAX).contains(&self.streams),
            }
    }
}

/// Exclusive limit of all counts in a sound slot. So a slot with a count at or above this limit is
/// damaged, and counting from a sound slot never overflows.
const COUNT_MAX: u64 = 1 << 63;

/// A slot as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Valid(u64, Control),
    Newer(u32),
    /// The slot has the magic of a control file, and is damaged or torn.
    Damaged,
    /// The slot does not have the magic of a control file.
    Other,
}

fn checksum(slot: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&slot[..12]);
    digest.update(&slot[16..]);
    digest.finalize() as u32
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut raw = [0; N];
    raw.copy_from_slice(&bytes[at..at + N]);
    raw
}

fn encode(slot: &mut [u8], sequence: u64, control: &Control) {
    slot.fill(0);
    let (engine, version) = match control.engine {
        EngineKind::Paged => (1, 1),
        EngineKind::Memory => (2, VERSION_MEMORY),
    };
    slot[..8].copy_from_slice(&MAGIC);
    slot[8..12].copy_from_slice(&version.to_le_bytes());
    slot[16..24].copy_from_slice(&sequence.to_le_bytes());
    slot[24..40].copy_from_slice(&control.database.to_le_bytes());
    slot[40..44].copy_from_slice(&control.page_bytes.to_le_bytes());
    slot[44] = engine;
    slot[45] = control.shutdown as u8;
    slot[46..48].copy_from_slice(&control.streams.to_le_bytes());
    slot[48..56].copy_from_slice(&control.checkpoint.get().to_le_bytes());
    slot[56..64].copy_from_slice(&control.next_transaction.to_le_bytes());
    slot[64..68].copy_from_slice(&control.next_table.to_le_bytes());
    slot[68..76].copy_from_slice(&control.checkpoint_number.to_le_bytes());
    let sum = checksum(slot);
    slot[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// Decodes a slot. Never panics; `slot` may be of any length.
fn decode(slot: &[u8]) -> Slot {
    if slot.get(..8) != Some(&MAGIC) {
        return Slot::Other;
    }
    if slot.len() != SLOT || u32::from_le_bytes(field(slot, 12)) != checksum(slot) {
        return Slot::Damaged;
    }
    let version = u32::from_le_bytes(field(slot, 8));
    if version > VERSION {
        return Slot::Newer(version);
    }
    let engine = match slot[44] {
        1 => EngineKind::Paged,
        2 => EngineKind::Memory,
        _ => return Slot::Damaged,
    };
    let shutdown = match slot[45] {
        0 => Shutdown::Unclean,
        1 => Shutdown::Clean,
        _ => return Slot::Damaged,
    };
    let control = Control {
        database: Id::from_le_bytes(field(slot, 24)),
        engine,
        shutdown,
        next_table: u32::from_le_bytes(field(slot, 64)),
        page_bytes: u32::from_le_bytes(field(slot, 40)),
        checkpoint: Lsn::new(u64::from_le_bytes(field(slot, 48))),
        next_transaction: u64::from_le_bytes(field(slot, 56)),
        streams: u16::from_le_bytes(field(slot, 46)),
        checkpoint_number: u64::from_le_bytes(field(slot, 68)),
    };
    let sequence = u64::from_le_bytes(field(slot, 16));
    if !control.is_sane(version) || sequence >= COUNT_MAX {
        return Slot::Damaged;
    }
    Slot::Valid(sequence, control)
}

/// Conclusion from the two slots.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Current { sequence: u64, control: Control },
    Newer(u32),
    Corrupt,
    Foreign,
}

/// Concludes from both slots which state is the current one.
///
/// | one slot | other slot | finding |
/// |---|---|---|
/// | newer | any | newer: this program must not continue from an older state |
/// | valid | valid | current: the slot with the higher sequence |
/// | valid | damaged, other | current: the valid slot, because the last update was torn |
/// | damaged | damaged, other | corrupt |
/// | other | other | foreign |
fn judge(slots: [Slot; 2]) -> Finding {
    match slots {
        [Slot::Newer(version), _] | [_, Slot::Newer(version)] => Finding::Newer(version),
        [Slot::Valid(a, first), Slot::Valid(b, second)] => {
            if a > b {
                Finding::Current { sequence: a, control: first }
            } else {
                Finding::Current { sequence: b, control: second }
            }
        }
        [Slot::Valid(sequence, control), _] | [_, Slot::Valid(sequence, control)] => {
            Finding::Current { sequence, control }
        }
        [Slot::Damaged, _] | [_, Slot::Damaged] => Finding::Corrupt,
        [Slot::Other, Slot::Other] => Finding::Foreign,
    }
}

fn read_slots(file: &dyn File, place: &str) -> Result<(u64, Control)> {
    let mut bytes = AlignedBuffer::new_zeroed(2 * SLOT);
    let read = file.read_at(&mut bytes, 0)?;
    let (first, second) = bytes[..read].split_at(read.min(SLOT));
    let foreign = |what| Err(Error::Foreign { place: place.to_owned(), what });
    match judge([decode(first), decode(second)]) {
        Finding::Current { sequence, control } => Ok((sequence, control)),
        Finding::Newer(found) => {
            foreign(Foreign::NewerVersion { file: FILE_NAME.to_owned(), found, known: VERSION })
        }
        // A file of zeros is corrupt, not foreign: a damaged device may return zeros, and no other
        // program makes such a file under this name.
        Finding::Foreign if bytes[..read].iter().any(|byte| *byte != 0) => {
            foreign(Foreign::Magic(FILE_NAME.to_owned()))
        }
        Finding::Corrupt | Finding::Foreign => Err(Error::Corrupt {
            place: FILE_NAME.to_owned(),
            page: None,
            finding: "neither of its two slots is valid".to_owned(),
        }),
    }
}

/// Reads the control file without changing anything; `None` if there is none.
pub(crate) fn read(directory: &dyn Directory) -> Result<Option<Control>> {
    read_as(FILE_NAME, directory)
}

/// Reads a control file that has another name.
pub(crate) fn read_as(name: &str, directory: &dyn Directory) -> Result<Option<Control>> {
    match directory.open_read_only(name) {
        Ok(file) => Ok(Some(read_slots(file.as_ref(), &directory.describe())?.1)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The control file of an open database.
#[derive(Debug)]
pub(crate) struct ControlFile {
    file: Arc<dyn File>,
    state: Mutex<(u64, Control)>,
}

impl ControlFile {
    /// Opens the control file; `None` if there is none, hence no database.
    pub(crate) fn open(directory: &dyn Directory, method: Method) -> Result<Option<ControlFile>> {
        let file = match directory.open(FILE_NAME, Create::Never, method) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The file is synced before its contents are trusted, and read from the device, not from a
        // cache.
        file.sync()?;
        file.drop_cache()?;
        let state = read_slots(file.as_ref(), &directory.describe())?;
        Ok(Some(ControlFile { file, state: Mutex::new(state) }))
    }

    /// Creates the control file, and with it the database, whose other files are durable already.
    /// The control file is durable when the call returns.
    pub(crate) fn create(directory: &dyn Directory, method: Method, control: Control) -> Result<ControlFile> {
        Self::create_as(FILE_NAME, directory, method, control)
    }

    /// Creates a control file that has another name.
    pub(crate) fn create_as(
        name: &str,
        directory: &dyn Directory,
        method: Method,
        control: Control,
    ) -> Result<ControlFile> {
        let file = directory.open(NEW_FILE_NAME, Create::IfMissing, method)?;
        file.prepare(0, 2 * SLOT as u64).map_err(|error| match error.is_no_space_ahead() {
            true => Error::NoSpace { what: "the control file".to_owned() },
            false => error.into(),
        })?;
        let mut slots = AlignedBuffer::new_zeroed(2 * SLOT);
        let (first, second) = slots.split_at_mut(SLOT);
        encode(first, 0, &control);
        encode(second, 1, &control);
        file.write_at(&[IoSlice::new(&slots)], 0, WriteMode::Durable)?;
        file.sync()?;
        drop(file);
        // The file's temporary name must be durable before the file is renamed.
        directory.sync()?;
        directory.rename(NEW_FILE_NAME, name)?;
        directory.sync()?;
        let file = directory.open(name, Create::Never, method)?;
        Ok(ControlFile { file, state: Mutex::new((1, control)) })
    }

    /// Contents of the control file.
    pub(crate) fn get(&self) -> Control {
        self.state.lock().1
    }

    /// Changes the control file; the change is durable when the call returns. After a failure the
    /// gate is shut, and the file has the old state or the new one.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let mut state = self.state.lock();
        let (sequence, mut control) = (state.0 + 1, state.1);
        change(&mut control);
        let mut slot = AlignedBuffer::new_zeroed(SLOT);
        encode(&mut slot, sequence, &control);
        self.file.write_at(&[IoSlice::new(&slot)], (sequence % 2) * SLOT as u64, WriteMode::Durable)?;
        *state = (sequence, control);
        Ok(())
    }

    /// Takes the id of a new table, durably. No other thread may make a table during this call.
    ///
    /// # Errors
    /// `Error::TooManyTables` if all ids are taken.
    pub(crate) fn take_table(&self) -> Result<TableId> {
        let number = self.get().next_table;
        if number == u32::MAX {
            return Err(Error::TooManyTables { limit: u32::MAX - 1 });
        }
        self.update(|control| control.next_table = number + 1)?;
        Ok(TableId::new(number))
    }
}

#[cfg(test)]
mod tests;
