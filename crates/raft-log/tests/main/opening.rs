//! Reopening, reading entries that are no longer in memory, and opening logs that are not Raft
//! logs.

use crate::Types;
use crate::crashes::{entry, id, options, vote};
use katydid_device::{Fault, SimDevice, Verb};
use katydid_raft_log::wal::{Append, Kind, Log, LogKind, Options};
use katydid_raft_log::{Error, RaftLog};
use openraft::RaftLogReader;
use openraft::alias::EntryOf;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::type_config::TypeConfigExt;

fn numbers(entries: &[EntryOf<Types>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.log_id().index).collect()
}

#[test]
fn a_log_that_is_opened_again_has_its_entries_votes_and_ends() {
    Types::run(async {
        let device = SimDevice::new(1);
        let mut log = RaftLog::<Types>::open_in(device.directory(), options()).expect("open");
        for first in (0..100).step_by(10) {
            let entries: Vec<_> = (first..first + 10).map(|index| entry(1, index, 400)).collect();
            log.blocking_append(entries).await.expect("append");
        }
        log.save_vote(&vote(7)).await.expect("vote");
        log.save_committed(Some(id(1, 60))).await.expect("committed");
        log.truncate_after(Some(id(1, 79))).await.expect("truncate");
        log.purge(id(1, 39)).await.expect("purge");
        assert!(log.log().first().start().get() > 10_000, "the space of purged entries comes back");
        log.close().expect("close");
        drop(log);

        let mut log = RaftLog::<Types>::open_in(device.directory(), options()).expect("open");
        assert_eq!(log.read_vote().await.expect("vote"), Some(vote(7)));
        assert_eq!(log.read_committed().await.expect("committed"), Some(id(1, 60)));
        let state = log.get_log_state().await.expect("state");
        assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(1, 39)), Some(id(1, 79))));
        // The entries so far are read from the device; the next ones are in memory.
        log.blocking_append([entry(2, 80, 400), entry(2, 81, 400)]).await.expect("append");
        let all = log.try_get_log_entries(..).await.expect("read");
        assert_eq!(numbers(&all), (40..82).collect::<Vec<_>>());
        assert_eq!(all[0], entry(1, 40, 400));
        for (from, to) in [(40, 41), (70, 82), (78, 81), (80, 82), (0, 40), (82, 90)] {
            let some = log.try_get_log_entries(from..to).await.expect("read");
            assert_eq!(numbers(&some), (from.max(40)..to.min(82).max(from.max(40))).collect::<Vec<_>>());
        }
        let some = log.limited_get_log_entries(60, 82).await.expect("read");
        assert_eq!(numbers(&some)[0], 60);
        log.append([entry(3, 90, 10)], openraft::storage::IOFlushed::noop()).await.expect_err("a gap");
    });
}

#[test]
fn a_failed_sync_is_returned_by_the_append_and_by_every_later_call() {
    Types::run(async {
        let device = SimDevice::new(1);
        let mut log = RaftLog::<Types>::open_in(device.directory(), options()).expect("open");
        log.blocking_append([entry(1, 0, 100)]).await.expect("append");
        device.fail_when(|verb, _, _| matches!(verb, Verb::Sync | Verb::Write).then_some(Fault::SyncIo));
        log.blocking_append([entry(1, 1, 100)]).await.expect_err("the sync fails");
        device.heal();
        log.save_vote(&vote(3)).await.expect_err("latched");
        log.blocking_append([entry(1, 2, 100)]).await.expect_err("latched");
        log.truncate_after(Some(id(1, 0))).await.expect_err("latched");
        log.purge(id(1, 0)).await.expect_err("latched");
    });
}

#[test]
fn a_log_of_another_program_or_kind_is_refused() {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options()).expect("open");
    log.session().expect("session").append(&Append::new(Kind::new(99), &[b"x"])).expect("append");
    log.close().expect("close");
    drop(log);
    let error = RaftLog::<Types>::open_in(device.directory(), options()).expect_err("another program's");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
}

#[test]
fn unsuited_options_are_refused_and_leave_the_folder_as_it_was() {
    let two_streams = Options { streams: 2, ..options() };
    let nvram = Options { medium: LogKind::NvRing.into(), ..options() };
    let device = SimDevice::new(1);
    for unsuited in [two_streams, nvram] {
        let error = RaftLog::<Types>::open_in(device.directory(), unsuited).expect_err("unsuited");
        assert!(matches!(error, Error::Unsuited { .. }), "{error}");
        assert_eq!(device.directory().list().expect("list"), [""; 0]);
    }
    RaftLog::<Types>::open_in(device.directory(), options()).expect("the folder can still be used");
}

/// Makes a log with two entries, a vote and a committed log id, and closes it.
async fn closed_log() -> RaftLog<Types> {
    let device = SimDevice::new(1);
    let mut log = RaftLog::<Types>::open_in(device.directory(), options()).expect("open");
    log.blocking_append([entry(1, 0, 100), entry(1, 1, 100)]).await.expect("append");
    log.save_vote(&vote(1)).await.expect("vote");
    log.save_committed(Some(id(1, 0))).await.expect("committed");
    log.close().expect("close");
    log
}

/// A value that a failed call did not save must not be read, not even after the call is repeated.
#[test]
fn what_a_failed_call_did_not_save_is_not_read() {
    Types::run(async {
        let mut log = closed_log().await;
        for _ in 0..2 {
            log.save_committed(Some(id(1, 1))).await.expect_err("the log is closed");
            assert_eq!(log.read_committed().await.expect("committed"), Some(id(1, 0)));
        }
        let mut log = closed_log().await;
        log.save_vote(&vote(2)).await.expect_err("the log is closed");
        assert_eq!(log.read_vote().await.expect("vote"), Some(vote(1)));
        let mut log = closed_log().await;
        log.purge(id(1, 0)).await.expect_err("the log is closed");
        assert_eq!(log.get_log_state().await.expect("state").last_purged_log_id, None);
    });
}
