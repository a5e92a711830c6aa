//! The encoding of a Raft log's records.
//!
//! Any thread may use these pure functions.
//!
//! | kind | transaction field | payload |
//! |---|---|---|
//! | 16, an entry | its index | version 1 as one byte, the entry in MessagePack with field names |
//! | 17, the state | 0 | version 1 as one byte, [`Remembered`] in MessagePack with field names |
//!
//! Decoders never panic. They allocate memory as bytes are read, not by a length in the payload.

use crate::error::{Error, Result};
use katydid_wal::{Kind, Lsn};
use openraft::alias::{LogIdOf, VoteOf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Kind of records with an entry.
pub(crate) const ENTRY: Kind = Kind::USER;
/// Kind of records with the state.
pub(crate) const STATE: Kind = Kind::new(17);
const VERSION: u8 = 1;

/// The state that a Raft log stores besides entries: a vote and two log ids. Each state record is
/// complete, so the last one counts and earlier ones can be trimmed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Remembered<V, L> {
    pub vote: Option<V>,
    pub committed: Option<L>,
    /// The last entry that was purged.
    pub purged: Option<L>,
}

impl<V, L> Default for Remembered<V, L> {
    fn default() -> Self {
        Remembered { vote: None, committed: None, purged: None }
    }
}

pub(crate) type State<C> = Remembered<VoteOf<C>, LogIdOf<C>>;

/// Encodes the payload of a record.
pub(crate) fn encode<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>> {
    let mut bytes = vec![VERSION];
    let mut writer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    match value.serialize(&mut writer) {
        Ok(()) => Ok(bytes),
        Err(source) => Err(Error::Encode { what, source: Arc::new(source) }),
    }
}

/// Decodes the payload of the record at `at`.
pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, at: Lsn, payload: &[u8]) -> Result<T> {
    let body = match payload {
        [VERSION, body @ ..] => body,
        [] => return Err(Error::Foreign { at, reason: "it is empty" }),
        _ => return Err(Error::Foreign { at, reason: "it has a version that this program does not read" }),
    };
    rmp_serde::from_slice(body).map_err(|source| Error::Decode { what, at, source: Arc::new(source) })
}
