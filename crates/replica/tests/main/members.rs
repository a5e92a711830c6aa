//! Members that join, leave, and take over the leadership.

use crate::cluster::{Cluster, LONG, request};
use katydid::EngineKind;
use katydid_device::{DelayedDirectory, Directory, MemoryDirectory, Waiting};
use katydid_replica::{
    Client, ClientOptions, Connection, Error, Listener, Replica, ReplicaOptions, Status, Tcp, Transport,
    WriteOptions, WriteSet,
};
use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// An address at which nothing listens, because the system does not choose such a low port.
const NOBODY: &str = "127.0.0.1:1";

/// Commits some entries.
fn write_some(leader: &Replica) {
    let client = leader.open_client().expect("a client");
    for sequence in 1..=20_u64 {
        let set = WriteSet::default().put("t", sequence.to_be_bytes(), "x");
        leader.write(request(client, sequence), set, WriteOptions::default()).expect("commit");
    }
}

#[test]
fn a_new_member_gets_the_log_votes_and_leads_and_another_leaves() {
    let mut cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader().clone();
    let client = leader.open_client().expect("a client");
    for sequence in 1..=20_u64 {
        let set = WriteSet::default().put("t", sequence.to_be_bytes(), "x");
        leader.write(request(client, sequence), set, WriteOptions::default()).expect("commit");
    }
    cluster.open(4);
    leader.add_learner(4, cluster.address(4)).expect("add");
    let first = leader.status();
    assert!(!first.voters.contains(&4) && first.members.contains_key(&4));
    let gone = *first.voters.iter().find(|id| **id != first.id).expect("a follower");
    let voters: BTreeSet<u64> = first.voters.iter().copied().filter(|id| *id != gone).chain([4]).collect();
    leader.change_voters(&voters).expect("change");
    let index = leader.status().last_index;
    cluster.open[&4].wait_until(LONG, move |status| status.applied >= index).expect("applied");
    assert_eq!(leader.status().voters, voters);
    cluster.close(gone);

    loop {
        // A transfer of the leadership may fail, so ask again.
        cluster.leader().transfer_leader(4).expect("transfer");
        if cluster.leader().status().id == 4 {
            break;
        }
    }
    cluster.leader().transfer_leader(4).expect("it leads already");
    let new = cluster.leader();
    new.write(request(client, 21), WriteSet::default().put("t", "last", "x"), WriteOptions::default())
        .expect("commit");
    assert_eq!(cluster.same_rows(&["t"])["t"].len(), 21);
}

#[test]
fn a_member_is_added_when_it_has_the_log_and_not_before() {
    let mut cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader().clone();
    write_some(&leader);
    let index = leader.status().last_index;
    // The member has an address, but it does not run yet.
    cluster.open(4);
    cluster.close(4);
    let (adding, address) = (leader.clone(), cluster.address(4).to_owned());
    let adding = std::thread::spawn(move || {
        adding.add_learner(4, &address).map(|()| adding.status().matched.get(&4).copied())
    });
    leader.wait_until(LONG, |status| status.members.contains_key(&4)).expect("a member");
    cluster.open(4);
    let matched = adding.join().expect("no panic").expect("added");
    assert!(matched >= Some(index), "it was added with the log up to {matched:?} of {index}");
}

#[test]
fn the_address_of_a_member_can_be_corrected() {
    let mut cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader().clone();
    write_some(&leader);
    cluster.open(4);
    let adding = leader.clone();
    let adding = std::thread::spawn(move || adding.add_learner(4, NOBODY));
    // One change of the members at a time is possible.
    let is_committed = |status: &Status| status.committed == status.last_index;
    let is_member = move |status: &Status| status.members.contains_key(&4) && is_committed(status);
    leader.wait_until(LONG, is_member).expect("a member");
    leader.add_learner(4, cluster.address(4)).expect("added");
    assert_eq!(leader.status().members[&4], cluster.address(4));
    adding.join().expect("no panic").expect("the first call waits for the same member");
    let index = leader.status().last_index;
    cluster.open[&4].wait_until(LONG, move |status| status.applied >= index).expect("applied");
}

/// TCP that tells when a connection which was accepted has ended.
struct Watched(Sender<()>);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

impl Transport for Watched {
    fn connect(&self, address: &str) -> Boxed<'static, Box<dyn Connection>> {
        Tcp.connect(address)
    }

    fn listen(&self, address: &str) -> Boxed<'static, Box<dyn Listener>> {
        let (listening, ended) = (Tcp.listen(address), self.0.clone());
        Box::pin(async move { Ok(Box::new(WatchedListener(listening.await?, ended)) as Box<dyn Listener>) })
    }
}

struct WatchedListener(Box<dyn Listener>, Sender<()>);

impl Listener for WatchedListener {
    fn address(&self) -> String {
        self.0.address()
    }

    fn accept(&mut self) -> Boxed<'_, Box<dyn Connection>> {
        Box::pin(async move {
            let connection = WatchedConnection(self.0.accept().await?, self.1.clone());
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }
}

struct WatchedConnection(Box<dyn Connection>, Sender<()>);

impl Drop for WatchedConnection {
    fn drop(&mut self) {
        // The test may have ended.
        let _told = self.1.send(());
    }
}

impl AsyncRead for WatchedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for WatchedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[test]
fn a_member_can_be_added_as_soon_as_a_replica_leads() {
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let mut options = ReplicaOptions::new(folders[0].path(), [9; 16], 1, "127.0.0.1:0");
    // A voter leads when its vote is synced, and its first entries are committed a sync later.
    let log: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let slow = DelayedDirectory::new(log, Duration::from_millis(100), Waiting::Timer);
    options.log_directory = Some(Arc::new(slow));
    let leader = Replica::open(options).expect("open");
    let new = Replica::open(ReplicaOptions::new(folders[1].path(), [9; 16], 2, "127.0.0.1:0"));
    let new = new.expect("open");
    leader.initialize(&[(1, leader.address().to_owned())].into()).expect("initialize");
    leader.wait_until(LONG, |status| status.leader == Some(1)).expect("it leads");
    leader.add_learner(2, new.address()).expect("add");
    assert!(leader.status().members.contains_key(&2));
    leader.change_voters(&[1, 2].into()).expect("change");
    leader.close().expect("close");
    new.close().expect("close");
}

#[test]
fn a_connection_ends_when_its_client_goes_during_a_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = ReplicaOptions::new(folder.path(), [9; 16], 1, "127.0.0.1:0");
    let (told, ended) = std::sync::mpsc::channel();
    options.transport = Arc::new(Watched(told));
    let replica = Replica::open(options).expect("open");
    replica.initialize(&[(1, replica.address().to_owned())].into()).expect("initialize");
    replica.wait_until(LONG, |status| status.leader == Some(1)).expect("it leads");
    let client = Client::new(ClientOptions::new([replica.address()])).expect("a client");
    // Nothing listens at the member's address, so the replica has no answer for the client.
    let late = client.add_learner(2, NOBODY, Duration::from_millis(500));
    assert!(matches!(late, Err(Error::Io { .. })), "{late:?}");
    drop(client);
    ended.recv_timeout(LONG).expect("the connection ends");
    replica.close().expect("close");
}

#[test]
fn a_member_that_does_not_vote_is_not_asked_to_lead() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let leader = cluster.leader();
    let refused = leader.transfer_leader(9);
    assert!(matches!(refused, Err(Error::Members { .. })), "{refused:?}");
    leader.open_client().expect("it still leads");
}

#[test]
fn a_group_is_made_once() {
    let cluster = Cluster::of_three(EngineKind::Paged);
    let members = cluster.leader().status().members;
    let again = cluster.open[&1].initialize(&members);
    assert!(matches!(again, Err(Error::Members { .. })), "{again:?}");
}
