//! A log for tests of the kernels. One number is the durable end of every stream.

use super::{DurablePlaces, Waits};
use crate::dependencies::StreamLsn;
use std::sync::Mutex;

#[derive(Debug)]
pub struct FakeLog {
    durable: Mutex<u64>,
}

impl Default for FakeLog {
    fn default() -> Self {
        FakeLog { durable: Mutex::new(u64::MAX) }
    }
}

impl FakeLog {
    pub fn durable_below(&self, end: u64) {
        *self.durable.lock().expect("not poisoned") = end;
    }
}

impl Waits for FakeLog {
    fn before_wait(&self) {}
}

impl DurablePlaces for FakeLog {
    fn is_durable(&self, place: StreamLsn) -> bool {
        place.end.get() <= *self.durable.lock().expect("not poisoned")
    }
}
