//! A log for tests of the kernels: one number says up to where every stream is durable.

use super::LogView;
use crate::error::Error;
use katydid_kernels::txn::{DurablePlaces, Waits};
use katydid_wal::StreamLsn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

#[derive(Debug)]
pub(super) struct FakeLog {
    durable: AtomicU64,
    pub(super) waits: AtomicU64,
    /// Panic when asked what is durable.
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
