//! Tests of bulk loads of a tree. The tests use random keys and page sizes, and compare the tree
//! with what was loaded. They also stop a load before one of its records, and change a tree after
//! its load.

use super::rig::{Rig, Sizes, TABLE, TREE, Txn, assert_same, key, value};
use crate::paged::page::key_bytes_max;
use crate::paged::page::tests::for_seeds;
use crate::paged::tree::{Logged, Tree, TreeLoad};
use crate::{Error, Result};
use fastrand::Rng;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Creates a tree for a load, in a transaction that commits.
fn made(rig: &Rig) -> Tree {
    let mut txn = rig.begin();
    let tree = Tree::create(rig.pages(), TABLE, &mut txn).expect("a tree");
    txn.commit(rig.pages()).expect("a commit");
    tree
}

fn load(rig: &Rig, tree: Tree, entries: &Model, writer: &mut Txn) -> Result<()> {
    let mut load = TreeLoad::new(&rig.pool, tree);
    let mut end = None;
    for (key, value) in entries {
        let logged: Option<Logged> = load.push(rig.pages(), key, value, writer)?;
        end = logged.or(end);
    }
    let last = load.finish(rig.pages(), writer)?;
    assert!(end.is_none_or(|end| end.lsn < last.lsn), "the last record is the last");
    Ok(())
}

fn entries(rng: &mut Rng, sizes: Sizes, count: usize) -> Model {
    (0..count).map(|_| (key(rng, sizes), value(rng, sizes))).collect()
}

fn random_sizes(rng: &mut Rng, page_bytes: usize) -> Sizes {
    let longest = [40, 300, page_bytes / 5, 3 * page_bytes][rng.usize(..4)];
    Sizes { keys: 100_000, key_bytes_max: key_bytes_max(page_bytes), value_bytes_max: longest }
}

#[test]
fn what_was_loaded_is_there() {
    for_seeds(40, |rng| {
        let page_bytes = 4096 << rng.u32(0..4);
        let sizes = random_sizes(rng, page_bytes);
        let count = [0, 1, 3, 50, 500, 4000][rng.usize(..6)];
        let rig = Rig::new(page_bytes, [16, 100, 5000][rng.usize(..3)]);
        let tree = made(&rig);
        let entries = entries(rng, sizes, count);
        load(&rig, tree, &entries, &mut rig.begin()).expect("a load");
        assert_same(&rig.contents(tree), &entries);
        rig.verify(&[TREE, tree]);
        // The log alone must yield the tree, too.
        let rig = rig.crash(None);
        assert_same(&rig.contents(tree), &entries);
        rig.verify(&[TREE, tree]);
        // The tree can be changed like any other.
        let mut model = entries;
        let mut txn = rig.begin();
        for _ in 0..200 {
            let key = key(rng, sizes);
            let value = value(rng, sizes);
            tree.put(rig.pages(), &key, &value, &mut txn)
                .map(|previous| txn.freed.extend(previous.chain.map(|chain| chain.head)))
                .expect("a put");
            model.insert(key, value);
        }
        txn.commit(rig.pages()).expect("a commit");
        assert_same(&rig.contents(tree), &model);
        rig.verify(&[TREE, tree]);
    });
}

#[test]
fn pages_are_full() {
    for page_bytes in [4096, 8192, 32768] {
        let rig = Rig::new(page_bytes, 5000);
        let tree = made(&rig);
        let entries: Model = (0..20_000u32).map(|key| (key.to_be_bytes().to_vec(), vec![7; 100])).collect();
        let log = rig.log.records.lock().iter().map(|record| record.payload.len()).sum::<usize>();
        load(&rig, tree, &entries, &mut rig.begin()).expect("a load");
        let report = rig.verify(&[tree]);
        let bytes = 20_000 * (4 + 100 + 12);
        let least = bytes / page_bytes;
        let pages = report.pages as usize;
        assert!(pages < least + least / 20 + 8, "{pages} pages of {page_bytes} for {bytes} bytes");
        let logged = rig.log.records.lock().iter().map(|record| record.payload.len()).sum::<usize>() - log;
        assert!(logged < bytes + bytes / 10, "{logged} bytes of log for {bytes}");
    }
}

/// A crash, or a refused record, in the middle of a load leaves a whole tree, which can be freed:
/// no page is lost.
#[test]
fn a_load_that_ends_early_can_be_freed() {
    for_seeds(6, |rng| {
        let page_bytes = [4096, 8192][rng.usize(..2)];
        let sizes = random_sizes(rng, page_bytes);
        let entries = entries(rng, sizes, 1500);
        let appends = {
            let rig = Rig::new(page_bytes, 300);
            let tree = made(&rig);
            let before = rig.log.records.lock().len();
            load(&rig, tree, &entries, &mut rig.begin()).expect("a load");
            (rig.log.records.lock().len() - before) as u64
        };
        for left in (0..appends).step_by(1 + appends as usize / 60) {
            for crash in [false, true] {
                let rig = Rig::new(page_bytes, 300);
                let in_use = |rig: &Rig| rig.space.stat().pages - rig.space.stat().free;
                let before = in_use(&rig);
                let tree = made(&rig);
                rig.log.fail_after(left);
                let failed = load(&rig, tree, &entries, &mut rig.begin());
                assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failed:?}");
                rig.log.fail_after(u64::MAX);
                let rig = if crash { rig.crash(None) } else { rig };
                rig.verify(&[TREE, tree]);
                let mut txn = rig.begin();
                txn.freed.push(tree.root);
                txn.commit(rig.pages()).expect("a commit");
                rig.verify(&[TREE]);
                assert_eq!(in_use(&rig), before);
            }
        }
    });
}

#[test]
fn trees_exchange_their_contents() {
    for_seeds(20, |rng| {
        let sizes = random_sizes(rng, 4096);
        let rig = Rig::new(4096, 300);
        let (one, other) = (made(&rig), made(&rig));
        let count = [0, 1, 40, 2000][rng.usize(..4)];
        let entries = entries(rng, sizes, count);
        load(&rig, other, &entries, &mut rig.begin()).expect("a load");
        assert_eq!(other.is_empty(&rig.pool).expect("a look"), entries.is_empty());
        one.exchange(rig.pages(), other.root, &mut rig.begin()).expect("an exchange");
        assert_same(&rig.contents(one), &entries);
        assert!(other.is_empty(&rig.pool).expect("a look"));
        rig.verify(&[TREE, one, other]);
        let rig = rig.crash(None);
        assert_same(&rig.contents(one), &entries);
        assert!(other.is_empty(&rig.pool).expect("a look"));
        rig.verify(&[TREE, one, other]);
    });
}

#[test]
fn what_is_too_long_is_refused() {
    let rig = Rig::new(4096, 300);
    let tree = made(&rig);
    let mut writer = rig.begin();
    let mut load = TreeLoad::new(&rig.pool, tree);
    let refused = load.push(rig.pages(), &[1; 513], b"", &mut writer);
    assert!(matches!(refused, Err(Error::KeyTooLong { length: 513, max: 512, .. })), "{refused:?}");
    let refused = load.push(rig.pages(), b"key", &vec![0; (16 << 20) + 1], &mut writer);
    assert!(matches!(refused, Err(Error::ValueTooLong { .. })), "{refused:?}");
}
