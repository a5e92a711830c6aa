//! Replicas of one group over loopback, whose network can be cut.

use katydid::{EngineKind, MemoryOptions, Options, PagedOptions};
use katydid_replica::{
    Connection, Listener, Replica, ReplicaId, ReplicaOptions, RequestId, Result, Status, Tcp, Transport,
};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum wait for a state that must come. No test measures the wait.
pub const LONG: Duration = Duration::from_secs(120);

const CLUSTER: [u8; 16] = [42; 16];

/// The pairs of replicas between which the network is cut.
#[derive(Default)]
pub struct Cuts {
    addresses: Mutex<BTreeMap<String, ReplicaId>>,
    cut: Mutex<BTreeSet<(ReplicaId, ReplicaId)>>,
}

impl Cuts {
    fn check(&self, from: ReplicaId, to: Option<ReplicaId>) -> io::Result<()> {
        match to {
            Some(to) if self.cut.lock().expect("cuts").contains(&(from, to)) => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "the network is cut"))
            }
            _ => Ok(()),
        }
    }
}

/// TCP of one replica, subject to the cuts.
struct Cuttable {
    from: ReplicaId,
    cuts: Arc<Cuts>,
}

type Boxed<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl Transport for Cuttable {
    fn connect(&self, address: &str) -> Boxed<Box<dyn Connection>> {
        let (from, cuts) = (self.from, self.cuts.clone());
        let to = cuts.addresses.lock().expect("addresses").get(address).copied();
        let connecting = Tcp.connect(address);
        Box::pin(async move {
            cuts.check(from, to)?;
            let inside = connecting.await?;
            Ok(Box::new(CuttableConnection { inside, from, to, cuts }) as Box<dyn Connection>)
        })
    }

    fn listen(&self, address: &str) -> Boxed<Box<dyn Listener>> {
        Tcp.listen(address)
    }
}

/// A connection that fails at its next use after its two replicas are cut from each other.
struct CuttableConnection {
    inside: Box<dyn Connection>,
    from: ReplicaId,
    to: Option<ReplicaId>,
    cuts: Arc<Cuts>,
}

impl AsyncRead for CuttableConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cuts.check(self.from, self.to)?;
        Pin::new(&mut self.inside).poll_read(cx, buf)
    }
}

impl AsyncWrite for CuttableConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.cuts.check(self.from, self.to)?;
        Pin::new(&mut self.inside).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inside).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inside).poll_shutdown(cx)
    }
}

/// Keys and values.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Replicas of one group over loopback, whose network can be cut.
pub struct Cluster {
    folder: TempDir,
    engine: EngineKind,
    pub cuts: Arc<Cuts>,
    addresses: BTreeMap<ReplicaId, String>,
    pub open: BTreeMap<ReplicaId, Replica>,
    /// Number of entries between two snapshots.
    pub snapshot_entries: u64,
    /// Maximum number of writes in flight at a replica that is opened from now on.
    pub in_flight_max: usize,
}

impl Cluster {
    /// Opens the replicas 1 to `count`, which are not a group yet.
    pub fn replicas(count: u64, engine: EngineKind) -> Self {
        let mut cluster = Cluster {
            folder: tempfile::tempdir().expect("a folder"),
            engine,
            cuts: Arc::default(),
            addresses: BTreeMap::new(),
            open: BTreeMap::new(),
            snapshot_entries: 10_000,
            in_flight_max: 4_096,
        };
        (1..=count).for_each(|id| cluster.open(id));
        cluster
    }

    /// Makes a group of three replicas, and waits for a leader.
    pub fn of_three(engine: EngineKind) -> Self {
        let cluster = Self::replicas(3, engine);
        cluster.initialize();
        cluster
    }

    /// Makes a group of all open replicas, and waits for a leader.
    pub fn initialize(&self) {
        self.open[&1].initialize(&self.addresses).expect("initialize");
        self.leader();
    }

    pub fn open(&mut self, id: ReplicaId) {
        self.try_open(id).expect("open");
    }

    /// Opens a replica, or returns the error of opening it.
    pub fn try_open(&mut self, id: ReplicaId) -> Result<()> {
        let paged = PagedOptions { cache_bytes: 4 << 20, ..PagedOptions::default() };
        let memory = MemoryOptions { memory_bytes: 64 << 20, streams: 1, ..MemoryOptions::default() };
        let address = self.addresses.get(&id).map_or("127.0.0.1:0", String::as_str);
        let mut options = ReplicaOptions::new(self.path(id), CLUSTER, id, address);
        options.engine = Options { engine: self.engine.with(paged, memory), ..Options::default() };
        options.transport = Arc::new(Cuttable { from: id, cuts: self.cuts.clone() });
        options.snapshot_entries = self.snapshot_entries;
        options.in_flight_max = self.in_flight_max;
        options.kept_entries = 10;
        options.heartbeat = Duration::from_millis(100);
        options.election = Duration::from_millis(600);
        let replica = Replica::open(options)?;
        let address = replica.address().to_owned();
        self.cuts.addresses.lock().expect("addresses").insert(address.clone(), id);
        self.addresses.insert(id, address);
        self.open.insert(id, replica);
        Ok(())
    }

    /// Returns the folder of a replica.
    pub fn path(&self, id: ReplicaId) -> PathBuf {
        self.folder.path().join(id.to_string())
    }

    pub fn close(&mut self, id: ReplicaId) {
        self.open.remove(&id).expect("it is open").close().expect("close");
    }

    pub fn address(&self, id: ReplicaId) -> &str {
        &self.addresses[&id]
    }

    /// Waits for a leader among the open replicas, and returns it.
    pub fn leader(&self) -> &Replica {
        self.leader_among(&self.open.keys().copied().collect::<Vec<_>>())
    }

    /// Waits until all of these replicas follow one of them, and returns that leader.
    pub fn leader_among(&self, ids: &[ReplicaId]) -> &Replica {
        loop {
            let first = &self.open[&ids[0]];
            let among = ids.to_vec();
            let led = move |status: &Status| status.leader.is_some_and(|leader| among.contains(&leader));
            let leader = first.wait_until(LONG, led).expect("a leader").leader;
            let follows = |id: &ReplicaId| {
                self.open[id]
                    .wait_until(Duration::from_secs(5), move |status| status.leader == leader)
                    .is_ok()
            };
            if ids.iter().all(follows) {
                return &self.open[&leader.expect("a leader")];
            }
        }
    }

    /// Cuts a replica from all others, both ways.
    pub fn isolate(&self, id: ReplicaId) {
        let mut cut = self.cuts.cut.lock().expect("cuts");
        for other in self.addresses.keys().filter(|other| **other != id) {
            cut.extend([(id, *other), (*other, id)]);
        }
    }

    pub fn heal(&self) {
        self.cuts.cut.lock().expect("cuts").clear();
    }

    /// Waits until all open replicas have applied the leader's last entry. Checks that they have
    /// equal rows in these tables, and returns the rows.
    pub fn same_rows(&self, tables: &[&str]) -> BTreeMap<String, Rows> {
        let applied = self.leader().status().last_index;
        let mut all: Option<BTreeMap<String, _>> = None;
        for (id, replica) in &self.open {
            replica.wait_until(LONG, move |status| status.applied >= applied).expect("applied");
            let read = |table: &&str| (table.to_string(), rows(replica, table));
            let found: BTreeMap<_, _> = tables.iter().map(read).collect();
            match &all {
                Some(all) => assert!(*all == found, "replica {id} has other rows"),
                None => all = Some(found),
            }
        }
        all.expect("replicas")
    }
}

/// Returns the rows of a table in the applied state of one replica.
pub fn rows(replica: &Replica, table: &str) -> Rows {
    let all = |view: &katydid_replica::ReadView| view.range(table, .., usize::MAX);
    replica.read_applied(all).expect("read")
}

pub fn request(client: u64, sequence: u64) -> RequestId {
    RequestId { client, sequence }
}
