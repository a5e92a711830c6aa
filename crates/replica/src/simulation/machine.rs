//! A simulated machine: a runtime with a clock of its own, disks, and a replica that runs on them.
//!
//! The simulation has one thread. The runtime runs for some simulated milliseconds at a time, and
//! its clock advances by as much. A paused machine does not run; its clock jumps when the machine
//! resumes. When a replica's life ends, the network and the disks first lose what the ending does
//! not keep, and then the runtime is dropped with all tasks.

use super::disk::{Disks, Mounted, SlowSyncer};
use super::network::{Host, Network, Port, address};
use crate::client_message::{ClientCall, ClientReply};
use crate::error::Result;
use crate::group::Group;
use crate::options::ReplicaOptions;
use crate::server::Clients;
use crate::status::Status;
use crate::types::Vote;
use katydid::testing::Background;
use katydid::{EngineKind, MemoryOptions, PagedOptions};
use katydid_raft_log::wal;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

pub const CLUSTER: [u8; 16] = [42; 16];

/// A simulated machine, with its runtime, its disks and its replica.
pub struct Machine {
    pub host: Host,
    engine: EngineKind,
    network: Arc<Network>,
    disks: Arc<Disks>,
    running: Option<Running>,
    /// Milliseconds by which this machine's clock advances per millisecond of the world's clock.
    pub rate: f64,
    owed: f64,
    pub is_paused: bool,
    /// Number of times that the replica was started.
    pub lives: u64,
}

struct Running {
    group: Arc<Group>,
    runtime: Runtime,
}

/// The way in which a replica's life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The process is killed.
    Kill,
    /// The machine loses power.
    PowerCut,
}

/// Makes a runtime whose clock the simulation advances. If several tasks wait for one value, tokio
/// wakes them in a random order; only with `tokio_unstable` can a program seed this order.
pub fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&fastrand::u64(..).to_le_bytes()));
    builder.enable_time().start_paused(true).build().expect("a runtime")
}

impl Machine {
    pub fn new(host: Host, engine: EngineKind, network: &Arc<Network>, seed: u64) -> Machine {
        Machine {
            host,
            engine,
            network: network.clone(),
            disks: Disks::new(seed),
            running: None,
            rate: 1.0,
            owed: 0.0,
            is_paused: false,
            lives: 0,
        }
    }

    fn options(&self) -> ReplicaOptions {
        let mut options = ReplicaOptions::new("", CLUSTER, self.host, address(self.host));
        let paged = PagedOptions { cache_bytes: 64 * 4096, page_bytes: 4096, ..PagedOptions::default() };
        let memory = MemoryOptions { memory_bytes: 64 << 20, streams: 1, ..MemoryOptions::default() };
        options.engine.engine = self.engine.with(paged, memory);
        options.log = small(options.log);
        let of_engine = std::mem::take(&mut options.engine.advanced.log);
        options.engine.advanced.log = small(of_engine);
        options.transport = Arc::new(Port { network: self.network.clone(), host: self.host });
        options.heartbeat = Duration::from_millis(50);
        options.election = Duration::from_millis(200);
        options.snapshot_entries = 25;
        options.kept_entries = 10;
        options.install_wait = Duration::from_secs(2);
        options
    }

    /// Starts the replica.
    ///
    /// # Errors
    /// The error of opening the replica.
    pub fn start(&mut self) -> Result<()> {
        self.lives += 1;
        let runtime = runtime();
        let syncer = Arc::new(SlowSyncer::default());
        runtime.spawn(syncer.clone().run());
        let place = Arc::new(Mounted { disks: self.disks.clone(), syncer });
        let group = runtime.block_on(Group::start(self.options(), place))?;
        (self.running, self.is_paused, self.owed) = (Some(Running { group, runtime }), false, 0.0);
        Ok(())
    }

    /// Runs for this many milliseconds of the world's clock.
    pub fn run(&mut self, ms: u64) {
        let Some(Running { runtime, .. }) = &self.running else { return };
        self.owed += ms as f64 * self.rate;
        if !self.is_paused {
            let whole = self.owed.floor();
            self.owed -= whole;
            let time = Duration::from_millis(whole as u64);
            runtime.block_on(async { tokio::time::sleep(time).await });
        }
    }

    /// Resumes a paused machine. Its clock jumps over the pause.
    pub fn resume(&mut self) {
        let Some(Running { runtime, .. }) = &self.running else { return };
        if std::mem::take(&mut self.is_paused) {
            let whole = std::mem::take(&mut self.owed).floor();
            runtime.block_on(tokio::time::advance(Duration::from_millis(whole as u64)));
        }
    }

    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    pub fn group(&self) -> Option<&Arc<Group>> {
        self.running.as_ref().map(|running| &running.group)
    }

    /// Begins a call of a client at this replica. The task ends while the machine runs.
    pub fn call(&self, call: ClientCall) -> JoinHandle<ClientReply> {
        let Running { group, runtime } = self.running.as_ref().expect("the machine runs");
        runtime.spawn(group.clone().call(call))
    }

    /// Returns the reply to a call that has ended, or `None` while the call runs.
    pub fn reply(&self, call: &mut JoinHandle<ClientReply>) -> Option<ClientReply> {
        let Running { runtime, .. } = self.running.as_ref().expect("the machine runs");
        call.is_finished().then(|| runtime.block_on(call).expect("the call does not panic"))
    }

    /// Returns the vote in the replica's log.
    pub fn vote(&self) -> Option<Vote> {
        let Running { group, runtime } = self.running.as_ref()?;
        runtime.block_on(group.saved_vote())
    }

    pub fn status(&self) -> Option<Status> {
        self.group().map(|group| group.status())
    }

    /// Ends the replica's life. The ending decides which bytes its disks keep.
    pub fn end(&mut self, ending: Ending, is_silent: bool) {
        let Some(Running { group, runtime }) = self.running.take() else { return };
        self.network.crash(self.host, is_silent && ending == Ending::PowerCut);
        match ending {
            Ending::Kill => self.disks.kill(),
            Ending::PowerCut => self.disks.cut_power(),
        }
        // The tasks may still write while they end. These writes go to the old devices, which are
        // replaced already.
        drop(runtime);
        drop(group);
    }

    /// Damages one of the disks, until [`Machine::mend_disk`] is called. The seed chooses the disk
    /// and the damage: one of the disk's next calls fails, or the disk is full from now on.
    pub fn fail_disk(&self) {
        self.disks.fail();
    }

    pub fn mend_disk(&self) {
        self.disks.mend();
    }
}

/// Sets options for a log with small files and without threads.
fn small(options: wal::Options) -> wal::Options {
    let files = wal::FileOptions {
        segment_bytes: 64 << 10,
        first_segment_bytes: 16 << 10,
        ring_bytes: 64 << 10,
        spare_segments: 1,
        ..wal::FileOptions::default()
    };
    wal::Options {
        medium: files.into(),
        reserve_bytes: 64 << 10,
        run_ahead_bytes: 8 << 10,
        background: Background::Caller,
        ..options
    }
}
