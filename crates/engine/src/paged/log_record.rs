//! Encoding and decoding of the log records of transactions and checkpoints.
//!
//! The records that change pages are in `change`; their kinds are below [`COMMIT`]. All numbers are
//! little-endian.
//!
//! The payload of each kind:
//!
//! - `COMMIT`: nothing, or the overflow chains and trees to free: `u64` first page of each.
//! - `END`: nothing. The transaction needs nothing more from recovery.
//! - `COMPENSATION`: `undo_next u64`, `kind u8`, 7 zeros, then the payload of the change of that
//!   kind.
//! - `CHECKPOINT_BEGIN`: nothing, or [`REWRITTEN`] in the first checkpoint since the file of pages
//!   was rewritten.
//! - `CHECKPOINT_PAGES`: for each dirty page `page u64`, `recovery LSN u64`.
//! - `CHECKPOINT_ACTIVE`: for each transaction `txn u64`, `state u64`, `first u64`, `last u64`,
//!   `chains u64`, the chains.
//! - `CHECKPOINT_END`: `begin u64`, `next transaction u64`, `next table u64`.
//!
//! Each part of a checkpoint except the begin record has the LSN of that begin record in `prev`. By
//! this LSN, recovery distinguishes the parts of an unfinished checkpoint from those of the
//! checkpoint that the control file names.

use crate::ids::TxnId;
use crate::{Chain, Lsn};

/// The transaction has committed.
pub(crate) const COMMIT: u8 = 64;
/// Recovery needs nothing more of the transaction, which was rolled back or had chains to free.
pub(crate) const END: u8 = 65;
/// A change that undoes another one. It is never undone itself.
pub(crate) const COMPENSATION: u8 = 66;
/// A checkpoint begins. The checkpoint captures transactions and pages after it has appended this
/// record.
pub(crate) const CHECKPOINT_BEGIN: u8 = 67;
/// Payload of the begin record of the first checkpoint after compacting. All later records change
/// pages of the rewritten file, which no earlier copy has.
pub(crate) const REWRITTEN: [u8; 1] = [1];
/// Dirty pages of a checkpoint.
pub(crate) const CHECKPOINT_PAGES: u8 = 68;
/// Active transactions of a checkpoint.
pub(crate) const CHECKPOINT_ACTIVE: u8 = 69;
/// The checkpoint is complete.
pub(crate) const CHECKPOINT_END: u8 = 70;

/// Bytes before the inner change in a compensation record.
pub(crate) const COMPENSATION_HEAD: usize = 16;

/// Maximum number of entries in one `CHECKPOINT_PAGES` record, so that no record is large however
/// many pages are dirty.
pub(crate) const PAGES_PER_RECORD: usize = 4096;

/// State of a transaction in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The transaction may commit or roll back. Recovery undoes it, unless a later record commits
    /// or ends it.
    Active,
    /// The transaction has committed. Some of its chains may not be freed yet.
    Committed,
}

/// One transaction in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveEntry {
    pub(crate) txn: TxnId,
    pub(crate) state: State,
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    pub(crate) chains: Vec<u64>,
}

/// The rule that a payload breaks. The breach is reported as corruption at the record's LSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Returns the LSN of the transaction's record before this one, or zero if this is the first. Fails
/// if the record has a commit stamp instead, because no record of this engine has one.
pub(crate) fn previous(chain: Chain) -> Result<Lsn, Malformed> {
    match chain {
        Chain::Previous(previous) => Ok(previous),
        Chain::Commit { .. } => Err(Malformed("it has a commit stamp, which no record of this engine has")),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Encodes the head of a compensation record.
pub(crate) fn compensation_head(undo_next: Lsn, kind: u8) -> [u8; COMPENSATION_HEAD] {
    let mut head = [0; COMPENSATION_HEAD];
    head[..8].copy_from_slice(&undo_next.get().to_le_bytes());
    head[8] = kind;
    head
}

/// Decodes a compensation record: the next position to undo, and the kind and payload of its
/// change.
pub(crate) fn decode_compensation(payload: &[u8]) -> Result<(Lsn, u8, &[u8]), Malformed> {
    let undo_next = u64_at(payload, 0).ok_or(Malformed("a compensation record without a head"))?;
    let inner = payload.get(COMPENSATION_HEAD..).ok_or(Malformed("a compensation record without a head"))?;
    Ok((Lsn::new(undo_next), payload[8], inner))
}

/// Encodes the payload of a commit record.
pub(crate) fn encode_chains(chains: &[u64]) -> Vec<u8> {
    chains.iter().flat_map(|chain| chain.to_le_bytes()).collect()
}

/// Decodes the chains that a commit record leaves to be freed.
pub(crate) fn decode_chains(payload: &[u8]) -> Result<Vec<u64>, Malformed> {
    let (words, rest) = payload.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Malformed("a commit record of odd length"));
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Encodes the payload of a `CHECKPOINT_PAGES` record.
pub(crate) fn encode_pages(pages: &[(u64, Lsn)]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(pages.len() * 16);
    for (page, lsn) in pages {
        payload.extend_from_slice(&page.to_le_bytes());
        payload.extend_from_slice(&lsn.get().to_le_bytes());
    }
    payload
}

/// Decodes the dirty pages of a `CHECKPOINT_PAGES` record.
pub(crate) fn decode_pages(payload: &[u8]) -> Result<Vec<(u64, Lsn)>, Malformed> {
    let (words, rest) = payload.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(Malformed("a list of dirty pages of odd length"));
    }
    Ok(words
        .iter()
        .map(|pair| {
            let (page, lsn) = pair.split_at(8);
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            (number(page), Lsn::new(number(lsn)))
        })
        .collect())
}

/// Adds one transaction to the payload of a `CHECKPOINT_ACTIVE` record.
pub(crate) fn encode_active(entry: &ActiveEntry, payload: &mut Vec<u8>) {
    let state = match entry.state {
        State::Active => 0u64,
        State::Committed => 1,
    };
    let words = [entry.txn.get(), state, entry.first.get(), entry.last.get(), entry.chains.len() as u64];
    for word in words.iter().chain(&entry.chains) {
        payload.extend_from_slice(&word.to_le_bytes());
    }
}

/// Decodes the transactions of a `CHECKPOINT_ACTIVE` record.
pub(crate) fn decode_active(payload: &[u8]) -> Result<Vec<ActiveEntry>, Malformed> {
    const SHORT: Malformed = Malformed("a list of active transactions cut short");
    let mut entries = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let mut word = || {
            let word = u64_at(payload, at).ok_or(SHORT);
            at += 8;
            word
        };
        let txn = TxnId::new(word()?);
        let state = match word()? {
            0 => State::Active,
            1 => State::Committed,
            _ => return Err(Malformed("a transaction in an unknown state")),
        };
        let first = Lsn::new(word()?);
        let last = Lsn::new(word()?);
        let count = word()?;
        if count > ((payload.len() - at) / 8) as u64 {
            return Err(SHORT);
        }
        let chains = decode_chains(&payload[at..at + count as usize * 8])?;
        at += count as usize * 8;
        entries.push(ActiveEntry { txn, state, first, last, chains });
    }
    Ok(entries)
}

/// Contents of the last record of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckpointEnd {
    pub(crate) begin: Lsn,
    pub(crate) next_txn: u64,
    pub(crate) next_table: u64,
}

/// Encodes the payload of a `CHECKPOINT_END` record.
pub(crate) fn encode_checkpoint_end(end: &CheckpointEnd) -> Vec<u8> {
    [end.begin.get(), end.next_txn, end.next_table].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Decodes a `CHECKPOINT_END` record.
pub(crate) fn decode_checkpoint_end(payload: &[u8]) -> Result<CheckpointEnd, Malformed> {
    let word = |at| u64_at(payload, at).ok_or(Malformed("a checkpoint's end cut short"));
    Ok(CheckpointEnd { begin: Lsn::new(word(0)?), next_txn: word(8)?, next_table: word(16)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let chains = vec![3, u64::MAX, 0];
        assert_eq!(decode_chains(&encode_chains(&chains)), Ok(chains.clone()));
        let pages = vec![(7, Lsn::new(9)), (1, Lsn::new(2))];
        assert_eq!(decode_pages(&encode_pages(&pages)), Ok(pages));
        let entries: Vec<_> = [State::Active, State::Committed]
            .into_iter()
            .map(|state| ActiveEntry {
                txn: TxnId::new(5),
                state,
                first: Lsn::new(1),
                last: Lsn::new(8),
                chains: chains.clone(),
            })
            .collect();
        let mut payload = Vec::new();
        for entry in &entries {
            encode_active(entry, &mut payload);
        }
        assert_eq!(decode_active(&payload), Ok(entries));
        let end = CheckpointEnd { begin: Lsn::new(4), next_txn: 5, next_table: 6 };
        assert_eq!(decode_checkpoint_end(&encode_checkpoint_end(&end)), Ok(end));
        let head = compensation_head(Lsn::new(77), 16);
        assert_eq!(decode_compensation(&head), Ok((Lsn::new(77), 16, &[][..])));
    }

    #[test]
    fn cut_or_random_payloads_are_refused_without_panic() {
        let seed = std::env::var("KATYDID_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        println!("KATYDID_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let length = random.usize(0..96);
            let payload: Vec<u8> =
                (0..length).map(|_| if random.bool() { 0 } else { random.u8(..) }).collect();
            let outcomes = [
                decode_chains(&payload).is_ok(),
                decode_pages(&payload).is_ok(),
                decode_active(&payload).is_ok(),
                decode_checkpoint_end(&payload).is_ok(),
                decode_compensation(&payload).is_ok(),
            ];
            assert!(!outcomes[0] || length.is_multiple_of(8));
        }
    }
}
