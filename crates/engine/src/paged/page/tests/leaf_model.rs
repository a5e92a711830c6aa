//! Compares leaf pages with an ordered map.

use super::super::{
    LeafMut, LeafRef, PageId, Value, check, header, image, key_bytes_max, leaf, sizes::leaf_cell_bytes_max,
};
use super::{for_seeds, key};
use crate::{Lsn, TableId};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Inline(Vec<u8>),
    Overflow(u64, u32),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Owned::Inline(bytes) => Value::Inline(bytes),
            Owned::Overflow(head, length) => Value::Overflow { head: PageId::new(*head), length: *length },
        }
    }

    fn random(rng: &mut Rng, longest: usize) -> Owned {
        if rng.u8(..) < 20 {
            return Owned::Overflow(rng.u64(3..1 << 40), rng.u32(..));
        }
        let longest = if rng.bool() { 20.min(longest) } else { longest };
        let length = rng.usize(0..=longest);
        Owned::Inline((0..length).map(|_| rng.u8(..)).collect())
    }
}

type Model = BTreeMap<Vec<u8>, Owned>;

const ID: PageId = PageId::new(77);
const TABLE: TableId = TableId::new(5);

fn space_of(model: &Model) -> usize {
    model.iter().map(|(key, value)| leaf::entry_bytes(key, &value.value())).sum()
}

fn compare(page: &mut [u8], model: &Model, rng: &mut Rng, fences: &(Vec<u8>, Option<Vec<u8>>)) {
    header::seal(page);
    check(page, ID, page.len()).expect("an edited page is well-formed");
    let leaf = LeafRef::new(page);
    let entries: Vec<_> = leaf.entries().collect();
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.as_slice(), value.value())).collect();
    assert_eq!(entries, expected);
    assert_eq!(leaf.lower_fence(), fences.0);
    assert_eq!(leaf.upper_fence(), fences.1.as_deref());
    let fence_bytes = fences.0.len() + fences.1.as_ref().map_or(0, Vec::len);
    assert_eq!(leaf.used_bytes(), space_of(model));
    assert_eq!(leaf.free_space(), page.len() - header::BYTES - fence_bytes - space_of(model));
    let probe = key(rng, 20);
    let place = model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(probe.as_slice()))).count();
    assert_eq!(leaf.search(&probe), if model.contains_key(&probe) { Ok(place) } else { Err(place) });
    assert_eq!(leaf.get(&probe), model.get(&probe).map(Owned::value));
}

fn fences(rng: &mut Rng) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut two = [key(rng, 8), key(rng, 8)];
    two.sort();
    let [lower, upper] = two;
    match rng.u8(0..4) {
        0 => (Vec::new(), None),
        1 => (lower, None),
        2 if lower < upper => (lower, Some(upper)),
        // Fences with a long common prefix, as in real keys.
        _ => ([b"user".as_slice(), &lower].concat(), Some(b"uses".to_vec())),
    }
}

fn key_within(rng: &mut Rng, (lower, upper): &(Vec<u8>, Option<Vec<u8>>), longest: usize) -> Option<Vec<u8>> {
    for _ in 0..20 {
        let mut candidate = key(rng, longest);
        if rng.bool() {
            candidate = [lower.as_slice(), &candidate].concat();
            candidate.truncate(longest);
        }
        if candidate >= *lower && upper.as_ref().is_none_or(|upper| candidate < *upper) {
            return Some(candidate);
        }
    }
    None
}

#[test]
fn leaf_behaves_as_an_ordered_map() {
    for_seeds(120, |rng| {
        let page_bytes = [512, 1024, 4096, 8192, 32768][rng.usize(0..5)];
        let mut page = vec![0xEE; page_bytes];
        let mut fences = fences(rng);
        LeafMut::format(&mut page, ID, TABLE, &fences.0, fences.1.as_deref());
        let lsn = Lsn::new(rng.u64(..));
        header::set_page_lsn(&mut page, lsn);
        let mut model = Model::new();
        let longest = key_bytes_max(page_bytes);
        for _ in 0..300 {
            step(rng, &mut page, &mut model, &mut fences, longest);
            compare(&mut page, &model, rng, &fences);
            assert_eq!(header::page_lsn(&page), lsn);
        }
    });
}

fn step(
    rng: &mut Rng,
    page: &mut [u8],
    model: &mut Model,
    fences: &mut (Vec<u8>, Option<Vec<u8>>),
    longest: usize,
) {
    let page_bytes = page.len();
    let cell_max = leaf_cell_bytes_max(page_bytes);
    let before = page.to_vec();
    let mut leaf = LeafMut::new(page);
    let picked = (!model.is_empty()).then(|| rng.usize(0..model.len()));
    match (rng.u8(0..100), picked) {
        (0..50, _) | (_, None) => {
            let Some(key) = key_within(rng, fences, longest) else { return };
            let value = Owned::random(rng, cell_max - leaf::CELL_HEADER - key.len());
            let Err(index) = leaf.view().search(&key) else { return };
            let fits = leaf.view().fits(&key, &value.value());
            let done = leaf.insert_at(index, &key, &value.value());
            assert_eq!(done.is_ok(), fits);
            if fits {
                model.insert(key, value);
            } else {
                assert_eq!(page, before, "a refused insert changes nothing");
            }
        }
        (50..70, Some(index)) => {
            let key = leaf.view().key(index).to_vec();
            let value = Owned::random(rng, cell_max - leaf::CELL_HEADER - key.len());
            let fits = leaf.view().fits_replace(index, &value.value());
            let done = leaf.replace(index, &value.value());
            assert_eq!(done.is_ok(), fits);
            if fits {
                model.insert(key, value);
            } else {
                assert_eq!(page, before, "a refused replacement changes nothing");
            }
        }
        (70..80, Some(index)) => {
            let key = leaf.view().key(index).to_vec();
            let (offset, length) = (rng.usize(0..40), rng.usize(0..20));
            let bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            let done = leaf.patch(index, offset, &bytes);
            match model.get_mut(&key) {
                Some(Owned::Inline(value)) if offset + length <= value.len() => {
                    assert!(done);
                    value[offset..offset + length].copy_from_slice(&bytes);
                }
                _ => {
                    assert!(!done);
                    assert_eq!(page, before);
                }
            }
        }
        (80..94, Some(index)) => {
            let key = leaf.view().key(index).to_vec();
            leaf.remove(index);
            model.remove(&key);
        }
        (94..97, Some(_)) if model.len() > 1 => split(rng, leaf, model, fences),
        _ => {
            let image: Vec<u8> = image::parts(page).concat();
            let mut copy = vec![0xDD; page_bytes];
            image::restore(&mut copy, ID, &image).expect("the image of a page makes that page");
            page.copy_from_slice(&copy);
        }
    }
}

fn split(rng: &mut Rng, mut leaf: LeafMut<'_>, model: &mut Model, fences: &mut (Vec<u8>, Option<Vec<u8>>)) {
    let at = rng.usize(1..leaf.view().len());
    let (left, right) = (leaf.view().key(at - 1).to_vec(), leaf.view().key(at).to_vec());
    let separator = super::super::key::separator(&left, &right).to_vec();
    assert!(left < separator && separator <= right);
    let upper_half = model.split_off(&separator);
    if rng.bool() {
        leaf.truncate(at, Some(&separator)).expect("fewer keys and a shorter fence fit");
        fences.1 = Some(separator);
    } else {
        let count = leaf.view().len();
        leaf.rebuild(at..count, Some(&separator), fences.1.as_deref()).expect("fewer keys fit");
        fences.0 = separator;
        *model = upper_half;
    }
}

#[test]
fn four_of_the_longest_entries_fit_between_the_longest_fences() {
    for page_bytes in [4096, 8192, 16384, 32768] {
        let longest = key_bytes_max(page_bytes);
        let fence = |last: u8| {
            let mut key = vec![b'k'; longest];
            key[longest - 1] = last;
            key
        };
        let mut page = vec![0; page_bytes];
        let mut leaf = LeafMut::format(&mut page, ID, TABLE, &fence(0), Some(&fence(9)));
        for last in 0..4 {
            let value = vec![1; leaf_cell_bytes_max(page_bytes) - leaf::CELL_HEADER - longest];
            leaf.insert_at(usize::from(last), &fence(last), &Value::Inline(&value)).expect("it fits");
        }
        header::seal(&mut page);
        check(&page, ID, page_bytes).expect("well-formed");
    }
}
