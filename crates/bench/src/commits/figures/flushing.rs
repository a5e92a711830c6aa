//! The figures of Efficient flushing about commits.
//!
//! Pure functions.

use super::spec::{ListFlag, Lists, Spec};
use crate::commits::case::{Case, Work};
use crate::grid::flags::or;
use crate::host::device::{Device, MethodName};
use katydid_wal::{InserterKind, SyncKind};

pub const FIVE: Spec = Spec {
    name: "flushing5",
    about: "inserts of 20-byte keys and 100-byte values, and half updates and half searches, by blocking clients (efficient \
            flushing, Figure 5)",
    saw: "aggregated over slotted, the existing scheme: 3.9, 5.5, 1.83, 1.72 and 1.3 times for inserts at 8, 16, 32, 64 and 128 threads, and 1.6, 2.8, \
          4.1, 1.7 and 1.6 times with searches",
    note: "times are those of inserts and updates; transactions a second also count searches. The log goes through the page cache, as in \
           the paper: a direct write is durable when it ends, so a thread that writes before it asks for a sync has nothing left to share. \
           The inserter is consolidated with 16 slots, as in the paper, unless another inserter is given",
    varies: &[ListFlag::Threads, ListFlag::Sync],
    method: MethodName::Buffered,
    device: Device::File,
    seconds: 0.3,
    rounds: 2,
};

pub const SIX: Spec = Spec {
    name: "flushing6",
    about: "sysbench's writing transactions with two updates, a delete and an insert each, by blocking clients (efficient flushing, Figure \
            6)",
    saw: "aggregated over slotted, the existing scheme: 6.4, 3.3, 2.3, 1.7 and 1.4 times at 8, 16, 32, 64 and 128 threads",
    note: "one table with a secondary index, whose rows are drawn uniformly. The log goes through the page cache, as in the paper. After \
           each run all rows were present, and the index led to each row",
    varies: &[ListFlag::Threads, ListFlag::Sync],
    method: MethodName::Buffered,
    device: Device::File,
    seconds: 0.3,
    rounds: 2,
};

pub const TABLE_ONE: Spec = Spec {
    name: "flushing-table1",
    about: "where the time of an insert goes, and how often the log is locked and synced (efficient flushing, Table 1)",
    saw: "slotted, the existing scheme, spends 82 % of an insert waiting for the lock at 8 threads; aggregated takes a quarter of the locks and of the \
          syncs there, with 4.4 to 11.4 requests in each",
    note: "means of one commit in us: until its acknowledgement; waiting for the sync lock, if its thread syncs; in writes and syncs; \
           waiting for another thread's sync, which includes slot wait, for the last thread of its slot. Locks and syncs are those of a \
           run; released: acknowledged by another thread's sync. The inserter is consolidated with 16 slots, unless another inserter is \
           given",
    varies: &[ListFlag::Threads, ListFlag::Sync],
    method: MethodName::Buffered,
    device: Device::File,
    seconds: 0.5,
    rounds: 3,
};

/// Number of slots in the paper's pool (section 4).
const SLOTS: u32 = 16;

pub fn threads_and_syncs(lists: &Lists, plain: &Case, works: &[Work]) -> Vec<Case> {
    let inserter = lists.inserter.unwrap_or(InserterKind::Consolidated);
    let plain = Case { inserter, slots: Some(SLOTS), ..plain.clone() };
    let mut cases = Vec::new();
    for &work in works {
        for &threads in or(&lists.threads, &[8, 16, 32, 64, 128]) {
            let syncs = or(&lists.syncs, &SyncKind::ALL).iter();
            cases.extend(syncs.map(|&sync| Case { work, threads, sync, ..plain.clone() }));
        }
    }
    cases
}
