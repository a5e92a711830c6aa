//! The cases of the figures of the report on NV-Logging, and of ELEDA's figure that compares logs
//! in NVRAM.
//!
//! Pure functions. The report's baseline is a central log under one mutex on a memory disk. Here it
//! is our disk log with inserter `mutex` on device `memory`; the latency of a persist is added to
//! each durable write. ELEDA's baseline is the best disk log on the real device.

use super::spec::{ListFlag, Spec, fill};
use super::systems::{RING, UNIT};
use crate::commits::case::{Case, Work};
use crate::grid::flags::or;
use crate::host::device::{Device, MethodName};
use katydid_wal::{InserterKind, LogKind, SyncKind};
use std::time::Duration;

/// Bytes of a log for each of its entries.
pub const BYTES_PER_ENTRY: u64 = 128;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvramFigure {
    /// Speed-up for several latencies.
    Latency,
    /// Throughput and latency for several numbers of clients: two figures of the same runs.
    Clients,
    /// Checkpoints and throughput for several sizes of the log.
    Entries,
    /// Comparison with the best disk log.
    BesideDisk,
    /// Appends alone, compared with raw persists. This figure is our own.
    Append,
}

/// Choices of the command line. An empty list leaves the figure's own list.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub threads: Vec<usize>,
    pub delays: Vec<Duration>,
    pub entries: Vec<u64>,
    /// Kinds of logs in NVRAM.
    pub kinds: Vec<LogKind>,
    pub in_flight: usize,
    pub inserter: InserterKind,
    /// Fewer cases, to test that everything works.
    pub quick: bool,
}

const PLAIN: Spec = Spec {
    name: "",
    about: "",
    saw: "",
    note: "",
    varies: &[ListFlag::Threads, ListFlag::Delay],
    method: MethodName::Direct,
    device: Device::Memory,
    seconds: 0.4,
    rounds: 3,
};

const NANO: Duration = Duration::from_nanos(1);
/// Time that the report adds to each persist, in figures that do not vary it.
const LATENCY: Duration = Duration::from_nanos(400);
/// Number of the report's clients, in figures that do not vary it.
const CLIENTS: usize = 10;

impl NvramFigure {
    pub const ALL: [NvramFigure; 5] = [
        NvramFigure::Latency,
        NvramFigure::Clients,
        NvramFigure::Entries,
        NvramFigure::BesideDisk,
        NvramFigure::Append,
    ];

    /// The figure's names on the command line.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            NvramFigure::Latency => &["nvlogging6"],
            NvramFigure::Clients => &["nvlogging7", "nvlogging8"],
            NvramFigure::Entries => &["nvlogging9"],
            NvramFigure::BesideDisk => &["eleda15"],
            NvramFigure::Append => &["append"],
        }
    }

    pub fn spec(self) -> Spec {
        match self {
            NvramFigure::Latency => Spec {
                name: "nvlogging6",
                about: "speed-up of logs in NVRAM on NewOrders and Payments of TPC-C over the latency of the memory (report on \
                        NV-Logging, Figure 6)",
                saw: "1.05 to 1.34 times the throughput of the central log on a memory disk, from 0 to 10 us",
                note: NOTE,
                ..PLAIN
            },
            NvramFigure::Clients => Spec {
                name: "nvlogging7",
                about: "throughput and latency on NewOrders and Payments of TPC-C over clients, at 400 ns (report on NV-Logging, Figures \
                        7 and 8)",
                saw: "throughput does not fall beyond 20 clients, and latency grows less than with the central log",
                note: NOTE,
                seconds: 0.3,
                ..PLAIN
            },
            NvramFigure::Entries => Spec {
                name: "nvlogging9",
                about: "checkpoints and throughput on NewOrders and Payments of TPC-C over the entries of the log, at 400 ns (report on \
                        NV-Logging, Figure 9)",
                saw: "a picture without numbers: with a larger buffer fewer checkpoints disturb the clients",
                note: "a log has 128 bytes of ring or heap for each entry. A checkpoint begins when 70 % of the entries are taken. Each run \
                       loads a database of its own",
                seconds: 3.0,
                rounds: 2,
                ..PLAIN
            },
            NvramFigure::BesideDisk => Spec {
                name: "eleda15",
                about: "updates of single keys, and NewOrders and Payments of TPC-C, on the best disk log and on logs in NVRAM (ELEDA, \
                        Figure 15)",
                saw: "the software-only log on disks is as fast as the log in NVRAM, or faster, if its clients use callbacks",
                note: "the disk log is on the folder's device, with blocking clients and with callbacks, and once more in ELEDA's form: \
                       inserter grasshopper, protocol pipelined, a unit of 64 KiB, a ring of 32 MiB. A commit in NVRAM has nothing to wait for. \
                       `to disk` is the ratio to the best disk log with as many threads",
                device: Device::File,
                seconds: 0.3,
                ..PLAIN
            },
            NvramFigure::Append => Spec {
                name: "append",
                about: "records of 120 bytes appended to the log alone, each persisted before the next",
                saw: "no such figure",
                note: "raw is the time in which a record of the same size is copied, written back and fenced in a region without a log; `to \
                       raw`: the time of an append with one client divided by raw",
                ..PLAIN
            },
        }
    }

    /// Returns whether each run has a database of its own.
    pub fn is_anew(self) -> bool {
        self == NvramFigure::Entries
    }

    /// The cases of the figure with the command line's choices.
    pub fn cases(self, choice: &Choice) -> Vec<Case> {
        let plain =
            Case { inserter: choice.inserter, threads: CLIENTS, delay: LATENCY, ..Case::new(Work::Pair) };
        let central = Case { inserter: InserterKind::Mutex, ..plain.clone() };
        let in_nvram = |case: &Case| -> Vec<Case> {
            choice.kinds.iter().map(|&log| Case { log, ..case.clone() }).collect()
        };
        let mut cases = Vec::new();
        match self {
            NvramFigure::Latency => {
                let own: &[u32] =
                    if choice.quick { &[0, 400] } else { &[0, 400, 1_000, 2_000, 5_000, 10_000] };
                let own: Vec<Duration> = own.iter().map(|nanos| NANO * *nanos).collect();
                for &threads in or(&choice.threads, &[CLIENTS]) {
                    for &delay in or(&choice.delays, &own) {
                        cases.push(Case { threads, delay, ..central.clone() });
                        cases.extend(in_nvram(&Case { threads, delay, ..plain.clone() }));
                    }
                }
            }
            NvramFigure::Clients => {
                let own: &[usize] = if choice.quick { &[1, 10] } else { &[1, 2, 5, 10, 20, 50, 100, 200] };
                for &delay in or(&choice.delays, &[LATENCY]) {
                    for &threads in or(&choice.threads, own) {
                        cases.push(Case { threads, delay, ..central.clone() });
                        cases.extend(in_nvram(&Case { threads, delay, ..plain.clone() }));
                    }
                }
            }
            NvramFigure::Entries => {
                let own: &[u64] =
                    if choice.quick { &[16, 64] } else { &[2 << 10, 4 << 10, 8 << 10, 16 << 10] };
                let own: Vec<u64> = own.iter().map(|thousands| thousands << 10).collect();
                for &threads in or(&choice.threads, &[CLIENTS]) {
                    for &delay in or(&choice.delays, &[LATENCY]) {
                        for &entries in or(&choice.entries, &own) {
                            let case = Case { threads, delay, entries: Some(entries), ..plain.clone() };
                            cases.extend(in_nvram(&case));
                        }
                    }
                }
            }
            NvramFigure::BesideDisk => {
                let own: &[usize] = if choice.quick { &[2] } else { &[1, 2, 8, 32] };
                for work in [Work::Updates, Work::Pair] {
                    for &threads in or(&choice.threads, own) {
                        let case = Case { work, threads, delay: Duration::ZERO, ..plain.clone() };
                        cases.push(Case { in_flight: choice.in_flight, ..case.clone() });
                        cases.push(Case {
                            inserter: InserterKind::Grasshopper,
                            sync: SyncKind::Pipelined,
                            io_unit: Some(UNIT),
                            group: Some(fill(UNIT)),
                            ring: Some(RING),
                            in_flight: choice.in_flight,
                            ..case.clone()
                        });
                        cases.push(case.clone());
                        for &delay in or(&choice.delays, &[Duration::ZERO, LATENCY]) {
                            cases.extend(in_nvram(&Case { delay, ..case.clone() }));
                        }
                    }
                }
            }
            NvramFigure::Append => {
                for &threads in or(&choice.threads, &[1, 2]) {
                    for &delay in or(&choice.delays, &[Duration::ZERO]) {
                        let work = Work::Log { payload: 120 };
                        cases.extend(in_nvram(&Case { work, threads, delay, ..plain.clone() }));
                    }
                }
            }
        }
        cases
    }
}

const NOTE: &str = "p50 and p99 are of the commit alone, txn of the whole transaction: nv_direct persists each record when it is appended, \
                    the other logs in NVRAM persist all records of a transaction when it commits, as on disk. `to disk` is the ratio to \
                    the disk log with the same clients, which has inserter mutex and a device in memory whose durable writes take the \
                    latency longer. No checkpoint falls into a run. After each run the conditions 1 to 4 of TPC-C held, with as many \
                    orders as were acknowledged";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_cases_once_and_a_baseline() {
        let kinds: Vec<LogKind> = LogKind::ALL.into_iter().filter(|kind| kind.in_nvram()).collect();
        for quick in [true, false] {
            let choice = Choice { kinds: kinds.clone(), in_flight: 100, quick, ..Choice::default() };
            for figure in NvramFigure::ALL {
                let cases = figure.cases(&choice);
                for (at, case) in cases.iter().enumerate() {
                    assert!(!cases[..at].contains(case), "{figure:?}: {case:?}");
                }
                let on_disk = cases.iter().filter(|case| case.log == LogKind::Disk).count();
                assert_eq!(on_disk == 0, matches!(figure, NvramFigure::Entries | NvramFigure::Append));
                for kind in &kinds {
                    assert!(cases.iter().any(|case| case.log == *kind));
                }
            }
        }
    }
}
