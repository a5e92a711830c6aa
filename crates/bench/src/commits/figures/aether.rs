//! Aether's figures about commits.
//!
//! Pure functions.

use super::spec::{BLOCKING, IN_FLIGHT, ListFlag, Lists, MS, Spec, syncs_called};
use crate::commits::case::{Case, Work};
use crate::grid::flags::or;
use crate::host::device::{Device, MethodName};
use katydid::LockRelease;
use katydid_wal::{Durability, InserterKind, SyncKind};
use std::time::Duration;

pub const TWO: Spec = Spec {
    name: "aether2",
    about: "where processor time goes on TPC-B, as log bottlenecks are removed one by one (Aether, Figure 2)",
    saw: "with 60 clients the processors idle for 75 % of the time with the baseline, for 20 % with early release, and not at all with \
          flush pipelining; then threads contend for the log buffer",
    note: "the systems of aether9; tellers have a skew of 0.85. user, system and idle are shares of the time of all processors. log wait is \
           the share of the clients' time in which they wait for the sync lock, for another thread's sync or for their own sync",
    varies: &[ListFlag::Threads, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.4,
    rounds: 3,
};

pub const THREE: Spec = Spec {
    name: "aether3",
    about: "what early lock release gains on TPC-B over skew, for devices of several latencies (Aether, Figure 3)",
    saw: "no gain without contention, 2 times at 100 us and up to 35 times at 10 ms with a skew around 1, less beyond",
    note: "skew is that of tellers and of the accounts of a branch; a lock is held only during the transaction (early), or until its commit \
           is durable",
    varies: &[ListFlag::Threads, ListFlag::Sync, ListFlag::Skew, ListFlag::Delay],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.3,
    rounds: 2,
};

pub const FOUR: Spec = Spec {
    name: "aether4",
    about: "context switches and processor use on TPC-B over client threads, with and without flush pipelining (Aether, Figure 4)",
    saw: "without flush pipelining context switches and system time grow with the clients, and processors idle; with it both stay nearly \
          constant and all processors are used",
    note: "clients with one transaction in flight block in each commit; other clients continue with their next transaction (flush \
           pipelining)",
    varies: &[ListFlag::Threads, ListFlag::Sync, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.5,
    rounds: 3,
};

pub const FIVE: Spec = Spec {
    name: "aether5",
    about: "throughput of TPC-B over client threads: baseline, asynchronous commit, flush pipelining (Aether, Figure 5)",
    saw: "the baseline falls behind at once; flush pipelining is as fast as the unsafe asynchronous commit, up to 22 % above the baseline",
    note: "the baseline is pipelined with blocking clients, which is group commit by a flusher. Asynchronous commit is unsafe: acknowledged \
           when it is written (survives the process) or buffered (survives nothing). Pipelined and adaptive run with transactions in \
           flight, and adaptive also with blocking clients",
    varies: &[ListFlag::Threads, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.5,
    rounds: 3,
};

pub const NINE: Spec = Spec {
    name: "aether9",
    about: "throughput of small updates over client threads, as early lock release, flush pipelining and a scalable log buffer are added one \
            by one (Aether, Figure 9)",
    saw: "flush pipelining gains most, 68 % over the baseline; the log buffer gains another 7 %",
    note: "UpdateLocation of TATP updates a single row; here a transaction updates a key of 20 bytes. `baseline`: a dedicated flusher that \
           groups commits, blocking clients, one mutex around the log buffer, locks held until the commit is durable. Each further system \
           adds one step to the system before it; `ours` is adaptive with inserter marks and transactions in flight",
    varies: &[ListFlag::Threads, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.4,
    rounds: 3,
};

pub fn three(lists: &Lists, plain: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for &sync in or(&lists.syncs, &[SyncKind::default()]) {
        for &threads in or(&lists.threads, &[128]) {
            for &delay in or(&lists.delays, &[Duration::ZERO, MS / 10, MS, MS * 10]) {
                for &skew in or(&lists.skews, &[0.0, 0.85, 1.25, 2.0]) {
                    cases.extend([LockRelease::AfterDurable, LockRelease::Early].map(|release| Case {
                        work: Work::Tpcb { skew },
                        sync,
                        threads,
                        delay,
                        release,
                        ..plain.clone()
                    }));
                }
            }
        }
    }
    cases
}

pub fn four(lists: &Lists, plain: &Case) -> Vec<Case> {
    let own = syncs_called(&["per-commit", "pipelined", "adaptive"]);
    let in_flight: Vec<usize> = [BLOCKING].iter().chain(or(&lists.in_flight, IN_FLIGHT)).copied().collect();
    let mut cases = Vec::new();
    for &threads in or(&lists.threads, &[1, 4, 16, 64]) {
        for &sync in or(&lists.syncs, &own) {
            // A protocol that syncs for each commit cannot pipeline.
            let pipelines = sync.to_string().replace('_', "-") != "per-commit";
            let in_flight = in_flight.iter().filter(|many| pipelines || **many == BLOCKING);
            cases.extend(in_flight.map(|&in_flight| Case { threads, sync, in_flight, ..plain.clone() }));
        }
    }
    cases
}

pub fn five(lists: &Lists, plain: &Case) -> Vec<Case> {
    let in_flight = or(&lists.in_flight, IN_FLIGHT);
    let mut cases = Vec::new();
    for &threads in or(&lists.threads, &[1, 4, 16, 64]) {
        let case =
            |sync, durability, in_flight| Case { threads, sync, durability, in_flight, ..plain.clone() };
        cases.push(case(SyncKind::Pipelined, Durability::Durable, BLOCKING));
        let ours = SyncKind::default();
        cases.push(case(ours, Durability::Durable, BLOCKING));
        for sync in syncs_called(&["pipelined", "adaptive"]) {
            cases.extend(in_flight.iter().map(|&many| case(sync, Durability::Durable, many)));
        }
        cases.push(case(ours, Durability::Written, BLOCKING));
        cases.push(case(ours, Durability::Buffered, BLOCKING));
    }
    cases
}

pub fn two(lists: &Lists, plain: &Case) -> Vec<Case> {
    one_by_one(lists, plain, Work::Tpcb { skew: 0.85 }, &[1, 8, 60])
}

pub fn nine(lists: &Lists, plain: &Case) -> Vec<Case> {
    one_by_one(lists, plain, Work::Updates, &[1, 4, 16, 64])
}

/// The baseline, each part of Aether added to the parts before it, and our own design.
fn one_by_one(lists: &Lists, plain: &Case, work: Work, threads: &[usize]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &threads in or(&lists.threads, threads) {
        for &in_flight in or(&lists.in_flight, IN_FLIGHT) {
            let baseline = Case {
                work,
                system: Some("baseline"),
                inserter: InserterKind::Mutex,
                sync: SyncKind::Pipelined,
                release: LockRelease::AfterDurable,
                threads,
                ..plain.clone()
            };
            let early =
                Case { system: Some("+ early release"), release: LockRelease::Early, ..baseline.clone() };
            let pipelined = Case { system: Some("+ flush pipelining"), in_flight, ..early.clone() };
            let buffer =
                Case { system: Some("+ log buffer"), inserter: InserterKind::Hybrid, ..pipelined.clone() };
            let ours = Case {
                system: Some("ours"),
                inserter: plain.inserter,
                sync: SyncKind::default(),
                ..buffer.clone()
            };
            cases.extend([baseline, early, pipelined, buffer, ours]);
        }
    }
    cases
}
