//! Simulated disks of a host: one device for the Raft log, and one device for each folder of the
//! state.
//!
//! The simulation has one thread. A sync of the Raft log takes time, during which the host may
//! crash. Making and removing a folder is durable at once; bytes in a folder are durable only after
//! a sync.

use crate::error::Result;
use crate::place::Place;
use crate::types::Types;
use fastrand::Rng;
use katydid_device::{Directory, SimDevice, Survival};
use katydid_raft_log::wal;
use katydid_raft_log::{PendingSync, RaftLog, Syncer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The simulated disks of a host.
pub struct Disks(Mutex<Inside>);

struct Inside {
    log: SimDevice,
    stores: BTreeMap<u64, SimDevice>,
    random: Rng,
}

impl Disks {
    pub fn new(seed: u64) -> Arc<Disks> {
        let mut random = Rng::with_seed(seed);
        let log = SimDevice::new(random.u64(..));
        Arc::new(Disks(Mutex::new(Inside { log, stores: BTreeMap::new(), random })))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power. The seed decides which of the bytes that were not synced survive.
    pub fn cut_power(&self) {
        let mut inside = self.inside();
        let Inside { log, stores, random } = &mut *inside;
        for device in std::iter::once(log).chain(stores.values_mut()) {
            let survival = if random.bool() { Survival::DropAll } else { Survival::Random };
            *device = device.reopen_with(random.u64(..), survival);
        }
    }

    /// Kills the process. All written bytes survive. If the sync of a directory has failed, the
    /// power is cut instead (see [`SimDevice::has_lost_names`]).
    pub fn kill(&self) {
        let mut inside = self.inside();
        let Inside { log, stores, .. } = &mut *inside;
        if std::iter::once(&*log).chain(stores.values()).any(SimDevice::has_lost_names) {
            drop(inside);
            return self.cut_power();
        }
        for device in std::iter::once(log).chain(stores.values_mut()) {
            *device = device.reopen_after_kill();
        }
    }

    /// Makes a device fail at one of its next calls, or makes it full until [`Disks::mend`] is
    /// called. On a full device each call that needs space fails.
    pub fn fail(&self) {
        let mut inside = self.inside();
        let Inside { log, stores, random } = &mut *inside;
        let of_state = stores.values().last().filter(|_| random.bool());
        let device = of_state.unwrap_or(log);
        match random.bool() {
            true => device.set_capacity(device.used()),
            false => device.fail_at(device.steps() + random.u64(..20), katydid_device::Fault::Io),
        }
    }

    /// Ends the failures, and gives back the space.
    pub fn mend(&self) {
        let inside = self.inside();
        for device in std::iter::once(&inside.log).chain(inside.stores.values()) {
            device.heal();
            device.set_capacity(u64::MAX);
        }
    }
}

/// The disks during one life of a replica.
pub struct Mounted {
    pub disks: Arc<Disks>,
    pub syncer: Arc<SlowSyncer>,
}

impl Place for Mounted {
    fn describe(&self) -> String {
        "simulated disks".to_owned()
    }

    fn open_log(&self, options: wal::Options) -> Result<RaftLog<Types>> {
        let directory = self.disks.inside().log.directory();
        Ok(RaftLog::open_with_syncer(directory, options, self.syncer.clone())?)
    }

    fn stores(&self) -> Result<Vec<u64>> {
        Ok(self.disks.inside().stores.keys().copied().collect())
    }

    fn store(&self, number: u64) -> Result<Arc<dyn Directory>> {
        let mut inside = self.disks.inside();
        let Inside { stores, random, .. } = &mut *inside;
        Ok(stores.entry(number).or_insert_with(|| SimDevice::new(random.u64(..))).directory())
    }

    fn remove_store(&self, number: u64) -> Result<()> {
        self.disks.inside().stores.remove(&number);
        Ok(())
    }
}

/// Runs the syncs of a Raft log in their order, after a delay.
#[derive(Default)]
pub struct SlowSyncer(Mutex<VecDeque<PendingSync>>);

impl SlowSyncer {
    fn queue(&self) -> MutexGuard<'_, VecDeque<PendingSync>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum delay of a sync in milliseconds.
const SYNC_MS: u64 = 4;

impl Syncer for SlowSyncer {
    fn submit(&self, sync: PendingSync) {
        self.queue().push_back(sync);
    }
}

impl SlowSyncer {
    /// Runs the submitted syncs until the task is dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=SYNC_MS))).await;
            loop {
                // The latch is not held while a sync runs, because its completion may submit the
                // next sync.
                let Some(sync) = self.queue().pop_front() else { break };
                sync.run();
            }
        }
    }
}

/// A process that opened names which no sync makes durable would lose them at a later power cut.
#[test]
fn a_kill_after_a_failed_directory_sync_leaves_durable_names_only() {
    use katydid_device::{Create, Fault, Method};
    let disks = Disks::new(1);
    let log = || disks.inside().log.clone();
    for name in ["a", "b", "c", "d"] {
        log().directory().open(name, Create::New, Method::Buffered).expect("create");
    }
    disks.kill();
    assert_eq!(log().image().len(), 4, "a kill alone loses nothing");
    log().fail_at(log().steps(), Fault::Io);
    log().directory().sync().expect_err("planned");
    disks.kill();
    let seen = log().image();
    disks.cut_power();
    assert_eq!(log().image(), seen);
}
