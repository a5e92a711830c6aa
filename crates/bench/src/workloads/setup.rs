//! Flags of all workloads, and the database that they open.
//!
//! 1. A folder that is neither empty nor a database is refused and not changed.
//! 2. With the log in memory, no database remains. The folder must be new or empty before the run,
//!    and is restored afterwards.

use crate::grid::flags::Tuning;
use crate::host::device::{Device, MethodName};
use crate::host::folder::{self, FolderState};
use crate::host::limit::Limit;
use crate::host::machine::Machine;
use crate::host::split::Split;
use clap::Args;
use katydid::{
    AdvancedOptions, Contention, Database, Durability, EngineKind, EngineStat, LockRelease, OldVersions,
    Options, PagedOptions,
};
use katydid_command::bytes;
use katydid_command::database::{self, EngineFlags, MemoryFlags};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::{name_of, seconds, word};
use katydid_command::log_flags::LogFlags;
use katydid_command::progress::Progress;
use katydid_device::{Directory, FileDirectory, MemoryDirectory};
use katydid_observe::Socket;
use katydid_wal::{Form, Heuristic, Heuristics, InserterKind, MediumSettings, SyncDesign, SyncKind};
use katydid_workload::drive::LatencyFrom;
use katydid_workload::drive::Plan;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Engines that are measured.
#[derive(Debug, Clone, Copy)]
enum Engines {
    One(EngineKind),
    All,
}

fn engines(text: &str) -> std::result::Result<Engines, String> {
    match text {
        "all" => Ok(Engines::All),
        one => word(one).map(Engines::One),
    }
}

/// Flags of every workload.
#[derive(Debug, Clone, Args)]
pub struct Setup {
    /// Folder to work in, which must be new, empty or a database; the command creates it if it is
    /// missing
    #[arg(long, value_name = "DIR", default_value = "katydid-bench")]
    pub dir: PathBuf,
    /// Number of client threads [default: the workload file's, else 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: Option<u32>,
    /// Seconds of the run [default: 10, if the run has no other limit]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Number of transactions of the run
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Transactions in flight of each thread: with 1 a thread blocks in each commit, with more it
    /// uses callbacks
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub in_flight: u32,
    /// Maximum transactions per second of all threads together [default: no limit]
    ///
    /// With this flag, a latency counts from the time at which the transaction was due, unless the
    /// YCSB property measurement.interval is op.
    #[arg(long, value_name = "RATE")]
    pub target: Option<f64>,
    /// Engine that keeps the data: paged, memory or all [default: the database's engine; paged for
    /// a new database]
    ///
    /// With all, the engines run one after the other, each in its own folder inside --dir.
    #[arg(long, value_name = "KIND", value_parser = engines)]
    engine: Option<Engines>,
    #[command(flatten)]
    memory_flags: MemoryFlags,
    #[command(flatten)]
    log: LogFlags,
    /// Inserter, which puts records into the log: mutex, consolidated, decoupled, hybrid,
    /// delegated, grasshopper, bitmap, chunked or marks
    #[arg(long, value_name = "KIND", default_value = "marks", value_parser = word::<InserterKind>)]
    pub inserter: InserterKind,
    #[command(flatten)]
    pub tuning: Tuning,
    /// Sync protocol, which makes the log durable: adaptive, pipelined, aggregated, grouped,
    /// slotted, per-commit or inline
    #[arg(long, value_name = "KIND", default_value = "adaptive", value_parser = word::<SyncKind>)]
    pub sync: SyncKind,
    /// Ablation: run with adaptive or pipelined without one of its heuristics
    ///
    /// The heuristics are delay, serving-delay, backoff, yield, many-committers and slow-hand-over.
    #[arg(long, value_name = "HEURISTIC", value_parser = word::<Heuristic>)]
    pub without: Option<Heuristic>,
    /// Durability at which a commit is acknowledged: buffered, written or durable
    ///
    /// buffered: in the memory of the process. written: handed to the operating system. durable: on
    /// the device.
    #[arg(long, value_name = "LEVEL", default_value = "durable", value_parser = word::<Durability>)]
    pub durability: Durability,
    /// Time at which a commit releases its locks: early or after-durable
    ///
    /// early: when the commit record is in the log. after-durable: when the commit has reached
    /// --durability.
    #[arg(long, value_name = "WHEN", default_value = "early", value_parser = word::<LockRelease>)]
    pub lock_release: LockRelease,
    /// Memory engine: rule by which transactions check their reads and pause: at-validation or
    /// early
    ///
    /// at-validation: a transaction checks once, after it has installed its versions, and pauses if
    /// the check fails. early: a transaction also checks before it installs its versions, and
    /// pauses after every conflict.
    #[arg(long, value_name = "RULE", default_value = "at-validation", value_parser = word::<Contention>)]
    pub contention: Contention,
    /// Memory engine: rule by which replaced versions are kept: until-unread or until-durable
    ///
    /// until-unread: until no transaction can read the version. until-durable: also until all log
    /// records with earlier timestamps than the replacement are durable.
    #[arg(long, value_name = "RULE", default_value = "until-unread", value_parser = word::<OldVersions>)]
    pub old_versions: OldVersions,
    /// Paged engine: bytes of pages kept in memory
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes::parse)]
    pub cache: u64,
    /// Bytes of log after which the database takes a checkpoint [default: 256MiB]
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub checkpoint: Option<u64>,
    /// Device of the log
    #[arg(long, value_enum, default_value = "file")]
    pub device: Device,
    /// I/O method of the log
    #[arg(long, value_enum, default_value = "direct")]
    pub method: MethodName,
    /// Paged engine: I/O method of the pages
    #[arg(long, value_enum, default_value = "buffered")]
    pub page_method: MethodName,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Write all results to this file, as one JSON object
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the latencies of each second to this file, as an HdrHistogram log
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Before the run, drop the tables that an earlier run left
    #[arg(long)]
    pub fresh: bool,
    /// Do not check the data after the run
    #[arg(long)]
    pub no_check: bool,
    /// Do not measure the raw device before the run
    #[arg(long)]
    pub no_limit: bool,
}

/// Number of threads if neither the command line nor a workload file gives it.
pub const THREADS: u32 = 16;

/// Time of each of the two measurements of the raw device.
const LIMIT_TIME: Duration = Duration::from_millis(500);

/// An open database, with the facts that the report needs.
pub struct Opened {
    pub database: Database,
    /// Socket through which other processes can read the database.
    pub socket: Option<Socket>,
    /// Form of a log's NVRAM.
    pub nvram: Option<Form>,
    pub limit: Option<Limit>,
    pub machine: Machine,
    found: FolderState,
}

/// Adds the engine's name to the name of a file.
fn with_engine(file: &Path, engine: EngineKind) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension =
        file.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    file.with_file_name(format!("{stem}-{engine}{extension}"))
}

impl Setup {
    /// One setup for each engine to measure.
    pub fn each(&self) -> Vec<Setup> {
        let of = |engine: EngineKind| Setup {
            dir: self.dir.join(engine.to_string()),
            json: self.json.as_ref().map(|file| with_engine(file, engine)),
            hdr: self.hdr.as_ref().map(|file| with_engine(file, engine)),
            engine: Some(Engines::One(engine)),
            ..self.clone()
        };
        match self.engine {
            Some(Engines::All) => [EngineKind::Paged, EngineKind::Memory].map(of).to_vec(),
            Some(Engines::One(_)) | None => vec![self.clone()],
        }
    }

    /// Opens the database, and measures the raw device.
    pub fn open(&self) -> Result<Opened> {
        let found = folder::look(&self.dir)?;
        let cache_bytes = usize::try_from(self.cache).unwrap_or(usize::MAX);
        let mut options = Options {
            engine: PagedOptions {
                cache_bytes,
                page_method: self.page_method.method(),
                ..PagedOptions::default()
            }
            .into(),
            durability: self.durability,
            advanced: AdvancedOptions {
                lock_release: self.lock_release,
                contention: self.contention,
                old_versions: self.old_versions,
                ..AdvancedOptions::default()
            },
            ..Options::default()
        };
        let engine = match self.engine {
            Some(Engines::One(engine)) => Some(engine),
            Some(Engines::All) | None => None,
        };
        options = EngineFlags { engine, memory_flags: self.memory_flags, log: self.log }
            .apply(&self.dir, options)?;
        let mut settings = self.log.settings(MediumSettings::default())?;
        settings.files.inserter = self.tuning.design(self.inserter);
        settings.files.sync = self.sync_design()?;
        options.advanced.log.medium = settings.medium(self.log.kind.unwrap_or_default());
        options.advanced.log.method = self.method.method();
        let if_found = self.log.kind.is_none().then_some(settings);
        if let Some(bytes) = self.checkpoint {
            options.advanced.checkpoint_bytes = bytes;
            options.advanced.log_soft_bytes = options.advanced.log_soft_bytes.max(bytes);
            options.advanced.log_hard_bytes =
                options.advanced.log_hard_bytes.max(options.advanced.log_soft_bytes);
        }
        if self.device == Device::Memory && found == FolderState::Something {
            return Err(Failure::failed(format_args!(
                "{} is not empty; with the log in memory the folder must be, since no database is left in it",
                self.dir.display()
            )));
        }
        if found == FolderState::Something && !database::holds_database(&self.dir) {
            return Err(Failure::failed(format_args!(
                "{} is not empty and not a database: choose another --dir",
                self.dir.display()
            )));
        }
        let database = match self.device {
            Device::File => database::open(&self.dir, options, if_found)?,
            Device::Memory => {
                let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(&self.dir)?);
                let directory = Arc::new(Split::new(files, Arc::new(MemoryDirectory::new())));
                database::open_showing(options, if_found, |options| {
                    Database::open_in(directory.clone(), options)
                })?
            }
        };
        let socket = match self.device {
            Device::File => database::listen(&database, &self.dir),
            Device::Memory => None,
        };
        let limit = if self.no_limit { None } else { Some(self.measure_limit()?) };
        let nvram = database.stat()?.log.nvram;
        Ok(Opened { database, socket, nvram, limit, machine: Machine::read(&self.dir), found })
    }

    /// The sync protocol, without the heuristic that is switched off.
    fn sync_design(&self) -> Result<SyncDesign> {
        match self.without {
            None => Ok(self.sync.into()),
            Some(off) if self.sync.heuristics().contains(&off) => {
                Ok(SyncDesign::from(self.sync).with_heuristics(Heuristics::ALL.without(off)))
            }
            Some(off) => Err(Failure::usage(format_args!("--without {off}: {} does not use it", self.sync))),
        }
    }

    fn measure_limit(&self) -> Result<Limit> {
        let mut progress = Progress::new("measuring the raw device");
        progress.show(None, String::new);
        Limit::measure(&self.dir, self.method.method(), LIMIT_TIME)
    }

    /// Plan of a run. The workload may change it.
    pub fn plan(&self, threads: u32) -> Plan {
        Plan {
            threads: threads as usize,
            in_flight: self.in_flight as usize,
            transactions: self.operations,
            time: self.seconds.map(Duration::from_secs_f64),
            target: self.target,
            seed: self.seed,
            intervals: self.hdr.as_ref().map(|_| Duration::from_secs(1)),
            ..Plan::default()
        }
    }

    /// The options for the report.
    pub fn options(&self, plan: &Plan, database: &Database) -> Vec<(&'static str, Value)> {
        let defaults = Options::default();
        let mut options = vec![
            ("durability", self.durability.to_string().into()),
            ("threads", plan.threads.into()),
            ("in_flight", plan.in_flight.into()),
            ("seconds", plan.time.map(|time| time.as_secs_f64()).into()),
            ("operations", plan.transactions.into()),
            ("target", plan.target.into()),
            // This option has an effect only if a rate is given.
            ("latency_from", plan.target.map(|_| latency_from(plan.latency_from)).into()),
            ("inserter", self.inserter.to_string().into()),
            ("slots", self.tuning.slots.into()),
            ("hop_bytes", self.tuning.hop_bytes.into()),
            ("chunk_bytes", self.tuning.chunk_bytes.into()),
            ("sync", self.sync.to_string().into()),
            ("without", self.without.map(|heuristic| heuristic.to_string()).into()),
            ("lock_release", self.lock_release.to_string().into()),
            ("checkpoint_bytes", self.checkpoint.unwrap_or(defaults.advanced.checkpoint_bytes).into()),
            ("device", self.device.name().into()),
            ("method", name_of(self.method).into()),
            ("seed", self.seed.into()),
        ];
        let Ok(stat) = database.stat() else { return options };
        options.push(("log", stat.log.kind.to_string().into()));
        if let Some(form) = stat.log.nvram {
            options.push(("nvram_latency_us", (form.latency().as_nanos() as f64 / 1e3).into()));
        }
        match &stat.engine {
            EngineStat::Paged(paged) => options.extend([
                ("engine", Value::from(EngineKind::Paged.to_string())),
                ("cache_bytes", self.cache.into()),
                ("page_method", paged.page_method.name().into()),
                ("page_bytes", paged.page_bytes.into()),
            ]),
            EngineStat::Memory(memory) => options.extend([
                ("engine", Value::from(EngineKind::Memory.to_string())),
                ("streams", stat.log.streams.len().into()),
                ("dependences", self.memory_flags.dependences.to_string().into()),
                ("contention", self.contention.to_string().into()),
                ("old_versions", self.old_versions.to_string().into()),
                ("memory_bytes", memory.limit_bytes.into()),
            ]),
            // A newer engine may report more than this program knows.
            _ => {}
        }
        options
    }
}

/// Word for the time from which latencies are measured.
pub fn latency_from(from: LatencyFrom) -> &'static str {
    match from {
        LatencyFrom::Intended => "intended start",
        LatencyFrom::Actual => "actual start",
    }
}

impl Opened {
    /// Closes the database. Returns a description of the place of its data.
    pub fn close(mut self, setup: &Setup) -> Result<String> {
        drop(self.socket.take());
        self.database.close()?;
        match setup.device {
            Device::File => Ok(format!("{} (katydid stat --dir {0})", setup.dir.display())),
            Device::Memory => {
                drop(self.database);
                folder::remove(&setup.dir, self.found)?;
                Ok("none left: the log was in memory".to_owned())
            }
        }
    }
}
