//! The cases of the figures of Cicada over P-WAL (section IV), and of read-only transactions beside
//! writers.
//!
//! Pure functions. A case is a combination of log, protocol, lock release, number of threads and
//! way of waiting; each figure has some of these combinations.

use super::spec::{ListFlag, Spec};
use crate::commits::case::{Case, Work};
use crate::host::device::{Device, MethodName};
use katydid::{Contention, LockRelease, OldVersions, STREAMS_MAX};
use katydid_wal::{Durability, Group, InserterKind, SyncKind};
use std::time::Duration;

/// A figure of the paper, or our additional figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CicadaFigure {
    Three,
    Four,
    Five,
    Six,
    Readers,
}

/// Choices of the command line.
#[derive(Debug, Clone)]
pub struct Choice {
    pub threads: Vec<usize>,
    /// Time added to each durable write, if it differs from the figure's.
    pub delay: Option<Duration>,
    /// Number of transactions in flight of each client that does not block in each commit.
    pub in_flight: usize,
    /// Number of processors; our own log has this number of streams, but at most [`STREAMS_MAX`].
    pub processors: u16,
    /// Group of transactions that is written together: the command line's, or else [`GROUP`].
    pub group: Group,
    /// Rule for conflicts in all cases; `None` for each system's own rule.
    pub contention: Option<Contention>,
    /// Rule by which all cases keep old versions; `None` for each system's own rule.
    pub old_versions: Option<OldVersions>,
}

/// Settings that these figures share.
const PLAIN: Spec = Spec {
    name: "",
    about: "",
    saw: "",
    note: "",
    varies: &[ListFlag::Threads, ListFlag::Delay, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::Memory,
    seconds: 0.3,
    rounds: 3,
};

/// The paper's group: five transactions, or 500 us since the last write.
pub const GROUP: Group = Group { commits: 5, bytes: 0, microseconds: 500 };
/// Durability of transactions that do not wait: their records go into the log buffer now, and to
/// the device later.
const LOGGING_OFF: Durability = Durability::Buffered;
const MICRO: Duration = Duration::from_micros(1);

impl CicadaFigure {
    pub const ALL: [CicadaFigure; 5] = [
        CicadaFigure::Three,
        CicadaFigure::Four,
        CicadaFigure::Five,
        CicadaFigure::Six,
        CicadaFigure::Readers,
    ];

    /// The figure's name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            CicadaFigure::Three => "3",
            CicadaFigure::Four => "4",
            CicadaFigure::Five => "5",
            CicadaFigure::Six => "6",
            CicadaFigure::Readers => "readers",
        }
    }

    pub fn spec(self) -> Spec {
        match self {
            CicadaFigure::Three => Spec {
                name: "cicada3",
                about: "throughput of writing transactions over threads: logging off, one serial log, and ours (Cicada over P-WAL, Figure 3)",
                saw: "with a serial log throughput hardly grows with the threads; without logging it grows",
                note: "logging off is `buffered`: records go into the log buffer, and no thread waits for them. Serial is one stream with \
                       inserter mutex and early lock release, with grouped (inline) and per-commit syncs. `to serial` is the ratio to the \
                       better serial log with the same clients",
                ..PLAIN
            },
            CicadaFigure::Four => Spec {
                name: "cicada4",
                about: "the four combinations of lock release and commit, writing only (Cicada over P-WAL, Figure 4)",
                saw: "early release with group commit is best by far; after-durable release with group commit is the worst",
                note: FOUR,
                ..PLAIN
            },
            CicadaFigure::Five => Spec {
                name: "cicada5",
                about: "the four combinations of lock release and commit, with 80 % of the operations reads (Cicada over P-WAL, Figure 5)",
                saw: "early release with group commit is best again",
                note: FOUR,
                ..PLAIN
            },
            CicadaFigure::Six => Spec {
                name: "cicada6",
                about: "early release with group commit on a device as quick as NVRAM, against logging off (Cicada over P-WAL, Figure 6)",
                saw: "hardly any difference",
                note: "logging off is `buffered`: records go into the log buffer, and no thread waits for them",
                ..PLAIN
            },
            CicadaFigure::Readers => Spec {
                name: "cicada-readers",
                about: "read-only transactions of 10 gets, alone and beside threads that write",
                saw: "no such figure",
                note: "commits are those of the readers. Writers block in each commit. `to alone`: the ratio to the same readers without \
                       writers; `by cpu s`: this ratio for each second of processor time that the readers got. A conflict of a reader \
                       would have failed the run",
                ..PLAIN
            },
        }
    }

    /// The cases of the figure with the command line's choices.
    pub fn cases(self, choice: &Choice) -> Vec<Case> {
        let mut cases = Vec::new();
        for &threads in &choice.threads {
            match self {
                CicadaFigure::Three => three(threads, choice, &mut cases),
                CicadaFigure::Four => four(threads, 0, choice, &mut cases),
                CicadaFigure::Five => four(threads, 80, choice, &mut cases),
                CicadaFigure::Six => six(threads, choice, &mut cases),
                CicadaFigure::Readers => readers(threads, choice, &mut cases),
            }
        }
        for case in &mut cases {
            case.contention = choice.contention.unwrap_or(case.contention);
            case.old_versions = choice.old_versions.unwrap_or(case.old_versions);
        }
        // If there are as many threads as processors, the case with one stream for each thread
        // equals the case with one stream for each processor. Equal cases are listed once.
        let mut once: Vec<Case> = Vec::new();
        for case in cases {
            if !once.contains(&case) {
                once.push(case);
            }
        }
        once
    }
}

const FOUR: &str = "lock release is early or after-durable; commits are single (per-commit) or in groups (inline: the worker writes after 5 \
                    commits or 500 us; pipelined: a syncer writes); our adaptive chooses its groups itself. Rows of the paper's systems \
                    have early conflict checks and pauses, and with groups the log keeps old versions; our rows have neither. There is one \
                    stream for each thread as in the paper, one for each processor, or one serial log. `to serial` is the ratio to the \
                    serial log with the same clients, `speed-up` that of early release to the other release";

/// A case with `adaptive` on a log with one stream for each processor. Its transactions only write.
/// The device has `delay`, unless the command line gives another delay.
fn ours(threads: usize, in_flight: usize, choice: &Choice, delay: Duration) -> Case {
    Case {
        threads,
        in_flight,
        delay: choice.delay.unwrap_or(delay),
        streams: Some(choice.processors.min(STREAMS_MAX)),
        ..Case::new(Work::Tuples { reads_percent: 0 })
    }
}

fn logging_off(threads: usize, choice: &Choice) -> Case {
    let case = ours(threads, 1, choice, Duration::ZERO);
    Case { durability: LOGGING_OFF, delay: Duration::ZERO, ..case }
}

/// The case as in the paper, with one stream for each thread and with groups.
fn per_thread(case: &Case, choice: &Choice) -> Case {
    Case { streams: Some(case.threads.min(STREAMS_MAX.into()) as u16), ..grouped(case, choice) }
}

/// The case with groups that the workers write, and with Cicada's contention regulation. An old
/// version is also kept until all records of transactions that precede the replacing transaction
/// are durable (section III-C).
fn grouped(case: &Case, choice: &Choice) -> Case {
    Case {
        sync: SyncKind::Inline,
        group: Some(choice.group),
        contention: Contention::Early,
        old_versions: OldVersions::UntilDurable,
        ..case.clone()
    }
}

/// The case without groups. An old version is kept only while the timestamp of an open transaction
/// lets that transaction read it (section III-C).
fn single(case: &Case) -> Case {
    Case {
        sync: SyncKind::PerCommit,
        group: None,
        contention: Contention::Early,
        old_versions: OldVersions::UntilUnread,
        ..case.clone()
    }
}

/// The case with our own protocol and rules on its log.
fn our_own(case: &Case) -> Case {
    let (contention, old_versions) = Default::default();
    Case { sync: SyncKind::default(), group: None, contention, old_versions, ..case.clone() }
}

fn serial(case: &Case, choice: &Choice) -> Case {
    Case { streams: Some(1), inserter: InserterKind::Mutex, ..grouped(case, choice) }
}

fn clients(choice: &Choice) -> [usize; 2] {
    [1, choice.in_flight]
}

fn three(threads: usize, choice: &Choice, cases: &mut Vec<Case>) {
    cases.push(logging_off(threads, choice));
    for in_flight in clients(choice) {
        let ours = ours(threads, in_flight, choice, 50 * MICRO);
        cases.extend([serial(&ours, choice), single(&serial(&ours, choice)), per_thread(&ours, choice)]);
        cases.extend([Case { streams: Some(1), ..ours.clone() }, ours]);
    }
}

fn four(threads: usize, reads_percent: u8, choice: &Choice, cases: &mut Vec<Case>) {
    for in_flight in clients(choice) {
        let ours =
            Case { work: Work::Tuples { reads_percent }, ..ours(threads, in_flight, choice, 50 * MICRO) };
        cases.push(serial(&ours, choice));
        for release in [LockRelease::Early, LockRelease::AfterDurable] {
            let group = per_thread(&Case { release, ..ours.clone() }, choice);
            let by_syncer = Case { sync: SyncKind::Pipelined, ..group.clone() };
            cases.extend([single(&group), our_own(&group), by_syncer, group]);
        }
        cases.extend([grouped(&ours, choice), ours]);
    }
}

fn six(threads: usize, choice: &Choice, cases: &mut Vec<Case>) {
    cases.push(logging_off(threads, choice));
    for in_flight in clients(choice) {
        let ours = ours(threads, in_flight, choice, 15 * MICRO);
        cases.extend([per_thread(&ours, choice), grouped(&ours, choice), ours]);
    }
}

fn readers(threads: usize, choice: &Choice, cases: &mut Vec<Case>) {
    let mut writers = vec![0, 1, threads];
    writers.dedup();
    cases.extend(
        writers
            .into_iter()
            .map(|writers| Case { work: Work::Readers { writers }, ..ours(threads, 1, choice, 50 * MICRO) }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_cases_once() {
        let choice = Choice {
            threads: vec![1, 2, 100],
            delay: None,
            in_flight: 64,
            processors: 80,
            group: GROUP,
            contention: None,
            old_versions: None,
        };
        for figure in CicadaFigure::ALL {
            let cases = figure.cases(&choice);
            for (at, case) in cases.iter().enumerate() {
                assert!(!cases[..at].contains(case), "{figure:?}: {case:?}");
                assert!(case.streams.is_some_and(|streams| (1..=STREAMS_MAX).contains(&streams)), "{case:?}");
            }
            let off = cases.iter().filter(|case| case.durability == LOGGING_OFF).count();
            let compared = matches!(figure, CicadaFigure::Three | CicadaFigure::Six);
            assert_eq!(off, if compared { 3 } else { 0 });
        }
        let both = |release| move |case: &Case| case.release == release && case.group.is_none();
        let four = CicadaFigure::Four.cases(&choice);
        for release in [LockRelease::Early, LockRelease::AfterDurable] {
            assert!(four.iter().filter(|case| both(release)(case)).count() >= 3 * 2 * 2);
        }
    }
}
