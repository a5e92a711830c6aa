//! Messages between replicas, and their encoding as frames.
//!
//! Pure; any thread. A connection begins with a [`Hello`] and a [`Greeting`]; its purpose says which messages follow. Contents are MessagePack with field names, as in
//! the Raft log: openraft's types are described by `serde`, and a format that names fields survives that types gain some.

use crate::frame::Frame;
use crate::ids::ReplicaId;
use crate::store::Row;
use crate::types::{SnapshotMeta, Types, Vote};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of what connections say.
pub(crate) const PROTOCOL: u16 = 1;

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Calls: one [`Call`], one [`Reply`], and so on.
    Calls,
    /// Appends that do not wait for each other's answers: [`Append`] one way, [`Appended`] the other, in the same order.
    Appends,
    /// One snapshot: [`SnapshotBegin`], [`SnapshotRows`], [`SnapshotEnd`], and a [`SnapshotReply`].
    Snapshot,
}

/// The first message of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub protocol: u16,
    pub cluster: [u8; 16],
    pub from: ReplicaId,
    pub to: ReplicaId,
    pub purpose: Purpose,
}

/// The answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Greeting {
    Welcome,
    /// Why the connection is refused.
    Refused(String),
}

/// A call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    Append(Append),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    TransferLeader(TransferLeaderRequest<Types>),
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Append(AppendEntriesResponse<Types>),
    Vote(VoteResponse<Types>),
    PreVote(VoteResponse<Types>),
    TransferLeader(TransferLeaderResponse<Types>),
    /// The replica could not answer.
    Failed(String),
}

/// Entries for a follower.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    pub request: AppendEntriesRequest<Types>,
    /// Milliseconds since a majority last confirmed the leader; none if no majority has.
    pub age_ms: Option<u64>,
}

/// The answer to an [`Append`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Appended(pub StreamAppendResult<Types>);

/// Begins a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotBegin {
    pub vote: Vote,
    pub meta: SnapshotMeta,
}

/// Rows of one table of a snapshot.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotRows {
    pub table: String,
    pub rows: Vec<Row>,
}

/// Ends a snapshot: how many rows it has.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotEnd {
    pub rows: u64,
}

/// The answer to a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SnapshotReply {
    Installed(SnapshotResponse<Types>),
    Failed(String),
}

/// A message, and the kind of its frames.
pub(crate) trait Message: Serialize + DeserializeOwned {
    const KIND: u8;
    const NAME: &'static str;

    fn to_frame(&self) -> Result<Frame, Malformed> {
        match rmp_serde::to_vec_named(self) {
            Ok(bytes) => Ok(Frame { kind: Self::KIND, payload: bytes.into() }),
            Err(error) => Err(Malformed { wanted: Self::NAME, reason: error.to_string() }),
        }
    }

    fn from_frame(frame: &Frame) -> Result<Self, Malformed> {
        let failed = |reason| Malformed { wanted: Self::NAME, reason };
        if frame.kind != Self::KIND {
            return Err(failed(format!("its kind is {}", frame.kind)));
        }
        rmp_serde::from_slice(&frame.payload).map_err(|error| failed(error.to_string()))
    }
}

macro_rules! messages {
    ($($kind:literal $message:ident)*) => {
        $(impl Message for $message {
            const KIND: u8 = $kind;
            const NAME: &'static str = stringify!($message);
        })*
    };
}

messages! {
    1 Hello 2 Greeting
    10 Call 11 Reply
    20 Append 21 Appended
    30 SnapshotBegin 31 SnapshotRows 32 SnapshotEnd 33 SnapshotReply
}

/// A frame is not the message that was due.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the frame is no {wanted}: {reason}")]
pub(crate) struct Malformed {
    wanted: &'static str,
    reason: String,
}

/// Tries to decode `frame` as each message, for tests with mutated bytes.
#[doc(hidden)]
pub fn decode_any(frame: &Frame) -> usize {
    let tried = [
        Hello::from_frame(frame).is_ok(),
        Greeting::from_frame(frame).is_ok(),
        Call::from_frame(frame).is_ok(),
        Reply::from_frame(frame).is_ok(),
        Append::from_frame(frame).is_ok(),
        Appended::from_frame(frame).is_ok(),
        SnapshotBegin::from_frame(frame).is_ok(),
        SnapshotRows::from_frame(frame).is_ok(),
        SnapshotEnd::from_frame(frame).is_ok(),
        SnapshotReply::from_frame(frame).is_ok(),
    ];
    tried.into_iter().filter(|decoded| *decoded).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::types::{Entry, Leadership, LogId, Request};
    use crate::write_set::WriteSet;
    use openraft::EntryPayload;

    fn log_id(index: u64) -> LogId {
        LogId::new(Leadership { term: 7, node_id: 2 }, index)
    }

    fn samples() -> Vec<Frame> {
        let set = WriteSet::default().put("t", b"key", vec![200; 300]).delete("t", "k").create_table("u");
        let id = RequestId { client: 9, sequence: 1 };
        let payloads = [
            EntryPayload::Normal(Request::Write { id, set }),
            EntryPayload::Blank,
            EntryPayload::Normal(Request::OpenClient),
        ];
        let entries = (4..).zip(payloads).map(|(index, payload)| Entry { log_id: log_id(index), payload });
        let append = AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(7, 2),
            prev_log_id: Some(log_id(3)),
            entries: entries.collect(),
            leader_commit: None,
        };
        let hello = Hello { protocol: 1, cluster: [3; 16], from: 1, to: 2, purpose: Purpose::Appends };
        let rows = SnapshotRows {
            table: "t".into(),
            rows: vec![Row(vec![1; 40], vec![2; 400]), Row(vec![], vec![])],
        };
        let meta = SnapshotMeta { last_log_id: Some(log_id(5)), ..SnapshotMeta::default() };
        let frames = [
            hello.to_frame(),
            Greeting::Refused("no".into()).to_frame(),
            Call::Append(Append { request: append.clone(), age_ms: None }).to_frame(),
            Call::Vote(VoteRequest::new(Vote::new(7, 2), None)).to_frame(),
            Reply::Vote(VoteResponse::new(Vote::new(7, 2), Some(log_id(3)), true)).to_frame(),
            Append { request: append, age_ms: Some(3) }.to_frame(),
            Appended(Ok(Some(log_id(6)))).to_frame(),
            SnapshotBegin { vote: Vote::new_committed(7, 2), meta }.to_frame(),
            rows.to_frame(),
            SnapshotEnd { rows: 2 }.to_frame(),
            SnapshotReply::Installed(SnapshotResponse::new(Vote::new_committed(7, 2))).to_frame(),
        ];
        frames.into_iter().map(|frame| frame.expect("encode")).collect()
    }

    #[test]
    fn each_message_is_decoded_as_what_it_is_and_as_nothing_else() {
        for frame in samples() {
            assert_eq!(decode_any(&frame), 1, "kind {}", frame.kind);
        }
        let found = Append::from_frame(&samples()[5]).expect("decode").request;
        assert_eq!(found.entries.len(), 3);
        assert_eq!(found.entries[0].log_id, log_id(4));
        let EntryPayload::Normal(Request::Write { set, .. }) = &found.entries[0].payload else {
            panic!("a write")
        };
        assert_eq!(set.writes.len(), 3);
    }

    #[test]
    fn mutated_messages_are_refused_or_decoded_without_a_panic() {
        let seed = std::env::var("KATYDID_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or(fastrand::u64(..));
        println!("KATYDID_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for frame in samples() {
            for _ in 0..2_000 {
                let mut bytes = frame.payload.to_vec();
                for _ in 0..random.usize(1..4) {
                    match random.u8(0..3) {
                        0 if !bytes.is_empty() => {
                            let at = random.usize(..bytes.len());
                            bytes[at] = random.u8(..);
                        }
                        1 => bytes.truncate(random.usize(..=bytes.len())),
                        _ => bytes.insert(random.usize(..=bytes.len()), random.u8(..)),
                    }
                }
                decode_any(&Frame { kind: frame.kind, payload: bytes.into() });
            }
        }
    }
}
