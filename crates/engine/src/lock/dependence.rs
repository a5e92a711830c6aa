//! Dependencies of readers of early-released locks (early lock release, ELR): the commit ends of
//! the transactions that released them.
//!
//! With early lock release a transaction drops its locks when its commit record has a place in the
//! log, before that is durable. A transaction that locks the same key later sees its writes, and
//! must not be acknowledged before they are durable. So each exclusive release leaves the
//! releaser's commit end behind, and each grant returns it.
//!
//! There is one [`Dependence`] per lock shard, inside the shard's mutex; any transaction's thread
//! runs this. It is sized by buckets, not by keys: a collision names a later LSN than needed, never
//! an earlier one, and costs at most a wait for the newest pre-committed transaction, which is
//! being written anyway. With `AfterDurable` nothing is ever published and nothing allocated.
//!
//! 1. Values only grow.
//! 2. Publish before release: [`Dependence::publish`] runs in the same critical section of the
//!    shard that removes the releaser from the key's holders, and before the removal.
//! 3. A grant of a key reads its bucket in a critical section of the same shard, after the grant
//!    was decided; a grant of an interval reads `newest` of every shard, in a critical section of
//!    each, after the last blocker is gone.
//!
//! This is enough. Let W have written k and released it early with commit end e, and let R be
//! granted a lock that conflicts with W's. Then W's removal from the holders precedes R's grant in
//! the shard's order. (For an interval: R's visit of k's shard found no W, or R waited until W had
//! left all shards and visits them again.) By 2, e was published before the removal, by 3 R's read
//! comes after it, and by 1 the value that R reads is at least e. R waits until the log is durable
//! up to that value before it is acknowledged, so no program learns k's new value before it is
//! durable. If e were published after the removal, R could be granted and read the old value in
//! between, and be acknowledged as a read-only transaction; a crash would then take back what R has
//! reported. W's own dependencies need no bookkeeping here: W's records lie above the commit
//! records it depended on when it appended them (`Writer::depend_on`), so durable up to e includes
//! those.
//!
//! A table's newest commit end is far more than most intervals depend on. Once its holder has read
//! it, it may ask for less: for the buckets of the keys that it has found, and for the newest
//! commit that has removed a key (`LockSpace::dependence_of`). That is enough as well: what W has
//! done to k is seen as k's value, or as its absence. If k is there, its bucket was published
//! before W let go of it. If it is not, a transaction W' has removed it, later or W itself, and
//! published that before it let go; and durable up to its commit end is durable up to W's, which it
//! depended on.
//!
//! Nothing survives a crash, and nothing need: after recovery everything visible is durable.

use crate::Lsn;

/// Buckets of one shard.
const BUCKETS: usize = 64;

/// The commit ends left behind in one shard.
#[derive(Debug, Default)]
pub(super) struct Dependence {
    newest: Lsn,
    buckets: Option<Box<[Lsn; BUCKETS]>>,
}

impl Dependence {
    /// Leaves `commit_end` behind for the key hashed to `hash`, whose exclusive lock is about to be
    /// released.
    pub(super) fn publish(&mut self, hash: u64, commit_end: Lsn) {
        self.newest = self.newest.max(commit_end);
        let bucket = &mut self.buckets.get_or_insert_with(|| Box::new([Lsn::ZERO; BUCKETS]))[bucket(hash)];
        *bucket = (*bucket).max(commit_end);
    }

    /// Dependency of a holder of the key hashed to `hash`.
    pub(super) fn of_point(&self, hash: u64) -> Lsn {
        self.buckets.as_ref().map_or(Lsn::ZERO, |buckets| buckets[bucket(hash)])
    }

    /// Dependency of a holder of any interval, as far as this shard's keys go.
    pub(super) fn of_interval(&self) -> Lsn {
        self.newest
    }
}

/// The lowest bits: shards are told apart by the highest ones.
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
