//! Every inserter with every sync protocol passes the same suite.

use katydid_wal::testing::conformance;
use katydid_wal::{InserterKind, Log, Options, SyncKind};

fn check(inserter: InserterKind, sync: SyncKind) {
    conformance(|directory, options| {
        Log::open_in(directory, Options { inserter, sync, ..options }).expect("the log opens")
    });
}

/// One module of tests for each design, and a check that none is missing.
macro_rules! suites {
    ($($name:ident: $kind:ident),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn adaptive() {
                check(InserterKind::$kind, SyncKind::Adaptive);
            }

            #[test]
            fn pipelined() {
                check(InserterKind::$kind, SyncKind::Pipelined);
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
