//! Tests of maps, overflow pages, keys and images.

use super::super::{
    FaultReason, MapMut, MapRef, OverflowRef, PageFault, PageId, check, file_page, header, image, map,
    overflow,
};
use super::for_seeds;
use crate::TableId;
use katydid_device::Id;
use std::collections::BTreeSet;

const PAGE_BYTES: usize = 512;

#[test]
fn map_behaves_as_a_set() {
    for_seeds(20, |rng| {
        let per_map = map::bits_per_map(PAGE_BYTES);
        let number = rng.u64(0..3);
        let id = map::map_page(number, PAGE_BYTES);
        let mut page = vec![0xEE; PAGE_BYTES];
        map::format(&mut page, id);
        let base = number * per_map;
        let mut model: BTreeSet<u64> = if number == 0 { [0, 1, 2].into() } else { [base].into() };
        for _ in 0..500 {
            let bit = rng.usize(0..per_map as usize);
            let in_use = PageId::new(base + bit as u64);
            assert_eq!((map::map_of(in_use, PAGE_BYTES), map::bit_of(in_use, PAGE_BYTES)), (id, bit));
            if map::is_own_page(in_use, PAGE_BYTES) {
                assert!(MapRef::new(&page).is_set(bit));
            } else if rng.u8(0..3) == 0 {
                assert_eq!(MapMut::new(&mut page).clear(bit), model.remove(&in_use.get()));
            } else {
                assert_eq!(MapMut::new(&mut page).set(bit), model.insert(in_use.get()));
            }
        }
        header::seal(&mut page);
        check(&page, id, PAGE_BYTES).expect("well-formed");
        let view = MapRef::new(&page);
        assert!(view.pages_in_use().map(PageId::get).eq(model.iter().copied()));
        assert!(!MapMut::new(&mut page).set(per_map as usize));
    });
}

#[test]
fn map_that_frees_its_own_page_is_refused() {
    let mut page = vec![0; PAGE_BYTES];
    map::format(&mut page, PageId::FIRST_MAP);
    assert!(MapMut::new(&mut page).clear(2));
    header::seal(&mut page);
    let fault = PageFault { page: PageId::FIRST_MAP, reason: FaultReason::MapOwnPages };
    assert_eq!(check(&page, PageId::FIRST_MAP, PAGE_BYTES), Err(fault));
}

#[test]
fn overflow_page_keeps_payload_and_link() {
    let id = PageId::new(40);
    for length in [0, 1, 100, overflow::capacity(PAGE_BYTES)] {
        let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut page = vec![0xEE; PAGE_BYTES];
        overflow::format(&mut page, id, TableId::new(2), &payload, PageId::new(41));
        header::seal(&mut page);
        check(&page, id, PAGE_BYTES).expect("well-formed");
        let mut copy = vec![0xEE; PAGE_BYTES];
        image::restore(&mut copy, id, &image::parts(&page).concat()).expect("the same page");
        assert_eq!(page, copy);
        let view = OverflowRef::new(&page);
        assert_eq!((view.payload(), view.next()), (payload.as_slice(), Some(PageId::new(41))));
    }
    assert_eq!(overflow::pages_for(PAGE_BYTES, 0), 1);
    assert_eq!(overflow::pages_for(PAGE_BYTES, overflow::capacity(PAGE_BYTES)), 1);
    assert_eq!(overflow::pages_for(PAGE_BYTES, overflow::capacity(PAGE_BYTES) + 1), 2);
}

#[test]
fn overflow_page_that_follows_itself_is_refused() {
    let id = PageId::new(40);
    let mut page = vec![0; PAGE_BYTES];
    overflow::format(&mut page, id, TableId::new(2), b"x", id);
    header::seal(&mut page);
    assert_eq!(check(&page, id, PAGE_BYTES).expect_err("a loop").reason, FaultReason::Child(0));
}

#[test]
fn file_page_is_read_back_and_damage_is_noticed() {
    let mut page = vec![0; 4096];
    file_page::format(&mut page, Id::new(7 << 100));
    header::seal(&mut page);
    let found = file_page::decode(&page).expect("the magic").expect("valid");
    assert_eq!(found, file_page::FilePage { version: 1, page_bytes: 4096, database: Id::new(7 << 100) });
    page[80] ^= 1;
    assert!(file_page::decode(&page).expect("the magic").is_err());
    assert_eq!(file_page::decode(&[0; 4096]), None);
    assert_eq!(file_page::decode(&[]), None);
}

#[test]
fn image_that_is_cut_or_of_another_page_is_refused() {
    let id = PageId::new(40);
    let mut page = vec![0; PAGE_BYTES];
    let mut leaf = super::super::LeafMut::format(&mut page, id, TableId::new(2), b"a", Some(b"b"));
    leaf.insert_at(0, b"ab", &super::super::Value::Inline(b"value")).expect("it fits");
    let whole = image::parts(&page).concat();
    let mut target = vec![0; PAGE_BYTES];
    for length in 0..whole.len() {
        assert!(image::restore(&mut target, id, &whole[..length]).is_err(), "{length} of {}", whole.len());
    }
    let other = PageId::new(41);
    let fault = image::restore(&mut target, other, &whole).expect_err("another page's image");
    assert_eq!(fault, PageFault { page: other, reason: FaultReason::Identity(id) });
}
