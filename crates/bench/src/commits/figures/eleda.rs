//! ELEDA's figures about commits.
//!
//! Pure functions.

use super::spec::{IN_FLIGHT, ListFlag, Lists, Spec, fill, syncs_called};
use super::systems::{RING, one_work};
use crate::commits::case::{Case, Work};
use crate::grid::flags::or;
use crate::host::device::{Device, MethodName};
use katydid_wal::{InserterKind, SyncKind};

pub const FOURTEEN: Spec = Spec {
    name: "eleda14",
    about: "throughput and bandwidth over the bytes of a commit (ELEDA, Figure 14)",
    saw: "ELEDA's throughput falls as commits grow, while its bandwidth rises to 6.2 GiB/s of two devices at 5 KiB; systems that sync for \
          each commit stay slow at every size",
    note: "inserts into the store by 32 clients, with the systems of eleda8; ELEDA has a unit of 512 KiB. `to best` is the log's bandwidth \
           divided by that of the device's best sequential durable writes in the same round",
    varies: &[ListFlag::Payload, ListFlag::InFlight],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.35,
    rounds: 2,
};

pub const EIGHTEEN: Spec = Spec {
    name: "eleda18",
    about: "bandwidth and the distribution of commit latency with I/O units of 64 KiB and 512 KiB (ELEDA, Figure 18)",
    saw: "64 KiB answers ten times sooner, 512 KiB moves twice the bytes (6.9 against 3.2 GiB/s), so users must choose",
    note: "the log alone, 32 clients with 100 commits in flight and 2 with 1,000. With pipelined, which has inserter grasshopper, a write \
           begins when a unit is full or after 1 ms, as the paper's flusher fills its buffer; with adaptive a write has at most the size \
           of a unit. Without a unit a write takes all filled bytes, up to 1 MiB and half the ring",
    varies: &[ListFlag::Payload, ListFlag::Sync, ListFlag::IoUnit],
    method: MethodName::Direct,
    device: Device::File,
    seconds: 0.6,
    rounds: 3,
};

pub fn fourteen(lists: &Lists, plain: &Case) -> Vec<Case> {
    const CLIENTS: usize = 32;
    const UNIT: usize = 512 << 10;
    let mut cases = Vec::new();
    for &payload in or(&lists.payloads, &[512, 1024, 2048, 3072, 4096, 5120]) {
        for &in_flight in or(&lists.in_flight, IN_FLIGHT) {
            cases.extend(one_work(plain, Work::Inserts { value: payload }, CLIENTS, in_flight, UNIT));
        }
    }
    cases
}

pub fn eighteen(lists: &Lists, plain: &Case) -> Vec<Case> {
    let own = syncs_called(&["pipelined", "adaptive"]);
    let units: Vec<_> =
        or(&lists.io_units, &[64 << 10, 512 << 10]).iter().copied().map(Some).chain([None]).collect();
    let mut cases = Vec::new();
    for &payload in or(&lists.payloads, &[120, 4096]) {
        for &sync in or(&lists.syncs, &own) {
            for &io_unit in &units {
                let is_paper = sync == SyncKind::Pipelined;
                let group = io_unit.filter(|_| is_paper).map(fill);
                let papers = lists.inserter.unwrap_or(InserterKind::Grasshopper);
                let ring = is_paper.then_some(RING);
                let inserter = if is_paper { papers } else { plain.inserter };
                for (threads, in_flight) in [(32, 100), (2, 1000)] {
                    let work = Work::Log { payload };
                    cases.push(Case {
                        work,
                        sync,
                        inserter,
                        threads,
                        in_flight,
                        io_unit,
                        group,
                        ring,
                        ..plain.clone()
                    });
                }
            }
        }
    }
    cases
}
