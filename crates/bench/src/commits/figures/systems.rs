//! ELEDA's figures that compare whole systems: a store without ELEDA, with ELEDA, and ours.
//!
//! Pure functions. `vanilla` works like WiredTiger: groups form in the log buffer, and the thread
//! that gets the sync lock syncs. `ELEDA` keeps a list of filled records for each thread, and a
//! dedicated flusher writes units of 64 KiB; its clients commit with callbacks.

use super::spec::{IN_FLIGHT, ListFlag, Lists, Spec, fill};
use crate::commits::case::{Case, Work};
use crate::grid::flags::or;
use crate::host::device::{Device, MethodName};
use katydid_wal::{InserterKind, SyncKind};

/// YCSB A with values of 1 KiB.
pub const KEY_VALUE: Work = Work::UpdateSearch { value: 1024 };
/// ELEDA's I/O unit, unless the paper names another.
pub const UNIT: usize = 64 << 10;
/// Bytes of the paper's log buffer (6.1): eight of the ranges over which GRASSHOPPER hops, of 4 MiB
/// each. Threads may reserve at most four of these ranges ahead.
pub const RING: usize = 32 << 20;
/// Number of streams of the memory engine's log. The paper has one log.
const STREAMS: u16 = 1;

const PLAIN: Spec = Spec {
    name: "",
    about: "",
    saw: "",
    note: "`vanilla` has inserter consolidated, protocol grouped and blocking clients; `vanilla in memory` also has its log in memory. \
           `ELEDA` has inserter grasshopper, protocol pipelined and transactions in flight; a write begins when a unit of 64 KiB is full \
           or after 1 ms, and the ring has 32 MiB, so that threads may be four hops ahead. `ours` is adaptive with marks, both with as \
           many transactions in flight and with blocking clients. Percentiles are those of writing transactions",
    varies: &[ListFlag::Threads, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.3,
    rounds: 2,
};

pub const EIGHT: Spec = Spec {
    name: "eleda8",
    about: "throughput over threads and the distribution of commit latency on YCSB A with 1 KiB (ELEDA, Figures 8 and 9)",
    saw: "in WiredTiger 71 times as many transactions at 32 threads, 10 times at one; in Shore-MT 6.3 times. Commits are acknowledged \
          later: after 1.3 ms instead of 0.58 ms",
    ..PLAIN
};

pub const TEN: Spec = Spec {
    name: "eleda10",
    about: "throughput over threads and the distribution of commit latency on sysbench's writing transactions (ELEDA, Figures 10 and 11)",
    saw: "in WiredTiger 32 times as many transactions at 32 threads, in Shore-MT 12 times. Commits are acknowledged later: after 3.7 ms \
          instead of 1 ms",
    ..PLAIN
};

pub const TWELVE: Spec = Spec {
    name: "eleda12",
    about: "NewOrders and Payments of TPC-C over threads, each in a warehouse of its own (ELEDA, Figure 12)",
    saw: "vanilla in memory grows up to 16 threads and then collapses; ELEDA does not collapse",
    ..PLAIN
};

pub const THIRTEEN: Spec = Spec {
    name: "eleda13",
    about: "YCSB A with 1 KiB and sysbench's writing transactions, in a multi-version engine (ELEDA, Figure 13)",
    saw: "under snapshot isolation vanilla is limited by the device, and in memory by its lock; ELEDA is ahead, but snapshots take 30 % of \
          the time at 32 threads",
    note: "the systems of eleda8 in the memory engine, whose transactions are serializable, with one stream; `ours` also runs in the paged \
           engine",
    ..PLAIN
};

pub const NINETEEN: Spec = Spec {
    name: "eleda19",
    about: "the gain of hiding the latency, and the further gain of GRASSHOPPER, on YCSB A with 1 KiB and on sysbench's writing \
            transactions (ELEDA, Figure 19)",
    saw: "with few threads hiding the latency gains nearly all; from about four threads on it collapses without GRASSHOPPER, which then \
          gains the rest",
    note: "the systems of eleda8; `hiding` is vanilla with protocol pipelined and transactions in flight, and differs from ELEDA only by \
           GRASSHOPPER",
    ..PLAIN
};

/// The systems for one workload and number of threads.
struct Systems {
    vanilla: Case,
    in_memory: Case,
    hiding: Case,
    eleda: Case,
    ours: Case,
    blocking: Case,
}

impl Systems {
    fn of(plain: &Case, work: Work, threads: usize, in_flight: usize, unit: usize) -> Systems {
        let ours = Case { work, threads, in_flight, system: Some("ours"), ..plain.clone() };
        let blocking = Case { in_flight: 1, system: Some("ours, blocking"), ..ours.clone() };
        let vanilla = Case {
            system: Some("vanilla"),
            inserter: InserterKind::Consolidated,
            sync: SyncKind::Grouped,
            ..blocking.clone()
        };
        let in_memory =
            Case { system: Some("vanilla in memory"), device: Some(Device::Memory), ..vanilla.clone() };
        let hiding = Case {
            system: Some("hiding"),
            sync: SyncKind::Pipelined,
            io_unit: Some(unit),
            group: Some(fill(unit)),
            ring: Some(RING),
            in_flight,
            ..vanilla.clone()
        };
        let eleda = Case { system: Some("ELEDA"), inserter: InserterKind::Grasshopper, ..hiding.clone() };
        Systems { vanilla, in_memory, hiding, eleda, ours, blocking }
    }
}

fn every(lists: &Lists, plain: &Case, works: &[Work], of: impl Fn(Systems) -> Vec<Case>) -> Vec<Case> {
    let mut cases = Vec::new();
    for &work in works {
        for &threads in or(&lists.threads, &[1, 2, 8, 32]) {
            for &in_flight in or(&lists.in_flight, IN_FLIGHT) {
                cases.extend(of(Systems::of(plain, work, threads, in_flight, UNIT)));
            }
        }
    }
    cases
}

pub fn side_by_side(lists: &Lists, plain: &Case, work: Work) -> Vec<Case> {
    every(lists, plain, &[work], |of| vec![of.vanilla, of.in_memory, of.eleda, of.ours, of.blocking])
}

/// Vanilla on the device and in memory, ELEDA with this unit, and our own system, for one workload
/// and number of threads.
pub fn one_work(plain: &Case, work: Work, threads: usize, in_flight: usize, unit: usize) -> [Case; 4] {
    let of = Systems::of(plain, work, threads, in_flight, unit);
    [of.vanilla, of.in_memory, of.eleda, of.ours]
}

pub fn thirteen(lists: &Lists, plain: &Case) -> Vec<Case> {
    let versions = |case: Case| Case { streams: Some(STREAMS), ..case };
    every(lists, plain, &[KEY_VALUE, Work::Sysbench], |of| {
        let locks = Case { system: Some("ours, locks"), ..of.ours.clone() };
        let mut cases = [of.vanilla, of.in_memory, of.eleda, of.ours].map(versions).to_vec();
        cases.push(locks);
        cases
    })
}

pub fn nineteen(lists: &Lists, plain: &Case) -> Vec<Case> {
    every(lists, plain, &[KEY_VALUE, Work::Sysbench], |of| vec![of.vanilla, of.hiding, of.eleda, of.ours])
}
