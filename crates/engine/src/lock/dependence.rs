//! Dependencies on transactions that released locks early (early lock release, ELR): the ends of
//! their commit records.
//!
//! With early lock release a transaction drops its locks when its commit record has a position in
//! the log, before that record is durable. A transaction that locks the same key later sees the
//! releaser's writes, and must not be acknowledged before they are durable. So the release of an
//! exclusive lock publishes the releaser's commit end in the lock's shard, and each later grant of
//! the lock returns that commit end.
//!
//! There is one [`Dependence`] per lock shard, inside the shard's mutex; any transaction's thread
//! runs this code. A `Dependence` has a fixed number of buckets, not one per key. If two keys share
//! a bucket, a grant may return a greater LSN than needed, never a smaller one. A collision costs
//! at most a wait for the newest pre-committed transaction, whose commit record is being written
//! anyway. With `LockRelease::AfterDurable`, only a commit that asked for less than
//! `Durability::Durable` publishes its end; without such commits no bucket is allocated.
//!
//! Rules:
//!
//! 1. The value of a bucket only grows.
//! 2. Publish before release: [`Dependence::publish`] runs in the same critical section of the
//!    shard that removes the releaser from the key's holders, and before the removal.
//! 3. A grant of a key reads the key's bucket in a critical section of the same shard, after the
//!    grant was decided. A grant of an interval reads `newest` of every shard, in a critical
//!    section of each, after the last blocker is gone.
//!
//! By these rules a transaction R that sees a value of W is not acknowledged before W is durable.
//! Let W have written k and released it early with commit end e, and let R be granted a lock that
//! conflicts with W's. Then W's removal from the holders precedes R's grant in the shard's order.
//! (For an interval: R's visit of k's shard found no W, or R waited until W had left all shards and
//! visits them again.) By rule 2, e was published before the removal; by rule 3, R reads the bucket
//! after the grant; so by rule 1 the value that R reads is at least e. R waits until the log is
//! durable up to that value before it is acknowledged, so no program learns k's new value before
//! that value is durable. If e were published after the removal, R could be granted in between,
//! read the bucket's old value, and be acknowledged as a read-only transaction. A crash would then
//! undo the value that R has reported. W's own dependencies are not recorded here. Each record of W
//! lies above the commit records on which W depended when it appended the record
//! (`Writer::depend_on`). So a log that is durable up to e includes those commit records.
//!
//! For most intervals a table's newest commit end is far above the commit ends on which the holder
//! really depends. After the holder of an interval has read the interval's keys, it may use a lower
//! value instead (`LockSpace::dependence_of`). This value is the greatest of the buckets of the
//! keys that the holder has found, and of the newest commit that has removed a key of the table.
//! The lower value suffices, because a reader sees W's change of k as k's value or as k's absence.
//! If k is present, W published k's bucket before it released k. If k is absent, a transaction W'
//! has removed it, where W' is W or later than W. W' published the removal before it released k,
//! and its commit end is not below W's: W' is W, or W' depended on W.
//!
//! Dependencies are not stored on the device, and need not be: after recovery everything visible is
//! durable.

use crate::Lsn;

/// Number of buckets of a shard.
const BUCKETS: usize = 64;

/// The commit ends published in one shard.
#[derive(Debug, Default)]
pub(super) struct Dependence {
    newest: Lsn,
    buckets: Option<Box<[Lsn; BUCKETS]>>,
}

impl Dependence {
    /// Publishes `commit_end` for the key hashed to `hash`, whose exclusive lock is about to be
    /// released.
    pub(super) fn publish(&mut self, hash: u64, commit_end: Lsn) {
        self.newest = self.newest.max(commit_end);
        let bucket = &mut self.buckets.get_or_insert_with(|| Box::new([Lsn::ZERO; BUCKETS]))[bucket(hash)];
        *bucket = (*bucket).max(commit_end);
    }

    /// Returns the commit end on which a holder of the key hashed to `hash` depends.
    pub(super) fn of_point(&self, hash: u64) -> Lsn {
        self.buckets.as_ref().map_or(Lsn::ZERO, |buckets| buckets[bucket(hash)])
    }

    /// Returns the commit end on which a holder of any interval depends, for the keys of this
    /// shard.
    pub(super) fn of_interval(&self) -> Lsn {
        self.newest
    }
}

/// Returns the index of the bucket of `hash`. The lowest bits choose it, because the highest bits
/// have chosen the shard.
fn bucket(hash: u64) -> usize {
    (hash % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_only_grow_and_intervals_see_them_all() {
        let mut dependence = Dependence::default();
        assert_eq!(dependence.of_point(5), Lsn::ZERO);
        dependence.publish(5, Lsn::new(100));
        dependence.publish(5, Lsn::new(40));
        dependence.publish(6, Lsn::new(70));
        assert_eq!(dependence.of_point(5), Lsn::new(100));
        assert_eq!(dependence.of_point(6), Lsn::new(70));
        assert_eq!(dependence.of_point(7), Lsn::ZERO);
        assert_eq!(dependence.of_interval(), Lsn::new(100));
    }
}
