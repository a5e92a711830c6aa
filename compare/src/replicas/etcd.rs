//! A group of etcd, driven by its gRPC interface. All clients send their requests to the leader,
//! and several clients share a connection. etcd's own benchmark has options for both.
//!
//! The messages have only the fields that this program uses; the numbers of the fields are etcd's.

use super::{Client, Group, PATIENCE, wait_for};
use crate::Result;
use crate::process::Process;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// Number of clients that share a connection.
const CLIENTS_EACH: usize = 10;

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutResponse {}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(bool, tag = "9")]
    count_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(int64, tag = "4")]
    count: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(uint64, tag = "2")]
    member_id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(uint64, tag = "4")]
    leader: u64,
}

/// Calls a method of etcd.
async fn call<A, B>(channel: Channel, path: &'static str, asked: A) -> Result<B>
where
    A: prost::Message + Send + Sync + 'static,
    B: prost::Message + Default + Send + Sync + 'static,
{
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let path = PathAndQuery::from_static(path);
    let codec = ProstCodec::<A, B>::default();
    Ok(grpc.unary(tonic::Request::new(asked), path, codec).await?.into_inner())
}

pub struct Etcd {
    /// A runtime of one thread, as a client of Katydid has.
    runtime: Runtime,
    leader: String,
    connections: std::sync::Mutex<Vec<Channel>>,
    _members: Vec<Process>,
}

/// An address of this machine with a port that is free now.
fn free_address() -> Result<String> {
    Ok(format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?))
}

impl Etcd {
    pub fn start(place: &Path) -> Result<Etcd> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let addresses: Vec<(String, String)> =
            (0..3).map(|_| Ok((free_address()?, free_address()?))).collect::<Result<_>>()?;
        let peers = (1..).zip(&addresses).map(|(id, (_, peer))| format!("m{id}={peer}"));
        let peers = peers.collect::<Vec<_>>().join(",");
        let mut members = Vec::new();
        for (id, (address, peer)) in (1..).zip(&addresses) {
            let mut command = Command::new("etcd");
            command.args(["--name", &format!("m{id}"), "--data-dir"]).arg(place.join(format!("m{id}")));
            command.args(["--listen-client-urls", address, "--advertise-client-urls", address]);
            command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
            command.args(["--initial-cluster", &peers, "--initial-cluster-state", "new"]);
            command.args(["--log-level", "error", "--logger", "zap"]);
            let log = File::create(place.join(format!("m{id}.log")))?;
            command.stdout(log.try_clone()?).stderr(log);
            let started = Process::start(&mut command);
            members.push(started.map_err(|error| format!("{error}; Debian: apt-get install etcd-server"))?);
        }
        let leads = |address: &str| -> Result<bool> {
            let channel = runtime.block_on(Endpoint::from_shared(address.to_owned())?.connect())?;
            let asked = call(channel, "/etcdserverpb.Maintenance/Status", StatusRequest {});
            let status: StatusResponse = runtime.block_on(asked)?;
            Ok(status.leader != 0 && status.header.is_some_and(|header| header.member_id == status.leader))
        };
        let leader = wait_for("etcd's members elect no leader", || {
            // A member that has not started yet refuses the connection.
            addresses.iter().map(|(address, _)| address).find(|address| leads(address).unwrap_or(false))
        })?;
        Ok(Etcd { leader: leader.clone(), runtime, connections: Default::default(), _members: members })
    }

    fn connect(&self) -> Result<Channel> {
        let endpoint = Endpoint::from_shared(self.leader.clone())?.timeout(PATIENCE).tcp_nodelay(true);
        Ok(self.runtime.block_on(endpoint.connect())?)
    }
}

impl Group for Etcd {
    fn client(&self, thread: usize) -> Result<Box<dyn Client + '_>> {
        let mut connections = self.connections.lock().expect("no thread panics");
        while connections.len() <= thread / CLIENTS_EACH {
            connections.push(self.connect()?);
        }
        Ok(Box::new(Session { group: self, channel: connections[thread / CLIENTS_EACH].clone() }))
    }

    fn keys(&self) -> Result<u64> {
        // With these bounds etcd counts all keys.
        let all = RangeRequest { key: vec![0], range_end: vec![0], count_only: true };
        let found: RangeResponse =
            self.runtime.block_on(call(self.connect()?, "/etcdserverpb.KV/Range", all))?;
        Ok(found.count.try_into()?)
    }

    /// Kills the members. They need not end in order, because their folders are removed.
    fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Session<'g> {
    group: &'g Etcd,
    channel: Channel,
}

impl Client for Session<'_> {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        let asked = call(self.channel.clone(), "/etcdserverpb.KV/Put", PutRequest { key, value });
        let _answer: PutResponse = self.group.runtime.block_on(asked)?;
        Ok(())
    }
}
