//! Tests of checkpoints that capture a transaction while it ends. Whatever the order of the
//! checkpoint's and the transaction's records, analysis must know which transactions are committed.
//! It must also know which of their chains are still to be freed, each chain once.

use super::analysis::Analysis;
use crate::error::Error;
use crate::ids::TxnId;
use crate::paged::change::{ChangeKind, encode_chain_free};
use crate::paged::log_record::{
    ActiveEntry, CHECKPOINT_ACTIVE, CHECKPOINT_BEGIN, CHECKPOINT_END, COMMIT, CheckpointEnd, END, State,
    encode_active, encode_chains, encode_checkpoint_end,
};
use crate::paged::page::PageId;
use crate::{Chain, CommitStamp, Lsn};
use katydid_wal::{Kind, RecordRef};

const TXN: u64 = 7;
const FIRST: Lsn = Lsn::new(100);
const BEGIN: Lsn = Lsn::new(1000);

/// The records from the begin record of a checkpoint on, passed to analysis one after the other.
struct Seen {
    analysis: Analysis,
    next: Lsn,
}

impl Seen {
    fn begin() -> Seen {
        let mut seen = Seen { analysis: Analysis::new(BEGIN), next: BEGIN };
        seen.record(CHECKPOINT_BEGIN, 0, Lsn::ZERO, &[]);
        seen
    }

    fn record(&mut self, kind: u8, txn: u64, prev: Lsn, payload: &[u8]) -> Lsn {
        let lsn = self.next;
        self.next = Lsn::new(lsn.get() + 64);
        let chain = Chain::Previous(prev);
        let record =
            RecordRef { lsn, first: lsn, end: self.next, kind: Kind::new(kind), txn, chain, payload };
        self.analysis.see(&record).expect("a well-formed record");
        lsn
    }

    fn change(&mut self) -> Lsn {
        self.record(ChangeKind::LeafInsert.number(), TXN, FIRST, &[])
    }

    fn commit(&mut self, chains: &[u64]) -> Lsn {
        self.record(COMMIT, TXN, FIRST, &encode_chains(chains))
    }

    fn free(&mut self, chain: u64) -> Lsn {
        let head = encode_chain_free(PageId::new(chain));
        self.record(ChangeKind::ChainFree.number(), TXN, FIRST, &head)
    }

    fn end(&mut self) {
        self.record(END, TXN, FIRST, &[]);
    }

    /// Passes the checkpoint's list of transactions to analysis. The list has the transaction as it
    /// was some records earlier.
    fn captured(&mut self, state: State, last: Lsn, chains: &[u64]) {
        let entry = ActiveEntry { txn: TxnId::new(TXN), state, first: FIRST, last, chains: chains.to_vec() };
        let mut payload = Vec::new();
        encode_active(&entry, &mut payload);
        self.record(CHECKPOINT_ACTIVE, 0, BEGIN, &payload);
    }

    fn complete(&mut self) {
        let end = CheckpointEnd { begin: BEGIN, next_txn: TXN + 1, next_table: 1 };
        self.record(CHECKPOINT_END, 0, BEGIN, &encode_checkpoint_end(&end));
    }

    /// Returns the one transaction that had not ended: its state, its newest record, and the chains
    /// that are still to be freed.
    fn unfinished(self) -> Option<(State, Lsn, Vec<u64>)> {
        let mut entries = self.analysis.unfinished().into_iter();
        let (entry, _) = entries.next()?;
        assert!(entries.next().is_none(), "one transaction, two entries");
        assert_eq!(
            (entry.txn, entry.first),
            (TxnId::new(TXN), FIRST),
            "undo could not reach its first record"
        );
        Some((entry.state, entry.last, entry.chains))
    }
}

/// Position of the commit record, below the begin record.
const COMMITTED: Lsn = Lsn::new(900);

#[test]
fn a_captured_commit_stays_one_when_a_chain_was_freed_after_its_capture() {
    let mut seen = Seen::begin();
    let freed = seen.free(41);
    seen.captured(State::Committed, COMMITTED, &[40, 41, 42]);
    seen.complete();
    assert_eq!(seen.unfinished(), Some((State::Committed, freed, vec![40, 42])));
}

#[test]
fn a_captured_commit_whose_chains_were_all_freed_has_only_to_end() {
    let mut seen = Seen::begin();
    seen.free(40);
    let freed = seen.free(41);
    seen.captured(State::Committed, COMMITTED, &[40, 41]);
    seen.complete();
    assert_eq!(seen.unfinished(), Some((State::Committed, freed, vec![])));
}

#[test]
fn chains_freed_on_both_sides_of_the_captured_list_are_freed_once() {
    let mut seen = Seen::begin();
    seen.free(40);
    seen.captured(State::Committed, COMMITTED, &[40, 41, 42]);
    let freed = seen.free(42);
    seen.complete();
    assert_eq!(seen.unfinished(), Some((State::Committed, freed, vec![41])));
}

#[test]
fn a_chain_freed_before_the_capture_and_after_the_begin_record_does_not_come_back() {
    let mut seen = Seen::begin();
    let freed = seen.free(40);
    seen.captured(State::Committed, freed, &[41]);
    seen.complete();
    assert_eq!(seen.unfinished(), Some((State::Committed, freed, vec![41])));
}

#[test]
fn a_captured_commit_that_ended_before_its_list_was_logged_is_gone() {
    let mut seen = Seen::begin();
    seen.free(40);
    seen.end();
    seen.captured(State::Committed, COMMITTED, &[40]);
    seen.complete();
    assert_eq!(seen.unfinished(), None);
}

#[test]
fn a_transaction_captured_as_active_that_commits_before_its_list_is_logged_is_committed() {
    let mut seen = Seen::begin();
    let written = seen.change();
    seen.commit(&[40, 41]);
    let freed = seen.free(40);
    seen.captured(State::Active, written, &[]);
    seen.complete();
    assert_eq!(seen.unfinished(), Some((State::Committed, freed, vec![41])));
}

#[test]
fn a_transaction_captured_as_active_that_writes_on_stays_active() {
    let mut seen = Seen::begin();
    let written = seen.change();
    seen.captured(State::Active, FIRST, &[]);
    seen.complete();
    assert_eq!(seen.unfinished(), Some((State::Active, written, vec![])));
}

#[test]
fn a_record_with_a_commit_stamp_is_refused() {
    let chain = Chain::Commit { stamp: CommitStamp::new(8), dependencies: 0 };
    let (lsn, kind) = (BEGIN, Kind::new(COMMIT));
    let record =
        RecordRef { lsn, first: lsn, end: Lsn::new(BEGIN.get() + 64), kind, txn: TXN, chain, payload: &[] };
    let refused = Analysis::new(BEGIN).see(&record);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}
