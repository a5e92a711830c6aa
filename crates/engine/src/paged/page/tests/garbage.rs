//! Tests of arbitrary bytes in place of a page: either `check` refuses the bytes, or every function
//! of a page accepts them without a panic.

use super::super::{
    FaultReason, InnerMut, InnerRef, Kind, LeafMut, LeafRef, MapRef, OverflowRef, PageFault, PageId, Value,
    check, check_structure, header, image, map, overflow,
};
use super::{for_seeds, key};
use crate::TableId;
use fastrand::Rng;

const ID: PageId = PageId::new(300);
const TABLE: TableId = TableId::new(1);

fn some_page(rng: &mut Rng, page_bytes: usize) -> Vec<u8> {
    let mut page = vec![0; page_bytes];
    match rng.u8(0..6) {
        0..2 => {
            let mut leaf = LeafMut::format(&mut page, ID, TABLE, b"a", Some(b"bb"));
            for _ in 0..rng.usize(0..30) {
                let key = [b"a".as_slice(), &key(rng, 20)].concat();
                let value = vec![7; rng.usize(0..30)];
                let value = if rng.bool() {
                    Value::Inline(&value)
                } else {
                    Value::Overflow { head: PageId::new(9), length: 7 }
                };
                if let Err(index) = leaf.view().search(&key) {
                    let _full = leaf.insert_at(index, &key, &value);
                } else if !leaf.view().is_empty() {
                    leaf.remove(rng.usize(0..leaf.view().len()));
                }
            }
        }
        2..4 => {
            let mut inner = InnerMut::format(&mut page, ID, TABLE, 2, (b"a", Some(b"bb")), PageId::new(44));
            for _ in 0..rng.usize(0..30) {
                let key = [b"a".as_slice(), &key(rng, 20)].concat();
                if let Err(index) = inner.view().search(&key) {
                    let _full = inner.insert_at(index, &key, PageId::new(rng.u64(3..300)));
                }
            }
        }
        4 => overflow::format(
            &mut page,
            ID,
            TABLE,
            &vec![3; rng.usize(0..page_bytes - header::BYTES)],
            PageId::NONE,
        ),
        _ => map::format(&mut page, PageId::FIRST_MAP),
    }
    page
}

/// Calls the functions of the page's views.
fn exercise(page: &mut [u8], rng: &mut Rng) {
    match header::kind(page) {
        Some(Kind::Leaf) => {
            let view = LeafRef::new(page);
            assert!(view.entries().enumerate().all(|(index, (key, _))| view.search(key) == Ok(index)));
            let _found = view.get(&key(rng, 30));
            let mut leaf = LeafMut::new(page);
            let new = key(rng, 20);
            if let Err(index) = leaf.view().search(&new) {
                let _full = leaf.insert_at(index, &new, &Value::Inline(b"value"));
            }
            while !leaf.view().is_empty() {
                let index = rng.usize(0..leaf.view().len());
                let _full = leaf.replace(index, &Value::Inline(&vec![1; rng.usize(0..50)]));
                let _patched = leaf.patch(index, rng.usize(..), b"x");
                leaf.remove(index);
            }
        }
        Some(Kind::Inner) => {
            let view = InnerRef::new(page);
            assert!((0..=view.len()).all(|index| !view.child(index).is_none()));
            view.child_for(&key(rng, 30));
            let mut inner = InnerMut::new(page);
            while inner.view().len() > 0 {
                inner.view().split_point();
                inner.remove(rng.usize(0..inner.view().len()));
            }
        }
        Some(Kind::Overflow) => {
            let view = OverflowRef::new(page);
            assert!(view.payload().len() <= page.len());
            view.next();
        }
        Some(Kind::Map) => {
            let view = MapRef::new(page);
            let base = view.base().get();
            assert!(view.pages_in_use().all(|used| view.is_set((used.get() - base) as usize)));
        }
        _ => {}
    }
}

#[test]
fn mutated_pages_are_refused_or_usable() {
    for_seeds(1500, |rng| {
        let page_bytes = [512, 1024, 4096][rng.usize(0..3)];
        let mut page = some_page(rng, page_bytes);
        for _ in 0..rng.usize(1..6) {
            // More than half of the changes hit the header.
            let reach = if rng.bool() { header::BYTES } else { page_bytes };
            let at = rng.usize(0..reach.min(page_bytes));
            page[at] = if rng.bool() { rng.u8(..) } else { page[at] ^ 1 << rng.u8(0..8) };
        }
        if check_structure(&page).is_ok() {
            exercise(&mut page, rng);
        }
    });
}

#[test]
fn random_bytes_are_refused_or_usable() {
    for_seeds(1500, |rng| {
        let mut page: Vec<u8> = (0..512).map(|_| rng.u8(..)).collect();
        page[4] = rng.u8(0..8);
        page[5] = rng.u8(0..2);
        page[7] = rng.u8(0..2);
        for at in [28, 30, 32, 34, 36, 38] {
            if rng.bool() {
                page[at..at + 2].copy_from_slice(&rng.u16(0..520).to_le_bytes());
            }
        }
        if check_structure(&page).is_ok() {
            exercise(&mut page, rng);
        }
        let length = rng.usize(0..600);
        let image: Vec<u8> = (0..length).map(|at| page.get(at).copied().unwrap_or(0)).collect();
        let mut target = vec![0; 512];
        let id = header::page_id(&page);
        if image::restore(&mut target, id, &image).is_ok() {
            exercise(&mut target, rng);
        }
    });
}

#[test]
fn every_changed_byte_is_noticed() {
    for_seeds(20, |rng| {
        let mut page = some_page(rng, 1024);
        let id = header::page_id(&page);
        header::seal(&mut page);
        check(&page, id, 1024).expect("a sealed page");
        for at in 0..page.len() {
            let original = page[at];
            page[at] ^= 1 << rng.u8(0..8);
            let fault = check(&page, id, 1024).expect_err("a changed byte");
            assert_eq!(fault.page, id);
            assert!(matches!(fault.reason, FaultReason::Checksum { .. }));
            page[at] = original;
        }
    });
}

#[test]
fn page_in_the_wrong_place_short_zero_or_newer_is_named() {
    let mut page = vec![0; 4096];
    LeafMut::format(&mut page, ID, TABLE, b"", None);
    header::seal(&mut page);
    let other = PageId::new(301);
    assert_eq!(check(&page, other, 4096), Err(PageFault { page: other, reason: FaultReason::Identity(ID) }));
    assert_eq!(check(&page[..512], ID, 4096), Err(PageFault { page: ID, reason: FaultReason::Short(512) }));
    assert_eq!(check(&[0; 4096], ID, 4096), Err(PageFault { page: ID, reason: FaultReason::Zero }));
    page[6] = 2;
    header::seal(&mut page);
    assert_eq!(check(&page, ID, 4096), Err(PageFault { page: ID, reason: FaultReason::Version(2) }));
}
