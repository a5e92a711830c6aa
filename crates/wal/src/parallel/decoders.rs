//! This folder's decoders as functions of bytes, for `testing::decoders`.

use super::control::{MAGIC, Making, StreamsState};
use super::head::{HAS_PLACES, Head, encode, finish};
use crate::recover::Eras;
use crate::seal::Block;
use katydid_kernels::checksum::read_u64;
use katydid_kernels::dependences::{Place, StreamId};
use katydid_kernels::lsn::Lsn;

/// Of `streams.control`.
pub(crate) const CONTROL_MAGIC: &[u8; 8] = MAGIC;
const STREAMS: usize = 3;

/// A header's `prev`, and a record's bytes behind it.
pub(crate) fn sample_records() -> Vec<Vec<u8>> {
    let sample = |count: u16| {
        let place = |stream| Place { stream: StreamId::new(stream), end: Lsn::new(800) };
        let mut places: Vec<_> = (0..count).map(|stream| encode(place(stream), 1)).collect();
        let prev = HAS_PLACES[usize::from(count > 0)].get().to_le_bytes();
        [&prev[..], finish(&mut places), b"payload"].concat()
    };
    (0..=STREAMS as u16).map(sample).collect()
}

/// Decodes such bytes.
pub(crate) fn decode_record(input: &[u8]) {
    let bytes = input.get(8..).unwrap_or_default();
    if let Ok(head) = Head::decode(Lsn::new(read_u64(input, 0)), bytes, STREAMS) {
        assert!(head.payload.len() <= bytes.len());
        assert!(head.dependences().len() <= STREAMS);
        let eras = [(); STREAMS].map(|()| Eras::new(Lsn::ZERO, 1));
        let _lost = head.lost(&eras);
    }
}

/// The beginning of a `streams.control`.
pub(crate) fn sample_control() -> Vec<u8> {
    StreamsState { id: 7, streams: 3, making: Making::Done }.encode()[..64].to_vec()
}

/// Decodes one.
pub(crate) fn decode_control(block: &Block) {
    if let Ok(state) = StreamsState::decode(block) {
        assert!(state.streams > 0 && state.encode()[..12] == block[..12]);
    }
}
