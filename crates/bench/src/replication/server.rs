//! The process of one server: a replica of the paper's replication, or a member of a Raft group.
//!
//! The process opens its database or its Raft log on its own device, which may be memory, with a
//! delay added to each sync. It prints the address on which it listens. A line on its standard
//! input asks for the number of syncs so far. The process ends when its standard input does, so
//! that it never outlives the measuring program.

use crate::host::device::Device;
use crate::replication::case::Scheme;
use clap::Args;
use katydid::{Database, EngineOptions, PagedOptions};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::delay;
use katydid_command::output::say;
use katydid_device::{DelayedDirectory, Directory, FileDirectory, MemoryDirectory, Waiting};
use katydid_replica::client_driven::{AnswerTable, Server, ServerOptions, paper_options};
use katydid_replica::{Replica, ReplicaOptions};
use std::io::BufRead;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Words before the address in the line that a server prints.
pub const LISTENS: &str = "listens at ";
/// A line that asks a server for the number of its syncs.
pub const ASK: &str = "syncs?";
/// Words before the number in the answer: the delayed calls so far, which are durable writes, syncs
/// and preparations.
pub const SYNCS: &str = "syncs: ";
/// Minimum delay, because a delayed directory counts syncs only if it delays them.
const DELAY_MIN: Duration = Duration::from_nanos(1);
/// Cluster id of the Raft group.
const CLUSTER: [u8; 16] = *b"katydid lab raft";
/// Bytes of pages in memory, enough for all pages.
const CACHE_BYTES: usize = 256 << 20;
/// Bytes of log between checkpoints: large enough that no checkpoint begins during a run.
const CHECKPOINT_BYTES: u64 = 2 << 30;

/// One server of `lab replication` or `lab replicas`.
#[derive(Debug, Args)]
pub struct ReplicaServer {
    /// Sync protocol of the paper's replication, or raft-quorum or raft-all, which are equal at a
    /// server
    #[arg(long, value_name = "SCHEME")]
    scheme: String,
    /// Number of the server in a Raft group
    #[arg(long, value_name = "N", default_value = "1")]
    id: u64,
    /// Address on which the server listens; with port 0 the system chooses a port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// Folder of the server
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Device of the log
    #[arg(long, value_enum, default_value = "memory")]
    device: Device,
    /// Time added to each sync of the server
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = delay)]
    delay: Duration,
    /// Time added to each request, one half before it and one half after it
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = delay)]
    network: Duration,
}

impl ReplicaServer {
    /// Serves until standard input ends.
    ///
    /// # Errors
    /// The scheme is unknown, the server cannot listen, or its database or replica cannot be opened
    /// or closed.
    pub fn run(self) -> Result<()> {
        let files = || FileDirectory::open(&self.folder).map_err(Failure::failed);
        let inner: Arc<dyn Directory> = match self.device {
            Device::File => Arc::new(files()?),
            Device::Memory => Arc::new(MemoryDirectory::new()),
        };
        let delayed = DelayedDirectory::new(inner, self.delay.max(DELAY_MIN), Waiting::Auto);
        let directory: Arc<dyn Directory> = Arc::new(delayed.clone());
        match self.scheme.parse::<Scheme>()? {
            Scheme::ClientDriven(sync) => {
                let paged = PagedOptions { cache_bytes: CACHE_BYTES, ..PagedOptions::default() };
                let mut options = paper_options(EngineOptions::from(paged), sync);
                options.advanced.checkpoint_bytes = CHECKPOINT_BYTES;
                options.advanced.log_soft_bytes = options.advanced.log_soft_bytes.max(CHECKPOINT_BYTES);
                options.advanced.log_hard_bytes = options.advanced.log_hard_bytes.max(CHECKPOINT_BYTES);
                let database = Database::open_in(directory, options)?;
                let listener = TcpListener::bind(&self.listen).map_err(Failure::failed)?;
                // The paper's transactions write no row about their own outcomes.
                let options = ServerOptions {
                    answers: AnswerTable::Volatile,
                    network_delay: self.network,
                    ..ServerOptions::default()
                };
                let server = Server::start(database, listener, options).map_err(Failure::failed)?;
                say(format!("replica {LISTENS}{}", server.address()))?;
                answer(&delayed)?;
                server.stop().map_err(Failure::failed)
            }
            Scheme::RaftQuorum | Scheme::RaftAll => {
                let mut options = ReplicaOptions::new(&self.folder, CLUSTER, self.id, self.listen);
                let paged = PagedOptions { cache_bytes: CACHE_BYTES, ..PagedOptions::default() };
                options.engine.engine = paged.into();
                options.log_directory = Some(directory);
                let replica = Replica::open(options).map_err(Failure::failed)?;
                say(format!("replica {LISTENS}{}", replica.address()))?;
                answer(&delayed)?;
                replica.close().map_err(Failure::failed)
            }
        }
    }
}

/// Answers the measuring program until standard input ends.
fn answer(log: &DelayedDirectory) -> Result<()> {
    for _line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        say(format!("{SYNCS}{}", log.delays()))?;
    }
    Ok(())
}
