//! Every inserter with every sync protocol passes the same suite.

use katydid_wal::testing::conformance;
use katydid_wal::{Group, InserterKind, Log, Options, SyncKind};

fn check(inserter: InserterKind, sync: SyncKind) {
    check_with(Options { inserter, sync, ..Options::default() });
}

fn check_with(chosen: Options) {
    conformance(chosen.sync, |directory, options| {
        let Options { inserter, sync, depth_min, group, .. } = chosen;
        Log::open_in(directory, Options { inserter, sync, depth_min, group, ..options })
            .expect("the log opens")
    });
}

#[test]
fn four_writes_under_way() {
    for inserter in [InserterKind::Marks, InserterKind::Chunked, InserterKind::Mutex] {
        check_with(Options { inserter, depth_min: 4, ..Options::default() });
    }
}

#[test]
fn rounds_that_wait_for_company() {
    let group = Group { commits: 3, bytes: 1 << 20, microseconds: 200 };
    check_with(Options { sync: SyncKind::Pipelined, group, ..Options::default() });
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
