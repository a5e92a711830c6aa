//! Every inserter with every sync protocol passes the same suite.

use katydid_wal::testing::conformance;
use katydid_wal::{InserterKind, Log, Options, SyncKind};

fn check(inserter: InserterKind, sync: SyncKind) {
    conformance(|directory, options| {
        Log::open_in(directory, Options { inserter, sync, ..options }).expect("the log opens")
    });
}

#[test]
fn mutex_adaptive() {
    check(InserterKind::Mutex, SyncKind::Adaptive);
}

#[test]
fn mutex_pipelined() {
    check(InserterKind::Mutex, SyncKind::Pipelined);
}

#[test]
fn marks_adaptive() {
    check(InserterKind::Marks, SyncKind::Adaptive);
}

#[test]
fn marks_pipelined() {
    check(InserterKind::Marks, SyncKind::Pipelined);
}
