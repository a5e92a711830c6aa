//! Tests of the tree's shape, of long values, and of creating and dropping trees.

use super::super::batch::Batch;
use super::super::chain::{Chain, read_chain};
use super::rig::{EVERYTHING, Rig, TREE};
use crate::TableId;
use crate::direction::Direction;
use crate::paged::change::{ChangeKind, LeafChange, LeafOp};
use crate::paged::page::{LeafMut, LeafRef, PageId, Value, key_bytes_max};
use crate::paged::tree::room::LEAF_ENTRY_OVERHEAD;
use crate::paged::tree::{ScanRequest, Tree, free_after_commit};
use crate::{Error, VALUE_BYTES_MAX};

#[test]
fn the_size_of_a_leaf_entry_is_that_of_the_page_format() {
    let mut page = vec![0; 4096];
    let mut leaf = LeafMut::format(&mut page, PageId::new(9), TableId::CATALOG, &[], None);
    leaf.insert_at(0, b"key", &Value::Inline(b"value")).expect("room");
    assert_eq!(leaf.view().used_bytes(), LEAF_ENTRY_OVERHEAD + 3 + 5);
}

#[test]
fn ascending_keys_fill_their_pages() {
    let rig = Rig::new(8192, 1000);
    let mut txn = rig.begin();
    for number in 0..20_000u32 {
        TREE.insert(rig.pages(), &number.to_be_bytes(), &[7; 100], &mut txn).expect("an insert");
    }
    let report = rig.verify(&[TREE]);
    let bytes = 20_000 * (LEAF_ENTRY_OVERHEAD + 104);
    let full = bytes.div_ceil(8192 - 200) as u64;
    assert!(report.pages < full * 105 / 100 + 5, "{} pages, {full} would do", report.pages);
    assert_eq!(report.keys, 20_000);
}

#[test]
fn one_changed_field_is_all_that_is_logged() {
    let rig = Rig::new(8192, 100);
    let mut txn = rig.begin();
    let mut value = vec![1; 1000];
    TREE.insert(rig.pages(), b"key", &value, &mut txn).expect("an insert");
    value[300..400].fill(2);
    TREE.put(rig.pages(), b"key", &value, &mut txn).expect("a put");
    let records = rig.log.records.lock();
    let update = records.last().expect("a record");
    assert_eq!(update.kind, ChangeKind::LeafUpdate);
    assert!(update.payload.len() < 240, "{} bytes", update.payload.len());
    let change = LeafChange::decode(update.kind, &update.payload).expect("a change");
    assert!(matches!(change.op, LeafOp::Diff(diff) if diff.new == [2; 100] && diff.old == Some(&[1; 100])));
}

#[test]
fn a_put_of_the_same_value_logs_nothing() {
    let rig = Rig::new(4096, 100);
    let mut txn = rig.begin();
    TREE.put(rig.pages(), b"key", b"value", &mut txn).expect("a put");
    let before = txn.len();
    assert!(TREE.put(rig.pages(), b"key", b"value", &mut txn).expect("a put").existed);
    assert_eq!(txn.len(), before);
}

#[test]
fn values_of_all_lengths_come_back() {
    let rig = Rig::new(4096, 16);
    let lengths = [0, 1, 900, 981, 982, 4048, 4049, 8096, 40_000, 1 << 20, VALUE_BYTES_MAX];
    let value = |length: usize| (0..length).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
    let mut txn = rig.begin();
    for length in lengths {
        TREE.insert(rig.pages(), &length.to_be_bytes(), &value(length), &mut txn).expect("an insert");
    }
    for length in lengths {
        let found = rig.get(TREE, &length.to_be_bytes()).expect("the value");
        assert!(found == value(length), "the value of {length} bytes");
    }
    rig.verify(&[TREE]);
    let mut freed = Vec::new();
    for length in lengths {
        let previous = TREE.put(rig.pages(), &length.to_be_bytes(), b"short", &mut txn).expect("a put");
        freed.extend(previous.chain.map(|chain| chain.head));
    }
    for head in freed {
        free_after_commit(rig.pages(), head, &mut txn).expect("a free");
    }
    assert!(rig.verify(&[TREE]).pages < 20);
}

#[test]
fn a_long_value_whose_pages_do_not_add_up_to_its_length_is_corrupt() {
    let rig = Rig::new(4096, 16);
    let mut txn = rig.begin();
    TREE.insert(rig.pages(), b"key", &[7; 10_000], &mut txn).expect("an insert");
    let previous = TREE.put(rig.pages(), b"key", b"short", &mut txn).expect("a put");
    let chain = previous.chain.expect("a long value");
    let read = |length| read_chain(&rig.pool, TREE.table, Chain { length, ..chain });
    assert!(read(10_000).expect("as long as it is") == [7; 10_000]);
    for length in [0, 4096, 9_999, 10_001, 20_000, u32::MAX] {
        let refused = read(length);
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{length} bytes: {refused:?}");
    }
}

#[test]
fn too_long_keys_and_values_are_refused() {
    let rig = Rig::new(4096, 16);
    let mut txn = rig.begin();
    let long = vec![0; key_bytes_max(4096) + 1];
    let refused = TREE.put(rig.pages(), &long, b"", &mut txn);
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })));
    let refused = TREE.insert(rig.pages(), &long, b"", &mut txn);
    assert!(matches!(refused, Err(Error::KeyTooLong { .. })));
    let refused = TREE.put(rig.pages(), b"key", &vec![0; VALUE_BYTES_MAX + 1], &mut txn);
    assert!(matches!(refused, Err(Error::ValueTooLong { .. })));
    assert_eq!(txn.len(), 0);
    TREE.put(rig.pages(), &long[1..], b"", &mut txn).expect("a key of the longest length");
    TREE.put(rig.pages(), b"", b"of the empty key", &mut txn).expect("an empty key");
    let found = rig.scan(TREE, ScanRequest { entries: 1, ..EVERYTHING });
    assert_eq!(found, [(Vec::new(), b"of the empty key".to_vec()), (long[1..].to_vec(), Vec::new())]);
}

#[test]
fn a_created_tree_is_freed_by_rollback_and_by_drop() {
    let rig = Rig::new(4096, 16);
    let fill = |tree: Tree, txn: &mut super::rig::Txn| {
        for number in 0..1500u32 {
            let length = if number % 100 == 0 { 9000 } else { 60 };
            tree.insert(rig.pages(), &number.to_be_bytes(), &vec![3; length], txn).expect("an insert");
        }
    };
    let before = rig.space.stat().free;
    let mut txn = rig.begin();
    let tree = Tree::create(rig.pages(), TableId::new(5), &mut txn).expect("a tree");
    fill(tree, &mut txn);
    rig.verify(&[TREE, tree]);
    txn.roll_back(rig.pages()).expect("a rollback");
    rig.verify(&[TREE]);

    let mut txn = rig.begin();
    let tree = Tree::create(rig.pages(), TableId::new(6), &mut txn).expect("a tree");
    fill(tree, &mut txn);
    txn.commit(rig.pages()).expect("a commit");
    let mut txn = rig.begin();
    txn.freed.push(tree.root);
    txn.commit(rig.pages()).expect("a commit that drops the tree");
    rig.verify(&[TREE]);
    let stat = rig.space.stat();
    assert!(stat.free >= before);
    assert_eq!(stat.pages - stat.free, 3);
}

#[test]
fn dropping_a_tree_goes_on_after_each_crash() {
    let mut rig = Rig::new(4096, 16);
    let mut txn = rig.begin();
    let tree = Tree::create(rig.pages(), TableId::new(6), &mut txn).expect("a tree");
    for number in 0..1500u32 {
        let length = if number % 50 == 0 { 9000 } else { 60 };
        let mut key = vec![b'k'; 400];
        key.extend_from_slice(&number.to_be_bytes());
        tree.insert(rig.pages(), &key, &vec![3; length], &mut txn).expect("an insert");
    }
    txn.commit(rig.pages()).expect("a commit");
    for round in 0..20 {
        let mut txn = rig.begin();
        if round == 0 {
            txn.freed.push(tree.root);
            txn.commit_only().expect("a commit");
        }
        rig.log.fail_after(round);
        let done = free_after_commit(rig.pages(), tree.root, &mut txn).is_ok();
        rig.log.fail_after(u64::MAX);
        drop(txn);
        if done {
            break;
        }
        rig = rig.crash(None);
    }
    let rig = rig.crash(None);
    rig.verify(&[TREE]);
    let stat = rig.space.stat();
    assert_eq!(stat.pages - stat.free, 3);
}

/// A lost write leaves a map that is older than the tree. In this map, pages of the tree are free.
/// An insertion that is given such a page must fail, and not wait for a latch that its own thread
/// holds.
#[test]
fn a_page_of_the_tree_that_its_map_has_as_free_is_corruption_and_no_wait() {
    let rig = Rig::new(4096, 1000);
    let mut txn = rig.begin();
    let mut put = |number: u32| TREE.insert(rig.pages(), &number.to_be_bytes(), &[7; 100], &mut txn);
    (0..2_000).try_for_each(&mut put).expect("puts");
    let in_use = |page: &PageId| rig.pages().space.is_taken(*page);
    // The last leaf is the one that the next split divides.
    let last = (1..rig.pages().space.stat().pages).map(PageId::new).filter(in_use).max().expect("pages");
    assert!(rig.pages().space.freed(last));
    let refused = (2_000..10_000).try_for_each(&mut put).expect_err("the leaf is divided into itself");
    let Error::Corrupt { finding, .. } = &refused else { panic!("{refused}") };
    assert_eq!(*finding, format!("page {last} is marked as free, and is in use"));
    put(10_000).expect("another page");
}

/// A lost write leaves an older image of a page, whose fences may be those of another place in the
/// tree. A scan that comes to such a page must end with an error.
#[test]
fn a_scan_that_comes_to_a_leaf_of_another_place_ends_with_corruption() {
    let rig = Rig::new(4096, 1000);
    let mut txn = rig.begin();
    for number in 0..2_000u32 {
        TREE.insert(rig.pages(), &number.to_be_bytes(), &[7; 100], &mut txn).expect("an insert");
    }
    let leaves: Vec<PageId> = {
        let root = rig.pool.read(TREE.root).expect("the root");
        let inner = root.inner().expect("an inner page");
        (0..=inner.len()).map(|index| inner.child(index)).collect()
    };
    let [first, .., middle, last] = leaves[..] else { panic!("{} leaves", leaves.len()) };
    for (damaged, other) in [(middle, first), (first, last), (last, first)] {
        let sound = rig.pool.read(damaged).expect("a leaf").to_vec();
        let other = rig.pool.read(other).expect("a leaf").to_vec();
        replace(&rig, damaged, &other);
        for direction in [Direction::Up, Direction::Down] {
            for entries in [3, usize::MAX] {
                let scanned = scan_to_the_end(&rig, ScanRequest { direction, entries, ..EVERYTHING });
                let Err(Error::Corrupt { page, .. }) = &scanned else {
                    panic!("{direction:?}, {entries} entries a batch: {scanned:?} entries")
                };
                assert_eq!(*page, Some(damaged.get()), "{direction:?}, {entries} entries a batch");
            }
        }
        replace(&rig, damaged, &sound);
        assert_eq!(rig.contents(TREE).len(), 2_000);
    }
}

/// Replaces the contents of a leaf by an image.
fn replace(rig: &Rig, id: PageId, image: &[u8]) {
    let image = LeafRef::new(image);
    let mut page = rig.pool.write(id).expect("the page");
    let lsn = page.lsn();
    page.begin_change();
    let mut leaf =
        LeafMut::format(page.bytes_mut(), id, TREE.table, image.lower_fence(), image.upper_fence());
    for slot in 0..image.len() {
        leaf.insert_at(slot, image.key(slot), &image.value(slot)).expect("room");
    }
    page.finish_change(lsn, lsn);
}

/// Returns the number of entries that a scan finds, batch by batch. Stops above 4,000 entries,
/// which is more than the tree has, because the scan might not end.
fn scan_to_the_end(rig: &Rig, request: ScanRequest<'_>) -> crate::Result<usize> {
    let (mut batch, mut found) = (Batch::default(), 0);
    let mut bound = request.begin().map(<[u8]>::to_vec);
    loop {
        let rest = request.from(bound.as_ref().map(Vec::as_slice));
        let onward = TREE.scan(&rig.pool, rest, &mut batch)?;
        found += batch.len();
        match onward {
            Some(onward) if found <= 4_000 => bound = onward,
            _ => return Ok(found),
        }
    }
}
