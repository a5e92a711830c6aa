//! What an open log is kept in, for the rest of it.
//!
//! Any thread. In NVRAM nothing is written or synced here, and nothing prepared: `core/in_nvram.rs` has what persists.

use crate::error::Result;
use crate::nvram::store::NvStore;
use crate::segment::{SegmentStore, Source};
use katydid_device::{self as device, Method, WriteMode};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Layout;
use std::io::IoSlice;
use std::sync::Arc;

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    Disk(Arc<SegmentStore>),
    Nvram(Arc<NvStore>),
}

impl Store {
    pub(crate) fn nvram(&self) -> Option<&NvStore> {
        match self {
            Store::Disk(_) => None,
            Store::Nvram(store) => Some(store),
        }
    }

    /// For readers.
    pub(crate) fn source(&self) -> Arc<dyn Source> {
        match self {
            Store::Disk(store) => store.clone(),
            Store::Nvram(store) => store.clone(),
        }
    }

    /// Where records lie.
    pub(super) fn layout(&self) -> Layout {
        self.nvram().map_or(Layout::InLine, |store| store.memory().layout())
    }

    pub(crate) fn start(&self) -> Lsn {
        match self {
            Store::Disk(store) => store.start(),
            Store::Nvram(store) => store.start(),
        }
    }

    pub(crate) fn prepared_end(&self) -> Lsn {
        match self {
            Store::Disk(store) => store.prepared_end(),
            Store::Nvram(store) => store.prepared_end(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Store::Disk(store) => store.bytes_on_disk(),
            Store::Nvram(store) => store.bytes(),
        }
    }

    pub(crate) fn trim(&self, to: Lsn, durable: Lsn) -> Result<()> {
        match self {
            Store::Disk(store) => store.trim(to, durable),
            Store::Nvram(store) => store.trim(to, durable),
        }
    }

    pub(crate) fn note_durable(&self, durable: Lsn) -> device::Result<()> {
        match self {
            Store::Disk(store) => store.note_durable(durable),
            Store::Nvram(store) => store.note_durable(durable),
        }
    }

    /// How bytes travel to the segment that holds `at`; nothing for NVRAM.
    pub(crate) fn method(&self, at: Lsn) -> Option<Method> {
        match self {
            Store::Disk(store) => Some(store.method(at)),
            Store::Nvram(_) => None,
        }
    }

    pub(super) fn write(&self, at: Lsn, parts: &[IoSlice<'_>], mode: WriteMode) -> device::Result<()> {
        match self {
            Store::Disk(store) => store.write(at, parts, mode),
            Store::Nvram(_) => Ok(()),
        }
    }

    pub(super) fn sync(&self, from: Lsn, to: Lsn) -> device::Result<()> {
        match self {
            Store::Disk(store) => store.sync(from, to),
            Store::Nvram(_) => Ok(()),
        }
    }

    pub(super) fn sync_again(&self, at: Lsn) -> device::Result<()> {
        match self {
            Store::Disk(store) => store.sync_again(at),
            Store::Nvram(_) => Ok(()),
        }
    }
}
