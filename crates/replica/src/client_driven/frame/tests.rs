use super::super::message::{
    Action, Answer, ClientId, Operation, Outcome, Refusal, ReplicaStat, TableContents, TransactionId,
};
use super::*;
use fastrand::Rng;

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let length = rng.usize(..40);
    std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

fn name(rng: &mut Rng) -> String {
    let length = rng.usize(..20);
    std::iter::repeat_with(|| rng.alphanumeric()).take(length).collect()
}

fn optional(rng: &mut Rng) -> Option<Vec<u8>> {
    rng.bool().then(|| bytes(rng))
}

fn id(rng: &mut Rng) -> TransactionId {
    TransactionId { client: ClientId(rng.u128(..)), sequence: rng.u64(..) }
}

fn operation(rng: &mut Rng) -> Operation {
    let action = match rng.u8(..4) {
        0 => Action::Insert(bytes(rng)),
        1 => Action::Put(bytes(rng)),
        2 => Action::Delete,
        _ => Action::Read,
    };
    Operation { table: name(rng), key: bytes(rng), action }
}

fn request(rng: &mut Rng) -> Request {
    match rng.u8(..7) {
        0 => Request::Hello { client: ClientId(rng.u128(..)) },
        1 => {
            let operations = (0..rng.usize(..5)).map(|_| operation(rng)).collect();
            Request::Transact { id: id(rng), operations }
        }
        2 => Request::Read { table: name(rng), key: bytes(rng) },
        3 => {
            let (table, after, before) = (name(rng), optional(rng), optional(rng));
            Request::Rows { table, after, before, limit: rng.u32(..) }
        }
        4 => Request::Contents,
        5 => Request::Stat,
        _ => Request::Forget,
    }
}

fn outcome(rng: &mut Rng) -> Outcome {
    match rng.u8(..7) {
        0 => Outcome::Refused(Refusal::KeyExists { operation: rng.u32(..) }),
        1 => Outcome::Refused(Refusal::NoSuchKey { operation: rng.u32(..) }),
        2 => Outcome::Refused(Refusal::Conflict(name(rng))),
        3 => Outcome::Refused(Refusal::NoRoom(name(rng))),
        4 => Outcome::Refused(Refusal::NotAllowed(name(rng))),
        5 => Outcome::InDoubt(name(rng)),
        _ => Outcome::Committed { found: (0..rng.usize(..4)).map(|_| optional(rng)).collect() },
    }
}

fn table_contents(rng: &mut Rng) -> TableContents {
    TableContents { table: name(rng), rows: rng.u64(..), checksum: rng.u64(..) }
}

fn reply(rng: &mut Rng) -> Reply {
    match rng.u8(..8) {
        0 => Reply::Welcome { last: rng.bool().then(|| rng.u64(..)) },
        1 => {
            let (repeated, server_ns) = (rng.bool(), rng.u64(..));
            Reply::Answered(Answer { id: id(rng), outcome: outcome(rng), repeated, server_ns })
        }
        2 => Reply::Value(optional(rng)),
        3 => Reply::Rows((0..rng.usize(..4)).map(|_| (bytes(rng), bytes(rng))).collect()),
        4 => Reply::Contents((0..rng.usize(..4)).map(|_| table_contents(rng)).collect()),
        5 => {
            let (committed, queued) = (rng.u64(..), rng.u64(..));
            Reply::Stat(ReplicaStat { committed, queued, ..ReplicaStat::default() })
        }
        6 => Reply::Forgotten,
        _ => Reply::Unserved(name(rng)),
    }
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for seed in 0..500 {
        let mut rng = Rng::with_seed(seed);
        let (asked, answered) = (request(&mut rng), reply(&mut rng));
        let mut stream = encode(&asked).unwrap();
        write(&mut stream, &request(&mut rng)).unwrap();
        let mut from = &stream[..];
        assert_eq!(read::<Request>(&mut from).unwrap(), asked, "seed {seed}");
        read::<Request>(&mut from).unwrap();
        assert!(matches!(read::<Request>(&mut from), Err(FrameError::Ended)), "seed {seed}");
        let frame = encode(&answered).unwrap();
        assert_eq!(read::<Reply>(&mut &frame[..]).unwrap(), answered, "seed {seed}");
        assert!(matches!(read::<Request>(&mut &frame[..]), Err(FrameError::Kind(2))), "seed {seed}");
    }
}

#[test]
fn a_frame_that_is_damaged_or_cut_anywhere_is_refused() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let frame = encode(&request(&mut rng)).unwrap();
        let cut = rng.usize(1..frame.len());
        assert!(read::<Request>(&mut &frame[..cut]).is_err(), "seed {seed}, cut at {cut}");
        let mut damaged = frame.clone();
        let at = rng.usize(..frame.len());
        damaged[at] ^= 1 << rng.u8(..8);
        let error = read::<Request>(&mut &damaged[..]).unwrap_err();
        assert!(!matches!(error, FrameError::Message(_)), "seed {seed}, byte {at}: {error}");
    }
}

/// With a correct checksum, the body's decoder sees arbitrary bytes.
#[test]
fn arbitrary_bodies_never_panic_and_lengths_are_not_believed() {
    for seed in 0..2000 {
        let mut rng = Rng::with_seed(seed);
        let mut body = match rng.bool() {
            true => encode(&reply(&mut rng)).unwrap().split_off(HEADER_BYTES),
            false => bytes(&mut rng),
        };
        for _ in 0..rng.usize(..4) {
            if !body.is_empty() {
                let at = rng.usize(..body.len());
                body[at] = rng.u8(..);
            }
        }
        let frame = mended::<Reply>(&[&[0; HEADER_BYTES], &body[..]].concat());
        if let Err(error) = read::<Reply>(&mut &frame[..]) {
            assert!(matches!(error, FrameError::Message(_)), "seed {seed}: {error}");
        }
    }
    let mut long = encode(&Request::Stat).unwrap();
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read::<Request>(&mut &long[..]), Err(FrameError::TooLong(_))));
}
