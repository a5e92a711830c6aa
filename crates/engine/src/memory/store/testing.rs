//! A log for tests of the store: one number is the durable position of every stream.

use super::load::Loader;
use super::state::{LogView, Settings, Store};
use super::transaction::ActiveTxn;
use crate::error::{Error, Result};
use crate::options::Access;
use crate::sharded::ShardRef;
use katydid_kernels::txn::{DurablePlaces, Timestamp, Waits};
use katydid_wal::StreamLsn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct FakeLog {
    durable: AtomicU64,
    pub(super) waits: AtomicU64,
    /// True if `is_durable` panics.
    pub(super) panics: AtomicBool,
}

impl Default for FakeLog {
    fn default() -> Self {
        FakeLog {
            durable: AtomicU64::new(u64::MAX),
            waits: AtomicU64::new(0),
            panics: AtomicBool::new(false),
        }
    }
}

impl FakeLog {
    pub(super) fn durable_below(&self, end: u64) {
        self.durable.store(end, SeqCst);
    }
}

impl DurablePlaces for FakeLog {
    fn is_durable(&self, place: StreamLsn) -> bool {
        assert!(!self.panics.load(SeqCst), "a panic that the test has planted");
        place.end.get() <= self.durable.load(SeqCst)
    }
}

impl Waits for FakeLog {
    fn before_wait(&self) {
        self.waits.fetch_add(1, SeqCst);
    }
}

impl LogView for FakeLog {
    fn failure(&self) -> Error {
        Error::Internal("the log failed")
    }
}

impl Store {
    /// A store without tables.
    pub(crate) fn new(settings: Settings, log: Arc<dyn LogView>) -> Arc<Self> {
        Loader::new(settings).finish(Timestamp::ZERO, 1, log)
    }

    /// See [`ActiveTxn::begin`].
    pub(super) fn begin(self: &Arc<Self>, access: Access, lock_wait: Duration) -> Result<ActiveTxn> {
        ActiveTxn::begin(ShardRef::new(self.clone()), access, lock_wait)
    }
}
