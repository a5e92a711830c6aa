//! The simulated machine that a database runs on, and the list of its device's calls.
//!
//! With [`Background::Caller`] all work is done by the one client's thread, so a seed always gives
//! the same steps in the same order, and a crash at one of them is replayed by its number. With
//! background threads the number of a step says only roughly when it was.

use crate::common::Rng;
use katydid::testing::{Background, Beginning, begin_at};
use katydid::{
    CommitDependencies, Contention, Database, EngineKind, Error, FileOptions, Group, InserterDesign,
    InserterKind, InserterSettings, LockRelease, LogKind, MediumSettings, MemoryOptions, NvramOptions,
    OldVersions, Options, PagedOptions, Persistence, SyncDesign, SyncKind,
};
use katydid_device::nvram::{NvRegion, SimNvram};
use katydid_device::{
    Create, Directory, DirectoryLock, File, Id, Method, Result, SimDevice, StripedDirectory, Survival,
    WriteMode,
};
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

/// Options of a database, apart from sizes. A crash campaign has to cover their combinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub engine: EngineKind,
    pub sync: SyncKind,
    /// True if a round of the log waits for more commits, as group commit in Cicada with P-WAL
    /// does.
    pub group: bool,
    /// The memory engine's number of streams, and its rule for the commits that a transaction waits
    /// for.
    pub streams: u16,
    pub commit_dependencies: CommitDependencies,
    pub lock_release: LockRelease,
    pub method: Method,
    /// Method of the paged engine's pages.
    pub page_method: Method,
    pub inserter: InserterKind,
}

/// I/O methods of the device. A further method is a further entry.
const METHODS: [Method; 2] = [Method::Buffered, Method::Direct];
/// `Early` is listed twice, so that more seeds use it, because a crash can take back more with
/// early release.
const RELEASES: [LockRelease; 3] = [LockRelease::Early, LockRelease::Early, LockRelease::AfterDurable];

/// Single commit and group commit as in Cicada with P-WAL, and the default. Group commit is done by
/// a thread of the log (`Pipelined`) or by the committing threads (`Inline`).
const MEMORY_SYNCS: [(SyncKind, bool); 4] = [
    (SyncKind::PerCommit, false),
    (SyncKind::Pipelined, true),
    (SyncKind::Adaptive, false),
    (SyncKind::Inline, true),
];
/// Group commit as in Cicada with P-WAL: up to 5 commits, or 500 us.
const GROUP: Group = Group { commits: 5, bytes: 0, microseconds: 500 };
const MEMORY_RELEASES: [LockRelease; 2] = [LockRelease::Early, LockRelease::AfterDurable];
const RULES: [CommitDependencies; 2] = [CommitDependencies::Tracked, CommitDependencies::All];
const STREAMS_MAX: usize = 3;
const CONTENTIONS: [Contention; 2] = [Contention::AtValidation, Contention::Early];
const OLD_VERSIONS: [OldVersions; 2] = [OldVersions::UntilUnread, OldVersions::UntilDurable];

fn pick(number: u64, of: usize) -> usize {
    (number % of as u64) as usize
}

impl Kind {
    /// Returns the number of consecutive seeds that together have every combination of protocol,
    /// lock release, I/O method and, in the memory engine, dependency rule. Within this number of
    /// seeds times the number of inserters, each combination meets each inserter. In the memory
    /// engine the number of stream counts is a third factor, and each combination also meets each
    /// stream count.
    pub fn without_inserters(engine: EngineKind) -> u64 {
        let all = match engine {
            EngineKind::Paged => METHODS.len() * RELEASES.len() * SyncKind::ALL.len(),
            _ => METHODS.len() * MEMORY_RELEASES.len() * MEMORY_SYNCS.len() * RULES.len(),
        };
        all as u64
    }

    /// Returns the kind of a seed. The choices count up like the digits of a number, except
    /// inserter and stream count: these move with the lowest digit and are shifted at each round,
    /// so that a small number of seeds covers all of them. A bit of the product of the seed and a
    /// constant chooses the method of pages.
    pub fn of(engine: EngineKind, seed: u64) -> Kind {
        let round = seed / Self::without_inserters(engine);
        let methods = METHODS.len() as u64;
        let inserter = InserterKind::ALL[pick((seed / methods).wrapping_add(round), InserterKind::ALL.len())];
        let method = METHODS[pick(seed, METHODS.len())];
        let page_method = METHODS[pick(seed.wrapping_mul(0xa076_1d64_78bd_642f) >> 40, METHODS.len())];
        if engine == EngineKind::Paged {
            let releases = RELEASES.len() as u64;
            let sync = SyncKind::ALL[pick(seed / (methods * releases), SyncKind::ALL.len())];
            let lock_release = RELEASES[pick(seed / methods, RELEASES.len())];
            let commit_dependencies = CommitDependencies::default();
            return Kind {
                engine,
                sync,
                group: false,
                streams: 1,
                commit_dependencies,
                lock_release,
                method,
                page_method,
                inserter,
            };
        }
        let (sync, group) = MEMORY_SYNCS[pick(seed / 4, MEMORY_SYNCS.len())];
        Kind {
            engine,
            sync,
            group,
            streams: 1 + pick(seed.wrapping_add(round), STREAMS_MAX) as u16,
            commit_dependencies: RULES[pick(seed / 16, RULES.len())],
            lock_release: MEMORY_RELEASES[pick(seed / methods, MEMORY_RELEASES.len())],
            method,
            page_method,
            inserter,
        }
    }
}

/// Returns options under which everything happens often: eviction, checkpoints, segment changes.
pub fn options(seed: u64, kind: Kind, background: Background) -> Options {
    let mut options = crate::common::small_options();
    let memory = MemoryOptions {
        streams: kind.streams,
        commit_dependencies: kind.commit_dependencies,
        ..MemoryOptions::default()
    };
    let pages = PagedOptions { page_method: kind.page_method, ..crate::common::SMALL_PAGES };
    options.engine = kind.engine.with(pages, memory);
    // The least value that is allowed; in the memory engine each stream has a share of it.
    options.advanced.checkpoint_bytes = 64 << 10;
    options.advanced.log.medium = settings(seed, kind).files.into();
    options.advanced.log.run_ahead_bytes = 8 << 10;
    options.advanced.log.reserve_bytes = 64 << 10;
    options.advanced.log.log_id = Some(Id::new(1));
    options.advanced.log.background = background;
    // Few sessions, because a log in NVRAM keeps room for each.
    options.advanced.log.sessions_max = 16;
    options.advanced.lock_release = kind.lock_release;
    // The rules of the papers on Cicada. A few rounds of seeds combine each rule with every other
    // choice.
    options.advanced.contention = CONTENTIONS[pick(seed / 5, CONTENTIONS.len())];
    options.advanced.old_versions = OLD_VERSIONS[pick(seed / 7, OLD_VERSIONS.len())];
    options.advanced.log.method = kind.method;
    options
}

/// Returns the settings of every medium that the log may be in.
fn settings(seed: u64, kind: Kind) -> MediumSettings {
    // The depth is set, because `adaptive` by itself has several writes under way only on slow
    // devices.
    let depth = [4, 1][(seed / Kind::without_inserters(kind.engine)) as usize % 2];
    let sync = match kind.sync {
        SyncKind::Adaptive => SyncDesign::adaptive(depth),
        SyncKind::Pipelined if kind.group => SyncDesign::pipelined(GROUP),
        SyncKind::Inline if kind.group => SyncDesign::Inline { group: GROUP },
        other => other.into(),
    };
    MediumSettings {
        files: FileOptions {
            // Each life rotates between segments of several sizes.
            segment_bytes: 64 << 10,
            first_segment_bytes: 32 << 10,
            ring_bytes: 16 << 10,
            spare_segments: 1,
            inserter: inserter_design(kind.inserter, [256, 1024, 2048][(seed / 18) as usize % 3]),
            sync,
            ..FileOptions::default()
        },
        // The ring wraps around every few transactions.
        memory: NvramOptions { bytes: 256 << 10, ..NvramOptions::default() },
        entries: 0,
    }
}

/// Returns the design of this kind. `Chunked` always reserves whole small chunks, so that it puts
/// records below older ones all the time.
fn inserter_design(kind: InserterKind, chunk_bytes: usize) -> InserterDesign {
    InserterSettings { chunk_bytes, chunk_always: true, ..InserterSettings::default() }.design(kind)
}

/// All page sizes; the seed picks one.
const PAGE_BYTES: [usize; 4] = [4096, 8192, 16_384, 32_768];

/// First position with a 33rd bit.
pub const HIGH: u64 = 1 << 32;

/// Returns whether the database of a seed begins a little below [`HIGH`]: this is so for an eighth
/// of the seeds.
pub fn begins_high(seed: u64) -> bool {
    seed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 61 == 0
}

fn with_pages_of(mut options: Options, seed: u64) -> Options {
    // The highest bits of the product of the seed and a constant choose the size, so that the size
    // is independent of all other choices.
    let number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    let size = match number {
        // A log in NVRAM for larger pages is too large for a short workload to fill it, so half of
        // these databases have the smallest pages.
        8..16 if options.advanced.log.medium.kind().in_nvram() => number % 3 + 1,
        0..8 if options.advanced.log.medium.kind().in_nvram() => 0,
        _ => number >> 2,
    };
    let page_bytes = PAGE_BYTES[size as usize];
    if let Some(paged) = options.engine.paged_mut() {
        (paged.page_bytes, paged.cache_bytes) = (page_bytes, 16 * page_bytes);
        if let Some(memory) = options.advanced.log.medium.memory_mut() {
            memory.bytes = memory.bytes.max(64 * page_bytes as u64);
        }
    }
    options
}

fn survival(random: &mut Rng) -> Survival {
    match random.u32(0..10) {
        0 => Survival::DropAll,
        1 => Survival::KeepAll,
        2..4 => Survival::Prefix,
        _ => Survival::Random,
    }
}

#[derive(Debug)]
pub struct Machine {
    pub device: SimDevice,
    engine: EngineKind,
    background: Background,
    log: LogKind,
    /// A kind to use instead of the one that the seed picks.
    kind: Option<Kind>,
    inserter: Option<InserterKind>,
    /// True if everything lies in several directories. Their helper threads take steps in any
    /// order, so this is used only together with background threads.
    is_striped: bool,
    trace: Trace,
}

impl Machine {
    pub fn new(engine: EngineKind, seed: u64, background: Background) -> Machine {
        let device = SimDevice::new(seed);
        let is_striped = background == Background::Threads && seed % 4 == 3;
        Machine {
            device,
            engine,
            background,
            log: LogKind::Disk,
            kind: None,
            inserter: None,
            is_striped,
            trace: Trace::default(),
        }
    }

    /// Returns this machine with this inserter for all seeds, and room in the log's memory for
    /// several sessions' chunks.
    pub fn with_inserter(self, inserter: InserterKind) -> Machine {
        Machine { inserter: Some(inserter), ..self }
    }

    /// Returns this machine with this kind for all seeds.
    pub fn with_kind(self, kind: Kind) -> Machine {
        Machine { kind: Some(kind), ..self }
    }

    /// Returns this machine with a log of this kind.
    pub fn with_log(self, log: LogKind) -> Machine {
        Machine { log, is_striped: self.is_striped && !log.in_nvram(), ..self }
    }

    /// Returns this machine. For some seeds its database has log positions and transaction numbers
    /// that soon need a 33rd bit.
    pub fn perhaps_high(self, seed: u64) -> Machine {
        if begins_high(seed) { self.high(seed) } else { self }
    }

    fn high(self, seed: u64) -> Machine {
        self.open(seed).expect("a new database").close().expect("close");
        let below = 8 * Rng::with_seed(seed).u64(0..if self.log.in_nvram() { 256 } else { 4096 });
        let position = HIGH - below;
        let beginning = Beginning { position, transaction: HIGH - 5, table: 1 };
        let directory = if self.is_striped && self.kind.is_none() {
            self.striped().expect("the directories")
        } else {
            self.device.directory()
        };
        begin_at(directory.as_ref(), beginning).expect("a database that holds nothing");
        Machine { device: self.device.reopen_after_kill(), trace: Trace::default(), ..self }
    }

    /// Returns the memories that logs are in, in the order of their first use.
    fn memories(&self) -> Vec<SimNvram> {
        let paths = self.trace.regions.lock().expect("no panic").paths.clone();
        paths.iter().map(|path| self.device.nvram(path).expect("it was mapped")).collect()
    }

    /// Returns whether the machine has crashed in a step of a memory. Such a crash fails no call,
    /// and from then on only threads that wait for commits get errors.
    pub fn has_crashed_silently(&self) -> bool {
        self.log.in_nvram() && self.device.is_crashed()
    }

    /// Returns the steps taken so far.
    pub fn steps(&self) -> Steps {
        let memories = self.memories().iter().map(SimNvram::steps).collect();
        Steps { device: self.device.steps(), memories }
    }

    /// Crashes at this step. A memory that does not exist yet crashes when it reaches this step.
    pub fn crash_at(&self, point: Point) {
        match point {
            Point::Device(step) => self.device.crash_at(step),
            Point::Memory(nth, step) => {
                self.trace.regions.lock().expect("no panic").crash = Some((nth, step));
                if let Some(memory) = self.memories().get(nth) {
                    memory.crash_at(step);
                }
            }
        }
    }

    /// Crashes soon: at one of the next `device` steps of the device, or at one of the next
    /// `memory` steps of a memory.
    pub fn crash_soon(&self, random: &mut Rng, device: u64, memory: u64) {
        let steps = self.steps();
        if self.log.in_nvram() && !steps.memories.is_empty() && random.u32(0..3) > 0 {
            let nth = random.usize(..steps.memories.len());
            self.crash_at(Point::Memory(nth, steps.memories[nth] + random.u64(0..memory)));
        } else {
            self.device.crash_at(steps.device + random.u64(0..device));
        }
    }

    pub fn engine(&self) -> EngineKind {
        self.engine
    }

    /// Returns whether the engine orders two transactions that write the same key. An engine that
    /// locks keys does. The memory engine orders a transaction only after the transactions whose
    /// writes this transaction has read.
    pub fn orders_writes(&self) -> bool {
        self.engine == EngineKind::Paged
    }

    fn kind(&self, seed: u64) -> Kind {
        self.kind.unwrap_or_else(|| Kind::of(self.engine, seed))
    }

    /// Returns the lock release of a database that is opened with this seed.
    pub fn lock_release(&self, seed: u64) -> LockRelease {
        self.kind(seed).lock_release
    }

    /// Opens the database on the machine; the seed picks the options.
    pub fn open(&self, seed: u64) -> std::result::Result<Database, Error> {
        let inner =
            if self.is_striped && self.kind.is_none() { self.striped()? } else { self.device.directory() };
        let device = self.device.clone();
        let directory = Traced { inner, prefix: String::new(), trace: self.trace.clone(), device };
        let kind = self.kind(seed);
        let mut options = options(seed, kind, self.background);
        let mut settings = settings(seed, kind);
        if let Some(inserter) = self.inserter {
            settings.files.ring_bytes = 128 << 10;
            options.advanced.log.run_ahead_bytes = 64 << 10;
            settings.files.inserter = inserter_design(inserter, [512, 2048, 8192][seed as usize % 3]);
            // The transactions of all clients are open at once, and the log must not refuse any of
            // them.
            settings.memory.bytes = 1 << 20;
        }
        options.advanced.log.medium = settings.medium(self.log);
        Database::open_in(Arc::new(directory), with_pages_of(options, seed))
    }

    /// Returns a striped directory over directories of one device, so that they crash together.
    fn striped(&self) -> Result<Arc<dyn Directory>> {
        let inside = |nth: usize| self.device.directory().subdirectory(&nth.to_string());
        let directories = (0..2).map(inside).collect::<Result<_>>()?;
        Ok(Arc::new(StripedDirectory::open(directories, 8 << 10)?))
    }

    /// Returns the machine after a crash that kept a prefix of the un-synced bytes.
    pub fn restart_cut(&self, random: &mut Rng) -> Machine {
        self.restart_with(random.u64(..), Survival::Prefix)
    }

    /// Returns the machine after a crash. `survival` and the seed decide what the crash leaves.
    pub fn restart_with(&self, seed: u64, survival: Survival) -> Machine {
        let device = self.device.reopen_with(seed, survival);
        self.trace.regions.lock().expect("no panic").crash = None;
        Machine { device, trace: self.trace.clone(), ..*self }
    }

    /// Returns the machine after a crash, or sometimes after only a kill of the process.
    pub fn restart(&self, random: &mut Rng) -> Machine {
        // A kill leaves un-synced bytes to the next process, which builds on them.
        let device = match random.u32(0..8) {
            0 => self.device.reopen_after_kill(),
            _ => self.device.reopen_with(random.u64(..), survival(random)),
        };
        self.trace.say("crash".to_owned());
        self.trace.regions.lock().expect("no panic").crash = None;
        Machine { device, trace: self.trace.clone(), ..*self }
    }

    /// Returns every change that the device was asked to make, in order, over all restarts. Reads
    /// are left out: they change nothing, and their order varies, because redo reads the log and
    /// the pages on two threads.
    pub fn changes(&self) -> Vec<String> {
        self.trace.lines.lock().expect("no panic").clone()
    }
}

/// Steps taken, of the device and of the memories that logs are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    pub device: u64,
    pub memories: Vec<u64>,
}

/// A step to crash at: of the device, or of one of the memories, whose steps are write-backs and
/// fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Device(u64),
    Memory(usize, u64),
}

impl Steps {
    pub fn total(&self) -> u64 {
        self.device + self.memories.iter().sum::<u64>()
    }

    /// Returns the step of this number, if the device's steps are counted first and the memories'
    /// after them.
    pub fn point(&self, step: u64) -> Point {
        let Some(mut step) = step.checked_sub(self.device) else { return Point::Device(step) };
        for (nth, steps) in self.memories.iter().enumerate() {
            match step.checked_sub(*steps) {
                None => return Point::Memory(nth, step),
                Some(rest) => step = rest,
            }
        }
        Point::Device(self.device + step)
    }
}

/// The memories that logs are in.
#[derive(Debug, Default)]
struct Regions {
    paths: Vec<String>,
    /// The memory that is to crash, and the step.
    crash: Option<(usize, u64)>,
}

#[derive(Debug, Clone, Default)]
struct Trace {
    lines: Arc<Mutex<Vec<String>>>,
    regions: Arc<Mutex<Regions>>,
}

impl Trace {
    fn say(&self, line: String) {
        self.lines.lock().expect("no panic").push(line);
    }

    /// Notes that a memory was mapped, and plans its crash if it is the one to crash.
    fn mapped(&self, path: String, memory: &SimNvram) {
        let mut regions = self.regions.lock().expect("no panic");
        let nth = regions.paths.iter().position(|known| *known == path).unwrap_or_else(|| {
            regions.paths.push(path);
            regions.paths.len() - 1
        });
        if let Some((crashing, step)) = regions.crash
            && crashing == nth
        {
            memory.crash_at(step);
        }
    }
}

#[derive(Debug)]
struct Traced<T: ?Sized> {
    prefix: String,
    trace: Trace,
    device: SimDevice,
    inner: Arc<T>,
}

impl Traced<dyn Directory> {
    fn file(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        let prefix = format!("{}{name}", self.prefix);
        Arc::new(Traced { prefix, trace: self.trace.clone(), device: self.device.clone(), inner: file })
    }

    fn folder(&self, name: &str, folder: Arc<dyn Directory>) -> Arc<dyn Directory> {
        let prefix = format!("{}{name}/", self.prefix);
        Arc::new(Traced { prefix, trace: self.trace.clone(), device: self.device.clone(), inner: folder })
    }

    fn say(&self, call: &str) {
        self.trace.say(format!("{}: {call}", self.prefix));
    }
}

impl Directory for Traced<dyn Directory> {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        self.say(&format!("open {name} {create:?}"));
        Ok(self.file(name, self.inner.open(name, create, method)?))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        Ok(self.file(name, self.inner.open_read_only(name)?))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.say(&format!("rename {from} to {to}"));
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.say(&format!("remove {name}"));
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.say("sync");
        self.inner.sync()
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock()
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        self.say(&format!("subdirectory {name}"));
        Ok(self.folder(name, self.inner.subdirectory(name)?))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        Ok(self.inner.existing_subdirectory(name)?.map(|folder| self.folder(name, folder)))
    }

    fn nvram(&self, name: &str, bytes: u64, want: Persistence) -> Result<Arc<NvRegion>> {
        self.say(&format!("map {name}"));
        let region = self.inner.nvram(name, bytes, want)?;
        let path = format!("{}{name}", self.prefix);
        let memory = self.device.nvram(&path).expect("it was mapped");
        self.trace.mapped(path, &memory);
        Ok(region)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl Traced<dyn File> {
    fn say(&self, call: &str) {
        self.trace.say(format!("{}: {call}", self.prefix));
    }
}

impl File for Traced<dyn File> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.say(&format!("write {length} at {offset} {mode:?}"));
        self.inner.write_at(parts, offset, mode)
    }

    fn sync(&self) -> Result<()> {
        self.say("sync");
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.say(&format!("prepare {from} to {to}"));
        self.inner.prepare(from, to)
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.say(&format!("truncate to {length}"));
        self.inner.truncate(length)
    }

    fn drop_cache(&self) -> Result<()> {
        self.inner.drop_cache()
    }

    fn method(&self) -> Method {
        self.inner.method()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
}
