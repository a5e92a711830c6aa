//! This folder's decoders as functions of bytes, for `testing::decoders`.

use super::control::{CreationState, MAGIC, StreamsState};
use crate::head::{Head, encode};
use crate::recover::IncarnationHistory;
use crate::seal::Block;
use katydid_device::Id;
use katydid_kernels::checksum::read_u64;
use katydid_kernels::dependencies::{StreamId, StreamLsn};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::record::Chain;
use katydid_kernels::stamp::CommitStamp;

/// Magic number of `streams.control`.
pub(crate) const CONTROL_MAGIC: &[u8; 8] = MAGIC;
const STREAMS: usize = 3;

/// Returns samples of records. A sample is the number of dependencies that the header names, in
/// eight bytes, and the record's bytes that follow the header.
pub(crate) fn sample_records() -> Vec<Vec<u8>> {
    let sample = |count: u16| {
        let at = |stream| StreamLsn { stream: StreamId::new(stream), end: Lsn::new(800) };
        let entries: Vec<_> = (0..count).map(|stream| encode(at(stream), 1)).collect();
        [&u64::from(count).to_le_bytes()[..], entries.as_flattened(), b"payload"].concat()
    };
    (0..=STREAMS as u16).map(sample).collect()
}

/// Decodes bytes in the form of [`sample_records`].
pub(crate) fn decode_record(input: &[u8]) {
    let bytes = input.get(8..).unwrap_or_default();
    let chain = Chain::Commit { stamp: CommitStamp::new(1), dependencies: read_u64(input, 0) as u16 };
    if let Ok(head) = Head::decode(chain, bytes, STREAMS) {
        assert!(head.payload.len() <= bytes.len());
        assert!(head.dependencies().len() <= STREAMS);
        let incarnations = [(); STREAMS].map(|()| IncarnationHistory::new(Lsn::ZERO, 1));
        let _lost = head.lost(&incarnations);
    }
}

/// Returns the beginning of a `streams.control`.
pub(crate) fn sample_control() -> Vec<u8> {
    StreamsState { id: Id::new(7), streams: 3, making: CreationState::Done }.encode()[..64].to_vec()
}

/// Decodes a `streams.control`.
pub(crate) fn decode_control(block: &Block) {
    if let Ok(state) = StreamsState::decode(block) {
        assert!(state.streams > 0 && state.encode()[..12] == block[..12]);
    }
}
