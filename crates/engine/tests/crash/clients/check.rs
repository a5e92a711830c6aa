//! Conditions that the rows fulfil after recovery.
//!
//! Each transaction leaves a mark. Every acknowledged transaction must have survived. In the paged
//! engine the lost transactions of each client are its last ones; in the memory engine a
//! transaction after a lost one may survive if it has read nothing that is lost and nothing of its
//! own client. A client's own keys are exactly what its survivors wrote. The surviving versions of
//! a shared key form a chain without a missing link. A version must have survived in each of three
//! cases: a surviving transaction read the version, an acknowledged reader was shown the version,
//! or any reader of durable versions was shown it.

use super::{Change, Log, SHARED, Version, decode, gone, marks, shared};
use katydid::EngineKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn check(rows: &Rows, logs: &[Log], engine: EngineKind) {
    let survived: Vec<BTreeSet<u64>> = (0..logs.len() as u64)
        .map(|client| {
            let marks = marks(client);
            let keys = rows.keys().filter_map(|key| str::from_utf8(key).ok()?.strip_prefix(&marks));
            keys.map(|number| number.parse().expect("a number")).collect()
        })
        .collect();
    let has = |(client, number): Version| survived[client as usize].contains(&number);
    for (client, log) in logs.iter().enumerate() {
        let survived = &survived[client];
        let lost: Vec<_> = log.acknowledged.difference(survived).collect();
        assert!(lost.is_empty(), "client {client}: {lost:?} were acknowledged, and are lost");
        let last = survived.last().copied().unwrap_or(0);
        assert!(last <= log.attempts.len() as u64, "client {client} never tried {last}");
        assert!(log.refused.is_disjoint(survived), "client {client}: of {:?} some are there", log.refused);
        if engine == EngineKind::Paged {
            assert_eq!(survived.len() as u64, last, "client {client}: some are lost, and later ones are not");
        }
        let mut model = BTreeMap::new();
        for nth in survived {
            let attempt = &log.attempts[*nth as usize - 1];
            for (key, value) in &attempt.own {
                match value {
                    Some(value) => model.insert(key.clone(), value.clone()),
                    None => model.remove(key),
                };
            }
            for version in &attempt.read {
                assert!(
                    has(*version),
                    "client {client} read {version:?}, which is lost, and survived: {attempt:?}"
                );
            }
        }
        let prefix = format!("own-{client}-").into_bytes();
        let found: BTreeMap<_, _> = rows
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert!(found == model, "client {client}: its keys are not those after {survived:?}");
        for version in &log.shown {
            assert!(has(*version), "client {client} was shown {version:?}, which is lost");
        }
    }
    (0..SHARED).for_each(|number| check_shared(rows, logs, &survived, number));
}

/// Checks one shared key. Its row, or the row that names its deleter, is from the last survivor
/// that wrote the key. The chain of replaced versions leads from there to all other survivors that
/// wrote the key.
fn check_shared(rows: &Rows, logs: &[Log], survived: &[BTreeSet<u64>], number: u64) {
    let mut changes: HashMap<Version, &Change> = HashMap::new();
    for (client, log) in logs.iter().enumerate() {
        for nth in &survived[client] {
            let mut shared = log.attempts[*nth as usize - 1].shared.iter();
            if let Some(change) = shared.find(|change| change.number == number) {
                changes.insert((client as u64, *nth), change);
            }
        }
    }
    let row = rows.get(&shared(number));
    let last = row.or(rows.get(&gone(number))).map_or((0, 0), |value| decode(value));
    if let Some(change) = changes.get(&last) {
        assert_eq!(change.is_delete, row.is_none(), "shared key {number}: {last:?} has left it otherwise");
    }
    let mut seen = BTreeSet::new();
    let mut at = last;
    while at.1 != 0 {
        assert!(seen.insert(at), "a circle of versions");
        let change = changes.get(&at);
        at = change
            .unwrap_or_else(|| panic!("shared key {number}: version {at:?} is there, its writer is not"))
            .replaced;
    }
    assert_eq!(seen.len(), changes.len(), "shared key {number}: writes of surviving transactions are lost");
}
