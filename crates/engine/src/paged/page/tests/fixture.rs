//! Pages that format version 1 has written, kept in `tests/fixtures/pages-v1`. This program must
//! still read them, and still write the same bytes.

use super::super::{
    InnerMut, InnerRef, LeafMut, LeafRef, MapMut, MapRef, OverflowRef, PageId, Value, check, file_page,
    header, map, overflow,
};
use crate::{Lsn, TableId};
use katydid_device::Id;

const PAGE_BYTES: usize = 4096;
const FIXTURE: &[u8] = include_bytes!("../../../../tests/fixtures/pages-v1");
const LEAF: PageId = PageId::new(0x1234);
const INNER: PageId = PageId::new(0x1235);
const OVERFLOW: PageId = PageId::new(0x1236);
const FREE: PageId = PageId::new(0x1237);

/// Returns the six pages of the fixture, one after the other.
fn pages() -> Vec<u8> {
    let mut all = vec![0; 6 * PAGE_BYTES];
    let mut pages = all.chunks_exact_mut(PAGE_BYTES);
    let mut next = || pages.next().expect("six pages");

    file_page::format(next(), Id::new(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF));
    let page = next();
    map::format(page, PageId::FIRST_MAP);
    assert!(MapMut::new(page).set(0x1234) && MapMut::new(page).set(0x1235));

    let mut leaf = LeafMut::format(next(), LEAF, TableId::new(6), b"user1", Some(b"user2"));
    leaf.insert_at(0, b"user1", &Value::Inline(b"")).expect("it fits");
    leaf.insert_at(1, b"user15", &Value::Inline(b"to be replaced by something shorter")).expect("it fits");
    leaf.insert_at(2, b"user17", &Value::Overflow { head: OVERFLOW, length: 5000 }).expect("it fits");
    leaf.insert_at(3, b"user19", &Value::Inline(b"to be removed")).expect("it fits");
    leaf.replace(1, &Value::Inline(b"fifteen")).expect("it is shorter");
    leaf.remove(3);

    let mut inner = InnerMut::format(next(), INNER, TableId::new(6), 1, (b"", None), PageId::new(100));
    inner.insert_at(0, b"b", PageId::new(101)).expect("it fits");
    inner.insert_at(1, b"user1", LEAF).expect("it fits");

    overflow::format(next(), OVERFLOW, TableId::new(6), b"a piece of a long value", PageId::new(0x1240));
    header::format_free(next(), FREE);

    for (number, page) in all.chunks_exact_mut(PAGE_BYTES).enumerate() {
        header::set_page_lsn(page, Lsn::new(number as u64 * 0x0102_0304_0506));
        header::seal(page);
    }
    all
}

#[test]
fn format_1_is_still_written() {
    let pages = pages();
    assert_eq!(pages.len(), FIXTURE.len());
    let differs = pages.iter().zip(FIXTURE).position(|(a, b)| a != b);
    assert_eq!(differs.map(|at| (at / PAGE_BYTES, at % PAGE_BYTES)), None, "page and byte that differ");
}

#[test]
fn format_1_is_still_read() {
    let page = |number: usize| &FIXTURE[number * PAGE_BYTES..(number + 1) * PAGE_BYTES];
    let ids = [PageId::NONE, PageId::FIRST_MAP, LEAF, INNER, OVERFLOW, FREE];
    for (number, id) in ids.into_iter().enumerate() {
        check(page(number), id, PAGE_BYTES).expect("a valid page");
        assert_eq!(header::page_lsn(page(number)).get(), number as u64 * 0x0102_0304_0506);
    }
    let file = file_page::decode(page(0)).expect("the magic").expect("valid");
    assert_eq!((file.version, file.page_bytes), (1, 4096));
    assert_eq!(file.database, Id::new(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF));
    assert!(MapRef::new(page(1)).pages_in_use().map(PageId::get).eq([0, 1, 2, 0x1234, 0x1235]));

    let leaf = LeafRef::new(page(2));
    assert_eq!((leaf.lower_fence(), leaf.upper_fence()), (b"user1".as_slice(), Some(b"user2".as_slice())));
    let entries: Vec<_> = leaf.entries().collect();
    let expected = [
        (b"user1".as_slice(), Value::Inline(b"")),
        (b"user15", Value::Inline(b"fifteen")),
        (b"user17", Value::Overflow { head: OVERFLOW, length: 5000 }),
    ];
    assert_eq!(entries, expected);
    assert_eq!(leaf.table(), TableId::new(6));

    let inner = InnerRef::new(page(3));
    assert_eq!(inner.level(), 1);
    assert!((0..=2).map(|index| inner.child(index).get()).eq([100, 101, 0x1234]));
    assert!(inner.entries().map(|(key, _)| key).eq([b"b".as_slice(), b"user1"]));

    let overflow = OverflowRef::new(page(4));
    assert_eq!(overflow.payload(), b"a piece of a long value");
    assert_eq!(overflow.next(), Some(PageId::new(0x1240)));
}
