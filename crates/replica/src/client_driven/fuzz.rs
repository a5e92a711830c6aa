//! The decoders of this module, for the fuzzing program.
//!
//! Pure functions.

use super::frame::{self, Message};
use super::message::{Action, ClientId, Operation, Reply, Request, TransactionId};

/// One decoder: its name, valid inputs, and the call.
pub type Target = (&'static str, Vec<Vec<u8>>, fn(&[u8]));

/// Returns the decoders of all messages that another process sends.
pub fn fuzz_targets() -> Vec<Target> {
    let id = TransactionId { client: ClientId(1), sequence: 2 };
    let operation = |action| Operation { table: "t".to_owned(), key: vec![1; 20], action };
    let requests = [
        Request::Hello { client: id.client },
        Request::Transact {
            id,
            operations: vec![
                operation(Action::Insert(vec![2; 100])),
                operation(Action::Delete),
                operation(Action::Read),
            ],
        },
        Request::Rows { table: "t".to_owned(), after: Some(vec![3]), before: None, limit: 4 },
    ];
    let replies =
        [Reply::Welcome { last: Some(1) }, Reply::Rows(vec![(vec![1], vec![2]); 3]), Reply::Value(None)];
    vec![
        ("client-driven request", frames(&requests), decode::<Request>),
        ("client-driven reply", frames(&replies), decode::<Reply>),
    ]
}

fn frames<M: Message>(messages: &[M]) -> Vec<Vec<u8>> {
    messages.iter().filter_map(|message| frame::encode(message).ok()).collect()
}

/// Reads the input as a frame twice: unchanged, and with a valid header, so that the input reaches
/// the body's decoder.
fn decode<M: Message>(input: &[u8]) {
    let _refused = frame::read::<M>(&mut &input[..]);
    let mended = frame::mended::<M>(input);
    let _refused = frame::read::<M>(&mut &mended[..]);
}
