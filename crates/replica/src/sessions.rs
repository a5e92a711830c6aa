//! The answers that replicas remember so that a request is applied at most once.
//!
//! Sessions are part of the replicated state: all replicas have equal sessions at equal indices of
//! the log. The task that applies entries owns them. Invariants:
//!
//! 1. A session stores for each of its client's latest [`WINDOW`] sequence numbers whether the
//!    request was written, cancelled, or not answered. A smaller number is refused, so a request
//!    whose answer was forgotten is not applied again.
//! 2. A client without a session is refused. An entry of the log opens a session, and its index
//!    becomes the client's number, so no number is used twice.
//! 3. There are at most [`CLIENTS_MAX`] sessions. When a further session is opened, the session
//!    whose last use has the smallest index ends.
//!
//! (Sessions of clients: Ongaro, "Consensus: bridging theory and practice", 6.3.)

use crate::ids::RequestId;
use crate::types::Applied;
use std::collections::{BTreeMap, BTreeSet};

/// Number of sequence numbers of a client whose answers are stored.
pub(crate) const WINDOW: u64 = 4096;
/// Maximum number of sessions.
pub(crate) const CLIENTS_MAX: usize = 4096;
const WORDS: usize = (WINDOW / 64) as usize;
/// Bytes of an encoded session.
const ROW_BYTES: usize = 16 + 2 * WORDS * 8;

/// One client's answers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Session {
    /// Index of the entry that used the session last.
    used: u64,
    highest: u64,
    written: [u64; WORDS],
    cancelled: [u64; WORDS],
}

impl Session {
    fn new(index: u64) -> Self {
        Session { used: index, highest: 0, written: [0; WORDS], cancelled: [0; WORDS] }
    }

    fn has(bits: &[u64; WORDS], sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        bits[word] >> bit & 1 == 1
    }

    /// Returns the answer to request `sequence`, if there is one.
    fn answer(&self, sequence: u64) -> Option<Applied> {
        if sequence > self.highest {
            return None;
        }
        if sequence == 0 || self.highest - sequence >= WINDOW {
            return Some(Applied::TooOld);
        }
        let written = Self::has(&self.written, sequence).then_some(Applied::Written);
        written.or_else(|| Self::has(&self.cancelled, sequence).then_some(Applied::Cancelled))
    }

    fn remember(&mut self, sequence: u64, answer: Applied) {
        if sequence > self.highest {
            // Clear the bits of the numbers from `from` on. These bits still have the answers of
            // numbers that leave the window.
            let from = self.highest.saturating_add(1).max(sequence.saturating_sub(WINDOW - 1));
            for number in from..=sequence {
                let (word, bit) = place(number);
                self.written[word] &= !(1 << bit);
                self.cancelled[word] &= !(1 << bit);
            }
            self.highest = sequence;
        }
        let (word, bit) = place(sequence);
        match answer {
            Applied::Written => self.written[word] |= 1 << bit,
            _ => self.cancelled[word] |= 1 << bit,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let words = [self.used, self.highest].into_iter().chain(self.written).chain(self.cancelled);
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn decode(row: &[u8]) -> Option<Self> {
        if row.len() != ROW_BYTES {
            return None;
        }
        let mut words =
            row.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut session = Session::new(words.next()?);
        session.highest = words.next()?;
        for word in session.written.iter_mut().chain(&mut session.cancelled) {
            *word = words.next()?;
        }
        Some(session)
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let bit = sequence % WINDOW;
    ((bit / 64) as usize, bit % 64)
}

/// All sessions, and the set of those that have changed since they were last stored.
#[derive(Default)]
pub(crate) struct Sessions {
    clients: BTreeMap<u64, Session>,
    /// Index of the last use, and client, for each session.
    by_use: BTreeSet<(u64, u64)>,
    changed: BTreeSet<u64>,
}

impl Sessions {
    /// Adds a session from its stored row. Returns false if the row cannot be decoded.
    pub(crate) fn load(&mut self, client: u64, row: &[u8]) -> bool {
        let Some(session) = Session::decode(row) else { return false };
        self.by_use.insert((session.used, client));
        self.clients.insert(client, session);
        true
    }

    /// Applies the entry at `index`, which opens a session.
    pub(crate) fn open(&mut self, index: u64) -> Applied {
        if self.clients.len() >= CLIENTS_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.clients.remove(&oldest);
            self.changed.insert(oldest);
        }
        self.clients.insert(index, Session::new(index));
        self.by_use.insert((index, index));
        self.changed.insert(index);
        Applied::Client(index)
    }

    /// Decides the entry of a request at `index`. Returns `Ok` if the request is new, and stores
    /// `answer` for its retries. Returns `Err` with the stored answer if the request is a retry,
    /// and with [`Applied::UnknownClient`] or [`Applied::TooOld`] if its answer was forgotten.
    pub(crate) fn decide(&mut self, index: u64, id: RequestId, answer: Applied) -> Result<(), Applied> {
        let Some(session) = self.clients.get_mut(&id.client) else { return Err(Applied::UnknownClient) };
        self.by_use.remove(&(session.used, id.client));
        session.used = index;
        self.by_use.insert((index, id.client));
        self.changed.insert(id.client);
        match session.answer(id.sequence) {
            Some(answered) => Err(answered),
            None => {
                session.remember(id.sequence, answer);
                Ok(())
            }
        }
    }

    /// Returns the sessions that have changed since the last call: each client with its row, or
    /// without one if the session has ended.
    pub(crate) fn take_changed(&mut self) -> Vec<(u64, Option<Vec<u8>>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|client| (client, self.clients.get(&client).map(Session::encode))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u64, sequence: u64) -> RequestId {
        RequestId { client, sequence }
    }

    #[test]
    fn a_request_is_new_once_also_after_the_rows_were_stored() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.open(7), Applied::Client(7));
        assert_eq!(sessions.decide(8, id(7, 1), Applied::Written), Ok(()));
        assert_eq!(sessions.decide(9, id(7, 3), Applied::Cancelled), Ok(()));
        let mut stored = Sessions::default();
        for (client, row) in sessions.take_changed() {
            assert!(stored.load(client, &row.expect("it is there")));
        }
        assert_eq!(stored.decide(10, id(7, 1), Applied::Written), Err(Applied::Written));
        assert_eq!(stored.decide(11, id(7, 3), Applied::Written), Err(Applied::Cancelled));
        assert_eq!(stored.decide(12, id(7, 2), Applied::Written), Ok(()));
        assert_eq!(stored.decide(13, id(7, 2), Applied::Cancelled), Err(Applied::Written));
        assert_eq!(stored.decide(13, id(7, 0), Applied::Written), Err(Applied::TooOld));
        assert_eq!(stored.decide(14, id(8, 1), Applied::Written), Err(Applied::UnknownClient));
        assert!(!stored.load(1, b"short"));
    }

    #[test]
    fn what_leaves_the_window_is_refused_and_what_enters_it_is_new() {
        let mut sessions = Sessions::default();
        sessions.open(1);
        for sequence in 1..=WINDOW {
            assert_eq!(sessions.decide(1 + sequence, id(1, sequence), Applied::Written), Ok(()));
        }
        assert_eq!(sessions.decide(9000, id(1, 1), Applied::Written), Err(Applied::Written));
        assert_eq!(sessions.decide(9001, id(1, WINDOW + 2), Applied::Written), Ok(()));
        for old in [1, 2] {
            assert_eq!(sessions.decide(9002, id(1, old), Applied::Written), Err(Applied::TooOld));
        }
        assert_eq!(sessions.decide(9003, id(1, WINDOW + 1), Applied::Written), Ok(()), "it was jumped over");
        assert_eq!(sessions.decide(9004, id(1, 3), Applied::Written), Err(Applied::Written));
        assert_eq!(sessions.decide(9005, id(1, 1 << 60), Applied::Written), Ok(()));
        assert_eq!(sessions.decide(9006, id(1, (1 << 60) - 1), Applied::Written), Ok(()));
        assert_eq!(sessions.decide(9007, id(1, WINDOW), Applied::Written), Err(Applied::TooOld));
        assert_eq!(sessions.decide(9008, id(1, u64::MAX), Applied::Written), Ok(()));
        assert_eq!(sessions.decide(9009, id(1, u64::MAX), Applied::Written), Err(Applied::Written));
    }

    #[test]
    fn the_session_used_longest_ago_ends_first() {
        let mut sessions = Sessions::default();
        for index in 1..=CLIENTS_MAX as u64 {
            sessions.open(index);
        }
        assert_eq!(sessions.decide(5000, id(1, 1), Applied::Written), Ok(()));
        sessions.take_changed();
        sessions.open(5001);
        let ended: Vec<u64> = sessions
            .take_changed()
            .into_iter()
            .filter(|(_, row)| row.is_none())
            .map(|(client, _)| client)
            .collect();
        assert_eq!(ended, [2]);
        assert_eq!(sessions.decide(5002, id(2, 1), Applied::Written), Err(Applied::UnknownClient));
        assert_eq!(sessions.decide(5003, id(1, 1), Applied::Written), Err(Applied::Written));
    }
}
