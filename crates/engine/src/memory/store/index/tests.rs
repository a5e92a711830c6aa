//! Tests of the index against a model.

use super::super::record::ConflictCause;
use super::*;
use crate::direction::Direction;

fn key(number: u64) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number)
}

fn keys_of(records: &[Arc<Record>]) -> Vec<Vec<u8>> {
    records.iter().map(|record| record.key.to_vec()).collect()
}

fn all(index: &Index, from: Bound<&[u8]>, to: Bound<&[u8]>, direction: Direction) -> Vec<Vec<u8>> {
    let (mut from, mut to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
    let mut records = Vec::new();
    loop {
        let bounds = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        match (index.walk(bounds.0, bounds.1, direction, &mut records), direction) {
            (Reached::End, _) => return keys_of(&records),
            (Reached::Fence(fence), Direction::Up) => from = Bound::Included(fence.to_vec()),
            (Reached::Fence(fence), Direction::Down) => to = Bound::Excluded(fence.to_vec()),
        }
    }
}

fn pass(index: &Index, from: Bound<&[u8]>, to: Bound<&[u8]>, rts: Timestamp) -> Vec<Vec<u8>> {
    let mut from = from.map(<[u8]>::to_vec);
    let mut records: Vec<Arc<Record>> = Vec::new();
    loop {
        match index.pass(from.as_ref().map(Vec::as_slice), to, rts, &mut records) {
            Reached::End => return keys_of(&records),
            Reached::Fence(fence) => from = Bound::Included(fence.to_vec()),
        }
    }
}

/// The index refuses every insertion at a timestamp that is lower than the last timestamp at which
/// its key was found absent.
#[test]
fn keys_come_and_go_and_no_gap_forgets_when_it_was_found_empty() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let index = Index::new(TableId::new(1));
    let mut there = std::collections::BTreeSet::new();
    // For each possible key, the last timestamp at which it was found absent or removed.
    let mut absent_at = vec![0u64; 400];
    for now in 1..20_000u64 {
        let number = random.usize(0..400);
        let name = key(number as u64);
        match random.u32(0..10) {
            0..4 => {
                let at = random.u64(now.saturating_sub(50)..now + 1);
                match index.get_or_insert(&name, timestamp(at)) {
                    Ok((record, is_new)) => {
                        assert_eq!(record.key.as_slice(), name);
                        assert_eq!(is_new, there.insert(name), "{number}");
                        assert!(
                            !is_new || absent_at[number] <= at,
                            "{number} was found absent later than {at}"
                        );
                    }
                    Err(GapRead(rts)) => assert!(!there.contains(&name) && rts > timestamp(at)),
                }
            }
            4..7 => {
                let Some(record) = index.get(&name) else { continue };
                assert!(record.chain().validate(timestamp(now), None).is_ok());
                absent_at[number] = now;
                assert_eq!(index.remove_if(&record, |_| true), Some(false));
                assert!(matches!(record.chain().read(timestamp(now)), Err(ConflictCause::Gone)));
                assert_eq!(index.remove_if(&record, |_| true), None, "only once");
                there.remove(&name);
            }
            _ => {
                let end = (number + random.usize(0..30)).min(399);
                let to = key(end as u64);
                let (from, to) = match random.u32(0..3) {
                    0 => (Bound::Included(name.as_slice()), Bound::Excluded(to.as_slice())),
                    1 => (Bound::Excluded(name.as_slice()), Bound::Included(to.as_slice())),
                    _ => (Bound::Included(name.as_slice()), Bound::Included(to.as_slice())),
                };
                let is_inverted =
                    number == end && !matches!((from, to), (Bound::Included(_), Bound::Included(_)));
                if is_inverted {
                    continue;
                }
                let expected: Vec<Vec<u8>> = there.range::<[u8], _>((from, to)).cloned().collect();
                assert_eq!(all(&index, from, to, Direction::Up), expected);
                let mut down = all(&index, from, to, Direction::Down);
                down.reverse();
                assert_eq!(down, expected);
                assert_eq!(pass(&index, from, to, timestamp(now)), expected);
                let first = number + usize::from(matches!(from, Bound::Excluded(_)));
                let last = end + usize::from(matches!(to, Bound::Included(_)));
                for (number, absent_at) in absent_at.iter_mut().enumerate().take(last).skip(first) {
                    if !there.contains(&key(number as u64)) {
                        *absent_at = now;
                    }
                }
            }
        }
    }
    assert_eq!(all(&index, Bound::Unbounded, Bound::Unbounded, Direction::Up), Vec::from_iter(there.clone()));
    for name in &there {
        let record = index.get(name).expect("it is there");
        assert!(index.remove_if(&record, |_| true).is_some());
    }
    assert_eq!(index.shared().len(), 1, "empty leaves are given to their neighbours");
    let Err(GapRead(rts)) = index.get_or_insert(&key(7), timestamp(0)) else { panic!("it was found absent") };
    assert!(rts.get() >= absent_at[7]);
}

#[test]
fn a_gap_is_raised_no_further_than_was_looked() {
    let index = Index::new(TableId::new(1));
    for number in [10, 20, 30] {
        assert!(index.get_or_insert(&key(number), timestamp(1)).is_ok());
    }
    let (ten, twenty) = (key(10), key(20));
    pass(&index, Bound::Included(&ten), Bound::Included(&twenty), timestamp(9));
    assert!(index.get_or_insert(&key(15), timestamp(8)).is_err());
    assert!(index.get_or_insert(&key(5), timestamp(8)).is_ok());
    assert!(index.get_or_insert(&key(25), timestamp(8)).is_ok());
    pass(&index, Bound::Excluded(&twenty), Bound::Unbounded, timestamp(9));
    assert!(index.get_or_insert(&key(99), timestamp(8)).is_err());
    assert!(index.get_or_insert(&key(22), timestamp(8)).is_err());
    assert!(index.get_or_insert(&key(3), timestamp(8)).is_ok());
}

#[test]
fn many_threads_add_and_remove_keys_of_one_index() {
    let index = Index::new(TableId::new(1));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut own = std::collections::BTreeSet::new();
                for _ in 0..5000 {
                    let name = key(random.u64(0..60) * 4 + thread);
                    match index.get(&name) {
                        None => {
                            assert!(!own.contains(&name));
                            assert!(
                                index.get_or_insert(&name, Timestamp::MAX).is_ok_and(|(_, is_new)| is_new)
                            );
                            own.insert(name);
                        }
                        Some(record) => {
                            assert!(own.remove(&name));
                            assert!(index.remove_if(&record, |_| true).is_some());
                        }
                    }
                    let found = all(index, Bound::Unbounded, Bound::Unbounded, Direction::Up);
                    assert!(found.is_sorted());
                    assert!(own.iter().all(|name| found.binary_search(name).is_ok()));
                }
            });
        }
    });
}
