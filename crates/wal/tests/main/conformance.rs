//! Every inserter with every sync protocol passes the same suite.

use katydid_wal::testing::conformance;
use katydid_wal::{Group, InserterDesign, InserterKind, Log, LogKind, SyncDesign, SyncKind};

fn check(inserter: InserterKind, sync: SyncKind) {
    check_with(inserter.into(), sync.into());
}

fn check_with(inserter: InserterDesign, sync: SyncDesign) {
    conformance(sync.kind(), |directory, mut sizes| {
        (sizes.medium.files.inserter, sizes.medium.files.sync) = (inserter, sync);
        Log::open_in(directory, sizes.options(LogKind::Disk)).expect("the log opens")
    });
}

#[test]
fn four_writes_under_way() {
    for inserter in [InserterKind::Marks, InserterKind::Chunked, InserterKind::Mutex] {
        check_with(inserter.into(), SyncDesign::adaptive(4));
    }
}

#[test]
fn rounds_that_wait_for_company() {
    let group = Group { commits: 3, bytes: 1 << 20, microseconds: 200 };
    check_with(InserterDesign::default(), SyncDesign::pipelined(group));
}

#[test]
fn groups_that_committing_threads_write() {
    let group = Group { commits: 3, bytes: 1 << 20, microseconds: 200 };
    check_with(InserterDesign::default(), SyncDesign::Inline { group });
}

/// One module of tests for each inserter, and a check that none is missing.
macro_rules! suites {
    ($($name:ident: $kind:ident),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn every_protocol() {
                for sync in SyncKind::ALL {
                    check(InserterKind::$kind, sync);
                }
            }
        })+

        #[test]
        fn every_design_is_here() {
            assert_eq!(InserterKind::ALL.to_vec(), vec![$(InserterKind::$kind),+]);
        }
    };
}

suites! {
    mutex: Mutex,
    consolidated: Consolidated,
    decoupled: Decoupled,
    hybrid: Hybrid,
    delegated: Delegated,
    grasshopper: Grasshopper,
    bitmap: Bitmap,
    chunked: Chunked,
    marks: Marks,
}
