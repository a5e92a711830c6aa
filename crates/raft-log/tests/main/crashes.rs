//! Crashes at every call of the device. After a crash the log has all acknowledged entries and no
//! truncated entry, and its vote is not older than the last saved vote.

use crate::Types;
use fastrand::Rng;
use katydid_device::SimDevice;
use katydid_device::testing::seed;
use katydid_raft_log::RaftLog;
use katydid_raft_log::wal::{FileOptions, Options};
use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftLogStorageExt};
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftLogReader, Vote};
use std::io;

type Leader = openraft::alias::LeaderIdOf<Types>;

pub fn options() -> Options {
    let files = FileOptions {
        segment_bytes: 16 << 10,
        first_segment_bytes: 8 << 10,
        ring_bytes: 16 << 10,
        spare_segments: 1,
        ..FileOptions::default()
    };
    Options { medium: files.into(), reserve_bytes: 0, run_ahead_bytes: 4 << 10, ..Options::default() }
}

pub fn id(term: u64, index: u64) -> LogIdOf<Types> {
    LogIdOf::<Types>::new(Leader::new(term, 1).to_committed(), index)
}

pub fn vote(term: u64) -> VoteOf<Types> {
    Vote::new(term, 1)
}

/// Makes an entry. No two entries of one index have the same term, so the term distinguishes them.
pub fn entry(term: u64, index: u64, bytes: usize) -> EntryOf<Types> {
    let payload = EntryPayload::Normal(format!("{term} ").repeat(bytes / 2));
    EntryOf::<Types>::new(id(term, index), payload)
}

/// The entries, as terms and indices, that a log may have after a crash.
#[derive(Debug, Clone, Default)]
struct Model {
    entries: Vec<(u64, u64)>,
    /// Entries below this number were acknowledged.
    acknowledged: u64,
    /// First number that a truncation drops; set until the truncation has returned.
    truncating: Option<u64>,
    /// Entries below `purged` are purged; those below `purging` may be.
    purged: u64,
    purging: u64,
    /// Terms of the last saved vote and of the greatest vote that may have been saved.
    voted: u64,
    voting: u64,
    /// The last used term, which only grows.
    term: u64,
}

impl Model {
    fn next(&self) -> u64 {
        self.entries.last().map_or(self.purged, |last| last.1 + 1)
    }

    async fn check(&mut self, log: &mut RaftLog<Types>) -> io::Result<()> {
        let state = log.get_log_state().await?;
        let vote = log.read_vote().await?.map_or(0, |vote| vote.leader_id.term);
        assert!((self.voted..=self.voting).contains(&vote), "vote {vote}: {self:?}");
        let purged = state.last_purged_log_id.map_or(0, |id| id.index + 1);
        assert!((self.purged..=self.purging.max(self.purged)).contains(&purged), "purged {purged}: {self:?}");
        let found: Vec<EntryOf<Types>> = log.try_get_log_entries(..).await?;
        let found: Vec<(u64, u64)> =
            found.iter().map(|entry| (entry.log_id().leader_id.term, entry.log_id().index)).collect();
        let before: Vec<(u64, u64)> =
            self.entries.iter().copied().filter(|(_, index)| *index >= purged).collect();
        let next = found.last().map_or(purged, |last| last.1 + 1);
        let is_as_before = before.starts_with(&found) && next >= self.acknowledged.max(purged);
        let is_truncated = self.truncating.is_some_and(|keep| {
            let kept: Vec<(u64, u64)> = before.iter().copied().filter(|(_, index)| *index < keep).collect();
            found == kept
        });
        assert!(is_as_before || is_truncated, "found {found:?}: {self:?}");
        (self.entries, self.acknowledged, self.truncating) = (found, next, None);
        (self.purged, self.purging, self.voted, self.voting) = (purged, purged, vote, vote);
        Ok(())
    }

    async fn step(&mut self, log: &mut RaftLog<Types>, random: &mut Rng) -> io::Result<()> {
        self.term += 1;
        match random.usize(..10) {
            0..5 => {
                let next = self.next();
                let numbers = next..next + random.u64(1..4);
                let bytes = if random.u8(..8) == 0 { 5_000 } else { random.usize(..600) };
                let entries: Vec<_> = numbers.clone().map(|index| entry(self.term, index, bytes)).collect();
                self.entries.extend(numbers.clone().map(|index| (self.term, index)));
                if random.bool() {
                    log.append(entries, IOFlushed::noop()).await?;
                } else {
                    log.blocking_append(entries).await.map_err(io::Error::other)?;
                    self.acknowledged = numbers.end;
                }
                let last = log.try_get_log_entries(numbers.end - 1..).await?;
                assert_eq!(last.len(), 1, "it can be read at once");
            }
            5 => {
                self.voting = self.term;
                log.save_vote(&vote(self.term)).await?;
                self.voted = self.term;
            }
            6 => log.save_committed(self.entries.last().map(|(term, index)| id(*term, *index))).await?,
            7 if self.entries.len() > 3 => {
                let (term, index) = self.entries[random.usize(..3)];
                self.purging = index + 1;
                log.purge(id(term, index)).await?;
                self.purged = index + 1;
                self.entries.retain(|entry| entry.1 > index);
                self.acknowledged = self.acknowledged.max(self.purged);
            }
            _ => {
                let keep = self.entries.len() - random.usize(..4).min(self.entries.len());
                let last = keep.checked_sub(1).map(|last| self.entries[last]);
                let number = last.map_or(self.purged, |last| last.1 + 1);
                if keep == self.entries.len() {
                    return Ok(());
                }
                self.truncating = Some(number);
                let last = last.or(self.purged.checked_sub(1).map(|index| (1, index)));
                log.truncate_after(last.map(|(term, index)| id(term, index))).await?;
                self.entries.truncate(keep);
                (self.truncating, self.acknowledged) = (None, number);
            }
        }
        Ok(())
    }
}

async fn live(device: &SimDevice, model: &mut Model, rounds: usize, random: &mut Rng) {
    let Ok(mut log) = RaftLog::<Types>::open_in(device.directory(), options()) else {
        assert!(device.is_crashed(), "only a crash keeps it from opening");
        return;
    };
    let mut outcome = model.check(&mut log).await;
    for _ in 0..rounds {
        if outcome.is_err() {
            break;
        }
        outcome = model.step(&mut log, random).await;
    }
    if let Err(error) = outcome {
        assert!(device.is_crashed(), "{error}");
        log.save_vote(&vote(u64::MAX)).await.expect_err("nothing is acknowledged after a failure");
    }
    katydid_raft_log::wal::testing::crash(log.log());
}

/// Runs four lives of a log, each ended by a crash. Returns the number of device calls in the first
/// life.
async fn lives(seed: u64, crash_at: u64) -> u64 {
    let mut random = Rng::with_seed(seed);
    let mut device = SimDevice::new(seed);
    let mut model = Model::default();
    device.crash_at(crash_at);
    live(&device, &mut model, 40, &mut random).await;
    let steps = device.steps();
    for life in 0..3 {
        device = match random.u8(..4) {
            0 => device.reopen_after_kill(),
            _ => device.reopen_after_crash(random.u64(..)),
        };
        device.crash_at(random.u64(..[10, 60, u64::MAX][life]));
        live(&device, &mut model, 15, &mut random).await;
    }
    steps
}

#[test]
fn a_crash_at_every_call_of_the_device_keeps_what_raft_relies_on() {
    let seed = seed();
    Types::run(async {
        let steps = lives(seed, u64::MAX).await;
        assert!(steps > 30, "{steps}");
        for crash_at in 0..steps {
            lives(seed.wrapping_add(crash_at % 3), crash_at).await;
        }
    });
}
