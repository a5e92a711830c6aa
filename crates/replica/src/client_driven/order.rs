//! The order of conflicting writes: the client library locks the keys before it sends a
//! transaction, and holds the locks until the outcome is known.
//!
//! The paper sends each request to all replicas at once. The paper does not say what happens if two
//! requests for one key arrive in different orders at two replicas. Here two sessions of one
//! [`Cluster`](super::Cluster) never have two such requests in flight at once. Sessions of
//! different clusters, such as those of two client processes, are not ordered: their writes may
//! leave the replicas different, which a comparison finds.
//!
//! Any thread may lock keys. Sessions cannot deadlock, because a session waits for a key only if it
//! holds no greater key. If the session holds a greater key, the lock is refused.
//!
//! | lock | guards | rank |
//! |---|---|---|
//! | `held` | the held keys, and the mode of each | none: no other lock is held when it is taken |

use super::message::TransactionId;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of a table, and a key in that table.
pub(super) type TableKey = (String, Vec<u8>);

/// Mode in which a key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// A transaction in flight holds the key.
    UnderWay,
    /// A transaction whose outcome is unknown holds the key, until its session has resolved the
    /// transaction.
    Unknown(TransactionId),
}

/// Reason why a key was not locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotLocked {
    /// Another transaction holds the key, and this transaction holds a greater key: waiting could
    /// be a deadlock.
    Busy,
    /// A transaction whose outcome is unknown holds the key.
    Unknown(TransactionId),
}

/// The keys that transactions of one cluster hold.
#[derive(Debug, Default)]
pub(super) struct KeyLocks {
    held: Mutex<BTreeMap<TableKey, Hold>>,
    released: Condvar,
}

/// The keys that one transaction holds. Dropping it releases them.
#[derive(Debug)]
pub(super) struct HeldKeys {
    locks: Arc<KeyLocks>,
    keys: Vec<TableKey>,
}

impl HeldKeys {
    pub fn none(locks: &Arc<KeyLocks>) -> HeldKeys {
        HeldKeys { locks: Arc::clone(locks), keys: Vec::new() }
    }

    pub fn holds(&self, key: &TableKey) -> bool {
        self.keys.contains(key)
    }

    /// Locks a key. Does nothing if this transaction holds the key already.
    pub fn lock(&mut self, key: TableKey) -> Result<(), NotLocked> {
        if self.holds(&key) {
            return Ok(());
        }
        let may_wait = self.keys.iter().all(|held| *held < key);
        let mut held = self.locks.held.lock();
        loop {
            match held.get(&key) {
                None => break,
                Some(Hold::Unknown(id)) => return Err(NotLocked::Unknown(*id)),
                Some(Hold::UnderWay) if !may_wait => return Err(NotLocked::Busy),
                Some(Hold::UnderWay) => self.locks.released.wait(&mut held),
            }
        }
        held.insert(key.clone(), Hold::UnderWay);
        drop(held);
        self.keys.push(key);
        Ok(())
    }

    /// Marks the keys as held by a transaction whose outcome is unknown, and notifies waiting
    /// transactions.
    pub fn mark_unknown(&self, id: TransactionId) {
        let mut held = self.locks.held.lock();
        for key in &self.keys {
            held.insert(key.clone(), Hold::Unknown(id));
        }
        drop(held);
        self.locks.released.notify_all();
    }

    /// Leaves the keys held for ever, because the session that could resolve their transaction is
    /// gone.
    pub fn abandon(mut self) {
        self.keys.clear();
    }
}

impl Drop for HeldKeys {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let mut held = self.locks.held.lock();
        for key in &self.keys {
            held.remove(key);
        }
        drop(held);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::ClientId;
    use super::*;

    fn key(key: &str) -> TableKey {
        ("t".to_owned(), key.as_bytes().to_vec())
    }

    #[test]
    fn a_key_below_a_held_one_is_not_waited_for() {
        let locks = Arc::<KeyLocks>::default();
        let (mut first, mut second) = (HeldKeys::none(&locks), HeldKeys::none(&locks));
        first.lock(key("a")).unwrap();
        second.lock(key("b")).unwrap();
        assert_eq!(second.lock(key("a")), Err(NotLocked::Busy));
        drop(first);
        assert_eq!(second.lock(key("a")), Ok(()));
        assert!(second.holds(&key("a")));
    }

    #[test]
    fn a_waiting_transaction_gets_a_key_that_is_released_and_not_one_in_doubt() {
        let locks = Arc::<KeyLocks>::default();
        let id = TransactionId { client: ClientId(1), sequence: 2 };
        for unknown in [false, true] {
            let mut first = HeldKeys::none(&locks);
            first.lock(key("a")).unwrap();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| HeldKeys::none(&locks).lock(key("a")));
                if unknown {
                    first.mark_unknown(id);
                    assert_eq!(waiting.join().unwrap(), Err(NotLocked::Unknown(id)));
                    drop(first);
                } else {
                    drop(first);
                    assert_eq!(waiting.join().unwrap(), Ok(()));
                }
            });
        }
        assert!(locks.held.lock().is_empty());
    }
}
