//! Snapshots for replicas that are too far behind for the log.

use crate::cluster::{Cluster, LONG, request};
use katydid::EngineKind;
use katydid_replica::{Outcome, WriteOptions, WriteSet};

#[test]
fn a_replica_that_was_away_gets_a_snapshot_and_then_the_log() {
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        let mut cluster = Cluster::of_three(engine);
        let leader = cluster.leader().clone();
        let client = leader.open_client().expect("a client");
        let write = |sequence: u64| {
            let value = vec![sequence as u8; 2_000];
            let set = WriteSet::default().put("t", sequence.to_be_bytes(), value).put("old", "k", "v");
            leader.write(request(client, sequence), set, WriteOptions::default()).expect("commit");
        };
        (1..=20).for_each(write);
        let away = (1..=3).find(|id| *id != leader.status().id).expect("a follower");
        cluster.close(away);
        (21..=400).for_each(write);
        let gone = WriteSet::default().delete("old", "k").create_table("empty");
        leader.write(request(client, 401), gone, WriteOptions::default()).expect("commit");
        leader.snapshot().expect("snapshot");
        let purged = leader.wait_until(LONG, |status| status.purged > 300).expect("purged").purged;
        // openraft purges in batches, so some entries stay in the log.
        assert!(purged < leader.status().last_index);
        cluster.open(away);
        let index = leader.status().last_index;
        let status =
            cluster.open[&away].wait_until(LONG, move |status| status.applied >= index).expect("applied");
        assert!(status.purged > 300, "its log begins behind the snapshot: {status:?}");
        let last = WriteSet::default().put("t", "last", "v");
        leader.write(request(client, 402), last, WriteOptions::default()).expect("commit");
        let found = cluster.same_rows(&["t", "old", "empty"]);
        assert_eq!((found["t"].len(), found["old"].len()), (401, 0));

        // The received state is complete: the replica restarts from it, leads, and knows the
        // clients.
        cluster.close(away);
        cluster.open(away);
        loop {
            cluster.leader().transfer_leader(away).expect("transfer");
            if cluster.leader().status().id == away {
                break;
            }
        }
        assert_eq!(cluster.leader().resolve(request(client, 30)).expect("resolve"), Outcome::Committed);
        assert_eq!(cluster.leader().resolve(request(client, 500)).expect("resolve"), Outcome::NotCommitted);
        let same = cluster.same_rows(&["t", "old", "empty"]);
        assert_eq!(same["t"].len(), 401);
    }
}

#[test]
fn the_log_is_purged_by_itself_and_every_replica_restarts_from_what_is_left() {
    let mut cluster = Cluster::replicas(0, EngineKind::Paged);
    cluster.snapshot_entries = 50;
    (1..=3).for_each(|id| cluster.open(id));
    cluster.initialize();
    let client = cluster.leader().open_client().expect("a client");
    for sequence in 1..=300_u64 {
        let set = WriteSet::default().put("t", sequence.to_be_bytes(), "x");
        cluster.leader().write(request(client, sequence), set, WriteOptions::default()).expect("commit");
    }
    for id in 1..=3 {
        cluster.open[&id].wait_until(LONG, |status| status.purged > 100).expect("purged");
    }
    for id in 1..=3 {
        cluster.close(id);
        cluster.open(id);
    }
    assert_eq!(cluster.same_rows(&["t"])["t"].len(), 300);
}
