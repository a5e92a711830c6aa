//! The regions of non-volatile memory in a device's directories, by their paths.
//!
//! Any thread may call this code. A thread that holds the latch `found` takes no other latch:
//! meanwhile it only opens regions, and opening a region takes no latch.

use super::SimDevice;
use crate::error::{Cause, NvramFault};
use crate::nvram::{CrashPeer, NvRegion, SimNvram};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The regions of a device: see the head of this file.
#[derive(Debug, Default)]
pub(super) struct Regions {
    found: Mutex<BTreeMap<String, Region>>,
}

#[derive(Debug)]
struct Region {
    memory: SimNvram,
    /// The region while a caller has it open.
    opened: Weak<NvRegion>,
}

impl Regions {
    fn found(&self) -> MutexGuard<'_, BTreeMap<String, Region>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, path: String, memory: SimNvram) {
        self.found().insert(path, Region { memory, opened: Weak::new() });
    }

    pub(super) fn find(&self, path: &str) -> Option<SimNvram> {
        self.found().get(path).map(|region| region.memory.clone())
    }

    pub(super) fn remove(&self, path: &str) -> bool {
        self.found().remove(path).is_some()
    }

    pub(super) fn all(&self) -> Vec<(String, SimNvram)> {
        self.found().iter().map(|(path, region)| (path.clone(), region.memory.clone())).collect()
    }

    /// Returns the names of the regions in the directory whose paths begin with `prefix`.
    pub(super) fn within(&self, prefix: &str) -> Vec<String> {
        let found = self.found();
        let names = found.keys().filter_map(|path| path.strip_prefix(prefix));
        names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    /// Opens a region that exists.
    pub(super) fn open(&self, path: &str, bytes: u64) -> Result<Arc<NvRegion>, Cause> {
        let mut found = self.found();
        let region = found.get_mut(path).ok_or(Cause::NotFound)?;
        if region.opened.strong_count() > 0 {
            return Err(Cause::Locked(Some(std::process::id())));
        }
        let opened = Arc::new(region.memory.region());
        if opened.len() != bytes {
            return Err(Cause::Nvram(NvramFault::Length { expected: bytes, found: opened.len() }));
        }
        region.opened = Arc::downgrade(&opened);
        Ok(opened)
    }
}

impl CrashPeer for SimDevice {
    fn freeze(&self) {
        SimDevice::freeze(self);
    }

    fn is_crashed(&self) -> bool {
        SimDevice::is_crashed(self)
    }
}

impl SimNvram {
    /// Puts this memory into one machine with `device`: when one of them crashes, the other has
    /// crashed too, at the latest at its next step. To be called before any thread uses the memory,
    /// and never under the device's latch (see [`SimDevice::fail_when`]).
    #[must_use]
    pub fn beside(self, device: &SimDevice) -> SimNvram {
        self.in_machine(Arc::new(device.clone()))
    }
}
