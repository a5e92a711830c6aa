//! Faults that tests plan, and the calls that they hit.
//!
//! All functions of this file run under the device's latch.

use crate::error::Verb;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The failure of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// An I/O error. A write changes nothing; a sync fails as with [`Fault::SyncIo`].
    Io,
    /// No space. A write changes nothing; a sync fails as with [`Fault::SyncIo`].
    NoSpace,
    /// An I/O error after the first sectors of the write took effect (un-synced). The field is
    /// their number; 0 has the effect of [`Fault::Io`].
    ShortWrite(u64),
    /// The sync of a durable write, a preparation or a sync call fails, after the write or
    /// preparation took effect. Each dirty sector has reached the device or is lost. No later sync
    /// writes a lost sector to the device, although reads return it until the cache is dropped. A
    /// write that is not durable changes nothing.
    SyncIo,
    /// The device crashes at this call, as by [`SimDevice::crash_at`](crate::SimDevice::crash_at).
    Crash,
}

type Reads = Box<dyn FnMut(&str, Range<u64>) -> bool + Send>;
type Predicate = Box<dyn FnMut(Verb, &str, u64) -> Option<Fault> + Send>;

/// The plan of faults of a device.
#[derive(Default)]
pub(super) struct Plan {
    at: BTreeMap<u64, Fault>,
    when: Option<Predicate>,
    unreadable: Vec<(String, Range<u64>)>,
    reads: Option<Reads>,
}

impl Plan {
    pub(super) fn at(&mut self, step: u64, fault: Fault) {
        self.at.insert(step, fault);
    }

    pub(super) fn when(&mut self, predicate: Option<Predicate>) {
        self.when = predicate;
    }

    pub(super) fn unreadable(&mut self, path: &str, range: Range<u64>) {
        self.unreadable.push((path.to_owned(), range));
    }

    pub(super) fn unreadable_when(&mut self, predicate: Reads) {
        self.reads = Some(predicate);
    }

    pub(super) fn clear(&mut self) {
        *self = Plan::default();
    }

    /// Returns the fault of this call, if it has one.
    pub(super) fn fault(&mut self, verb: Verb, path: &str, step: u64) -> Option<Fault> {
        if let Some(fault) = self.at.remove(&step) {
            return Some(fault);
        }
        self.when.as_mut().and_then(|predicate| predicate(verb, path, step))
    }

    pub(super) fn is_unreadable(&mut self, path: &str, range: &Range<u64>) -> bool {
        if self.reads.as_mut().is_some_and(|fails| fails(path, range.clone())) {
            return true;
        }
        self.unreadable
            .iter()
            .any(|(name, bad)| name == path && bad.start < range.end && range.start < bad.end)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({} steps, {} unreadable ranges)", self.at.len(), self.unreadable.len())
    }
}
