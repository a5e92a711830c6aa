//! A group of `katydid-replica`. Each replica is a process of this program.

use super::{Client, Group, PATIENCE, wait_for};
use crate::process::Process;
use crate::{Result, flags};
use katydid_replica::{
    ClientOptions, ReadAt, Replica, ReplicaId, ReplicaOptions, Replicated, RequestId, Role, WriteOptions,
    WriteSet,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Table of the keys.
const TABLE: &str = "puts";
/// Number of rows that one request asks for.
const ROWS: u32 = 10_000;
/// Words before the address in the line that a replica prints.
const LISTENS: &str = "listens at ";
/// Id of the cluster.
const CLUSTER: [u8; 16] = *b"katydid compares";

/// Runs one replica until standard input ends: the hidden command `replica-server ID FOLDER`.
pub fn serve(arguments: &[String]) -> Result<()> {
    let [id, folder] = arguments else { return Err("replica-server wants an id and a folder".into()) };
    let id = flags::value("ID", &Some(id.clone()))?;
    let replica = Replica::open(ReplicaOptions::new(PathBuf::from(folder), CLUSTER, id, "127.0.0.1:0"))?;
    println!("{LISTENS}{}", replica.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(replica.close()?)
}

pub struct Katydid {
    client: katydid_replica::Client,
    options: WriteOptions,
    replicas: Vec<Process>,
}

impl Katydid {
    /// Starts a group. With `all` every replica acknowledges a put, otherwise a majority.
    pub fn start(place: &Path, all: bool) -> Result<Katydid> {
        let (mut replicas, mut addresses) = (Vec::new(), BTreeMap::<ReplicaId, String>::new());
        for id in 1..=3 {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["replica-server", &id.to_string()]).arg(place.join(id.to_string()));
            let mut replica = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
            let mut line = String::new();
            if let Some(out) = replica.0.stdout.take() {
                BufReader::new(out).read_line(&mut line)?;
            }
            let address = line.trim_end().strip_prefix(LISTENS).ok_or("a replica did not start")?;
            addresses.insert(id, address.to_owned());
            replicas.push(replica);
        }
        let client = katydid_replica::Client::new(ClientOptions::new(addresses.values().cloned()))?;
        client.initialize(&addresses[&1], &addresses)?;
        wait_for("the replicas elect no leader", || {
            let leads = |address: &&String| client.status(address).is_ok_and(|of| of.role == Role::Leader);
            addresses.values().find(leads).cloned()
        })?;
        let durability = if all { Replicated::All } else { Replicated::Quorum };
        Ok(Katydid { client, options: WriteOptions { durability, wait: PATIENCE }, replicas })
    }
}

impl Group for Katydid {
    fn client(&self, _thread: usize) -> Result<Box<dyn Client + '_>> {
        let last = RequestId { client: self.client.open_client()?, sequence: 0 };
        Ok(Box::new(Session { group: self, last }))
    }

    fn keys(&self) -> Result<u64> {
        let (mut low, mut count) = (Bound::Unbounded, 0);
        loop {
            let found = self.client.range(TABLE, (low, Bound::Unbounded), ROWS, ReadAt::Leader)?;
            count += found.rows.len() as u64;
            match found.rows.last() {
                Some((last, _)) if !found.is_whole => low = Bound::Excluded(last.clone()),
                _ => return Ok(count),
            }
        }
    }

    fn stop(self: Box<Self>) -> Result<()> {
        for mut replica in self.replicas {
            drop(replica.0.stdin.take());
            let ended = replica.0.wait()?;
            if !ended.success() {
                return Err(format!("a replica did not close well: {ended}").into());
            }
        }
        Ok(())
    }
}

struct Session<'g> {
    group: &'g Katydid,
    last: RequestId,
}

impl Client for Session<'_> {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.last.sequence += 1;
        let set = WriteSet::default().put(TABLE, key, value);
        let options = self.group.options;
        self.group.client.write(self.last, set, options)?.confirmed()?;
        Ok(())
    }
}
