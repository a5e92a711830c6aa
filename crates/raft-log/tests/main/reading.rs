//! Reading many entries as a stream: few of them are in memory at a time, and none is left out.

use crate::crashes::{entry, id};
use crate::{Counting, Types};
use futures_util::StreamExt;
use katydid_device::SimDevice;
use katydid_raft_log::RaftLog;
use katydid_raft_log::wal::{FileOptions, Options};
use openraft::alias::{EntryOf, LeaderIdOf, LogIdOf};
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftLogReader};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of [`Counted`] payloads in memory.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The payload of an entry. Payloads in memory are counted.
#[derive(Debug)]
pub struct Counted(String);

impl Counted {
    fn new(text: String) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Counted(text)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.0.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Counted::new)
    }
}

fn options() -> Options {
    let files = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    Options { medium: files.into(), reserve_bytes: 0, ..Options::default() }
}

/// Maximum bytes of encoded entries that the log retains in memory.
const TAIL_BYTES: u64 = 8 << 20;

#[test]
fn a_stream_has_few_of_its_entries_in_memory() {
    const BYTES: u64 = 16 << 10;
    let count = 2 * TAIL_BYTES / BYTES;
    let counted = |index| {
        let leader = LeaderIdOf::<Counting>::new(1, 1).to_committed();
        let payload = EntryPayload::Normal(Counted::new("x".repeat(BYTES as usize)));
        EntryOf::<Counting>::new(LogIdOf::<Counting>::new(leader, index), payload)
    };
    Counting::run(async {
        let mut log = RaftLog::<Counting>::open_in(SimDevice::new(1).directory(), options()).expect("open");
        for first in (0..count).step_by(64) {
            let entries: Vec<_> = (first..first + 64).map(counted).collect();
            log.blocking_append(entries).await.expect("append");
        }
        assert_eq!(LIVE.load(Ordering::Relaxed), 0, "the log retains bytes, and no entries");
        let mut reader = log.get_log_reader().await;
        // The first half is read from the device, the second half from memory.
        let mut entries = std::pin::pin!(reader.entries_stream(..).await);
        let (mut next, mut most) = (0, 0);
        while let Some(found) = entries.next().await {
            assert_eq!(found.expect("an entry").log_id().index, next);
            next += 1;
            most = most.max(LIVE.load(Ordering::Relaxed));
        }
        assert_eq!(next, count);
        // A piece has at most 1 MiB and the entry that exceeds it.
        assert!(most <= (1 << 20) / BYTES as usize + 1, "{most} entries were in memory");
    });
}

#[test]
fn entries_that_are_purged_during_a_read_are_an_error_and_not_left_out() {
    Types::run(async {
        let mut log = RaftLog::<Types>::open_in(SimDevice::new(1).directory(), options()).expect("open");
        for index in 0..100 {
            log.blocking_append([entry(1, index, 64 << 10)]).await.expect("append");
        }
        let mut reader = log.get_log_reader().await;
        let mut entries = std::pin::pin!(reader.entries_stream(10..).await);
        let first = entries.next().await.expect("an entry").expect("it is read");
        assert_eq!(first.log_id().index, 10);
        log.purge(id(1, 80)).await.expect("purge");
        let (mut next, mut failure) = (11, None);
        while let Some(found) = entries.next().await {
            assert!(failure.is_none(), "nothing follows an error");
            match found {
                Ok(entry) => {
                    assert_eq!(entry.log_id().index, next);
                    next += 1;
                }
                Err(error) => failure = Some(error.to_string()),
            }
        }
        assert_eq!(failure, Some(format!("entry {next} was purged or truncated while it was to be read")));
    });
}
