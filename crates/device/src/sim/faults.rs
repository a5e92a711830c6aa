//! What can be made to go wrong, and when.
//!
//! Run under the device's latch.

use crate::error::Verb;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// What becomes, at a crash, of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Survival {
    /// The seed decides, sector by sector and name by name: kept, dropped, torn or reordered.
    #[default]
    Random,
    /// Nothing un-synced survives.
    DropAll,
    /// Everything un-synced survives, as if it was synced in the last moment.
    KeepAll,
    /// Of each file's un-synced sectors the first ones survive, the seed decides how many: so each place of a long write that is
    /// cut is as likely as any other. Of names as with `Random`.
    Prefix,
    /// As `Random`, on a device that does not write sectors whole or not at all: a sector of a call that was under way at the crash may also hold
    /// bytes that nobody has written, or bytes of both versions. Under way are the call that the device crashed at, and those that waited
    /// because of [`SimDevice::stall_writes`](super::SimDevice::stall_writes), which take partial effect.
    Trash,
}

/// How one call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// An I/O error. A write changes nothing; a sync fails as with [`Fault::SyncIo`].
    Io,
    /// No space. A write changes nothing; a sync fails as with [`Fault::SyncIo`].
    NoSpace,
    /// A write whose first so many sectors take effect (un-synced) before an I/O error; 0 is as [`Fault::Io`].
    ShortWrite(u64),
    /// The write takes effect and its sync fails: each dirty sector reached the device or is lost, and no later sync
    /// brings it there, though reads show it until the cache is dropped.
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

    /// How this call fails, if it does.
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
