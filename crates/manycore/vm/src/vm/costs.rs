//! The costs of a machine in whole picoseconds, so that sums of costs are exact.

use crate::machine::Machine;

/// A time in picoseconds.
pub(super) type Ps = u64;

/// The costs of a machine, in picoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    pub(super) load: Ps,
    pub(super) store: Ps,
    pub(super) modify: Ps,
    pub(super) share: [Ps; 2],
    pub(super) own: [Ps; 2],
    pub(super) serve: Ps,
    pub(super) pause: Ps,
    pub(super) yield_now: Ps,
    pub(super) sleep: Ps,
    pub(super) wake: Ps,
    pub(super) woken: Ps,
    pub(super) nap: Ps,
    pub(super) switch: Ps,
    pub(super) quantum: Ps,
    pub(super) insert: Ps,
    copy: Ps,
    sum: Ps,
    // This cost and the two costs below are picoseconds for 1,024 bytes.
    sum_kib: Ps,
    copy_kib: Ps,
    shared_kib: Ps,
}

pub(super) fn ps(nanos: f64) -> Ps {
    (nanos * 1000.0).round() as Ps
}

impl Costs {
    pub(super) fn of(machine: &Machine) -> Self {
        let (n, b) = (&machine.nanos, &machine.bandwidth);
        Costs {
            load: ps(n.load),
            store: ps(n.store),
            modify: ps(n.modify),
            share: [ps(n.share), ps(n.share_far)],
            own: [ps(n.own), ps(n.own_far)],
            serve: ps(n.serve),
            pause: ps(n.pause),
            yield_now: ps(n.yield_now),
            sleep: ps(n.sleep),
            wake: ps(n.wake),
            woken: ps(n.woken),
            nap: ps(n.nap),
            switch: ps(n.switch),
            quantum: ps(n.quantum),
            insert: ps(n.insert),
            copy: ps(n.copy),
            sum: ps(n.sum),
            sum_kib: ps(1024.0 / b.sum),
            copy_kib: ps(1024.0 / b.copy),
            shared_kib: ps(1024.0 / b.shared),
        }
    }

    pub(super) fn sum(&self, bytes: u64) -> Ps {
        self.sum + bytes * self.sum_kib / 1024
    }

    /// Returns the time of a copy by one core.
    pub(super) fn copy(&self, bytes: u64) -> Ps {
        self.copy + bytes * self.copy_kib / 1024
    }

    /// Returns the time for which a copy occupies the memory bandwidth that the cores of a socket
    /// share.
    pub(super) fn shared(&self, bytes: u64) -> Ps {
        bytes * self.shared_kib / 1024
    }
}
