//! The papers' figures: what each varies, and what its paper saw.
//!
//! Pure. A list that the command line gives replaces the figure's own; one that the figure does not vary is refused.

use super::case::{Case, Work};
use super::flags::syncs_called;
use crate::bench::{Device, MethodName};
use crate::failure::{Failure, Result};
use katydid::LockRelease;
use katydid_wal::{Durability, InserterKind, LogKind, SyncKind};
use std::time::Duration;

/// A figure or table of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Aether3,
    Aether4,
    Aether5,
    Flushing5,
    FlushingTable1,
    Eleda14,
    Eleda18,
}

/// What can be given as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Threads,
    Sync,
    Skew,
    Delay,
    Payload,
    IoUnit,
    InFlight,
}

impl Axis {
    pub fn flag(self) -> &'static str {
        match self {
            Axis::Threads => "--threads",
            Axis::Sync => "--sync",
            Axis::Skew => "--skew",
            Axis::Delay => "--delay",
            Axis::Payload => "--payload",
            Axis::IoUnit => "--io-unit",
            Axis::InFlight => "--in-flight",
        }
    }
}

/// A figure in words.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    /// What it shows, and where it is.
    pub about: &'static str,
    /// What the paper saw.
    pub saw: &'static str,
    /// What is to be known about ours.
    pub note: &'static str,
    /// What may be given.
    pub varies: &'static [Axis],
    /// How the log's bytes travel, if nothing else is asked for.
    pub method: MethodName,
    /// Where the log is, if nothing else is asked for.
    pub device: Device,
    /// Of each run, and how many of each: about a minute together, with opening, reading and adding up.
    pub seconds: f64,
    pub rounds: usize,
}

/// What the command line gives; what is empty is the figure's own.
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub threads: Vec<usize>,
    pub syncs: Vec<SyncKind>,
    pub skews: Vec<f64>,
    pub delays: Vec<Duration>,
    pub payloads: Vec<usize>,
    pub io_units: Vec<usize>,
    pub in_flight: Vec<usize>,
    pub inserter: InserterKind,
    pub log: LogKind,
}

const MS: Duration = Duration::from_millis(1);
const BLOCKING: usize = 1;
/// What transactions the clients of a figure have in flight, if they do not block in each.
const IN_FLIGHT: &[usize] = &[100];

impl Figure {
    pub const ALL: [Figure; 7] = [
        Figure::Aether3,
        Figure::Aether4,
        Figure::Aether5,
        Figure::Flushing5,
        Figure::FlushingTable1,
        Figure::Eleda14,
        Figure::Eleda18,
    ];

    pub fn spec(self) -> Spec {
        match self {
            Figure::Aether3 => Spec {
                name: "aether3",
                about: "what early lock release gains on TPC-B over skew, for devices of several latencies (Aether, Figure 3)",
                saw: "no gain without contention, 2 times at 100 us and up to 35 times at 10 ms with a skew around 1, less beyond",
                note: "skew is that of tellers and of the accounts of a branch; a lock is held for the transaction only, or until its commit \
                       is durable",
                varies: &[Axis::Threads, Axis::Sync, Axis::Skew, Axis::Delay],
                method: MethodName::Direct,
                device: Device::File,
                seconds: 0.3,
                rounds: 2,
            },
            Figure::Aether4 => Spec {
                name: "aether4",
                about: "context switches and processor use on TPC-B over client threads, with and without flush pipelining (Aether, Figure 4)",
                saw: "without, switches grow with the clients, system time too, and processors idle; with, both stay nearly constant and all \
                      processors are used",
                note: "clients with one transaction in flight block in each commit; the others go on with the next (flush pipelining)",
                varies: &[Axis::Threads, Axis::Sync, Axis::InFlight],
                method: MethodName::Direct,
                device: Device::File,
                seconds: 0.5,
                rounds: 3,
            },
            Figure::Aether5 => Spec {
                name: "aether5",
                about: "throughput of TPC-B over client threads: baseline, asynchronous commit, flush pipelining (Aether, Figure 5)",
                saw: "the baseline falls behind at once; flush pipelining does as well as the unsafe asynchronous commit, up to 22 % above it",
                note: "baseline: per-commit, blocking, where there is that protocol. Asynchronous, unsafe: told when it is written (survives \
                       the process) or buffered (survives nothing). Pipelined and adaptive with transactions in flight; adaptive blocking too",
                varies: &[Axis::Threads, Axis::InFlight],
                method: MethodName::Direct,
                device: Device::File,
                seconds: 0.5,
                rounds: 3,
            },
            Figure::Flushing5 => Spec {
                name: "flushing5",
                about: "inserts of 20-byte keys and 100-byte values, and half updates and half searches, by blocking clients (efficient \
                        flushing, Figure 5)",
                saw: "aggregated over grouped: 3.9, 5.5, 1.83, 1.72 and 1.3 times for inserts at 8, 16, 32, 64 and 128 threads, and 1.6, 2.8, \
                      4.1, 1.7 and 1.6 times with searches",
                note: "times are those of inserts and updates; transactions a second count searches too. Through the page cache, as in the paper: a \
                       direct write is on the device when it is done, so that who writes before asking for a sync has nothing left to share",
                varies: &[Axis::Threads, Axis::Sync],
                method: MethodName::Buffered,
                device: Device::File,
                seconds: 0.3,
                rounds: 2,
            },
            Figure::FlushingTable1 => Spec {
                name: "flushing-table1",
                about: "where the time of an insert goes, and how often the log is locked and synced (efficient flushing, Table 1)",
                saw: "grouped spends 82 % of an insert waiting for the lock at 8 threads; aggregated takes a quarter of the locks and of the \
                      syncs there, with 4.4 to 11.4 requests in each",
                note: "means of one commit in us: until it was told; waiting for the lock, if it was the one to sync; in writes and syncs; waiting for \
                       somebody else's. Locks and syncs are of a run; released: told by somebody else's sync",
                varies: &[Axis::Threads, Axis::Sync],
                method: MethodName::Buffered,
                device: Device::File,
                seconds: 0.5,
                rounds: 3,
            },
            Figure::Eleda14 => Spec {
                name: "eleda14",
                about: "throughput and bandwidth over the size of what is committed (ELEDA, Figure 14)",
                saw: "ELEDA's throughput falls as bytes grow, to 6.2 GiB/s of two devices at 5 KiB; what syncs for each commit stays low whatever \
                      the size",
                note: "inserts into the store by 32 clients that block and by 4 that do not, and records in the log alone; `to best` is the \
                       log's bandwidth to the device's best sequential durable writes of the same round",
                varies: &[Axis::Payload, Axis::Sync, Axis::InFlight],
                method: MethodName::Direct,
                device: Device::File,
                seconds: 0.35,
                rounds: 2,
            },
            Figure::Eleda18 => Spec {
                name: "eleda18",
                about: "bandwidth and the distribution of commit latency with I/O units of 64 KiB and 512 KiB (ELEDA, Figure 18)",
                saw: "64 KiB answers ten times sooner, 512 KiB moves twice the bytes (6.9 against 3.2 GiB/s): its users must choose",
                note: "the log alone, 32 blocking clients and 2 with 1,000 commits in flight. Without a unit a write takes whatever there is, up to 1 MiB \
                       and half the ring",
                varies: &[Axis::Payload, Axis::Sync, Axis::IoUnit],
                method: MethodName::Direct,
                device: Device::File,
                seconds: 0.6,
                rounds: 3,
            },
        }
    }

    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The cases, given what the command line says.
    pub fn cases(self, given: &Given) -> Result<Vec<Case>> {
        self.check(given)?;
        let plain = Case {
            work: Work::Tpcb { skew: 0.0 },
            log: given.log,
            entries: None,
            sync: SyncKind::default(),
            inserter: given.inserter,
            threads: 1,
            in_flight: BLOCKING,
            durability: Durability::Durable,
            release: LockRelease::Early,
            delay: Duration::ZERO,
            io_unit: None,
            streams: None,
            group: None,
        };
        Ok(match self {
            Figure::Aether3 => aether3(given, &plain),
            Figure::Aether4 => aether4(given, &plain),
            Figure::Aether5 => aether5(given, &plain),
            Figure::Flushing5 => flushing(given, &plain, &[Work::Inserts { value: 100 }, Work::UpdateSearch]),
            Figure::FlushingTable1 => flushing(given, &plain, &[Work::Inserts { value: 100 }]),
            Figure::Eleda14 => eleda14(given, &plain),
            Figure::Eleda18 => eleda18(given, &plain),
        })
    }

    fn check(self, given: &Given) -> Result<()> {
        let lists = [
            (Axis::Threads, given.threads.is_empty()),
            (Axis::Sync, given.syncs.is_empty()),
            (Axis::Skew, given.skews.is_empty()),
            (Axis::Delay, given.delays.is_empty()),
            (Axis::Payload, given.payloads.is_empty()),
            (Axis::IoUnit, given.io_units.is_empty()),
            (Axis::InFlight, given.in_flight.is_empty()),
        ];
        let spec = self.spec();
        match lists.into_iter().find(|(axis, empty)| !empty && !spec.varies.contains(axis)) {
            Some((axis, _)) => {
                let varies: Vec<_> = spec.varies.iter().map(|axis| axis.flag()).collect();
                Err(Failure::usage(format_args!(
                    "{} does not go with figure {:?}, which takes {}",
                    axis.flag(),
                    spec.name,
                    varies.join(", ")
                )))
            }
            None => Ok(()),
        }
    }
}

fn or<'a, T>(given: &'a [T], own: &'a [T]) -> &'a [T] {
    if given.is_empty() { own } else { given }
}

fn aether3(given: &Given, plain: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for &sync in or(&given.syncs, &[SyncKind::default()]) {
        for &threads in or(&given.threads, &[128]) {
            for &delay in or(&given.delays, &[Duration::ZERO, MS / 10, MS, MS * 10]) {
                for &skew in or(&given.skews, &[0.0, 0.85, 1.25, 2.0]) {
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

fn aether4(given: &Given, plain: &Case) -> Vec<Case> {
    let own = syncs_called(&["per-commit", "pipelined", "adaptive"]);
    let in_flight: Vec<usize> = [BLOCKING].iter().chain(or(&given.in_flight, IN_FLIGHT)).copied().collect();
    let mut cases = Vec::new();
    for &threads in or(&given.threads, &[1, 4, 16, 64]) {
        for &sync in or(&given.syncs, &own) {
            // Who syncs each commit for itself has nothing to pipeline.
            let pipelines = sync.to_string().replace('_', "-") != "per-commit";
            let in_flight = in_flight.iter().filter(|many| pipelines || **many == BLOCKING);
            cases.extend(in_flight.map(|&in_flight| Case { threads, sync, in_flight, ..plain.clone() }));
        }
    }
    cases
}

fn aether5(given: &Given, plain: &Case) -> Vec<Case> {
    let in_flight = or(&given.in_flight, IN_FLIGHT);
    let mut cases = Vec::new();
    for &threads in or(&given.threads, &[1, 4, 16, 64]) {
        let case =
            |sync, durability, in_flight| Case { threads, sync, durability, in_flight, ..plain.clone() };
        let baseline = syncs_called(&["per-commit", "grouped"]);
        cases.extend(baseline.first().map(|&sync| case(sync, Durability::Durable, BLOCKING)));
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

fn flushing(given: &Given, plain: &Case, works: &[Work]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &work in works {
        for &threads in or(&given.threads, &[8, 16, 32, 64, 128]) {
            let syncs = or(&given.syncs, &SyncKind::ALL).iter();
            cases.extend(syncs.map(|&sync| Case { work, threads, sync, ..plain.clone() }));
        }
    }
    cases
}

fn eleda14(given: &Given, plain: &Case) -> Vec<Case> {
    let own = syncs_called(&["per-commit", "pipelined", "adaptive"]);
    let mut cases = Vec::new();
    for &payload in or(&given.payloads, &[512, 1024, 2048, 3072, 4096, 5120]) {
        for &sync in or(&given.syncs, &own) {
            let insert = Work::Inserts { value: payload };
            cases.push(Case { work: insert, sync, threads: 32, ..plain.clone() });
            if sync.to_string().replace('_', "-") == "per-commit" {
                continue;
            }
            for &in_flight in or(&given.in_flight, IN_FLIGHT) {
                cases.push(Case { work: insert, sync, threads: 4, in_flight, ..plain.clone() });
            }
            let log = Work::Log { payload };
            cases.push(Case { work: log, sync, threads: 2, in_flight: 1000, ..plain.clone() });
        }
    }
    cases
}

fn eleda18(given: &Given, plain: &Case) -> Vec<Case> {
    let own = syncs_called(&["pipelined", "adaptive"]);
    let units: Vec<_> =
        or(&given.io_units, &[64 << 10, 512 << 10]).iter().copied().map(Some).chain([None]).collect();
    let mut cases = Vec::new();
    for &payload in or(&given.payloads, &[120, 4096]) {
        for &sync in or(&given.syncs, &own) {
            for &io_unit in &units {
                for (threads, in_flight) in [(32, BLOCKING), (2, 1000)] {
                    let work = Work::Log { payload };
                    cases.push(Case { work, sync, threads, in_flight, io_unit, ..plain.clone() });
                }
            }
        }
    }
    cases
}
