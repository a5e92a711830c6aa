//! A device in memory whose bytes can be copied, damaged and put back, and that counts the calls on
//! it.
//!
//! Everything written counts as durable, because these tests are about damage that an unreliable
//! device does to kept bytes, and not about crashes.
//!
//! One latch guards all names, and a latch for each file guards the file's bytes. A thread takes
//! the latch of the names first.

use katydid_device::nvram::{NvRegion, Persistence};
use katydid_device::{Cause, Create, Directory, DirectoryLock, Error, File, Method, Result, Verb, WriteMode};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// All files by path, and the words of all regions of non-volatile memory as bytes, by path.
#[derive(Clone, Default)]
pub struct DiskImage {
    pub files: BTreeMap<String, Arc<Vec<u8>>>,
    pub regions: BTreeMap<String, Arc<Vec<u8>>>,
}

impl DiskImage {
    /// Returns the number of bytes in all files and regions.
    pub fn bytes(&self) -> usize {
        self.files.values().chain(self.regions.values()).map(|bytes| bytes.len()).sum()
    }
}

#[derive(Debug, Default)]
struct Bytes(Mutex<Arc<Vec<u8>>>);

#[derive(Debug, Default)]
struct State {
    files: Mutex<BTreeMap<String, Arc<Bytes>>>,
    regions: Mutex<BTreeMap<String, Arc<NvRegion>>>,
    folders: Mutex<Vec<String>>,
    /// Calls so far; a statistic, hence relaxed.
    calls: AtomicU64,
    /// Number of calls that are answered. All later calls fail, so that a loop of calls ends.
    calls_max: u64,
}

/// The device, or one directory of it.
#[derive(Clone, Debug)]
pub struct Disk {
    state: Arc<State>,
    /// Path of the directory, with a slash at its end unless it is the root.
    prefix: String,
}

impl Disk {
    /// Makes a device with these files. Every call after the first `calls_max` calls fails.
    pub fn new(image: &DiskImage, calls_max: u64) -> Disk {
        let state = State { calls_max, ..State::default() };
        for (path, bytes) in &image.files {
            state.files.lock().unwrap().insert(path.clone(), Arc::new(Bytes(Mutex::new(bytes.clone()))));
        }
        for (path, bytes) in &image.regions {
            let region = NvRegion::memory(bytes.len() as u64);
            for (at, word) in bytes.chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                region.word(at as u64 * 8).store(word, Ordering::Relaxed);
            }
            state.regions.lock().unwrap().insert(path.clone(), Arc::new(region));
        }
        let paths = image.files.keys().chain(image.regions.keys());
        let folders = paths.filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder.to_owned());
        *state.folders.lock().unwrap() = folders.collect();
        Disk { state: Arc::new(state), prefix: String::new() }
    }

    /// Returns the present files of the device.
    pub fn image(&self) -> DiskImage {
        let files = self.state.files.lock().unwrap();
        let files =
            files.iter().map(|(path, bytes)| (path.clone(), bytes.0.lock().unwrap().clone())).collect();
        let regions = self.state.regions.lock().unwrap();
        let bytes_of = |region: &NvRegion| {
            let words = (0..region.len() / 8).map(|at| region.word(at * 8).load(Ordering::Relaxed));
            Arc::new(words.flat_map(u64::to_le_bytes).collect())
        };
        let regions = regions.iter().map(|(path, region)| (path.clone(), bytes_of(region))).collect();
        DiskImage { files, regions }
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// Returns whether there were more calls than are answered.
    pub fn is_over(&self) -> bool {
        self.calls() > self.state.calls_max
    }

    fn call(&self, verb: Verb, subject: &str) -> Result<String> {
        call(&self.state, verb, subject)?;
        Ok(format!("{}{subject}", self.prefix))
    }

    fn open_file(&self, path: String, bytes: Arc<Bytes>, method: Method, read_only: bool) -> Arc<dyn File> {
        Arc::new(Opened { state: self.state.clone(), path, bytes, method, read_only })
    }
}

fn call(state: &State, verb: Verb, subject: &str) -> Result<()> {
    if state.calls.fetch_add(1, Ordering::Relaxed) < state.calls_max {
        return Ok(());
    }
    Err(Error::from_io(verb, subject, std::io::Error::other("more calls than any opening needs")))
}

/// The lock of a device that no other process opens.
#[derive(Debug)]
struct NoLock;

impl DirectoryLock for NoLock {}

impl Directory for Disk {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        let path = self.call(Verb::Open, name)?;
        let mut files = self.state.files.lock().unwrap();
        let bytes = match (files.get(&path), create) {
            (Some(_), Create::New) => return Err(Error::new(Verb::Open, path, Cause::AlreadyExists)),
            (Some(bytes), _) => bytes.clone(),
            (None, Create::Never) => return Err(Error::new(Verb::Open, path, Cause::NotFound)),
            (None, _) => files.entry(path.clone()).or_default().clone(),
        };
        drop(files);
        Ok(self.open_file(path, bytes, method, false))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.call(Verb::Open, name)?;
        let bytes = self.state.files.lock().unwrap().get(&path).cloned();
        let bytes = bytes.ok_or_else(|| Error::new(Verb::Open, path.clone(), Cause::NotFound))?;
        Ok(self.open_file(path, bytes, Method::Buffered, true))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.call(Verb::List, "")?;
        let of = |path: &String| {
            path.strip_prefix(&self.prefix).filter(|name| !name.contains('/')).map(str::to_owned)
        };
        let mut names: Vec<String> = self.state.files.lock().unwrap().keys().filter_map(of).collect();
        names.extend(self.state.regions.lock().unwrap().keys().filter_map(of));
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.call(Verb::Rename, from)?, format!("{}{to}", self.prefix));
        let mut files = self.state.files.lock().unwrap();
        let bytes = files.remove(&from).ok_or_else(|| Error::new(Verb::Rename, from, Cause::NotFound))?;
        files.insert(to, bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.call(Verb::Remove, name)?;
        let file = self.state.files.lock().unwrap().remove(&path).is_some();
        let region = self.state.regions.lock().unwrap().remove(&path).is_some();
        if file || region { Ok(()) } else { Err(Error::new(Verb::Remove, path, Cause::NotFound)) }
    }

    fn sync(&self) -> Result<()> {
        self.call(Verb::SyncDirectory, "").map(|_| ())
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        self.call(Verb::Lock, "")?;
        Ok(Box::new(NoLock))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        let path = self.call(Verb::Open, name)?;
        self.state.folders.lock().unwrap().push(path.clone());
        Ok(Arc::new(Disk { state: self.state.clone(), prefix: path + "/" }))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        let path = self.call(Verb::Open, name)?;
        let folders = self.state.folders.lock().unwrap();
        let inside = format!("{path}/");
        if !folders.iter().any(|folder| *folder == path || folder.starts_with(&inside)) {
            return Ok(None);
        }
        Ok(Some(Arc::new(Disk { state: self.state.clone(), prefix: inside })))
    }

    fn nvram(&self, name: &str, bytes: u64, _want: Persistence) -> Result<Arc<NvRegion>> {
        let path = self.call(Verb::Map, name)?;
        let mut regions = self.state.regions.lock().unwrap();
        let region = regions.entry(path.clone()).or_insert_with(|| Arc::new(NvRegion::memory(bytes))).clone();
        if region.len() != bytes {
            let fault = katydid_device::NvramFault::Length { expected: bytes, found: region.len() };
            return Err(Error::new(Verb::Map, path, Cause::Nvram(fault)));
        }
        Ok(region)
    }

    fn describe(&self) -> String {
        format!("a damaged device: {}", self.prefix)
    }
}

#[derive(Debug)]
struct Opened {
    state: Arc<State>,
    path: String,
    bytes: Arc<Bytes>,
    method: Method,
    read_only: bool,
}

impl Opened {
    fn call(&self, verb: Verb) -> Result<()> {
        if self.read_only && matches!(verb, Verb::Write | Verb::Prepare) {
            return Err(Error::from_io(verb, &self.path, std::io::ErrorKind::PermissionDenied.into()));
        }
        call(&self.state, verb, &self.path)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        change(Arc::make_mut(&mut self.bytes.0.lock().unwrap()))
    }

    fn bytes(&self) -> Arc<Vec<u8>> {
        self.bytes.0.lock().unwrap().clone()
    }
}

/// More bytes than any file of these tests has. A call that asks for more bytes has trusted a
/// length in damaged bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

impl File for Opened {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.call(Verb::Read)?;
        let bytes = self.bytes();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, _mode: WriteMode) -> Result<()> {
        self.call(Verb::Write)?;
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if offset.checked_add(whole.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(Error::new(Verb::Write, self.path.clone(), Cause::NoSpace));
        }
        let from = offset as usize;
        self.change(|bytes| {
            if bytes.len() < from + whole.len() {
                bytes.resize(from + whole.len(), 0);
            }
            bytes[from..from + whole.len()].copy_from_slice(&whole);
        });
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.call(Verb::Sync)
    }

    fn len(&self) -> Result<u64> {
        self.call(Verb::Length)?;
        Ok(self.bytes().len() as u64)
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.call(Verb::Prepare)?;
        if to > FILE_BYTES_MAX {
            return Err(Error::new(Verb::Prepare, self.path.clone(), Cause::NoSpace));
        }
        self.change(|bytes| {
            bytes.resize(bytes.len().max(to as usize), 0);
            bytes[from as usize..to as usize].fill(0);
        });
        Ok(())
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.call(Verb::Write)?;
        self.change(|bytes| bytes.truncate(length as usize));
        Ok(())
    }

    fn drop_cache(&self) -> Result<()> {
        self.call(Verb::Read)
    }

    fn method(&self) -> Method {
        self.method
    }

    fn alignment(&self) -> usize {
        1
    }
}
