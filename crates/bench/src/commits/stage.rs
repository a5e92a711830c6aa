//! Folders of logs and databases during a measurement of commits, and the options of logs.
//!
//! 1. Each folder must be new or empty before the measurement, and is removed or emptied
//!    afterwards.
//! 2. A folder in memory that `on_device` returns exists until the stage is dropped or `forget`
//!    removes the folder. Until then, a log in this folder can be opened again with its contents.
//!    The stage keeps no folder in memory that `anew` returns.

use super::case::Case;
use super::figures::nvram::BYTES_PER_ENTRY;
use crate::grid::flags::inserter;
use crate::host::device::{Device, MethodName};
use crate::host::folder::{self, FolderState};
use crate::host::raw::Raw;
use crate::host::stripes::Stripes;
use katydid_command::failure::Result;
use katydid_device::{DelayedDirectory, Directory, FileDirectory, MemoryDirectory, Waiting};
use katydid_wal::{
    FileOptions, Group, Heuristics, LogKind, MediumSettings, NvramOptions, Options, Persistence, SyncDesign,
    SyncKind,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Options of logs that do not depend on the case.
#[derive(Debug, Clone, Copy)]
pub struct Tuned {
    pub ring_bytes: usize,
    pub segment_bytes: u64,
    pub spare_segments: usize,
    pub slots: usize,
    pub hop_bytes: u64,
    pub chunk_bytes: usize,
    pub depth: u32,
    pub group: Group,
    /// Options of the memory of logs in NVRAM.
    pub nvram: NvramOptions,
    /// Way to wait out a device's delay.
    pub waiting: Waiting,
}

/// Subject of a raw measurement: a device and a delay and, for NVRAM, the bytes of a record.
type Bare = (Device, Duration, Option<u64>);

/// The folders of a measurement, as the head of this file describes.
#[derive(Debug)]
pub struct Stage {
    path: PathBuf,
    before: FolderState,
    files: Arc<dyn Directory>,
    /// Folders in memory by name. No other lock is taken under this mutex.
    memory: Mutex<HashMap<String, MemoryDirectory>>,
    /// Folder of logs in NVRAM, with its state before the measurement.
    nvram: (PathBuf, FolderState),
    /// Folders over which the log's files are striped; `None` if the files lie in the folder.
    stripes: Option<Stripes>,
    device: Device,
    /// I/O method of the current rounds.
    method: MethodName,
    pub tuned: Tuned,
    /// Raw measurements of the current round.
    raw: Vec<(Bare, Raw)>,
    round: Option<usize>,
}

impl Stage {
    /// Makes a stage in the folder `path`. All given folders must be new or empty. The folders of
    /// stripes may lie inside `path`.
    pub fn new(
        path: PathBuf,
        nvram: PathBuf,
        stripes: &[PathBuf],
        device: Device,
        tuned: Tuned,
    ) -> Result<Stage> {
        let before = folder::new_or_empty(&path, "--dir")?;
        let nvram_before = folder::new_or_empty(&nvram, "--nvram-dir")?;
        let nvram = (nvram, nvram_before);
        let files: Arc<dyn Directory> = Arc::new(FileDirectory::open(&path)?);
        let stripes = Stripes::take(stripes, &path)?;
        let memory = Mutex::default();
        let method = MethodName::Direct;
        Ok(Stage {
            path,
            before,
            files,
            memory,
            nvram,
            stripes,
            device,
            method,
            tuned,
            raw: Vec::new(),
            round: None,
        })
    }

    /// Restores all folders to their state before the measurement.
    pub fn remove(self) -> Result<()> {
        let Stage { path, before, nvram: (nvram, nvram_before), stripes, .. } = &self;
        let removed = stripes.as_ref().map_or(Ok(()), Stripes::remove).and(folder::remove(path, *before));
        match folder::look(nvram)? {
            FolderState::Nothing => removed,
            _ => removed.and(folder::remove(nvram, *nvram_before)),
        }
    }

    /// The files of the folder, independent of the log's device.
    pub fn files(&self) -> &Arc<dyn Directory> {
        &self.files
    }

    /// Device of the log of a case.
    fn device_of(&self, case: &Case) -> Device {
        case.device.unwrap_or(self.device)
    }

    fn in_memory(&self) -> MutexGuard<'_, HashMap<String, MemoryDirectory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder `name` on the device of the case's log, with the case's delay added.
    pub fn on_device(&self, name: &str, case: &Case) -> Result<Arc<dyn Directory>> {
        let folder = match (self.device_of(case), &self.stripes) {
            (Device::File, Some(stripes)) => stripes.directory().subdirectory(name)?,
            (Device::File, None) => self.files.subdirectory(name)?,
            (Device::Memory, _) => Arc::new(self.in_memory().entry(name.to_owned()).or_default().clone()),
        };
        Ok(Arc::new(DelayedDirectory::new(folder, case.delay, self.tuned.waiting)))
    }

    /// The folder `name` on the device of the case's log, emptied.
    pub fn anew(&self, name: &str, case: &Case) -> Result<Arc<dyn Directory>> {
        let directory = match self.device_of(case) {
            Device::Memory => Arc::new(MemoryDirectory::new()),
            Device::File => {
                let path = self.path.join(name);
                if folder::look(&path)? != FolderState::Nothing {
                    folder::remove(&path, FolderState::Nothing)?;
                }
                match &self.stripes {
                    Some(stripes) => {
                        stripes.forget(name)?;
                        stripes.directory().subdirectory(name)?
                    }
                    None => self.files.subdirectory(name)?,
                }
            }
        };
        Ok(Arc::new(DelayedDirectory::new(directory, case.delay, self.tuned.waiting)))
    }

    /// Name of the folder that is shared by all cases with the same kind, size and device of log.
    pub fn name_of(&self, what: &str, case: &Case) -> String {
        match (case.log, case.entries) {
            (LogKind::Disk, _) => format!("{what}-{}", self.device_of(case).name()),
            (kind, None) => format!("{what}-{kind}"),
            (kind, Some(entries)) => format!("{what}-{kind}-{entries}"),
        }
    }

    /// The folder `name` for a case's log: on the log's device, or in NVRAM.
    pub fn for_log(&self, name: &str, case: &Case) -> Result<Arc<dyn Directory>> {
        match case.log.in_nvram() {
            false => self.on_device(name, case),
            true => Ok(FileDirectory::open(&self.nvram.0)?.subdirectory(name)?),
        }
    }

    /// Removes everything called `name`: files, memory, NVRAM and stripes.
    pub fn forget(&self, name: &str) -> Result<()> {
        self.in_memory().remove(name);
        for path in [self.path.join(name), self.nvram.0.join(name)] {
            if folder::look(&path)? != FolderState::Nothing {
                folder::remove(&path, FolderState::Nothing)?;
            }
        }
        if let Some(stripes) = &self.stripes {
            stripes.forget(name)?;
        }
        Ok(())
    }

    /// Options of the log of a case.
    pub fn options(&self, case: &Case) -> Options {
        let tuned = &self.tuned;
        let sync = match case.sync {
            SyncKind::Adaptive => SyncDesign::adaptive(tuned.depth),
            SyncKind::Pipelined => SyncDesign::pipelined(case.group.unwrap_or(tuned.group)),
            SyncKind::Inline => SyncDesign::Inline { group: case.group.unwrap_or(tuned.group) },
            SyncKind::Aggregated => SyncDesign::Aggregated { flush_slots: case.slots.unwrap_or_default() },
            other => other.into(),
        };
        let (ring_bytes, run_ahead_bytes) = match case.ring {
            Some(ring) => (ring, ring / 2),
            None => (tuned.ring_bytes, tuned.ring_bytes / 4),
        };
        let slots = case.slots.map_or(tuned.slots, |slots| slots as usize);
        let heuristics = case.without.map_or(Heuristics::ALL, |off| Heuristics::ALL.without(off));
        let files = FileOptions {
            inserter: inserter(case.inserter, slots, tuned.hop_bytes, tuned.chunk_bytes),
            sync: sync.with_heuristics(heuristics),
            ring_bytes,
            segment_bytes: tuned.segment_bytes,
            // Use segments of full size from the start, as in a log that has grown.
            first_segment_bytes: tuned.segment_bytes,
            spare_segments: tuned.spare_segments,
            write_bytes_max: case.io_unit.unwrap_or(FileOptions::default().write_bytes_max),
        };
        let settings = MediumSettings { files, memory: self.nvram_options(case), entries: 0 };
        Options {
            medium: settings.medium(case.log),
            method: self.method.method(),
            run_ahead_bytes,
            ..Options::default()
        }
    }

    /// Options of NVRAM with the case's delay added. Real NVRAM is used only if no delay is added.
    fn nvram_options(&self, case: &Case) -> NvramOptions {
        let mut nvram = self.tuned.nvram;
        nvram.bytes = case.entries.map_or(nvram.bytes, |entries| entries * BYTES_PER_ENTRY);
        if !case.delay.is_zero() {
            nvram.want = Persistence::Emulated { latency: case.delay };
        }
        nvram
    }

    /// Starts new rounds, with this I/O method and device.
    pub fn begin(&mut self, method: MethodName, device: Device) {
        (self.method, self.device) = (method, device);
        self.round = None;
    }

    /// Rates of the raw device, or of raw NVRAM for the log alone in NVRAM. They are measured once
    /// in each round for each device, delay and size of a record in NVRAM.
    pub fn raw(&mut self, round: usize, case: &Case, time: Duration) -> Result<Raw> {
        if self.round != Some(round) {
            self.round = Some(round);
            self.raw.clear();
        }
        let of = (self.device_of(case), case.delay, case.record_in_nvram());
        if let Some((_, raw)) = self.raw.iter().find(|(known, _)| *known == of) {
            return Ok(*raw);
        }
        let raw = match of.2 {
            None => Raw::measure(self.on_device("raw", case)?.as_ref(), self.method.method(), time)?,
            Some(bytes) => {
                let directory = FileDirectory::open(&self.nvram.0)?.subdirectory("raw")?;
                Raw::of_nvram(directory.as_ref(), self.nvram_options(case).want, bytes, time)?
            }
        };
        self.raw.push((of, raw));
        Ok(raw)
    }
}
