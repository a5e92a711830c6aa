//! The figures and tables of Efficient flushing about replication.
//!
//! Pure functions.

use super::case::{Case, Scheme, Work};
use crate::grid::flags::or;

/// The paper's numbers of client threads.
const THREADS: [usize; 5] = [8, 16, 32, 64, 128];

/// A figure or table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Seven,
    Eight,
    TableTwo,
    TableThree,
}

/// Description of a figure.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    /// Subject of the figure, with its number in the paper.
    pub about: &'static str,
    /// Results of the paper.
    pub saw: &'static str,
    /// Set-up of our servers.
    pub note: &'static str,
    pub work: Work,
    /// Numbers of replicas.
    pub replicas: &'static [usize],
}

/// Lists from the command line. An empty list leaves the figure's own.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    pub threads: Vec<usize>,
    pub replicas: Vec<usize>,
    pub schemes: Vec<Scheme>,
}

const NOTE: &str = "each server is a process on this machine, with a log on a device of its own, through the page cache, with inserter \
                    consolidated and 16 slots. Clients wait for the network's delay in each request, except those of Raft, because the \
                    timers of its connections have a resolution of 1 ms. After each run all replicas had equal rows, as many as were \
                    acknowledged";

impl Figure {
    pub const ALL: [Figure; 4] = [Figure::Seven, Figure::Eight, Figure::TableTwo, Figure::TableThree];

    pub fn spec(self) -> Spec {
        match self {
            Figure::Seven => Spec {
                name: "flushing7",
                about: "inserts of 20-byte keys and 100-byte values at one replica and at three (efficient flushing, Figure 7)",
                saw: "aggregated over slotted, the existing scheme: 1.3, 2.5, 1.93, 1.5 and 1.45 times at 8, 16, 32, 64 and 128 threads with one \
                      replica, and 4.6, 8.1, 9.7, 5.15 and 2.26 times with three",
                note: NOTE,
                work: Work::Insert,
                replicas: &[1, 3],
            },
            Figure::Eight => Spec {
                name: "flushing8",
                about: "sysbench's writing transactions at one replica and at three (efficient flushing, Figure 8)",
                saw: "aggregated over slotted, the existing scheme: 1.25, 2.1, 1.92, 1.38 and 1.3 times at 8, 16, 32, 64 and 128 threads with one \
                      replica, and 1.06, 1.01, 8.19, 4.52 and 1.65 times with three",
                note: NOTE,
                work: Work::Sysbench,
                replicas: &[1, 3],
            },
            Figure::TableTwo => Spec {
                name: "flushing-table2",
                about: "where the time of an insert goes with one replica (efficient flushing, Table 2)",
                saw: "aggregated waits 2.2 to 3.5 times less for the sync lock than slotted, and is 1.9 to 3.7 times as fast at the server",
                note: NOTE,
                work: Work::Insert,
                replicas: &[1],
            },
            Figure::TableThree => Spec {
                name: "flushing-table3",
                about: "where the time of an insert goes with three replicas (efficient flushing, Table 3)",
                saw: "aggregated waits 3.1 to 4.8 times less for the sync lock than slotted, and is 2.3 to 5 times as fast at the servers",
                note: NOTE,
                work: Work::Insert,
                replicas: &[3],
            },
        }
    }

    pub fn name(self) -> &'static str {
        self.spec().name
    }

    pub fn is_table(self) -> bool {
        matches!(self, Figure::TableTwo | Figure::TableThree)
    }

    /// The figure's own schemes. Figure 8 leaves out Raft, because only the process of a Raft
    /// leader runs transactions with reads. The tables leave out Raft, because a Raft group has no
    /// counters of committers.
    fn schemes(self) -> &'static [Scheme] {
        match self {
            Figure::Seven => &Scheme::ALL,
            Figure::Eight | Figure::TableTwo | Figure::TableThree => &Scheme::CLIENT_DRIVEN,
        }
    }

    /// The cases of the figure with the command line's lists.
    pub fn cases(self, lists: &Lists) -> Vec<Case> {
        let spec = self.spec();
        let mut cases = Vec::new();
        for &replicas in or(&lists.replicas, spec.replicas) {
            for &threads in or(&lists.threads, &THREADS) {
                let schemes = or(&lists.schemes, self.schemes()).iter();
                // With one replica, `raft-all` equals `raft-quorum`.
                let differs = |scheme: &&Scheme| replicas > 1 || **scheme != Scheme::RaftAll;
                let case = |scheme: &Scheme| Case { work: spec.work, replicas, scheme: *scheme, threads };
                cases.extend(schemes.filter(differs).map(case));
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raft_stands_beside_inserts_only_and_once_at_one_replica() {
        let of = |figure: Figure, replicas| {
            let cases =
                figure.cases(&Lists { threads: vec![8], replicas: vec![replicas], ..Lists::default() });
            cases.iter().map(|case| case.scheme.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(Figure::Seven, 1), ["slotted", "aggregated", "adaptive", "raft-quorum"]);
        assert_eq!(of(Figure::Seven, 3), ["slotted", "aggregated", "adaptive", "raft-quorum", "raft-all"]);
        assert_eq!(of(Figure::Eight, 3), ["slotted", "aggregated", "adaptive"]);
        assert_eq!(Figure::TableThree.cases(&Lists::default()).len(), 15);
    }
}
