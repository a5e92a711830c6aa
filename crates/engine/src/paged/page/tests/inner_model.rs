//! Compares inner pages with an ordered map.

use super::super::{InnerMut, InnerRef, PageId, check, header, image, key_bytes_max};
use super::{for_seeds, key};
use crate::TableId;
use fastrand::Rng;
use std::collections::BTreeMap;

const ID: PageId = PageId::new(1000);
const TABLE: TableId = TableId::new(9);

#[derive(Debug, Clone)]
struct Model {
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    leftmost: PageId,
    rest: BTreeMap<Vec<u8>, PageId>,
}

fn child(rng: &mut Rng) -> PageId {
    PageId::new(rng.u64(3..1000))
}

/// Returns whether `key` belongs below the page.
fn covers(inner: InnerRef<'_>, key: &[u8]) -> bool {
    key >= inner.lower_fence() && inner.upper_fence().is_none_or(|upper| key < upper)
}

fn compare(page: &mut [u8], model: &Model, rng: &mut Rng) {
    header::seal(page);
    check(page, ID, page.len()).expect("an edited page is well-formed");
    let inner = InnerRef::new(page);
    assert_eq!(inner.level(), 3);
    assert_eq!((inner.lower_fence(), inner.upper_fence()), (model.lower.as_slice(), model.upper.as_deref()));
    let entries: Vec<_> = inner.entries().map(|(key, child)| (key.to_vec(), child)).collect();
    assert_eq!(entries, model.rest.iter().map(|(key, child)| (key.clone(), *child)).collect::<Vec<_>>());
    let probe = key(rng, 12);
    let expected = model.rest.range(..=probe.clone()).next_back().map_or(model.leftmost, |(_, child)| *child);
    assert_eq!(inner.child_for(&probe), expected);
    if covers(inner, &probe) {
        let (lower, upper) = inner.child_fences(inner.child_index(&probe));
        assert!(lower <= probe.as_slice() && upper.is_none_or(|upper| probe.as_slice() < upper));
    }
}

#[test]
fn inner_page_behaves_as_an_ordered_map() {
    for_seeds(120, |rng| {
        let page_bytes = [512, 1024, 4096, 8192][rng.usize(0..4)];
        let mut page = vec![0xEE; page_bytes];
        let prefix = if rng.bool() { b"".as_slice() } else { b"user".as_slice() };
        let upper = (!prefix.is_empty()).then(|| b"usf".to_vec());
        let mut model = Model { lower: prefix.to_vec(), upper, leftmost: child(rng), rest: BTreeMap::new() };
        InnerMut::format(&mut page, ID, TABLE, 3, (&model.lower, model.upper.as_deref()), model.leftmost);
        for _ in 0..200 {
            step(rng, &mut page, &mut model, prefix);
            compare(&mut page, &model, rng);
        }
    });
}

fn step(rng: &mut Rng, page: &mut [u8], model: &mut Model, prefix: &[u8]) {
    let longest = key_bytes_max(page.len());
    let before = page.to_vec();
    let mut inner = InnerMut::new(page);
    let picked = (!model.rest.is_empty()).then(|| rng.usize(0..model.rest.len()));
    let mut separator = [prefix, &key(rng, longest - prefix.len())].concat();
    separator.truncate(longest);
    match (rng.u8(0..100), picked) {
        (0..60, _) | (_, None) => {
            let Err(index) = inner.view().search(&separator) else { return };
            if !covers(inner.view(), &separator) {
                return;
            }
            let (fits, child) = (InnerRef::entry_bytes(&separator) <= inner.view().free_space(), child(rng));
            assert_eq!(inner.insert_at(index, &separator, child).is_ok(), fits);
            if fits {
                model.rest.insert(separator, child);
            } else {
                assert_eq!(page, before, "a refused insert changes nothing");
            }
        }
        (60..75, Some(index)) => {
            let key = inner.view().separator(index).to_vec();
            inner.remove(index);
            model.rest.remove(&key);
        }
        (75..79, Some(_)) if model.rest.len() > 2 => split(rng, inner, model),
        _ => {
            let image: Vec<u8> = image::parts(page).concat();
            let mut copy = vec![0xDD; page.len()];
            image::restore(&mut copy, ID, &image).expect("the image of a page makes that page");
            page.copy_from_slice(&copy);
        }
    }
}

fn split(rng: &mut Rng, mut inner: InnerMut<'_>, model: &mut Model) {
    let (at, count) = (inner.view().split_point(), inner.view().len());
    assert!(at >= 1 && at + 1 < count, "{at} of {count}");
    let (middle, middle_child) = (inner.view().separator(at).to_vec(), inner.view().child(at + 1));
    let mut right = model.rest.split_off(&middle);
    right.remove(&middle);
    if rng.bool() {
        inner.truncate(at, Some(&middle)).expect("fewer separators fit");
        model.upper = Some(middle);
    } else {
        inner
            .rebuild(at + 1..count, Some(&middle), model.upper.clone().as_deref())
            .expect("fewer separators fit");
        model.lower = middle;
        model.leftmost = middle_child;
        model.rest = right;
    }
}

#[test]
fn four_of_the_longest_separators_fit_between_the_longest_fences() {
    for page_bytes in [4096, 8192, 16384, 32768] {
        let longest = key_bytes_max(page_bytes);
        let key = |last: u8| [vec![b'k'; longest - 1], vec![last]].concat();
        let mut page = vec![0; page_bytes];
        let mut inner = InnerMut::format(&mut page, ID, TABLE, 1, (&key(0), Some(&key(9))), PageId::new(5));
        for last in 1..=4 {
            inner.insert_at(usize::from(last) - 1, &key(last), PageId::new(6)).expect("it fits");
        }
    }
}
