//! The decoders of messages from other processes, for the fuzzing program.
//!
//! Pure functions.

use crate::client_message::{
    ClientCall, ClientHello, ClientReply, Key, NumberedCall, NumberedReply, ReadAt, Refusal, Unknown,
};
use crate::frame::{Frame, FrameCodec, HEADER_BYTES};
use crate::ids::RequestId;
use crate::message::{
    Append, Appended, Call, Greeting, Hello, Message, PROTOCOL, Purpose, Reply, SnapshotBegin, SnapshotEnd,
    SnapshotReply, SnapshotRows,
};
use crate::status::{Role, Status};
use crate::store::Row;
use crate::types::{Entry, Leadership, LogId, Request, SnapshotMeta, Types, Vote};
use crate::write_set::WriteSet;
use bytes::{Bytes, BytesMut};
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, SnapshotResponse, VoteRequest, VoteResponse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;
use tokio_util::codec::{Decoder, Encoder};

/// One decoder: its name, valid inputs, and the call.
pub type Target = (&'static str, Vec<Vec<u8>>, fn(&[u8]));

/// Returns the decoders of all messages that a replica or a client sends.
pub fn fuzz_targets() -> Vec<Target> {
    vec![("replica message", frames().into_iter().filter_map(encoded).collect(), decode)]
}

fn encoded(frame: Frame) -> Option<Vec<u8>> {
    let mut bytes = BytesMut::new();
    FrameCodec::default().encode(frame, &mut bytes).ok()?;
    Some(bytes.to_vec())
}

/// Decodes the input as a frame. Then decodes its payload as each kind of message, without regard
/// to the checksum.
fn decode(input: &[u8]) {
    let _refused = FrameCodec::default().decode(&mut BytesMut::from(input));
    if let Some((header, payload)) = input.split_at_checked(HEADER_BYTES) {
        tried(&Frame { kind: header[5], payload: Bytes::copy_from_slice(payload) });
    }
}

/// Returns the number of kinds of messages that a frame can be decoded as.
fn tried(frame: &Frame) -> usize {
    let tried = [
        Hello::from_frame(frame).is_ok(),
        Greeting::from_frame(frame).is_ok(),
        ClientHello::from_frame(frame).is_ok(),
        Call::from_frame(frame).is_ok(),
        Reply::from_frame(frame).is_ok(),
        Append::from_frame(frame).is_ok(),
        Appended::from_frame(frame).is_ok(),
        SnapshotBegin::from_frame(frame).is_ok(),
        SnapshotRows::from_frame(frame).is_ok(),
        SnapshotEnd::from_frame(frame).is_ok(),
        SnapshotReply::from_frame(frame).is_ok(),
        NumberedCall::from_frame(frame).is_ok(),
        NumberedReply::from_frame(frame).is_ok(),
    ];
    tried.into_iter().filter(|decoded| *decoded).count()
}

fn log_id(index: u64) -> LogId {
    LogId::new(Leadership { term: 7, node_id: 2 }, index)
}

fn append() -> AppendEntriesRequest<Types> {
    let set = WriteSet::default().put("t", b"key", vec![200; 300]).delete("t", "k").create_table("u");
    let id = RequestId { client: 9, sequence: 1 };
    let payloads = [
        EntryPayload::Normal(Request::Write { id, set }),
        EntryPayload::Blank,
        EntryPayload::Normal(Request::OpenClient),
    ];
    let entries = (4..).zip(payloads).map(|(index, payload)| Entry { log_id: log_id(index), payload });
    AppendEntriesRequest {
        vote: Vote::new_committed(7, 2),
        prev_log_id: Some(log_id(3)),
        entries: entries.collect(),
        leader_commit: None,
    }
}

/// Returns at least one frame for each kind of message.
fn frames() -> Vec<Frame> {
    let hello = Hello { protocol: PROTOCOL, cluster: [3; 16], from: 1, to: 2, purpose: Purpose::Appends };
    let rows = || vec![Row(vec![1; 40], vec![2; 400]), Row(vec![], vec![])];
    let meta = SnapshotMeta { last_log_id: Some(log_id(5)), ..SnapshotMeta::default() };
    let id = RequestId { client: 9, sequence: 1 };
    let set = WriteSet::default().put("t", "k", vec![1; 200]);
    let members = BTreeMap::from([(1, "127.0.0.1:7101".to_owned())]);
    let key = |byte| Key(vec![byte; 20]);
    let status = Status {
        id: 1,
        role: Role::Leader,
        term: 7,
        leader: Some(1),
        last_index: 9,
        committed: 8,
        applied: 8,
        purged: 0,
        voters: BTreeSet::from([1, 2]),
        members: members.clone(),
        matched: BTreeMap::from([(1, 9), (2, 3)]),
        stopped: None,
    };
    let range = ClientCall::Range {
        table: "t".to_owned(),
        low: Bound::Included(key(1)),
        high: Bound::Unbounded,
        limit: 9,
        at: ReadAt::Stale(Duration::from_secs(1)),
    };
    let of_replicas = [
        hello.to_frame(),
        Greeting::Refused("no".into()).to_frame(),
        Call::Append(Append { request: append(), age_ms: None }).to_frame(),
        Call::Vote(VoteRequest::new(Vote::new(7, 2), None)).to_frame(),
        Reply::Vote(VoteResponse::new(Vote::new(7, 2), Some(log_id(3)), true)).to_frame(),
        Append { request: append(), age_ms: Some(3) }.to_frame(),
        Appended(Ok(Some(log_id(6)))).to_frame(),
        SnapshotBegin { vote: Vote::new_committed(7, 2), meta }.to_frame(),
        SnapshotRows { table: "t".into(), rows: rows() }.to_frame(),
        SnapshotEnd { rows: 2 }.to_frame(),
        SnapshotReply::Installed(SnapshotResponse::new(Vote::new_committed(7, 2))).to_frame(),
    ];
    let calls = [
        ClientCall::Status,
        ClientCall::Write { id, set, all: true, wait_ms: 10_000 },
        ClientCall::Get { table: "t".to_owned(), key: key(2), at: ReadAt::Leader },
        range,
        ClientCall::Initialize { members },
    ];
    let replies = [
        ClientReply::Status(status),
        ClientReply::Committed { index: 9, unconfirmed: [3].into() },
        ClientReply::Value(Some(vec![7; 90].into())),
        ClientReply::Rows { rows: rows(), is_whole: false },
        ClientReply::Refused(Refusal::NotLeader { replica: 1, leader: Some((2, "b:1".to_owned())) }),
        ClientReply::Refused(Refusal::Unknown { id, reason: Unknown::TimedOut }),
    ];
    let hello = ClientHello { protocol: PROTOCOL, cluster: Some([3; 16]) }.to_frame();
    let calls = calls.into_iter().zip(1..).map(|(call, number)| NumberedCall { number, call }.to_frame());
    let replies = replies.into_iter().map(|reply| NumberedReply { number: 4, reply }.to_frame());
    let of_clients = [hello].into_iter().chain(calls).chain(replies);
    // Every message is small and has a type that can be encoded, so no error is dropped.
    of_replicas.into_iter().chain(of_clients).filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_decoded_as_what_it_is_and_as_nothing_else() {
        let frames = frames();
        assert_eq!(frames.len(), 23, "all are encoded");
        let kinds: BTreeSet<u8> = frames.iter().map(|frame| frame.kind).collect();
        assert_eq!(kinds.len(), 13, "each message has a sample");
        for frame in &frames {
            assert_eq!(tried(frame), 1, "kind {}", frame.kind);
        }
        let found = Append::from_frame(&frames[5]).expect("decode").request;
        assert_eq!(found.entries, append().entries);
    }
}
