//! Tests of shortcuts that are right, stale, and forbidden.

use super::rig::{EVERYTHING, Rig, TREE};
use crate::TableId;
use crate::paged::page::{PageId, header};
use crate::paged::tree::descend::Target;
use crate::paged::tree::routes::RouteMap;
use crate::paged::tree::{Pages, Tree};
use std::collections::BTreeSet;

const KEYS: u32 = 3000;

fn rig(keys: impl Iterator<Item = u32>) -> Rig {
    let rig = Rig::new(4096, 1000);
    keys.for_each(|key| put(&rig, key));
    rig
}

fn put(rig: &Rig, key: u32) {
    put_in(rig, rig.pages(), key);
}

fn put_in(rig: &Rig, pages: Pages<'_>, key: u32) {
    let mut txn = rig.begin();
    TREE.put(pages, &key.to_be_bytes(), &[7; 50], &mut txn).expect("a put");
    txn.commit(pages).expect("a commit");
}

fn delete(rig: &Rig, key: u32) {
    delete_in(rig, rig.pages(), key);
}

fn delete_in(rig: &Rig, pages: Pages<'_>, key: u32) {
    let mut txn = rig.begin();
    TREE.delete(pages, &key.to_be_bytes(), &mut txn).expect("a delete");
    txn.commit(pages).expect("a commit");
}

/// Returns the leaf to which the map leads, if that is the leaf of `key`.
fn routed(rig: &Rig, key: u32) -> Option<PageId> {
    let page = rig.shortcuts.routed(&TREE, &key.to_be_bytes(), |page| rig.pool.try_read(page))?;
    Some(page.id())
}

/// Returns the leaf to which a descent leads.
fn leaf(rig: &Rig, key: u32) -> PageId {
    TREE.leaf_for_read(&rig.pool, Target::Key(&key.to_be_bytes())).expect("a leaf").id()
}

/// Reads all keys below `keys` twice, so that descents become a map.
fn read(rig: &Rig, keys: u32) {
    (0..2 * keys).for_each(|key| drop(rig.get(TREE, &(key % keys).to_be_bytes())));
}

fn count_routed(rig: &Rig) -> usize {
    (0..KEYS).filter(|key| routed(rig, *key).is_some()).count()
}

#[test]
fn a_new_map_leads_to_each_leaf() {
    let rig = rig(0..KEYS);
    read(&rig, KEYS);
    for key in 0..KEYS {
        assert_eq!(routed(&rig, key), Some(leaf(&rig, key)), "key {key}");
    }
}

/// Pages whose changes count no descent, so that the map stays.
fn uncounted(rig: &Rig) -> Pages<'_> {
    Pages { shortcuts: None, ..rig.pages() }
}

/// Splits and merges make the map stale. Threads use the stale map only where it is still right,
/// and make a new one.
#[test]
fn a_stale_map_leads_to_no_wrong_leaf() {
    let rig = rig((0..KEYS).step_by(4));
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), KEYS as usize);
    (0..KEYS).filter(|key| key % 4 != 0).for_each(|key| put_in(&rig, uncounted(&rig), key));
    (KEYS / 3..KEYS / 2).for_each(|key| delete_in(&rig, uncounted(&rig), key));
    let stale = count_routed(&rig);
    assert!((1..KEYS as usize).contains(&stale), "{stale}");
    for key in 0..KEYS {
        assert!(routed(&rig, key).is_none_or(|page| page == leaf(&rig, key)), "key {key}");
    }
    // The first of these calls use the stale map, and later ones make another.
    for key in (0..KEYS).map(|key| key * 7 % KEYS) {
        let is_there = !(KEYS / 3..KEYS / 2).contains(&key);
        assert_eq!(rig.get(TREE, &key.to_be_bytes()).is_some(), is_there, "key {key}");
        if key % 2 == 0 { put(&rig, key) } else { delete(&rig, key) }
    }
    let kept: Vec<_> = (0..KEYS).step_by(2).map(|key| key.to_be_bytes().to_vec()).collect();
    assert!(rig.scan_keys(TREE, EVERYTHING).eq(&kept));
    rig.verify(&[TREE]);
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), KEYS as usize);
}

/// Merges free pages, which then become leaves for other keys of the same table. The stale map
/// still leads to these pages.
#[test]
fn a_page_that_is_used_again_is_not_taken_for_its_former_keys() {
    let rig = rig(0..KEYS);
    read(&rig, KEYS);
    let former: Vec<PageId> = (0..KEYS).map(|key| leaf(&rig, key)).collect();
    let (gone, new) = (KEYS / 3..KEYS / 2, KEYS..2 * KEYS);
    gone.clone().for_each(|key| delete_in(&rig, uncounted(&rig), key));
    assert!(gone.clone().filter(|key| routed(&rig, *key).is_none()).count() > 100, "freed pages");
    new.clone().for_each(|key| put_in(&rig, uncounted(&rig), key));
    let used: BTreeSet<PageId> = new.map(|key| leaf(&rig, key)).collect();
    assert!(gone.clone().filter(|key| used.contains(&former[*key as usize])).count() > 100, "used pages");
    // These checks come before the reads below, which make another map.
    for key in 0..KEYS {
        assert!(routed(&rig, key).is_none_or(|page| page == leaf(&rig, key)), "key {key}");
    }
    for key in 0..KEYS {
        assert_eq!(rig.get(TREE, &key.to_be_bytes()).is_some(), !gone.contains(&key), "key {key}");
    }
    gone.for_each(|key| put(&rig, key));
    rig.verify(&[TREE]);
}

/// A merge frees a page, which then becomes a leaf of another table, with the page's former keys
/// between its fences. The stale map still leads to this page.
#[test]
fn a_page_that_another_table_uses_is_not_taken() {
    let rig = rig(0..KEYS);
    read(&rig, KEYS);
    let former: Vec<PageId> = (0..KEYS).map(|key| leaf(&rig, key)).collect();
    let gone = KEYS / 3..KEYS / 2;
    gone.clone().for_each(|key| delete_in(&rig, uncounted(&rig), key));
    let mut txn = rig.begin();
    let other = Tree::create(rig.pages(), TableId::new(9), &mut txn).expect("a tree");
    // All these keys are greater, so the first leaf has the former keys between its fences.
    for key in KEYS..KEYS + 200 {
        other.put(uncounted(&rig), &key.to_be_bytes(), &[8; 50], &mut txn).expect("a put");
    }
    txn.commit(rig.pages()).expect("a commit");
    let is_others = |key: &u32| {
        let page = rig.pool.read(former[*key as usize]).expect("a page");
        header::table(&page) == other.table && page.leaf().is_ok_and(|leaf| leaf.covers(&key.to_be_bytes()))
    };
    assert!(gone.clone().filter(is_others).count() > 10, "used pages");
    // These checks come before the reads below, which make another map.
    for key in 0..KEYS {
        assert!(routed(&rig, key).is_none_or(|page| page == leaf(&rig, key)), "key {key}");
    }
    for key in 0..KEYS {
        assert_eq!(rig.get(TREE, &key.to_be_bytes()).is_some(), !gone.contains(&key), "key {key}");
    }
    rig.verify(&[TREE, other]);
}

#[test]
fn a_load_that_begins_before_the_leaf_is_latched_forbids_the_shortcut() {
    let rig = rig(0..KEYS);
    read(&rig, KEYS);
    let routed = rig.shortcuts.routed(&TREE, &[], |page| {
        rig.shortcuts.begin_load();
        rig.pool.try_read(page)
    });
    assert!(routed.is_none());
}

#[test]
fn a_map_is_not_used_if_a_load_ran_while_it_was_made() {
    let rig = rig(0..KEYS);
    let read = |between: &dyn Fn()| {
        rig.shortcuts.renew_next();
        rig.shortcuts.renew(|| {
            let map = RouteMap::read(TREE, &rig.pool);
            between();
            map
        });
        count_routed(&rig)
    };
    assert_eq!(read(&|| ()), KEYS as usize);
    let load = || {
        rig.shortcuts.begin_load();
        rig.shortcuts.end_load();
    };
    assert_eq!(read(&load), 0);
    assert_eq!(read(&|| ()), KEYS as usize);
}

/// A thread that writes ascending keys goes to the leaf that it changed last.
#[test]
fn a_load_forgets_the_leaf_that_was_changed_last() {
    let rig = rig(0..KEYS);
    assert!(rig.shortcuts.hinted().is_some());
    rig.shortcuts.begin_load();
    assert_eq!(rig.shortcuts.hinted(), None);
}

#[test]
fn a_load_forbids_the_shortcuts_that_were_made_before_its_end() {
    let rig = rig(0..KEYS);
    read(&rig, KEYS);
    rig.shortcuts.begin_load();
    assert_eq!(count_routed(&rig), 0);
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), 0);
    rig.shortcuts.end_load();
    assert_eq!(count_routed(&rig), 0);
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), KEYS as usize);
}

/// The root of a new table is still a leaf when its first descents are counted.
#[test]
fn a_table_whose_root_was_a_leaf_gets_a_map_as_soon_as_other_tables() {
    let rig = Rig::new(4096, 1000);
    (0..10).for_each(|key| put_in(&rig, uncounted(&rig), key));
    read(&rig, 10);
    assert_eq!(routed(&rig, 0), Some(TREE.root));
    (10..KEYS).for_each(|key| put_in(&rig, uncounted(&rig), key));
    assert_eq!(count_routed(&rig), 0);
    read(&rig, 10);
    assert_eq!(count_routed(&rig), KEYS as usize);
}

#[test]
fn a_map_that_would_take_too_much_memory_is_not_made() {
    let rig = Rig::new(4096, 16);
    (0..KEYS).for_each(|key| put(&rig, key));
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), 0);
}

#[test]
fn a_map_is_not_made_if_other_maps_take_all_the_memory_for_maps() {
    let rig = Rig::new(4096, 1000);
    (0..KEYS).for_each(|key| put_in(&rig, uncounted(&rig), key));
    let all = 1000 * 4096 / 16;
    let taken = rig.pool.set_aside(all).expect("no map is made yet");
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), 0);
    drop(taken);
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), KEYS as usize);
    // The memory of the former map is still counted while a new map is made.
    assert!(rig.pool.set_aside(all).is_none());
    read(&rig, KEYS);
    assert_eq!(count_routed(&rig), KEYS as usize);
}
