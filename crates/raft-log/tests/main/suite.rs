//! openraft's conformance suite of log stores.

use crate::Types;
use crate::machine::Machine;
use katydid_raft_log::RaftLog;
use katydid_raft_log::wal::{FileOptions, Options};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt;
use tempfile::TempDir;

struct InFiles;

impl StoreBuilder<Types, RaftLog<Types>, Machine, TempDir> for InFiles {
    async fn build(&self) -> Result<(TempDir, RaftLog<Types>, Machine), StorageError<Types>> {
        let folder = tempfile::tempdir().expect("a folder");
        let files = FileOptions { segment_bytes: 64 << 10, ..FileOptions::default() };
        let options = Options { medium: files.into(), reserve_bytes: 0, ..Options::default() };
        let log = RaftLog::open(folder.path(), options).expect("open");
        Ok((folder, log, Machine::default()))
    }
}

#[test]
fn the_whole_suite_of_openraft_passes() {
    Types::run(async { Suite::test_all(InFiles).await }).expect("conforms");
}
